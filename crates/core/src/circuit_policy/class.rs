//! Priority classes: a circuit whose client says that it can wait.

use super::Weight;

/// How much a circuit's traffic matters to its client. Whoever says nothing is in the better class.
///
/// Source: KIST §5.1. Deviation: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityClass {
    /// Its cells count as they are.
    #[default]
    Better,
    /// Each of its cells counts as [`PriorityFactor`] cells.
    Worse,
}

/// How many cells a cell of the worse class counts as [1]; above zero.
///
/// Source: KIST §5.1, F. Deviation: the paper gives no value; 10 is ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityFactor(pub f64);

impl Default for PriorityFactor {
    fn default() -> Self {
        PriorityFactor(10.0)
    }
}

impl PriorityFactor {
    /// What a cell of a circuit of this class is charged.
    pub fn weight(self, class: PriorityClass) -> Weight {
        match class {
            PriorityClass::Better => Weight::ONE,
            PriorityClass::Worse => Weight(self.0),
        }
    }
}
