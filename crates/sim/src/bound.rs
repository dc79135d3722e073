//! What a relay is bound by: where what it has to do waits.
//!
//! A relay is asked several times in a sample, and the answer given most often goes into the record.
//! Each answer is the last station of a cell's way at which something waits, since whatever waits
//! there fills all stations before it; but an empty bucket comes before TCP. What a refill allows at once may be more
//! than a congestion window, and then waits in a socket although the bucket decides how much there is.

/// How often in a sample a relay is asked.
pub(crate) const BOUND_CHECKS_PER_SAMPLE: u32 = 20;

/// What holds a relay back, the last station first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// More than a packet waits for its access link, in either direction.
    Link,
    /// A token bucket is empty.
    Bucket,
    /// A socket holds bytes that TCP does not send: its congestion window or the peer's.
    Tcp,
    /// The processor has a queue.
    Cpu,
    /// A circuit has cells but no credit for the next hop.
    Credit,
    /// A circuit or a stream that is packaged here has used up its window.
    Window,
}

/// In the order in which they are asked.
const ALL: [Bound; 6] = [Bound::Link, Bound::Bucket, Bound::Tcp, Bound::Cpu, Bound::Credit, Bound::Window];

impl Bound {
    /// As it is written in `relays.parquet`.
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

/// What holds a relay back; nothing if it is idle. Only what can decide is asked.
pub(crate) fn bound(waits: impl FnMut(&Bound) -> bool) -> Option<Bound> {
    ALL.into_iter().find(waits)
}

/// The bound_counts of one relay in one sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BoundCounts([u32; ALL.len()]);

impl BoundCounts {
    pub(crate) fn count(&mut self, bound: Bound) {
        self.0[bound as usize] += 1;
    }

    /// The answer given most often, the later station's of two; nothing if the relay was idle.
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
