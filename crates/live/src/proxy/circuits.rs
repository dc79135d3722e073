//! The client's circuits: which circuit carries a stream, which circuits to build, and which to close.
//!
//! Source: path-spec, "When we build"; C tor `circuit_get_best()`, `circuit_predict_and_launch_new()`,
//! `circuit_expire_building()`, `circuit_expire_old_circuits_clientside()`.

mod sets;

use super::isolation::Isolation;
use super::network::Router;
use super::path::Purpose;
use crate::directory::Fingerprint;
use penstock_core::CircuitIndex;
use penstock_core::build_times::BuildTimeout;
use penstock_core::conflux::Nonce;
use penstock_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use sets::{SetLimits, SetStep};

/// The client expects streams of a kind for so long after the last one (C tor `PREDICTED_CIRCS_RELEVANCE_TIME`).
const PREDICTED: Duration = Duration::from_secs(3600);
/// Maximum number of kinds of streams that the client expects [1].
const MAX_PREDICTED: usize = 16;
/// Unused circuits for each kind of expected streams [1].
const SPARE: usize = 2;
/// Maximum number of unused circuits that the client builds in advance [1] (C tor `MAX_UNUSED_OPEN_CIRCUITS`).
const MAX_UNUSED: usize = 14;
/// While the client learns its build timeout, unused circuits close after this time (C tor
/// `IDLE_TIMEOUT_WHILE_LEARNING`).
const LEARNING: Duration = Duration::from_secs(180);
/// A guard that does not answer the first handshake in this time counts as unreachable
/// (guard-spec: `NONPRIMARY_GUARD_CONNECT_TIMEOUT`).
const GUARD_TIMEOUT: Duration = Duration::from_secs(15);

/// Times and limits of circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitLimits {
    /// A circuit gets no new streams after this time since its first stream (`MaxCircuitDirtiness`).
    pub max_dirtiness: Duration,
    /// The client closes a circuit without streams after this time (`CircuitsAvailableTimeout`).
    pub available: Duration,
    /// Maximum number of circuits that the client builds at the same time [1] (`MaxClientCircuitsPending`).
    pub max_pending: usize,
}

impl Default for CircuitLimits {
    fn default() -> Self {
        CircuitLimits {
            max_dirtiness: Duration::from_secs(600),
            available: Duration::from_secs(1800),
            max_pending: 32,
        }
    }
}

/// The requirements of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) isolation: &'a Isolation,
    /// Exits that failed for this stream.
    pub(crate) failed: &'a BTreeSet<Fingerprint>,
}

/// Guard, middle relay and exit.
pub(crate) type Path = [Arc<Router>; 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// So many hops have answered [1].
    Building(usize),
    Open,
}

#[derive(Clone, Debug)]
pub(crate) struct ClientCircuit {
    pub(crate) path: Path,
    progress: Progress,
    /// Whether the circuit was not built within the timeout. It carries no streams.
    is_late: bool,
    /// Whether the link to the guard was open at the beginning, so that the build time counts.
    is_measured: bool,
    began: Instant,
    /// The group of the circuit's streams, or of the stream for which the client builds it.
    isolation: Option<Isolation>,
    /// The time of the first stream.
    dirty: Option<Instant>,
    /// Whether the circuit gets no more streams.
    is_retired: bool,
    streams: u32,
    /// The time of the last change of the number of streams.
    used: Instant,
    /// The set of linked circuits to which the circuit belongs.
    set: Option<Nonce>,
    /// Whether the client began the circuit for a set. It may have left the set.
    pub(crate) is_leg: bool,
    /// When LINK left on the circuit.
    link_sent: Option<Instant>,
}

impl ClientCircuit {
    fn is_clean(&self) -> bool {
        self.set.is_none() && self.dirty.is_none() && !self.is_retired && !self.is_late
    }

    fn serves(&self, wanted: Wanted<'_>) -> bool {
        let exit = &self.path[2];
        let is_stable = || self.path.iter().all(|router| router.flags.stable);
        wanted.purpose.fits(exit)
            && (!wanted.purpose.is_long_lived() || is_stable())
            && !wanted.failed.contains(&exit.rsa())
            && self.isolation.as_ref().is_none_or(|own| own == wanted.isolation)
            && !self.is_retired
            && !self.is_late
    }
}

/// What a client does with a circuit whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// The circuit became late. It stays until it is built or the close time is over.
    TimedOut,
    /// Close the circuit: it was not built within the close time.
    Unfinished,
    /// Close the circuit: its guard does not answer.
    GuardSilent,
    /// Close the circuit: nothing uses it.
    Unused,
}

/// All circuits of the client.
#[derive(Debug)]
pub(crate) struct Circuits {
    table: BTreeMap<CircuitIndex, ClientCircuit>,
    /// Kinds of streams that the client expects, with the time of the last one.
    predicted: BTreeMap<Purpose, Instant>,
    limits: CircuitLimits,
    sets: BTreeMap<Nonce, sets::LinkedSet>,
}

impl Circuits {
    /// Expects a stream to port 443 at first, as C tor does.
    pub(crate) fn new(limits: CircuitLimits, now: Instant) -> Self {
        let predicted = BTreeMap::from([(Purpose::Port(443), now)]);
        Circuits { table: BTreeMap::new(), predicted, limits, sets: BTreeMap::new() }
    }

    pub(crate) fn get(&self, index: CircuitIndex) -> Option<&ClientCircuit> {
        self.table.get(&index)
    }

    /// Whether the client may start another circuit.
    pub(crate) fn may_begin(&self) -> bool {
        let is_building = |circuit: &&ClientCircuit| matches!(circuit.progress, Progress::Building(_));
        self.table.values().filter(is_building).count() < self.limits.max_pending
    }

    /// Adds a new circuit, for a stream of the group `isolation` or in advance.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        index: CircuitIndex,
        path: Path,
        isolation: Option<Isolation>,
        is_measured: bool,
    ) {
        let circuit = ClientCircuit {
            path,
            progress: Progress::Building(0),
            is_late: false,
            is_measured,
            began: now,
            isolation,
            dirty: None,
            is_retired: false,
            streams: 0,
            used: now,
            set: None,
            is_leg: false,
            link_sent: None,
        };
        self.table.insert(index, circuit);
    }

    /// A hop answered its handshake.
    pub(crate) fn on_hop(&mut self, index: CircuitIndex) {
        if let Some(ClientCircuit { progress: Progress::Building(hops), .. }) = self.table.get_mut(&index) {
            *hops += 1;
        }
    }

    /// The circuit is built. Returns its build time, if it counts, and whether it is in time.
    pub(crate) fn on_built(&mut self, now: Instant, index: CircuitIndex) -> Option<(Option<Duration>, bool)> {
        let circuit = self.table.get_mut(&index)?;
        (circuit.progress, circuit.used) = (Progress::Open, now);
        let time = circuit.is_measured.then(|| now.since(circuit.began));
        Some((time, !circuit.is_late))
    }

    /// A circuit has closed. Returns it, and the linked circuit to which its streams have moved.
    pub(crate) fn on_closed(&mut self, index: CircuitIndex) -> Option<(ClientCircuit, Option<CircuitIndex>)> {
        let mut circuit = self.table.remove(&index)?;
        let heir = self.leave_set(index, &mut circuit);
        Some((circuit, heir))
    }

    /// Whether streams can use the circuit: it is not linked, or it is the first of its linked circuits.
    fn takes_streams(&self, index: CircuitIndex, circuit: &ClientCircuit) -> bool {
        let leads = |nonce| self.sets.get(&nonce).is_some_and(|set| set.is_led_by(index));
        circuit.progress == Progress::Open && circuit.set.is_none_or(leads)
    }

    /// The open circuit for a stream: linked circuits first, then a used one of its group before an unused one.
    ///
    /// Source: C tor `circuit_get_best()`, which prefers linked circuits.
    pub(crate) fn find(&self, now: Instant, wanted: Wanted<'_>) -> Option<CircuitIndex> {
        let fits = |(index, circuit): &(&CircuitIndex, &ClientCircuit)| {
            let is_fresh = circuit.dirty.is_none_or(|since| now.since(since) < self.limits.max_dirtiness);
            is_fresh && self.takes_streams(**index, circuit) && circuit.serves(wanted)
        };
        let rank =
            |circuit: &ClientCircuit| (circuit.set.is_some(), circuit.dirty, circuit.isolation.is_some());
        let fitting = self.table.iter().filter(fits);
        fitting.max_by_key(|(_, circuit)| rank(circuit)).map(|(index, _)| *index)
    }

    /// Whether a circuit in construction will serve a stream. This circuit then belongs to the stream's group. A stream
    /// does not wait for linked circuits.
    pub(crate) fn reserve(&mut self, wanted: Wanted<'_>) -> bool {
        let is_building = |circuit: &&mut ClientCircuit| {
            let is_building = matches!(circuit.progress, Progress::Building(_));
            is_building && circuit.set.is_none() && circuit.serves(wanted)
        };
        let found =
            self.table.values_mut().filter(is_building).max_by_key(|circuit| circuit.isolation.is_some());
        found.is_some_and(|circuit| {
            circuit.isolation = Some(wanted.isolation.clone());
            true
        })
    }

    /// A stream joins a circuit.
    pub(crate) fn attach(&mut self, now: Instant, index: CircuitIndex, isolation: &Isolation) {
        if let Some(circuit) = self.table.get_mut(&index) {
            circuit.isolation = Some(isolation.clone());
            circuit.dirty.get_or_insert(now);
            (circuit.streams, circuit.used) = (circuit.streams + 1, now);
        }
    }

    /// A stream of a circuit ended.
    pub(crate) fn detach(&mut self, now: Instant, index: CircuitIndex) {
        if let Some(circuit) = self.table.get_mut(&index) {
            (circuit.streams, circuit.used) = (circuit.streams.saturating_sub(1), now);
        }
    }

    /// The circuit gets no more streams, because its exit did not answer one.
    pub(crate) fn retire(&mut self, index: CircuitIndex) {
        if let Some(circuit) = self.table.get_mut(&index) {
            circuit.is_retired = true;
        }
    }

    /// A stream of this kind was opened, so the client expects more of them. The least recent kind is forgotten if there
    /// are too many.
    pub(crate) fn predict(&mut self, now: Instant, purpose: Purpose) {
        self.predicted.insert(purpose, now);
        if self.predicted.len() > MAX_PREDICTED {
            let oldest = self.predicted.iter().min_by_key(|(_, last)| **last).map(|(purpose, _)| *purpose);
            oldest.and_then(|oldest| self.predicted.remove(&oldest));
        }
    }

    /// An expected kind of stream that lacks unused circuits, without those of `impossible`. `learns`: the client needs
    /// another build time, so it builds a circuit of any kind.
    pub(crate) fn lacks(
        &mut self,
        now: Instant,
        impossible: &BTreeSet<Purpose>,
        learns: bool,
    ) -> Option<Purpose> {
        self.predicted.retain(|_, last| now.since(*last) < PREDICTED);
        let clean: Vec<_> = self.table.values().filter(|circuit| circuit.is_clean()).collect();
        if clean.len() >= MAX_UNUSED {
            return None;
        }
        let count = |purpose: Purpose| {
            let spare = clean.iter().filter(|circuit| circuit.isolation.is_none());
            spare.filter(|circuit| purpose.fits(&circuit.path[2])).count()
        };
        let mut possible = self.predicted.keys().copied().filter(|purpose| !impossible.contains(purpose));
        let first = possible.clone().next().filter(|_| learns);
        possible.find(|purpose| count(*purpose) < SPARE).or(first)
    }

    /// The circuits whose time is over. `learns`: build times are still needed, so unused circuits soon make room for
    /// others.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        limits: BuildTimeout,
        learns: bool,
    ) -> Vec<(CircuitIndex, Expiry)> {
        let mut expired = Vec::new();
        let available = if learns { self.limits.available.min(LEARNING) } else { self.limits.available };
        let Circuits { table, sets, limits: own, .. } = self;
        for (index, circuit) in table {
            let set = circuit.set.and_then(|nonce| sets.get(&nonce));
            if set.is_some_and(|set| set.is_linked() && !set.is_led_by(*index)) {
                continue;
            }
            let age = now.since(circuit.began);
            let expiry = match circuit.progress {
                Progress::Building(0) if age >= GUARD_TIMEOUT.min(limits.close) => Expiry::GuardSilent,
                Progress::Building(_) if age >= limits.close => Expiry::Unfinished,
                Progress::Building(_) if age >= limits.timeout && !circuit.is_late => {
                    circuit.is_late = true;
                    Expiry::TimedOut
                }
                Progress::Building(_) => continue,
                Progress::Open => {
                    let is_over = circuit.is_retired
                        || circuit.is_late
                        || circuit.dirty.is_some_and(|since| now.since(since) >= own.max_dirtiness)
                        || now.since(circuit.used) >= available;
                    if !is_over || circuit.streams > 0 {
                        continue;
                    }
                    Expiry::Unused
                }
            };
            expired.push((*index, expiry));
        }
        // A late leg only measures its build time, and another leg takes its place.
        for (index, _) in expired.iter().filter(|(_, expiry)| *expiry == Expiry::TimedOut) {
            if let Some(mut circuit) = self.table.remove(index) {
                self.leave_set(*index, &mut circuit);
                self.table.insert(*index, circuit);
            }
        }
        expired
    }

    /// The guard of a circuit that this client closes before the guard has answered. Its end then says nothing about the
    /// guard.
    pub(crate) fn forget_guard(&mut self, index: CircuitIndex) -> Option<Fingerprint> {
        let circuit = self.table.get_mut(&index).filter(|circuit| circuit.awaits_guard())?;
        circuit.progress = Progress::Building(1);
        Some(circuit.path[0].rsa())
    }

    /// Whether the build time of a circuit counts.
    pub(crate) fn is_measured(&self, index: CircuitIndex) -> bool {
        self.table.get(&index).is_some_and(|circuit| circuit.is_measured)
    }
}

impl ClientCircuit {
    /// Whether the guard has not answered yet.
    pub(crate) fn awaits_guard(&self) -> bool {
        self.progress == Progress::Building(0)
    }

    /// Whether the circuit was built.
    pub(crate) fn is_open(&self) -> bool {
        self.progress == Progress::Open
    }
}

#[cfg(test)]
mod tests {
    use super::super::isolation::IsolationFlags;
    use super::super::network::tests::router;
    use super::super::socks::tests::request;
    use super::*;
    use proptest::prelude::*;

    pub(super) const TIMES: BuildTimeout =
        BuildTimeout { timeout: Duration::from_secs(5), close: Duration::from_secs(60) };

    pub(super) fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    pub(super) fn group(secret: &str) -> Isolation {
        let request = request(1, "a.example", 80, Some(("me", secret)));
        Isolation::of(0, IsolationFlags::default(), [127, 0, 0, 1].into(), &request)
    }

    pub(super) fn path(exit: u8) -> Path {
        [1, 2, exit].map(|number| Arc::new(router(number, 1, "Guard Exit", "accept 80,443")))
    }

    pub(super) fn circuits() -> Circuits {
        Circuits::new(CircuitLimits::default(), at(0))
    }

    fn built(circuits: &mut Circuits, second: u64, number: u32, exit: u8) -> CircuitIndex {
        let index = CircuitIndex::first(number);
        circuits.begin(at(second), index, path(exit), None, true);
        (0..3).for_each(|_| circuits.on_hop(index));
        circuits.on_built(at(second + 1), index).unwrap();
        index
    }

    fn find(circuits: &Circuits, second: u64, isolation: &Isolation, failed: &[u8]) -> Option<CircuitIndex> {
        let failed = failed.iter().map(|number| [*number; 20]).collect();
        circuits.find(at(second), Wanted { purpose: Purpose::Port(80), isolation, failed: &failed })
    }

    fn lacks(circuits: &mut Circuits, second: u64, learns: bool) -> Option<Purpose> {
        circuits.lacks(at(second), &BTreeSet::new(), learns)
    }

    #[test]
    fn streams_of_a_group_share_a_circuit_for_ten_minutes() {
        let mut circuits = circuits();
        let [first, second] = [10, 11].map(|number| built(&mut circuits, 0, number, 7));
        let [one, two] = ["x", "y"].map(group);
        let used = find(&circuits, 10, &one, &[]).unwrap();
        circuits.attach(at(10), used, &one);
        assert_eq!(find(&circuits, 609, &one, &[]), Some(used));
        let other = find(&circuits, 20, &two, &[]).unwrap();
        assert!(other != used && [first, second].contains(&other));
        circuits.attach(at(20), other, &two);
        assert_eq!((find(&circuits, 610, &one, &[]), find(&circuits, 610, &two, &[])), (None, Some(other)));
        // The circuit closes after its last stream.
        assert_eq!(circuits.expire(at(610), TIMES, false), []);
        circuits.detach(at(611), used);
        assert_eq!(circuits.expire(at(611), TIMES, false), [(used, Expiry::Unused)]);
    }

    #[test]
    fn failed_exits_and_retired_circuits_get_no_streams() {
        let mut circuits = circuits();
        let index = built(&mut circuits, 0, 1, 7);
        assert_eq!(find(&circuits, 1, &group("x"), &[7]), None);
        assert_eq!(find(&circuits, 1, &group("x"), &[8]), Some(index));
        circuits.retire(index);
        assert_eq!(find(&circuits, 1, &group("x"), &[]), None);
        assert_eq!(circuits.expire(at(2), TIMES, false), [(index, Expiry::Unused)]);
    }

    #[test]
    fn one_circuit_is_built_for_the_streams_of_each_group() {
        let mut circuits = circuits();
        let none = BTreeSet::new();
        let [one, two] = ["x", "y"].map(group);
        let wanted = |isolation| Wanted { purpose: Purpose::Port(80), isolation, failed: &none };
        assert!(!circuits.reserve(wanted(&one)));
        circuits.begin(at(0), CircuitIndex::first(1), path(7), None, true);
        assert!(circuits.reserve(wanted(&one)) && circuits.reserve(wanted(&one)));
        assert!(!circuits.reserve(wanted(&two)));
        let elsewhere = Wanted { purpose: Purpose::Port(25), ..wanted(&one) };
        assert!(!circuits.reserve(elsewhere), "the exit does not accept this port");
    }

    #[test]
    fn two_unused_circuits_wait_for_expected_streams() {
        let mut circuits = circuits();
        assert_eq!(lacks(&mut circuits, 0, false), Some(Purpose::Port(443)));
        for number in [1, 2] {
            built(&mut circuits, 0, number, 7);
        }
        assert_eq!(lacks(&mut circuits, 1, false), None);
        assert_eq!(lacks(&mut circuits, 1, true), Some(Purpose::Port(443)));
        circuits.predict(at(1), Purpose::Port(25));
        let impossible = BTreeSet::from([Purpose::Port(25)]);
        assert_eq!(circuits.lacks(at(1), &impossible, false), None);
        assert_eq!(lacks(&mut circuits, 1, false), Some(Purpose::Port(25)));
        for port in 1..=40 {
            circuits.predict(at(1), Purpose::Port(port));
        }
        assert_eq!(circuits.predicted.len(), MAX_PREDICTED);
        assert!(circuits.predicted.contains_key(&Purpose::Port(40)), "the latest kind is expected");
        for number in 3..20 {
            built(&mut circuits, 0, number, 7);
        }
        assert_eq!(lacks(&mut circuits, 1, true), None, "there are enough unused circuits");
        // After half an hour, unused circuits close. After an hour, no stream is expected.
        assert_eq!(circuits.expire(at(200), TIMES, true).len(), 19, "they make room for others");
        assert_eq!(circuits.expire(at(200), TIMES, false), []);
        assert_eq!(circuits.expire(at(1801), TIMES, false).len(), 19);
        assert_eq!(lacks(&mut self::circuits(), 3600, true), None);
    }

    #[test]
    fn slow_circuits_are_first_late_and_then_closed() {
        let mut circuits = circuits();
        let [silent, slow] = [1, 2].map(CircuitIndex::first);
        circuits.begin(at(0), silent, path(7), None, true);
        circuits.begin(at(0), slow, path(7), None, true);
        circuits.on_hop(slow);
        assert_eq!(circuits.expire(at(4), TIMES, false), []);
        assert_eq!(
            circuits.expire(at(5), TIMES, false),
            [(silent, Expiry::TimedOut), (slow, Expiry::TimedOut)]
        );
        assert_eq!(circuits.expire(at(15), TIMES, false), [(silent, Expiry::GuardSilent)]);
        circuits.on_closed(silent);
        assert_eq!(circuits.expire(at(60), TIMES, false), [(slow, Expiry::Unfinished)]);
        // A late circuit that is built counts for the build times, but carries no streams.
        assert_eq!(circuits.on_built(at(30), slow), Some((Some(Duration::from_secs(30)), false)));
        assert_eq!(find(&circuits, 30, &group("x"), &[]), None);
        assert_eq!(circuits.expire(at(31), TIMES, false), [(slow, Expiry::Unused)]);
    }

    proptest! {
        /// No circuit ever carries streams of two groups.
        #[test]
        fn groups_never_share_a_circuit(steps in prop::collection::vec((0u64..200, 0usize..3, any::<bool>()), 1..80)) {
            let groups = ["x", "y", "z"].map(group);
            let (mut circuits, mut now, mut next) = (circuits(), 0, 0);
            let mut owners: BTreeMap<CircuitIndex, usize> = BTreeMap::new();
            for (wait, owner, closes) in steps {
                now += wait;
                let found = find(&circuits, now, &groups[owner], &[]);
                let index = found.unwrap_or_else(|| {
                    next += 1;
                    built(&mut circuits, now, next, 7)
                });
                circuits.attach(at(now), index, &groups[owner]);
                prop_assert_eq!(*owners.entry(index).or_insert(owner), owner);
                if closes {
                    circuits.detach(at(now), index);
                }
                for (index, _) in circuits.expire(at(now), TIMES, false) {
                    circuits.on_closed(index);
                }
            }
        }
    }
}
