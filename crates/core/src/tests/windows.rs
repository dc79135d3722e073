//! Windows on a whole path (G-10, G-11, G-12, G-14).

use super::util::{Link, Net};
use crate::edge_control::{EdgeControlConfig, WindowsConfig};
use crate::{CircuitIndex, Direction, RelayConfig};
use penstock_units::{DataRate, Duration};

fn windows(circuit_window: u32, sendme_bug_101: bool) -> RelayConfig {
    let windows = WindowsConfig { circuit_window, sendme_bug_101, ..WindowsConfig::default() };
    RelayConfig { edge_control: EdgeControlConfig::Windows(windows), ..RelayConfig::default() }
}

/// Three relays. The exit has `window`, and `bug` says whether the client has the 101 bug.
fn path(window: u32, bug: bool) -> Net {
    let mut net = Net::path(3, &windows(window, false));
    net.configure(0, windows(1000, bug));
    net
}

#[test]
fn sendmes_follow_received_cells_and_the_window_limits_outstanding_cells() {
    for (window, bug, streams) in
        [(1000, false, 4), (1000, true, 4), (100, false, 1), (101, true, 2), (550, false, 3)]
    {
        let mut net = path(window, bug);
        let circuit = net.build(0, &[1, 2, 3]);
        let transfers: Vec<_> = (0..streams).map(|_| net.transfer(0, circuit, 1_000_000, 0)).collect();
        let mut most = 0;
        while net.step() {
            let (client, exit) = (net.nodes[0].relay.counters(), net.nodes[3].relay.counters());
            let received = client.data_delivered.saturating_sub(bug.into());
            assert_eq!(client.sendmes, received / 100, "{window} {bug}");
            let outstanding = exit.data_packaged - 100 * client.sendmes;
            assert!(outstanding <= window.into(), "{outstanding} of {window}");
            most = most.max(outstanding);
        }
        assert_eq!(most, window.into(), "the window is fully used");
        assert!(transfers.iter().all(|transfer| net.at(*transfer).is_complete()));
    }
}

/// Downloads 3 MB over one stream. Returns the highest number of outstanding bytes.
fn most_outstanding(net: &mut Net) -> u64 {
    net.link.latency = Duration::from_millis(100);
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 3_000_000, 0);
    let mut most = 0;
    while net.step() {
        let download = net.at(transfer).download;
        most = most.max(download.sent - download.received);
    }
    assert!(net.at(transfer).is_complete());
    most
}

#[test]
fn a_stream_window_limits_one_stream() {
    let mut net = path(1000, false);
    assert_eq!(most_outstanding(&mut net), 500 * 498, "exactly five hundred cells are outstanding");
}

/// Without stream windows, one stream can use the whole circuit window.
#[test]
fn a_circuit_window_may_be_the_only_window() {
    let only = WindowsConfig { stream_window: None, ..WindowsConfig::default() };
    let config = RelayConfig { edge_control: EdgeControlConfig::Windows(only), ..RelayConfig::default() };
    let mut net = Net::path(3, &config);
    assert_eq!(most_outstanding(&mut net), 1000 * 498, "exactly a thousand cells are outstanding");
}

/// G-11: a package window of 100 waits forever for a SENDME that comes after 101 cells.
#[test]
fn a_window_of_100_deadlocks_with_the_101_bug_and_101_does_not() {
    let delivered = |window, bug| {
        let mut net = path(window, bug);
        let circuit = net.build(0, &[1, 2, 3]);
        net.transfer(0, circuit, 400_000, 0);
        net.drive();
        net.nodes[0].relay.counters().data_delivered
    };
    assert_eq!(delivered(100, true), 100);
    let all = 400_000u64.div_ceil(498);
    assert_eq!(delivered(101, true), all);
    assert_eq!(delivered(100, false), all);
}

/// G-12: if the window is the only limit, the throughput is between four fifths of the window per round trip and the
/// whole window per round trip.
#[test]
fn throughput_is_the_window_over_the_round_trip() {
    for window in [100, 300, 500] {
        let mut net = path(window, false);
        net.link = Link { latency: Duration::from_millis(50), rate: DataRate::mib(100), ..Link::default() };
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 20_000_000, 0);
        net.drive_for(Duration::from_secs(2));
        let before = net.at(transfer).download.received;
        net.drive_for(Duration::from_secs(6));
        let rate = (net.at(transfer).download.received - before) as f64 / 6.0;
        let round_trip = 0.3;
        let bound = f64::from(window) * 498.0 / round_trip;
        let one_window = f64::from(window) * 498.0 / 6.0;
        assert!(rate <= bound + one_window, "{window}: {rate} of {bound}");
        assert!(rate >= 0.8 * bound, "{window}: {rate} of {bound}");
    }
}

/// G-14: behind a slow link, the middle's queue grows up to the window.
#[test]
fn the_circuit_queue_of_a_middle_never_exceeds_the_circuit_window() {
    for (window, streams) in [(1000, 4), (500, 4), (100, 1), (100, 4)] {
        let mut net = path(window, false);
        net.set_link(1, 2, Link { rate: DataRate::kib(40), send_buffer: 4 << 10, ..Link::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        for _ in 0..streams {
            net.transfer(0, circuit, 1_000_000, 0);
        }
        net.drive_for(Duration::from_secs(30));
        let peak = net.nodes[2].peak_queue[Direction::Backward as usize];
        assert!(peak <= window.into(), "{peak} of {window}");
        // The other cells wait in the output buffer, in two socket buffers and on the link.
        assert!(peak + 64 + 8 + 120 >= window.into(), "{peak} of {window}");
        net.drive();
    }
}

#[test]
fn an_edge_queue_fills_to_256_cells_and_resumes_at_64() {
    let mut net = path(1000, false);
    net.set_link(2, 3, Link { rate: DataRate::kib(40), send_buffer: 4 << 10, ..Link::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 1_800_000, 0);
    let (mut full, mut refills) = (false, 0);
    let mut before = 0;
    while net.step() {
        let exit = &net.nodes[3].relay;
        let packaged = exit.counters().data_packaged;
        let queue =
            exit.circuit_queue(CircuitIndex::first(0), Direction::Backward).map_or(0, |cells| cells.get());
        if full && packaged > before {
            // In the call that resumes reading, the queue fell to 64 cells or below.
            let low = queue - (packaged - before);
            assert!(low <= 64, "the edge resumes at {low}");
            full = false;
            refills += 1;
        }
        full |= queue >= 256;
        before = packaged;
    }
    let peak = net.nodes[3].peak_queue[Direction::Backward as usize];
    assert!((256..=257).contains(&peak), "{peak}");
    assert!(refills >= 5, "{refills}");
    assert!(net.at(transfer).is_complete());
}

/// The SENDMEs of uploads wait in the queue that the downloads fill.
#[test]
fn uploads_and_downloads_share_a_slow_edge() {
    for slow in [20, 30, 45] {
        let mut net = path(1000, false);
        net.set_link(2, 3, Link { rate: DataRate::kib(slow), send_buffer: 4 << 10, ..Link::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        let transfers = [0; 6].map(|_| net.transfer(0, circuit, 120_000, 400_000));
        net.drive();
        assert!(transfers.iter().all(|transfer| net.at(*transfer).is_complete()), "{slow} KiB/s");
    }
}

#[test]
fn streams_of_one_circuit_share_it_equally() {
    let mut net = path(1000, false);
    net.set_link(2, 3, Link { rate: DataRate::kib(100), ..Link::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfers = [0; 5].map(|_| net.transfer(0, circuit, 10_000_000, 0));
    net.drive_for(Duration::from_secs(60));
    let received = transfers.map(|transfer| net.at(transfer).download.received);
    let (least, most) = (received.iter().min().expect("five"), received.iter().max().expect("five"));
    assert!(*least * 10 >= *most * 8, "{received:?}");
}
