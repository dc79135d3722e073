//! Global scheduling: every ten milliseconds a round serves all channels with cells, best circuit first.

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

/// The scheduler writes a channel when its output buffer holds this many bytes [B]. C tor passes this many bytes to TLS
/// in one call.
const BATCH: Bytes = Bytes::kib(4);

/// The TLS overhead of a cell [B] (C tor: `TLS_PER_CELL_OVERHEAD`).
const TLS_OVERHEAD: Bytes = Bytes::new(29);

/// The write limits of a round: one for each channel, and one for all channels together.
pub trait WriteLimits: fmt::Debug + Send {
    /// While the kernel or token buckets block a channel, it takes cells only if its output buffer is smaller [B].
    const UNFLUSHED: Bytes;
    /// Begins a round that serves these channels.
    fn begin_round(&mut self, now: Instant, pending: &[ChannelKey], context: &mut dyn SchedulerContext);
    /// How many bytes the channel may still write in this round [B].
    fn left(&mut self, channel: ChannelKey) -> Bytes;
    /// Charges a cell that will be written [B], TLS included. The last TLS record may exceed the limit.
    fn charge(&mut self, channel: ChannelKey, bytes: Bytes);
    /// Corrects a charge, because the kernel took `bytes` of the `charged` bytes [B], TLS included.
    fn written(&mut self, channel: ChannelKey, charged: Bytes, bytes: Bytes);
    /// Removes a closed channel.
    fn forget(&mut self, channel: ChannelKey);
}

/// Collects channels with cells, and serves all of them in one round after an interval.
///
/// A round first writes the output buffers, in the order of the last round. Then it moves single cells, each from the
/// best circuit of all channels whose limits are not used up. A channel with remaining cells waits for the next round.
/// If the kernel blocks a channel, the channel waits until it is writable. A channel without tokens waits for a refill.
/// The timer is set only while a channel waits.
///
/// Source: KIST §5.2, algorithms 1 and 2; the order in line 3 is that of §5.2, which the paper's prototype ignored.
/// Deviation: a chosen cell is not written immediately. A channel is written when 4 KiB wait or the round ends, so that
/// cells share TLS records as in C tor.
/// Deviation: a channel whose limit is zero (algorithm 2, line 8) stays in the list. In the printed algorithm it would
/// starve.
/// Deviation: a channel that is blocked (line 6) takes cells only up to [`WriteLimits::UNFLUSHED`]. In the printed
/// algorithm its output buffer would grow by one cell in each round.
/// Deviation: a channel joins the list when it gets cells. In the paper it joins when the kernel notifies the relay.
#[derive(Debug)]
pub struct GlobalLoop<L> {
    interval: Duration,
    limits: L,
    pending: Pending,
    eligible: Eligible,
    members: ByChannel<Member>,
    /// A buffer for the channels of a round, in order. It is kept to avoid allocations.
    round: Vec<ChannelKey>,
    /// A buffer for the channels from which cells were chosen, in the order of their first chosen cell.
    chosen: Vec<ChannelKey>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    chosen: bool,
    held: Held,
    charged: Bytes,
}

impl<L: WriteLimits> GlobalLoop<L> {
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

    /// KIST, algorithm 1: adds a channel to the list for the next round.
    fn pend(&mut self, now: Instant, channel: ChannelKey) {
        self.pending.add(channel, now + self.interval);
    }

    /// KIST, algorithm 2: runs one round.
    fn serve(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        let mut round = std::mem::take(&mut self.round);
        self.pending.take(&mut round);
        self.limits.begin_round(now, &round, context);
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

    /// Algorithm 2, lines 4 to 10: writes the output buffer. If the limit is not used up, the channel may take cells.
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

    /// Algorithm 2, lines 13 to 18: moves one cell. Returns the priority of the next cell, if the channel may take
    /// another cell.
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

    /// Writes charged cells. Several cells share one TLS record, so the real cost is below the charge, and the
    /// difference is refunded.
    fn write(&mut self, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let member = self.members.at(channel);
        if member.held == Held::No {
            let (bytes, held) = write_out(channel, ALL, context);
            member.held = held;
            self.limits.written(channel, std::mem::take(&mut member.charged), bytes);
        }
    }

    fn end(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let held = self.members.at(channel).held;
        context.want_writable(channel, held == Held::ByKernel);
        if held == Held::No && has_work(channel, context) {
            self.pend(now, channel);
        }
    }
}

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
