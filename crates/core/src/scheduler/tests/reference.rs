//! A second implementation of the algorithms on plain lists. It is slow, but easy to compare with the publications.

use super::world::{CELL, World};
use crate::circuit_policy::Priority;
use crate::keys::ChannelKey;
use crate::scheduler::{GlobalLimitConfig, Scheduler, SchedulerConfig, SchedulerContext};
use penstock_units::{Bytes, Duration, Instant};
use std::collections::BTreeMap;

/// A scheduler that follows its published definition.
#[derive(Debug)]
pub(super) struct Reference {
    config: SchedulerConfig,
    pending: Vec<u32>,
    due: Option<Instant>,
    last: Option<Instant>,
    /// The time of the last service of each channel.
    turns: BTreeMap<u32, u64>,
    served: u64,
    /// For equation 2, the bytes in each buffer after the last round [B].
    held: BTreeMap<u32, u64>,
    most: u64,
    rate: u64,
    /// Tokens of the global limit's bucket [B·ns/s].
    tokens: u128,
    measured: Measured,
    global: i64,
}

/// A measured bandwidth, from a list of all rounds.
#[derive(Debug, Default)]
struct Measured {
    /// The time of each round, and the bytes acknowledged before it [B].
    rounds: Vec<(Instant, u64)>,
    /// Each sample, with the number of whole seconds of settled busy time before it [B/s].
    samples: Vec<(u128, u64)>,
    busy_since: Option<Instant>,
    /// Settled busy time in the present second [ns], and the seconds before it.
    busy: (u128, u128),
    was_reached: bool,
    has_waited: bool,
}

impl Measured {
    /// Adds a round. Returns the estimate [B/s].
    fn add(&mut self, now: Instant, acked: u64, is_busy: bool) -> u64 {
        let (last, before) = self.rounds.last().copied().unwrap_or((now, 0));
        self.rounds.push((now, before + acked));
        if is_busy {
            let since = *self.busy_since.get_or_insert(last);
            if now - since >= Duration::from_millis(500) {
                self.busy.0 += (now - last).as_nanos();
            }
            if self.busy.0 >= 1_000_000_000 {
                self.busy = (0, self.busy.1 + 1);
            }
        } else {
            self.busy_since = None;
        }
        let is_old = |(at, _): &&(Instant, u64)| *at + Duration::from_millis(100) <= now;
        if let Some((first, until)) = self.rounds.iter().rfind(is_old) {
            let bytes = u128::from(before + acked - until);
            self.samples.push((self.busy.1, (bytes * 1_000_000_000 / (now - *first).as_nanos()) as u64));
        }
        let kept = |second: &u128| second + 1 >= self.busy.1;
        let least = [(self.busy.1, 75 << 10)];
        let samples = self.samples.iter().chain(&least).filter(|(second, _)| kept(second));
        samples.map(|(_, rate)| *rate).max().expect("the least estimate is kept")
    }
}

/// A channel in this round.
#[derive(Debug)]
struct Member {
    /// The unused part of the channel's limit [B]. Only the last record may exceed it.
    left: i64,
    /// Whether the kernel or the buckets block this channel.
    held: bool,
    /// The charge of cells that are not written yet [B].
    charged: i64,
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 2)
}

impl Reference {
    pub(super) fn new(config: SchedulerConfig) -> Self {
        let rate = match config {
            SchedulerConfig::Kist(kist) => match kist.global_limit {
                GlobalLimitConfig::Rate { known: Some(rate), .. } => rate.bytes_per_sec(),
                GlobalLimitConfig::Rate { fill, .. } => {
                    ((32 << 10) as f64 / fill.as_secs_f64()).round() as u64
                }
                _ => 0,
            },
            _ => 0,
        };
        Reference {
            config,
            pending: Vec::new(),
            due: None,
            last: None,
            turns: BTreeMap::new(),
            served: 0,
            held: BTreeMap::new(),
            most: 32 << 10,
            rate,
            tokens: 0,
            measured: Measured::default(),
            global: 32 << 10,
        }
    }

    fn interval(&self) -> Duration {
        match &self.config {
            SchedulerConfig::Global(config) => config.interval,
            SchedulerConfig::Kist(config) => config.interval,
            SchedulerConfig::KistDeployed(config) => config.interval,
            SchedulerConfig::KistLite(config) => config.interval,
            _ => unreachable!("vanilla has no rounds"),
        }
    }

    /// Whether this scheduler has C tor's loop instead of the paper's loop.
    fn is_deployed(&self) -> bool {
        matches!(self.config, SchedulerConfig::KistDeployed(_) | SchedulerConfig::KistLite(_))
    }

    fn add_pending(&mut self, now: Instant, channel: u32) {
        if !self.pending.contains(&channel) {
            self.pending.push(channel);
        }
        if self.due.is_none() {
            let next = |last: Instant| last + self.interval();
            let at_once = self.last.is_none_or(|last| next(last) <= now);
            self.due = Some(match self.is_deployed() {
                true if at_once => now,
                true => self.last.map_or(now, next),
                false => now + self.interval(),
            });
        }
    }

    /// The channel with the best circuit among those for which `may` is true.
    fn best(
        &self,
        context: &dyn SchedulerContext,
        members: &[u32],
        may: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut best: Option<(Priority, u64, u32)> = None;
        for channel in members.iter().copied().filter(|channel| may(*channel)) {
            let Some(priority) = context.head(ChannelKey::first(channel)) else { continue };
            let rank = (priority, self.turns.get(&channel).copied().unwrap_or(0), channel);
            if best.is_none_or(|other| rank < other) {
                best = Some(rank);
            }
        }
        best.map(|(_, _, channel)| channel)
    }

    fn take(&mut self, context: &mut dyn SchedulerContext, channel: u32) {
        assert!(context.move_cell(ChannelKey::first(channel)));
        self.served += 1;
        self.turns.insert(channel, self.served);
    }

    /// Writes at most `limit`. Returns the written bytes and whether the rest is blocked.
    fn write(
        &mut self,
        context: &mut dyn SchedulerContext,
        channel: u32,
        limit: u64,
        throttled: &mut Vec<u32>,
    ) -> (u64, bool) {
        let key = ChannelKey::first(channel);
        let mut written = 0;
        while written < limit && context.outbuf(key) > Bytes::ZERO {
            let flushed = context.flush(key, Bytes::new(limit - written));
            written += flushed.bytes.get();
            if flushed.throttled {
                throttled.push(channel);
            }
            if flushed.throttled || flushed.refused {
                *self.held.entry(channel).or_default() += written;
                return (written, true);
            }
        }
        *self.held.entry(channel).or_default() += written;
        (written, false)
    }

    /// Writes charged cells. Refunds the overhead that several cells share to the limits.
    fn write_chosen(
        &mut self,
        context: &mut dyn SchedulerContext,
        channel: u32,
        member: &mut Member,
        throttled: &mut Vec<u32>,
    ) {
        if !member.held {
            let (bytes, held) = self.write(context, channel, u64::MAX, throttled);
            let refund = std::mem::take(&mut member.charged) - signed(bytes);
            (self.global, member.left, member.held) = (self.global + refund, member.left + refund, held);
            self.measured.was_reached |= self.global <= 0;
        }
    }

    fn charge(&mut self, bytes: u64) {
        self.global -= signed(bytes);
        self.measured.was_reached |= self.global <= 0;
    }

    /// One round of KIST's algorithm 2.
    fn round(
        &mut self,
        now: Instant,
        context: &mut dyn SchedulerContext,
        limits: &BTreeMap<u32, u64>,
        unflushed: u64,
    ) {
        let round = std::mem::take(&mut self.pending);
        self.due = None;
        let (mut members, mut eligible) = (BTreeMap::<u32, Member>::new(), Vec::new());
        let (mut order, mut throttled) = (Vec::new(), Vec::new());
        let allowed =
            |members: &BTreeMap<u32, Member>, global: i64, context: &dyn SchedulerContext, channel: u32| {
                let full =
                    members[&channel].held && context.outbuf(ChannelKey::first(channel)).get() >= unflushed;
                members[&channel].left > 0 && global > 0 && !full
            };
        for channel in &round {
            let limit = limits[channel].min(self.global.max(0) as u64);
            let (written, held) = self.write(context, *channel, limit, &mut throttled);
            self.charge(written);
            let left = signed(limits[channel]) - signed(written);
            members.insert(*channel, Member { left, held, charged: 0 });
            if context.head(ChannelKey::first(*channel)).is_some()
                && allowed(&members, self.global, context, *channel)
            {
                eligible.push(*channel);
            }
        }
        while let Some(channel) =
            self.best(context, &eligible, |channel| allowed(&members, self.global, context, channel))
        {
            if !order.contains(&channel) {
                order.push(channel);
            }
            self.take(context, channel);
            let member = members.get_mut(&channel).expect("the channel is in the round");
            self.charge(541);
            (member.left, member.charged) = (member.left - 541, member.charged + 541);
            if context.outbuf(ChannelKey::first(channel)) >= Bytes::kib(4) {
                self.write_chosen(context, channel, member, &mut throttled);
            }
            // A channel that left the round stays out, even if the last writes refund a part of its
            // limit.
            if !allowed(&members, self.global.max(1), context, channel) {
                eligible.retain(|other| *other != channel);
            }
        }
        let over: Vec<u32> = round.iter().copied().filter(|channel| !order.contains(channel)).collect();
        // Channels that were eligible but not chosen follow the others, best first.
        let mut passed: Vec<u32> =
            over.iter().copied().filter(|channel| eligible.contains(channel)).collect();
        while let Some(best) = self.best(context, &passed, |_| true) {
            passed.retain(|channel| *channel != best);
            order.push(best);
        }
        for channel in &order {
            let member = members.get_mut(channel).expect("the channel is in the round");
            self.write_chosen(context, *channel, member, &mut throttled);
        }
        for channel in over.iter().filter(|channel| !order.contains(channel)).chain(&order) {
            let (key, held) = (ChannelKey::first(*channel), members[channel].held);
            context.want_writable(key, held && !throttled.contains(channel));
            if !held && (context.outbuf(key) > Bytes::ZERO || context.head(key).is_some()) {
                self.add_pending(now, *channel);
            }
        }
    }

    /// Computes the limits of all channels with equations 1 and 2.
    fn collect(&mut self, now: Instant, context: &World, limit: GlobalLimitConfig) -> BTreeMap<u32, u64> {
        let mut limits = BTreeMap::new();
        let (mut drained, mut backlog) = (0, 0);
        for (channel, state) in &context.channels {
            let info = state.info;
            let socket_space = info.capacity.get() as i64 - info.queued.get() as i64;
            let tcp_space = (i64::from(info.cwnd) - i64::from(info.unacked)) * i64::from(info.mss);
            limits.insert(*channel, socket_space.min(tcp_space).max(0) as u64);
            let before = self.held.insert(*channel, info.queued.get()).unwrap_or(0);
            let acked = before.saturating_sub(info.queued.get());
            drained += acked;
            if before > 0 || self.pending.contains(channel) {
                // TCP sends whole segments while no limit is reached.
                let (mut in_flight, mut unsent) = (info.in_flight, signed(info.not_sent.get()));
                let mut window = signed(info.peer_window.get()) - (signed(info.queued.get()) - unsent).max(0);
                let mss = i64::from(info.mss);
                while unsent >= mss && window >= mss && in_flight < info.cwnd {
                    (in_flight, unsent, window) = (in_flight + 1, unsent - mss, window - mss);
                    backlog += u64::from(info.mss);
                }
            }
        }
        let span = self.last.replace(now).map_or(0, |last| (now - last).as_nanos());
        match limit {
            GlobalLimitConfig::Off => self.global = i64::MAX / 2,
            GlobalLimitConfig::Drained => {
                self.most = self.most.max(drained);
                self.global = signed(self.most);
            }
            GlobalLimitConfig::Rate { fill, known } => {
                if known.is_none() && span > 0 {
                    self.rate = self.rate.max((u128::from(drained) * 1_000_000_000 / span) as u64);
                }
                self.global = self.global.max(0);
                self.tokens += u128::from(self.rate) * span;
                if self.tokens / 1_000_000_000 >= 16384 {
                    let ceiling = (u128::from(self.rate) * fill.as_nanos() / 1_000_000_000).max(32 << 10);
                    self.global = (self.global + (self.tokens / 1_000_000_000) as i64).min(ceiling as i64);
                    self.tokens %= 1_000_000_000;
                }
            }
            GlobalLimitConfig::Measured => {
                let interval = self.interval().as_nanos();
                let waits = backlog > 0 && backlog >= drained / 8;
                self.measured.has_waited |= waits;
                let is_busy = span <= 2 * interval && (self.measured.was_reached || waits);
                let rate = self.measured.add(now, drained, is_busy);
                let bytes = u128::from(rate) * span.max(interval).min(2 * interval) / 1_000_000_000;
                let bytes = if self.measured.has_waited { bytes * 5 / 4 } else { (bytes * 2).max(32 << 10) };
                self.global = (bytes as i64 - signed(backlog)).max(0);
                self.measured.was_reached = self.global == 0;
            }
        }
        limits
    }

    /// One run of C tor's loop.
    fn run(&mut self, now: Instant, context: &mut dyn SchedulerContext, limits: &BTreeMap<u32, u64>) {
        let round = std::mem::take(&mut self.pending);
        (self.due, self.last) = (None, Some(now));
        let mut left = limits.clone();
        let (mut order, mut throttled, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let mut candidates: Vec<u32> = round.clone();
        let mut previous = None;
        while let Some(channel) = self.best(context, &candidates, |_| true) {
            if let Some(before) = previous.filter(|before| *before != channel)
                && context.outbuf(ChannelKey::first(before)).get() > 8 * 514
                && !held.contains(&before)
                && self.write(context, before, u64::MAX, &mut throttled).1
            {
                held.push(before);
            }
            previous = Some(channel);
            if !order.contains(&channel) {
                order.push(channel);
            }
            let can_write = |left: &BTreeMap<u32, u64>| left[&channel] / 543 > 0;
            if can_write(&left) {
                self.take(context, channel);
                *left.get_mut(&channel).expect("the channel is in the round") -= 543;
            }
            if !can_write(&left) {
                candidates.retain(|other| *other != channel);
            }
        }
        for channel in order {
            let key = ChannelKey::first(channel);
            let stuck = held.contains(&channel) || self.write(context, channel, u64::MAX, &mut throttled).1;
            context.want_writable(key, stuck && !throttled.contains(&channel));
            if !stuck && context.head(key).is_some() {
                self.add_pending(now, channel);
            }
        }
    }

    /// Does the work of an expired timer, on a model that tests can read.
    pub(super) fn fire(&mut self, now: Instant, world: &mut World) {
        match self.config.clone() {
            SchedulerConfig::Global(_) => {
                self.global = i64::MAX / 2;
                let limits = world.channels.keys().map(|channel| (*channel, u64::MAX)).collect();
                self.round(now, world, &limits, 16 << 10);
            }
            SchedulerConfig::Kist(config) => {
                let limits = self.collect(now, world, config.global_limit);
                self.round(now, world, &limits, 0);
            }
            SchedulerConfig::KistDeployed(config) => {
                let limit = |info: crate::SocketInfo, outbuf: u64| {
                    let tcp_space = i64::from(info.cwnd).saturating_sub(info.unacked.into()).max(0);
                    let window = f64::from(info.cwnd) * f64::from(info.mss) * config.factor;
                    let extra = window - info.not_sent.get() as f64 - (outbuf * CELL) as f64;
                    (tcp_space as f64 * f64::from(info.mss) + extra).max(0.0) as u64
                };
                let limits =
                    world.channels.iter().map(|(key, state)| (*key, limit(state.info, state.outbuf)));
                let limits = limits.collect();
                self.run(now, world, &limits);
            }
            SchedulerConfig::KistLite(_) => {
                let limit =
                    |outbuf: u64| (32768u64.saturating_sub(outbuf * CELL) as f64 / 514.0).ceil() as u64 * 543;
                let limits = world.channels.iter().map(|(key, state)| (*key, limit(state.outbuf))).collect();
                self.run(now, world, &limits);
            }
            _ => unreachable!("vanilla has no rounds"),
        }
    }
}

/// The reference handles inputs as the trait's contract says. [`Reference::fire`] handles the timer.
impl Scheduler for Reference {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        let (cells, bytes) = (context.head(channel).is_some(), context.outbuf(channel) > Bytes::ZERO);
        if cells || bytes && !self.is_deployed() {
            self.add_pending(now, channel.index() as u32);
        }
        if bytes && self.is_deployed() {
            context.want_writable(channel, true);
        }
    }

    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        if self.is_deployed() {
            let throttled = context.flush(channel, Bytes::new(u64::MAX)).throttled;
            context.want_writable(channel, !throttled && context.outbuf(channel) > Bytes::ZERO);
            if context.head(channel).is_some() {
                self.add_pending(now, channel.index() as u32);
            }
        } else {
            context.want_writable(channel, false);
            self.on_ready(now, channel, context);
        }
    }

    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        if self.is_deployed() {
            self.on_writable(now, channel, context)
        } else {
            self.on_ready(now, channel, context)
        }
    }

    fn on_timer(&mut self, _now: Instant, _host: &mut dyn SchedulerContext) {
        unreachable!("the test calls `fire`");
    }

    fn on_close(&mut self, channel: ChannelKey) {
        self.pending.retain(|other| *other != channel.index() as u32);
        self.held.remove(&(channel.index() as u32));
        self.turns.remove(&(channel.index() as u32));
        if self.pending.is_empty() {
            self.due = None;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}
