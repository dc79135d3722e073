//! The bound of a relay: the resource or limit for which the relay's work waits.
//!
//! The simulator checks each relay several times in a sample, and records the most frequent result. A check looks for
//! the last queue on the path of cells that is not empty, because this queue also fills the queues before it. The token
//! bucket is checked before TCP. After a refill, bytes may wait in a socket because they exceed the congestion window,
//! although the bucket limits the rate.

/// Number of checks of each relay in one sample [1].
pub(crate) const BOUND_CHECKS_PER_SAMPLE: u32 = 20;

/// The bound of a relay. The variants are in the reverse order of the path of cells through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// More than one packet waits for the relay's access link, in either direction.
    Link,
    /// A token bucket is empty.
    Bucket,
    /// A socket holds bytes that TCP cannot send yet, because of the congestion window or the peer's receive window.
    Tcp,
    Cpu,
    /// A circuit has cells but no credit for the next hop.
    Credit,
    /// A circuit or stream that ends at this relay has used up its window.
    Window,
}

const ALL: [Bound; 6] = [Bound::Link, Bound::Bucket, Bound::Tcp, Bound::Cpu, Bound::Credit, Bound::Window];

impl Bound {
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

pub(crate) fn bound(waits: impl FnMut(&Bound) -> bool) -> Option<Bound> {
    ALL.into_iter().find(waits)
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BoundCounts([u32; ALL.len()]);

impl BoundCounts {
    pub(crate) fn count(&mut self, bound: Bound) {
        self.0[bound as usize] += 1;
    }

    /// The bound that was found most often; `None` if the relay was idle. If two bounds are equally frequent, the bound
    /// later on the path of cells counts.
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
