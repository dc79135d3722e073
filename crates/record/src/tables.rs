//! The rows of the tables.
//!
//! Columns that end with `_s` are in seconds, those that end with `_ns` in nanoseconds. Both count from the start of
//! the run. `None` means that the event did not happen or is unknown; it becomes null.

use std::sync::Arc;

/// A name of a client, workload or relay, shared by many rows.
pub type Name = Arc<str>;

/// All records of a run. Each table is in the order of events.
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
    /// The workload's name: `web`, `bulk`, `perf50k` ...
    pub workload: Name,
    /// Number of its circuit within the run; none without Tor.
    pub circuit: Option<u64>,
    /// Number of its stream on that circuit; none without Tor.
    pub stream: Option<u64>,
    /// The direction of the payload.
    pub direction: Direction,
    /// Requested payload [B].
    pub bytes: u64,
    /// Received payload at the end of the transfer or the run [B].
    pub bytes_received: u64,
    /// Time of the request [s].
    pub start_s: f64,
    /// Time from the request until the stream was connected [s].
    pub connect_s: Option<f64>,
    /// Time from the request until the first payload byte [s].
    pub ttfb_s: Option<f64>,
    /// Time from the request until the last payload byte [s].
    pub ttlb_s: Option<f64>,
    /// The result of the transfer.
    pub outcome: Outcome,
    /// Whether it began during the warm-up, which statistics ignore.
    pub warmup: bool,
}

/// The direction of a transfer's payload.
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

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Every byte arrived.
    Ok,
    /// The client's timeout expired.
    Timeout,
    /// A circuit, stream or connection broke.
    Failed,
    /// The run ended first.
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

/// A node's position between a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Position {
    /// The onion proxy.
    Client,
    /// The first relay, also called entry.
    Guard,
    /// The relay between the two.
    Middle,
    /// The relay that connects to the server.
    Exit,
    /// The server of a client without Tor.
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

/// A circuit and its relays.
#[derive(Clone, Debug, PartialEq)]
pub struct PathRow {
    /// Numbered within the run.
    pub circuit: u64,
    /// The client's name.
    pub client: Name,
    /// Time at which the last hop answered [s].
    pub built_s: Option<f64>,
    /// Time from the first CREATE until then [s].
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
    /// Its position on most circuits through it; for a live relay, the position that its flags allow.
    pub position: Position,
    /// End of the interval [s].
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
    /// The most frequent limit of the relay during the interval: link, bucket, TCP window, processor, credit or circuit
    /// window.
    pub bound_by: Option<Name>,
    /// Cells written to channels during the interval [cell].
    pub written_cells: u64,
    /// Credits of N23 sent during the interval [cell].
    pub credits: u64,
    /// Maximum length of any circuit queue in one direction since the start of the run [cell].
    pub longest_queue_cells: u64,
}

/// A sample of a traced circuit at one hop, or of a download without Tor at its server.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitRow {
    /// Number of the circuit within the run; none without Tor.
    pub circuit: Option<u64>,
    /// The workload of the circuit.
    pub workload: Name,
    /// The hop of the sample.
    pub hop: Position,
    /// Time of the sample [s].
    pub t_s: f64,
    /// Cells towards the client in this hop's circuit queue [cell].
    pub queue_cells: u64,
    /// End-to-end window of this edge [cell]; none at hops between the edges.
    pub window_cells: Option<i64>,
    /// The last round trip of the circuit measured here [s].
    pub rtt_s: Option<f64>,
    /// The client of the circuit.
    pub client: Name,
    /// Congestion window of this hop's socket towards the client [segment]; none without such a socket.
    pub cwnd_segments: Option<u64>,
    /// Slow-start threshold of that socket [segment]; none while it is infinite.
    pub ssthresh_segments: Option<u64>,
    /// Smoothed round trip of that socket [s]; none before the first sample.
    pub srtt_s: Option<f64>,
}

/// A tracked cell at one hop, with its time at each station.
///
/// Times are absolute [ns]. They are none if the hop has no such station: an exit receives bytes instead of cells, and
/// the client sends no cell on.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRow {
    /// Number of the circuit within the run.
    pub circuit: u64,
    /// The workload of the circuit.
    pub workload: Name,
    /// The cell's number on its circuit.
    pub cell: u64,
    /// The hop of these times.
    pub hop: Position,
    /// Its last byte arrived at the network interface and the kernel.
    pub nic_in_ns: Option<u64>,
    /// The relay read its last byte from the kernel.
    pub read_ns: Option<u64>,
    /// The relay parsed it from the input buffer.
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
    /// Time in the kernel until the relay read it [s].
    pub fn kernel_in_s(&self) -> Option<f64> {
        seconds_between(self.nic_in_ns, self.read_ns)
    }

    /// Time in the circuit queue [s].
    pub fn circuit_queue_s(&self) -> Option<f64> {
        seconds_between(self.queued_ns, self.outbuf_ns)
    }

    /// Time in the output buffer [s].
    pub fn outbuf_s(&self) -> Option<f64> {
        seconds_between(self.outbuf_ns, self.kernel_ns)
    }

    /// Time in the kernel until it left the network interface [s].
    pub fn kernel_out_s(&self) -> Option<f64> {
        seconds_between(self.kernel_ns, self.nic_out_ns)
    }
}

/// Seconds from `earlier` to `later`, which are in nanoseconds.
fn seconds_between(earlier: Option<u64>, later: Option<u64>) -> Option<f64> {
    let (earlier, later) = (earlier?, later?);
    debug_assert!(earlier <= later, "a cell passes its stations in order: {earlier} ns, then {later} ns");
    Some(later.saturating_sub(earlier) as f64 / 1e9)
}
