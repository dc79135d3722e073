//! Tests one custom algorithm for each trait. These algorithms use only the public interface.

use super::unlimited::Unlimited;
use super::util::{Link, Net};
use crate::cell::PeerId;
use crate::channel_map::{ChannelMap, ChannelMapConfig};
use crate::circuit_policy::{CircuitPolicy, CircuitPolicyConfig, Priority, Weight};
use crate::config::Bandwidth;
use crate::edge_control::{EdgeControl, EdgeControlConfig, Signals, StreamControl, VegasConfig};
use crate::hop_control::{
    DatagramHop, Feedback, HopControl, HopControlConfig, HopOffer, Neighbour, Side, Source,
};
use crate::keys::CircuitKey;
use crate::scheduler::{Scheduler, SchedulerConfig, SchedulerContext};
use crate::throttle::{ClientBuckets, Throttle, ThrottleConfig, ThrottleSignals};
use crate::{ChannelKey, ClientKey, Direction, Factory, RelayConfig, Violation};
use penstock_units::{Bytes, Cells, DataRate, Duration, Instant};
use std::collections::BTreeSet;

/// Always serves the oldest circuit first, and checks how the relay calls it.
#[derive(Debug, Default)]
struct OldestFirst(BTreeSet<CircuitKey>);

impl CircuitPolicy for OldestFirst {
    fn on_ready(&mut self, _now: Instant, circuit: CircuitKey) {
        self.0.insert(circuit);
    }
    fn on_blocked(&mut self, _now: Instant, circuit: CircuitKey) {
        self.0.remove(&circuit);
    }
    fn on_flush(&mut self, _now: Instant, circuit: CircuitKey, cells: Cells, _weight: Weight) {
        assert_eq!(self.0.first(), Some(&circuit), "the relay serves only the head");
        assert_eq!(cells.get(), 1);
    }
    fn on_close(&mut self, circuit: CircuitKey) {
        self.0.remove(&circuit);
    }
    fn head(&self, _now: Instant) -> Option<(Priority, CircuitKey)> {
        self.0.first().map(|circuit| (Priority(circuit.index() as f64), *circuit))
    }
}

#[test]
fn a_custom_policy_decides_which_circuit_sends() {
    let circuit_policy =
        CircuitPolicyConfig::Custom(Factory::<dyn CircuitPolicy>::new(|| Box::new(OldestFirst::default())));
    let config = RelayConfig { circuit_policy, ..RelayConfig::default() };
    let mut net = Net::path(3, &RelayConfig::default());
    net.configure(2, config);
    net.set_link(1, 2, Link { rate: DataRate::kib(100), send_buffer: 8 << 10, ..Link::default() });
    let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
    let transfers = circuits.map(|circuit| [0; 3].map(|_| net.transfer(0, circuit, 500_000, 0)));
    let done = |net: &Net, circuit: usize| transfers[circuit].iter().all(|at| net.at(*at).is_complete());
    assert!(net.drive_until(|net| done(net, 0)));
    let second: u64 = transfers[1].iter().map(|at| net.at(*at).download.received).sum();
    assert!(second < 300_000, "the oldest circuit goes first, the other got {second} bytes");
    net.drive();
    assert!(done(&net, 1));
}

/// A fixed window, with a SENDME for every ten cells.
#[derive(Debug)]
struct FixedWindow {
    window: u64,
    package: u64,
    unacknowledged: u64,
}

impl EdgeControl for FixedWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.package)
    }
    fn on_package(&mut self, _now: Instant, _signals: Signals) -> bool {
        self.package -= 1;
        self.package.is_multiple_of(10)
    }
    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        self.unacknowledged = (self.unacknowledged + 1) % 10;
        Ok(self.unacknowledged == 0)
    }
    fn on_sendme(&mut self, _now: Instant, _signals: Signals) -> Result<(), Violation> {
        self.package += 10;
        if self.package > self.window { Err(Violation::UnexpectedSendme) } else { Ok(()) }
    }
    fn window(&self) -> Cells {
        Cells::new(self.window)
    }
}

#[test]
fn a_custom_edge_control_limits_outstanding_cells() {
    for window in [20, 40] {
        let edge_control = EdgeControlConfig::Custom {
            circuit: Factory::<dyn EdgeControl>::new(move || {
                Box::new(FixedWindow { window, package: window, unacknowledged: 0 })
            }),
            stream: Factory::<dyn StreamControl>::new(|| Box::new(Unlimited(false))),
        };
        let mut net = Net::path(3, &RelayConfig { edge_control, ..RelayConfig::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        let transfers = [0; 3].map(|_| net.transfer(0, circuit, 100_000, 50_000));
        let mut most = 0;
        while net.step() {
            let (client, exit) = (net.nodes[0].relay.counters(), net.nodes[3].relay.counters());
            most = most.max(exit.data_packaged - client.sendmes * 10);
            assert!(client.data_packaged - exit.sendmes * 10 <= window);
        }
        assert_eq!(most, window, "the window is fully used");
        assert!(transfers.iter().all(|at| net.at(*at).is_complete()));
    }
}

/// A window of forty cells, or ten after a marked cell. A SENDME for every ten cells reports their
/// marks.
#[derive(Debug)]
struct MarkedWindow {
    window: u64,
    in_flight: u64,
    unacknowledged: u64,
    marks: u8,
}

impl EdgeControl for MarkedWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.window.saturating_sub(self.in_flight))
    }
    fn on_package(&mut self, _now: Instant, signals: Signals) -> bool {
        assert_eq!(signals.marked, 0, "only SENDMEs report marks");
        self.in_flight += 1;
        self.in_flight.is_multiple_of(10)
    }
    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        self.unacknowledged = (self.unacknowledged + 1) % 10;
        assert!(self.marks <= 10, "the relay takes the marks of each SENDME once");
        Ok(self.unacknowledged == 0)
    }
    fn on_mark(&mut self) {
        self.marks += 1;
    }
    fn take_marks(&mut self) -> u8 {
        assert_eq!(self.unacknowledged, 0, "the relay takes marks only for a SENDME");
        std::mem::take(&mut self.marks)
    }
    fn on_sendme(&mut self, _now: Instant, signals: Signals) -> Result<(), Violation> {
        self.in_flight = self.in_flight.checked_sub(10).ok_or(Violation::UnexpectedSendme)?;
        self.window = if signals.marked > 0 { 10 } else { 40 };
        Ok(())
    }
    fn window(&self) -> Cells {
        Cells::new(self.window)
    }
}

#[test]
fn a_custom_edge_control_receives_marks() {
    for (ecn_threshold, expected) in [(None, 40), (Some(20), 40), (Some(5), 10)] {
        let edge_control = EdgeControlConfig::Custom {
            circuit: Factory::<dyn EdgeControl>::new(|| {
                Box::new(MarkedWindow { window: 10, in_flight: 0, unacknowledged: 0, marks: 0 })
            }),
            stream: Factory::<dyn StreamControl>::new(|| Box::new(Unlimited(false))),
        };
        let mut net = Net::path(3, &RelayConfig { edge_control, ecn_threshold, ..RelayConfig::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 100_000, 0);
        net.drive();
        assert!(net.at(transfer).is_complete());
        let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
        let window = net.nodes[3].relay.circuit_window(exit).expect("the exit has the circuit").0;
        assert_eq!(window.get(), expected, "marks above {ecn_threshold:?} cells");
    }
}

/// A simple hop control with credits, like N23 with a constant N3.
#[derive(Debug)]
struct Credit {
    reports: bool,
    limit: u64,
    sent: u64,
    forwarded: u64,
    advertised: u64,
}

const N2: u64 = 10;
const N3: u64 = 30;

impl Credit {
    fn forward(&mut self) -> Option<Feedback> {
        self.forwarded += 1;
        if !self.reports || self.forwarded - self.advertised < N2 {
            return None;
        }
        self.advertised = self.forwarded;
        let forwarded = self.forwarded as u32;
        // The relay sets the direction.
        Some(Feedback { direction: Direction::Forward, forwarded, allowance: (N2 + N3) as u32 })
    }
}

impl DatagramHop for Credit {}

impl HopControl for Credit {
    fn on_neighbour(&mut self, neighbour: Neighbour) {
        assert_eq!(neighbour.agreed, Some(HopOffer::Custom(23)));
        match neighbour.side {
            Side::Before => self.reports = true,
            Side::After => self.limit = N2 + N3,
        }
    }
    fn credit(&self) -> Cells {
        Cells::new(self.limit.checked_sub(self.sent).expect("credit is never negative"))
    }
    fn on_received(&mut self, _now: Instant) -> Result<(), Violation> {
        assert!(self.reports, "a cell comes from a known neighbour");
        Ok(())
    }
    fn on_sent(&mut self, _now: Instant, source: Source) -> Option<Feedback> {
        self.sent += 1;
        assert!(self.sent <= self.limit, "the relay sends nothing without credit");
        if source == Source::Before { self.forward() } else { None }
    }
    fn on_delivered(&mut self, _now: Instant) -> Option<Feedback> {
        self.forward()
    }
    fn on_feedback(&mut self, _now: Instant, feedback: Feedback) -> Result<(), Violation> {
        self.limit = self.limit.max(u64::from(feedback.forwarded) + u64::from(feedback.allowance));
        Ok(())
    }
    fn edge_queue_limit(&self) -> Option<Cells> {
        Some(Cells::new(N2 + N3))
    }
}

fn credits() -> RelayConfig {
    let edge_control = EdgeControlConfig::Custom {
        circuit: Factory::<dyn EdgeControl>::new(|| Box::new(Unlimited(false))),
        stream: Factory::<dyn StreamControl>::new(|| Box::new(Unlimited(false))),
    };
    let control = Factory::<dyn HopControl>::new(|| {
        Box::new(Credit { reports: false, limit: 0, sent: 0, forwarded: 0, advertised: 0 })
    });
    let hop_control = HopControlConfig::Custom { control, offer: 23, delay: None };
    RelayConfig { hop_control, edge_control, ..RelayConfig::default() }
}

/// Like G-20 to G-22 and G-24: without windows, the credits bound every queue.
#[test]
fn a_custom_hop_control_bounds_every_queue_by_its_credit() {
    for bottleneck in [(0, 1), (1, 2), (2, 3)] {
        let mut net = Net::path(3, &credits());
        let (near, far) = bottleneck;
        net.set_link(near, far, Link { rate: DataRate::kib(60), send_buffer: 4 << 10, ..Link::default() });
        let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
        for circuit in circuits {
            (0..2).for_each(|_| {
                net.transfer(0, circuit, 300_000, 150_000);
            });
        }
        net.drive();
        assert!(
            (0..net.transfers()).all(|at| net.at(at).is_complete()),
            "every cell arrives behind {bottleneck:?}"
        );
        for node in 0..4 {
            let peak = net.nodes[node].peak_queue;
            // The exit's edge queue has one more cell: a CONNECTED does not wait for space.
            let most = N2 + N3 + u64::from(node == 3);
            assert!(peak.iter().all(|cells| *cells <= most), "{bottleneck:?}: {peak:?} at node {node}");
        }
    }
}

/// Vegas uses the credit of the hop. SENDMEs and a CONNECTED wait in addition to the cells that
/// have credit.
#[test]
fn congestion_control_composes_with_a_custom_hop_control() {
    let vegas = EdgeControlConfig::Vegas(VegasConfig::default());
    let mut net = Net::path(3, &RelayConfig { edge_control: vegas, ..credits() });
    net.set_link(1, 2, Link { rate: DataRate::kib(60), send_buffer: 4 << 10, ..Link::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfers = [0; 2].map(|_| net.transfer(0, circuit, 300_000, 150_000));
    net.drive();
    assert!(transfers.iter().all(|at| net.at(*at).is_complete()));
    let sendmes = net.nodes[0].relay.circuit_window(circuit).expect("the exit has the circuit").0.get() / 31;
    for node in 0..4 {
        let peak = net.nodes[node].peak_queue;
        assert!(peak.iter().all(|cells| *cells <= N2 + N3 + 1 + sendmes), "{peak:?} at node {node}");
    }
}

/// Writes one cell every ten milliseconds to each channel, even if the kernel has space for more.
#[derive(Debug, Default)]
struct FixedInterval {
    pending: BTreeSet<ChannelKey>,
    due: Option<Instant>,
}

const INTERVAL: Duration = Duration::from_millis(10);

impl Scheduler for FixedInterval {
    fn on_ready(&mut self, now: Instant, channel: ChannelKey, _context: &mut dyn SchedulerContext) {
        self.pending.insert(channel);
        self.due.get_or_insert(now + INTERVAL);
    }
    fn on_writable(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        context.want_writable(channel, false);
        self.on_ready(now, channel, context);
    }
    fn on_refill(&mut self, now: Instant, channel: ChannelKey, context: &mut dyn SchedulerContext) {
        self.on_ready(now, channel, context);
    }
    fn on_timer(&mut self, now: Instant, context: &mut dyn SchedulerContext) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        for channel in std::mem::take(&mut self.pending) {
            assert!(context.socket_info(channel).queued <= context.socket_info(channel).capacity);
            if context.outbuf(channel) == Bytes::ZERO {
                context.move_cell(channel);
            }
            let flushed = context.flush(channel, Bytes::new(512));
            if flushed.refused {
                context.want_writable(channel, true);
            } else if context.outbuf(channel) > Bytes::ZERO || context.head(channel).is_some() {
                self.on_ready(now, channel, context);
            }
        }
    }
    fn on_close(&mut self, channel: ChannelKey) {
        self.pending.remove(&channel);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

#[test]
fn a_custom_scheduler_decides_when_channels_write() {
    let config = RelayConfig {
        scheduler: SchedulerConfig::Custom(Factory::<dyn Scheduler>::new(|| {
            Box::new(FixedInterval::default())
        })),
        ..RelayConfig::default()
    };
    let mut net = Net::path(3, &RelayConfig::default());
    net.configure(2, config);
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 500_000, 10_000);
    let start = net.now;
    net.drive();
    assert!(net.at(transfer).is_complete());
    let intervals = (net.now - start).as_nanos() / INTERVAL.as_nanos();
    assert!((1000..1200).contains(&intervals), "a thousand cells in {intervals} intervals");
    assert!(net.nodes[2].host.writes.iter().all(|write| write.ids.len() <= 1));
}

/// Limits every client to 20 KiB/s, from the tenth second on.
#[derive(Debug, Default)]
struct DelayedRate(bool);

impl Throttle for DelayedRate {
    fn on_refill(&mut self, now: Instant, signals: &ThrottleSignals<'_>) {
        self.0 = now >= Instant::from_secs(10);
        assert_eq!((signals.clients.len(), signals.relays), (2, 1), "two clients and one relay");
        assert_eq!(signals.bandwidth, Some(DataRate::kib(200)));
    }
    fn rate(&self, _client: ClientKey) -> Option<DataRate> {
        self.0.then_some(DataRate::kib(20))
    }
    fn on_close(&mut self, _client: ClientKey) {}
}

#[test]
fn a_custom_throttle_sets_the_rate_of_clients() {
    let own = Bandwidth { rate: DataRate::kib(200), burst: Bytes::kib(200) };
    let config = RelayConfig {
        bandwidth: Some(own),
        client_buckets: ClientBuckets { burst: Bytes::kib(200), ..ClientBuckets::default() },
        throttle: ThrottleConfig::Custom(Factory::<dyn Throttle>::new(|| Box::new(DelayedRate::default()))),
        ..RelayConfig::default()
    };
    let mut net = Net::path(3, &RelayConfig::default());
    net.configure(1, config);
    assert!(net.nodes[1].relay.poll_timeout().is_some(), "the relay calls the throttle at every refill");
    let second = net.add(true, RelayConfig::default());
    let circuit = net.build(0, &[1, 2, 3]);
    net.build(second, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 100_000_000, 0);
    let received = |net: &Net| net.at(transfer).download.received / 1024;
    net.drive_for(Duration::from_secs(9));
    let before = received(&net);
    assert!((1600..2000).contains(&before), "{before} KiB");
    net.drive_for(Duration::from_secs(6));
    let between = received(&net);
    net.drive_for(Duration::from_secs(20));
    let after = (received(&net) - between) / 20;
    assert!((18..=20).contains(&after), "{after} KiB/s");
}

/// Fills each channel with `most` circuits, in the order in which the channels opened.
#[derive(Debug)]
struct FilledChannels {
    most: usize,
    circuits: std::cell::Cell<usize>,
}

impl ChannelMap for FilledChannels {
    fn choose(&self, _peer: PeerId, existing: &[ChannelKey]) -> Option<ChannelKey> {
        let before = self.circuits.replace(self.circuits.get() + 1);
        existing.get(before / self.most).copied()
    }
}

#[test]
fn a_custom_channel_map_decides_which_channel_a_circuit_takes() {
    let channels = |most: usize| {
        let crowd =
            Factory::<dyn ChannelMap>::new(move || Box::new(FilledChannels { most, circuits: 0.into() }));
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(
            0,
            RelayConfig { channel_map: ChannelMapConfig::Custom(crowd), ..RelayConfig::default() },
        );
        (0..4).for_each(|_| _ = net.build(0, &[1, 2, 3]));
        net.nodes[0].relay.population()[0]
    };
    assert_eq!([1, 2, 3, 4].map(channels), [4, 2, 2, 1]);
}
