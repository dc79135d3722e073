//! What a run cost.

/// One entry of the manifest's `runs`, beside the run's key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Simulated time that passed [s].
    pub sim_seconds: f64,
    /// Time on the clock [s]; differs between identical runs.
    pub wall_seconds: f64,
    /// Time on the processor, of this run's thread alone [s]; differs between identical runs.
    pub cpu_seconds: f64,
    /// Events handled.
    pub events: u64,
    /// Data segments, ACKs and datagrams, counted once at delivery.
    pub packets: u64,
    /// Cells, counted once for each hop that wrote them.
    pub cells: u64,
    /// DATA cells delivered, at clients and exits.
    pub data_cells: u64,
    /// SENDMEs made, of circuits and of streams.
    pub sendmes: u64,
    /// Largest heap that the run's thread held [B].
    pub peak_heap_bytes: u64,
}
