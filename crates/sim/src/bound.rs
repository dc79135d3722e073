//! The bound of a relay: the resource or limit at which its work waits.
//!
//! Each relay is checked several times in a sample, and the most frequent result is recorded. A check finds the last
//! station of a cell with a queue, because a queue there also fills all earlier stations. But an empty bucket comes
//! before TCP. One refill may exceed a congestion window and then wait in a socket, although the bucket limits the
//! rate.

/// Checks of each relay in a sample.
pub(crate) const BOUND_CHECKS_PER_SAMPLE: u32 = 20;

/// The bound of a relay. The last station comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// More than one packet waits for its access link, in either direction.
    Link,
    /// A token bucket is empty.
    Bucket,
    /// A socket holds bytes that TCP cannot send, because of the congestion window or the peer's window.
    Tcp,
    /// The processor has a queue.
    Cpu,
    /// A circuit has cells but no credit for the next hop.
    Credit,
    /// A circuit or a stream whose edge is here has used up its window.
    Window,
}

/// In the order of the checks.
const ALL: [Bound; 6] = [Bound::Link, Bound::Bucket, Bound::Tcp, Bound::Cpu, Bound::Credit, Bound::Window];

impl Bound {
    /// Its value in `relays.parquet`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Bound::Link => "link",
            Bound::Tcp => "tcp",
            Bound::Bucket => "bucket",
            Bound::Cpu => "cpu",
            Bound::Credit => "credit",
            Bound::Window => "window",
        }
    }
}

/// The first bound for which `waits` is true; none if the relay is idle. Later bounds are not checked.
pub(crate) fn bound(waits: impl FnMut(&Bound) -> bool) -> Option<Bound> {
    ALL.into_iter().find(waits)
}

/// The check results of one relay in one sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BoundCounts([u32; ALL.len()]);

impl BoundCounts {
    pub(crate) fn count(&mut self, bound: Bound) {
        self.0[bound as usize] += 1;
    }

    /// The most frequent bound; of two equal ones the later station. None if the relay was idle.
    pub(crate) fn most(&self) -> Option<Bound> {
        let most = *self.0.iter().max().expect("there are six");
        ALL.into_iter().find(|bound| most > 0 && self.0[*bound as usize] == most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_station_with_a_queue_is_the_bound() {
        let of = |waiting: &[Bound]| bound(|bound| waiting.contains(bound));
        let tor = [Bound::Window, Bound::Credit, Bound::Bucket];
        assert_eq!(of(&tor), Some(Bound::Bucket));
        assert_eq!(of(&[&tor[..], &[Bound::Link]].concat()), Some(Bound::Link));
        assert_eq!(of(&[&tor[..], &[Bound::Tcp]].concat()), Some(Bound::Bucket));
        assert_eq!(of(&[Bound::Credit, Bound::Tcp, Bound::Cpu]), Some(Bound::Tcp));
        assert_eq!(of(&[Bound::Window, Bound::Cpu]), Some(Bound::Cpu));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_most_frequent_bound_is_recorded() {
        let mut bound_counts = BoundCounts::default();
        assert_eq!(bound_counts.most(), None);
        for bound in [Bound::Window, Bound::Tcp, Bound::Window] {
            bound_counts.count(bound);
        }
        assert_eq!(bound_counts.most(), Some(Bound::Window));
        bound_counts.count(Bound::Tcp);
        assert_eq!(bound_counts.most().map(Bound::name), Some("tcp"));
    }
}
