//! Tests congestion control and XON/XOFF on a whole path, and circuits with only one end that supports them.

use super::cell::{Layer, Piece, TestCell, TestHandshake};
use super::host::Side;
use super::util::{Link, Net};
use crate::cell::{Cell, CircId, Message, StreamId};
use crate::config::{Bandwidth, Limits, Refill};
use crate::edge_control::{
    Congestion, CwndBounds, EdgeControlConfig, Negotiation, VegasConfig, WindowsConfig,
};
use crate::reason::EndReason;
use crate::{CircuitIndex, RelayConfig, Violation};
use penstock_units::{Bytes, Cells, DataRate, Duration};
use proptest::prelude::*;
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};

fn config(edge_control: EdgeControlConfig) -> RelayConfig {
    RelayConfig { edge_control, authenticated_sendmes: true, ..RelayConfig::default() }
}

fn vegas() -> RelayConfig {
    config(EdgeControlConfig::Vegas(VegasConfig::default()))
}

fn increment(inc: u8) -> RelayConfig {
    let sendme_inc = NonZeroU8::new(inc).unwrap();
    let bounds = CwndBounds { sendme_inc, ..VegasConfig::default().bounds };
    config(EdgeControlConfig::Vegas(VegasConfig { bounds, ..VegasConfig::default() }))
}

/// The windows of the client and of the exit before the first transfer.
fn windows(net: &Net, circuit: CircuitIndex) -> [Cells; 2] {
    let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
    let window = |node: usize, circuit| {
        net.nodes[node].relay.circuit_window(circuit).expect("the exit has the circuit").0
    };
    [window(0, circuit), window(3, exit)]
}

#[test]
fn a_circuit_has_congestion_control_if_both_its_ends_support_it() {
    let stock = RelayConfig::default();
    for (client, middles, exit, expected) in [
        (vegas(), stock.clone(), vegas(), [124, 124]),
        (vegas(), vegas(), stock.clone(), [1000, 1000]),
        (stock.clone(), vegas(), vegas(), [1000, 1000]),
    ] {
        let mut net = Net::path(3, &middles);
        net.configure(0, client);
        net.configure(3, exit);
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 400_000, 200_000);
        assert!(net.drive_until(|net| net.at(transfer).connected));
        assert_eq!(windows(&net, circuit), expected.map(Cells::new));
        net.drive();
        assert!(net.at(transfer).is_complete());
        let delivered = net.nodes[0].relay.counters().data_delivered;
        let inc = if expected[0] == 124 { 31 } else { 100 };
        assert_eq!(net.nodes[0].relay.counters().sendmes, delivered / inc);
    }
}

#[test]
fn an_end_keeps_its_windows_if_its_peer_has_no_congestion_control() {
    let fallback = WindowsConfig { circuit_window: 300, ..WindowsConfig::default() };
    let half = VegasConfig { windows: fallback, ..VegasConfig::default() };
    let mut net = Net::path(3, &RelayConfig::default());
    net.configure(3, config(EdgeControlConfig::Vegas(half)));
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 1_000_000, 0);
    assert!(net.drive_until(|net| net.at(transfer).connected));
    assert_eq!(windows(&net, circuit), [1000, 300].map(Cells::new));
    net.drive();
    assert!(net.at(transfer).is_complete());
}

#[test]
fn both_ends_use_the_increment_of_the_exit() {
    for inc in [30, 32] {
        let mut net = Net::path(3, &vegas());
        net.configure(3, increment(inc));
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 1_000_000, 0);
        net.drive();
        assert!(net.at(transfer).is_complete());
        let counters = net.nodes[0].relay.counters();
        assert_eq!(counters.sendmes, counters.data_delivered / u64::from(inc));
    }
}

#[test]
fn circuits_of_any_length_have_congestion_control() {
    for hops in 1..=6 {
        let mut net = Net::path(6, &vegas());
        let circuit = net.build(0, &(1..=hops).collect::<Vec<_>>());
        let transfer = net.transfer(0, circuit, 300_000, 300_000);
        net.drive();
        assert!(net.at(transfer).is_complete());
        for node in [0, hops] {
            let counters = net.nodes[node].relay.counters();
            assert_eq!(counters.sendmes, counters.data_delivered / 31, "{hops} hops");
        }
    }
}

#[test]
fn an_unrequested_answer_closes_the_circuit() {
    let agreed = |inc| Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(inc).unwrap());
    for (client, answer) in [
        // The first hop got no request.
        (vegas(), agreed(31)),
        (RelayConfig::default(), agreed(31)),
        (vegas(), Negotiation::Asked(Congestion::Vegas)),
    ] {
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(0, client);
        net.answer = Some(answer);
        let circuit = net.open_circuit(0, &[1, 2, 3]);
        net.drive();
        assert_eq!(net.nodes[0].closed, [(circuit, Some(Violation::UnwantedAgreement))]);
        assert!(
            (0..4).all(|node| net.nodes[node].relay.population()[1] == 0),
            "all nodes removed the circuit"
        );
    }
    let mut net = Net::path(1, &vegas());
    net.answer = Some(agreed(33));
    let circuit = net.open_circuit(0, &[1]);
    net.drive();
    assert_eq!(net.nodes[0].closed, [(circuit, Some(Violation::UnwantedAgreement))]);
}

/// The slow link follows the middle relay. The exit packages.
fn bottleneck(config: &RelayConfig) -> Net {
    let mut net = Net::path(3, config);
    net.set_link(1, 2, Link { rate: DataRate::kib(500), send_buffer: 16 << 10, ..Link::default() });
    net
}

#[test]
fn vegas_keeps_queues_short_at_the_same_goodput() {
    let [(_, fast, queue), (_, stock, stock_queue)] =
        [vegas(), RelayConfig::default()].map(|config| bottleneck(&config).two_downloads());
    assert!(fast * 100 >= stock * 95, "{fast} against {stock} bytes in ten seconds");
    assert!(queue < 310, "{queue} cells are at most delta");
    assert!(stock_queue > 2 * queue, "the windows allow {stock_queue} cells");
}

/// The reader of one stream stops for ten seconds. Another stream of the circuit continues.
#[test]
fn an_application_that_stops_reading_gets_no_more_than_an_xoff_allows() {
    let mut net = bottleneck(&vegas());
    let circuit = net.build(0, &[1, 2, 3]);
    let [stopped, other] = [3_000_000, 2_000_000].map(|bytes| net.transfer(0, circuit, bytes, 0));
    net.stall(stopped, Side::Client, true);
    net.drive_for(Duration::from_secs(20));
    let waiting = net.at(stopped).download;
    // The data up to the XOFF limit, and the cells of the exit before the XOFF arrived: at most its
    // window, which is below 700 cells here.
    assert!((500 * 488..1200 * 498).contains(&(waiting.sent - waiting.received)), "{waiting:?}");
    assert!(net.at(other).is_complete(), "an XOFF stops only its stream");
    let counts = |net: &Net| (net.nodes[0].relay.counters().xoffs, net.nodes[0].relay.counters().xons);
    assert_eq!(counts(&net), (1, 0));
    net.stall(stopped, Side::Client, false);
    net.drive();
    assert!(net.at(stopped).is_complete(), "all data arrives");
    // One XON answers the XOFF. Each later XON reports 249,000 B that the application read.
    let (xoffs, xons) = counts(&net);
    assert!(xoffs == 1 && (2..=1 + 3_000_000 / 249_000).contains(&xons), "{xons} XONs");
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
}

/// The reader takes 100 kB/s. After the first XOFF, the exit sends at this rate.
#[test]
fn a_slow_application_receives_data_at_its_own_rate() {
    let mut net = Net::path(3, &vegas());
    let refill = Refill { unblock: None, ..Refill::TOR_0_4_9 };
    net.configure(3, RelayConfig { refill, ..vegas() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 20_000_000, 0);
    let (mut paced, mut most) = (0, 0);
    for tick in 0..12_000 {
        net.allow_read(transfer, Side::Client, 2 * 498);
        net.drive_for(Duration::from_millis(10));
        let download = net.at(transfer).download;
        most = most.max(download.sent - download.received);
        if tick > 6000 {
            paced += u32::from(net.nodes[3].relay.lacks_tokens());
        }
    }
    let received = net.at(transfer).download.received;
    assert!((11_800_000..=11_952_000).contains(&received), "{received} bytes in 120 s");
    assert!(most < 1_000_000, "{most} bytes waited at first");
    assert!(paced > 3000, "the exit waits for its bucket: {paced} of 6000 times");
    assert_eq!(net.nodes[0].relay.counters().xoffs, 1);
}

/// The reader alternates for a minute: 400 ms without a read, then a read of all data.
#[test]
fn an_application_that_reads_in_bursts_loses_no_data() {
    let mut net = Net::path(3, &vegas());
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 50_000_000, 30_000_000);
    for _ in 0..75 {
        for (side, stalled) in
            [(Side::Client, true), (Side::Server, true), (Side::Client, false), (Side::Server, false)]
        {
            net.stall(transfer, side, stalled);
            net.drive_for(Duration::from_millis(200));
        }
    }
    net.drive();
    assert!(net.at(transfer).is_complete());
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()), "two honest ends report no violation");
}

#[test]
fn a_lazily_refilled_bucket_keeps_at_least_half_of_its_rate() {
    let rate = DataRate::kib(200);
    let mut net = Net::path(3, &RelayConfig::default());
    let bandwidth = Some(Bandwidth { rate, burst: Bytes::kib(200) });
    net.configure(2, RelayConfig { bandwidth, refill: Refill::TOR_0_4_9, ..RelayConfig::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 100_000_000, 0);
    net.drive_for(Duration::from_secs(10));
    let before = net.nodes[2].relay.counters().written_bytes;
    net.drive_for(Duration::from_secs(60));
    let written = (net.nodes[2].relay.counters().written_bytes - before).get();
    assert!(net.at(transfer).download.received > 0);
    let share = written as f64 / (60.0 * rate.bytes_per_sec() as f64);
    // A check of the bucket that adds one step of at least 16 ms wastes less than a step. Here 85 %
    // remain.
    assert!((0.5..=1.0).contains(&share), "{share}");
}

/// A client that sends individual cells, on a circuit of one hop with congestion control.
struct ManualClient {
    net: Net,
    id: CircId,
    layer: Layer,
}

impl ManualClient {
    fn new(relay: RelayConfig) -> Self {
        let mut net = Net::path(1, &relay);
        net.build(0, &[1]);
        let id = CircId(NonZeroU32::new(1 << 31 | 77).unwrap());
        net.inject(
            0,
            1,
            TestCell::create(id, TestHandshake { key: 7, congestion: Negotiation::Asked(Congestion::Vegas) }),
        );
        assert!(net.drive_until(|net| net.nodes[1].relay.population()[1] == 2));
        ManualClient { net, id, layer: Layer::new(7) }
    }

    fn send(&mut self, stream: Option<u16>, message: Message<TestCell>) {
        let stream = stream.map(|stream| StreamId(NonZeroU16::new(stream).unwrap()));
        let mut cell = TestCell::relay(self.id, stream, message);
        cell.seal(&mut self.layer);
        self.net.inject(0, 1, cell);
    }

    /// Opens stream 1, on which the server sends `download` bytes.
    fn open_first_stream(&mut self, download: u64) -> usize {
        self.open_stream(1, download)
    }

    /// Opens a stream, on which the server sends `download` bytes.
    fn open_stream(&mut self, stream: u16, download: u64) -> usize {
        let transfer = self.net.script(download, 1 << 40);
        self.send(Some(stream), Message::Begin(transfer));
        self.net.drive();
        transfer
    }

    fn closed_for(&mut self) -> Option<Violation> {
        self.net.drive();
        match self.net.nodes[1].closed[..] {
            [] => None,
            [(_, reason)] => Some(reason.expect("the relay closed the circuit for a violation")),
            ref more => panic!("only one circuit may close: {more:?}"),
        }
    }
}

#[test]
fn invalid_flow_control_closes_the_circuit() {
    let xon = || Message::Xon(NonZeroU32::new(9));
    let messages: [Vec<Message<TestCell>>; 5] = [
        vec![Message::Sendme { proof: None, marked: 0 }],
        vec![xon()],
        vec![Message::Xoff, Message::Xoff],
        // 62,000 B are unacknowledged: too few for an XOFF.
        vec![Message::Xoff],
        vec![xon(), xon()],
    ];
    for sequence in messages {
        let mut client = ManualClient::new(vegas());
        client.open_first_stream(10_000_000);
        sequence.into_iter().for_each(|message| client.send(Some(1), message));
        assert_eq!(client.closed_for(), Some(Violation::UnexpectedFlowControl));
        assert_eq!(
            client.net.nodes[1].relay.population(),
            [1, 1, 0],
            "no other circuit and no channel closed"
        );
    }
}

#[test]
fn an_xoff_on_a_circuit_with_windows_closes_it() {
    for message in [Message::Xoff, Message::Xon(None)] {
        let mut client = ManualClient::new(RelayConfig::default());
        client.open_first_stream(10_000_000);
        client.send(Some(1), message);
        assert_eq!(client.closed_for(), Some(Violation::UnexpectedFlowControl));
    }
}

#[test]
fn flow_control_of_unknown_streams_is_ignored() {
    let mut client = ManualClient::new(vegas());
    for _ in 0..300 {
        client.send(Some(9), Message::Xoff);
        client.send(Some(9), Message::Xon(None));
    }
    assert_eq!(client.closed_for(), None);
}

/// A client that ignores an XOFF fills no memory, even with small cells or many streams.
#[test]
fn a_client_that_ignores_an_xoff_fills_no_memory() {
    for (len, streams) in [(498, 1), (1, 1), (498, 4), (1, 7)] {
        let limits = Limits { edge_buffer: 2000, ..Limits::default() };
        let mut client = ManualClient::new(RelayConfig { limits, ..vegas() });
        let transfers: Vec<usize> = (1..=streams).map(|stream| client.open_stream(stream, 0)).collect();
        for transfer in &transfers {
            client.net.stall(*transfer, Side::Server, true);
        }
        let mut send = |cell: u64| {
            let (at, cell) = (cell % u64::from(streams), cell / u64::from(streams));
            let transfer = transfers[at as usize];
            let piece = Piece { transfer, download: false, offset: cell * u64::from(len), len };
            client.send(Some(at as u16 + 1), Message::Data(piece));
        };
        (0..2000).for_each(&mut send);
        send(2000);
        let reason = client.closed_for();
        assert_eq!(reason, Some(Violation::BufferExceeded), "{streams} streams, cells of {len} B");
    }
}

#[test]
fn empty_cells_use_no_buffer() {
    let limits = Limits { edge_buffer: 100, ..Limits::default() };
    let mut client = ManualClient::new(RelayConfig { limits, ..vegas() });
    let transfer = client.open_first_stream(0);
    client.net.stall(transfer, Side::Server, true);
    for _ in 0..1000 {
        client.send(Some(1), Message::Data(Piece { transfer, download: false, offset: 0, len: 0 }));
    }
    assert_eq!(client.closed_for(), None);
}

/// Data that the application took, and data of closed streams, free the edge buffer.
#[test]
fn payloads_use_the_edge_buffer_until_they_are_read() {
    let limits = Limits { edge_buffer: 1000, ..Limits::default() };
    let mut client = ManualClient::new(RelayConfig { limits, ..vegas() });
    for stream in 1..=20 {
        let transfer = client.open_stream(stream, 0);
        client.net.stall(transfer, Side::Server, true);
        for cell in 0..900 {
            let piece = Piece { transfer, download: false, offset: cell * 498, len: 498 };
            client.send(Some(stream), Message::Data(piece));
        }
        client.send(Some(stream), Message::End(EndReason::DONE));
        client.net.stall(transfer, Side::Server, false);
        client.net.drive();
    }
    assert_eq!(client.closed_for(), None);
}

#[test]
fn an_increment_above_the_minimum_window_stalls_no_circuit() {
    let bounds = CwndBounds { cwnd_init: 31, cwnd_min: 31, ..VegasConfig::default().bounds };
    let tight = VegasConfig { bounds, ..VegasConfig::default() };
    let mut net = Net::path(3, &vegas());
    net.configure(0, config(EdgeControlConfig::Vegas(tight)));
    net.configure(3, increment(32));
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 0, 100_000);
    net.drive_for(Duration::from_secs(60));
    assert!(net.at(transfer).is_complete(), "{:?}", net.at(transfer));
}

/// A middle relay closes the circuit of a sender that ignores windows.
#[test]
fn a_circuit_with_2500_cells_in_a_queue_is_closed() {
    use super::unlimited::Unlimited;
    use crate::Factory;
    use crate::edge_control::{EdgeControl, StreamControl};
    let unlimited = EdgeControlConfig::Custom {
        circuit: Factory::<dyn EdgeControl>::new(|| Box::new(Unlimited(false))),
        stream: Factory::<dyn StreamControl>::new(|| Box::new(Unlimited(false))),
    };
    let mut net = bottleneck(&vegas());
    net.configure(0, RelayConfig { edge_control: unlimited.clone(), ..RelayConfig::default() });
    net.configure(3, RelayConfig { edge_control: unlimited, ..RelayConfig::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    net.transfer(0, circuit, 10_000_000, 0);
    let middle = net.circuit_at(0, circuit, 2).expect("the circuit is there");
    net.drive();
    assert_eq!(net.nodes[2].closed, [(middle, Some(Violation::QueueExceeded))]);
    assert_eq!(net.nodes[2].peak_queue[1], 2500);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any messages of a client on a circuit with congestion control cause no panic and close at
    /// most that circuit. The client acknowledges its cells, so that streams live long enough for
    /// XOFF and XON.
    #[test]
    fn no_message_of_a_client_causes_a_panic(
        words in proptest::collection::vec((0u8..12, 1u16..4, 0u32..6), 1..250),
        lazy: bool,
    ) {
        let refill = if lazy { Refill::TOR_0_4_9 } else { Refill::default() };
        let mut client = ManualClient::new(RelayConfig { refill, authenticated_sendmes: false, ..vegas() });
        // The transfer of each stream, and the position of its upload.
        let mut open = [None; 4];
        let mut acknowledged = 0;
        for (word, stream, number) in words {
            let place = usize::from(stream);
            match (word, &mut open[place]) {
                (0, _) => client.send(Some(stream), Message::Xoff),
                (1 | 2, _) => {
                    let rate = [0, 1, 2, 300, 100_000, u32::MAX][number as usize];
                    client.send(Some(stream), Message::Xon(NonZeroU32::new(rate)));
                }
                (3, _) if number == 0 => client.send(Some(stream), Message::Sendme { proof: None, marked: 0 }),
                (4, Some(_)) => {
                    client.send(Some(stream), Message::End(EndReason::DONE));
                    open[place] = None;
                }
                (5 | 6, none @ None) => {
                    *none = Some((client.open_stream(stream, 3_000_000), 0));
                }
                (7, Some((transfer, sent))) => {
                    for _ in 0..number * 150 {
                        let piece = Piece { transfer: *transfer, download: false, offset: *sent, len: 498 };
                        *sent += 498;
                        client.send(Some(stream), Message::Data(piece));
                    }
                }
                (8, Some((transfer, _))) => client.net.stall(*transfer, Side::Server, number > 2),
                _ => {
                    let due = client.net.nodes[1].relay.counters().data_packaged / 31 - acknowledged;
                    (0..due).for_each(|_| client.send(None, Message::Sendme { proof: None, marked: 0 }));
                    acknowledged += due;
                }
            }
            client.net.drive_for(Duration::from_millis(u64::from(number * number * 10)));
        }
        client.closed_for();
    }
}
