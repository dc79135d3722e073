//! Tests DCTCP and TIMELY on a whole path, with a slow relay and with peers that send false reports.

use super::cell::{Layer, TestCell, TestHandshake};
use super::util::{Impairments, Link, Net};
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

/// The initial windows of client and exit, for each combination of congestion control at the two
/// ends.
#[test]
fn both_ends_need_the_same_congestion_control() {
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

/// The slow link follows the middle relay, which has a small output buffer and small socket
/// buffers.
fn bottleneck(config: &RelayConfig) -> Net {
    let small = VanillaConfig { outbuf_low: Bytes::kib(1), outbuf_high: Bytes::kib(1) };
    let mut net = Net::path(3, &RelayConfig { scheduler: SchedulerConfig::Vanilla(small), ..config.clone() });
    net.set_link(1, 2, Link { rate: DataRate::kib(400), send_buffer: 4 << 10, ..Link::default() });
    net
}

/// Runs two downloads for ten seconds. Returns their bytes, the median of the middle's queue, and the exit's window at
/// the end.
fn download(config: &RelayConfig) -> (u64, u64, u64) {
    let mut net = bottleneck(config);
    let (circuit, received, queue) = net.two_downloads();
    let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
    let window = net.nodes[3].relay.circuit_window(exit).expect("the exit has the circuit").0.get();
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    (received, queue, window)
}

fn over_datagrams(config: RelayConfig) -> RelayConfig {
    RelayConfig { datagrams: Some(DatagramConfig::default()), ..config }
}

#[test]
fn dctcp_and_timely_keep_queues_short_at_the_same_goodput() {
    let [stock, dctcp, timely] = [RelayConfig::default(), dctcp(), timely()].map(|config| download(&config));
    assert!(stock.1 > 800, "{stock:?}: most of the window waits at the middle");
    for (name, found) in [("dctcp", dctcp), ("timely", timely)] {
        assert!(found.0 * 100 >= stock.0 * 95, "{name}: {found:?} against {stock:?}");
        assert!(found.1 < 100, "{name}: {found:?} against {stock:?}");
    }
}

/// Over datagrams, TIMELY keeps its window small. Cells wait for the link and not in a circuit queue, so only the RTT
/// shows this delay.
#[test]
fn timely_over_datagrams_keeps_its_window_small_at_the_same_goodput() {
    let [stock, timely] = [RelayConfig::default(), timely()].map(|config| download(&over_datagrams(config)));
    assert!(timely.0 * 100 >= stock.0 * 95, "{timely:?} against {stock:?}");
    assert!(stock.2 == 1000 && timely.2 < 300, "{timely:?} against {stock:?}");
}

/// Without marks, only the maximum window ends the growth of DCTCP's window.
#[test]
fn dctcp_without_marks_reaches_the_maximum_window() {
    let found = download(&RelayConfig { ecn_threshold: None, ..dctcp() });
    assert_eq!(found.2, 1000);
    assert!(found.1 > 800, "{found:?}");
}

/// An exit marks cells in its own queue, too.
#[test]
fn an_exit_that_is_the_bottleneck_marks_its_own_cells() {
    let mut net = Net::path(3, &dctcp());
    net.set_link(2, 3, Link { rate: DataRate::kib(200), send_buffer: 4 << 10, ..Link::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    net.transfer(0, circuit, 20_000_000, 0);
    net.drive_for(Duration::from_secs(20));
    let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
    let (window, _) = net.nodes[3].relay.circuit_window(exit).expect("the exit has the circuit");
    assert!(window < Cells::new(200), "{window:?} of a thousand");
}

/// The exit marks cells that join a nonempty queue. Most cells that a SENDME releases join such a queue.
#[test]
fn every_type_of_hop_carries_marks() {
    for datagrams in [false, true] {
        let config = RelayConfig { ecn_threshold: None, ..dctcp() };
        let config = if datagrams { over_datagrams(config) } else { config };
        let mut net = Net::path(3, &config);
        net.configure(3, RelayConfig { ecn_threshold: Some(0), ..config });
        if datagrams {
            net.impairments =
                Impairments { loss: 0.05, delayed: 0.1, duplicated: 0.05, ..Impairments::default() };
        }
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 1_000_000, 300_000);
        net.drive();
        assert!(net.at(transfer).is_complete());
        let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
        let window = |node: usize, circuit| net.nodes[node].relay.circuit_window(circuit).unwrap().0.get();
        assert!(window(3, exit) <= 30, "{}: marks reach the exit", window(3, exit));
        assert!(window(0, circuit) > 100, "{}: no cell of the client is marked", window(0, circuit));
        assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    }
}

/// A client that sends individual cells, on a circuit of one hop with DCTCP and one download.
struct ManualClient {
    net: Net,
    id: CircId,
    layer: Layer,
}

impl ManualClient {
    fn new() -> Self {
        let relay = RelayConfig { authenticated_sendmes: false, ..dctcp() };
        let mut net = Net::path(1, &relay);
        net.build(0, &[1]);
        let id = CircId(NonZeroU32::new(1 << 31 | 77).unwrap());
        let congestion = Negotiation::Asked(Congestion::Dctcp);
        net.inject(0, 1, TestCell::create(id, TestHandshake { key: 7, congestion }));
        assert!(net.drive_until(|net| net.nodes[1].relay.population()[1] == 2));
        let mut client = ManualClient { net, id, layer: Layer::new(7) };
        let transfer = client.net.script(10_000_000, 0);
        client.send(Some(StreamId(NonZeroU16::MIN)), Message::Begin(transfer));
        client.net.drive();
        assert_eq!(client.packaged(), 20, "the first window");
        client
    }

    fn send(&mut self, stream: Option<StreamId>, message: Message<TestCell>) {
        let mut cell = TestCell::relay(self.id, stream, message);
        cell.seal(&mut self.layer);
        self.net.inject(0, 1, cell);
    }

    /// Acknowledges ten cells and reports `marked` of them as marked. Returns the reason if the
    /// circuit closed.
    fn acknowledge(&mut self, marked: u8) -> Option<Violation> {
        self.send(None, Message::Sendme { proof: None, marked });
        self.net.drive();
        self.net.nodes[1]
            .closed
            .first()
            .map(|(_, reason)| reason.expect("the relay closed the circuit for a violation"))
    }

    fn packaged(&self) -> u64 {
        self.net.nodes[1].relay.counters().data_packaged
    }
}

#[test]
fn a_client_that_reports_more_marks_than_cells_loses_only_its_circuit() {
    let mut client = ManualClient::new();
    assert_eq!(client.acknowledge(10), None);
    assert_eq!(client.acknowledge(11), Some(Violation::ForgedMarks));
    assert_eq!(client.net.nodes[1].relay.population(), [1, 1, 0], "no other circuit and no channel closed");
}

/// The exit trusts a client that reports no marks, but only up to the maximum window.
#[test]
fn no_reported_marks_give_the_largest_window_and_all_marks_the_smallest() {
    for (marked, expected) in [(0, 1000), (10, 20)] {
        let mut client = ManualClient::new();
        for sendme in 1..=300 {
            assert_eq!(client.acknowledge(marked), None);
            assert!(client.packaged() <= sendme * 10 + 1000);
        }
        assert_eq!(client.packaged() - 3000, expected);
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
    assert!(run(Some(0)) == run(None), "marks do not change the window");
}
