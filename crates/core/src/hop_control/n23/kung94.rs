use super::super::LinkSignals;

/// N3 is the circuit's share of a buffer pool, in proportion to the cells that the circuit moved in the last period.
///
/// Each outgoing connection has a pool of M cells. Q cells wait in the queues of its N circuits. In the last period the
/// connection moved T cells, and this circuit moved V of them: N3 = (M/2 − Q − N) · V/T + 1. If T is zero, N3 does not
/// change.
///
/// Source: Kung, Blackwell, Chapman, SIGCOMM 1994, adaptive credit allocation at the receiver, from a summary.
/// Deviation: the pools belong to outgoing connections, as the delay of DefenestraTor §4.2 does, not to incoming ones.
/// Deviation: DefenestraTor's bounds of 100 and 500 cells apply to each circuit, so their sum may exceed the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kung94Config {
    /// M, the size of the pool [cell].
    pub pool: u32,
}

impl Default for Kung94Config {
    fn default() -> Self {
        Kung94Config { pool: 2000 }
    }
}

impl Kung94Config {
    pub(super) fn adjust(&self, n3: u64, moved: u64, link: LinkSignals) -> u64 {
        if link.moved.get() == 0 {
            return n3;
        }
        let half = u64::from(self.pool / 2);
        let free = half.saturating_sub(link.queued.get()).saturating_sub(link.circuits.into());
        free * moved / link.moved.get() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Cells;

    fn link(queued: u64, circuits: u32, moved: u64) -> LinkSignals {
        LinkSignals {
            queued: Cells::new(queued),
            circuits,
            moved: Cells::new(moved),
            ..LinkSignals::default()
        }
    }

    #[test]
    fn the_pool_is_shared_in_proportion_to_use() {
        let law = Kung94Config::default();
        assert_eq!(law.adjust(500, 50, link(90, 10, 50)), 901, "a single circuit gets all free cells");
        assert_eq!(
            law.adjust(500, 30, link(90, 10, 120)),
            226,
            "a quarter of the traffic gets a quarter of the rest"
        );
        assert_eq!(law.adjust(500, 0, link(90, 10, 120)), 1);
        assert_eq!(law.adjust(300, 0, link(0, 10, 0)), 300, "without traffic N3 does not change");
        assert_eq!(law.adjust(300, 5, link(5000, 10, 5)), 1, "more cells wait than the pool has");
    }
}
