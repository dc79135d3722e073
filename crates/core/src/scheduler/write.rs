//! Writes from an output buffer to the kernel.

use super::{Flushed, SchedulerContext};
use crate::keys::ChannelKey;
use penstock_units::Bytes;

/// More than any output buffer holds [B].
pub(super) const ALL: Bytes = Bytes::new(u64::MAX);

/// The reason that the rest of an output buffer waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    /// The buffer is empty, or the scheduler itself stops the write.
    #[default]
    No,
    /// The kernel. [`Scheduler::on_writable`](super::Scheduler::on_writable) will be called.
    ByKernel,
    /// A token bucket. [`Scheduler::on_refill`](super::Scheduler::on_refill) will be called.
    ByBuckets,
}

/// Writes the channel's output buffer until it is empty, until `limit` is reached or exceeded by less than a record
/// [B], or until the kernel or token buckets block it. Returns the bytes written [B] and what blocks the rest.
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
