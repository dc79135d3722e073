//! Global scheduling: all channels that have something to send, every ten milliseconds, best circuit first.

use super::by_channel::ByChannel;
use super::eligible::Eligible;
use super::pending::Pending;
use super::write::{ALL, Held, write_out};
use super::{Scheduler, SchedulerContext};
use crate::circuit_policy::Priority;
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration, Instant};
use std::fmt;

/// The paper's `GlobalWriteTimeout` [ns] (KIST §5.3).
pub(super) const GLOBAL_WRITE_TIMEOUT: Duration = Duration::from_millis(10);

/// A channel's cells are written when so many bytes of them wait [B]: what C tor gives TLS in one go.
const BATCH: Bytes = Bytes::kib(4);

/// What TLS adds to a cell [B] (C tor: `TLS_PER_CELL_OVERHEAD`).
const TLS_OVERHEAD: Bytes = Bytes::new(29);

/// How much a round may write, to each channel and to all.
pub trait WriteLimits: fmt::Debug + Send {
    /// What may wait in the output buffer of a channel that kernel or token buckets hold back [B].
    const UNFLUSHED: Bytes;
    /// A round begins, for these channels.
    fn collect(&mut self, now: Instant, pending: &[ChannelKey], context: &mut dyn SchedulerContext);
    /// What may still be sent over a channel of the round [B].
    fn left(&mut self, channel: ChannelKey) -> Bytes;
    /// A cell is going to be written, TLS included [B]; the limit may be overrun by less than a record.
    fn charge(&mut self, channel: ChannelKey, bytes: Bytes);
    /// The kernel took `bytes`, TLS included, of what was charged as `charged` [B].
    fn written(&mut self, channel: ChannelKey, charged: Bytes, bytes: Bytes);
    /// `channel` is gone; forget it.
    fn forget(&mut self, channel: ChannelKey);
}

/// Collects channels that have something to send, and serves all of them together after an interval.
///
/// A round first writes what waits in output buffers, in the order in which the last round scheduled it. Then it
/// moves cells, one at a time, always of the best circuit of all channels whose limits are not used up. Who has
/// something left waits for the next round; a channel that the kernel refuses for its notification, one that the
/// token buckets allow nothing for their refill. Nothing is timed while nobody waits.
///
/// Source: KIST §5.2, algorithms 1 and 2; §5.2 on the order of line 3, which the paper's prototype ignored.
/// Deviation: cells are chosen one by one, but written when 4 KiB of a channel's wait, or at the end of the round,
/// so that they share TLS records as C tor's do. A channel whose limit is zero in line 8 comes again, where it would
/// starve as printed. A channel that kernel or buckets held back in line 6 takes no more cells in the round, or as many
/// as [`WriteLimits::UNFLUSHED`] says; as printed its output buffer would grow by a cell a round. A channel enters by
/// having cells, as if its notification were enabled then.
#[derive(Debug)]
pub struct GlobalLoop<L> {
    interval: Duration,
    limits: L,
    pending: Pending,
    eligible: Eligible,
    members: ByChannel<Member>,
    /// The channels of a round, in order. Empty between rounds, as `chosen` is; kept for their memory.
    round: Vec<ChannelKey>,
    /// Those of which cells were chosen, in the order of their first.
    chosen: Vec<ChannelKey>,
}

/// A channel in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    chosen: bool,
    held: Held,
    /// What its cells were charged that are not written yet [B].
    charged: Bytes,
}

impl<L: WriteLimits> GlobalLoop<L> {
    /// A scheduler that waits for `interval` from the first channel on.
    pub(super) fn with(interval: Duration, limits: L) -> Self {
        GlobalLoop {
            interval,
            limits,
            pending: Pending::default(),
            eligible: Eligible::default(),
            members: ByChannel::default(),
            round: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// Algorithm 1.
    fn pend(&mut self, now: Instant, channel: ChannelKey) {
        self.pending.add(channel, now + self.interval);
    }

    /// Algorithm 2.
    fn serve(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        let mut round = std::mem::take(&mut self.round);
        self.pending.take(&mut round);
        self.limits.collect(now, &round, context);
        for channel in round.drain(..) {
            self.begin(now, channel, context);
        }
        self.round = round;
        while let Some(channel) = self.eligible.best() {
            if !std::mem::replace(&mut self.members.at(channel).chosen, true) {
                self.chosen.push(channel);
            }
            if self.may_take(channel, context) {
                let priority = self.schedule_cell(channel, context);
                self.eligible.served(priority);
            } else {
                // Others used up what there was for all.
                self.eligible.dismiss();
            }
        }
        let mut chosen = std::mem::take(&mut self.chosen);
        for channel in chosen.drain(..) {
            self.write(channel, context);
            self.end(now, channel, context);
        }
        self.chosen = chosen;
    }

    /// Lines 4 to 10: writes what waits, and asks whether the channel may take more.
    fn begin(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let (bytes, held) = write_out(channel, self.limits.left(channel), context);
        self.limits.written(channel, Bytes::ZERO, bytes);
        *self.members.at(channel) = Member { held, ..Member::default() };
        match context.head(channel) {
            Some(priority) if self.may_take(channel, context) => self.eligible.enter(channel, priority),
            _ => self.end(now, channel, context),
        }
    }

    fn may_take(&mut self, channel: ChannelKey, context: &dyn SchedulerContext) -> bool {
        let stuck = self.members.at(channel).held != Held::No && context.outbuf(channel) >= L::UNFLUSHED;
        !stuck && self.limits.left(channel) > Bytes::ZERO
    }

    /// Lines 13 to 18; returns the priority of the channel's next cell if it may take one.
    fn schedule_cell(&mut self, channel: ChannelKey, context: &mut dyn SchedulerContext) -> Option<Priority> {
        let before = context.outbuf(channel);
        context.move_cell(channel);
        let outbuf = context.outbuf(channel);
        let charge = outbuf - before + TLS_OVERHEAD;
        self.limits.charge(channel, charge);
        self.members.at(channel).charged += charge;
        if outbuf >= BATCH {
            self.write(channel, context);
        }
        if self.may_take(channel, context) { context.head(channel) } else { None }
    }

    /// Writes cells that are charged already. A record holds several: the limits get back what they share.
    fn write(&mut self, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let member = self.members.at(channel);
        if member.held == Held::No {
            let (bytes, held) = write_out(channel, ALL, context);
            member.held = held;
            self.limits.written(channel, std::mem::take(&mut member.charged), bytes);
        }
    }

    /// Whatever the channel has left comes again.
    fn end(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let held = self.members.at(channel).held;
        context.want_writable(channel, held == Held::ByKernel);
        if held == Held::No && has_work(channel, context) {
            self.pend(now, channel);
        }
    }
}

/// Whether there is something to send over the channel.
fn has_work(channel: ChannelKey, context: &dyn SchedulerContext) -> bool {
    context.outbuf(channel) > Bytes::ZERO || context.head(channel).is_some()
}

impl<L: WriteLimits> Scheduler for GlobalLoop<L> {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        if has_work(channel, context) {
            self.pend(now, channel);
        }
    }

    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        context.want_writable(channel, false);
        self.on_ready(now, channel, context);
    }

    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.on_ready(now, channel, context);
    }

    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        if self.pending.due().is_some_and(|due| due <= now) {
            self.serve(now, context);
        }
    }

    fn on_close(&mut self, channel: ChannelKey) {
        self.pending.forget(channel);
        self.eligible.forget(channel);
        self.limits.forget(channel);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pending.due()
    }
}
