//! DCTCP and TIMELY over a whole path: a slow relay, and peers that send false reports.

use super::cell::{Hello, Layer, TestCell};
use super::util::{Link, Net, Weather};
use crate::cell::{Cell, CircId, Message, StreamId};
use crate::datagram::DatagramConfig;
use crate::edge_control::{
    Congestion, DctcpConfig, EdgeControlConfig, Negotiation, TimelyConfig, VegasConfig,
};
use crate::scheduler::{SchedulerConfig, VanillaConfig};
use crate::{RelayConfig, Violation};
use penstock_units::{Bytes, Cells, DataRate, Duration};
use std::num::{NonZeroU16, NonZeroU32};

fn config(edge_control: EdgeControlConfig) -> RelayConfig {
    RelayConfig { edge_control, authenticated_sendmes: true, ..RelayConfig::default() }
}

fn dctcp() -> RelayConfig {
    let edge_control = EdgeControlConfig::Dctcp(DctcpConfig::default());
    RelayConfig { ecn_threshold: Some(20), ..config(edge_control) }
}

fn timely() -> RelayConfig {
    config(EdgeControlConfig::Timely(TimelyConfig::default()))
}

/// The initial windows of the two ends, by the congestion controls that they have.
#[test]
fn a_circuit_has_one_of_them_if_its_two_ends_have_the_same() {
    let (stock, vegas) = (RelayConfig::default(), config(EdgeControlConfig::Vegas(VegasConfig::default())));
    for (client, middles, exit, inc) in [
        (dctcp(), stock.clone(), dctcp(), 10),
        (timely(), stock.clone(), timely(), 31),
        (dctcp(), dctcp(), stock.clone(), 100),
        (stock.clone(), timely(), timely(), 100),
        (dctcp(), stock.clone(), timely(), 100),
        (timely(), stock.clone(), vegas.clone(), 100),
        (vegas, stock.clone(), dctcp(), 100),
    ] {
        let mut net = Net::path(3, &middles);
        net.configure(0, client);
        net.configure(3, exit);
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 400_000, 200_000);
        net.drive();
        assert!(net.at(transfer).is_complete());
        let counters = net.nodes[0].relay.counters();
        assert_eq!(counters.sendmes, counters.data_delivered / inc);
        assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    }
}

/// The slow link is behind the middle relay, whose output buffer and sockets hold little.
fn bottleneck(config: &RelayConfig) -> Net {
    let small = VanillaConfig { outbuf_low: Bytes::kib(1), outbuf_high: Bytes::kib(1) };
    let mut net = Net::path(3, &RelayConfig { scheduler: SchedulerConfig::Vanilla(small), ..config.clone() });
    net.set_link(1, 2, Link { rate: DataRate::kib(400), send_buffer: 4 << 10, ..Link::default() });
    net
}

/// Bytes of two downloads in ten seconds, the median of the middle's queue in them and the exit's window after them.
fn download(config: &RelayConfig) -> (u64, u64, u64) {
    let mut net = bottleneck(config);
    let (circuit, received, queue) = net.two_downloads();
    let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
    let window = net.nodes[3].relay.circuit_window(exit).expect("it has an edge").0.get();
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    (received, queue, window)
}

fn over_datagrams(config: RelayConfig) -> RelayConfig {
    RelayConfig { datagrams: Some(DatagramConfig::default()), ..config }
}

#[test]
fn both_keep_queues_short_where_windows_fill_them_and_are_as_fast() {
    let [stock, dctcp, timely] = [RelayConfig::default(), dctcp(), timely()].map(|config| download(&config));
    assert!(stock.1 > 800, "{stock:?}: a thousand cells less what is elsewhere");
    for (name, found) in [("dctcp", dctcp), ("timely", timely)] {
        assert!(found.0 * 100 >= stock.0 * 95, "{name}: {found:?} against {stock:?}");
        assert!(found.1 < 100, "{name}: {found:?} against {stock:?}");
    }
}

/// Over datagrams no queue forms in a circuit: cells wait for the link, and only round trips show it.
#[test]
fn over_datagrams_timely_keeps_its_window_small_and_is_as_fast() {
    let [stock, timely] = [RelayConfig::default(), timely()].map(|config| download(&over_datagrams(config)));
    assert!(timely.0 * 100 >= stock.0 * 95, "{timely:?} against {stock:?}");
    assert!(stock.2 == 1000 && timely.2 < 300, "{timely:?} against {stock:?}");
}

/// Without marks nothing but its greatest window ends DCTCP's growth.
#[test]
fn where_no_relay_marks_dctcp_has_the_greatest_window() {
    let found = download(&RelayConfig { ecn_threshold: None, ..dctcp() });
    assert_eq!(found.2, 1000);
    assert!(found.1 > 800, "{found:?}");
}

/// The exit's own queue is a queue of the circuit like any other.
#[test]
fn an_exit_that_is_the_bottleneck_marks_its_own_cells() {
    let mut net = Net::path(3, &dctcp());
    net.set_link(2, 3, Link { rate: DataRate::kib(200), send_buffer: 4 << 10, ..Link::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    net.transfer(0, circuit, 20_000_000, 0);
    net.drive_for(Duration::from_secs(20));
    let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
    let (window, _) = net.nodes[3].relay.circuit_window(exit).expect("it has an edge");
    assert!(window < Cells::new(200), "{window:?} of a thousand");
}

/// An exit that marks cells that join a nonempty queue, which are most of those that a SENDME releases.
#[test]
fn marks_cross_every_kind_of_hop() {
    for datagrams in [false, true] {
        let config = RelayConfig { ecn_threshold: None, ..dctcp() };
        let config = if datagrams { over_datagrams(config) } else { config };
        let mut net = Net::path(3, &config);
        net.configure(3, RelayConfig { ecn_threshold: Some(0), ..config });
        if datagrams {
            net.weather = Weather { loss: 0.05, late: 0.1, twice: 0.05, ..Weather::default() };
        }
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 1_000_000, 300_000);
        net.drive();
        assert!(net.at(transfer).is_complete());
        let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
        let window = |node: usize, circuit| net.nodes[node].relay.circuit_window(circuit).unwrap().0.get();
        assert!(window(3, exit) <= 30, "{}: the exit heard of marks", window(3, exit));
        assert!(
            window(0, circuit) > 100,
            "{}: and of the client's cells none was marked",
            window(0, circuit)
        );
        assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    }
}

/// A client that is only its cells, on a circuit of one hop with DCTCP and a stream that downloads.
struct Puppet {
    net: Net,
    id: CircId,
    layer: Layer,
}

impl Puppet {
    fn new() -> Self {
        let relay = RelayConfig { authenticated_sendmes: false, ..dctcp() };
        let mut net = Net::path(1, &relay);
        net.build(0, &[1]);
        let id = CircId(NonZeroU32::new(1 << 31 | 77).unwrap());
        let congestion = Negotiation::Asked(Congestion::Dctcp);
        net.inject(0, 1, TestCell::create(id, Hello { key: 7, congestion }));
        assert!(net.drive_until(|net| net.nodes[1].relay.population()[1] == 2));
        let mut puppet = Puppet { net, id, layer: Layer::new(7) };
        let transfer = puppet.net.script(10_000_000, 0);
        puppet.say(Some(StreamId(NonZeroU16::MIN)), Message::Begin(transfer));
        puppet.net.drive();
        assert_eq!(puppet.packaged(), 20, "the first window");
        puppet
    }

    fn say(&mut self, stream: Option<StreamId>, message: Message<TestCell>) {
        let mut cell = TestCell::relay(self.id, stream, message);
        cell.seal(&mut self.layer);
        self.net.inject(0, 1, cell);
    }

    /// Acknowledges ten cells, of which so many are said to be marked; returns why the circuit closed, if it did.
    fn acknowledge(&mut self, marked: u8) -> Option<Violation> {
        self.say(None, Message::Sendme { proof: None, marked });
        self.net.drive();
        self.net.nodes[1].closed.first().map(|(_, reason)| reason.expect("it was not asked to"))
    }

    fn packaged(&self) -> u64 {
        self.net.nodes[1].relay.counters().data_packaged
    }
}

#[test]
fn a_client_that_reports_more_marks_than_cells_loses_only_its_circuit() {
    let mut puppet = Puppet::new();
    assert_eq!(puppet.acknowledge(10), None);
    assert_eq!(puppet.acknowledge(11), Some(Violation::ForgedMarks));
    assert_eq!(puppet.net.nodes[1].relay.population(), [1, 1, 0], "and nothing else closed");
}

/// It gains as much as a client with more circuits: the exit believes it up to the maximum window.
#[test]
fn reporting_no_marks_gives_the_largest_window_and_all_marks_the_smallest() {
    for (marked, expected) in [(0, 1000), (10, 20)] {
        let mut puppet = Puppet::new();
        for sendme in 1..=300 {
            assert_eq!(puppet.acknowledge(marked), None);
            assert!(puppet.packaged() <= sendme * 10 + 1000);
        }
        assert_eq!(puppet.packaged() - 3000, expected);
    }
}

#[test]
fn an_end_without_dctcp_ignores_marks() {
    let run = |ecn_threshold| {
        let mut net = bottleneck(&RelayConfig { ecn_threshold, ..RelayConfig::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 1_000_000, 200_000);
        net.drive();
        assert!(net.at(transfer).is_complete());
        (net.now, (0..4).map(|node| net.nodes[node].relay.counters()).collect::<Vec<_>>())
    };
    assert!(run(Some(0)) == run(None), "every cell that waits is marked");
}
