//! Warns if a few short delays shorten the simulator's look-ahead.
//!
//! The simulator handles the events of a host up to one look-ahead after the first event of all hosts. The look-ahead is
//! the shortest delay of the network, so one short delay makes a run of a large network slower. Small networks are fast
//! with any look-ahead.

use crate::error::Origin;
use crate::keys::Read;
use crate::model::{Latency, Scenario};
use crate::sections::Sections;
use crate::sections::network::{NetworkKeys, PairKeys};
use penstock_network::Places;
use penstock_units::{Duration, parse::show_duration};
use std::collections::BTreeMap;

/// A look-ahead counts as shortened if the network without a few short delays has one that is this many times longer.
const TIMES: u32 = 4;

/// A network with at least this number of nodes is large [1].
const LARGE: usize = 100;

/// Short delays are few if they are at most one of this number of delays.
const FEW: usize = 100;

/// The warning about the shortest delay, with its place in the file.
pub(crate) fn check(sections: &Sections, scenario: &Scenario) -> Option<(Origin, String)> {
    let (network, nodes) = (&sections.network, Nodes::new(scenario));
    if nodes.all < LARGE {
        return None;
    }
    of_pairs(network, scenario, &nodes).or_else(|| of_edges(network, scenario))
}

fn of_pairs(network: &Read<NetworkKeys>, scenario: &Scenario, nodes: &Nodes<'_>) -> Option<(Origin, String)> {
    let pairs = &network.keys.exceptions.pairs;
    let delay = |pair: &Read<PairKeys>| {
        let [one, other] = names(pair)?;
        let sorted = if one > other { (other, one) } else { (one, other) };
        scenario.network.exceptions.get(&sorted).map(|wires| wires[0].delay.min(wires[1].delay))
    };
    let usual = scenario.network.shortest_usual_delay();
    let all: Vec<_> = pairs.iter().filter_map(|pair| Some((delay(pair)?, pair))).collect();
    let (short, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(delay, _)| is_much_shorter(*delay, usual));
    let (shortest, pair) = short.iter().min_by_key(|(delay, _)| *delay)?;
    let covered: usize = short.iter().filter_map(|(_, pair)| Some(nodes.pairs(&names(pair)?))).sum();
    let next = others.iter().map(|(delay, _)| *delay).fold(usual, Duration::min);
    if covered * FEW > nodes.all_pairs() || !is_much_shorter(*shortest, next) {
        return None;
    }
    let [one, other] = names(pair)?;
    let what = format!("the delay between {one:?} and {other:?}");
    let key = if pair.sets("latency") { "latency" } else { "rtt" };
    let text = message(&format!("{}.{key}", pair.path), &what, *shortest, next);
    Some((pair.wrong(key, "").at, text))
}

/// The number of nodes with each name: of nodes, groups and sections.
struct Nodes<'a> {
    counts: BTreeMap<&'a str, usize>,
    all: usize,
}

impl<'a> Nodes<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let relays = scenario.relays.iter().map(|relay| &relay.host);
        let clients = scenario.clients.iter().map(|client| &client.host);
        let hosts = relays.chain(clients).chain(scenario.servers.iter().map(|server| &server.host));
        let mut nodes = Nodes { counts: BTreeMap::new(), all: 0 };
        for host in hosts {
            nodes.all += 1;
            *nodes.counts.entry(host.group.section).or_default() += 1;
            *nodes.counts.entry(&host.group.name).or_default() += 1;
            if *host.name != *host.group.name {
                nodes.counts.insert(&host.name, 1);
            }
        }
        nodes
    }

    /// The number of pairs of nodes with these names, with each direction.
    fn pairs(&self, names: &[String; 2]) -> usize {
        let [one, other] = [0, 1].map(|k| self.counts.get(&names[k][..]).copied().unwrap_or(1));
        2 * one * other
    }

    fn all_pairs(&self) -> usize {
        self.all * self.all
    }
}

/// The two names of a pair.
fn names(pair: &Read<PairKeys>) -> Option<[String; 2]> {
    pair.keys.between.clone().try_into().ok()
}

fn of_edges(network: &Read<NetworkKeys>, scenario: &Scenario) -> Option<(Origin, String)> {
    let Latency::Places(places, None) = &scenario.network.latency else { return None };
    let (shortest, [from, to], next) = shortest_edge(places)?;
    let name = |place: usize| &places.all()[place].name;
    let what = format!("the delay from {:?} to {:?}", name(from), name(to));
    let origin = network.wrong("edges.latency", "").at;
    is_much_shorter(shortest, next).then(|| (origin, message("network.edges.latency", &what, shortest, next)))
}

/// The shortest delay between two places, and the shortest one without a few short delays.
fn shortest_edge(places: &Places) -> Option<(Duration, [usize; 2], Duration)> {
    let count = places.all().len();
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| [from, to]));
    let delay = |[from, to]: [usize; 2]| {
        let way = places.between(from, to);
        (way.delay.saturating_sub(way.jitter), [from, to])
    };
    let mut delays: Vec<_> = pairs.map(delay).collect();
    let (short, next, _) = delays.select_nth_unstable(count * count / FEW);
    let (shortest, pair) = *short.iter().min()?;
    Some((shortest, pair, next.0))
}

fn is_much_shorter(shortest: Duration, next: Duration) -> bool {
    shortest * TIMES < next
}

fn message(key: &str, what: &str, shortest: Duration, next: Duration) -> String {
    let [shortest, next] = [shortest, next].map(show_duration);
    format!(
        "{key}: {what} shortens the simulator's look-ahead from {next} to {shortest}, so runs of large networks are slower; lengthen it if possible"
    )
}
