use super::by_channel::ByChannel;
use crate::circuit_policy::Priority;
use crate::keys::ChannelKey;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Channels that may take cells in the current run, ordered by the priority of their best circuits.
///
/// Within a run, only the priority of the first entry changes, so a binary heap is enough. If priorities are equal, the
/// least recently served channel comes first, so these channels take turns (round robin). Among channels that were
/// never served, the lower key comes first.
///
/// Source: KIST §5.2 (`scheduleCell`); C tor `scheduler_compare_channels()`. Deviation: C tor breaks ties by address.
#[derive(Debug, Default)]
pub(super) struct Eligible {
    heap: BinaryHeap<Candidate>,
    served: u64,
    turns: ByChannel<u64>,
}

#[derive(Debug)]
struct Candidate {
    priority: Priority,
    /// The sequence number of the channel's last service; 0 means never.
    turn: u64,
    channel: ChannelKey,
}

impl Eligible {
    pub(super) fn enter(&mut self, channel: ChannelKey, priority: Priority) {
        let turn = *self.turns.at(channel);
        self.heap.push(Candidate { priority, turn, channel });
    }

    pub(super) fn best(&self) -> Option<ChannelKey> {
        self.heap.peek().map(|candidate| candidate.channel)
    }

    pub(super) fn served(&mut self, priority: Option<Priority>) {
        let Some(mut best) = self.heap.peek_mut() else { return };
        self.served += 1;
        *self.turns.at(best.channel) = self.served;
        match priority {
            Some(priority) => (best.priority, best.turn) = (priority, self.served),
            None => drop(PeekMut::pop(best)),
        }
    }

    pub(super) fn dismiss(&mut self) {
        self.heap.pop();
    }

    pub(super) fn forget(&mut self, channel: ChannelKey) {
        self.turns.forget(channel);
    }
}

/// The heap returns the greatest candidate first, so a better channel compares as greater.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let priority = other.priority.0.total_cmp(&self.priority.0);
        priority.then(other.turn.cmp(&self.turn)).then(other.channel.cmp(&self.channel))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_priority_value_is_served_first_and_equal_ones_take_turns() {
        let mut eligible = Eligible::default();
        for (channel, priority) in [(4, 1.0), (2, 1.0), (9, 0.5)] {
            eligible.enter(ChannelKey::first(channel), Priority(priority));
        }
        let mut served = Vec::new();
        for priority in [Some(1.0), Some(1.0), Some(1.0), None, None, None] {
            served.push(eligible.best().unwrap().index());
            eligible.served(priority.map(Priority));
        }
        assert_eq!(served, [9, 2, 4, 9, 2, 4]);
        assert_eq!(eligible.best(), None);
    }

    #[test]
    fn the_order_of_turns_continues_in_the_next_run() {
        let mut eligible = Eligible::default();
        for best in [1, 2, 1] {
            eligible.enter(ChannelKey::first(1), Priority(0.0));
            eligible.enter(ChannelKey::first(2), Priority(0.0));
            assert_eq!(eligible.best(), Some(ChannelKey::first(best)));
            eligible.served(None);
            eligible.dismiss();
        }
    }
}
