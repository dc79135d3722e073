//! The rows, as a world fills them in.
//!
//! Times ending in `_s` are seconds of the run, those ending in `_ns` nanoseconds of the run; both count from its
//! start. `None` means that it did not happen (or is not known) and becomes null.

use std::sync::Arc;

/// A name that many rows share: of a client, a workload, a relay.
pub type Name = Arc<str>;

/// Everything that a run recorded, each table in the order in which its rows came to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// One row for each download or upload.
    pub transfers: Vec<Transfer>,
    /// One row for each circuit.
    pub paths: Vec<PathRow>,
    /// One row for each relay and interval.
    pub relays: Vec<RelayRow>,
    /// One row for each sample of a traced circuit, at each hop.
    pub circuits: Vec<CircuitRow>,
    /// One row for each tracked cell and hop.
    pub cells: Vec<CellRow>,
}

/// A download or an upload.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// The client's name.
    pub client: Name,
    /// What kind of work it was: `web`, `bulk`, `perf50k` ...
    pub workload: Name,
    /// The circuit that carried it, numbered within the run; none without Tor.
    pub circuit: Option<u64>,
    /// The stream on that circuit; none without one.
    pub stream: Option<u64>,
    /// Which way the payload went.
    pub direction: Direction,
    /// Payload asked for [B].
    pub bytes: u64,
    /// Payload that arrived until the end, or until the run stopped [B].
    pub bytes_received: u64,
    /// When the client asked [s].
    pub start_s: f64,
    /// From the start until the stream was connected [s].
    pub connect_s: Option<f64>,
    /// From the start until the first payload byte [s].
    pub ttfb_s: Option<f64>,
    /// From the start until the last payload byte [s].
    pub ttlb_s: Option<f64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it began in the warm-up, which statistics leave out.
    pub warmup: bool,
}

/// Which way a transfer's payload went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the server to the client.
    Download,
    /// From the client to the server.
    Upload,
}

impl Direction {
    /// The value in the column.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Upload => "upload",
        }
    }
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Every byte arrived.
    Ok,
    /// The client gave up waiting.
    Timeout,
    /// A circuit, stream or connection broke.
    Failed,
    /// The run stopped first.
    Unfinished,
}

impl Outcome {
    /// The value in the column.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// A node's place between a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Position {
    /// The onion proxy.
    Client,
    /// The first relay, also called entry.
    Guard,
    /// The relay between the two.
    Middle,
    /// The relay that speaks to the server.
    Exit,
    /// The server, of a client without Tor.
    Server,
}

impl Position {
    /// The value in the column.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Guard => "guard",
            Self::Middle => "middle",
            Self::Exit => "exit",
            Self::Server => "server",
        }
    }
}

/// A circuit and the relays that it runs through.
#[derive(Clone, Debug, PartialEq)]
pub struct PathRow {
    /// Numbered within the run.
    pub circuit: u64,
    /// The client's name.
    pub client: Name,
    /// When the last hop had answered [s].
    pub built_s: Option<f64>,
    /// From the first CREATE until then [s].
    pub build_time_s: Option<f64>,
    /// The first relay's name.
    pub guard: Name,
    /// The second relay's name.
    pub middle: Name,
    /// The last relay's name.
    pub exit: Name,
}

/// A relay during one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayRow {
    /// The relay's name.
    pub relay: Name,
    /// Where it stands on the circuits that it serves; as a node of a network, what its flags make it.
    pub position: Position,
    /// When the interval ended [s].
    pub t_s: f64,
    /// Bytes read from the kernel during the interval, from channels (TLS included) and streams [B].
    pub read_bytes: u64,
    /// Bytes written to the kernel during the interval, to channels (TLS included) and streams [B].
    pub written_bytes: u64,
    /// Cells in all circuit queues at the end of the interval [cell].
    pub circuit_queue_cells: u64,
    /// Bytes in all output buffers at the end of the interval [B].
    pub outbuf_bytes: u64,
    /// Bytes in the kernel's send buffers at the end of the interval [B].
    pub kernel_out_bytes: u64,
    /// Channels that waited for a token bucket at the end of the interval.
    pub throttled_conns: u64,
    /// What kept the relay busy for most of the interval: link, bucket, TCP window, circuit window or credit.
    pub bound_by: Option<Name>,
    /// Cells written to channels during the interval [cell].
    pub written_cells: u64,
    /// Credits of N23 made during the interval [cell].
    pub credits: u64,
    /// The longest that any circuit's queue was, in one direction, since the run began [cell].
    pub longest_queue_cells: u64,
}

/// A traced circuit at one hop, at one moment; or a download without Tor at its server.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitRow {
    /// Numbered within the run; none without Tor.
    pub circuit: Option<u64>,
    /// The work that the circuit carries.
    pub workload: Name,
    /// Where the sample was taken.
    pub hop: Position,
    /// When it was taken [s].
    pub t_s: f64,
    /// Cells towards the client in this hop's circuit queue [cell].
    pub queue_cells: u64,
    /// What this edge may have outstanding end to end [cell]; none at hops that are no edge.
    pub window_cells: Option<i64>,
    /// The last round trip measured here [s].
    pub rtt_s: Option<f64>,
    /// The client that it belongs to.
    pub client: Name,
    /// Congestion window of the socket that sends towards the client here [segment]; none where nothing does.
    pub cwnd_segments: Option<u64>,
    /// Its slow start threshold [segment]; none while that is infinite.
    pub ssthresh_segments: Option<u64>,
    /// Its smoothed round trip [s]; none before the first sample.
    pub srtt_s: Option<f64>,
}

/// A tracked cell at one hop: when it passed each of the stations.
///
/// Absolute times [ns]; none where the hop has no such station (the exit receives bytes, not cells; the client
/// sends nothing on).
#[derive(Clone, Debug, PartialEq)]
pub struct CellRow {
    /// Numbered within the run.
    pub circuit: u64,
    /// The work that the circuit carries.
    pub workload: Name,
    /// The cell's number on its circuit, away from the source.
    pub cell: u64,
    /// Where the times were taken.
    pub hop: Position,
    /// Its last byte arrived at the network interface, and so in the kernel.
    pub nic_in_ns: Option<u64>,
    /// The relay read its last byte from the kernel.
    pub read_ns: Option<u64>,
    /// It was cut out of the input buffer and relayed.
    pub parsed_ns: Option<u64>,
    /// It entered its circuit's queue.
    pub queued_ns: Option<u64>,
    /// It left the queue for the connection's output buffer.
    pub outbuf_ns: Option<u64>,
    /// Its last byte was written to the kernel.
    pub kernel_ns: Option<u64>,
    /// Its last byte left the network interface for the first time.
    pub nic_out_ns: Option<u64>,
}

impl CellRow {
    /// How long it waited in the kernel before the relay read it [s].
    pub fn kernel_in_s(&self) -> Option<f64> {
        seconds_between(self.nic_in_ns, self.read_ns)
    }

    /// How long it waited in the circuit queue [s].
    pub fn circuit_queue_s(&self) -> Option<f64> {
        seconds_between(self.queued_ns, self.outbuf_ns)
    }

    /// How long it waited in the output buffer [s].
    pub fn outbuf_s(&self) -> Option<f64> {
        seconds_between(self.outbuf_ns, self.kernel_ns)
    }

    /// How long it waited in the kernel before it left [s].
    pub fn kernel_out_s(&self) -> Option<f64> {
        seconds_between(self.kernel_ns, self.nic_out_ns)
    }
}

/// From `earlier` to `later` [s], both in [ns].
fn seconds_between(earlier: Option<u64>, later: Option<u64>) -> Option<f64> {
    let (earlier, later) = (earlier?, later?);
    debug_assert!(earlier <= later, "a cell passes its stations in order: {earlier} ns, then {later} ns");
    Some(later.saturating_sub(earlier) as f64 / 1e9)
}
