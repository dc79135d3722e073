//! Markov models of traffic: when streams begin, and in each of them when packets leave.
//!
//! Source: tgen (Jansen, Traudt, Hopper: Privacy-Preserving Dynamic Learning of Tor Network Traffic, CCS 2018), its
//! documentation of Markov models.

use crate::form::is_name;
use crate::model::Span;
use penstock_units::{Duration, Rng, Seed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a model says next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// `+`: a packet from the client to the server; a stream.
    ToServer,
    /// `-`: a packet from the server to the client; a stream.
    ToOrigin,
    /// `F`: nothing more.
    End,
}

/// States, what may follow each, and what each may say.
#[derive(Clone, Debug, PartialEq)]
pub struct Markov {
    states: Vec<State>,
    start: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    name: String,
    /// Weight and index of each that may follow.
    next: Vec<(f64, usize)>,
    emissions: Vec<(f64, Emission)>,
}

/// What a state may say, and how long it is until the next state is asked.
#[derive(Clone, Debug, PartialEq)]
struct Emission {
    what: Observation,
    delay: Span,
}

/// What a file says of a transition: `FROM -> TO: WEIGHT`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) weight: f64,
}

/// What a file says of an emission: `STATE -> OBSERVATION: WEIGHT after DELAY`, the end without a delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Says<'a> {
    pub(crate) state: &'a str,
    pub(crate) what: Observation,
    pub(crate) weight: f64,
    pub(crate) delay: Option<&'a str>,
}

/// Most that a weight may be, so that their sum stays far from infinity.
const MOST_WEIGHT: f64 = 1e12;

fn weight(text: &str) -> Result<f64, String> {
    let weight = text.trim().parse::<f64>().ok().filter(|weight| (0.0..=MOST_WEIGHT).contains(weight));
    weight.ok_or_else(|| format!("{:?} is no weight; it must be a number from 0", text.trim()))
}

fn state(text: &str) -> Result<&str, String> {
    let name = text.trim();
    let wrong = || format!("{name:?} is no name of a state; it must be of letters, digits, '_', '-' and '.'");
    if is_name(name, true) { Ok(name) } else { Err(wrong()) }
}

/// The two ends of an arrow and what follows the colon.
fn arrow(text: &str) -> Option<(&str, &str, &str)> {
    let (from, rest) = text.split_once("->")?;
    let (to, rest) = rest.split_once(':')?;
    Some((from, to.trim(), rest))
}

pub(crate) fn transition(text: &str) -> Result<Transition<'_>, String> {
    let (from, to, rest) =
        arrow(text).ok_or_else(|| format!("{text:?} is no transition; write it like \"start -> a: 0.5\""))?;
    Ok(Transition { from: state(from)?, to: state(to)?, weight: weight(rest)? })
}

pub(crate) fn emission(text: &str) -> Result<Says<'_>, String> {
    let example = "\"a -> +: 0.5 after exponential(3 ms)\"";
    let (from, to, rest) =
        arrow(text).ok_or_else(|| format!("{text:?} is no emission; write it like {example}"))?;
    let what = match to {
        "+" => Observation::ToServer,
        "-" => Observation::ToOrigin,
        "F" => Observation::End,
        other => return Err(format!("{other:?} is no observation; it must be one of +, -, F")),
    };
    let (share, delay) =
        rest.split_once(" after ").map_or((rest, None), |(share, delay)| (share, Some(delay)));
    if (what == Observation::End) != delay.is_none() {
        return Err(format!(
            "{text:?} must say after which delay the next comes, unless it is the end; write it like {example}"
        ));
    }
    Ok(Says { state: state(from)?, what, weight: weight(share)?, delay: delay.map(str::trim) })
}

impl Transition<'_> {
    pub(crate) fn canonical(&self) -> String {
        format!("{} -> {}: {:?}", self.from, self.to, self.weight)
    }
}

impl Says<'_> {
    /// With its delay in canonical form.
    pub(crate) fn canonical(&self, delay: Option<&str>) -> String {
        let what = match self.what {
            Observation::ToServer => '+',
            Observation::ToOrigin => '-',
            Observation::End => 'F',
        };
        let after = delay.map(|delay| format!(" after {delay}")).unwrap_or_default();
        format!("{} -> {what}: {:?}{after}", self.state, self.weight)
    }
}

impl Markov {
    /// The model of these, which begins at `start`; or what is wrong with it.
    ///
    /// A weight of 0 never happens and is as if it were not there.
    pub(crate) fn new(
        start: &str,
        transitions: &[Transition<'_>],
        emissions: &[(Says<'_>, Span)],
    ) -> Result<Self, String> {
        let named = transitions.iter().flat_map(|edge| [edge.from, edge.to]);
        let names: BTreeSet<&str> = named.chain(emissions.iter().map(|(says, _)| says.state)).collect();
        let index: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let Some(first) = index.get(start) else {
            return Err(format!("there is no state {start:?} to begin at"));
        };
        let state = |name: &&str| State { name: (*name).to_owned(), ..State::default() };
        let mut states: Vec<State> = names.iter().map(state).collect();
        for edge in transitions.iter().filter(|edge| edge.weight > 0.0) {
            states[index[edge.from]].next.push((edge.weight, index[edge.to]));
        }
        for (says, delay) in emissions.iter().filter(|(says, _)| says.weight > 0.0) {
            let emission = Emission { what: says.what, delay: delay.clone() };
            states[index[says.state]].emissions.push((says.weight, emission));
        }
        let model = Markov { states, start: *first };
        model.check()?;
        Ok(model)
    }

    fn check(&self) -> Result<(), String> {
        let start = &self.states[self.start];
        if start.next.is_empty() {
            return Err(format!("the state {:?} has no transition to another", start.name));
        }
        // Nothing is said at the start, unless it is entered again.
        for state in self.after(self.start).into_iter().map(|index| &self.states[index]) {
            if state.emissions.is_empty() {
                return Err(format!(
                    "the state {:?} is entered and says nothing; it needs an emission",
                    state.name
                ));
            }
            if state.next.is_empty() && state.emissions.iter().any(|(_, says)| says.what != Observation::End)
            {
                return Err(format!(
                    "the state {:?} has no transition to another, and does not end there",
                    state.name
                ));
            }
        }
        Ok(())
    }

    /// The states that can be entered from one.
    fn after(&self, state: usize) -> BTreeSet<usize> {
        let (mut found, mut todo) = (BTreeSet::new(), vec![state]);
        while let Some(state) = todo.pop() {
            todo.extend(
                self.states[state].next.iter().map(|(_, next)| *next).filter(|next| found.insert(*next)),
            );
        }
        found
    }

    /// A state from which on no time passes, for ever; if there is one.
    pub(crate) fn endless(&self) -> Option<&str> {
        let is_still = |index: &usize| {
            self.states[*index]
                .emissions
                .iter()
                .all(|(_, says)| says.what != Observation::End && says.delay.is_zero())
        };
        let found = self.after(self.start).into_iter().filter(is_still);
        let mut found = found.filter(|state| self.after(*state).iter().all(is_still));
        found.next().map(|state| self.states[state].name.as_str())
    }

    /// How often it says something until it ends, and how long that takes [s]: of a few walks, none of them long.
    pub(crate) fn typical(self: &Arc<Self>) -> (f64, f64) {
        const WALKS: u64 = 20;
        const STEPS: usize = 2000;
        let walk = |seed| Walk::new(self.clone(), Seed(seed).stream("typical"));
        let (mut count, mut time) = (0.0, Duration::ZERO);
        for mut walk in (0..WALKS).map(walk) {
            for (_, delay) in std::iter::from_fn(|| walk.step()).take(STEPS) {
                count += 1.0;
                time = time.saturating_add(delay);
            }
        }
        (count / WALKS as f64, time.as_secs_f64() / WALKS as f64)
    }

    /// How many states it has.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether it has no states; none that was read is so.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

/// One way through a model.
#[derive(Clone, Debug)]
pub struct Walk {
    model: Arc<Markov>,
    state: usize,
    over: bool,
    rng: Rng,
}

impl Walk {
    /// From the model's start.
    pub fn new(model: Arc<Markov>, rng: Rng) -> Self {
        let state = model.start;
        Walk { model, state, over: false, rng }
    }

    /// The next state, what it says, and how long it is from then to the next but one; `None` after the end.
    pub fn step(&mut self) -> Option<(Observation, Duration)> {
        if self.over {
            return None;
        }
        let Walk { model, state, rng, .. } = self;
        *state = *pick(&model.states[*state].next, rng);
        let Emission { what, delay } = pick(&model.states[*state].emissions, rng);
        let delay = delay.draw(rng);
        self.over = *what == Observation::End;
        (!self.over).then_some((*what, delay))
    }
}

/// One of several, by weight; there is one at least.
fn pick<'a, T>(from: &'a [(f64, T)], rng: &mut Rng) -> &'a T {
    let mut left = rng.unit() * from.iter().map(|(weight, _)| weight).sum::<f64>();
    let found = from.iter().find(|(weight, _)| {
        left -= weight;
        left < 0.0
    });
    // Rounding may leave a little of the sum over: it is the last one's.
    &found.unwrap_or(&from[from.len() - 1]).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(transitions: &[&str], emissions: &[(&str, Span)]) -> Result<Markov, String> {
        let transitions: Vec<_> = transitions.iter().map(|text| transition(text).unwrap()).collect();
        let says = |(text, delay): &(&'static str, Span)| (emission(text).unwrap(), delay.clone());
        // A literal lives long enough.
        let emissions: Vec<_> = emissions
            .iter()
            .map(|(text, delay)| {
                let text: &'static str = Box::leak((*text).to_owned().into_boxed_str());
                says(&(text, delay.clone()))
            })
            .collect();
        Markov::new("start", &transitions, &emissions)
    }

    const NOW: Span = Span::Fixed(Duration::ZERO);
    const SOON: Span = Span::Fixed(Duration::from_millis(3));

    #[test]
    fn a_walk_says_what_its_states_do_and_ends() {
        let two = model(
            &["start -> a: 1", "a -> b: 1", "b -> a: 1"],
            &[("a -> +: 1 after 0 s", SOON), ("b -> -: 3 after 0 s", NOW), ("b -> F: 1", NOW)],
        );
        let two = Arc::new(two.unwrap());
        let mut ends = 0;
        for seed in 0..2000 {
            let mut walk = Walk::new(two.clone(), Seed(seed).stream("x"));
            let said: Vec<_> = std::iter::from_fn(|| walk.step()).collect();
            for (index, says) in said.iter().enumerate() {
                let [odd, even] = [
                    (Observation::ToOrigin, Duration::ZERO),
                    (Observation::ToServer, Duration::from_millis(3)),
                ];
                assert_eq!(*says, if index % 2 == 0 { even } else { odd });
            }
            assert_eq!((said.len() % 2, walk.step()), (1, None), "it ends in b and stays there");
            ends += u32::from(said.len() == 1);
        }
        // A quarter of all end when b is entered first.
        assert!((440..560).contains(&ends), "{ends}");
    }

    #[test]
    fn what_is_wrong_with_a_model_is_said() {
        let wrong =
            |transitions: &[&str], emissions: &[(&str, Span)]| model(transitions, emissions).unwrap_err();
        assert_eq!(wrong(&["a -> a: 1"], &[("a -> F: 1", NOW)]), "there is no state \"start\" to begin at");
        assert_eq!(
            wrong(&["start -> a: 0"], &[("a -> F: 1", NOW)]),
            "the state \"start\" has no transition to another"
        );
        assert_eq!(
            wrong(&["start -> a: 1", "a -> b: 1", "b -> a: 1"], &[("a -> +: 1 after 0 s", SOON)]),
            "the state \"b\" is entered and says nothing; it needs an emission"
        );
        assert_eq!(
            wrong(&["start -> a: 1"], &[("a -> +: 1 after 0 s", SOON)]),
            "the state \"a\" has no transition to another, and does not end there"
        );
        // One that only ends needs none.
        assert!(model(&["start -> a: 1"], &[("a -> F: 1", NOW)]).is_ok());
    }

    #[test]
    fn a_model_in_which_no_time_passes_is_found() {
        let still = |emissions: &[(&str, Span)]| {
            let found = model(&["start -> a: 1", "a -> a: 1", "a -> b: 1", "b -> b: 1"], emissions).unwrap();
            found.endless().map(str::to_owned)
        };
        let [a, b] = ["a -> +: 1 after 0 s", "b -> +: 1 after 0 s"];
        assert_eq!(still(&[(a, NOW), (b, NOW)]), Some("a".to_owned()));
        assert_eq!(still(&[(a, SOON), (b, NOW)]), Some("b".to_owned()));
        assert_eq!(still(&[(a, NOW), (b, SOON)]), None, "a is left");
        assert_eq!(still(&[(a, NOW), (b, NOW), ("b -> F: 0.1", NOW)]), None, "b ends");
    }

    #[test]
    fn lines_are_read_and_written_in_one_way() {
        let line = transition(" start->a.1 : 5e-1 ").unwrap();
        assert_eq!(line.canonical(), "start -> a.1: 0.5");
        let says = emission("a -> - : 2 after  3 ms").unwrap();
        assert_eq!(says.canonical(Some("3 ms")), "a -> -: 2.0 after 3 ms");
        for wrong in ["a", "a -> b", "a -> b: -1", "a -> b: nan", "a -> b: inf", "a b -> c: 1", " -> a: 1"] {
            assert!(transition(wrong).is_err(), "{wrong}");
        }
        for wrong in ["a", "a -> +: 1", "a -> F: 1 after 3 s", "a -> $: 1 after 3 s", "a -> +: x after 3 s"] {
            assert!(emission(wrong).is_err(), "{wrong}");
        }
    }
}
