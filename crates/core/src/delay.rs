use crate::hop_control::DelayConfig;
use crate::windowed_min::WindowedMin;
use penstock_units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// The weight of the newest sample in the mean delay.
const GAIN: f64 = 0.25;
/// How long the minimum delay is remembered [s].
const MEMORY: u64 = 60;

/// Measures how long cells stay in the output buffer of one channel. [`DelayConfig`] decides whether the delay ends
/// when the cell leaves the buffer or when it leaves the kernel.
///
/// Each cell that leaves gives one sample. The delay is the exponentially weighted mean of the samples. The minimum of
/// the last minute is subtracted, because a cell cannot avoid it. If the oldest waiting cell is older than the mean,
/// the age of this cell counts as the delay, because a stalled connection gives no samples.
#[derive(Debug)]
pub(crate) struct Delay {
    config: DelayConfig,
    waiting: VecDeque<Instant>,
    /// Cells that the kernel took but has not sent. For each cell: `written` after its last byte, and the time when it
    /// entered the output buffer.
    in_kernel: VecDeque<(u64, Instant)>,
    /// The number of bytes that the kernel took from the output buffer so far [B].
    written: u64,
    /// The mean delay [ns]; `None` before the first sample.
    mean: Option<f64>,
    least: WindowedMin,
    /// Whether there was a sample since the last [`take_period`](Self::take_period).
    fresh: bool,
    /// Cells that moved from circuits to the output buffer since the last [`take_period`](Self::take_period).
    moved: u64,
}

impl Delay {
    pub(crate) fn new(config: DelayConfig) -> Self {
        Delay {
            config,
            waiting: VecDeque::new(),
            in_kernel: VecDeque::new(),
            written: 0,
            mean: None,
            least: WindowedMin::new(MEMORY),
            fresh: false,
            moved: 0,
        }
    }

    pub(crate) fn on_queued(&mut self, now: Instant) {
        self.waiting.push_back(now);
    }

    pub(crate) fn on_moved(&mut self) {
        self.moved += 1;
    }

    /// Records cells and bytes that the kernel took. `not_sent` returns the bytes that the kernel has not yet sent.
    pub(crate) fn on_flushed(
        &mut self,
        now: Instant,
        cells: u64,
        bytes: Bytes,
        not_sent: impl FnOnce() -> Bytes,
    ) {
        for place in 1..=cells {
            let Some(since) = self.waiting.pop_front() else { break };
            if self.config.kernel {
                self.in_kernel.push_back((self.written + bytes.get() * place / cells, since));
            } else {
                self.sample(now, since);
            }
        }
        self.written += bytes.get();
        self.look(now, not_sent);
    }

    pub(crate) fn look(&mut self, now: Instant, not_sent: impl FnOnce() -> Bytes) {
        if self.in_kernel.is_empty() {
            return;
        }
        let sent = self.written.saturating_sub(not_sent().get());
        while let Some((until, since)) = self.in_kernel.front().copied()
            && until <= sent
        {
            self.in_kernel.pop_front();
            self.sample(now, since);
        }
    }

    fn sample(&mut self, now: Instant, since: Instant) {
        let sample = now.since(since);
        let nanos = sample.as_nanos() as f64;
        self.mean = Some(self.mean.map_or(nanos, |mean| mean + GAIN * (nanos - mean)));
        self.least.add(now, sample);
        self.fresh = true;
    }

    /// Ends a period. Returns the mean delay minus the minimum delay, and the number of cells that moved to the output
    /// buffer in the period. The delay is zero if no cell left in the period and no cell waits.
    pub(crate) fn take_period(&mut self, now: Instant) -> (Duration, u64) {
        let oldest = self.in_kernel.front().map(|(_, since)| since).or(self.waiting.front());
        let age = oldest.map(|since| now.since(*since));
        let fresh = std::mem::take(&mut self.fresh);
        let delay = match (self.mean, self.least.get(now)) {
            (Some(mean), Some(least)) if fresh || age.is_some() => {
                Duration::from_nanos(mean as u64).max(age.unwrap_or_default()).saturating_sub(least)
            }
            _ => Duration::ZERO,
        };
        (delay, std::mem::take(&mut self.moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    fn delay(kernel: bool) -> Delay {
        Delay::new(DelayConfig { kernel })
    }

    fn none() -> Bytes {
        panic!("the kernel is not asked")
    }

    #[test]
    fn the_delay_is_the_excess_over_the_minimum() {
        let mut delay = delay(false);
        for (entered, left) in [(0, 5), (10, 15), (20, 65)] {
            delay.on_queued(MS(entered));
            delay.on_flushed(MS(left), 1, Bytes::new(512), none);
        }
        // 5 + 0.25 (45 - 5) = 15 ms. The minimum is 5 ms.
        assert_eq!(delay.take_period(MS(65)).0, Duration::from_millis(10));
        assert_eq!(delay.take_period(MS(165)).0, Duration::ZERO, "no cell waits and no cell left");
    }

    #[test]
    fn the_delay_of_a_blocked_connection_is_the_age_of_its_oldest_cell() {
        let mut delay = delay(false);
        delay.on_queued(MS(0));
        assert_eq!(delay.take_period(MS(300)).0, Duration::ZERO, "the minimum is not known yet");
        delay.on_flushed(MS(300), 1, Bytes::new(512), none);
        delay.on_queued(MS(400));
        delay.on_queued(MS(600));
        assert_eq!(delay.take_period(MS(1000)).0, Duration::from_millis(300));
    }

    #[test]
    fn with_the_kernel_a_cell_waits_until_its_last_byte_is_sent() {
        let mut delay = delay(true);
        (0..4).for_each(|_| delay.on_queued(MS(0)));
        delay.on_flushed(MS(0), 4, Bytes::new(2048), || Bytes::new(1536));
        delay.look(MS(40), || Bytes::new(1));
        // One cell leaves immediately, two after 40 ms, and the last one still waits.
        assert_eq!(delay.mean, Some(17_500_000.0));
        assert_eq!(delay.take_period(MS(90)).0, Duration::from_millis(90));
    }
}
