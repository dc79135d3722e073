use super::bandwidth::Bandwidth;
use penstock_units::{Bytes, DataRate, Duration, Instant, time};

/// The limit of the first round, before any bytes have left the kernel [B].
const COLD_START: Bytes = Bytes::kib(32);

/// The prototype adds tokens only when at least this many are due [B].
const LUMP: u128 = 16 << 10;

/// With a measured bandwidth, a round writes 5/4 of the bytes that the estimate permits. The excess finds free bandwidth.
const GAIN: (u64, u64) = (5, 4);

/// The gain until bytes wait for the link for the first time. In this time, a round may always write 32 KiB.
const FIRST_GAIN: (u64, u64) = (2, 1);

/// How a relay limits the bytes that all its sockets together get in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlobalLimitConfig {
    /// There is no global limit.
    Off,
    /// The limit is the largest number of bytes that left the kernel between two rounds so far. Bytes that a round does
    /// not use expire.
    #[default]
    Drained,
    /// A token bucket limits the bytes. Its rate is the highest rate so far at which bytes left the kernel.
    Rate {
        /// How long the empty bucket takes to fill (the prototype's `AutotuneFillLimitUSec`, by default an
        /// interval).
        fill: Duration,
        /// The rate that the operator configured [B/s] (the prototype's `AutotuneWriteBWOverride`); `None` measures the
        /// rate.
        known: Option<DataRate>,
    },
    /// The limit keeps the bytes that wait for the link near those of one interval. An estimate of the link's rate turns
    /// the interval into bytes.
    Measured,
}

/// KIST's global limit: how many bytes all sockets of a relay together may still get in the current round.
///
/// The limit follows the bytes that leave the kernel. If the limit started at zero, few bytes could leave, and the
/// limit would stay near zero. The initial limit is therefore 32 KiB per round. The initial rate is 32 KiB in the time
/// that fills the bucket.
///
/// Source: KIST §5.2, equation 2; the rule with a rate is that of its prototype (`autotune.c`).
///
/// Deviation: equation 2 subtracts the earlier sum of queued bytes from the later sum and ignores writes between them,
/// so it would measure growth. In Penstock, as in the prototype, drained bytes are the bytes queued and written at the
/// previous round minus the bytes queued now.
///
/// Deviation: in the prototype, bucket and rate start at zero and stay zero unless the rate is configured, as in
/// Shadow. A separate timer fills the prototype's bucket; in Penstock each round fills it.
///
/// Deviation: [`GlobalLimitConfig::Measured`] is not in the paper, which names packet trains ([`Bandwidth`] is not one). The maximum of equation 2
/// never falls, and a limit that equals the largest output so far prevents a larger output. The measured limit is therefore
/// above the estimate, and the backlog is subtracted, so that the excess does not add up in the kernel.
#[derive(Debug)]
pub(super) struct GlobalLimit {
    config: GlobalLimitConfig,
    /// The minimum time between two rounds.
    interval: Duration,
    bandwidth: Bandwidth,
    /// Bytes have waited for the link.
    has_waited: bool,
    limit: Bytes,
    used: Bytes,
    /// The limit stopped the present round.
    was_reached: bool,
    last: Option<Instant>,
    most: Bytes,
    /// The highest drain rate so far [B/s].
    rate: u64,
    /// Tokens in the bucket [B·ns/s].
    tokens: u128,
}

const NANOS: u128 = 1_000_000_000;

impl GlobalLimit {
    pub(super) fn new(config: GlobalLimitConfig, interval: Duration) -> Self {
        let rate = match config {
            GlobalLimitConfig::Rate { known: Some(rate), .. } => rate.bytes_per_sec(),
            GlobalLimitConfig::Rate { fill, known: None } => {
                let rate = u128::from(COLD_START.get()) * NANOS / u128::from(time::nanos(fill).max(1));
                u64::try_from(rate).unwrap_or(u64::MAX)
            }
            GlobalLimitConfig::Off | GlobalLimitConfig::Drained | GlobalLimitConfig::Measured => 0,
        };
        GlobalLimit {
            config,
            interval,
            bandwidth: Bandwidth::default(),
            has_waited: false,
            limit: COLD_START,
            used: Bytes::ZERO,
            was_reached: false,
            last: None,
            most: COLD_START,
            rate,
            tokens: 0,
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.config == GlobalLimitConfig::Off
    }

    /// Begins a round. `drained` bytes have left the kernel since the last round [B]. `backlog` bytes wait only for the
    /// link [B].
    pub(super) fn begin(&mut self, now: Instant, drained: Bytes, backlog: Bytes) {
        let span = self.last.replace(now).map_or(0, |last| time::nanos(now.since(last)));
        let left = self.left();
        self.used = Bytes::ZERO;
        match self.config {
            GlobalLimitConfig::Off => {}
            GlobalLimitConfig::Drained => {
                self.most = self.most.max(drained);
                self.limit = self.most;
            }
            GlobalLimitConfig::Rate { fill, known } => {
                if known.is_none() && span > 0 {
                    let rate = u128::from(drained.get()) * NANOS / u128::from(span);
                    self.rate = self.rate.max(u64::try_from(rate).unwrap_or(u64::MAX));
                }
                self.limit = left;
                self.refill(span, fill);
            }
            GlobalLimitConfig::Measured => self.measure(now, span, drained, backlog),
        }
        self.was_reached = self.left() == Bytes::ZERO;
    }

    /// If the link is slower than the limit, the excess of a round is a backlog in the next round. Then the limit equals the
    /// bytes that the link sent. The link does not idle under three conditions: the relay has cells, the estimate is at
    /// least 4/5 of the link's rate, and rounds come in time.
    fn measure(&mut self, now: Instant, span: u64, drained: Bytes, backlog: Bytes) {
        let interval = time::nanos(self.interval);
        // In steady operation, the backlog is a quarter of the drained bytes. A small backlog proves nothing.
        let waits = backlog > Bytes::ZERO && backlog.get() >= drained.get() / 8;
        self.has_waited |= waits;
        let is_busy = (self.was_reached || waits) && span <= 2 * interval;
        self.bandwidth.add(now, drained, is_busy);
        // A round may be late. After a pause, it still writes no more than two intervals.
        let span = span.clamp(interval, 2 * interval);
        let bytes = u128::from(self.bandwidth.rate()) * u128::from(span) / NANOS;
        let ((times, part), least) =
            if self.has_waited { (GAIN, Bytes::ZERO) } else { (FIRST_GAIN, COLD_START) };
        let bytes = bytes * u128::from(times) / u128::from(part);
        self.limit = Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)).max(least).saturating_sub(backlog);
    }

    fn refill(&mut self, span: u64, fill: Duration) {
        let brought_by = |span: u64| u128::from(self.rate) * u128::from(span);
        let most = Bytes::new((brought_by(time::nanos(fill)) / NANOS) as u64).max(COLD_START);
        self.tokens += brought_by(span);
        if self.tokens / NANOS >= LUMP {
            let lump = u64::try_from(self.tokens / NANOS).unwrap_or(u64::MAX);
            self.limit = Bytes::new(self.limit.get().saturating_add(lump)).min(most);
            self.tokens %= NANOS;
        }
    }

    pub(super) fn left(&self) -> Bytes {
        if self.is_off() { super::write::ALL } else { self.limit.saturating_sub(self.used) }
    }

    pub(super) fn charge(&mut self, bytes: Bytes) {
        self.used += bytes;
        self.was_reached |= self.left() == Bytes::ZERO;
    }

    /// Corrects a charge, because the kernel took only `bytes` of the `charged` bytes [B].
    pub(super) fn written(&mut self, charged: Bytes, bytes: Bytes) {
        self.used = self.used - charged + bytes;
        self.was_reached |= self.left() == Bytes::ZERO;
    }
}
