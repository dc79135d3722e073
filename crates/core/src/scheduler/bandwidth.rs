use penstock_units::{Bytes, Duration, Instant, time};
use std::collections::VecDeque;

/// A sample is the mean rate of at least this time, so that ACKs which arrive together do not count as a high rate.
const WINDOW: Duration = Duration::from_millis(100);

/// A busy period counts from this time on. Before, most bytes of the period are not acknowledged yet.
const SETTLED: Duration = Duration::from_millis(500);

/// The estimate forgets a sample after one to two times this much busy time.
const MEMORY: Duration = Duration::from_secs(1);

/// The first and the lowest estimate [B/s]. A relay of Tor needs this bandwidth (C tor: `RELAY_REQUIRED_MIN_BANDWIDTH`).
const LEAST: u64 = 75 << 10;

/// An estimate of the rate at which a host can send, from the acknowledged bytes of its sockets.
///
/// A sample is a delivery rate: the bytes acknowledged in the last 100 ms, divided by this time. No sample exceeds the
/// bandwidth for long. A sample is below the bandwidth if the relay had fewer bytes to send. The estimate is therefore
/// the highest sample, and it falls only in busy periods. Then the relay had more bytes than the kernel sent, so that low
/// samples mean a lower bandwidth.
///
/// Source: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016: a windowed maximum of delivery
/// rates, and a gain of 5/4 that finds more bandwidth. C tor `bwhist.c`.
/// Deviation: BBR measures the path of one connection, over ten round trips. Here, the rate is the sum of all sockets, and
/// the window is busy time.
/// Deviation: KIST §5.2 names packet trains. A train needs a receiver that times its arrival. From ACKs that a relay reads
/// once per round, a train must last ten rounds for an error of 10 %, which is the window here.
/// Deviation: C tor's observed bandwidth is the highest mean rate of 10 s in five days. KIST needs an estimate that follows
/// the link within seconds, because too high an estimate fills the kernel.
#[derive(Debug, Default)]
pub(super) struct Bandwidth {
    /// The rounds since the latest round that is at least one window old: the time, and the bytes acknowledged until then
    /// [B].
    rounds: VecDeque<(Instant, u64)>,
    /// The highest samples in the present and in the previous memory [B/s].
    highest: [u64; 2],
    /// When the present busy period began.
    busy_since: Option<Instant>,
    /// Busy time in the present memory.
    busy: Duration,
}

impl Bandwidth {
    /// Adds a round. Since the previous round, `acked` bytes were acknowledged [B]. `is_busy` tells whether the relay had
    /// more bytes than the kernel sent in this time.
    pub(super) fn add(&mut self, now: Instant, acked: Bytes, is_busy: bool) {
        let (last, before) = self.rounds.back().copied().unwrap_or((now, 0));
        self.rounds.push_back((now, before + acked.get()));
        self.age(now, last, is_busy);
        while self.rounds.get(1).is_some_and(|(at, _)| *at + WINDOW <= now) {
            self.rounds.pop_front();
        }
        let (first, until) = self.rounds[0];
        let span = now.since(first);
        if span >= WINDOW {
            let bytes = u128::from(before + acked.get() - until);
            let rate = bytes * 1_000_000_000 / u128::from(time::nanos(span));
            self.highest[0] = self.highest[0].max(u64::try_from(rate).unwrap_or(u64::MAX));
        }
    }

    fn age(&mut self, now: Instant, last: Instant, is_busy: bool) {
        if !is_busy {
            self.busy_since = None;
            return;
        }
        let since = *self.busy_since.get_or_insert(last);
        if now.since(since) >= SETTLED {
            self.busy += now.since(last);
        }
        if self.busy >= MEMORY {
            self.busy = Duration::ZERO;
            self.highest = [0, self.highest[0]];
        }
    }

    /// The estimate [B/s].
    pub(super) fn rate(&self) -> u64 {
        self.highest[0].max(self.highest[1]).max(LEAST)
    }
}
