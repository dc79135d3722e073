//! From an output buffer to the kernel, as far as it goes.

use super::{Flushed, SchedulerContext};
use crate::keys::ChannelKey;
use penstock_units::Bytes;

/// More than any output buffer holds [B].
pub(super) const ALL: Bytes = Bytes::new(u64::MAX);

/// Who holds back what is in an output buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    /// Nobody, or the scheduler itself.
    #[default]
    No,
    /// The kernel: [`Scheduler::on_writable`](super::Scheduler::on_writable) will come.
    ByKernel,
    /// A token bucket: [`Scheduler::on_refill`](super::Scheduler::on_refill) will come.
    ByBuckets,
}

/// Writes the channel's output buffer until it is empty, `limit` is reached or exceeded by less than a record [B], or
/// kernel or token buckets take no more; returns what was written [B], and who stopped it.
pub(super) fn write_out(
    channel: ChannelKey,
    limit: Bytes,
    context: &mut dyn SchedulerContext,
) -> (Bytes, Held) {
    let mut written = Bytes::ZERO;
    while written < limit && context.outbuf(channel) > Bytes::ZERO {
        let Flushed { bytes, refused, throttled } = context.flush(channel, limit - written);
        written += bytes;
        if throttled {
            return (written, Held::ByBuckets);
        }
        if refused {
            return (written, Held::ByKernel);
        }
    }
    (written, Held::No)
}
