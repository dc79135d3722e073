use super::{EwmaConfig, Heap, charge, decay, half_lives};
use crate::circuit_policy::{CircuitPolicy, Priority, Weight};
use crate::keys::CircuitKey;
use penstock_units::{Cells, Duration, Instant};
use std::collections::BTreeSet;

/// Which share of the relay a connection gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Every connection has the same share. Several circuits get no more than one.
    #[default]
    Connection,
    /// The count of a connection is divided by the number of its open circuits that have sent a cell, so that many
    /// circuits of web clients do not make a connection busy.
    Circuit,
}

/// The configuration of [`Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// The half-life of both counts, that of the connection and that of each circuit [ns]; above zero.
    pub half_life: Duration,
    /// The share of the relay that the connection gets.
    pub share: Share,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        ConnectionConfig { half_life: EwmaConfig::default().half_life, share: Share::default() }
    }
}

/// EWMA that ranks connections. The connection that sent the fewest cells recently goes first. The counts of its circuits
/// do not matter for this choice.
///
/// The priority of the head is the count of the connection's cells, so schedulers that compare channels prefer idle
/// connections. Within a connection, the circuit with the smallest count goes first, as with [`Heap`].
///
/// Source: EWMA §8.1 ("assigning higher priority to the idle connections"). Deviation: the paper leaves open how to be
/// fair to a connection with many circuits; [`Share`] has two ways.
#[derive(Debug)]
pub struct Connection {
    config: ConnectionConfig,
    circuits: Heap,
    count: f64,
    since: Instant,
    /// The open circuits that have sent a cell.
    senders: BTreeSet<CircuitKey>,
}

impl Connection {
    /// A policy without circuits.
    pub fn new(config: ConnectionConfig) -> Self {
        let circuits = Heap::new(EwmaConfig { half_life: config.half_life, ..EwmaConfig::default() });
        Connection { config, circuits, count: 0.0, since: Instant::ZERO, senders: BTreeSet::new() }
    }

    fn count_at(&self, now: Instant) -> f64 {
        self.count * decay(half_lives(self.since, now, self.config.half_life))
    }

    fn priority(&self, now: Instant) -> Priority {
        let sharers = match self.config.share {
            Share::Connection => 1,
            Share::Circuit => self.senders.len().max(1),
        };
        Priority(self.count_at(now) / sharers as f64)
    }
}

impl CircuitPolicy for Connection {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        self.circuits.on_ready(now, circuit);
    }

    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        self.circuits.on_blocked(now, circuit);
    }

    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        self.circuits.on_flush(now, circuit, cells, weight);
        (self.count, self.since) = (self.count_at(now) + charge(cells, weight), now);
        self.senders.insert(circuit);
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        self.circuits.on_close(circuit);
        self.senders.remove(&circuit);
    }

    fn scans(&self) -> u64 {
        self.circuits.scans()
    }

    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        let (_, circuit) = self.circuits.head(now)?;
        Some((self.priority(now), circuit))
    }

    fn set_half_life(&mut self, now: Instant, half_life: Duration) {
        self.circuits.set_half_life(now, half_life);
        (self.count, self.since) = (self.count_at(now), now);
        self.config.half_life = half_life;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> CircuitKey {
        CircuitKey::from_index(index)
    }

    fn with(share: Share) -> Connection {
        Connection::new(ConnectionConfig { share, ..ConnectionConfig::default() })
    }

    fn send(policy: &mut Connection, circuit: u32, cells: u64) {
        policy.on_ready(Instant::ZERO, key(circuit));
        policy.on_flush(Instant::ZERO, key(circuit), Cells::new(cells), Weight::ONE);
    }

    fn rank(policy: &Connection, now: Instant) -> f64 {
        policy.head(now).expect("a circuit is eligible").0.0
    }

    #[test]
    fn a_new_circuit_does_not_make_a_busy_connection_idle() {
        let (mut busy, mut idle) = (with(Share::Connection), with(Share::Connection));
        send(&mut busy, 1, 100);
        busy.on_ready(Instant::ZERO, key(2));
        send(&mut idle, 3, 50);
        assert_eq!(busy.head(Instant::ZERO), Some((Priority(100.0), key(2))), "circuit 2 has sent nothing");
        assert_eq!(rank(&idle, Instant::ZERO), 50.0);
    }

    #[test]
    fn a_connection_regains_priority_after_a_half_life_also_after_a_change() {
        let mut policy = with(Share::Connection);
        send(&mut policy, 1, 80);
        let (h, later) = (Duration::from_secs(30), Instant::from_secs(30));
        assert!((rank(&policy, later) - 40.0).abs() < 1e-9);
        policy.set_half_life(later, h / 2);
        assert!((rank(&policy, later) - 40.0).abs() < 1e-9, "the count stays");
        assert!((rank(&policy, later + h) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_share_per_circuit_counts_open_circuits_that_have_sent() {
        let mut policy = with(Share::Circuit);
        for circuit in 1..=4 {
            send(&mut policy, circuit, 10);
        }
        policy.on_ready(Instant::ZERO, key(5));
        assert_eq!(rank(&policy, Instant::ZERO), 10.0);
        policy.on_close(key(1));
        policy.on_close(key(2));
        assert_eq!(rank(&policy, Instant::ZERO), 20.0);
    }
}
