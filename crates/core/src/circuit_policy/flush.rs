use penstock_units::Cells;

/// How many cells of the chosen circuit leave its queue before the policy chooses again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// One cell, as in C tor: a better circuit waits for at most one cell.
    #[default]
    Cell,
    /// All cells that are in the queue at the choice and have credit. The output buffer may exceed its limit.
    ///
    /// Source: EWMA §2.3 ("flushes that circuit's cell queue to the output buffer"). Deviation: none.
    Queue,
}

impl Flush {
    /// How many of the queued cells leave [cell].
    pub fn of(self, queued: Cells) -> Cells {
        match self {
            Flush::Cell => Cells::new(1).min(queued),
            Flush::Queue => queued,
        }
    }
}
