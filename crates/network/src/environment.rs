//! Generated places that resemble those of a published experiment.
//!
//! Relays, clients and servers have separate places, [`PER_KIND`] each. A quantity of the places of one kind has the
//! quantiles that it has over the hosts of the experiment. The latency between two places comes from the quantiles of
//! the latencies between hosts of both kinds. Its probability is that of a normal score: a part of the score belongs to
//! each of the two places, and the rest to the pair. So a place that is far from one place is far from most others.
//!
//! Source: the topologies and the example networks of Shadow 1.9.0 and 1.5.0 (docs/reference/networks.md).

use crate::places::{Edge, Place, Places};
use penstock_units::{DataRate, Rng, Seed, math};
use std::sync::LazyLock;

/// Quantiles of all environments; each line is `environment,kind,quantity,values`. Losses are in parts per million,
/// rates in KiB/s and latencies in microseconds. All other values are in thousandths.
const TABLES: &str = include_str!("../data/environments.csv");

static ENVIRONMENTS: LazyLock<[Environment; Environment::NAMES.len()]> =
    LazyLock::new(|| Environment::NAMES.map(Environment::read));

const KINDS: [&str; 3] = ["relay", "client", "server"];

/// The number of places of each kind [1].
pub const PER_KIND: usize = 64;

/// The quantiles 0 %, 5 % ... 100 %.
type Quantiles = [u32; 21];

/// The distributions of loss, latency and links over the hosts of a published experiment.
#[derive(Debug, PartialEq)]
pub struct Environment {
    /// The name in scenarios.
    pub name: &'static str,
    /// The loss of places with relays, with clients and with servers [1/1,000,000].
    loss: [Quantiles; 3],
    /// The default access links of clients [KiB/s].
    down: Quantiles,
    up: Quantiles,
    /// The latencies between relays, clients and relays, relays and servers, clients and servers [us].
    latency: [Quantiles; 4],
    /// The ratio of jitter to latency [1/1000].
    jitter: Quantiles,
    /// The share of the variance of a latency's score that one place explains [1/1000]; below 500.
    place_share: u32,
    /// The correlation between nearness and the links of clients [1/1000].
    links: u32,
}

impl Environment {
    /// The environments for which this crate has tables.
    pub const NAMES: [&'static str; 2] = ["shadow-2012", "shadow-2014"];

    /// The environment with this name; `None` if there are no tables for it.
    pub fn of(name: &str) -> Option<&'static Environment> {
        Environment::NAMES.iter().position(|known| *known == name).map(|place| &ENVIRONMENTS[place])
    }

    fn read(name: &'static str) -> Environment {
        Environment {
            name,
            loss: KINDS.map(|kind| numbers(name, kind, "loss")),
            down: numbers(name, "client", "down"),
            up: numbers(name, "client", "up"),
            latency: ["relay-relay", "client-relay", "relay-server", "client-server"]
                .map(|pair| numbers(name, pair, "latency")),
            jitter: numbers(name, "all", "jitter"),
            place_share: numbers::<1>(name, "all", "place_share")[0],
            links: numbers::<1>(name, "client", "links")[0],
        }
    }

    /// Samples the places of one network.
    pub fn draw(&self, seed: Seed) -> Places {
        let (mut places, mut scores) = (Vec::new(), Vec::new());
        for (kind, of_kind) in KINDS.iter().enumerate() {
            let mut rng = seed.stream(&format!("network/places/{of_kind}"));
            let far = shuffled(&mut rng).map(score);
            let loss = shuffled(&mut rng);
            let links = self.links(&far, &mut rng);
            for place in 0..PER_KIND {
                let rate = |kib: &Quantiles| {
                    DataRate::new((at(kib, links[place]) * 1024.0) as u64)
                        .expect("no quantile of a rate is zero")
                };
                let mut weights = [0; 3];
                weights[kind] = 1;
                places.push(Place {
                    name: format!("{of_kind}s-{}", place + 1),
                    country: None,
                    down: Some(rate(&self.down)),
                    up: Some(rate(&self.up)),
                    loss: at(&self.loss[kind], loss[place]) / 1e6,
                    weights,
                });
            }
            scores.extend(far);
        }
        let edges = self.edges(&scores, &mut seed.stream("network/edges"));
        Places::new(places, edges)
    }

    /// The probabilities of the links of places with these scores. Near places have faster links.
    fn links(&self, far: &[f64; PER_KIND], rng: &mut Rng) -> [f64; PER_KIND] {
        let near = f64::from(self.links) / 1000.0;
        let rest = math::sqrt(1.0 - near * near);
        let mut order: Vec<(f64, usize)> =
            far.iter().enumerate().map(|(place, far)| (rest * rng.normal() - near * far, place)).collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut ranks = [0.0; PER_KIND];
        for (rank, (_, place)) in order.into_iter().enumerate() {
            ranks[place] = (rank as f64 + rng.unit()) / PER_KIND as f64;
        }
        ranks
    }

    /// The edges between all places; both directions of a pair are equal.
    fn edges(&self, scores: &[f64], rng: &mut Rng) -> Vec<Edge> {
        let count = scores.len();
        let share = f64::from(self.place_share) / 1000.0;
        let (of_place, of_pair) = (math::sqrt(share), math::sqrt(1.0 - 2.0 * share));
        let mut edges = vec![Edge::default(); count * count];
        for from in 0..count {
            for to in from..count {
                let score = of_place * (scores[from] + scores[to]) + of_pair * rng.normal();
                let quantiles = match (from / PER_KIND, to / PER_KIND) {
                    (0, 0) => &self.latency[0],
                    (0, 1) | (1, 1) => &self.latency[1],
                    (1, 2) => &self.latency[3],
                    _ => &self.latency[2],
                };
                let latency = at(quantiles, math::normal_below(score)).max(1.0);
                // As in the reader of the original files, a delay of 1 ms remains.
                let jitter = (latency * at(&self.jitter, rng.unit()) / 1000.0).min(latency - 1000.0).max(0.0);
                let edge = Edge { latency: latency as u32, jitter: jitter as u32, loss: 0.0 };
                (edges[from * count + to], edges[to * count + from]) = (edge, edge);
            }
        }
        edges
    }
}

fn numbers<const N: usize>(name: &str, kind: &str, quantity: &str) -> [u32; N] {
    let prefix = format!("{name},{kind},{quantity},");
    let row = TABLES.lines().find_map(|row| row.strip_prefix(&prefix[..]));
    let values = row.expect("environments.csv has every quantity of every environment").split(' ');
    let values: Vec<u32> = values
        .map(|value| value.parse().expect("the values of environments.csv are whole numbers"))
        .collect();
    values.try_into().expect("a quantity has as many values as its quantiles")
}

/// The quantile of the probability `rank`, interpolated linearly.
fn at(values: &Quantiles, rank: f64) -> f64 {
    let steps = (values.len() - 1) as f64;
    let step = ((rank * steps) as usize).min(values.len() - 2);
    let [low, high] = [step, step + 1].map(|step| f64::from(values[step]));
    low + (high - low) * (rank * steps - step as f64)
}

/// One number in each of [`PER_KIND`] equal parts of `[0, 1)`, in random order.
fn shuffled(rng: &mut Rng) -> [f64; PER_KIND] {
    let mut ranks = [0.0; PER_KIND];
    for (place, rank) in ranks.iter_mut().enumerate() {
        *rank = (place as f64 + rng.unit()) / PER_KIND as f64;
    }
    for last in (1..PER_KIND).rev() {
        ranks.swap(last, rng.below(last as u64 + 1) as usize);
    }
    ranks
}

/// The value of the standard normal distribution with this probability.
fn score(rank: f64) -> f64 {
    const STEPS: u32 = 50;
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if math::normal_below(middle) < rank { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantile(values: &mut [f64], rank: f64) -> f64 {
        values.sort_by(f64::total_cmp);
        values[((values.len() - 1) as f64 * rank).round() as usize]
    }

    #[test]
    fn generated_places_have_the_quantiles_of_the_environment() {
        for environment in ENVIRONMENTS.iter() {
            let drawn: Vec<Places> = (1..5).map(|seed| environment.draw(Seed(seed))).collect();
            for rank in [0.1, 0.25, 0.5, 0.75, 0.9] {
                let check = |what: &str, mut values: Vec<f64>, right: f64, allowed: f64| {
                    let found = quantile(&mut values, rank);
                    let share = found / right - 1.0;
                    assert!(share.abs() < allowed, "{} {what} {rank}: {found}, {right}", environment.name);
                };
                let each = |kind: usize| {
                    drawn.iter().flat_map(move |places| &places.all()[kind * PER_KIND..][..PER_KIND])
                };
                for kind in 0..3 {
                    let loss = each(kind).map(|place| place.loss * 1e6).collect();
                    check("loss", loss, at(&environment.loss[kind], rank), 0.1);
                }
                let down = each(1).map(|place| place.down.unwrap().bytes_per_sec() as f64 / 1024.0).collect();
                check("down", down, at(&environment.down, rank), 0.1);
                for (pair, (one, other)) in [(0, 0), (1, 0), (0, 2), (1, 2)].into_iter().enumerate() {
                    let latency = |places: &Places| {
                        let all = (0..PER_KIND * PER_KIND).map(|index| (index / PER_KIND, index % PER_KIND));
                        let way = |(a, b)| places.between(one * PER_KIND + a, other * PER_KIND + b).delay;
                        all.map(|pair| way(pair).as_secs_f64() * 1e6).collect::<Vec<_>>()
                    };
                    let all = drawn.iter().flat_map(latency).collect();
                    check("latency", all, at(&environment.latency[pair], rank), 0.1);
                }
            }
        }
    }

    #[test]
    fn near_places_of_clients_have_faster_links_and_places_explain_latencies() {
        let places = Environment::of("shadow-2014").unwrap().draw(Seed(1));
        let mean = |from: usize| {
            let delay = |to| places.between(from, to).delay.as_secs_f64();
            (0..PER_KIND).map(delay).sum::<f64>() / PER_KIND as f64
        };
        let mut clients: Vec<usize> = (PER_KIND..2 * PER_KIND).collect();
        clients.sort_by(|one, other| mean(*one).total_cmp(&mean(*other)));
        let rate = |clients: &[usize]| {
            let each = clients.iter().map(|place| places.all()[*place].down.unwrap().bytes_per_sec());
            each.sum::<u64>()
        };
        assert!(rate(&clients[..32]) > rate(&clients[32..]) * 5 / 4);
        let of_one = |from| (0..PER_KIND).map(|to| places.between(from, to).delay).max().unwrap();
        assert!(of_one(clients[0]) < of_one(clients[63]));
        assert_eq!(places, Environment::of("shadow-2014").unwrap().draw(Seed(1)));
        assert_ne!(places, Environment::of("shadow-2014").unwrap().draw(Seed(2)));
    }

    #[test]
    fn every_row_of_the_tables_is_read_and_ascends() {
        assert_eq!(TABLES.lines().count(), 1 + 12 * Environment::NAMES.len());
        for environment in ENVIRONMENTS.iter() {
            let tables = environment.loss.iter().chain(&environment.latency);
            for table in tables.chain([&environment.down, &environment.up, &environment.jitter]) {
                assert!(table.is_sorted(), "{}", environment.name);
            }
            assert!(environment.place_share < 500 && environment.links < 1000);
        }
        assert!(Environment::of("shadow-2013").is_none());
    }

    #[test]
    fn a_score_has_its_probability() {
        for rank in [0.001, 0.3, 0.5, 0.9] {
            assert!((math::normal_below(score(rank)) - rank).abs() < 1e-9);
        }
    }
}
