use crate::keys::ChannelKey;
use penstock_units::{Duration, Instant};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Timers {
    refill: Option<Instant>,
    /// The time at which the relay handles further messages of linked circuits.
    release: Option<Instant>,
    hop_tick: Option<Instant>,
    idle: BTreeSet<(Instant, ChannelKey)>,
    retransmit: BTreeSet<(Instant, ChannelKey)>,
    /// Times when a channel's single message must leave, in their order. Messages of channels with short round trips
    /// wait less than others. An entry is outdated if it differs from the channel's own [`ChannelTimers::coalesce`].
    coalesce: VecDeque<(Instant, ChannelKey)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChannelTimers {
    idle: Option<Instant>,
    retransmit: Option<Instant>,
    coalesce: Option<Instant>,
}

impl Timers {
    pub(super) fn next(&self) -> Option<Instant> {
        let idle = self.idle.first().map(|(at, _)| *at);
        let retransmit = self.retransmit.first().map(|(at, _)| *at);
        let coalesce = self.coalesce.front().map(|(at, _)| *at);
        [self.refill, self.release, self.hop_tick, idle, retransmit, coalesce].into_iter().flatten().min()
    }

    pub(super) fn set_refill(&mut self, at: Instant) {
        self.refill.get_or_insert(at);
    }

    /// Returns whether the refill timer has expired, and clears an expired timer.
    pub(super) fn take_refill(&mut self, now: Instant) -> bool {
        self.refill.take_if(|due| *due <= now).is_some()
    }

    pub(super) fn set_release(&mut self, at: Instant) {
        self.release.get_or_insert(at);
    }

    pub(super) fn take_release(&mut self, now: Instant) -> bool {
        self.release.take_if(|due| *due <= now).is_some()
    }

    pub(super) fn set_hop_tick(&mut self, now: Instant, period: Duration) {
        self.hop_tick.get_or_insert(now + period);
    }

    pub(super) fn take_hop_tick(&mut self, now: Instant) -> bool {
        self.hop_tick.take_if(|due| *due <= now).is_some()
    }

    pub(super) fn set_idle(&mut self, channel: ChannelKey, own: &mut ChannelTimers, at: Instant) {
        if own.idle.is_none() {
            own.idle = Some(at);
            self.idle.insert((at, channel));
        }
    }

    pub(super) fn clear_idle(&mut self, channel: ChannelKey, own: &mut ChannelTimers) {
        if let Some(at) = own.idle.take() {
            self.idle.remove(&(at, channel));
        }
    }

    pub(super) fn expired_idle(&self, now: Instant) -> Option<ChannelKey> {
        self.idle.first().filter(|(at, _)| *at <= now).map(|(_, channel)| *channel)
    }

    pub(super) fn set_retransmit(
        &mut self,
        channel: ChannelKey,
        own: &mut ChannelTimers,
        at: Option<Instant>,
    ) {
        let before = std::mem::replace(&mut own.retransmit, at);
        before.map(|before| self.retransmit.remove(&(before, channel)));
        at.map(|at| self.retransmit.insert((at, channel)));
    }

    /// Sets the retransmission timer to `at` if this is earlier. A later time is set only when the timer expires,
    /// because most timers are no longer needed then.
    pub(super) fn advance_retransmit(
        &mut self,
        channel: ChannelKey,
        own: &mut ChannelTimers,
        at: Option<Instant>,
    ) {
        if at.is_some_and(|at| own.retransmit.is_none_or(|set| at < set)) {
            self.set_retransmit(channel, own, at);
        }
    }

    pub(super) fn set_coalesce(&mut self, channel: ChannelKey, own: &mut ChannelTimers, at: Option<Instant>) {
        if at != std::mem::replace(&mut own.coalesce, at)
            && let Some(at) = at
        {
            let place = self.coalesce.partition_point(|(due, _)| *due <= at);
            self.coalesce.insert(place, (at, channel));
        }
    }

    /// Removes outdated coalescing timers at the front. `timers` returns the timers of a channel.
    pub(super) fn drop_stale_coalesce(&mut self, timers: impl Fn(ChannelKey) -> Option<ChannelTimers>) {
        while let Some((at, channel)) = self.coalesce.front()
            && timers(*channel).is_none_or(|own| own.coalesce != Some(*at))
        {
            self.coalesce.pop_front();
        }
    }

    /// The first channel whose retransmission timer has expired, and the time for which the timer was set.
    pub(super) fn expired_retransmit(&self, now: Instant) -> Option<(Instant, ChannelKey)> {
        self.retransmit.first().copied().filter(|(at, _)| *at <= now)
    }

    pub(super) fn take_coalesce(&mut self, now: Instant, fired: &mut Vec<(Instant, ChannelKey)>) {
        while let Some(entry) = self.coalesce.front().copied().filter(|(at, _)| *at <= now) {
            self.coalesce.pop_front();
            fired.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_waits_shorter_is_due_first() {
        let (mut timers, mut own) = (Timers::default(), [ChannelTimers::default(); 3]);
        for (index, (at, own)) in (0..).zip([1000, 50, 400].into_iter().zip(&mut own)) {
            timers.set_coalesce(ChannelKey::first(index), own, Some(Instant::from_nanos(at)));
        }
        assert_eq!(timers.next(), Some(Instant::from_nanos(50)));
        let mut fired = Vec::new();
        timers.take_coalesce(Instant::from_nanos(400), &mut fired);
        let due: Vec<u64> = fired.iter().map(|(at, _)| at.as_nanos()).collect();
        assert_eq!(due, [50, 400]);
        assert_eq!(timers.next(), Some(Instant::from_nanos(1000)));
    }
}
