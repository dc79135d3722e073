//! The largest datagram that a path carries.

use penstock_link::datagram::SIZES;
use penstock_units::{Duration, Instant};

/// Time between two HELLOs before a path is open.
const FIRST: Duration = Duration::from_millis(200);
/// Time from an unanswered HELLO to the next one on an open path.
const AGAIN: Duration = Duration::from_secs(1);
/// Time from an answer to the next HELLO on an open path.
const CONFIRM: Duration = Duration::from_secs(5);
/// Unanswered HELLOs after which datagrams of this size do not arrive [1]. Source: RFC 8899 section 5.1.2, MAX_PROBES.
const MAX_PROBES: u32 = 3;

/// Selects the size of the largest datagram. A HELLO of this size shows that datagrams arrive in both directions. The
/// size never grows again.
///
/// Source: RFC 8899 (DPLPMTUD), with two sizes: BASE_PLPMTU and MAX_PLPMTU.
/// Deviation: an open path sends a first HELLO only together with another datagram, so an idle path has no traffic.
#[derive(Debug)]
pub(super) struct PathMtu {
    /// The place of the size in [`SIZES`].
    place: usize,
    /// HELLOs of this size since the last answer [1].
    probes: u32,
    pub(super) next: Instant,
}

impl PathMtu {
    pub(super) fn new(now: Instant) -> Self {
        PathMtu { place: 0, probes: 0, next: now }
    }

    /// The size of the largest datagram [B].
    pub(super) fn size(&self) -> usize {
        SIZES[self.place]
    }

    /// Returns whether a HELLO must leave now. If too many HELLOs were not answered, the size shrinks first. The smallest
    /// size stays.
    pub(super) fn poll(&mut self, now: Instant, is_open: bool) -> bool {
        if now < self.next {
            return false;
        }
        if self.probes >= MAX_PROBES {
            self.shrink();
        }
        self.probes += 1;
        self.next = now + if is_open { AGAIN } else { FIRST };
        true
    }

    /// When to call [`poll`](Self::poll) again, if a HELLO on an open path is not answered yet.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        (self.probes > 0).then_some(self.next)
    }

    /// Whether too many HELLOs of the smallest size were not answered.
    pub(super) fn is_dead(&self, now: Instant) -> bool {
        self.probes > MAX_PROBES && self.next <= now
    }

    /// Datagrams of this size do not arrive. Returns false if there is no smaller size.
    pub(super) fn shrink(&mut self) -> bool {
        let shrinks = self.place + 1 < SIZES.len();
        if shrinks {
            self.place += 1;
            self.probes = 0;
        }
        shrinks
    }

    /// A HELLO of this size has come back.
    pub(super) fn on_answer(&mut self, now: Instant, size: usize) {
        if size == self.size() {
            self.probes = 0;
            self.next = now + CONFIRM;
        }
    }

    /// The peer uses datagrams of this size.
    pub(super) fn on_hello(&mut self, size: usize) {
        let place = SIZES.iter().position(|other| *other == size);
        self.place = self.place.max(place.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of HELLOs [ms] and their sizes in ten seconds, if those up to `carries` are answered.
    fn hellos(mtu: &mut PathMtu, is_open: bool, from: u64, carries: usize) -> Vec<(u64, usize)> {
        let mut sent = Vec::new();
        for ms in (from..from + 10_000).step_by(100) {
            let now = Instant::from_millis(ms);
            if !mtu.is_dead(now) && mtu.poll(now, is_open) {
                sent.push((ms - from, mtu.size()));
                if mtu.size() <= carries {
                    mtu.on_answer(now, mtu.size());
                }
            }
        }
        sent
    }

    #[test]
    fn the_size_shrinks_after_three_unanswered_hellos() {
        let [full, small] = SIZES;
        let mut mtu = PathMtu::new(Instant::ZERO);
        assert_eq!(hellos(&mut mtu, true, 0, full), [(0, full), (5000, full)]);
        let shrinks = [(0, full), (1000, full), (2000, full), (3000, small), (8000, small)];
        assert_eq!(hellos(&mut mtu, true, 10_000, small), shrinks);
        assert!(!mtu.is_dead(Instant::from_millis(20_000)));
        // The path now carries full datagrams again, but keeps the small ones.
        assert_eq!(hellos(&mut mtu, true, 20_000, full), [(3000, small), (8000, small)]);
        let dies = [(3000, small), (4000, small), (5000, small), (6000, small)];
        assert_eq!(hellos(&mut mtu, true, 30_000, 0), dies);
        assert!(mtu.is_dead(Instant::from_millis(40_000)));
    }

    #[test]
    fn a_new_path_tests_both_sizes_in_less_than_a_second() {
        let [full, small] = SIZES;
        let mut mtu = PathMtu::new(Instant::ZERO);
        let sent = hellos(&mut mtu, false, 0, small);
        assert_eq!(sent[..4], [(0, full), (200, full), (400, full), (600, small)]);
    }
}
