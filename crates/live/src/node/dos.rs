//! C tor's defences against denial of service: limits on the connections and circuits of one client address, and on the
//! streams of one circuit. They are off by default. The consensus or the torrc turns them on.
//!
//! Source: C tor 0.4.9 `dos.c`, `dos_options.inc`; param-spec, "Denial-of-service parameters". Names, defaults and bounds
//! are those of `get_param_conn_*()`, `get_param_cc_*()` and `get_param_stream_*()`, with the constants of `dos.h`. For
//! streams these are `DOS_STREAM_ENABLED_DEFAULT` 0, `DOS_STREAM_RATE_DEFAULT` 100, `DOS_STREAM_BURST_DEFAULT` 300 and
//! `DOS_STREAM_DEFENSE_TYPE_DEFAULT` 2 (`DOS_STREAM_DEFENSE_REFUSE_STREAM`).
//! Deviation: IPv6 addresses with the same first 64 bits count as one client. `dos_num_circ_max_outq` has no effect.

use super::shares::Host;
use crate::directory::Params;
use penstock_core::{CircuitIndex, SecondaryMap};
use penstock_units::{Duration, Instant};
use rand::RngExt;
use std::collections::BTreeMap;

/// After so many new clients, the node forgets idle clients without marks [1].
const MAX_IDLE: usize = 4096;

/// An option of the torrc, which is also a consensus parameter.
#[derive(Clone, Copy, Debug)]
pub struct DosOption {
    /// The name.
    pub name: &'static str,
    /// The default.
    pub default: i32,
    /// The lowest value.
    pub least: i32,
    /// The highest value.
    pub most: i32,
    /// One sentence.
    pub help: &'static str,
}

macro_rules! options {
    ($($field:ident $name:literal $default:literal $least:literal $most:expr, $help:literal;)*) => {
        /// The number of options [1].
        const COUNT: usize = [$($name),*].len();

        /// All options, in the order of [`DosOptions`].
        pub const DOS_OPTIONS: [DosOption; COUNT] =
            [$(DosOption { name: $name, default: $default, least: $least, most: $most, help: $help }),*];

        /// The values that apply now.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        struct Settings {
            $($field: u32,)*
        }

        impl Settings {
            /// The value of each option: from the torrc, otherwise from the consensus.
            fn of(options: &DosOptions, params: &Params) -> Self {
                let mut values = DOS_OPTIONS.iter().zip(&options.0).map(|(option, set)| {
                    let of_consensus = || params.get(option.name, option.default, option.least..=option.most);
                    set.unwrap_or_else(|| of_consensus().unsigned_abs())
                });
                Settings { $($field: values.next().expect("each option has a value"),)* }
            }
        }
    };
}

options! {
    connections "DoSConnectionEnabled" 0 0 1, "limits the connections of a client address";
    max_connections "DoSConnectionMaxConcurrentCount" 100 1 i32::MAX,
        "a client address has at most this number of connections plus one";
    connect_rate "DoSConnectionConnectRate" 20 1 i32::MAX, "connections of a client address a second";
    connect_burst "DoSConnectionConnectBurst" 40 1 i32::MAX, "connections of a client address at once";
    connection_defence "DoSConnectionDefenseType" 2 1 2, "1: no defence; 2: new connections are closed";
    connect_period "DoSConnectionConnectDefenseTimePeriod" 86_400 10 i32::MAX,
        "for this number of seconds, plus a random time of up to half of it, the relay refuses a client address that connects too fast";
    circuits "DoSCircuitCreationEnabled" 0 0 1, "limits the new circuits of a client address";
    min_connections "DoSCircuitCreationMinConnections" 3 1 i32::MAX,
        "circuits count against a client address only if it has at least this number of connections";
    circuit_rate "DoSCircuitCreationRate" 3 1 i32::MAX, "circuits of a client address a second";
    circuit_burst "DoSCircuitCreationBurst" 90 1 i32::MAX, "circuits of a client address at once";
    circuit_defence "DoSCircuitCreationDefenseType" 2 1 2, "1: no defence; 2: new circuits are refused";
    circuit_period "DoSCircuitCreationDefenseTimePeriod" 3600 0 i32::MAX,
        "for this number of seconds, plus a random time of up to half of it, the relay refuses the circuits of a client address above the limits";
    streams "DoSStreamCreationEnabled" 0 0 1, "limits the new streams of a circuit";
    stream_rate "DoSStreamCreationRate" 100 1 i32::MAX, "streams of a circuit a second";
    stream_burst "DoSStreamCreationBurst" 300 1 i32::MAX, "streams of a circuit at once";
    stream_defence "DoSStreamCreationDefenseType" 2 1 3,
        "1: no defence; 2: the stream is refused; 3: the circuit closes";
    refuse_single_hop "DoSRefuseSingleHopClientRendezvous" 0 0 1,
        "ignores requests of clients without a guard for a rendezvous point";
}

/// The operator's values in the order of [`DOS_OPTIONS`]; `None` leaves the value to the consensus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DosOptions(pub [Option<u32>; COUNT]);

/// The defence against too many streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamDefence {
    /// The stream is refused.
    Refuse,
    /// The circuit closes.
    CloseCircuit,
}

/// Tokens that refill once a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
    left: u32,
    /// The second of the last refill.
    filled: u64,
}

impl Tokens {
    pub(super) fn full(now: Instant, burst: u32) -> Self {
        Tokens { left: burst, filled: second(now) }
    }

    /// Refills, and takes one token. Returns whether there was one.
    pub(super) fn take(&mut self, now: Instant, rate: u32, burst: u32) -> bool {
        let elapsed = second(now) - self.filled;
        let more = u32::try_from(elapsed).unwrap_or(u32::MAX).saturating_mul(rate);
        (self.left, self.filled) = (self.left.saturating_add(more).min(burst), second(now));
        let taken = self.left > 0;
        self.left = self.left.saturating_sub(1);
        taken
    }
}

fn second(now: Instant) -> u64 {
    now.since(Instant::ZERO).as_secs()
}

/// The state of one client address.
#[derive(Debug)]
struct Client {
    /// Its open connections [1].
    connections: u32,
    connects: Tokens,
    circuits: Tokens,
    /// The node refuses the client's connections until this time.
    connect_marked: Option<Instant>,
    /// The node refuses the client's circuits until this time.
    circuits_marked: Option<Instant>,
}

/// Refusals since the start, by defence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DosCounters {
    /// Connections of addresses that connect too fast.
    pub connections: u64,
    /// Connections of addresses with too many connections.
    pub concurrent: u64,
    /// Circuits.
    pub circuits: u64,
    /// Streams.
    pub streams: u64,
    /// Rendezvous points for clients without a guard.
    pub single_hop: u64,
    /// Number of times that a client address was marked, because it created circuits too fast.
    pub marked: u64,
}

/// The defences.
#[derive(Debug)]
pub(super) struct Dos {
    options: DosOptions,
    settings: Settings,
    clients: BTreeMap<Host, Client>,
    /// The node removes idle clients when it has more clients than this number [1].
    limit: usize,
    streams: SecondaryMap<CircuitIndex, Tokens>,
    pub(super) counters: DosCounters,
}

impl Dos {
    pub(super) fn new(options: DosOptions) -> Self {
        Dos {
            options,
            settings: Settings::of(&options, &Params::default()),
            clients: BTreeMap::new(),
            limit: MAX_IDLE,
            streams: SecondaryMap::new(),
            counters: DosCounters::default(),
        }
    }

    /// Sets the operator's values and those of the consensus.
    pub(super) fn set(&mut self, options: Option<DosOptions>, params: &Params) {
        self.options = options.unwrap_or(self.options);
        self.settings = Settings::of(&self.options, params);
    }

    /// Whether requests of clients without a guard for a rendezvous point are ignored. Counts the request if so.
    ///
    /// Source: C tor `dos_should_refuse_single_hop_client()`.
    pub(super) fn refuses_single_hop(&mut self) -> bool {
        let refuses = self.settings.refuse_single_hop == 1;
        self.counters.single_hop += u64::from(refuses);
        refuses
    }

    /// Whether a connection of this address is accepted.
    ///
    /// Source: C tor `dos_conn_addr_get_defense_type()`.
    pub(super) fn may_connect(&mut self, now: Instant, host: Host) -> bool {
        let settings = &self.settings;
        if settings.connections == 0 || settings.connection_defence == 1 {
            return true;
        }
        let Some(client) = self.clients.get_mut(&host) else { return true };
        if client.connect_marked.is_some_and(|until| until >= now) {
            self.counters.connections += 1;
            return false;
        }
        client.connect_marked = None;
        let is_good = client.connections <= settings.max_connections;
        self.counters.concurrent += u64::from(!is_good);
        is_good
    }

    /// A client completed a link. [`on_closed`](Self::on_closed) follows at its end.
    ///
    /// Source: C tor `dos_new_client_conn()`, `conn_update_on_connect()`.
    pub(super) fn on_connected(&mut self, now: Instant, host: Host, rng: &mut impl rand::Rng) {
        self.forget_idle(now);
        let settings = &self.settings;
        let client = self.clients.entry(host).or_insert_with(|| Client {
            connections: 0,
            connects: Tokens::full(now, settings.connect_burst),
            circuits: Tokens::full(now, settings.circuit_burst),
            connect_marked: None,
            circuits_marked: None,
        });
        client.connections += 1;
        client.connects.take(now, settings.connect_rate, settings.connect_burst);
        if client.connects.left == 0 && client.connect_marked.is_none() {
            client.connect_marked = Some(marked(now, settings.connect_period, rng));
        }
    }

    /// The link of a client ended.
    pub(super) fn on_closed(&mut self, host: Host) {
        if let Some(client) = self.clients.get_mut(&host) {
            client.connections = client.connections.saturating_sub(1);
        }
    }

    /// Whether the relay accepts a new circuit of this client address.
    ///
    /// Source: C tor `dos_cc_new_create_cell()`, `dos_cc_get_defense_type()`.
    pub(super) fn may_create(&mut self, now: Instant, host: Host, rng: &mut impl rand::Rng) -> bool {
        let settings = &self.settings;
        let Some(client) = self.clients.get_mut(&host).filter(|_| settings.circuits == 1) else {
            return true;
        };
        client.circuits.take(now, settings.circuit_rate, settings.circuit_burst);
        if client.circuits.left == 0 && client.connections >= settings.min_connections {
            self.counters.marked += u64::from(client.circuits_marked.is_none());
            client.circuits_marked = Some(marked(now, settings.circuit_period, rng));
        }
        let is_marked = client.circuits_marked.is_some_and(|until| until >= now);
        let is_refused = is_marked && settings.circuit_defence == 2;
        self.counters.circuits += u64::from(is_refused);
        !is_refused
    }

    /// The defence against a new stream of a circuit, if the circuit opens streams too fast.
    ///
    /// Source: C tor `dos_stream_new_begin_or_resolve_cell()`, `dos_stream_init_circ_tbf()`.
    pub(super) fn on_stream(&mut self, now: Instant, circuit: CircuitIndex) -> Option<StreamDefence> {
        let settings = &self.settings;
        if settings.streams == 0 {
            return None;
        }
        if !self.streams.contains(circuit) {
            self.streams.insert(circuit, Tokens::full(now, settings.stream_burst));
        }
        let tokens = self.streams.get_mut(circuit).expect("it was just made");
        if tokens.take(now, settings.stream_rate, settings.stream_burst) {
            return None;
        }
        let defence = match settings.stream_defence {
            2 => StreamDefence::Refuse,
            3 => StreamDefence::CloseCircuit,
            _ => return None,
        };
        self.counters.streams += 1;
        Some(defence)
    }

    /// A circuit closed.
    pub(super) fn on_circuit_closed(&mut self, circuit: CircuitIndex) {
        self.streams.remove(circuit);
    }

    /// Forgets clients without connections, without a mark, and with full buckets.
    fn forget_idle(&mut self, now: Instant) {
        if self.clients.len() <= self.limit {
            return;
        }
        let settings = &self.settings;
        let is_marked = |until: Option<Instant>| until.is_some_and(|until| until >= now);
        let refills = |burst: u32, rate: u32| u64::from(burst.div_ceil(rate.max(1)));
        self.clients.retain(|_, client| {
            let connects = refills(settings.connect_burst, settings.connect_rate) + client.connects.filled;
            let circuits = refills(settings.circuit_burst, settings.circuit_rate) + client.circuits.filled;
            client.connections > 0
                || is_marked(client.connect_marked)
                || is_marked(client.circuits_marked)
                || connects.max(circuits) > second(now)
        });
        self.limit = self.clients.len() + MAX_IDLE;
    }
}

/// The end of a client's mark. It is random, so that the client does not know it exactly.
fn marked(now: Instant, period: u32, rng: &mut impl rand::Rng) -> Instant {
    let more = if period < 4 { 0 } else { rng.random_range(1..period / 2) };
    now + Duration::from_secs(u64::from(period) + u64::from(more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn host(last: u8) -> Host {
        Host::of([192, 0, 2, last].into())
    }

    fn dos(params: &str) -> (Dos, StdRng) {
        let mut dos = Dos::new(DosOptions::default());
        dos.set(None, &Params::read(params).unwrap());
        (dos, StdRng::seed_from_u64(1))
    }

    #[test]
    fn the_reference_has_all_options() {
        let page = include_str!("../../../../docs/reference/relay.md");
        for option in DOS_OPTIONS {
            let row = format!("| `{}` | {} | {} |", option.name, option.default, option.help);
            assert!(page.contains(&row), "docs/reference/relay.md lacks {row}");
        }
    }

    #[test]
    fn without_consensus_and_torrc_nothing_is_refused() {
        let (mut dos, mut rng) = dos("");
        for _ in 0..1000 {
            assert!(dos.may_connect(at(0), host(1)) && dos.may_create(at(0), host(1), &mut rng));
            dos.on_connected(at(0), host(1), &mut rng);
            assert_eq!(dos.on_stream(at(0), CircuitIndex::first(0)), None);
        }
        assert_eq!(dos.counters, DosCounters::default());
    }

    #[test]
    fn an_address_that_connects_too_fast_is_refused_for_a_day() {
        let (mut dos, mut rng) = dos("DoSConnectionEnabled=1");
        for _ in 0..40 {
            assert!(dos.may_connect(at(5), host(1)));
            dos.on_connected(at(5), host(1), &mut rng);
            dos.on_closed(host(1));
        }
        assert!(!dos.may_connect(at(5), host(1)) && !dos.may_connect(at(86_404), host(1)));
        assert!(dos.may_connect(at(5), host(2)) && dos.may_connect(at(5 + 86_400 * 3 / 2), host(1)));
        assert_eq!(dos.counters, DosCounters { connections: 2, ..DosCounters::default() });
    }

    #[test]
    fn an_address_with_too_many_connections_gets_no_more() {
        let (mut dos, mut rng) = dos("DoSConnectionEnabled=1 DoSConnectionMaxConcurrentCount=5");
        for second in 0..6 {
            assert!(dos.may_connect(at(second), host(1)));
            dos.on_connected(at(second), host(1), &mut rng);
        }
        assert!(!dos.may_connect(at(9), host(1)));
        dos.on_closed(host(1));
        assert!(dos.may_connect(at(9), host(1)));
        assert_eq!(dos.counters.concurrent, 1);
    }

    #[test]
    fn circuits_of_an_address_with_few_connections_do_not_count() {
        let (mut dos, mut rng) = dos("DoSCircuitCreationEnabled=1");
        dos.on_connected(at(0), host(1), &mut rng);
        dos.on_connected(at(0), host(1), &mut rng);
        assert!((0..500).all(|_| dos.may_create(at(0), host(1), &mut rng)));
        dos.on_connected(at(0), host(1), &mut rng);
        // Three more circuits come with the next second.
        assert!((0..2).all(|_| dos.may_create(at(1), host(1), &mut rng)));
        assert!(!dos.may_create(at(1), host(1), &mut rng) && !dos.may_create(at(3600), host(1), &mut rng));
        assert_eq!((dos.counters.circuits, dos.counters.marked), (2, 1));
        assert!(dos.may_create(at(3), host(2), &mut rng), "an unknown address");
    }

    #[test]
    fn a_circuit_has_its_burst_of_streams_and_then_its_rate() {
        let (mut dos, _) =
            dos("DoSStreamCreationEnabled=1 DoSStreamCreationRate=2 DoSStreamCreationBurst=10");
        let [one, other] = [0, 1].map(|generation| CircuitIndex::from_parts(0, generation));
        assert_eq!((0..12).filter(|_| dos.on_stream(at(0), one).is_none()).count(), 10);
        assert_eq!((0..5).filter(|_| dos.on_stream(at(1), one).is_none()).count(), 2);
        dos.set(None, &Params::read("DoSStreamCreationEnabled=1 DoSStreamCreationDefenseType=3").unwrap());
        dos.on_circuit_closed(one);
        assert_eq!((0..400).find_map(|_| dos.on_stream(at(1), other)), Some(StreamDefence::CloseCircuit));
    }

    #[test]
    fn the_operator_s_values_come_before_those_of_the_consensus() {
        let mut options = DosOptions::default();
        (options.0[0], options.0[1]) = (Some(0), Some(7));
        let params = Params::read("DoSConnectionEnabled=1 DoSConnectionMaxConcurrentCount=9").unwrap();
        let settings = Settings::of(&options, &params);
        assert_eq!((settings.connections, settings.max_connections, settings.connect_burst), (0, 7, 40));
    }

    #[test]
    fn clients_that_are_gone_are_forgotten() {
        let (mut dos, mut rng) = dos("");
        for number in 0..10_000u32 {
            let host = Host::of(number.to_be_bytes().into());
            dos.on_connected(at(number.into()), host, &mut rng);
            dos.on_closed(host);
        }
        assert!(dos.clients.len() < 2 * MAX_IDLE, "{}", dos.clients.len());
    }
}
