use penstock_units::Duration;

const MAX: Duration = Duration::from_secs(64);
/// Maximum number of doublings [1]; realistic minimum timeouts reach `MAX` earlier.
const MAX_DOUBLINGS: u32 = 30;

/// The retransmission timeout of one circuit over one hop.
/// Source: nstor: at least 1 s, SRTT + 4 · RTTVAR with gains of 1/8 and 1/4 (RFC 6298); slides, "ACK, RTO".
/// Deviation: the timeout doubles with each consecutive expiry, up to 64 s, as in RFC 6298 §5.5; nstor's timeout stays
/// the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeout {
    normal: Duration,
    floor: Duration,
    /// The smoothed round trip and the round-trip variation; `None` before the first sample.
    measured: Option<(Duration, Duration)>,
    /// How often the timeout has expired since the last answer [1].
    doublings: u32,
}

impl Timeout {
    pub(super) fn new(floor: Duration) -> Self {
        Timeout { normal: floor, floor, measured: None, doublings: 0 }
    }

    pub(super) fn sample(&mut self, rtt: Duration) {
        let (smooth, variation) = match self.measured {
            None => (rtt, rtt / 2),
            Some((smooth, variation)) => ((smooth * 7 + rtt) / 8, (variation * 3 + smooth.abs_diff(rtt)) / 4),
        };
        self.measured = Some((smooth, variation));
        self.normal = (smooth + variation * 4).max(self.floor);
    }

    pub(super) fn reset(&mut self) {
        self.doublings = 0;
    }

    /// Doubles the timeout after an expiry. Returns how often it has expired since the last answer [1].
    pub(super) fn expired(&mut self) -> u32 {
        self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
        self.doublings
    }

    pub(super) fn smooth(&self) -> Option<Duration> {
        self.measured.map(|(smooth, _)| smooth)
    }

    pub(super) fn span(&self) -> Duration {
        let span =
            if self.doublings == 0 { self.normal } else { self.normal.saturating_mul(1 << self.doublings) };
        span.min(MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_rtt_above_its_minimum_and_doubles_up_to_its_maximum() {
        let millis = Duration::from_millis;
        let mut timeout = Timeout::new(millis(1000));
        assert_eq!(timeout.span(), millis(1000));
        timeout.sample(millis(400));
        assert_eq!((timeout.smooth(), timeout.span()), (Some(millis(400)), millis(1200)));
        timeout.sample(millis(800));
        // SRTT 450 ms, RTTVAR 250 ms
        assert_eq!(timeout.span(), millis(1450));
        let spans: Vec<_> = (0..7)
            .map(|_| {
                timeout.expired();
                timeout.span()
            })
            .collect();
        assert_eq!(spans, [2900, 5800, 11600, 23200, 46400, 64000, 64000].map(millis));
        timeout.reset();
        assert_eq!(timeout.span(), millis(1450));
    }
}
