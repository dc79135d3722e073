//! Bytes per second, and conversions between size, rate and time.

use crate::size::Bytes;
use crate::time::nanos;
use std::fmt;
use std::ops::Div;
use std::time::Duration;

/// A data rate [B/s]. It is never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataRate(std::num::NonZeroU64);

const NANOS_PER_SEC: u128 = 1_000_000_000;

impl DataRate {
    /// A rate of `bytes` per second; `None` for zero.
    pub const fn new(bytes: u64) -> Option<Self> {
        match std::num::NonZeroU64::new(bytes) {
            Some(rate) => Some(DataRate(rate)),
            None => None,
        }
    }

    /// A rate of `amount` times 1024 bytes per second [KiB/s]. Panics for zero.
    pub const fn kib(amount: u64) -> Self {
        match DataRate::new(amount * 1024) {
            Some(rate) => rate,
            None => panic!("a rate is never zero"),
        }
    }

    /// A rate of `amount` times 1024² bytes per second [MiB/s]. Panics for zero.
    pub const fn mib(amount: u64) -> Self {
        DataRate::kib(amount * 1024)
    }

    /// A rate of `amount` times 10⁶ bits per second [Mbit/s]. Panics for zero.
    pub const fn mbit(amount: u64) -> Self {
        match DataRate::new(amount * 125_000) {
            Some(rate) => rate,
            None => panic!("a rate is never zero"),
        }
    }

    /// The rate in bytes per second [B/s].
    pub const fn bytes_per_sec(self) -> u64 {
        self.0.get()
    }

    /// How many bytes pass in the time `span` at this rate, rounded down.
    pub fn bytes_in(self, span: Duration) -> Bytes {
        let bytes = u128::from(self.0.get()) * u128::from(nanos(span)) / NANOS_PER_SEC;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The transmission time of `bytes` [ns], rounded up so that a link never exceeds its rate.
    pub fn nanos_for(self, bytes: u64) -> u64 {
        // Below 18 GB the product fits into 64 bits. A 128-bit division is several times slower.
        match bytes.checked_mul(1_000_000_000) {
            Some(product) => product.div_ceil(self.0.get()),
            None => {
                let nanos = (u128::from(bytes) * NANOS_PER_SEC).div_ceil(u128::from(self.0.get()));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Div<DataRate> for Bytes {
    type Output = Duration;
    fn div(self, rate: DataRate) -> Duration {
        Duration::from_nanos(rate.nanos_for(self.get()))
    }
}

impl fmt::Debug for DataRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B/s", self.0)
    }
}

impl fmt::Display for DataRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", crate::parse::show_bytes(self.0.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cell_takes_four_milliseconds_at_128_kib() {
        assert_eq!(Bytes::new(512) / DataRate::kib(128), Duration::from_nanos(3_906_250));
    }

    proptest! {
        #[test]
        fn a_link_never_exceeds_its_rate(bytes in 0u64..1 << 50, rate in 1u64..1 << 40) {
            let rate = DataRate::new(rate).unwrap();
            let span = Bytes::new(bytes) / rate;
            prop_assume!(nanos(span) < u64::MAX);
            prop_assert!(rate.bytes_in(span) >= Bytes::new(bytes));
            if let Some(shorter) = span.checked_sub(Duration::from_nanos(1)) {
                prop_assert!(rate.bytes_in(shorter) <= Bytes::new(bytes));
            }
        }
    }
}
