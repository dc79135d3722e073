use super::{Flushed, SchedulerContext};
use crate::keys::ChannelKey;
use penstock_units::Bytes;

pub(super) const ALL: Bytes = Bytes::new(u64::MAX);

/// Why the remaining bytes of an output buffer wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    /// No bytes wait, or the scheduler's own limit stopped the write.
    #[default]
    No,
    /// The kernel refused further bytes. When the socket is writable, the relay calls
    /// [`Scheduler::on_writable`](super::Scheduler::on_writable).
    ByKernel,
    /// A token bucket is empty. After a refill, the relay calls [`Scheduler::on_refill`](super::Scheduler::on_refill).
    ByBuckets,
}

/// Writes the channel's output buffer until it is empty, `limit` is reached [B], or the kernel or token buckets block
/// it. The last record may exceed the limit. Returns the bytes written [B] and the reason why the remaining bytes wait.
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
