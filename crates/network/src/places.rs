//! Places of the Internet, and the delay and loss between them.
//!
//! A host is at a place. A packet passes the place of its sender, the edge to the other place, and the place of its
//! receiver. Each of the three may lose the packet. Places and edges have no queues; hosts have access links.
//!
//! Source: Shadow 1.9.0 `_topology_lookupPath()`; Shadow 1.5.0 `network_getLinkReliability()`.

use crate::geo::Country;
use penstock_units::{DataRate, Duration};

/// A place where hosts are.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Unique name.
    pub name: String,
    /// The country, if it is known.
    pub country: Option<&'static Country>,
    /// The receiving rate of access links without a rate of their own [B/s].
    pub down: Option<DataRate>,
    /// The sending rate of access links without a rate of their own [B/s].
    pub up: Option<DataRate>,
    /// The probability that a packet is lost here, for packets to and from this place [1].
    pub loss: f64,
    /// The weights of this place for relays, clients and servers without a place of their own [1].
    pub weights: [u32; 3],
}

/// An edge in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Edge {
    /// The one-way delay [us]; above zero.
    pub latency: u32,
    /// The largest deviation from the delay [us].
    pub jitter: u32,
    /// The probability that the edge loses a packet [1].
    pub loss: f64,
}

/// The delay and the loss of packets from one place to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// The one-way delay.
    pub delay: Duration,
    /// The largest deviation from the delay; at most the delay.
    pub jitter: Duration,
    /// The probability that a packet is lost at either place or on the edge [1].
    pub loss: f64,
}

/// All places, with an edge between any two, and from each place to itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    places: Vec<Place>,
    /// The edge from place `a` to place `b` has the index `a * places + b`.
    edges: Vec<Edge>,
    shortest: Duration,
    typical: Duration,
}

impl Places {
    /// The most places. Their edges need 64 MiB.
    pub const MOST: usize = 2048;

    /// The places with their edges. The edge from place `a` to place `b` has the index `a * places + b`.
    ///
    /// # Panics
    ///
    /// There is no place, or the number of edges is not the square of the number of places.
    pub fn new(places: Vec<Place>, edges: Vec<Edge>) -> Self {
        assert!(!places.is_empty() && edges.len() == places.len() * places.len(), "an edge for each pair");
        let least = edges.iter().map(|edge| edge.latency.saturating_sub(edge.jitter)).min();
        let mut latencies: Vec<u32> = edges.iter().map(|edge| edge.latency).collect();
        let middle = latencies.len() / 2;
        let typical = 2 * u64::from(*latencies.select_nth_unstable(middle).1);
        Places {
            places,
            edges,
            shortest: micros(least.unwrap_or_default().max(1)),
            typical: Duration::from_micros(typical),
        }
    }

    /// The same places with all delays and jitters multiplied by `factor`. A delay is at least 1 us.
    #[must_use]
    pub fn stretched(&self, factor: f64) -> Self {
        let stretch = |micros: u32| (f64::from(micros) * factor).round() as u32;
        let edges = self.edges.iter().map(|edge| Edge {
            latency: stretch(edge.latency).max(1),
            jitter: stretch(edge.jitter),
            loss: edge.loss,
        });
        Places::new(self.places.clone(), edges.collect())
    }

    /// All places, in the order of their indices.
    pub fn all(&self) -> &[Place] {
        &self.places
    }

    /// The path of packets between two places, given by their indices. `from` and `to` may be the same place, whose loss
    /// then counts twice.
    pub fn between(&self, from: usize, to: usize) -> Route {
        let Edge { latency, jitter, loss } = self.edges[from * self.places.len() + to];
        let arrives = (1.0 - self.places[from].loss) * (1.0 - loss) * (1.0 - self.places[to].loss);
        // A packet needs some time even if the jitter is as large as the delay.
        let jitter = jitter.min(latency - 1);
        Route { delay: micros(latency), jitter: micros(jitter), loss: 1.0 - arrives }
    }

    /// The shortest one-way delay of a packet.
    pub fn shortest(&self) -> Duration {
        self.shortest
    }

    /// The median round-trip time between two places.
    pub fn typical_rtt(&self) -> Duration {
        self.typical
    }
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(u64::from(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn place(name: &str, loss: f64) -> Place {
        Place { name: name.to_owned(), country: None, down: None, up: None, loss, weights: [1; 3] }
    }

    fn edge(latency: u32, jitter: u32, loss: f64) -> Edge {
        Edge { latency, jitter, loss }
    }

    #[test]
    fn both_places_and_the_edge_can_lose_a_packet() {
        let edges = vec![edge(5, 0, 0.0), edge(20_000, 4000, 0.1), edge(30_000, 0, 0.0), edge(7, 9, 0.5)];
        let places = Places::new(vec![place("a", 0.5), place("b", 0.2)], edges);
        let loss = |from, to| places.between(from, to).loss;
        assert!((loss(0, 1) - (1.0 - 0.5 * 0.9 * 0.8)).abs() < 1e-12);
        assert!((loss(1, 0) - (1.0 - 0.8 * 0.5)).abs() < 1e-12, "each direction has its own loss");
        assert!((loss(0, 0) - 0.75).abs() < 1e-12, "a packet within a place meets its loss twice");
        assert_eq!(places.between(0, 1).delay, Duration::from_millis(20));
        assert_eq!(places.between(1, 0).delay, Duration::from_millis(30));
        assert_eq!(places.between(1, 1).jitter, Duration::from_micros(6), "the delay stays above zero");
        assert_eq!(places.shortest(), Duration::from_micros(1));
        assert_eq!(places.typical_rtt(), Duration::from_millis(40));
    }

    #[test]
    fn stretched_places_have_longer_delays_and_the_same_losses() {
        let edges = vec![edge(5, 0, 0.0), edge(20_000, 4000, 0.1), edge(30_000, 0, 0.0), edge(1, 0, 0.5)];
        let places = Places::new(vec![place("a", 0.5), place("b", 0.2)], edges);
        let [long, short] = [2.0, 0.1].map(|factor| places.stretched(factor));
        let route = |places: &Places| places.between(0, 1);
        let [delay, jitter] = [40, 8].map(Duration::from_millis);
        assert_eq!(route(&long), Route { delay, jitter, loss: route(&places).loss });
        assert_eq!([long.shortest(), short.shortest()], [2, 1].map(Duration::from_micros));
        assert_eq!(long.typical_rtt(), Duration::from_millis(80));
        assert_eq!(places.stretched(1.0), places);
    }
}
