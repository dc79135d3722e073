use super::average::Averages;
use super::{ClientSignals, Throttle, ThrottleSignals};
use crate::keys::ClientKey;
use penstock_units::{DataRate, Duration, Instant};

/// Parameters of [`Threshold`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThresholdConfig {
    /// T, the fraction of all clients that is throttled [1]; in `[0, 1)`.
    pub fraction: f64,
    /// R, the period in which throughputs are measured [ns]. Then the throttle chooses the throttled clients.
    pub refresh: Duration,
    /// F, the minimum rate of a throttled client [B/s].
    pub floor: DataRate,
    /// The half-life of the cell counts, which order the clients [ns].
    pub half_life: Duration,
    /// How a client's throughput is defined.
    pub throughput: Throughput,
    /// Which clients are throttled, and at what rate.
    pub order: Order,
    /// Whether the minimum rate F also replaces a throughput of zero, as the paper intends. In the authors' prototype
    /// it does not.
    pub lift_zero: bool,
}

/// How a client's throughput is defined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Throughput {
    /// The mean of bytes written and bytes read, as in the authors' prototype; the paper says "bytes transferred".
    #[default]
    Mean,
    /// Bytes written to the client.
    Written,
}

/// Which clients are throttled, and at what rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Throttles the k = ⌊T·N⌋ busiest clients to the throughput of the k-th busiest client.
    #[default]
    Descending,
    /// Throttles all except the k least busy clients, to the throughput of the (k + 1)-th least busy client. The
    /// authors' prototype does this with T = 0.9, so it throttles about a tenth of the clients.
    Ascending,
}

impl Default for ThresholdConfig {
    /// Source: `fraction` is from the example of throttling §3.2, `floor` from §5.1, `half_life` from the authors'
    /// prototype. `refresh` is Penstock's own value.
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

/// Threshold throttling: in each period R, chooses the busiest clients. Their rate is the lowest throughput among
/// them, but at least F.
///
/// A client is busier if its count C of recently sent cells is higher; if counts are equal, the lower key is busier. A
/// new client is not throttled before the next choice.
///
/// Source: throttling §3.2, algorithm 3.
/// Deviation: with k = 0 no client is throttled; line 6 of the algorithm would read an entry that does not exist. A
/// rate is never zero: a zero throughput becomes one byte a second.
#[derive(Clone, Debug)]
pub struct Threshold {
    config: ThresholdConfig,
    averages: Averages,
    /// Bytes that each client transferred since the last choice, indexed by client key [B].
    transferred: Vec<u64>,
    throttled: Vec<bool>,
    rate: Option<DataRate>,
    chosen: Option<Instant>,
    sorted: Vec<ClientKey>,
}

impl Threshold {
    /// A throttle before its first choice.
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
            let slot = client.client.index();
            if self.transferred.len() <= slot {
                self.transferred.resize(slot + 1, 0);
                self.throttled.resize(slot + 1, false);
            }
            self.transferred[slot] += match self.config.throughput {
                // [`Threshold::throughput`] halves this sum.
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
            self.throttled[client.index()] = true;
        }
        self.transferred.fill(0);
    }

    fn throughput(&self, client: ClientKey, elapsed: Duration) -> u64 {
        let bytes = u128::from(self.transferred[client.index()]) * 1_000_000_000 / 2;
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
        let throttled = self.throttled.get(client.index()).copied().unwrap_or(false);
        self.rate.filter(|_| throttled)
    }

    fn on_close(&mut self, client: ClientKey) {
        self.averages.forget(client);
        if let Some(throttled) = self.throttled.get_mut(client.index()) {
            *throttled = false;
            self.transferred[client.index()] = 0;
        }
    }
}

/// ⌊`fraction` · `all`⌋. Decimal fractions are rarely exact in binary. If the product is less than 10⁻⁹ below a whole
/// number, the result is therefore this whole number.
fn part(fraction: f64, all: usize) -> usize {
    (fraction * all as f64 + 1e-9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_follows_its_decimal_fraction() {
        let parts = [(0.29, 100), (0.58, 50), (0.1, 10), (0.1, 19), (0.999, 1000), (0.0, 5)];
        assert_eq!(parts.map(|(fraction, all)| part(fraction, all)), [29, 29, 1, 1, 999, 0]);
    }
}
