//! KIST's global limit: how much all sockets of a relay together may get, by how much the kernel drained.

use penstock_units::{Bytes, DataRate, Duration, Instant, time};

/// The first limit, before anything could drain [B].
const COLD_START: Bytes = Bytes::kib(32);

/// The minimum number of tokens that the prototype hands out at once [B].
const LUMP: u128 = 16 << 10;

/// How a relay learns how much its host can send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlobalLimitConfig {
    /// There is no global limit.
    Off,
    /// The limit is the most that drained from the kernel between two rounds. Tokens expire with the round.
    #[default]
    Drained,
    /// A token bucket, filled at the greatest rate at which the kernel ever drained.
    Rate {
        /// The bucket's depth in time [ns] (the prototype's `AutotuneFillLimitUSec`, which defaults to
        /// the interval of its rounds).
        fill: Duration,
        /// The rate, if the operator knows it (the prototype's `AutotuneWriteBWOverride`) [B/s].
        known: Option<DataRate>,
    },
}

/// The rest of a round's limit, and the measured capacity of the host.
///
/// A relay that never wrote sees nothing drain, and a slow relay measures its own slow rate. So the limit begins with
/// 32 KiB a round, and the rate with 32 KiB in the time that fills the bucket.
///
/// Source: KIST §5.2, equation 2; the rule with a rate is that of its prototype (`autotune.c`).
/// Deviation: equation 2 subtracts the earlier sum from the later one and ignores writes in between, so it would
/// measure growth. Here drained means, as in the prototype: bytes queued and written then, without bytes queued now.
/// The prototype's bucket and rate begin at zero and stay there unless the rate is configured, as in Shadow. A separate
/// timer fills the prototype's bucket; here each round does.
#[derive(Debug)]
pub(super) struct GlobalLimit {
    config: GlobalLimitConfig,
    /// The limit of this round, and the bytes written in it [B].
    limit: Bytes,
    used: Bytes,
    last: Option<Instant>,
    /// The most that drained between two rounds [B].
    most: Bytes,
    /// The greatest drain rate [B/s].
    rate: u64,
    /// Tokens in the bucket [B·ns/s].
    tokens: u128,
}

const NANOS: u128 = 1_000_000_000;

impl GlobalLimit {
    pub(super) fn new(config: GlobalLimitConfig) -> Self {
        let rate = match config {
            GlobalLimitConfig::Rate { known: Some(rate), .. } => rate.bytes_per_sec(),
            GlobalLimitConfig::Rate { fill, known: None } => {
                let rate = u128::from(COLD_START.get()) * NANOS / u128::from(time::nanos(fill).max(1));
                u64::try_from(rate).unwrap_or(u64::MAX)
            }
            GlobalLimitConfig::Off | GlobalLimitConfig::Drained => 0,
        };
        let (limit, used) = (COLD_START, Bytes::ZERO);
        GlobalLimit { config, limit, used, last: None, most: COLD_START, rate, tokens: 0 }
    }

    pub(super) fn is_off(&self) -> bool {
        self.config == GlobalLimitConfig::Off
    }

    /// Begins a round. `drained` left the kernel since the last round [B].
    pub(super) fn begin(&mut self, now: Instant, drained: Bytes) {
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
        }
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

    /// The rest of the limit [B].
    pub(super) fn left(&self) -> Bytes {
        if self.is_off() { super::write::ALL } else { self.limit.saturating_sub(self.used) }
    }

    /// Charges bytes that will be written [B].
    pub(super) fn charge(&mut self, bytes: Bytes) {
        self.used += bytes;
    }

    /// The kernel took `bytes` of the `charged` ones [B].
    pub(super) fn written(&mut self, charged: Bytes, bytes: Bytes) {
        self.used = self.used - charged + bytes;
    }
}
