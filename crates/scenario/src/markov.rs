//! Markov models of traffic. They determine when streams start and when their packets leave.
//!
//! Source: tgen (Jansen, Traudt, Hopper: Privacy-Preserving Dynamic Learning of Tor Network Traffic, CCS 2018), its
//! documentation of Markov models.

use crate::distribution::Span;
use penstock_units::{Duration, Rng, Seed};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// An emission of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// `+`: the client sends a packet, or a stream starts.
    ToServer,
    /// `-`: the server sends a packet, or a stream starts.
    ToOrigin,
    /// `F`: the end of the walk.
    End,
}

/// A Markov model: states, transitions between states, and the emissions of each state.
#[derive(Clone, Debug, PartialEq)]
pub struct Markov {
    states: Vec<State>,
    start: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    name: String,
    /// Weight and index of each possible next state.
    next: Vec<(f64, usize)>,
    /// Weight of each emission, the emission, and the delay before the walk enters the next state.
    emissions: Vec<(f64, Observation, Span)>,
}

/// A transition of a scenario file: `FROM -> TO: WEIGHT`.
#[derive(Clone, Debug)]
pub(crate) struct Transition {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) weight: f64,
}

/// An emission of a scenario file: `STATE -> OBSERVATION: WEIGHT after DELAY`. The end `F` has no delay.
#[derive(Clone, Debug)]
pub(crate) struct Emission {
    pub(crate) state: String,
    pub(crate) observation: Observation,
    pub(crate) weight: f64,
    pub(crate) delay: Option<Span>,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}: {:?}", self.from, self.to, self.weight)
    }
}

impl fmt::Display for Emission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observation = match self.observation {
            Observation::ToServer => '+',
            Observation::ToOrigin => '-',
            Observation::End => 'F',
        };
        write!(f, "{} -> {observation}: {:?}", self.state, self.weight)?;
        self.delay.iter().try_for_each(|delay| write!(f, " after {delay}"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MarkovError {
    #[error("no transition or emission has the start state {0:?}; add \"{0} -> STATE: 1\"")]
    UnknownStart(String),
    #[error("the start state {0:?} has no transition; add \"{0} -> STATE: 1\"")]
    StartWithoutTransition(String),
    #[error("the model can enter the state {0:?}, which has no emission; add one")]
    StateWithoutEmission(String),
    #[error("the state {0:?} has no transition to another state, and no emission F; add one of the two")]
    StateWithoutEnd(String),
}

impl Markov {
    /// Builds a model that starts in the state `start`. Drops transitions and emissions with weight 0.
    pub(crate) fn new(
        start: &str,
        transitions: &[Transition],
        emissions: &[Emission],
    ) -> Result<Self, MarkovError> {
        let named = transitions.iter().flat_map(|edge| [&edge.from[..], &edge.to[..]]);
        let names: BTreeSet<&str> =
            named.chain(emissions.iter().map(|emission| &emission.state[..])).collect();
        let index: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let first = index.get(start).ok_or_else(|| MarkovError::UnknownStart(start.to_owned()))?;
        let state = |name: &&str| State { name: (*name).to_owned(), ..State::default() };
        let mut states: Vec<State> = names.iter().map(state).collect();
        for edge in transitions.iter().filter(|edge| edge.weight > 0.0) {
            states[index[&edge.from[..]]].next.push((edge.weight, index[&edge.to[..]]));
        }
        for emission in emissions.iter().filter(|emission| emission.weight > 0.0) {
            let delay = emission.delay.clone().unwrap_or(Span::Fixed(Duration::ZERO));
            states[index[&emission.state[..]]].emissions.push((emission.weight, emission.observation, delay));
        }
        let model = Markov { states, start: *first };
        model.check()?;
        Ok(model)
    }

    fn check(&self) -> Result<(), MarkovError> {
        let start = &self.states[self.start];
        if start.next.is_empty() {
            return Err(MarkovError::StartWithoutTransition(start.name.clone()));
        }
        // The start state needs no emissions, unless a transition leads back to it.
        for state in self.after(self.start).into_iter().map(|index| &self.states[index]) {
            if state.emissions.is_empty() {
                return Err(MarkovError::StateWithoutEmission(state.name.clone()));
            }
            if state.next.is_empty()
                && state.emissions.iter().any(|(_, observation, _)| *observation != Observation::End)
            {
                return Err(MarkovError::StateWithoutEnd(state.name.clone()));
            }
        }
        Ok(())
    }

    /// All states that a walk can reach from `state`.
    fn after(&self, state: usize) -> BTreeSet<usize> {
        let (mut found, mut todo) = (BTreeSet::new(), vec![state]);
        while let Some(state) = todo.pop() {
            todo.extend(
                self.states[state].next.iter().map(|(_, next)| *next).filter(|next| found.insert(*next)),
            );
        }
        found
    }

    /// Looks for a state after which no walk can end and no time passes. Such a model cannot run.
    pub(crate) fn endless(&self) -> Option<&str> {
        let is_still = |index: &usize| {
            self.states[*index]
                .emissions
                .iter()
                .all(|(_, observation, delay)| *observation != Observation::End && delay.is_zero())
        };
        let found = self.after(self.start).into_iter().filter(is_still);
        let mut found = found.filter(|state| self.after(*state).iter().all(is_still));
        found.next().map(|state| self.states[state].name.as_str())
    }

    /// The mean number of emissions of a walk, and the mean duration of a walk [s]. Both are measured in a few short
    /// walks.
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

    /// The number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether the model has no states. A model from a scenario has at least one.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

/// A random walk through a model.
#[derive(Clone, Debug)]
pub struct Walk {
    model: Arc<Markov>,
    state: usize,
    over: bool,
    rng: Rng,
}

impl Walk {
    /// A walk that starts in the model's start state.
    pub fn new(model: Arc<Markov>, rng: Rng) -> Self {
        let state = model.start;
        Walk { model, state, over: false, rng }
    }

    /// The next emission, and the delay until the following emission; `None` after the end.
    pub fn step(&mut self) -> Option<(Observation, Duration)> {
        if self.over {
            return None;
        }
        let Walk { model, state, rng, .. } = self;
        let (_, next) = pick(&model.states[*state].next, rng, |(weight, _)| *weight);
        *state = *next;
        let (_, observation, delay) = pick(&model.states[*state].emissions, rng, |(weight, ..)| *weight);
        let delay = delay.draw(rng);
        self.over = *observation == Observation::End;
        (!self.over).then_some((*observation, delay))
    }
}

/// Samples an item by its weight. `from` is not empty.
fn pick<'a, T>(from: &'a [T], rng: &mut Rng, weight: impl Fn(&T) -> f64) -> &'a T {
    let mut left = rng.unit() * from.iter().map(&weight).sum::<f64>();
    let found = from.iter().find(|one| {
        left -= weight(one);
        left < 0.0
    });
    // If rounding leaves a small remainder of the sum, the last item is the result.
    found.unwrap_or(&from[from.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Span = Span::Fixed(Duration::ZERO);
    const SOON: Span = Span::Fixed(Duration::from_millis(3));

    fn model(
        transitions: &[(&str, &str, f64)],
        emissions: &[(&str, Observation, f64, Span)],
    ) -> Result<Markov, MarkovError> {
        let transition = |&(from, to, weight): &(&str, &str, f64)| Transition {
            from: from.to_owned(),
            to: to.to_owned(),
            weight,
        };
        let emission = |(state, observation, weight, delay): &(&str, Observation, f64, Span)| Emission {
            state: (*state).to_owned(),
            observation: *observation,
            weight: *weight,
            delay: Some(delay.clone()),
        };
        let transitions: Vec<_> = transitions.iter().map(transition).collect();
        Markov::new("start", &transitions, &emissions.iter().map(emission).collect::<Vec<_>>())
    }

    use Observation::{End, ToOrigin, ToServer};

    #[test]
    fn a_walk_emits_by_its_states_and_ends() {
        let two = model(
            &[("start", "a", 1.0), ("a", "b", 1.0), ("b", "a", 1.0)],
            &[("a", ToServer, 1.0, SOON), ("b", ToOrigin, 3.0, NOW), ("b", End, 1.0, NOW)],
        );
        let two = Arc::new(two.unwrap());
        let mut ends = 0;
        for seed in 0..2000 {
            let mut walk = Walk::new(two.clone(), Seed(seed).stream("x"));
            let emitted: Vec<_> = std::iter::from_fn(|| walk.step()).collect();
            for (index, emission) in emitted.iter().enumerate() {
                let [odd, even] = [(ToOrigin, Duration::ZERO), (ToServer, Duration::from_millis(3))];
                assert_eq!(*emission, if index % 2 == 0 { even } else { odd });
            }
            assert_eq!((emitted.len() % 2, walk.step()), (1, None), "the walk ends in b and stays there");
            ends += u32::from(emitted.len() == 1);
        }
        // A quarter of all walks end at the first visit of b.
        assert!((440..560).contains(&ends), "{ends}");
    }

    #[test]
    fn a_model_that_cannot_run_is_rejected() {
        let error =
            |transitions: &[_], emissions: &[_]| model(transitions, emissions).unwrap_err().to_string();
        let end = ("a", End, 1.0, NOW);
        assert_eq!(
            error(&[("a", "a", 1.0)], std::slice::from_ref(&end)),
            "no transition or emission has the start state \"start\"; add \"start -> STATE: 1\""
        );
        assert_eq!(
            error(&[("start", "a", 0.0)], std::slice::from_ref(&end)),
            "the start state \"start\" has no transition; add \"start -> STATE: 1\""
        );
        assert_eq!(
            error(&[("start", "a", 1.0), ("a", "b", 1.0), ("b", "a", 1.0)], &[("a", ToServer, 1.0, SOON)]),
            "the model can enter the state \"b\", which has no emission; add one"
        );
        assert_eq!(
            error(&[("start", "a", 1.0)], &[("a", ToServer, 1.0, SOON)]),
            "the state \"a\" has no transition to another state, and no emission F; add one of the two"
        );
        // A state that only ends needs no transition.
        assert!(model(&[("start", "a", 1.0)], &[end]).is_ok());
    }

    #[test]
    fn a_model_without_delays_is_found() {
        let endless = |emissions: &[_]| {
            let edges = [("start", "a", 1.0), ("a", "a", 1.0), ("a", "b", 1.0), ("b", "b", 1.0)];
            model(&edges, emissions).unwrap().endless().map(str::to_owned)
        };
        let [a, b] = [|delay| ("a", ToServer, 1.0, delay), |delay| ("b", ToServer, 1.0, delay)];
        assert_eq!(endless(&[a(NOW), b(NOW)]), Some("a".to_owned()));
        assert_eq!(endless(&[a(SOON), b(NOW)]), Some("b".to_owned()));
        assert_eq!(endless(&[a(NOW), b(SOON)]), None, "the walk leaves a");
        assert_eq!(endless(&[a(NOW), b(NOW), ("b", End, 0.1, NOW)]), None, "the walk ends in b");
    }
}
