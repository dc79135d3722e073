use super::by_channel::ByChannel;
use crate::keys::ChannelKey;
use penstock_units::Instant;

/// Channels that wait for the next run, in the order in which they began to wait, and the timer of the run.
/// Source: KIST algorithm 1. Deviation: none.
#[derive(Debug, Default)]
pub(super) struct Pending {
    order: Vec<ChannelKey>,
    waits: ByChannel<bool>,
    due: Option<Instant>,
}

impl Pending {
    pub(super) fn add(&mut self, channel: ChannelKey, at: Instant) {
        if !std::mem::replace(self.waits.at(channel), true) {
            self.order.push(channel);
            self.due.get_or_insert(at);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn take(&mut self, into: &mut Vec<ChannelKey>) {
        std::mem::swap(&mut self.order, into);
        for channel in &*into {
            *self.waits.at(*channel) = false;
        }
        self.due = None;
    }

    pub(super) fn forget(&mut self, channel: ChannelKey) {
        if std::mem::take(self.waits.at(channel)) {
            self.order.retain(|other| *other != channel);
            if self.order.is_empty() {
                self.due = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_pending_once_and_the_first_one_sets_the_timer() {
        let mut pending = Pending::default();
        for (channel, at) in [(3, 10), (1, 11), (3, 12)] {
            pending.add(ChannelKey::first(channel), Instant::from_millis(at));
        }
        assert_eq!(pending.due(), Some(Instant::from_millis(10)));
        let mut run = Vec::new();
        pending.take(&mut run);
        assert_eq!((run, pending.due()), (vec![ChannelKey::first(3), ChannelKey::first(1)], None));
    }

    #[test]
    fn removing_the_last_channel_disarms_the_timer() {
        let mut pending = Pending::default();
        pending.add(ChannelKey::first(1), Instant::from_millis(10));
        pending.add(ChannelKey::first(2), Instant::from_millis(10));
        pending.forget(ChannelKey::first(1));
        pending.forget(ChannelKey::first(7));
        assert!(pending.due().is_some());
        pending.forget(ChannelKey::first(2));
        assert_eq!(pending.due(), None);
        pending.add(ChannelKey::first(2), Instant::from_millis(30));
        assert_eq!(pending.due(), Some(Instant::from_millis(30)), "the key may be added again");
    }
}
