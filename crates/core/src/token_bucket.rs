//! Token buckets with a refill interval, and the I/O quantum.

use crate::config::{Bandwidth, Refill};
use penstock_units::{Bytes, Duration, Instant};

/// A token bucket that is refilled at the ticks of [`Refill`].
///
/// The bucket starts full. Tokens may become negative, because a cell cannot be split. Refills pay this deficit first.
/// Refills are computed when the bucket is used. The sum of all refills up to tick k is exactly `floor(rate · interval
/// · k)`, so the long-run rate is exact for any interval.
///
/// With [`Refill::unblock`], a refill adds the tokens of the whole intervals since the last refill. The remaining time
/// is lost, so the real rate is slightly below the configured rate.
///
/// In a time t, the bucket lets at most burst + rate · (t + interval) + one I/O quantum of bytes pass.
///
/// Source: C tor 0.2.3 `connection_bucket_refill()`, 0.4.9 `token_bucket_rw_refill()`; DefenestraTor §3.1; throttling
/// §2. Deviation: none.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    bandwidth: Bandwidth,
    tokens: i64,
    refilled: Instant,
    /// Before this time a call of `refill` has no effect and returns immediately.
    next: Instant,
}

impl TokenBucket {
    /// A full bucket at `now`.
    pub fn new(bandwidth: Bandwidth, now: Instant) -> Self {
        TokenBucket { bandwidth, tokens: signed(bandwidth.burst), refilled: now, next: now }
    }

    /// Adds the tokens of all refills up to `now`. All calls for one bucket must pass the same `refill`.
    pub fn refill(&mut self, refill: Refill, now: Instant) {
        if now < self.next {
            return;
        }
        let added = match refill.unblock {
            None => match [self.refilled, now].map(|at| refill.ticks_at(at)) {
                [before, after] if before < after => {
                    self.total_at(after, refill) - self.total_at(before, refill)
                }
                _ => 0,
            },
            Some(_) => match penstock_units::time::nanos(now.since(self.refilled)) / refill.nanos() {
                0 => return self.next = self.refilled + Duration::from_nanos(refill.nanos()),
                steps => self.total_at(1, refill).max(1) * u128::from(steps),
            },
        };
        self.refilled = now;
        self.next = match refill.unblock {
            None => refill.next_after(now),
            Some(_) => now + Duration::from_nanos(refill.nanos()),
        };
        let full = signed(self.bandwidth.burst);
        self.tokens = self.tokens.saturating_add(i64::try_from(added).unwrap_or(i64::MAX)).min(full);
    }

    /// The sum of the first `ticks` refills [B].
    fn total_at(&self, ticks: u64, refill: Refill) -> u128 {
        let rate = u128::from(self.bandwidth.rate.bytes_per_sec());
        rate * refill.interval.as_nanos() * u128::from(ticks) / 1_000_000_000
    }

    /// Takes `bytes`, even if the bucket holds fewer.
    pub fn consume(&mut self, bytes: Bytes) {
        self.tokens = self.tokens.saturating_sub(signed(bytes));
    }

    /// The available tokens [B]; zero if the bucket is empty or in deficit.
    pub fn available(&self) -> Bytes {
        Bytes::new(u64::try_from(self.tokens).unwrap_or(0))
    }

    /// Changes the rate from the next refill on. The tokens stay.
    pub fn set_rate(&mut self, rate: penstock_units::DataRate) {
        self.bandwidth.rate = rate;
    }

    /// Changes rate and depth. Tokens above the new depth are lost (C tor `token_bucket_rw_adjust()`).
    pub fn adjust(&mut self, bandwidth: Bandwidth) {
        self.bandwidth = bandwidth;
        self.tokens = self.tokens.min(signed(bandwidth.burst));
    }
}

fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.get()).unwrap_or(i64::MAX)
}

impl Refill {
    /// The number of refills up to `now`.
    pub fn ticks_at(self, now: Instant) -> u64 {
        match now.as_nanos().checked_sub(penstock_units::time::nanos(self.phase)) {
            Some(since) if self.phase > Duration::ZERO => since / self.nanos() + 1,
            Some(since) => since / self.nanos(),
            None => 0,
        }
    }

    /// When an operation that found an empty bucket at `now` is retried.
    pub fn unblocks_after(self, now: Instant) -> Instant {
        self.unblock.map_or_else(|| self.next_after(now), |unblock| now + unblock)
    }

    /// The first refill after `now`.
    pub fn next_after(self, now: Instant) -> Instant {
        let ticks = self.ticks_at(now) + u64::from(self.phase == Duration::ZERO);
        Instant::from_nanos(ticks * self.nanos()) + self.phase
    }

    fn nanos(self) -> u64 {
        penstock_units::time::nanos(self.interval).max(1)
    }
}

/// The I/O quantum: how many bytes one call may read from or write to a connection [B].
///
/// The unit `base` [B] is the size of a cell, or for edge streams the size of a payload. The quantum is one eighth of
/// the global bucket's tokens, in whole units. The quantum is 4 to 32 units, but at most the tokens in either bucket.
///
/// Source: C tor `connection_bucket_round_robin()`; throttling §2 ("16 KiB or 1/8 of the global bucket").
pub fn quantum(global: Option<&TokenBucket>, own: Option<&TokenBucket>, base: u64) -> Bytes {
    let mut at_most = 32 * base;
    if let Some(global) = global {
        let eighth = global.available().get() / 8;
        at_most = (eighth - eighth % base).clamp(4 * base, 32 * base).min(global.available().get());
    }
    if let Some(own) = own {
        at_most = at_most.min(own.available().get());
    }
    Bytes::new(at_most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::DataRate;
    use proptest::prelude::*;

    fn refill(millis: u64) -> Refill {
        Refill { interval: Duration::from_millis(millis), ..Refill::default() }
    }

    fn bucket(rate: u64, burst: u64) -> TokenBucket {
        let bandwidth = Bandwidth { rate: DataRate::new(rate).unwrap(), burst: Bytes::new(burst) };
        TokenBucket::new(bandwidth, Instant::ZERO)
    }

    /// G-42: the quantum is an eighth of the bucket, between four and thirty-two cells.
    #[test]
    fn the_quantum_is_an_eighth_between_four_and_thirty_two_cells() {
        let quantum_of = |tokens: u64| {
            let bucket = bucket(1, tokens);
            quantum(Some(&bucket), None, 512).get()
        };
        assert_eq!(quantum_of(0), 0);
        assert_eq!(quantum_of(512), 512);
        assert_eq!(quantum_of(4 * 512), 4 * 512);
        assert_eq!(quantum_of(8 * 5 * 512 + 511), 5 * 512);
        assert_eq!(quantum_of(8 * 32 * 512), 32 * 512);
        assert_eq!(quantum_of(1 << 40), 16 << 10);
        assert_eq!(quantum(None, None, 498).get(), 32 * 498);
        assert_eq!(quantum(None, Some(&bucket(1, 700)), 512).get(), 700);
    }

    #[test]
    fn ticks_follow_the_phase() {
        let refill = Refill { phase: Duration::from_millis(30), ..super::tests::refill(100) };
        assert_eq!(refill.next_after(Instant::ZERO), Instant::from_millis(30));
        assert_eq!(refill.next_after(Instant::from_millis(30)), Instant::from_millis(130));
        assert_eq!(refill.next_after(Instant::from_millis(129)), Instant::from_millis(130));
        let aligned = super::tests::refill(100);
        assert_eq!(aligned.next_after(Instant::ZERO), Instant::from_millis(100));
    }

    #[test]
    fn a_deficit_is_paid_first() {
        let refill = refill(1000);
        let mut bucket = bucket(1000, 1000);
        bucket.consume(Bytes::new(2500));
        bucket.refill(refill, Instant::from_secs(1));
        assert_eq!(bucket.available(), Bytes::ZERO);
        bucket.refill(refill, Instant::from_secs(2));
        assert_eq!(bucket.available(), Bytes::new(500));
    }

    #[test]
    fn a_lazy_bucket_counts_whole_steps_and_drops_the_rest() {
        let refill = Refill::TOR_0_4_9;
        let mut bucket = bucket(1_000_000, 1_000_000);
        bucket.consume(Bytes::new(1_000_000));
        bucket.refill(refill, Instant::from_millis(15));
        assert_eq!(bucket.available(), Bytes::ZERO);
        bucket.refill(refill, Instant::from_millis(31));
        assert_eq!(bucket.available(), Bytes::new(16_000), "one step of 16 ms");
        bucket.refill(refill, Instant::from_millis(46));
        assert_eq!(bucket.available(), Bytes::new(16_000), "15 ms later");
        bucket.refill(refill, Instant::from_millis(131));
        assert_eq!(
            bucket.available(),
            Bytes::new(7 * 16_000),
            "one hundred milliseconds while a connection waits"
        );
        assert_eq!(refill.unblocks_after(Instant::from_millis(3)), Instant::from_millis(103));
    }

    #[test]
    fn a_smaller_depth_removes_the_tokens_above_it() {
        let mut bucket = bucket(1000, 5000);
        let bandwidth = |rate| Bandwidth { rate: DataRate::new(rate).unwrap(), burst: Bytes::new(rate) };
        bucket.adjust(bandwidth(3000));
        assert_eq!(bucket.available(), Bytes::new(3000));
        bucket.adjust(bandwidth(9000));
        assert_eq!(bucket.available(), Bytes::new(3000));
        bucket.refill(refill(1000), Instant::from_secs(1));
        assert_eq!(bucket.available(), Bytes::new(9000));
    }

    proptest! {
        /// G-40: in any time t, at most burst + rate · (t + interval) + quantum bytes pass. The long-run rate is exact
        /// to 0.1 % for any interval.
        #[test]
        fn a_greedy_user_gets_at_most_the_rate(
            millis in 1u64..=1000,
            phase in 0u64..1000,
            rate in 20_000u64..2_000_000,
            burst_ms in 1000u64..3000,
        ) {
            let refill = Refill { phase: Duration::from_millis(phase % millis), ..refill(millis) };
            let burst = rate * burst_ms / 1000;
            let mut bucket = bucket(rate, burst);
            let (mut sent, mut now) = (Vec::new(), Instant::ZERO);
            let end = Instant::from_secs(120);
            while now < end {
                bucket.refill(refill, now);
                loop {
                    let quantum = quantum(Some(&bucket), None, 512);
                    if quantum == Bytes::ZERO { break; }
                    let cells = quantum.get().div_ceil(512);
                    bucket.consume(Bytes::new(cells * 512));
                    sent.push((now, cells * 512));
                }
                now = refill.next_after(now);
            }
            let total: u64 = sent.iter().map(|(_, bytes)| bytes).sum();
            let long_run = (total - burst.min(total)) as f64 / 120.0;
            // A tick at each end of the measurement and the last deficit are not errors of the
            // bucket.
            let slack = (rate * millis / 1000 + 512) as f64 / 120.0 + 0.001 * rate as f64;
            prop_assert!((long_run - rate as f64).abs() <= slack, "{} vs {}", long_run, rate);
            for (first, (start, _)) in sent.iter().enumerate().step_by(37) {
                let mut bytes = 0;
                for (at, amount) in &sent[first..] {
                    bytes += amount;
                    let span = *at - *start + refill.interval;
                    let allowed = burst + rate * penstock_units::time::nanos(span) / 1_000_000_000 + 1 + 32 * 512;
                    prop_assert!(bytes <= allowed, "{} in {:?}", bytes, span);
                }
            }
        }

        /// G-41: a shorter interval never increases the mean wait of smooth arrivals below the rate.
        #[test]
        fn shorter_refill_intervals_never_increase_the_wait(rate in 50_000u64..500_000, load in 0.3f64..0.95) {
            let wait = |millis: u64| {
                let refill = refill(millis);
                let mut bucket = bucket(rate, rate.max(4096));
                let gap = (512.0e9 / (rate as f64 * load)) as u64;
                let (mut now, mut total) = (Instant::ZERO, 0u64);
                for cell in 0..4000u64 {
                    let arrival = Instant::from_nanos(cell * gap);
                    now = now.max(arrival);
                    bucket.refill(refill, now);
                    while bucket.available() == Bytes::ZERO {
                        now = refill.next_after(now);
                        bucket.refill(refill, now);
                    }
                    bucket.consume(Bytes::new(512));
                    total += (now - arrival).as_nanos() as u64;
                }
                total
            };
            let (slow, medium, fast) = (wait(1000), wait(100), wait(10));
            prop_assert!(fast <= medium && medium <= slow, "{} {} {}", fast, medium, slow);
        }
    }

    /// An operation of a relay on a bucket. The relay refills the bucket before each operation.
    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Wait(u64),
        Check,
        Use(u64),
        SetRate(u64),
        Adjust(u64, u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (0u64..3000).prop_map(Operation::Wait),
            2 => Just(Operation::Check),
            4 => (0u64..40_000).prop_map(Operation::Use),
            1 => (1u64..500_000).prop_map(Operation::SetRate),
            1 => (1u64..500_000, 0u64..500_000).prop_map(|(rate, burst)| Operation::Adjust(rate, burst)),
        ]
    }

    /// The tokens after all `operations`. The reference applies each refill separately.
    fn reference(refill: Refill, start: Bandwidth, operations: &[(Instant, Operation)]) -> i64 {
        let (mut bandwidth, mut tokens, mut refilled) = (start, start.burst.get() as i64, Instant::ZERO);
        let per_step = |rate: u64, step: u64| {
            (u128::from(rate) * refill.interval.as_nanos() * u128::from(step) / 1_000_000_000) as i64
        };
        for (at, operation) in operations {
            let rate = bandwidth.rate.bytes_per_sec();
            if refill.unblock.is_some() {
                while *at >= refilled + refill.interval {
                    tokens += per_step(rate, 1).max(1);
                    refilled += refill.interval;
                    if *at < refilled + refill.interval {
                        refilled = *at;
                    }
                }
            } else {
                let mut next = refill.next_after(refilled);
                while next <= *at {
                    let tick = refill.ticks_at(next);
                    tokens += per_step(rate, tick) - per_step(rate, tick - 1);
                    next = refill.next_after(next);
                }
                refilled = *at;
            }
            tokens = tokens.min(bandwidth.burst.get() as i64);
            match *operation {
                Operation::Use(bytes) => tokens -= bytes as i64,
                Operation::SetRate(rate) => bandwidth.rate = DataRate::new(rate).unwrap(),
                Operation::Adjust(rate, burst) => {
                    bandwidth = Bandwidth { rate: DataRate::new(rate).unwrap(), burst: Bytes::new(burst) };
                    tokens = tokens.min(burst as i64);
                }
                Operation::Wait(_) | Operation::Check => {}
            }
        }
        tokens
    }

    proptest! {
        /// Any sequence of operations leaves the same tokens as the reference.
        #[test]
        fn tokens_equal_those_of_the_reference(
            operations in proptest::collection::vec(operation(), 0..120),
            millis in 1u64..1500,
            phase in 0u64..1500,
            lazy in any::<bool>(),
            start in (1u64..500_000, 0u64..500_000),
        ) {
            let unblock = lazy.then(|| Duration::from_millis(100));
            let refill = Refill { phase: Duration::from_millis(phase % millis), unblock, ..refill(millis) };
            let start = Bandwidth { rate: DataRate::new(start.0).unwrap(), burst: Bytes::new(start.1) };
            let mut bucket = TokenBucket::new(start, Instant::ZERO);
            let (mut now, mut applied) = (Instant::ZERO, Vec::new());
            for operation in operations {
                if let Operation::Wait(millis) = operation {
                    now += Duration::from_millis(millis);
                    continue;
                }
                bucket.refill(refill, now);
                match operation {
                    Operation::Use(bytes) => bucket.consume(Bytes::new(bytes)),
                    Operation::SetRate(rate) => bucket.set_rate(DataRate::new(rate).unwrap()),
                    Operation::Adjust(rate, burst) => {
                        let rate = DataRate::new(rate).unwrap();
                        bucket.adjust(Bandwidth { rate, burst: Bytes::new(burst) });
                    }
                    Operation::Wait(_) | Operation::Check => {}
                }
                applied.push((now, operation));
                prop_assert_eq!(bucket.tokens, reference(refill, start, &applied), "{:?}", applied);
            }
        }
    }
}
