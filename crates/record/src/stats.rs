//! The cost of a run.

/// The cost of a run. The manifest lists it under `runs`, together with the run's key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Simulated time [s].
    pub sim_seconds: f64,
    /// Real time [s]. It differs between identical runs.
    pub wall_seconds: f64,
    /// Processor time of this run's thread [s]. It differs between identical runs.
    pub cpu_seconds: f64,
    /// The number of events that the simulator handled.
    pub events: u64,
    /// The number of delivered data segments, ACKs and datagrams.
    pub packets: u64,
    /// The number of cells. A cell counts once for each hop that writes it.
    pub cells: u64,
    /// The number of DATA cells delivered at clients and exits.
    pub data_cells: u64,
    /// The number of SENDMEs, both for circuits and for streams.
    pub sendmes: u64,
    /// The number of reads, writes and datagrams of relays on their channels.
    pub relay_calls: u64,
    /// The number of times that relays asked the kernel for the state of a channel's socket.
    pub relay_queries: u64,
    /// The number of circuits over the build timeout, with test circuits.
    pub timed_out_circuits: u64,
    /// The number of test circuits, which clients with an adaptive build timeout build to learn it.
    pub test_circuits: u64,
    /// The median of the adaptive build timeouts at the end of the run [s]; `None` if no client has learned one.
    pub build_timeout_s: Option<f64>,
    /// The peak heap of the run's thread [B].
    pub peak_heap_bytes: u64,
}
