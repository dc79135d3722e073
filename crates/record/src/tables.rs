//! The rows of the output tables.
//!
//! Columns whose names end with `_s` are in seconds, and columns with `_ns` are in nanoseconds. Both count from the
//! start of the run. `None` means that the event did not happen or is unknown, and becomes null in the file.

use crate::write::{row, words};
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
    /// One row for each client and interval in which the client received bytes.
    pub clients: Vec<ClientRow>,
}

row! {
    /// A download or an upload.
    pub struct Transfer("transfers.parquet") {
        /// The client's name.
        client: Name,
        /// The workload's name: `web`, `bulk`, `perf50k` ...
        workload: Name,
        /// The number of the circuit within the run; none for a transfer without Tor.
        circuit: Option<u64>,
        /// The number of the stream on the circuit; none for a transfer without Tor.
        stream: Option<u64>,
        /// The direction of the payload.
        direction: Direction,
        /// The number of requested payload bytes [B].
        bytes: u64,
        /// The number of payload bytes received before the transfer or the run ended [B].
        bytes_received: u64,
        /// When the client requested the transfer [s].
        start_s: f64,
        /// Time from the request until the stream was connected [s].
        connect_s: Option<f64>,
        /// Time from the request until the first payload byte [s].
        ttfb_s: Option<f64>,
        /// Time from the request until the last payload byte [s].
        ttlb_s: Option<f64>,
        /// The result of the transfer.
        outcome: Outcome,
        /// Whether the transfer began during the warm-up, which statistics ignore.
        warmup: bool,
    }
}

words! {
    /// The direction of a transfer's payload.
    pub enum Direction {
        /// From the server to the client.
        Download = "download",
        /// From the client to the server.
        Upload = "upload",
    }
}

words! {
    /// The result of a transfer.
    pub enum Outcome {
        /// Every byte arrived.
        Ok = "ok",
        /// The client's timeout expired.
        Timeout = "timeout",
        /// A circuit, stream or connection broke.
        Failed = "failed",
        /// The transfer was not finished at the end of the run.
        Unfinished = "unfinished",
    }
}

words! {
    /// A node's position on the path from a client to its server.
    pub enum Position {
        /// The client's onion proxy.
        Client = "client",
        /// The first relay, also called entry.
        Guard = "guard",
        /// The relay between guard and exit.
        Middle = "middle",
        /// The relay that connects to the server.
        Exit = "exit",
        /// The server, for a client without Tor.
        Server = "server",
    }
}

row! {
    /// A circuit and its relays.
    pub struct PathRow("paths.parquet") {
        /// The number of the circuit within the run.
        circuit: u64,
        /// The client's name.
        client: Name,
        /// When the last hop's answer completed the circuit [s].
        built_s: Option<f64>,
        /// The time from the first CREATE to the last hop's answer [s].
        build_time_s: Option<f64>,
        /// The first relay's name.
        guard: Name,
        /// The second relay's name.
        middle: Name,
        /// The last relay's name.
        exit: Name,
    }
}

row! {
    /// A relay during one interval.
    pub struct RelayRow("relays.parquet") {
        /// The relay's name.
        relay: Name,
        /// The relay's position on most of its circuits; for a live relay, the position that the relay's flags allow.
        position: Position,
        /// The end of the interval [s].
        t_s: f64,
        /// Bytes that the relay read from channels and streams during the interval, with the overhead of TLS [B].
        read_bytes: u64,
        /// Bytes that the relay wrote to channels and streams during the interval, with the overhead of TLS [B].
        written_bytes: u64,
        /// Cells in all circuit queues at the end of the interval [cell].
        circuit_queue_cells: u64,
        /// Bytes in all output buffers at the end of the interval [B].
        outbuf_bytes: u64,
        /// Bytes in the kernel's send buffers at the end of the interval [B].
        kernel_out_bytes: u64,
        /// The number of channels that waited for a token bucket at the end of the interval.
        throttled_conns: u64,
        /// The most frequent bottleneck of the relay during the interval: link, bucket, TCP window, processor, credit
        /// or circuit window.
        bound_by: Option<Name>,
        /// Cells written to channels during the interval [cell].
        written_cells: u64,
        /// N23 credits sent during the interval [cell].
        credits: u64,
        /// The longest circuit queue since the start of the run [cell]. Each direction of a circuit has its own queue.
        longest_queue_cells: u64,
    }
}

row! {
    /// A sample of a traced circuit at one hop, or of a download without Tor at the server.
    pub struct CircuitRow("circuits.parquet") {
        /// The number of the circuit within the run; none for a download without Tor.
        circuit: Option<u64>,
        /// The name of the circuit's workload.
        workload: Name,
        /// The hop at which the sample was taken.
        hop: Position,
        /// The time of the sample [s].
        t_s: f64,
        /// Cells towards the client in the hop's circuit queue [cell].
        queue_cells: u64,
        /// The circuit's end-to-end window at this hop [cell]; none at hops between the two ends of the circuit.
        window_cells: Option<i64>,
        /// The last round trip that the hop measured on the circuit [s].
        rtt_s: Option<f64>,
        /// The name of the circuit's client.
        client: Name,
        /// The congestion window of the hop's socket towards the client [segment]; none if the hop has no socket there.
        cwnd_segments: Option<u64>,
        /// The slow-start threshold of the socket towards the client [segment]; none while it is infinite.
        ssthresh_segments: Option<u64>,
        /// The smoothed round trip of the socket towards the client [s]; none before the first sample.
        srtt_s: Option<f64>,
        /// The hop's estimate of the circuit's cells that wait at the next hop towards the client [cell]; none without
        /// BackTap or Marut.
        backlog_cells: Option<f64>,
        /// The largest such estimate of later hops, as the next hop reported it last [cell]; none without Marut.
        backlog_beyond_cells: Option<f64>,
        /// How many SENDMEs of the circuit and of its open streams have arrived at the hop; none at hops between the
        /// two ends of the circuit, and before its first stream.
        sendmes: Option<u64>,
    }
}

row! {
    /// The bytes that a client received during one interval. Intervals without bytes have no row.
    pub struct ClientRow("clients.parquet") {
        /// The client's name.
        client: Name,
        /// The end of the interval [s].
        t_s: f64,
        /// The payload that the client's applications received during the interval [B].
        received_bytes: u64,
        /// Whether a guard's throttle limited the client at the end of the interval.
        throttled: bool,
    }
}

row! {
    /// The times at which a tracked cell passed the queues and buffers of one hop.
    ///
    /// Times count from the start of the run [ns]. A time is none if the cell does not pass that queue or buffer at
    /// this hop. An exit receives bytes instead of cells, and the client forwards no cells.
    pub struct CellRow("cells.parquet") {
        /// The number of the circuit within the run.
        circuit: u64,
        /// The name of the circuit's workload.
        workload: Name,
        /// The number of the cell on its circuit.
        cell: u64,
        /// The hop to which these times belong.
        hop: Position,
        /// When the cell's last byte reached the kernel from the network interface.
        nic_in_ns: Option<u64>,
        /// When the relay read the cell's last byte from the kernel.
        read_ns: Option<u64>,
        /// When the relay parsed the cell from the input buffer.
        parsed_ns: Option<u64>,
        /// When the cell joined the circuit's queue.
        queued_ns: Option<u64>,
        /// When the cell moved from the circuit's queue to the channel's output buffer.
        outbuf_ns: Option<u64>,
        /// When the relay wrote the cell's last byte to the kernel.
        kernel_ns: Option<u64>,
        /// When the cell's last byte left the network interface for the first time.
        nic_out_ns: Option<u64>,
    } and { kernel_in_s, circuit_queue_s, outbuf_s, kernel_out_s }
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
