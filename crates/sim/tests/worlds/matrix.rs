//! G-01, G-02: every combination of algorithms in a small network that loses, reorders and duplicates packets.
//!
//! The choices and the rules for incompatible choices come from the scenario's schema, so new kinds and modes are
//! included. In `make test` every pair of choices meets in some network; `make matrix` runs all combinations.
//! `SimCell::peel` asserts that no cell is lost, duplicated or reordered.

use crate::choices::{Choice, choices, refusal};
use crate::util::{Lab, assert_conserved, assert_queues_match_cell_stamps, node};
use penstock_record::Outcome as Ending;
use std::collections::BTreeSet;

/// A slow relay between two fast ones; two browsing clients, one client with timeouts and new circuits, one bulk
/// client.
const WORLD: &str = r#"
[scenario]
title = "a world for every combination"
[run]
duration = "4 s"
sample = "1 s"
[trace]
workloads = ["bulk", "web"]
interval = "100 ms"
cells = 1
[network]
rtt = "20 ms"
loss = 0.01
reorder = 0.03
duplicate = 0.02
[relay]
datagram_timeout = "200 ms"
bandwidth_rate = "500 KiB/s"
bandwidth_burst = "100 KiB"
refill = "20 ms"
ecn_threshold = 5
[relays.entry]
[relays.middle]
link = "200 KiB/s"
[relays.exit]
[client]
datagram_timeout = "200 ms"
path = ["entry", "middle", "exit"]
[servers.destination]
[workloads.web]
size = "uniform(5 KiB, 30 KiB)"
pause = "uniform(0 s, 200 ms)"
start = "uniform(0 s, 200 ms)"
[workloads.bulk]
size = "1 GiB"
start = "100 ms"
[workloads.hasty]
size = "uniform(5 KiB, 60 KiB)"
pause = "uniform(0 s, 200 ms)"
fresh_circuit = true
timeout = "700 ms"
[clients.web]
workload = "web"
count = 2
[clients.hasty]
workload = "hasty"
[clients.bulk]
workload = "bulk"
"#;

/// Parameters with which an algorithm has an effect even in a short run.
const LIVELY: [(&str, &[(&str, &str)]); 3] = [
    ("circuit_policy", &[("half_life", "'1 s'")]),
    ("hop_control", &[("n3", "100")]),
    (
        "throttle",
        &[
            ("rate", "'60 KiB/s'"),
            ("burst", "'20 KiB'"),
            ("fraction", "0.5"),
            ("refresh", "'500 ms'"),
            ("half_life", "'1 s'"),
        ],
    ),
];

/// The index of one choice for each key.
type Combination = Vec<usize>;

/// All choices, and the rules for incompatible choices.
struct Matrix {
    keys: Vec<Vec<Choice>>,
}

impl Matrix {
    fn new() -> Self {
        Matrix { keys: choices() }
    }

    fn of<'a>(&'a self, combination: &'a [usize]) -> impl Iterator<Item = &'a Choice> {
        self.keys.iter().zip(combination).map(|(choices, choice)| &choices[*choice])
    }

    /// The reason why these choices are incompatible. A key without a choice is `None`.
    fn refusal(&self, some: &[Option<usize>]) -> Option<String> {
        let chosen = self.keys.iter().zip(some).filter_map(|(choices, choice)| Some(&choices[(*choice)?]));
        let together: Vec<_> = chosen.map(|choice| (choice.key, choice.kind)).collect();
        refusal(&together)
    }

    /// All combinations, including those that the parser refuses.
    fn product(&self) -> impl Iterator<Item = Combination> {
        let total: usize = self.keys.iter().map(Vec::len).product();
        (0..total).map(|mut number| {
            let digit = |choices: &Vec<Choice>| {
                let digit = number % choices.len();
                number /= choices.len();
                digit
            };
            self.keys.iter().map(digit).collect()
        })
    }

    fn admits(&self, combination: &[usize]) -> bool {
        self.refusal(&combination.iter().copied().map(Some).collect::<Vec<_>>()).is_none()
    }

    /// All compatible pairs of choices of two keys. Each choice is given as the indices of key and choice.
    fn pairs(&self) -> BTreeSet<[(usize, usize); 2]> {
        let mut pairs = BTreeSet::new();
        for (one, first) in self.keys.iter().enumerate() {
            for (other, second) in self.keys.iter().enumerate().skip(one + 1) {
                for (a, b) in (0..first.len()).flat_map(|a| (0..second.len()).map(move |b| (a, b))) {
                    let mut some = vec![None; self.keys.len()];
                    (some[one], some[other]) = (Some(a), Some(b));
                    if self.refusal(&some).is_none() {
                        pairs.insert([(one, a), (other, b)]);
                    }
                }
            }
        }
        pairs
    }

    /// A small set of combinations that contains every compatible pair. Each combination begins with the first missing
    /// pair, and takes for every other key the choice with the most missing pairs.
    fn pairwise(&self) -> Vec<Combination> {
        let mut missing = self.pairs();
        let mut all = Vec::new();
        while let Some([(one, a), (other, b)]) = missing.first().copied() {
            let mut some = vec![None; self.keys.len()];
            (some[one], some[other]) = (Some(a), Some(b));
            for key in 0..self.keys.len() {
                if some[key].is_none() {
                    some[key] = Some(self.best(&some, key, &missing));
                }
            }
            let combination: Combination = some.into_iter().flatten().collect();
            let before = missing.len();
            missing.retain(|pair| pair.iter().any(|(key, choice)| combination[*key] != *choice));
            assert!(missing.len() < before);
            all.push(combination);
        }
        all
    }

    fn best(&self, some: &[Option<usize>], key: usize, missing: &BTreeSet<[(usize, usize); 2]>) -> usize {
        let brings = |choice: usize| {
            let chosen = some.iter().enumerate().filter_map(|(other, choice)| Some((other, (*choice)?)));
            chosen
                .filter(|other| {
                    let mut pair = [(key, choice), *other];
                    pair.sort_unstable();
                    missing.contains(&pair)
                })
                .count()
        };
        let fits = |choice: &usize| {
            let mut some = some.to_vec();
            some[key] = Some(*choice);
            self.refusal(&some).is_none()
        };
        let candidates = (0..self.keys[key].len()).filter(fits);
        // The first of the best; max_by_key would return the last.
        candidates
            .rev()
            .max_by_key(|choice| brings(*choice))
            .expect("a default is compatible with all choices")
    }

    fn lab(&self, combination: &[usize]) -> Lab {
        self.of(combination).fold(Lab::of(WORLD), |lab, choice| {
            let more = LIVELY.iter().find(|(key, _)| *key == choice.key).map_or(&[][..], |(_, more)| more);
            let value = choice.toml(more);
            // Only relays serve clients.
            let lab = if choice.key == "throttle" {
                lab
            } else {
                lab.set(&format!("client.{}", choice.key), &value)
            };
            lab.set(&format!("relay.{}", choice.key), &value)
        })
    }

    fn name(&self, combination: &[usize]) -> String {
        let each = self.of(combination).map(|choice| format!("{} = {}", choice.key, choice.toml(&[])));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Runs a combination and checks the result.
    fn check(&self, combination: &[usize]) -> Result<(), String> {
        let checked = std::panic::catch_unwind(|| {
            let outcome = self.lab(combination).run_variant("default", 1);
            assert_conserved(&outcome);
            assert!(assert_queues_match_cell_stamps(&outcome) > 0, "the test compared no queue");
            let transfers = &outcome.tables.transfers;
            assert!(transfers.iter().all(|row| row.outcome != Ending::Failed), "a download failed");
            let pages = transfers.iter().filter(|row| row.outcome == Ending::Ok).count();
            assert!(pages > 0, "no page came");
            // A doubled timeout may take a second.
            let late = outcome.tables.relays.iter().filter(|row| row.t_s > 2.0 && row.written_cells > 0);
            let busy: BTreeSet<_> = late.map(|row| &*row.relay).collect();
            assert_eq!(busy.len(), 3, "in the second half only {busy:?} of the relays carry cells");
            let sent: u64 = outcome.nodes.iter().map(|node| node.datagrams.sent).sum();
            let datagrams = self.of(combination).any(|choice| choice.kind == "datagram");
            assert_eq!(sent > 0, datagrams);
            assert!(node(&outcome, "bulk").counters.data_delivered > 50, "the bulk client receives cells");
        });
        checked.map_err(|reason| {
            let said = reason.downcast_ref::<String>().cloned();
            let said = said.or_else(|| reason.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            format!("{}: {}", self.name(combination), said.unwrap_or_default())
        })
    }

    fn check_all(&self, combinations: impl Iterator<Item = Combination>) {
        let (mut ran, mut wrong) = (0, Vec::new());
        for combination in combinations {
            ran += 1;
            wrong.extend(self.check(&combination).err());
            if ran % 1000 == 0 {
                println!("{ran} ran, {} are wrong", wrong.len());
            }
        }
        println!("{ran} combinations ran");
        assert!(wrong.is_empty(), "{} of {ran} combinations fail:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn every_pair_of_choices_conserves_cells() {
    let matrix = Matrix::new();
    matrix.check_all(matrix.pairwise().into_iter());
}

/// The first key varies fastest, so similar combinations are adjacent.
#[test]
#[ignore = "too long: run it with make matrix"]
fn every_combination_conserves_cells() {
    let matrix = Matrix::new();
    matrix.check_all(matrix.product().filter(|combination| matrix.admits(combination)));
}

/// The parser refuses exactly the combinations that the rules refuse, with the same message.
#[test]
fn the_parser_rejects_incompatible_choices() {
    let matrix = Matrix::new();
    let (mut refused, mut admitted) = (0, 0);
    // Every 997th combination: with a prime all digits change.
    for combination in matrix.product().step_by(997) {
        let some: Vec<_> = combination.iter().copied().map(Some).collect();
        match (matrix.refusal(&some), matrix.lab(&combination).parse()) {
            (None, Ok(_)) => admitted += 1,
            (Some(why), Err(mistake)) if mistake.to_string().ends_with(&why) => refused += 1,
            (why, parsed) => panic!("{}: {why:?}, {:?}", matrix.name(&combination), parsed.err()),
        }
    }
    assert!(refused > 10 && admitted > 50, "{refused} refused, {admitted} not");
}

#[test]
fn the_pairs_cover_all_choices_and_are_few() {
    let matrix = Matrix::new();
    let rows = matrix.pairwise();
    assert!(rows.iter().all(|row| matrix.admits(row)));
    for [(one, a), (other, b)] in matrix.pairs() {
        assert!(rows.iter().any(|row| row[one] == a && row[other] == b));
    }
    let mut sizes: Vec<usize> = matrix.keys.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    // A lower bound: the pairs of two keys.
    let least: usize = sizes.iter().rev().take(2).product();
    println!("{} rows for {} pairs; {sizes:?} choices", rows.len(), matrix.pairs().len());
    assert!((least..2 * least).contains(&rows.len()), "{} rows, {least} at least", rows.len());
}
