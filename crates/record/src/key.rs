//! Which run a row belongs to.

/// The three columns that every table begins with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The scenario's variant, a curve of its figure.
    pub variant: String,
    /// The network that was drawn; empty where the scenario names a single one.
    pub network: String,
    /// The run's root seed.
    pub seed: u64,
}

impl RunKey {
    /// The key of a run in a scenario with a single network.
    pub fn new(variant: impl Into<String>, seed: u64) -> Self {
        Self { variant: variant.into(), network: String::new(), seed }
    }
}
