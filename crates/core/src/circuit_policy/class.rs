//! Priority classes: a client can give a circuit a lower priority.

use super::Weight;

/// A circuit's priority class. The default is the better class.
///
/// Source: KIST §5.1. Deviation: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityClass {
    /// Cells have their normal charge.
    #[default]
    Better,
    /// The charge of each cell is multiplied by the [`PriorityFactor`].
    Worse,
}

/// The charge for a cell of the worse class, in cells [1]; above zero.
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
    /// The charge for a cell of this class.
    pub fn weight(self, class: PriorityClass) -> Weight {
        match class {
            PriorityClass::Better => Weight::ONE,
            PriorityClass::Worse => Weight(self.0),
        }
    }
}
