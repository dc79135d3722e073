//! The configuration of one relay. Each relay has its own, so a network can contain upgraded and old relays.

use crate::channel_map::ChannelMapConfig;
use crate::circuit_policy::{CircuitPolicyConfig, PriorityClass, PriorityFactor};
use crate::conflux::ConfluxConfig;
use crate::datagram::DatagramConfig;
use crate::edge_control::EdgeControlConfig;
use crate::hop_control::HopControlConfig;
use crate::scheduler::SchedulerConfig;
use crate::throttle::{ClientBuckets, ThrottleConfig};
use penstock_units::{Bytes, DataRate, Duration};

/// The rate and depth of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// The refill rate [B/s] (torrc `BandwidthRate`).
    pub rate: DataRate,
    /// The bucket's depth [B] (torrc `BandwidthBurst`).
    pub burst: Bytes,
}

/// The configuration of one relay, or of one client's onion proxy.
#[derive(Clone, Debug, Default)]
pub struct RelayConfig {
    /// The relay's own read and write buckets; `None` sets no limit.
    pub bandwidth: Option<Bandwidth>,
    /// Times at which the relay refills its token buckets.
    pub refill: Refill,
    /// Decides which circuit of a channel sends next.
    pub circuit_policy: CircuitPolicyConfig,
    /// The charge for a cell of the worse priority class. An ordinary cell has the charge 1.
    pub priority_factor: PriorityFactor,
    /// The priority class of this client's circuits. The client announces the class before a circuit's first stream.
    pub priority_class: PriorityClass,
    /// Decides which channels write now, and how many cells.
    pub scheduler: SchedulerConfig,
    /// End-to-end flow control and congestion control of circuits and streams.
    pub edge_control: EdgeControlConfig,
    /// Flow control between neighbouring nodes.
    pub hop_control: HopControlConfig,
    /// Datagrams replace TLS over TCP on channels to nodes that also support them; `None` disables datagrams.
    pub datagrams: Option<DatagramConfig>,
    /// Decides at which rate the guard serves each client.
    pub throttle: ThrottleConfig,
    /// The buckets of throttled clients.
    pub client_buckets: ClientBuckets,
    /// Decides which channel a circuit uses.
    pub channel_map: ChannelMapConfig,
    /// If a circuit queue is longer than this, a RELAY cell that joins it gets a congestion [mark](crate::Cell::mark)
    /// [cell]; `None` marks no cell.
    ///
    /// Source: Alizadeh et al. 2010 section 3.1 (the threshold K).
    pub ecn_threshold: Option<u32>,
    /// The queue lengths at which the edge stops and resumes reading its streams.
    pub edge_queue: EdgeQueue,
    /// Linked circuits; `None` neither links circuits nor accepts links.
    pub conflux: Option<ConfluxConfig>,
    /// Whether a client sends the application's data right after BEGIN, without waiting for CONNECTED.
    ///
    /// Source: proposal 174; C tor `OptimisticData`.
    pub optimistic_data: bool,
    /// Whether a circuit SENDME must contain the digest of the acknowledged cell. A SENDME without it closes the
    /// circuit.
    ///
    /// Source: proposal 289; C tor `sendme_accept_min_version` 1, `sendme_is_valid()`.
    pub authenticated_sendmes: bool,
    /// Size of padding [B]. At least one of the DATA cells that a SENDME acknowledges contains padding. In a live cell
    /// the padding is random, so that a peer cannot guess the digest. Set 0 if cells carry no real bytes.
    ///
    /// Source: proposal 289 section 3.4.
    pub sendme_padding: u16,
    /// How long a channel without circuits stays open.
    pub idle_timeouts: IdleTimeouts,
    /// Limits on the memory that a peer can make the relay use.
    pub limits: Limits,
}

/// How long a channel without circuits stays open; `None` keeps it open forever. The shorter timeout of the two ends
/// applies.
///
/// Source: C tor 0.2.4 to 0.3.0 `IDLE_OR_CONN_TIMEOUT_NONCANONICAL` and `IDLE_OR_CONN_TIMEOUT_CANONICAL`,
/// `run_connection_housekeeping()`. For C tor's relay, a connection to a client is not canonical.
/// Deviation: the timeout is exact, while C tor checks once a second. The timeout is fixed, while C tor since 0.3.1
/// samples one for each channel (`channelpadding_get_channel_idle_timeout()`: 3 to 4.5 minutes with clients, 45 to 75
/// minutes between relays).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeouts {
    /// The timeout of a channel with a client at one end.
    pub client: Option<Duration>,
    /// The timeout of a channel between two relays.
    pub relay: Option<Duration>,
}

impl IdleTimeouts {
    /// No channel closes because it is idle.
    pub const NEVER: IdleTimeouts = IdleTimeouts { client: None, relay: None };
}

impl Default for IdleTimeouts {
    fn default() -> Self {
        let [client, relay] = [180, 900].map(|seconds| Some(Duration::from_secs(seconds)));
        IdleTimeouts { client, relay }
    }
}

/// Limits on the memory that a peer can make the relay use. A well-behaved peer needs far less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum queue of one circuit direction [cell]. A longer queue closes the circuit (C tor 0.4.9: 2500).
    pub max_circuit_queue: u32,
    /// Maximum number of circuits that the peer creates on one channel [1]. The relay refuses further circuits.
    pub circuits_per_channel: u32,
    /// Maximum number of streams on one circuit [1]. If the peer opens more, the circuit closes.
    pub streams_per_circuit: u32,
    /// Maximum output buffer [B]. If a link-control cell makes the buffer larger, the channel closes. The scheduler
    /// keeps circuits' cells well below this size.
    pub outbuf: Bytes,
    /// Maximum number of a circuit's DATA cells that wait for applications [cell]. If it is exceeded, the circuit
    /// closes. Windows keep each stream far below this limit. XOFF takes effect only after one round trip. C tor has no
    /// corresponding limit and relies on the out-of-memory handler.
    pub edge_buffer: u32,
    /// Maximum memory that peers make the relay use [B]: circuits, their queues, streams, output buffers, and the
    /// driver's connections. `None` sets no limit. Above it, the relay closes circuits of the peer that uses the most
    /// memory, until nine tenths of the limit are in use.
    ///
    /// Source: C tor `MaxMemInQueues`, `circuits_handle_oom()`.
    pub memory: Option<Bytes>,
    /// The size of a circuit without cells and streams, as `memory` counts it [B].
    pub circuit: Bytes,
    /// The size of a stream without payloads, as `memory` counts it [B].
    pub stream: Bytes,
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
            circuit: Bytes::ZERO,
            stream: Bytes::ZERO,
        }
    }
}

/// When a relay refills its token buckets.
///
/// Source: stock Tor of 2011 refilled once a second. Proposal 183 and C tor's `TokenBucketRefillInterval` (since
/// 0.2.3.5, default 100 ms) shortened the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refill {
    /// Time between refills [ns].
    pub interval: Duration,
    /// Time of the first refill [ns], in `[0, interval)`. Different phases avoid artefacts of simultaneous refills.
    pub phase: Duration,
    /// If set, a bucket is refilled only when it is used. The bucket gets the tokens of the whole intervals since the
    /// last refill, and the remaining time is lost. If an operation finds an empty bucket, the relay retries the
    /// operation after this time [ns], together with all other waiting operations. `phase` then has no effect.
    ///
    /// Source: C tor since 0.4.0 `token_bucket_rw_refill()` with steps of some 16 ms (`TICKS_PER_STEP`), and
    /// `reenable_blocked_connection_schedule()` after `TokenBucketRefillInterval`, 100 ms.
    pub unblock: Option<Duration>,
}

impl Refill {
    /// The values of C tor 0.4.9.
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

/// Limits of the circuit queue at the node that packages DATA cells (the edge).
///
/// Source: C tor `CELL_QUEUE_HIGHWATER_SIZE` 256 and `CELL_QUEUE_LOWWATER_SIZE` 64; since 0.4.7 the consensus
/// parameters `cellq_high` 256 and `cellq_low` 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeQueue {
    /// The edge resumes reading streams at or below this queue length [cell].
    pub low: u32,
    /// The edge stops reading streams at or above this queue length [cell].
    pub high: u32,
}

impl Default for EdgeQueue {
    fn default() -> Self {
        EdgeQueue { low: 64, high: 256 }
    }
}
