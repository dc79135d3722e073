//! The columns that identify the run to which a row belongs.

/// The first three columns of every table, which identify the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The scenario's variant. A figure shows each variant as one curve.
    pub variant: String,
    /// The seed of the network; empty if the network uses the run's seed.
    pub network: String,
    /// The root seed of the run.
    pub seed: u64,
}

impl RunKey {
    /// The key of a run whose network uses the run's seed.
    pub fn new(variant: impl Into<String>, seed: u64) -> Self {
        Self { variant: variant.into(), network: String::new(), seed }
    }
}
