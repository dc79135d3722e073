//! The cost of a run.

/// One entry of the manifest's `runs`, beside the run's key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Simulated time [s].
    pub sim_seconds: f64,
    /// Time of the real clock [s]. It differs between identical runs.
    pub wall_seconds: f64,
    /// Processor time of this run's thread [s]. It differs between identical runs.
    pub cpu_seconds: f64,
    /// Events handled.
    pub events: u64,
    /// Data segments, ACKs and datagrams, counted once at delivery.
    pub packets: u64,
    /// Cells, counted once for each hop that wrote them.
    pub cells: u64,
    /// DATA cells delivered, at clients and exits.
    pub data_cells: u64,
    /// SENDMEs of circuits and of streams.
    pub sendmes: u64,
    /// Peak heap of the run's thread [B].
    pub peak_heap_bytes: u64,
}
