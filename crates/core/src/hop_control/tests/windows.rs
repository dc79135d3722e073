//! Tests of window controls (G-52, G-53, G-55): one control alone, controls of several circuits at a shared bottleneck,
//! and several controls along a path.

use crate::datagram::Downstream;
use crate::hop_control::*;
use penstock_units::DataRate;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const MS: fn(u64) -> Duration = Duration::from_millis;
const AT: fn(u64) -> Instant = Instant::from_millis;

/// A control whose neighbours on these sides agreed on its offer.
fn control(config: &HopControlConfig, sides: &[Side]) -> AnyHopControl {
    let mut control = config.build(None);
    for side in sides {
        let (direction, channel) = (Direction::Forward, ChannelKey::first(0));
        control.on_neighbour(Neighbour { side: *side, direction, channel, agreed: config.offer(false) });
    }
    control
}

fn forwarded(count: u64) -> Feedback {
    Feedback { direction: Direction::Forward, forwarded: count as u32, allowance: 0 }
}

fn window(control: &AnyHopControl) -> u64 {
    control.window().expect("the hop is controlled").get()
}

fn marut(change: impl FnOnce(&mut MarutConfig)) -> HopControlConfig {
    let mut config = MarutConfig::default();
    change(&mut config);
    HopControlConfig::Marut(config)
}

/// The parameters that Marut's authors use in their ns-3 model.
fn authors() -> HopControlConfig {
    HopControlConfig::Marut(MarutConfig {
        window: WindowConfig { start: 6, samples: 1, ..WindowConfig::default() },
        middle: MiddleWindow::Open,
        occupancy: Occupancy::Window,
        interval: ControlInterval::Hop,
        memory: None,
        queue_cap: None,
        ..MarutConfig::default()
    })
}

fn backtap() -> HopControlConfig {
    HopControlConfig::BackTap(BackTapConfig::default())
}

fn with_windows(window: WindowConfig) -> HopControlConfig {
    HopControlConfig::BackTap(BackTapConfig { window, ..BackTapConfig::default() })
}

#[derive(Clone, Copy, Debug)]
enum TimedEvent {
    Arrives(usize),
    Served(usize),
    /// Feedback that reports this many forwarded cells.
    Feedback(usize, u64),
}

/// A node that several circuits share as their bottleneck. It serves one cell at a time, in turn.
/// Each circuit always has more cells to send.
struct Bottleneck {
    controls: Vec<AnyHopControl>,
    /// The send times of the cells of each circuit that are not forwarded yet.
    times: Vec<VecDeque<Instant>>,
    queues: Vec<u64>,
    served: Vec<u64>,
    turn: usize,
    busy: bool,
    now: Instant,
    base: Option<Duration>,
    events: BTreeMap<(Instant, u64), TimedEvent>,
    count: u64,
    /// The number of waiting cells, integrated over time [cell ns].
    waited: u128,
}

const LATENCY: Duration = Duration::from_millis(10);
const SERVICE: Duration = Duration::from_millis(1);

impl Bottleneck {
    fn new(config: &HopControlConfig, circuits: usize) -> Self {
        Bottleneck {
            controls: (0..circuits).map(|_| control(config, &[Side::After])).collect(),
            times: vec![VecDeque::new(); circuits],
            queues: vec![0; circuits],
            served: vec![0; circuits],
            turn: 0,
            busy: false,
            now: Instant::ZERO,
            base: None,
            events: BTreeMap::new(),
            count: 0,
            waited: 0,
        }
    }

    fn schedule(&mut self, after: Duration, event: TimedEvent) {
        self.count += 1;
        self.events.insert((self.now + after, self.count), event);
    }

    fn send(&mut self, circuit: usize) {
        while self.controls[circuit].credit() > Cells::ZERO {
            assert_eq!(self.controls[circuit].on_sent(self.now, Source::Here), None);
            self.times[circuit].push_back(self.now);
            self.schedule(LATENCY, TimedEvent::Arrives(circuit));
        }
    }

    fn serve(&mut self) {
        if self.busy {
            return;
        }
        let circuits = self.queues.len();
        let next = (0..circuits).map(|step| (self.turn + step) % circuits).find(|one| self.queues[*one] > 0);
        if let Some(circuit) = next {
            (self.turn, self.busy) = (circuit + 1, true);
            self.schedule(SERVICE, TimedEvent::Served(circuit));
        }
    }

    /// Runs until the time `until`.
    fn run(&mut self, until: Instant) {
        (0..self.controls.len()).for_each(|circuit| self.send(circuit));
        while let Some(((at, _), event)) = self.events.pop_first() {
            let waiting: u64 = self.queues.iter().sum();
            self.waited += u128::from(waiting) * at.since(self.now).as_nanos();
            self.now = at;
            match event {
                TimedEvent::Arrives(circuit) => self.queues[circuit] += 1,
                TimedEvent::Served(circuit) => {
                    self.busy = false;
                    self.queues[circuit] -= 1;
                    self.served[circuit] += 1;
                    self.schedule(LATENCY, TimedEvent::Feedback(circuit, self.served[circuit]));
                }
                TimedEvent::Feedback(circuit, count) => self.on_served(circuit, count),
            }
            self.serve();
            if at >= until {
                return;
            }
        }
    }

    fn on_served(&mut self, circuit: usize, count: u64) {
        let sent = self.times[circuit].pop_front().expect("a served cell was sent before");
        let rtt = self.now.since(sent);
        let base = self.base.map_or(rtt, |base| base.min(rtt));
        self.base = Some(base);
        let before = window(&self.controls[circuit]);
        self.controls[circuit].on_round_trip(self.now, RoundTrip { rtt, base, hold: Duration::ZERO });
        let reported = Downstream { congestion: Some(0), ended: Some(count as u32) };
        assert_eq!(self.controls[circuit].on_downstream(self.now, reported), None);
        self.controls[circuit].on_feedback(self.now, forwarded(count)).expect("the cell was sent");
        let after = window(&self.controls[circuit]);
        assert!(after >= 1 && after.abs_diff(before) <= 1, "{before} became {after} (G-52)");
        self.send(circuit);
    }
}

/// G-53: in equilibrium, alpha to beta cells wait at a bottleneck without other traffic, as Vegas's rule says.
#[test]
fn in_equilibrium_alpha_to_beta_cells_wait() {
    let tight = WindowConfig { alpha: 2, beta: 4, ..WindowConfig::default() };
    let configs = [
        (backtap(), 3.0, 6.0),
        (with_windows(tight), 2.0, 4.0),
        (marut(|config| config.interval = ControlInterval::Hop), 3.0, 6.0),
        (marut(|config| config.counts = Counts::Path), 3.0, 6.0),
    ];
    for (config, alpha, beta) in configs {
        let mut bottleneck = Bottleneck::new(&config, 1);
        bottleneck.run(AT(20_000));
        let (waited, from) = (bottleneck.waited, bottleneck.now);
        bottleneck.run(AT(40_000));
        let mean = (bottleneck.waited - waited) as f64 / bottleneck.now.since(from).as_nanos() as f64;
        // The cell in service also counts as waiting, but not in the window's backlog.
        assert!((alpha..=beta + 2.0).contains(&mean), "{mean} cells wait with {config:?}");
        let backlog = mean - 1.0;
        assert!((alpha - 1.0..=beta + 1.0).contains(&backlog), "a backlog of {backlog} with {config:?}");
    }
}

/// M-40: judged at every report, a window doubles in a round trip. It also falls within one: most reports of a round trip
/// are about cells that were sent before the window fell. So a queue forms and empties again and again.
#[test]
fn a_window_judged_at_reports_oscillates() {
    let windows = |judged| {
        let config = HopControlConfig::BackTap(BackTapConfig { judged, ..BackTapConfig::default() });
        let mut bottleneck = Bottleneck::new(&config, 1);
        let mut at = |millis| {
            bottleneck.run(AT(millis));
            window(&bottleneck.controls[0])
        };
        let grown = at(105);
        let steady: Vec<_> = (20_000..24_000).step_by(5).map(&mut at).collect();
        let (least, most) = (steady.iter().min().unwrap(), steady.iter().max().unwrap());
        (grown, *least, *most)
    };
    // The path holds 20 cells, and the node one.
    assert_eq!(windows(Judged::Round), (5, 25, 25));
    let (grown, least, most) = windows(Judged::Report);
    assert!(grown > 20 && least < 15 && most > 50, "{grown}, {least} to {most}");
}

#[test]
fn equal_circuits_get_equal_shares() {
    for config in [backtap(), marut(|config| config.interval = ControlInterval::Hop)] {
        for circuits in [2, 3, 5] {
            let mut bottleneck = Bottleneck::new(&config, circuits);
            bottleneck.run(AT(20_000));
            let before = bottleneck.served.clone();
            bottleneck.run(AT(60_000));
            let shares: Vec<_> = bottleneck.served.iter().zip(before).map(|(now, then)| now - then).collect();
            let fair = shares.iter().sum::<u64>() / circuits as u64;
            for share in &shares {
                assert!(share.abs_diff(fair) * 10 <= fair, "{shares:?} with {config:?}");
            }
            assert!(fair * circuits as u64 >= 38_000, "the bottleneck is fully used: {shares:?}");
        }
    }
}

#[test]
fn only_a_neighbour_with_the_same_offer_gets_a_window() {
    let every = [backtap(), marut(|_| {}), marut(|config| config.counts = Counts::Path)];
    for (one, ours) in every.iter().enumerate() {
        for (other, theirs) in every.iter().enumerate() {
            let agreed = HopOffer::agree(ours.offer(false), theirs.offer(false));
            assert_eq!(agreed.is_some(), one == other);
            let mut control = ours.build(None);
            let (side, direction, channel) = (Side::After, Direction::Forward, ChannelKey::first(0));
            control.on_neighbour(Neighbour { side, direction, channel, agreed });
            let credit = if one == other { 2 } else { u64::MAX };
            assert_eq!(control.credit(), Cells::new(credit));
        }
    }
}

/// A round of three cells with this RTT. Two cells are always outstanding. Returns the counts that
/// were reported upstream.
fn round(
    control: &mut AnyHopControl,
    at: u64,
    rtt: u64,
    count: &mut u64,
    reported_beyond: Downstream,
    source: Source,
) -> Vec<u32> {
    let mut reported = Vec::new();
    let cells = if *count == 0 { 6 } else { 3 };
    for cell in 1..=cells {
        if source == Source::Before {
            control.on_received(AT(at)).unwrap();
        }
        reported.extend(control.on_sent(AT(at), source).map(|feedback| feedback.forwarded));
        if *count == 0 && cell == 3 {
            // The very first cell ends a round without other cells.
            *count = 1;
            control.on_round_trip(AT(at), RoundTrip { rtt: MS(5000), base: MS(100), hold: MS(0) });
            control.on_feedback(AT(at), forwarded(1)).unwrap();
        }
    }
    for _ in 0..3 {
        *count += 1;
        control.on_round_trip(AT(at + rtt), RoundTrip { rtt: MS(rtt), base: MS(100), hold: MS(0) });
        control.on_downstream(AT(at + rtt), reported_beyond);
        control.on_feedback(AT(at + rtt), forwarded(*count)).unwrap();
    }
    reported
}

fn congestion(cells: f64) -> Downstream {
    Downstream { congestion: Some((cells * 64.0) as u16), ended: None }
}

/// G-55: a middle node reports the larger of its own diff and the next node's, and does not change its window.
#[test]
fn a_middle_reports_the_maximum_diff_and_keeps_its_window() {
    let (mut middle, mut count) = (control(&marut(|_| {}), &[Side::Before, Side::After]), 0);
    assert_eq!(middle.downstream(AT(0)).congestion, Some(0));
    // At most five cells are outstanding in a round. Of these, the share that waits is the excess
    // of the RTT over the minimum RTT.
    let rounds = [(0, 200, 0.0, 5.0), (1000, 200, 9.0, 9.0), (2000, 150, 1.0, 2.5), (3000, 100, 3.5, 3.5)];
    for (at, rtt, reported_beyond, expected) in rounds {
        let reported = round(&mut middle, at, rtt, &mut count, congestion(reported_beyond), Source::Before);
        assert_eq!(
            reported.last().map(|last| u64::from(*last)),
            Some(count + 2),
            "one report for each forwarded cell"
        );
        let congestion = middle.downstream(AT(at + rtt)).congestion.unwrap();
        assert_eq!(f64::from(congestion) / 64.0, expected);
        assert_eq!(window(&middle), 1024);
    }
}

#[test]
fn the_first_node_follows_the_worst_hop_and_the_last_node_has_no_window() {
    let config = marut(|config| config.interval = ControlInterval::Hop);
    let windows = |reported_beyond: f64| {
        let (mut first, mut count) = (control(&config, &[Side::After]), 0);
        (0..8)
            .map(|step| {
                round(&mut first, step * 1000, 100, &mut count, congestion(reported_beyond), Source::Here);
                window(&first)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(windows(0.0), [3, 4, 5, 6, 7, 8, 9, 10], "no hop has a queue");
    assert_eq!(windows(4.0), [2; 8], "one hop has a queue between alpha and beta");
    assert_eq!(windows(7.0), [1; 8], "one hop has a queue above beta");
    let mut last = control(&config, &[Side::Before]);
    last.on_received(AT(0)).unwrap();
    assert_eq!(last.on_delivered(AT(0)), Some(forwarded(1)));
    assert_eq!(last.downstream(AT(0)).congestion, Some(0));
    assert_eq!(last.credit(), Cells::new(u64::MAX));
}

/// With nstor's parameters, windows of at most two cells grow once in two RTTs, because one RTT gives too few samples.
/// With the parameters of Marut's authors, windows grow in each RTT.
#[test]
fn a_round_with_too_few_rtt_samples_continues() {
    let windows = |samples| {
        let config = WindowConfig { samples, ..WindowConfig::default() };
        let (mut control, mut count) = (control(&with_windows(config), &[Side::After]), 0);
        let mut sent = 0;
        let windows: [u64; 6] = std::array::from_fn(|step| {
            while control.credit() > Cells::ZERO {
                control.on_sent(AT(100 * step as u64), Source::Here);
                sent += 1;
            }
            let now = AT(100 * (step as u64 + 1));
            while count < sent {
                count += 1;
                control.on_round_trip(now, RoundTrip { rtt: MS(100), base: MS(100), hold: MS(0) });
                control.on_feedback(now, forwarded(count)).unwrap();
            }
            window(&control)
        });
        windows
    };
    assert_eq!(windows(1), [3, 4, 5, 6, 7, 8]);
    assert_eq!(windows(3), [2, 3, 3, 4, 5, 6]);
}

#[test]
fn the_window_changes_at_most_once_per_interval() {
    let config = marut(|config| config.interval = ControlInterval::Circuit { hops: 3 });
    let (mut first, mut count) = (control(&config, &[Side::After]), 0);
    let mut windows = Vec::new();
    // Consecutive rounds of 100 ms. The RTT of the circuit is estimated as 300 ms.
    for step in 0..9 {
        round(&mut first, step * 100, 100, &mut count, congestion(0.0), Source::Here);
        windows.push(window(&first));
    }
    assert_eq!(windows, [2, 2, 3, 3, 3, 4, 4, 4, 5]);
}

/// In mode `e2e` a window counts cells of the whole path. The cap then uses the RTT of the circuit.
#[test]
fn the_cap_uses_the_rtt_of_the_path_that_the_window_counts() {
    // 4980 B in an RTT of the hop, 14,940 B in an RTT of the circuit.
    let rate = DataRate::new(49_800);
    let capped = |counts: Counts, late: u64| {
        let config = marut(|config| (config.counts, config.interval) = (counts, ControlInterval::Hop));
        let (mut first, mut count) = (config.build(rate), 0);
        let (side, direction, channel) = (Side::After, Direction::Forward, ChannelKey::first(0));
        first.on_neighbour(Neighbour { side, direction, channel, agreed: config.offer(false) });
        for step in 0..60 {
            let at = AT(1000 * step);
            (0..3).for_each(|_| _ = first.on_sent(at, Source::Here));
            count += 3;
            for _ in 0..3 {
                first.on_round_trip(at + MS(100), RoundTrip { rtt: MS(100), base: MS(100), hold: MS(0) });
            }
            first.on_feedback(at + MS(100), forwarded(count)).unwrap();
            first.on_downstream(at + MS(late), Downstream { congestion: Some(0), ended: Some(count as u32) });
            first.on_feedback(at + MS(late), forwarded(count)).unwrap();
        }
        window(&first)
    };
    assert_eq!(
        [capped(Counts::Hop, 300), capped(Counts::Path, 300), capped(Counts::Path, 500)],
        [10, 30, 50]
    );
}

#[test]
fn reported_congestion_expires() {
    let faded = |config: HopControlConfig, after: u64| {
        let (mut first, mut count) = (control(&config, &[Side::Before, Side::After]), 0);
        round(&mut first, 0, 100, &mut count, congestion(8.0), Source::Before);
        first.downstream(AT(100 + after)).congestion.map(|congestion| congestion / 64)
    };
    // Two RTTs of a circuit are 600 ms. After the same time again the report has expired.
    assert_eq!([0, 600, 900, 1199, 5000].map(|after| faded(marut(|_| {}), after)), [8, 8, 4, 0, 0].map(Some));
    assert_eq!(faded(marut(|config| config.memory = None), 100_000), Some(8));
}

#[test]
fn coarse_steps_round_down() {
    let config = marut(|config| config.quantum = 64);
    let (mut middle, mut count) = (control(&config, &[Side::Before, Side::After]), 0);
    round(&mut middle, 0, 170, &mut count, congestion(0.0), Source::Before);
    assert_eq!(middle.downstream(AT(170)).congestion, Some(192), "3.5 cells");
}

/// M-13: a node knows its own diff and, with Marut, the c_diff that the next node reported, even if the own diff is larger.
#[test]
fn a_node_knows_its_own_diff_and_the_reported_one() {
    let known = |next, beyond| Some(Backlog { next, beyond });
    for (config, beyond) in [(backtap(), None), (marut(|_| {}), Some(1.5))] {
        let (mut first, mut count) = (control(&config, &[Side::After]), 0);
        assert_eq!(first.backlog(), known(None, None), "no round has ended");
        round(&mut first, 0, 200, &mut count, congestion(1.5), Source::Here);
        // BackTap's diff uses its window of two cells, and Marut's the five cells that were outstanding.
        let own = if beyond.is_some() { 5.0 } else { 2.0 };
        assert_eq!(first.backlog(), known(Some(own), beyond));
        // The next node has forwarded all cells, so none waits there.
        first.on_feedback(AT(300), forwarded(6)).unwrap();
        assert_eq!(first.backlog(), known(Some(0.0), beyond));
        assert_eq!(control(&config, &[Side::Before]).backlog(), None, "the last node has no next hop");
    }
    let credits = HopControlConfig::N23(N23Config::default());
    assert_eq!(control(&credits, &[Side::After]).backlog(), None, "credits estimate no queue");
}

#[test]
fn a_node_with_a_long_queue_sends_no_feedback_until_the_queue_is_shorter() {
    let config = marut(|config| config.queue_cap = Some(3));
    let mut middle = control(&config, &[Side::Before, Side::After]);
    (0..6).for_each(|_| middle.on_received(AT(0)).unwrap());
    let reported: Vec<_> =
        (0..6).map(|_| middle.on_sent(AT(0), Source::Before).map(|reported| reported.forwarded)).collect();
    assert_eq!(reported, [None, None, Some(3), Some(4), Some(5), Some(6)]);
    let AnyHopControl::Marut(middle) = middle else { panic!("the control is Marut") };
    assert_eq!(middle.silent(), 2);
}

/// Each hop converts the last node's count to its own numbers, because some cells end before the last node and some
/// begin after the first node.
#[test]
fn the_first_node_receives_the_last_nodes_count_in_its_own_numbers() {
    let config = marut(|config| config.counts = Counts::Path);
    let ended = |count: u32| Downstream { ended: Some(count), congestion: Some(0) };
    let mut middle = control(&config, &[Side::Before, Side::After]);
    // An EXTEND ends at this node, which then sends one cell of its own. Five cells are forwarded.
    (0..6).for_each(|_| middle.on_received(AT(0)).unwrap());
    middle.on_delivered(AT(0));
    middle.on_sent(AT(0), Source::Here);
    (0..5).for_each(|_| _ = middle.on_sent(AT(0), Source::Before));
    assert_eq!(middle.downstream(AT(0)).ended, Some(0));
    assert_eq!(
        middle.on_downstream(AT(1), ended(1)).map(|reported| reported.forwarded),
        Some(6),
        "the EXTEND has ended, too"
    );
    assert_eq!(middle.downstream(AT(1)).ended, Some(1));
    assert_eq!(middle.on_downstream(AT(2), ended(1)), None, "the count has not changed");
    assert_eq!(middle.on_downstream(AT(3), ended(6)).map(|reported| reported.forwarded), Some(6));
    assert_eq!(middle.downstream(AT(3)).ended, Some(6), "all cells have ended");
    let mut first = control(&config, &[Side::After]);
    (0..2).for_each(|_| _ = first.on_sent(AT(0), Source::Here));
    assert_eq!(first.credit(), Cells::ZERO);
    first.on_feedback(AT(1), forwarded(2)).unwrap();
    assert_eq!(
        first.credit(),
        Cells::ZERO,
        "forwarded cells do not count, only cells at the end of the path"
    );
    first.on_downstream(AT(2), ended(1));
    assert_eq!(first.credit(), Cells::new(1));
}

/// An input of a control.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Send(bool),
    Take,
    Feedback { count: u64, rtt: u64, congestion: u16, ended: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => any::<bool>().prop_map(Operation::Send),
        1 => Just(Operation::Take),
        4 => (0u64..6, 10u64..500, any::<u16>(), 0u64..6)
            .prop_map(|(count, rtt, congestion, ended)| Operation::Feedback { count, rtt, congestion, ended }),
    ]
}

fn configs() -> Vec<HopControlConfig> {
    let tight = WindowConfig { alpha: 2, beta: 4, start: 10, ..WindowConfig::default() };
    vec![
        backtap(),
        with_windows(tight),
        HopControlConfig::BackTap(BackTapConfig { judged: Judged::Report, ..BackTapConfig::default() }),
        marut(|_| {}),
        marut(|config| config.interval = ControlInterval::Hop),
        marut(|config| (config.counts, config.quantum) = (Counts::Path, 64)),
        marut(|config| config.middle = MiddleWindow::Own),
        authors(),
    ]
}

proptest! {
    /// G-51, G-52, G-55: the window keeps its contract for any input from neighbours. A count above the number of sent
    /// cells closes the circuit.
    #[test]
    fn windows_keep_their_contract(
        config in proptest::sample::select(configs()),
        is_first in any::<bool>(),
        operations in proptest::collection::vec(operation(), 1..300),
    ) {
        let sides: &[Side] = if is_first { &[Side::After] } else { &[Side::Before, Side::After] };
        let mut control = control(&config, sides);
        let fixed = matches!(&config, HopControlConfig::Marut(MarutConfig { middle: MiddleWindow::Fixed(_) | MiddleWindow::Open, .. })) && !is_first;
        let reports = matches!(&config, HopControlConfig::BackTap(BackTapConfig { judged: Judged::Report, .. }));
        let path = is_first && matches!(&config, HopControlConfig::Marut(MarutConfig { counts: Counts::Path, .. }));
        let (mut sent, mut known, mut ended, mut reported, mut ends) = (0u64, 0u64, 0u64, 0u32, 0u32);
        let (mut now, mut base, mut changed) = (0, 500, 0);
        for operation in operations {
            let before = window(&control);
            match operation {
                Operation::Send(own) if control.credit() > Cells::ZERO => {
                    let source = if own || is_first { Source::Here } else { Source::Before };
                    if source == Source::Before {
                        control.on_received(AT(now)).unwrap();
                    }
                    sent += 1;
                    let feedback = control.on_sent(AT(now), source);
                    prop_assert_eq!(feedback.is_some(), source == Source::Before);
                    reported += feedback.map_or(0, |feedback| feedback.forwarded - reported);
                }
                Operation::Send(_) => {}
                Operation::Take if !is_first => {
                    control.on_received(AT(now)).unwrap();
                    reported += 1;
                    prop_assert_eq!(control.on_delivered(AT(now)), Some(forwarded(reported.into())));
                }
                Operation::Take => {}
                Operation::Feedback { count, rtt, congestion, ended: more } => {
                    now += rtt;
                    base = base.min(rtt);
                    if known + count > sent {
                        prop_assert_eq!(
                            control.on_feedback(AT(now), forwarded(known + count)),
                            Err(Violation::ForgedCredit)
                        );
                        return Ok(());
                    }
                    known += count;
                    ended = (ended + more).min(known);
                    control.on_round_trip(AT(now), RoundTrip { rtt: MS(rtt), base: MS(base), hold: MS(0) });
                    control.on_downstream(AT(now), Downstream { congestion: Some(congestion), ended: Some(ended as u32) });
                    prop_assert!(control.on_feedback(AT(now), forwarded(known)).is_ok());
                    // An old count changes nothing.
                    let window = control.window();
                    prop_assert!(control.on_feedback(AT(now), forwarded(known.wrapping_sub(1))).is_ok());
                    prop_assert_eq!(control.window(), window);
                    let downstream = control.downstream(AT(now));
                    prop_assert!(downstream.congestion.is_none_or(|reported| reported >= congestion), "congestion never decreases towards the sender");
                    if let Some(end) = downstream.ended {
                        prop_assert!(is_first || (ends <= end && end <= reported), "{end} of {reported} ended, {ends} before");
                        ends = end;
                    }
                }
            }
            let after = window(&control);
            prop_assert!(after >= 1 && after.abs_diff(before) <= 1);
            if after != before {
                prop_assert!(!fixed, "a middle never changes its window");
                let through = if path { ended } else { known };
                prop_assert!(through > changed, "the window changes once per round: {through} of {changed}");
                changed = if reports { known } else { sent };
            }
            let outstanding = sent - if path { ended } else { known };
            prop_assert_eq!(control.credit().get(), after.saturating_sub(outstanding));
        }
    }
}
