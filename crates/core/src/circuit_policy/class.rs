use super::Weight;

/// A circuit's priority class. The default is the better class. Source: KIST §5.1. Deviation: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityClass {
    /// Cells of this class have the normal charge.
    #[default]
    Better,
    /// Cells of this class have the normal charge times the [`PriorityFactor`].
    Worse,
}

/// The charge for a cell of the worse priority class [1]; above zero. An ordinary cell has the charge 1.
///
/// Source: KIST §5.1, F. Deviation: the paper gives no value; Penstock uses 10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityFactor(pub f64);

impl Default for PriorityFactor {
    fn default() -> Self {
        PriorityFactor(10.0)
    }
}

impl PriorityFactor {
    /// The charge for one cell of the priority class.
    pub fn weight(self, class: PriorityClass) -> Weight {
        match class {
            PriorityClass::Better => Weight::ONE,
            PriorityClass::Worse => Weight(self.0),
        }
    }
}
