//! Which run a row belongs to.

/// The three columns that every table begins with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The scenario's variant, a curve of its figure.
    pub variant: String,
    /// The seed of the network that was drawn; empty where each of the run's seeds draws its own.
    pub network: String,
    /// The run's root seed.
    pub seed: u64,
}

impl RunKey {
    /// The key of a run whose seed draws its network.
    pub fn new(variant: impl Into<String>, seed: u64) -> Self {
        Self { variant: variant.into(), network: String::new(), seed }
    }
}
