//! The loudest clients get what the last of them had.

use super::average::Averages;
use super::{ClientSignals, Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Duration, Instant};

/// Parameters of [`Threshold`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThresholdConfig {
    /// The part of all clients that is throttled, T [1]; in `[0, 1)`.
    pub fraction: f64,
    /// From one choice to the next, and over how long a throughput is measured, R [ns].
    pub refresh: Duration,
    /// No client is throttled below, F [B/s].
    pub floor: DataRate,
    /// What was sent counts half after this long, where clients are ordered [ns].
    pub half_life: Duration,
    /// What a client's throughput is.
    pub throughput: Throughput,
    /// Who is throttled.
    pub order: Order,
    /// A throughput of zero is lifted to the floor, too, which is what the floor is for; if not, it stays, as in the
    /// authors' prototype.
    pub lift_zero: bool,
}

/// What a client's throughput is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Throughput {
    /// Half of what was written and read, as in the authors' prototype; the paper says "bytes transferred".
    #[default]
    Mean,
    /// What was written to it.
    Written,
}

/// Who is throttled, at whose throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The k = ⌊T·N⌋ loudest, at that of the k-th.
    #[default]
    Descending,
    /// All but the k quietest, at that of the (k + 1)-th from below: the authors' prototype, where T = 0.9 throttles about
    /// a tenth.
    Ascending,
}

impl Default for ThresholdConfig {
    /// Source: T is the example of throttling §3.2, F the rate of §5.1; R is ours, H the prototype's.
    fn default() -> Self {
        ThresholdConfig {
            fraction: 0.1,
            refresh: Duration::from_secs(60),
            floor: DataRate::kib(5),
            half_life: Duration::from_secs(30),
            throughput: Throughput::default(),
            order: Order::default(),
            lift_zero: true,
        }
    }
}

/// Every R, throttles the loudest clients at the throughput of the quietest among them since the last time, or F.
///
/// Loudness is the count C of cells sent of late; of two equal ones the client that has the lower key is the louder.
/// Whoever comes in between is not throttled until the next time.
///
/// Source: throttling §3.2, algorithm 3.
/// Deviation: with k = 0 nobody is throttled, where line 6 reads what is not there. A rate is never zero: a throughput of
/// zero that stays is a byte a second.
#[derive(Clone, Debug)]
pub struct Threshold {
    config: ThresholdConfig,
    averages: Averages,
    /// What each transferred since the last choice, by key [B].
    transferred: Vec<u64>,
    /// Whether each is throttled, by key.
    throttled: Vec<bool>,
    rate: Option<DataRate>,
    chosen: Option<Instant>,
    /// Clients in the order of their loudness; kept for its memory.
    sorted: Vec<ClientKey>,
}

impl Threshold {
    /// Nobody is throttled.
    pub fn new(config: ThresholdConfig) -> Self {
        let averages = Averages::new(config.half_life);
        Threshold {
            config,
            averages,
            transferred: Vec::new(),
            throttled: Vec::new(),
            rate: None,
            chosen: None,
            sorted: Vec::new(),
        }
    }

    fn add(&mut self, clients: &[ClientSignals]) {
        for client in clients {
            let slot = client.client.0 as usize;
            if self.transferred.len() <= slot {
                self.transferred.resize(slot + 1, 0);
                self.throttled.resize(slot + 1, false);
            }
            self.transferred[slot] += match self.config.throughput {
                // Halved at the end.
                Throughput::Mean => client.written.get() + client.read.get(),
                Throughput::Written => client.written.get() * 2,
            };
        }
    }

    fn choose(&mut self, elapsed: Duration, clients: &[ClientSignals]) {
        self.throttled.fill(false);
        self.sorted.clear();
        self.sorted.extend(clients.iter().map(|client| client.client));
        let averages = &self.averages;
        self.sorted.sort_unstable_by(|one, other| {
            averages.of(*other).total_cmp(&averages.of(*one)).then_with(|| one.cmp(other))
        });
        let all = self.sorted.len();
        let share = part(self.config.fraction, all);
        let loud = match self.config.order {
            Order::Descending => share,
            Order::Ascending => all - share,
        };
        if let Some(last) = loud.checked_sub(1) {
            let throughput = self.throughput(self.sorted[last], elapsed);
            self.rate = DataRate::new(throughput.max(1));
            if throughput > 0 || self.config.lift_zero {
                self.rate = self.rate.max(Some(self.config.floor));
            }
        }
        for client in &self.sorted[..loud] {
            self.throttled[client.0 as usize] = true;
        }
        self.transferred.fill(0);
    }

    /// Of `client` over the last `elapsed` [B/s].
    fn throughput(&self, client: ClientKey, elapsed: Duration) -> u64 {
        let bytes = u128::from(self.transferred[client.0 as usize]) * 1_000_000_000 / 2;
        u64::try_from(bytes / elapsed.as_nanos().max(1)).unwrap_or(u64::MAX)
    }
}

impl Throttle for Threshold {
    fn on_refill(&mut self, now: Instant, signals: &ThrottleSignals<'_>) {
        self.averages.on_refill(now, signals.clients);
        self.add(signals.clients);
        let elapsed = now.since(*self.chosen.get_or_insert(now));
        if elapsed >= self.config.refresh {
            self.chosen = Some(now);
            self.choose(elapsed, signals.clients);
        }
    }

    fn rate(&self, client: ClientKey) -> Option<DataRate> {
        let throttled = self.throttled.get(client.0 as usize).copied().unwrap_or(false);
        self.rate.filter(|_| throttled)
    }

    fn on_close(&mut self, client: ClientKey) {
        self.averages.forget(client);
        if let Some(throttled) = self.throttled.get_mut(client.0 as usize) {
            *throttled = false;
            self.transferred[client.0 as usize] = 0;
        }
    }
}

/// ⌊`fraction` · `all`⌋. A decimal fraction is rarely a binary one, so what misses a whole number by less than a billionth is one.
fn part(fraction: f64, all: usize) -> usize {
    (fraction * all as f64 + 1e-9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_that_of_the_decimal_fraction() {
        let parts = [(0.29, 100), (0.58, 50), (0.1, 10), (0.1, 19), (0.999, 1000), (0.0, 5)];
        assert_eq!(parts.map(|(fraction, all)| part(fraction, all)), [29, 29, 1, 1, 999, 0]);
    }
}
