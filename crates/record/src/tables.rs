//! The rows of the output tables.
//!
//! Columns whose names end with `_s` are in seconds, those with `_ns` in nanoseconds. Both count from the start of the
//! run. `None` means that the event did not happen or is unknown; it becomes null.

use std::sync::Arc;

/// The name of a client, workload or relay. Many rows share one name.
pub type Name = Arc<str>;

/// All records of a run. The rows of each table are in the order of events.
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
    /// The number of the download's circuit within the run; none without Tor.
    pub circuit: Option<u64>,
    /// The number of the download's stream on this circuit; none without Tor.
    pub stream: Option<u64>,
    /// The direction of the payload.
    pub direction: Direction,
    /// The requested payload [B].
    pub bytes: u64,
    /// The payload received by the end of the transfer or run [B].
    pub bytes_received: u64,
    /// When the client requested the transfer [s].
    pub start_s: f64,
    /// Time from the request until the stream was connected [s].
    pub connect_s: Option<f64>,
    /// Time from the request until the first payload byte [s].
    pub ttfb_s: Option<f64>,
    /// Time from the request until the last payload byte [s].
    pub ttlb_s: Option<f64>,
    /// The result of the transfer.
    pub outcome: Outcome,
    /// Whether the transfer began during the warm-up, which statistics ignore.
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
    /// The direction's name in the table.
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
    /// The run ended before the transfer.
    Unfinished,
}

impl Outcome {
    /// The result's name in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// A node's position on the path from a client to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Position {
    /// The client's onion proxy.
    Client,
    /// The first relay, also called entry.
    Guard,
    /// The relay between guard and exit.
    Middle,
    /// The relay that connects to the server.
    Exit,
    /// The server, for a client without Tor.
    Server,
}

impl Position {
    /// The position's name in the table.
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
    /// The number of the circuit within the run.
    pub circuit: u64,
    /// The client's name.
    pub client: Name,
    /// When the last hop answered [s].
    pub built_s: Option<f64>,
    /// The time from the first CREATE to the last hop's answer [s].
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
    /// The relay's position on most of its circuits. For a live relay, the position that its flags allow.
    pub position: Position,
    /// The end of the interval [s].
    pub t_s: f64,
    /// Bytes read from the kernel during the interval [B], from channels (with TLS) and streams.
    pub read_bytes: u64,
    /// Bytes written to the kernel during the interval [B], to channels (with TLS) and streams.
    pub written_bytes: u64,
    /// Cells in all circuit queues at the end of the interval [cell].
    pub circuit_queue_cells: u64,
    /// Bytes in all output buffers at the end of the interval [B].
    pub outbuf_bytes: u64,
    /// Bytes in the kernel's send buffers at the end of the interval [B].
    pub kernel_out_bytes: u64,
    /// The number of channels that waited for a token bucket at the end of the interval.
    pub throttled_conns: u64,
    /// The limit that bound the relay most often during the interval: link, bucket, TCP window, processor, credit or
    /// circuit window.
    pub bound_by: Option<Name>,
    /// Cells written to channels during the interval [cell].
    pub written_cells: u64,
    /// N23 credits sent during the interval [cell].
    pub credits: u64,
    /// The longest circuit queue since the start of the run, in one direction [cell].
    pub longest_queue_cells: u64,
}

/// A sample of a traced circuit at one hop, or of a download without Tor at its server.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitRow {
    /// The number of the circuit within the run; none without Tor.
    pub circuit: Option<u64>,
    /// The name of the circuit's workload.
    pub workload: Name,
    /// The hop at which the sample was taken.
    pub hop: Position,
    /// The time of the sample [s].
    pub t_s: f64,
    /// Cells towards the client in the hop's circuit queue [cell].
    pub queue_cells: u64,
    /// The end-to-end window of the hop's edge [cell]; none at hops between the two edges.
    pub window_cells: Option<i64>,
    /// The last round trip that the hop measured on the circuit [s].
    pub rtt_s: Option<f64>,
    /// The name of the circuit's client.
    pub client: Name,
    /// The congestion window of the hop's socket towards the client [segment]; none if the hop has no socket there.
    pub cwnd_segments: Option<u64>,
    /// The slow-start threshold of the socket towards the client [segment]; none while it is infinite.
    pub ssthresh_segments: Option<u64>,
    /// The smoothed round trip of the socket towards the client [s]; none before the first sample.
    pub srtt_s: Option<f64>,
}

/// The times at which a tracked cell passed the stations of one hop.
///
/// Times are absolute [ns]. A time is none if the hop does not have this station: an exit receives bytes instead of
/// cells, and the client forwards no cells.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRow {
    /// The number of the circuit within the run.
    pub circuit: u64,
    /// The name of the circuit's workload.
    pub workload: Name,
    /// The number of the cell on its circuit.
    pub cell: u64,
    /// The hop to which these times belong.
    pub hop: Position,
    /// When the cell's last byte arrived at the network interface and the kernel.
    pub nic_in_ns: Option<u64>,
    /// When the relay read the cell's last byte from the kernel.
    pub read_ns: Option<u64>,
    /// When the relay parsed the cell from the input buffer.
    pub parsed_ns: Option<u64>,
    /// When the cell entered its circuit's queue.
    pub queued_ns: Option<u64>,
    /// When the cell left this queue for the connection's output buffer.
    pub outbuf_ns: Option<u64>,
    /// When the relay wrote the cell's last byte to the kernel.
    pub kernel_ns: Option<u64>,
    /// When the cell's last byte left the network interface for the first time.
    pub nic_out_ns: Option<u64>,
}

impl CellRow {
    /// The cell's time in the kernel until the relay read it [s].
    pub fn kernel_in_s(&self) -> Option<f64> {
        seconds_between(self.nic_in_ns, self.read_ns)
    }

    /// The cell's time in the circuit queue [s].
    pub fn circuit_queue_s(&self) -> Option<f64> {
        seconds_between(self.queued_ns, self.outbuf_ns)
    }

    /// The cell's time in the output buffer [s].
    pub fn outbuf_s(&self) -> Option<f64> {
        seconds_between(self.outbuf_ns, self.kernel_ns)
    }

    /// The cell's time in the kernel until it left the network interface [s].
    pub fn kernel_out_s(&self) -> Option<f64> {
        seconds_between(self.kernel_ns, self.nic_out_ns)
    }
}

fn seconds_between(earlier: Option<u64>, later: Option<u64>) -> Option<f64> {
    let (earlier, later) = (earlier?, later?);
    debug_assert!(earlier <= later, "a cell passes its stations in order: {earlier} ns, then {later} ns");
    Some(later.saturating_sub(earlier) as f64 / 1e9)
}
