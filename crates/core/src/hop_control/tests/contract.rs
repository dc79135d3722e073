//! One property test for all implementations of [`HopControl`]. It checks the contract of the trait with any
//! neighbours.
//!
//! Three nodes form a row, each with or without the control. Cells and feedback arrive in order,
//! and no node stalls. A model counts the cells of each hop.

use crate::hop_control::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A step of the test, at one of the three nodes or one of the two hops.
#[derive(Clone, Debug)]
enum Operation {
    /// The node makes cells. The first node makes at most the cells that its edge may queue.
    Make(usize, u64),
    /// Cells leave the node's queue. At the last node they are delivered.
    Send(usize, usize),
    /// Cells arrive over the hop.
    Arrive(usize, usize),
    /// Feedback arrives over the hop.
    Feedback(usize, usize),
    /// Feedback that has already arrived arrives a second time.
    Repeat(usize, usize),
    /// Feedback with this change of the count and this allowance, which the next node never sent.
    Forge(usize, u32, u32),
    /// A tick at a node. The node's channel has this delay [ms], and forwarded this many cells of other circuits.
    Tick(usize, u64, u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => (0usize..2, 1u64..200).prop_map(|(node, cells)| Operation::Make(node, cells)),
        4 => (0usize..3, 1usize..200).prop_map(|(node, cells)| Operation::Send(node, cells)),
        4 => (0usize..2, 1usize..200).prop_map(|(hop, cells)| Operation::Arrive(hop, cells)),
        4 => (0usize..2, 1usize..20).prop_map(|(hop, many)| Operation::Feedback(hop, many)),
        1 => (0usize..2, 0usize..20).prop_map(|(hop, which)| Operation::Repeat(hop, which)),
        1 => (0usize..2, any::<u32>(), 0u32..2000)
            .prop_map(|(hop, ahead, allowance)| Operation::Forge(hop, ahead, allowance)),
        2 => (0usize..3, 0u64..200, 0u64..100)
            .prop_map(|(node, delay, others)| Operation::Tick(node, delay, others)),
    ]
}

/// The true state of the cells and credits of one hop.
#[derive(Debug, Default)]
struct Hop {
    /// The offer that its two nodes agreed on.
    agreed: Option<HopOffer>,
    cells: VecDeque<()>,
    feedback: VecDeque<Feedback>,
    delivered_feedback: Vec<Feedback>,
    sent: u64,
    arrived: u64,
    /// The number of arrived cells that the next node forwarded or delivered.
    passed_on: u64,
    /// The newest credit that arrived: its count and its allowance.
    known: (u64, u64),
    /// The allowance at the time when the last cell was sent.
    allowance: u64,
    /// The count in the last credit that was sent.
    reported: u64,
}

struct World {
    /// Whether N3 is constant.
    constant: bool,
    counted: u64,
    controls: [AnyHopControl; 3],
    hops: [Hop; 2],
    queues: [VecDeque<Source>; 3],
    moved: [u64; 3],
    made: u64,
    delivered: u64,
}

const T: Instant = Instant::ZERO;

impl World {
    /// `supports` selects the nodes with `config`. All counts begin at `counted`.
    fn new(config: &HopControlConfig, supports: [bool; 3], counted: u64) -> World {
        let own = supports.map(|supports| if supports { config.clone() } else { HopControlConfig::None });
        let controls = own.each_ref().map(|own| match own {
            HopControlConfig::N23(config) => {
                AnyHopControl::N23(Box::new(N23::counting_from(*config, counted)))
            }
            other => other.build(None),
        });
        let mut world = World {
            constant: !matches!(config, HopControlConfig::N23(N23Config { adapt: Some(_), .. })),
            counted,
            controls,
            hops: Default::default(),
            queues: Default::default(),
            moved: [0; 3],
            made: 0,
            delivered: 0,
        };
        for hop in 0..2 {
            let [ours, theirs] = [hop, hop + 1].map(|node| own[node].offer(false));
            world.attach(hop, Side::After, HopOffer::agree(ours, theirs));
            world.attach(hop + 1, Side::Before, HopOffer::agree(theirs, ours));
            world.hops[hop].agreed = HopOffer::agree(ours, theirs);
            if let Some(HopOffer::Credits { start, .. }) = world.hops[hop].agreed {
                world.hops[hop].known = (0, start.into());
            }
        }
        world
    }

    fn attach(&mut self, node: usize, side: Side, agreed: Option<HopOffer>) {
        let neighbour =
            Neighbour { side, direction: Direction::Forward, channel: ChannelKey::first(0), agreed };
        self.controls[node].on_neighbour(neighbour);
    }

    fn perform(&mut self, operation: &Operation) {
        match *operation {
            Operation::Make(node, cells) => {
                let room = self.controls[node].edge_queue_limit().map_or(256, Cells::get);
                let room = room.saturating_sub(self.queues[node].len() as u64);
                // A middle relay makes few cells itself.
                let cells = if node == 0 { cells.min(room) } else { cells.min(3) };
                self.made += cells;
                self.queues[node].extend((0..cells).map(|_| Source::Here));
            }
            Operation::Send(node, cells) => (0..cells).for_each(|_| self.send(node)),
            Operation::Arrive(hop, cells) => (0..cells).for_each(|_| self.arrive(hop)),
            Operation::Feedback(hop, many) => (0..many).for_each(|_| {
                if let Some(feedback) = self.hops[hop].feedback.pop_front() {
                    self.deliver_feedback(hop, feedback);
                    self.hops[hop].delivered_feedback.push(feedback);
                }
            }),
            Operation::Repeat(hop, which) => {
                let delivered_feedback = &self.hops[hop].delivered_feedback;
                if let Some(feedback) =
                    delivered_feedback.len().checked_sub(which + 1).map(|which| delivered_feedback[which])
                {
                    self.deliver_feedback(hop, feedback);
                }
            }
            Operation::Forge(hop, ahead, allowance) => self.forge(hop, ahead, allowance),
            Operation::Tick(node, delay, others) => self.tick(node, delay, others),
        }
        self.check();
    }

    /// A cell leaves a node's queue. The last node delivers it.
    fn send(&mut self, node: usize) {
        if node == 2 {
            if self.queues[2].pop_front().is_some() {
                self.delivered += 1;
                let feedback = self.controls[2].on_delivered(T);
                self.passed_on(1, feedback);
            }
            return;
        }
        if self.controls[node].credit() == Cells::ZERO {
            return;
        }
        let Some(source) = self.queues[node].pop_front() else { return };
        self.moved[node] += 1;
        let feedback = self.controls[node].on_sent(T, source);
        let hop = &mut self.hops[node];
        hop.sent += 1;
        hop.allowance = hop.known.1;
        hop.cells.push_back(());
        match source {
            Source::Before => self.passed_on(node - 1, feedback),
            Source::Here => assert_eq!(feedback, None, "a node expects no feedback for its own cells"),
        }
    }

    /// The node behind a hop forwards or delivers a cell and sends `feedback`.
    fn passed_on(&mut self, hop: usize, feedback: Option<Feedback>) {
        self.hops[hop].passed_on += 1;
        self.send_feedback(hop, feedback);
    }

    fn send_feedback(&mut self, hop: usize, feedback: Option<Feedback>) {
        let Some(feedback) = feedback else { return };
        let (counted, state) = (self.counted, &mut self.hops[hop]);
        let Some(offer) = state.agreed else { panic!("feedback on a hop without control") };
        if let HopOffer::Credits { most, .. } = offer {
            assert_eq!(
                feedback.forwarded,
                (counted + state.passed_on) as u32,
                "feedback carries the forwarded cells modulo 2^32"
            );
            assert!(feedback.allowance <= most, "the allowance never exceeds the offer");
            state.reported = state.passed_on;
        }
        state.feedback.push_back(feedback);
    }

    fn arrive(&mut self, hop: usize) {
        if self.hops[hop].cells.pop_front().is_some() {
            self.hops[hop].arrived += 1;
            self.controls[hop + 1].on_received(T).expect("an honest peer sends only cells with credit");
            self.queues[hop + 1].push_back(Source::Before);
        }
    }

    fn deliver_feedback(&mut self, hop: usize, feedback: Feedback) {
        self.controls[hop].on_feedback(T, feedback).expect("an honest peer sends true feedback");
        let newest = (self.counted + self.hops[hop].known.0) as u32;
        // A count is newer if it is less than half of the number range ahead.
        let ahead = feedback.forwarded.wrapping_sub(newest);
        if ahead < 1 << 31 {
            self.hops[hop].known = (self.hops[hop].known.0 + u64::from(ahead), feedback.allowance.into());
        }
    }

    /// Forged credits are violations, old credits are ignored, and both change nothing.
    fn forge(&mut self, hop: usize, ahead: u32, allowance: u32) {
        let Some(HopOffer::Credits { most, .. }) = self.hops[hop].agreed else { return };
        let (known, sent) = (self.hops[hop].known.0, self.hops[hop].sent);
        let is_old = ahead >= 1 << 31;
        let is_forged = !is_old && (known + u64::from(ahead) > sent || allowance > most);
        if !is_old && !is_forged {
            return;
        }
        let forwarded = ((self.counted + known) as u32).wrapping_add(ahead);
        let feedback = Feedback { direction: Direction::Forward, forwarded, allowance };
        let before = self.controls[hop].credit();
        let expected = if is_forged { Err(Violation::ForgedCredit) } else { Ok(()) };
        assert_eq!(self.controls[hop].on_feedback(T, feedback), expected);
        assert_eq!(self.controls[hop].credit(), before);
    }

    fn tick(&mut self, node: usize, delay: u64, others: u64) {
        let Some(period) = self.controls[node].period() else { return };
        assert!(period > Duration::ZERO);
        let queue = Cells::new(self.queues[node].len() as u64);
        let moved = Cells::new(std::mem::take(&mut self.moved[node]) + others);
        let link = LinkSignals { delay: Duration::from_millis(delay), queued: queue, circuits: 3, moved };
        let ticked = self.controls[node].on_tick(T, HopSignals { queue, link });
        if node > 0 {
            self.send_feedback(node - 1, ticked.feedback);
        } else {
            assert_eq!(ticked.feedback, None, "the first node has no previous hop");
        }
    }

    fn check(&self) {
        for (place, hop) in self.hops.iter().enumerate() {
            let credit = self.controls[place].credit().get();
            let outstanding = hop.sent - hop.passed_on;
            match hop.agreed {
                None => assert_eq!(credit, u64::MAX, "a hop without control has no limit"),
                Some(HopOffer::Credits { most, .. }) => {
                    let (passed_on, more) = hop.known;
                    assert_eq!(credit, (passed_on + more).saturating_sub(hop.sent));
                    assert!(outstanding <= u64::from(most), "{outstanding} outstanding (G-20)");
                    // The outstanding cells had credit when the last cell left (G-20 while N3
                    // adapts).
                    assert!(outstanding <= hop.allowance, "{outstanding} outstanding");
                    assert!(
                        !self.constant || passed_on + more >= hop.sent,
                        "a constant credit is never negative"
                    );
                    assert!(
                        hop.arrived - hop.passed_on <= u64::from(most),
                        "no queue has more than N2 + N3 of the previous hop (G-21)"
                    );
                }
                // Windows have their own contract (`windows`).
                Some(HopOffer::BackTap | HopOffer::Marut { .. } | HopOffer::Custom(_)) => {}
            }
        }
    }

    /// Runs all nodes until no cell or feedback moves.
    fn drain(&mut self) {
        loop {
            let before = (
                self.delivered,
                self.hops.each_ref().map(|hop| (hop.sent, hop.arrived, hop.delivered_feedback.len())),
            );
            (0..3).for_each(|node| self.perform(&Operation::Send(node, 1000)));
            (0..2).for_each(|hop| self.perform(&Operation::Arrive(hop, 1000)));
            (0..2).for_each(|hop| self.perform(&Operation::Feedback(hop, 1000)));
            let after = (
                self.delivered,
                self.hops.each_ref().map(|hop| (hop.sent, hop.arrived, hop.delivered_feedback.len())),
            );
            if after == before {
                return;
            }
        }
    }
}

/// Runs random operations on each partly upgraded row of nodes. `config` builds the control for an
/// N2 and an N3.
fn hop_control_contract(config: impl Fn(u32, u32) -> HopControlConfig) {
    let cases = (
        (1u32..=50, 0u32..=500),
        any::<[bool; 3]>(),
        prop_oneof![Just(0u64), (1u64 << 32) - 2000..1 << 32],
        proptest::collection::vec(operation(), 1..300),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(192));
    let run = |((n2, n3), supports, counted, operations): ((u32, u32), [bool; 3], u64, Vec<Operation>)| {
        let config = config(n2, n3);
        let mut world = World::new(&config, supports, counted);
        for operation in &operations {
            world.perform(operation);
            if let HopControlConfig::N23(N23Config { n2, adapt: Some(_), .. }) = config {
                let limits = world.controls.iter().filter_map(|control| control.edge_queue_limit());
                let least = u64::from(n2) + u64::from(MIN_N3);
                let most = u64::from(n2) + u64::from(MAX_N3);
                limits.for_each(|limit| assert!((least..=most).contains(&limit.get()), "{limit:?}"));
            }
        }
        // Liveness: all cells arrive when no step blocks them (G-24).
        world.drain();
        assert_eq!(world.delivered, world.made, "{:?}", world.hops);
        for hop in world.hops.iter().filter(|hop| hop.agreed.is_some()) {
            assert_eq!(hop.passed_on, hop.sent);
            if let HopControlConfig::N23(N23Config { n2, adapt: None, .. }) = config {
                assert_eq!(
                    hop.delivered_feedback.len() as u64,
                    hop.passed_on / u64::from(n2),
                    "one credit for each N2 cells (G-22)"
                );
            }
            if let HopControlConfig::N23(N23Config { n2, .. }) = config {
                assert!(hop.passed_on - hop.reported < u64::from(n2));
            }
        }
        Ok(())
    };
    runner.run(&cases, run).unwrap_or_else(|error| panic!("{error}"));
}

fn n23(config: N23Config) -> HopControlConfig {
    HopControlConfig::N23(config)
}

fn adaptive(law: LawConfig) -> impl Fn(u32, u32) -> HopControlConfig {
    let adapt = AdaptConfig { interval: Duration::from_millis(100), kernel: false, law };
    move |n2, n3| {
        n23(N23Config { n2, n3: n3.clamp(MIN_N3, MAX_N3), adapt: Some(adapt), ..N23Config::default() })
    }
}

#[test]
fn no_control_keeps_the_contract() {
    hop_control_contract(|_, _| HopControlConfig::None);
}

#[test]
fn constant_credits_keep_the_contract() {
    hop_control_contract(|n2, n3| n23(N23Config { n2, n3, ..N23Config::default() }));
}

#[test]
fn exponential_credits_keep_the_contract() {
    hop_control_contract(adaptive(LawConfig::Exponential(ExponentialConfig::default())));
    let steep =
        ExponentialConfig { scale: Duration::from_millis(1), step: 400, ..ExponentialConfig::default() };
    hop_control_contract(adaptive(LawConfig::Exponential(steep)));
}

#[test]
fn credits_from_a_pool_keep_the_contract() {
    hop_control_contract(adaptive(LawConfig::Kung94(Kung94Config::default())));
}

/// Two nodes, of which the first has sent `sent` cells. Counts begin near 2³².
fn sender(sent: u64) -> (N23, u64) {
    let counted = (1 << 32) - 50;
    let mut control = N23::counting_from(N23Config { n2: 10, n3: 90, ..N23Config::default() }, counted);
    let agreed = Some(HopOffer::Credits { start: 100, most: 100 });
    let (direction, channel) = (Direction::Forward, ChannelKey::first(0));
    control.on_neighbour(Neighbour { side: Side::After, direction, channel, agreed });
    (0..sent).for_each(|_| _ = control.on_sent(T, Source::Here));
    (control, counted)
}

#[test]
fn forged_credits_are_violations_and_grant_nothing() {
    let apply = |(mut control, counted): (N23, u64), forwarded: u64, allowance| {
        let forwarded = (counted + forwarded) as u32;
        let outcome =
            control.on_feedback(T, Feedback { direction: Direction::Forward, forwarded, allowance });
        (outcome, control.credit().get())
    };
    let forged = Err(Violation::ForgedCredit);
    assert_eq!(apply(sender(100), 60, 100), (Ok(()), 60), "past 2^32");
    assert_eq!(apply(sender(100), 100, 100), (Ok(()), 100));
    assert_eq!(apply(sender(100), 101, 100), (forged, 0), "credit for a cell that was never sent");
    assert_eq!(
        apply(sender(100), 1 << 31, 100),
        (Ok(()), 0),
        "a count half of the number range ahead is old"
    );
    assert_eq!(apply(sender(100), (1 << 31) - 1, 100), (forged, 0));
    assert_eq!(apply(sender(100), 60, 101), (forged, 0), "more than the offered allowance");
    assert_eq!(apply(sender(100), 60, 10), (Ok(()), 0), "a lower allowance is valid");
}

#[test]
fn sending_more_than_the_credit_is_a_violation() {
    let mut control = N23::new(N23Config { n2: 10, n3: 20, ..N23Config::default() });
    let agreed = Some(HopOffer::Credits { start: 999, most: 999 });
    let (direction, channel) = (Direction::Forward, ChannelKey::first(0));
    control.on_neighbour(Neighbour { side: Side::Before, direction, channel, agreed });
    (0..30).for_each(|_| control.on_received(T).unwrap());
    assert_eq!(control.on_received(T), Err(Violation::CreditExceeded), "the offer of this node counts");
}
