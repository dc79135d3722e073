//! The run of a row.

/// The first three columns of every table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The scenario's variant, a curve of its figure.
    pub variant: String,
    /// The network's seed. Empty if the run's seed is also that of the network.
    pub network: String,
    /// The run's root seed.
    pub seed: u64,
}

impl RunKey {
    /// The key of a run whose seed is also that of its network.
    pub fn new(variant: impl Into<String>, seed: u64) -> Self {
        Self { variant: variant.into(), network: String::new(), seed }
    }
}
