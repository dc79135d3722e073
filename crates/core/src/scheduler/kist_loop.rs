use super::by_channel::ByChannel;
use super::eligible::Eligible;
use super::pending::Pending;
use super::write::{ALL, Held, write_out};
use super::{Scheduler, SchedulerContext};
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration, Instant};
use std::fmt;

/// The time between two runs in the first C tor with KIST [ns] (`KIST_SCHED_RUN_INTERVAL_DEFAULT`; 2 ms in 0.4.9).
pub(super) const RUN_INTERVAL: Duration = Duration::from_millis(10);

/// The size of a cell whose circuit id has four bytes [B] (C tor: `CELL_MAX_NETWORK_SIZE`).
pub(super) const CELL: u64 = 514;

/// The charge for one cell, TLS included [B] (`TLS_PER_CELL_OVERHEAD` is 29).
pub(super) const CHARGE: Bytes = Bytes::new(CELL + 29);

/// If a channel's output buffer is larger than this, the run writes it before going on to another channel [B].
const UNWRITTEN: Bytes = Bytes::new(8 * CELL);

/// Limits how many bytes a run may move to a channel's output buffer.
pub trait ChannelLimit: fmt::Debug + Send {
    /// The limit of `channel` [B]. Called once for each channel in a run.
    fn limit(&self, channel: ChannelKey, context: &mut dyn SchedulerContext) -> Bytes;
}

/// The scheduling loop of today's C tor: one run serves all channels that have cells. A run starts one interval after
/// the last run, or immediately if the interval has passed.
///
/// A run gets each channel's limit. Then it moves one cell at a time, each from the best circuit of all channels whose
/// limits allow another cell. A channel that has used up its limit waits for the next run. Bytes that the kernel
/// refused, and link-control cells, leave when the socket is writable.
///
/// Source: C tor `scheduler_kist.c`: `kist_scheduler_schedule()`, `kist_scheduler_run()`, `socket_can_write()`,
/// `channel_should_write_to_kernel()`.
/// Deviation: a channel that the kernel or token buckets block waits until the socket is writable or the buckets are
/// refilled. C tor retries in every interval, and meanwhile moves further cells to the channel's output buffer.
/// Deviation: at the end of a run, channels are written in the order in which they were first chosen; C tor uses the
/// order of a hash table.
#[derive(Debug)]
pub struct KistLoop<L> {
    interval: Duration,
    limit: L,
    last: Option<Instant>,
    pending: Pending,
    eligible: Eligible,
    members: ByChannel<Member>,
    /// A buffer for the channels of a run, in order. It is kept to avoid allocations.
    run: Vec<ChannelKey>,
    /// A buffer for the channels from which cells were chosen, in the order of their first chosen cell.
    chosen: Vec<ChannelKey>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    left: Bytes,
    chosen: bool,
    held: Held,
}

impl<L: ChannelLimit> KistLoop<L> {
    pub(super) fn with(interval: Duration, limit: L) -> Self {
        KistLoop {
            interval,
            limit,
            last: None,
            pending: Pending::default(),
            eligible: Eligible::default(),
            members: ByChannel::default(),
            run: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// Schedules a run with this channel. Even an immediate run waits until the current input is handled, as in C tor.
    fn pend(&mut self, now: Instant, channel: ChannelKey) {
        let at = self.last.map_or(now, |last| now.max(last + self.interval));
        self.pending.add(channel, at);
    }

    fn serve(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        self.last = Some(now);
        let mut run = std::mem::take(&mut self.run);
        self.pending.take(&mut run);
        for channel in run.drain(..) {
            let left = self.limit.limit(channel, context);
            *self.members.at(channel) = Member { left, ..Member::default() };
            if let Some(priority) = context.head(channel) {
                self.eligible.enter(channel, priority);
            }
        }
        self.run = run;
        let mut previous = None;
        while let Some(channel) = self.eligible.best() {
            if let Some(left) = previous.replace(channel)
                && left != channel
                && context.outbuf(left) > UNWRITTEN
            {
                self.write(left, context);
            }
            self.take_cell(channel, context);
        }
        let mut chosen = std::mem::take(&mut self.chosen);
        for channel in chosen.drain(..) {
            self.write(channel, context);
            self.end(now, channel, context);
        }
        self.chosen = chosen;
    }

    fn take_cell(&mut self, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let member = self.members.at(channel);
        if !std::mem::replace(&mut member.chosen, true) {
            self.chosen.push(channel);
        }
        if member.left < CHARGE {
            self.eligible.dismiss();
            return;
        }
        let before = context.outbuf(channel);
        context.move_cell(channel);
        let cells = (context.outbuf(channel) - before).get().div_ceil(CELL).max(1);
        member.left = member.left.saturating_sub(Bytes::new(cells * CHARGE.get()));
        let next = if member.left >= CHARGE { context.head(channel) } else { None };
        self.eligible.served(next);
    }

    fn write(&mut self, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let member = self.members.at(channel);
        if member.held == Held::No {
            member.held = write_out(channel, ALL, context).1;
        }
    }

    fn end(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let held = self.members.at(channel).held;
        context.want_writable(channel, held == Held::ByKernel);
        if held == Held::No && context.head(channel).is_some() {
            self.pend(now, channel);
        }
    }
}

impl<L: ChannelLimit> Scheduler for KistLoop<L> {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        if context.head(channel).is_some() {
            self.pend(now, channel);
        }
        if context.outbuf(channel) > Bytes::ZERO {
            context.want_writable(channel, true);
        }
    }

    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let throttled = context.flush(channel, ALL).throttled;
        context.want_writable(channel, !throttled && context.outbuf(channel) > Bytes::ZERO);
        if context.head(channel).is_some() {
            self.pend(now, channel);
        }
    }

    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.on_writable(now, channel, context);
    }

    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        if self.pending.due().is_some_and(|due| due <= now) {
            self.serve(now, context);
        }
    }

    fn on_close(&mut self, channel: ChannelKey) {
        self.pending.forget(channel);
        self.eligible.forget(channel);
    }

    fn set_run_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pending.due()
    }
}
