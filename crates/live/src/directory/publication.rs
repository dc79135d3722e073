//! Decides when the relay publishes a new descriptor.
//!
//! Source: dir-spec, "Uploading descriptors"; C tor `check_descriptor_bandwidth_changed()`,
//! `FORCE_REGENERATE_DESCRIPTOR_INTERVAL`.

use super::bandwidth::Observed;
use penstock_units::{Duration, Instant};
use std::time::SystemTime;

/// Maximum age of a descriptor.
const RENEW: Duration = Duration::from_secs(18 * 3600);
/// Maximum age of a descriptor while the consensus does not list the relay (C tor: `FAST_RETRY_DESCRIPTOR_INTERVAL`).
const RETRY: Duration = Duration::from_secs(90 * 60);
/// A new descriptor is due when the observed bandwidth has risen or fallen by more than this factor [1].
const FACTOR: u64 = 2;
/// Minimum time between two descriptors that only a changed bandwidth causes.
const BETWEEN: Duration = Duration::from_secs(3 * 3600);
/// A changed bandwidth causes a new descriptor only in this time after the relay's start.
const YOUNG: Duration = Duration::from_secs(24 * 3600);

/// The state that decides about a new descriptor: the last descriptor, and changes since then.
#[derive(Clone, Debug)]
pub struct Publication {
    started: Instant,
    observed: Observed,
    /// Time of the last descriptor, and the observed bandwidth in it [B/s].
    last: Option<(Instant, u64)>,
    rate_changed: Option<Instant>,
    has_changed: bool,
    is_listed: bool,
}

impl Publication {
    /// The state before the first descriptor.
    pub fn new(now: Instant) -> Self {
        Publication::with(now, Observed::new(now))
    }

    /// The state before the first descriptor, with the maxima of an earlier run ([`history`](Self::history)). `date` is the
    /// date at `now`.
    pub fn continued(now: Instant, date: SystemTime, history: &str) -> Self {
        Publication::with(now, Observed::continued(now, date, history))
    }

    /// The maxima of the observed bandwidth, as lines of C tor's state file.
    pub fn history(&self, now: Instant, date: SystemTime) -> String {
        self.observed.history(now, date)
    }

    fn with(now: Instant, observed: Observed) -> Self {
        Publication {
            started: now,
            observed,
            last: None,
            rate_changed: None,
            has_changed: false,
            is_listed: false,
        }
    }

    /// Takes the counters of read and written bytes since the start [B]. Call it every second.
    pub fn on_count(&mut self, now: Instant, counted: [u64; 2]) {
        self.observed.on_count(now, counted);
    }

    /// Records a change of the address, the exit policy or a key.
    pub fn on_change(&mut self) {
        self.has_changed = true;
    }

    /// Records whether the newest consensus lists the relay.
    pub fn on_consensus(&mut self, is_listed: bool) {
        self.is_listed = is_listed;
    }

    /// Whether a new descriptor is due.
    pub fn is_due(&self, now: Instant) -> bool {
        let Some((written, said)) = self.last else { return true };
        let rate = self.observed.rate();
        let is_other = rate / FACTOR > said || said / FACTOR > rate || (said == 0) != (rate == 0);
        let has_waited = said == 0 || self.rate_changed.is_none_or(|last| now >= last + BETWEEN);
        let rate_counts = is_other && has_waited && now < self.started + YOUNG;
        let age = now.since(written);
        self.has_changed || age >= RENEW || (age >= RETRY && !self.is_listed) || rate_counts
    }

    /// Records that a new descriptor was written. Returns the observed bandwidth for it [B/s].
    pub fn on_written(&mut self, now: Instant) -> u64 {
        let rate = self.observed.rate();
        if self.last.is_some_and(|(_, said)| said != rate) {
            self.rate_changed = Some(now);
        }
        (self.last, self.has_changed) = (Some((now, rate)), false);
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Transfers so many bytes in each of ten seconds [B].
    fn carry(publication: &mut Publication, from: u64, total: &mut u64, bytes: u64) {
        for second in from..from + 10 {
            *total += bytes;
            publication.on_count(at(second + 1), [*total; 2]);
        }
    }

    #[test]
    fn the_descriptor_is_published_at_the_start_and_every_18_hours() {
        let mut publication = Publication::new(at(0));
        assert!(publication.is_due(at(0)));
        assert_eq!(publication.on_written(at(0)), 0);
        publication.on_consensus(true);
        assert!(!publication.is_due(at(18 * 3600 - 1)) && publication.is_due(at(18 * 3600)));
    }

    #[test]
    fn the_descriptor_is_published_again_if_the_consensus_does_not_list_the_relay() {
        let mut publication = Publication::new(at(0));
        publication.on_written(at(0));
        assert!(!publication.is_due(at(5399)) && publication.is_due(at(5400)));
        publication.on_consensus(true);
        assert!(!publication.is_due(at(5400)));
    }

    #[test]
    fn a_change_is_published_immediately_and_once() {
        let mut publication = Publication::new(at(0));
        publication.on_written(at(0));
        publication.on_change();
        assert!(publication.is_due(at(1)));
        publication.on_written(at(1));
        assert!(!publication.is_due(at(1)));
    }

    #[test]
    fn doubled_bandwidth_is_published_at_most_every_three_hours() {
        let (mut publication, mut total) = (Publication::new(at(0)), 0);
        publication.on_written(at(0));
        publication.on_consensus(true);
        carry(&mut publication, 0, &mut total, 1000);
        assert!(publication.is_due(at(10)), "there was none before");
        assert_eq!(publication.on_written(at(10)), 1000);
        carry(&mut publication, 10, &mut total, 1999);
        assert!(!publication.is_due(at(3 * 3600 + 10)), "less than twice");
        carry(&mut publication, 20, &mut total, 5000);
        assert!(!publication.is_due(at(30)), "too soon");
        assert!(publication.is_due(at(3 * 3600 + 10)));
        assert_eq!(publication.on_written(at(3 * 3600 + 10)), 5000);
    }

    #[test]
    fn bandwidth_changes_count_on_the_first_day_only() {
        let (mut publication, mut total) = (Publication::new(at(0)), 0);
        let day = 24 * 3600;
        publication.on_written(at(day - 100));
        carry(&mut publication, day, &mut total, 1000);
        assert!(!publication.is_due(at(day + 10)));
    }
}
