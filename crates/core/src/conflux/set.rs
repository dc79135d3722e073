use super::{DesiredUx, Link, MAX_LEGS, Nonce};
use crate::error::Violation;
use penstock_units::{Duration, Instant};
use std::collections::BTreeMap;

/// Decides which leg sends the next cell.
///
/// Source: C tor `conflux_alg_t`, `conflux_decide_next_circ()`. C tor never selects its third algorithm, CWNDRTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Only the leg with the lowest round-trip time sends. If it may not send now, no leg sends.
    ///
    /// Source: C tor `conflux_decide_circ_minrtt()`.
    #[default]
    MinRtt,
    /// Of all legs that may send now, the one with the lowest round-trip time sends.
    ///
    /// Source: C tor `conflux_decide_circ_lowrtt()`.
    LowRtt,
}

/// Linked circuits with the keys `K`, and messages `T` that wait for earlier ones, at one end of the circuits.
///
/// The cells of the set's streams have the numbers 1, 2, … A cell does not contain its number: each end counts the
/// cells of a leg. Before the first cell on another leg, the sender sends SWITCH with the number of cells that this leg
/// skips.
///
/// Source: proposal 329 §2; C tor `conflux_t`.
#[derive(Debug)]
pub struct ConfluxSet<K, T> {
    nonce: Nonce,
    /// The legs in the order in which they joined.
    legs: Vec<Leg<K>>,
    /// The number of legs that must be linked before the set is complete [1].
    needed: usize,
    complete: bool,
    algorithm: Algorithm,
    /// The leg that sent last.
    current: Option<K>,
    /// The number of the last cell that was delivered in order.
    delivered: u64,
    waiting: BTreeMap<u64, T>,
}

#[derive(Debug)]
struct Leg<K> {
    key: K,
    /// When this end sent LINK or LINKED. `None` as soon as the other end has answered.
    asked: Option<Instant>,
    rtt: Option<Duration>,
    /// The number of the last cell that this end sent on the leg, including skipped cells.
    last_sent: u64,
    last_received: u64,
}

/// Whether the other legs of a set continue after one leg has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The other legs continue without the closed one.
    Continues,
    /// The other legs must close, because cells may be lost.
    MustClose,
}

impl<K: Copy + PartialEq, T> ConfluxSet<K, T> {
    /// A set without legs that is complete as soon as `needed` legs are linked [1]. An exit does not know the number of
    /// legs, so its set needs one leg.
    pub fn new(nonce: Nonce, needed: usize) -> Self {
        ConfluxSet {
            nonce,
            legs: Vec::with_capacity(needed.clamp(2, MAX_LEGS)),
            needed,
            complete: false,
            algorithm: Algorithm::default(),
            current: None,
            delivered: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// The nonce of all legs.
    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    /// Whether the set has been complete. Only then its streams may use it.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The legs in the order in which they joined.
    pub fn legs(&self) -> impl Iterator<Item = K> {
        self.legs.iter().map(|leg| leg.key)
    }

    /// The first leg, whose circuit owns the streams of the set.
    pub fn first(&self) -> Option<K> {
        self.legs.first().map(|leg| leg.key)
    }

    /// Whether the other end has not answered the LINK or LINKED of this leg.
    pub fn awaits_answer(&self, key: K) -> bool {
        self.legs.iter().any(|leg| leg.key == key && leg.asked.is_some())
    }

    /// How many messages wait for earlier ones [1].
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn leg_mut(&mut self, key: K) -> Option<&mut Leg<K>> {
        self.legs.iter_mut().find(|leg| leg.key == key)
    }

    fn max_sent(&self) -> u64 {
        self.legs.iter().map(|leg| leg.last_sent).max().unwrap_or(0)
    }

    fn add(&mut self, key: K, now: Instant) -> Result<&mut Leg<K>, Violation> {
        if self.legs.len() >= MAX_LEGS {
            return Err(Violation::UnexpectedLink);
        }
        self.legs.push(Leg { key, asked: Some(now), rtt: None, last_sent: 0, last_received: 0 });
        Ok(self.legs.last_mut().expect("a leg was just added"))
    }
}

/// The handshake that links a leg.
impl<K: Copy + PartialEq, T> ConfluxSet<K, T> {
    /// Client: adds a leg on which LINK leaves now. Returns the content of LINK. A complete set, or one with enough
    /// legs, accepts no further leg and returns `None`.
    ///
    /// Source: C tor `conflux_launch_leg()`, `conflux_circuit_has_opened()`.
    pub fn start_link(&mut self, key: K, now: Instant, desired_ux: DesiredUx) -> Option<Link> {
        if self.complete || self.legs.len() >= self.needed {
            return None;
        }
        self.add(key, now).ok()?;
        Some(Link { nonce: self.nonce, last_sent: 0, last_received: 0, desired_ux })
    }

    /// Exit: LINK arrived on a circuit. Returns the content of LINKED, which leaves now.
    ///
    /// Source: C tor `conflux_process_link()`, `try_finalize_set()`, `validate_unlinked_legs()`, `cfx_add_leg()`.
    /// Deviation: a leg that claims cells that were never sent is a violation.
    pub fn on_link(&mut self, key: K, now: Instant, link: &Link) -> Result<Link, Violation> {
        let (last_sent, last_received) = (self.max_sent(), self.delivered);
        self.check(link)?;
        let leg = self.add(key, now)?;
        (leg.last_sent, leg.last_received) = (link.last_received, link.last_sent);
        self.algorithm = link.desired_ux.algorithm();
        self.complete = true;
        Ok(Link { nonce: self.nonce, last_sent, last_received, desired_ux: DesiredUx::MinLatency })
    }

    /// Client: LINKED arrived on a leg. Returns whether the set has just become complete.
    ///
    /// Source: C tor `conflux_process_linked()`, `try_finalize_set()`.
    pub fn on_linked(&mut self, key: K, now: Instant, link: &Link) -> Result<bool, Violation> {
        if link.nonce != self.nonce {
            return Err(Violation::UnexpectedLink);
        }
        self.check(link)?;
        let leg = self.leg_mut(key).ok_or(Violation::UnexpectedLink)?;
        let asked = leg.asked.take().ok_or(Violation::UnexpectedLink)?;
        leg.rtt = Some(now - asked);
        (leg.last_sent, leg.last_received) = (link.last_received, link.last_sent);
        self.algorithm = link.desired_ux.algorithm();
        let linked = self.legs.iter().filter(|leg| leg.asked.is_none()).count();
        let completes = !self.complete && linked >= self.needed;
        self.complete |= completes;
        Ok(completes)
    }

    /// Exit: LINKED_ACK arrived on a leg.
    ///
    /// Source: C tor `conflux_process_linked_ack()`, `record_rtt_exit()`. Deviation: a second LINKED_ACK is a violation.
    pub fn on_linked_ack(&mut self, key: K, now: Instant) -> Result<(), Violation> {
        let leg = self.leg_mut(key).ok_or(Violation::UnexpectedLink)?;
        let asked = leg.asked.take().ok_or(Violation::UnexpectedLink)?;
        // The leg has sent no DATA cell yet, so no SENDME has given a round-trip time.
        leg.rtt = Some(now - asked);
        Ok(())
    }

    /// Checks that the other end has delivered no cell that this end never sent, and that no cell is lost.
    fn check(&self, link: &Link) -> Result<(), Violation> {
        if link.last_sent > self.delivered || link.last_received > self.max_sent() {
            return Err(Violation::UnexpectedLink);
        }
        Ok(())
    }
}

/// Sending.
impl<K: Copy + PartialEq, T> ConfluxSet<K, T> {
    /// A SENDME gave this smoothed round-trip time of a leg. Source: C tor `conflux_update_rtt()`.
    pub fn set_rtt(&mut self, key: K, rtt: Duration) {
        if let Some(leg) = self.leg_mut(key) {
            leg.rtt = Some(rtt);
        }
    }

    /// The leg that sends the next DATA cell; `None` if none may send. `is_ready`: the leg's window and queue have
    /// space. A leg without a round-trip time does not send.
    pub fn next_leg(&self, is_ready: impl Fn(K) -> bool) -> Option<K> {
        match self.algorithm {
            Algorithm::MinRtt => self.fastest(|_| true).filter(|key| is_ready(*key)),
            Algorithm::LowRtt => self.fastest(is_ready),
        }
    }

    /// The leg with the lowest round-trip time among those that `may`. A leg without a round-trip time is left out.
    fn fastest(&self, may: impl Fn(K) -> bool) -> Option<K> {
        let measured = self.legs.iter().filter_map(|leg| Some((leg.rtt?, leg.key)));
        measured.filter(|(_, key)| may(*key)).min_by_key(|(rtt, _)| *rtt).map(|(_, key)| key)
    }

    /// The leg that sent last. Before the first cell, the leg with the lowest round-trip time.
    ///
    /// Source: C tor `conflux_pick_first_leg()`.
    pub fn current(&self) -> Option<K> {
        self.current.or_else(|| self.fastest(|_| true)).or(self.first())
    }

    /// Makes a leg the current one. Returns the number for a SWITCH that must leave on this leg now [cell]. Call again
    /// until `None`.
    ///
    /// Source: C tor `conflux_decide_circ_for_send()`.
    pub fn switch_to(&mut self, key: K) -> Option<u32> {
        let current = self.current()?;
        if current == key {
            self.current = Some(key);
            return None;
        }
        let sent = self.max_sent();
        let leg = self.leg_mut(key)?;
        let relative = u32::try_from(sent - leg.last_sent).unwrap_or(u32::MAX);
        leg.last_sent += u64::from(relative);
        self.current = Some(if leg.last_sent == sent { key } else { current });
        Some(relative)
    }

    /// A numbered cell leaves on the current leg. Source: C tor `conflux_note_cell_sent()`.
    pub fn on_sent(&mut self, key: K) {
        if let Some(leg) = self.leg_mut(key) {
            leg.last_sent += 1;
        }
    }
}

/// Receiving.
impl<K: Copy + PartialEq, T> ConfluxSet<K, T> {
    /// SWITCH arrived on a leg. Source: C tor `conflux_process_switch_command()`.
    pub fn on_switch(&mut self, key: K, relative: u32) -> Result<(), Violation> {
        let leg = self.leg_mut(key).ok_or(Violation::BadSequence)?;
        leg.last_received = leg.last_received.checked_add(relative.into()).ok_or(Violation::BadSequence)?;
        Ok(())
    }

    /// A numbered message arrived on a leg. Returns it if it is next. If it is not, it waits for earlier messages. At
    /// most `max` messages may wait. After a message, the caller takes further ones with
    /// [`next_due`](Self::next_due), now or later.
    ///
    /// Source: C tor `conflux_process_relay_msg()`, which limits the bytes of waiting messages (`cfx_max_oooq_bytes`).
    /// Deviation: the limit counts messages, the number of a waiting message may not repeat, and a missing message that
    /// no leg can bring any more is a violation.
    pub fn receive(&mut self, key: K, message: T, max: usize) -> Result<Option<T>, Violation> {
        let (delivered, is_due) = (self.delivered, self.is_due());
        let leg = self.leg_mut(key).ok_or(Violation::BadSequence)?;
        let number = leg.last_received.checked_add(1).ok_or(Violation::BadSequence)?;
        leg.last_received = number;
        if number == delivered + 1 && !is_due {
            self.delivered = number;
            return Ok(Some(message));
        }
        if self.waiting.len() >= max {
            return Err(Violation::BufferExceeded);
        }
        // A message with an error does not join the queue, because the caller does not count it.
        let is_lost = !is_due && self.has_passed();
        if number <= delivered || is_lost || self.waiting.contains_key(&number) {
            return Err(Violation::BadSequence);
        }
        self.waiting.insert(number, message);
        Ok(None)
    }

    /// Whether the next message in order waits to be taken.
    pub fn is_due(&self) -> bool {
        self.waiting.first_key_value().is_some_and(|(number, _)| *number == self.delivered + 1)
    }

    /// Whether all legs have passed the number of the next message.
    fn has_passed(&self) -> bool {
        self.legs.iter().all(|leg| leg.last_received > self.delivered)
    }

    /// Whether messages wait for one that cannot arrive any more. While [`is_due`](Self::is_due) is true, this is not
    /// known.
    pub fn has_lost(&self) -> bool {
        !self.waiting.is_empty() && !self.is_due() && self.has_passed()
    }

    /// Takes the next message in order, if it has arrived. Source: C tor `conflux_dequeue_relay_msg()`.
    pub fn next_due(&mut self) -> Option<T> {
        let first = self.waiting.first_entry().filter(|first| *first.key() == self.delivered + 1)?;
        self.delivered += 1;
        Some(first.remove())
    }
}

impl<K: Copy + PartialEq, T> ConfluxSet<K, T> {
    /// Removes a leg that closes. `in_flight`: cells that a SENDME would acknowledge are outstanding on the leg.
    ///
    /// Source: C tor `cfx_del_leg()`, `linked_circuit_closed()`.
    /// Deviation: the other legs also close if a message is missing that only this leg could bring. In C tor, the
    /// streams wait forever.
    pub fn remove(&mut self, key: K, in_flight: bool) -> Removed {
        let Some(place) = self.legs.iter().position(|leg| leg.key == key) else { return Removed::Continues };
        let leg = self.legs.remove(place);
        let was_current = self.current.is_some_and(|current| current == key);
        self.current = self.current.filter(|_| !was_current);
        let max_received = self.legs.iter().map(|leg| leg.last_received).max().unwrap_or(0);
        let lost = self.max_sent() < leg.last_sent || max_received < leg.last_received || self.has_lost();
        if self.complete && !self.legs.is_empty() && (in_flight || was_current || lost) {
            Removed::MustClose
        } else {
            Removed::Continues
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const NONCE: Nonce = Nonce([7; 32]);

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    type Set = ConfluxSet<usize, u64>;

    /// The two ends of a set with linked legs that have these round-trip times [ms].
    fn linked(ux: DesiredUx, rtts: &[u64]) -> (Set, Set) {
        let (mut client, mut exit) = (Set::new(NONCE, rtts.len()), Set::new(NONCE, 1));
        for (key, rtt) in rtts.iter().enumerate() {
            let link = client.start_link(key, ms(0), ux).unwrap();
            let linked = exit.on_link(key, ms(rtt / 2), &link).unwrap();
            let completes = client.on_linked(key, ms(*rtt), &linked).unwrap();
            assert_eq!(completes, key + 1 == rtts.len());
            exit.on_linked_ack(key, ms(rtt / 2 + rtt)).unwrap();
        }
        (client, exit)
    }

    #[test]
    fn min_rtt_uses_only_the_fastest_leg() {
        let (client, exit) = linked(DesiredUx::HighThroughput, &[30, 20]);
        // The exit wishes low delay from the client.
        assert_eq!(client.next_leg(|_| true), Some(1));
        assert_eq!(client.next_leg(|leg| leg == 0), None);
        // The client wishes high throughput from the exit.
        assert_eq!(exit.next_leg(|_| true), Some(1));
        assert_eq!(exit.next_leg(|leg| leg == 0), Some(0));
        assert_eq!(exit.next_leg(|_| false), None);
    }

    #[test]
    fn every_wish_has_c_tors_algorithm() {
        let algorithms = DesiredUx::ALL.map(DesiredUx::algorithm);
        use Algorithm::{LowRtt, MinRtt};
        assert_eq!(algorithms, [LowRtt, MinRtt, MinRtt, LowRtt, MinRtt]);
    }

    #[test]
    fn a_sendme_changes_the_choice() {
        let (_, mut exit) = linked(DesiredUx::HighThroughput, &[30, 20]);
        exit.set_rtt(1, Duration::from_millis(31));
        assert_eq!(exit.next_leg(|_| true), Some(0));
    }

    #[test]
    fn an_exit_does_not_use_a_leg_before_its_round_trip_is_known() {
        let mut exit = Set::new(NONCE, 1);
        let link =
            Link { nonce: NONCE, last_sent: 0, last_received: 0, desired_ux: DesiredUx::HighThroughput };
        exit.on_link(4, ms(0), &link).unwrap();
        assert!(exit.is_complete());
        assert_eq!((exit.next_leg(|_| true), exit.current()), (None, Some(4)));
        exit.on_linked_ack(4, ms(9)).unwrap();
        assert_eq!(exit.next_leg(|_| true), Some(4));
        assert_eq!(exit.on_linked_ack(4, ms(10)), Err(Violation::UnexpectedLink));
    }

    #[test]
    fn the_handshake_rejects_another_nonce_and_impossible_numbers() {
        let mut client = Set::new(NONCE, 2);
        let link = client.start_link(0, ms(0), DesiredUx::HighThroughput).unwrap();
        for wrong in [
            Link { nonce: Nonce([8; 32]), ..link },
            Link { last_sent: 1, ..link },
            Link { last_received: 1, ..link },
        ] {
            assert_eq!(client.on_linked(0, ms(1), &wrong), Err(Violation::UnexpectedLink), "{wrong:?}");
        }
        assert_eq!(client.on_linked(0, ms(1), &link), Ok(false));
        assert_eq!(client.on_linked(0, ms(1), &link), Err(Violation::UnexpectedLink), "a second LINKED");
        assert_eq!(client.on_linked(5, ms(1), &link), Err(Violation::UnexpectedLink), "an unknown leg");
        let mut exit = Set::new(NONCE, 1);
        for leg in 0..MAX_LEGS {
            exit.on_link(leg, ms(0), &link).unwrap();
        }
        assert_eq!(exit.on_link(MAX_LEGS, ms(0), &link), Err(Violation::UnexpectedLink));
    }

    #[test]
    fn a_complete_set_gets_no_further_leg() {
        let (mut client, _) = linked(DesiredUx::HighThroughput, &[1, 2]);
        assert_eq!(client.start_link(2, ms(0), DesiredUx::NoOpinion), None);
    }

    #[test]
    fn a_repeated_or_old_number_is_a_violation() {
        let (_, mut exit) = linked(DesiredUx::HighThroughput, &[1, 2]);
        assert_eq!(exit.receive(0, 1, 9), Ok(Some(1)));
        assert_eq!(exit.receive(1, 1, 9), Err(Violation::BadSequence), "leg 1 did not skip cell 1");
        exit.on_switch(0, 5).unwrap();
        assert_eq!(exit.receive(0, 7, 9), Ok(None));
        exit.on_switch(1, 5).unwrap();
        assert_eq!(exit.receive(1, 7, 9), Err(Violation::BadSequence), "cell 7 waits already");
        assert_eq!(exit.waiting(), 1);
        exit.on_switch(1, u32::MAX).unwrap();
        assert_eq!(exit.receive(1, 8, 1), Err(Violation::BufferExceeded));
    }

    #[test]
    fn a_lost_cell_ends_the_set() {
        // The client sends cell 1 on leg 0, cell 2 on leg 1, cell 3 on leg 0 and cell 4 on leg 1.
        let begun = || {
            let (_, mut exit) = linked(DesiredUx::HighThroughput, &[1, 2]);
            assert_eq!(exit.receive(0, 1, 9), Ok(Some(1)));
            exit.on_switch(1, 1).unwrap();
            assert_eq!(exit.receive(1, 2, 9), Ok(Some(2)));
            exit
        };
        let mut late = begun();
        late.on_switch(1, 1).unwrap();
        assert_eq!(late.receive(1, 4, 9), Ok(None), "cell 3 may still arrive on leg 0");
        assert_eq!(late.remove(0, false), Removed::MustClose);
        let mut early = begun();
        assert_eq!(early.remove(0, false), Removed::Continues, "no cell is known to be missing");
        early.on_switch(1, 1).unwrap();
        assert_eq!(early.receive(1, 4, 9), Err(Violation::BadSequence));
        assert_eq!(early.waiting(), 0);
        let mut none = begun();
        assert_eq!(none.remove(0, false), Removed::Continues);
        assert_eq!(none.receive(1, 3, 9), Ok(Some(3)), "no cell was lost");
    }

    #[test]
    fn messages_may_be_taken_later() {
        let (_, mut exit) = linked(DesiredUx::HighThroughput, &[1, 2]);
        exit.on_switch(0, 1).unwrap();
        for number in 2..5 {
            assert_eq!(exit.receive(0, number, 9), Ok(None));
        }
        assert_eq!((exit.receive(1, 1, 9), exit.is_due()), (Ok(Some(1)), true));
        // Before messages 2 to 4 are taken, leg 1 skips them. No message is lost.
        exit.on_switch(1, 3).unwrap();
        assert_eq!((exit.receive(1, 5, 9), exit.has_lost()), (Ok(None), false));
        assert_eq!(exit.receive(0, 5, 9), Err(Violation::BadSequence), "message 5 waits already");
        // Both legs skip message 6.
        exit.on_switch(0, 1).unwrap();
        exit.on_switch(1, 2).unwrap();
        assert_eq!(exit.receive(0, 7, 9), Ok(None));
        assert_eq!(std::iter::from_fn(|| exit.next_due()).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert!(exit.has_lost());
    }

    #[test]
    fn numbers_do_not_overflow() {
        let (mut client, mut exit) = linked(DesiredUx::HighThroughput, &[1, 2]);
        exit.legs[0].last_received = u64::MAX - 1;
        assert_eq!(exit.on_switch(0, 2), Err(Violation::BadSequence));
        exit.on_switch(0, 1).unwrap();
        assert_eq!(exit.receive(0, 0, 9), Err(Violation::BadSequence));
        assert_eq!(client.switch_to(0), None);
        client.legs[0].last_sent = 3 + (1 << 33);
        let switches: Vec<u32> = std::iter::from_fn(|| client.switch_to(1)).collect();
        assert_eq!(switches.iter().map(|switch| u64::from(*switch)).sum::<u64>(), 3 + (1 << 33));
    }

    #[test]
    fn an_unused_leg_may_close_alone() {
        let used = |sent: bool, in_flight: bool, closing: usize| {
            let (mut client, _) = linked(DesiredUx::HighThroughput, &[1, 2]);
            if sent {
                assert_eq!(client.switch_to(0), None);
                client.on_sent(0);
            }
            let removed = client.remove(closing, in_flight);
            (removed, client.legs().collect::<Vec<_>>())
        };
        assert_eq!(used(true, false, 1), (Removed::Continues, vec![0]));
        assert_eq!(used(false, false, 0), (Removed::Continues, vec![1]));
        assert_eq!(used(true, false, 0), (Removed::MustClose, vec![1]));
        assert_eq!(used(true, true, 1), (Removed::MustClose, vec![0]));
        let (_, mut exit) = linked(DesiredUx::HighThroughput, &[1, 2]);
        exit.receive(1, 1, 9).unwrap();
        assert_eq!(exit.remove(1, false), Removed::MustClose, "the client uses this leg");
        assert_eq!(exit.remove(0, true), Removed::Continues, "no leg is left");
    }

    proptest! {
        /// The legs deliver their cells in order, but at any time relative to each other.
        #[test]
        fn any_order_of_arrival_gives_the_sent_order(
            choices in prop::collection::vec(0usize..3, 1..200),
            mut arrivals in prop::collection::vec(0usize..3, 0..400),
        ) {
            enum Sent { Switch(u32), Cell(u64) }
            let (mut client, mut exit) = linked(DesiredUx::HighThroughput, &[10, 20, 30]);
            let mut wires: [VecDeque<Sent>; 3] = Default::default();
            for (leg, number) in choices.iter().zip(0..) {
                while let Some(relative) = client.switch_to(*leg) {
                    wires[*leg].push_back(Sent::Switch(relative));
                }
                client.on_sent(*leg);
                wires[*leg].push_back(Sent::Cell(number));
            }
            // Afterwards all other cells arrive, too.
            for leg in 0..3 {
                arrivals.extend(std::iter::repeat_n(leg, 2 * choices.len()));
            }
            let mut received = Vec::new();
            for leg in arrivals {
                match wires[leg].pop_front() {
                    Some(Sent::Switch(relative)) => exit.on_switch(leg, relative).unwrap(),
                    Some(Sent::Cell(number)) => {
                        if let Some(number) = exit.receive(leg, number, choices.len()).unwrap() {
                            received.push(number);
                            received.extend(std::iter::from_fn(|| exit.next_due()));
                        }
                    }
                    None => {}
                }
            }
            prop_assert_eq!(received, (0..choices.len() as u64).collect::<Vec<_>>());
            prop_assert_eq!(exit.waiting(), 0);
        }

        /// A hostile peer sends anything: the queue stays bounded, and no message is delivered twice.
        #[test]
        fn a_hostile_peer_cannot_exceed_the_limit(
            steps in prop::collection::vec((0usize..4, any::<bool>(), 0u32..6), 1..300),
        ) {
            let (_, mut exit) = linked(DesiredUx::HighThroughput, &[10, 20]);
            let mut delivered = 0;
            for ((leg, switches, relative), number) in steps.into_iter().zip(0..) {
                if switches {
                    let _ = exit.on_switch(leg, relative);
                    continue;
                }
                let Ok(due) = exit.receive(leg, number, 10) else { continue };
                delivered += u64::from(due.is_some());
                if due.is_some() {
                    delivered += std::iter::from_fn(|| exit.next_due()).count() as u64;
                }
                prop_assert!(exit.waiting() <= 10);
                prop_assert_eq!(delivered, exit.delivered);
            }
        }
    }
}
