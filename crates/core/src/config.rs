//! How one relay is set up. Each relay has its own, so a network can be half upgraded.

use crate::channel_map::ChannelMapConfig;
use crate::circuit_policy::{CircuitPolicyConfig, PriorityClass, PriorityFactor};
use crate::datagram::DatagramConfig;
use crate::edge_control::EdgeControlConfig;
use crate::hop_control::HopControlConfig;
use crate::scheduler::SchedulerConfig;
use crate::throttle::{ClientBuckets, ThrottleConfig};
use penstock_units::{Bytes, DataRate, Duration};

/// A token bucket's rate and depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// What is refilled [B/s] (torrc `BandwidthRate`).
    pub rate: DataRate,
    /// The most that a full bucket holds [B] (torrc `BandwidthBurst`).
    pub burst: Bytes,
}

/// How one relay, or one client's onion proxy, is set up.
#[derive(Clone, Debug, Default)]
pub struct RelayConfig {
    /// Global read and write buckets; `None` limits nothing.
    pub bandwidth: Option<Bandwidth>,
    /// When buckets are refilled.
    pub refill: Refill,
    /// Which circuit of a channel sends next.
    pub circuit_policy: CircuitPolicyConfig,
    /// How many cells a cell of the worse priority class counts as.
    pub priority_factor: PriorityFactor,
    /// As a client: the class of its circuits, announced on each before its first stream.
    pub priority_class: PriorityClass,
    /// Which channels write now, and how much.
    pub scheduler: SchedulerConfig,
    /// What a circuit may have outstanding end to end.
    pub edge_control: EdgeControlConfig,
    /// What a hop may have outstanding.
    pub hop_control: HopControlConfig,
    /// Channels to nodes that can as well are datagrams instead of TLS over TCP; `None` speaks none.
    pub datagrams: Option<DatagramConfig>,
    /// At what rate each client is served.
    pub throttle: ThrottleConfig,
    /// What it is served from, if it is throttled.
    pub client_buckets: ClientBuckets,
    /// Which channel a circuit takes.
    pub channel_map: ChannelMapConfig,
    /// A RELAY cell that joins a circuit's queue with more than so many cells is [marked](crate::Cell::mark) [cell];
    /// `None` marks none.
    ///
    /// Source: Alizadeh et al. 2010 section 3.1 (the threshold K).
    pub ecn_threshold: Option<u32>,
    /// When the edge stops reading its streams.
    pub edge_queue: EdgeQueue,
    /// As a client: what the application says leaves right after BEGIN, before CONNECTED is back.
    ///
    /// Source: proposal 174; C tor `OptimisticData`.
    pub optimistic_data: bool,
    /// A circuit SENDME must carry the digest of the cell that it acknowledges; another one closes the circuit.
    ///
    /// Source: proposal 289; C tor `sendme_accept_min_version` 1, `sendme_is_valid()`.
    pub authenticated_sendmes: bool,
    /// Of the DATA cells that one SENDME acknowledges, one at least has so much padding [B], which a world with real
    /// bytes makes random. Zero where nobody could guess a digest anyway.
    ///
    /// Source: proposal 289 section 3.4.
    pub sendme_padding: u16,
    /// How long a channel stays open that no circuit uses.
    pub idle_timeouts: IdleTimeouts,
    /// What a peer may make this relay keep.
    pub limits: Limits,
}

/// How long a channel stays open after its last circuit, or without a first one; `None` is for ever. Whichever end is
/// sooner closes it.
///
/// Source: C tor 0.2.4 to 0.3.0 `IDLE_OR_CONN_TIMEOUT_NONCANONICAL` and `IDLE_OR_CONN_TIMEOUT_CANONICAL`,
/// `run_connection_housekeeping()`; the relay's end of a client's connection is not canonical.
/// Deviation: to the nanosecond, where C tor looks once a second; and always as long, where C tor since 0.3.1 draws a time
/// for each channel (`channelpadding_get_channel_idle_timeout()`: 3 to 4.5 minutes with clients, 45 to 75 between relays).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeouts {
    /// Of a channel with a client at one of its ends.
    pub client: Option<Duration>,
    /// Between two relays.
    pub relay: Option<Duration>,
}

impl IdleTimeouts {
    /// Nothing closes.
    pub const NEVER: IdleTimeouts = IdleTimeouts { client: None, relay: None };
}

impl Default for IdleTimeouts {
    fn default() -> Self {
        let [client, relay] = [180, 900].map(|seconds| Some(Duration::from_secs(seconds)));
        IdleTimeouts { client, relay }
    }
}

/// What a peer may make a relay keep, so that none exhausts its memory. Far above what any
/// well-behaved peer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Cells of a circuit that wait in one direction [cell]; one more closes the circuit.
    /// C tor 0.4.9 closes it at 2500.
    pub max_circuit_queue: u32,
    /// Circuits of a channel that the peer made [1]; one more is refused.
    pub circuits_per_channel: u32,
    /// Streams of a circuit [1]; one more closes the circuit.
    pub streams_per_circuit: u32,
    /// Bytes in a channel's output buffer when a link-control cell is added [B]; more closes the
    /// channel. Circuits' cells stop far below, at the scheduler's marks.
    pub outbuf: Bytes,
    /// DATA cells of all streams of a circuit that wait for their applications [cell]; one more closes the circuit.
    /// Windows keep each stream far below; an XOFF stops a peer only a round trip later. C tor leaves this to its
    /// out-of-memory killer.
    pub edge_buffer: u32,
    /// What circuits' cells in queues, and what came for applications, may hold in all [B]; when it is more, circuits close
    /// until nine tenths are left, those first of which something has waited longest. `None` is no limit.
    ///
    /// Source: C tor `MaxMemInQueues`, `circuits_handle_oom()`.
    pub memory: Option<Bytes>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_circuit_queue: 2500,
            circuits_per_channel: 65_536,
            streams_per_circuit: 4096,
            outbuf: Bytes::mib(4),
            edge_buffer: 131_072,
            memory: None,
        }
    }
}

/// When token buckets are refilled.
///
/// Source: stock Tor of 2011 refills once a second; proposal 183 and C tor's
/// `TokenBucketRefillInterval` (since 0.2.3.5, default 100 ms) make it shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refill {
    /// Time between refills [ns].
    pub interval: Duration,
    /// When the first one happens [ns], in `[0, interval)`: relays that all refill at once create artefacts.
    pub phase: Duration,
    /// If set, buckets are refilled only when someone looks, by whole intervals since the last time that brought
    /// something, and what is left over is lost; and who found a bucket empty looks again so much later [ns],
    /// with all who waited by then. `phase` says nothing then.
    ///
    /// Source: C tor since 0.4.0 `token_bucket_rw_refill()` with steps of some 16 ms (`TICKS_PER_STEP`), and
    /// `reenable_blocked_connection_schedule()` after `TokenBucketRefillInterval`, 100 ms.
    pub unblock: Option<Duration>,
}

impl Refill {
    /// C tor 0.4.9's.
    pub const TOR_0_4_9: Refill = Refill {
        interval: Duration::from_millis(16),
        phase: Duration::ZERO,
        unblock: Some(Duration::from_millis(100)),
    };
}

impl Default for Refill {
    fn default() -> Self {
        Refill { interval: Duration::from_secs(1), phase: Duration::ZERO, unblock: None }
    }
}

/// Watermarks of the circuit queue at the packaging edge.
///
/// Source: C tor `CELL_QUEUE_HIGHWATER_SIZE` 256 and `CELL_QUEUE_LOWWATER_SIZE` 64; since 0.4.7 the consensus
/// parameters `cellq_high` 256 and `cellq_low` 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeQueue {
    /// Streams are read again at or below this [cell].
    pub low: u32,
    /// Streams are no longer read at or above this [cell].
    pub high: u32,
}

impl Default for EdgeQueue {
    fn default() -> Self {
        EdgeQueue { low: 64, high: 256 }
    }
}
