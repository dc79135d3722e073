//! The contract of every [`HopControl`], with any neighbours: one fuzzer for all.
//!
//! Three nodes stand in a row; any of them may have no control. Cells and feedback travel between them
//! in order; stalls do not happen. A model counts the cells of each hop.

use crate::hop_control::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// The next step, at one of the three nodes or two hops.
#[derive(Clone, Debug)]
enum Operation {
    /// The node makes so many cells; the first one no more than its edge may queue.
    Make(usize, u64),
    /// So many cells leave its queue, or are taken at the end.
    Send(usize, usize),
    /// So many cells of the hop arrive.
    Arrive(usize, usize),
    /// So much feedback of the hop arrives.
    Hear(usize, usize),
    /// Feedback that came before comes again.
    Repeat(usize, usize),
    /// A tick at a node whose channel has this delay [ms] and moved this many cells of other circuits.
    Tick(usize, u64, u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => (0usize..2, 1u64..200).prop_map(|(node, cells)| Operation::Make(node, cells)),
        4 => (0usize..3, 1usize..200).prop_map(|(node, cells)| Operation::Send(node, cells)),
        4 => (0usize..2, 1usize..200).prop_map(|(hop, cells)| Operation::Arrive(hop, cells)),
        4 => (0usize..2, 1usize..20).prop_map(|(hop, many)| Operation::Hear(hop, many)),
        1 => (0usize..2, 0usize..20).prop_map(|(hop, which)| Operation::Repeat(hop, which)),
        2 => (0usize..3, 0u64..200, 0u64..100)
            .prop_map(|(node, delay, others)| Operation::Tick(node, delay, others)),
    ]
}

/// One hop as its cells and credits are.
#[derive(Debug, Default)]
struct Hop {
    /// The agreement of its two nodes.
    agreed: Option<HopOffer>,
    cells: VecDeque<()>,
    feedback: VecDeque<Feedback>,
    heard: Vec<Feedback>,
    sent: u64,
    arrived: u64,
    /// Of those that arrived, how many went on or were taken.
    gone: u64,
    /// The newest credit that arrived: its count and its allowance.
    known: (u64, u64),
    /// Its allowance when the last cell was sent.
    allowance: u64,
    /// The count in the last credit that was given.
    reported: u64,
}

struct World {
    /// N3 never changes.
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
    /// `speaks` says which nodes are set up with `config`; counts begin at `counted`.
    fn new(config: &HopControlConfig, speaks: [bool; 3], counted: u64) -> World {
        let own = speaks.map(|speaks| if speaks { config.clone() } else { HopControlConfig::None });
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
            Operation::Hear(hop, many) => (0..many).for_each(|_| {
                if let Some(feedback) = self.hops[hop].feedback.pop_front() {
                    self.hear(hop, feedback);
                    self.hops[hop].heard.push(feedback);
                }
            }),
            Operation::Repeat(hop, which) => {
                let heard = &self.hops[hop].heard;
                if let Some(feedback) = heard.len().checked_sub(which + 1).map(|which| heard[which]) {
                    self.hear(hop, feedback);
                }
            }
            Operation::Tick(node, delay, others) => self.tick(node, delay, others),
        }
        self.check();
    }

    /// A cell leaves a node's queue; the last node's is taken.
    fn send(&mut self, node: usize) {
        if node == 2 {
            if self.queues[2].pop_front().is_some() {
                self.delivered += 1;
                let feedback = self.controls[2].on_delivered(T);
                self.gone(1, feedback);
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
            Source::Before => self.gone(node - 1, feedback),
            Source::Here => assert_eq!(feedback, None, "nobody waits to hear of a cell that was made here"),
        }
    }

    /// A cell that came over a hop is gone, for which the node behind it says `feedback`.
    fn gone(&mut self, hop: usize, feedback: Option<Feedback>) {
        self.hops[hop].gone += 1;
        self.say(hop, feedback);
    }

    fn say(&mut self, hop: usize, feedback: Option<Feedback>) {
        let Some(feedback) = feedback else { return };
        let (counted, state) = (self.counted, &mut self.hops[hop]);
        let Some(offer) = state.agreed else { panic!("feedback over a hop without control") };
        if let HopOffer::Credits { most, .. } = offer {
            assert_eq!(
                feedback.forwarded,
                (counted + state.gone) as u32,
                "it says what went on, modulo 2^32"
            );
            assert!(feedback.allowance <= most, "and lets no more come than was offered");
            state.reported = state.gone;
        }
        state.feedback.push_back(feedback);
    }

    fn arrive(&mut self, hop: usize) {
        if self.hops[hop].cells.pop_front().is_some() {
            self.hops[hop].arrived += 1;
            self.controls[hop + 1].on_received(T).expect("an honest peer sends what it may");
            self.queues[hop + 1].push_back(Source::Before);
        }
    }

    fn hear(&mut self, hop: usize, feedback: Feedback) {
        self.controls[hop].on_feedback(T, feedback).expect("an honest peer says what is true");
        let newest = (self.counted + self.hops[hop].known.0) as u32;
        // Less than half of the circle away is newer.
        let ahead = feedback.forwarded.wrapping_sub(newest);
        if ahead < 1 << 31 {
            self.hops[hop].known = (self.hops[hop].known.0 + u64::from(ahead), feedback.allowance.into());
        }
    }

    fn tick(&mut self, node: usize, delay: u64, others: u64) {
        let Some(period) = self.controls[node].period() else { return };
        assert!(period > Duration::ZERO);
        let queue = Cells::new(self.queues[node].len() as u64);
        let moved = Cells::new(std::mem::take(&mut self.moved[node]) + others);
        let link = LinkSignals { delay: Duration::from_millis(delay), queued: queue, circuits: 3, moved };
        let ticked = self.controls[node].on_tick(T, HopSignals { queue, link });
        if node > 0 {
            self.say(node - 1, ticked.feedback);
        } else {
            assert_eq!(ticked.feedback, None, "there is nobody before the first node");
        }
    }

    fn check(&self) {
        for (place, hop) in self.hops.iter().enumerate() {
            let credit = self.controls[place].credit().get();
            let outstanding = hop.sent - hop.gone;
            match hop.agreed {
                None => assert_eq!(credit, u64::MAX, "a hop without control carries whatever comes"),
                Some(HopOffer::Credits { most, .. }) => {
                    let (gone, more) = hop.known;
                    assert_eq!(credit, (gone + more).saturating_sub(hop.sent));
                    assert!(outstanding <= u64::from(most), "{outstanding} outstanding (G-20)");
                    // The outstanding cells were allowed when the last cell left (G-20 while N3 adapts).
                    assert!(outstanding <= hop.allowance, "{outstanding} outstanding");
                    assert!(!self.constant || gone + more >= hop.sent, "a constant credit is never negative");
                    assert!(
                        hop.arrived - hop.gone <= u64::from(most),
                        "no queue has more than N2 + N3 of the hop before (G-21)"
                    );
                }
                // Windows have a contract of their own (`windows`).
                Some(HopOffer::BackTap | HopOffer::Marut { .. } | HopOffer::Custom(_)) => {}
            }
        }
    }

    /// Everything moves on until nothing can.
    fn drain(&mut self) {
        loop {
            let before =
                (self.delivered, self.hops.each_ref().map(|hop| (hop.sent, hop.arrived, hop.heard.len())));
            (0..3).for_each(|node| self.perform(&Operation::Send(node, 1000)));
            (0..2).for_each(|hop| self.perform(&Operation::Arrive(hop, 1000)));
            (0..2).for_each(|hop| self.perform(&Operation::Hear(hop, 1000)));
            let after =
                (self.delivered, self.hops.each_ref().map(|hop| (hop.sent, hop.arrived, hop.heard.len())));
            if after == before {
                return;
            }
        }
    }
}

/// Runs any operations on any half-upgraded row of nodes. `config` makes the control of an N2 and an N3.
fn hop_control_contract(config: impl Fn(u32, u32) -> HopControlConfig) {
    let cases = (
        (1u32..=50, 0u32..=500),
        any::<[bool; 3]>(),
        prop_oneof![Just(0u64), (1u64 << 32) - 2000..1 << 32],
        proptest::collection::vec(operation(), 1..300),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(192));
    let run = |((n2, n3), speaks, counted, operations): ((u32, u32), [bool; 3], u64, Vec<Operation>)| {
        let config = config(n2, n3);
        let mut world = World::new(&config, speaks, counted);
        for operation in &operations {
            world.perform(operation);
            if let HopControlConfig::N23(N23Config { n2, adapt: Some(_), .. }) = config {
                let limits = world.controls.iter().filter_map(|control| control.edge_queue_limit());
                let least = u64::from(n2) + u64::from(MIN_N3);
                let most = u64::from(n2) + u64::from(MAX_N3);
                limits.for_each(|limit| assert!((least..=most).contains(&limit.get()), "{limit:?}"));
            }
        }
        // Liveness: all cells arrive once no step blocks them (G-24).
        world.drain();
        assert_eq!(world.delivered, world.made, "{:?}", world.hops);
        for hop in world.hops.iter().filter(|hop| hop.agreed.is_some()) {
            assert_eq!(hop.gone, hop.sent);
            if let HopControlConfig::N23(N23Config { n2, adapt: None, .. }) = config {
                assert_eq!(
                    hop.heard.len() as u64,
                    hop.gone / u64::from(n2),
                    "a credit for each N2 cells (G-22)"
                );
            }
            if let HopControlConfig::N23(N23Config { n2, .. }) = config {
                assert!(hop.gone - hop.reported < u64::from(n2));
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

/// Two nodes, of which the first has sent `sent` cells; counts begin near 2³².
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
fn forged_credits_are_violations_and_give_nothing() {
    let says = |(mut control, counted): (N23, u64), forwarded: u64, allowance| {
        let forwarded = (counted + forwarded) as u32;
        let outcome =
            control.on_feedback(T, Feedback { direction: Direction::Forward, forwarded, allowance });
        (outcome, control.credit().get())
    };
    let forged = Err(Violation::ForgedCredit);
    assert_eq!(says(sender(100), 60, 100), (Ok(()), 60), "past 2^32");
    assert_eq!(says(sender(100), 100, 100), (Ok(()), 100));
    assert_eq!(says(sender(100), 101, 100), (forged, 0), "for a cell that was never sent");
    assert_eq!(says(sender(100), 1 << 31, 100), (Ok(()), 0), "half of all numbers are old");
    assert_eq!(says(sender(100), (1 << 31) - 1, 100), (forged, 0));
    assert_eq!(says(sender(100), 60, 101), (forged, 0), "more than was ever offered");
    assert_eq!(says(sender(100), 60, 10), (Ok(()), 0), "less may be given");
}

#[test]
fn sending_more_than_the_credit_is_detected() {
    let mut control = N23::new(N23Config { n2: 10, n3: 20, ..N23Config::default() });
    let agreed = Some(HopOffer::Credits { start: 999, most: 999 });
    let (direction, channel) = (Direction::Forward, ChannelKey::first(0));
    control.on_neighbour(Neighbour { side: Side::Before, direction, channel, agreed });
    (0..30).for_each(|_| control.on_received(T).unwrap());
    assert_eq!(
        control.on_received(T),
        Err(Violation::CreditExceeded),
        "what counts is what was offered here"
    );
}
