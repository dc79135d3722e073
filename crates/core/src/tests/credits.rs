//! Tests N23 on a path (G-20 to G-25). Queues are bounded and all data arrives, with or without support of N23 at each
//! node.

use super::cell::TestCell;
use super::host::Side;
use super::util::{Link, Net};
use crate::cell::{Cell, CircId, Command, PeerId};
use crate::circuit::{Circuit, Queued, Role, Stamp};
use crate::config::Limits;
use crate::edge_control::{EdgeControlConfig, Ends, VegasConfig, WindowsConfig};
use crate::hop_control::{
    self, AdaptConfig, CreditPath, ExponentialConfig, Feedback, HopControl, HopControlConfig, Kung94Config,
    LawConfig, N23Config, Neighbour, Source,
};
use crate::reason::{DestroyReason, EndReason};
use crate::relay::Parameters;
use crate::{ChannelKey, CircuitIndex, Direction, RelayConfig, Violation};
use penstock_units::{Bytes, DataRate, Duration, Instant, Seed};
use proptest::prelude::*;
use std::num::NonZeroU32;

fn windows(ends: Ends) -> EdgeControlConfig {
    EdgeControlConfig::Windows(WindowsConfig { ends, ..WindowsConfig::default() })
}

fn credits(n23: N23Config, ends: Ends) -> RelayConfig {
    RelayConfig {
        hop_control: HopControlConfig::N23(n23),
        edge_control: windows(ends),
        ..RelayConfig::default()
    }
}

fn constant(n2: u32, n3: u32) -> N23Config {
    N23Config { n2, n3, ..N23Config::default() }
}

fn adaptive(law: LawConfig) -> N23Config {
    let adapt = AdaptConfig { interval: Duration::from_millis(100), kernel: false, law };
    N23Config { adapt: Some(adapt), ..N23Config::default() }
}

fn exponential() -> N23Config {
    adaptive(LawConfig::Exponential(ExponentialConfig::default()))
}

/// A slow link with a small send buffer.
fn slow(kib: u64) -> Link {
    Link { rate: DataRate::kib(kib), send_buffer: 4 << 10, ..Link::default() }
}

/// Whether windows limit the circuit at the client and at the exit.
fn are_limited(net: &Net, circuit: CircuitIndex) -> [bool; 2] {
    let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
    [(0, circuit), (3, exit)].map(|(node, circuit)| net.nodes[node].relay.circuit_window(circuit).is_some())
}

fn credits_made(net: &Net) -> [u64; 4] {
    [0, 1, 2, 3].map(|node| net.nodes[node].relay.counters().credits)
}

/// Stops and resumes readers. Each stall has a transfer, a flag for the server's side, a flag for a stop, and the time
/// until the next stall [ms]. At the end all readers read.
fn stall_and_resume(net: &mut Net, transfers: &[usize], stalls: Vec<(usize, bool, bool, u64)>) {
    for (which, server, stalled, millis) in stalls {
        let side = if server { Side::Server } else { Side::Client };
        net.stall(transfers[which], side, stalled);
        net.drive_for(Duration::from_millis(millis));
    }
    for transfer in transfers {
        [Side::Client, Side::Server].into_iter().for_each(|side| net.stall(*transfer, side, false));
    }
}

fn assert_nothing_closed(net: &Net) {
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()), "no circuit is closed");
}

/// D-51 and G-24: bulk and web data arrive if any subset of client, entry, middle and exit supports N23.
#[test]
fn every_partly_upgraded_path_carries_bulk_and_web_both_ways() {
    for subset in 0u32..16 {
        for active in [true, false] {
            let supports = |node: usize| subset >> node & 1 == 1;
            let mut net = Net::path(3, &RelayConfig::default());
            for node in (0..4).filter(|node| supports(*node)) {
                net.configure(node, credits(N23Config { active, ..constant(20, 70) }, Ends::Ignored));
            }
            net.set_link(1, 2, slow(60));
            let circuit = net.build(0, &[1, 2, 3]);
            net.transfer(0, circuit, 300_000, 150_000);
            for page in [10_000, 20_000] {
                let page = net.transfer(0, circuit, page, 500);
                net.drive_until(|net| net.at(page).is_complete());
            }
            let limited = are_limited(&net, circuit);
            net.drive();
            assert!((0..net.transfers()).all(|at| net.at(at).is_complete()), "{subset:04b}, {active}");
            assert_nothing_closed(&net);
            // Windows are off if and only if all nodes support N23 and the consensus turns windows
            // off.
            assert_eq!(limited, [subset != 15 || !active; 2], "{subset:04b}, {active}");
            // A hop has credits if both its nodes support N23: each node sends credits for one of
            // the two directions.
            let credits = credits_made(&net);
            for node in 0..4 {
                let beside = |other: usize| active && supports(node) && supports(other);
                let expected = node > 0 && beside(node - 1) || node < 3 && beside(node + 1);
                assert_eq!(credits[node] > 0, expected, "{subset:04b}, {active}: {credits:?}");
            }
        }
    }
}

/// A client claims that all hops have credits, but the exit's hop has none. Both ends keep their windows.
#[test]
fn an_exit_keeps_its_windows_unless_its_own_hop_has_credits() {
    let mut net = Net::path(3, &RelayConfig::default());
    for node in [0, 1, 3] {
        net.configure(node, credits(constant(20, 70), Ends::Ignored));
    }
    net.call(0, |relay, now, _| relay.open_circuit(now, PeerId(1), [2, 3].map(PeerId), true));
    assert!(net.drive_until(|net| !net.nodes[0].built.is_empty()));
    let circuit = net.nodes[0].built[0];
    let page = net.transfer(0, circuit, 200_000, 100_000);
    assert!(net.drive_until(|net| net.at(page).is_complete()));
    assert_eq!(are_limited(&net, circuit), [true; 2]);
}

/// Credits work with Vegas and with windows, also if the two ends differ.
#[test]
fn credits_work_with_every_edge_control() {
    let vegas = EdgeControlConfig::Vegas(VegasConfig::default());
    for (client, exit) in [
        (vegas.clone(), vegas.clone()),
        (vegas, windows(Ends::Ignored)),
        (windows(Ends::Enforced), windows(Ends::Ignored)),
        (windows(Ends::Suppressed), windows(Ends::Enforced)),
    ] {
        let base = credits(constant(10, 30), Ends::Enforced);
        let mut net = Net::path(3, &base);
        net.configure(0, RelayConfig { edge_control: client, ..base.clone() });
        net.configure(3, RelayConfig { edge_control: exit, ..base });
        net.set_link(1, 2, slow(60));
        let circuit = net.build(0, &[1, 2, 3]);
        let transfers = [0; 2].map(|_| net.transfer(0, circuit, 300_000, 150_000));
        assert!(net.drive_until(|net| net.at(transfers[0]).download.received > 50_000));
        assert_eq!(are_limited(&net, circuit), [true; 2]);
        net.drive();
        assert!(transfers.iter().all(|at| net.at(*at).is_complete()));
        assert_nothing_closed(&net);
    }
}

/// D-12: windows go only where credits bound each hop. Here, the client's own hop has none.
#[test]
fn a_client_without_credits_keeps_the_windows() {
    for who in 0..2 {
        let mut net = Net::path(3, &credits(constant(10, 30), Ends::Suppressed));
        let alone = N23Config { with_clients: false, ..constant(10, 30) };
        net.configure(who, credits(alone, Ends::Suppressed));
        net.set_link(0, 1, slow(60));
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 1_000_000, 100_000);
        assert!(net.drive_until(|net| net.at(transfer).download.received > 50_000));
        assert_eq!(are_limited(&net, circuit), [true; 2]);
        net.stall(transfer, Side::Client, true);
        net.drive();
        let packaged = net.nodes[3].relay.counters().data_packaged;
        assert!(packaged <= 1000, "{packaged} cells to a client that does not read");
        net.stall(transfer, Side::Client, false);
        net.drive();
        assert!(net.at(transfer).is_complete());
        let [client, entry, _, exit] = credits_made(&net);
        assert!(client == 0 && entry > 0 && exit > 0);
    }
}

/// The link to the guard opened before the consensus turned N23 on, and the other links after it.
#[test]
fn an_old_link_to_the_guard_keeps_the_windows() {
    let mut net = Net::path(3, &credits(constant(10, 30), Ends::Suppressed));
    let turn = |net: &mut Net, on: bool| {
        let parameters = Parameters { n23: Some(on), ..Parameters::default() };
        net.nodes[0].relay.apply_parameters(net.now, parameters);
    };
    turn(&mut net, false);
    net.build(0, &[1]);
    turn(&mut net, true);
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 200_000, 100_000);
    assert!(net.drive_until(|net| net.at(transfer).download.received > 50_000));
    assert_eq!(are_limited(&net, circuit), [true; 2]);
    net.drive();
    assert!(net.at(transfer).is_complete());
    let [client, entry, _, exit] = credits_made(&net);
    assert!(client == 0 && entry > 0 && exit > 0);
}

/// G-23: if only the RTT limits a hop, the hop carries one credit window per RTT.
#[test]
fn a_hop_carries_one_credit_window_per_round_trip() {
    for (n2, n3) in [(10, 90), (20, 60), (5, 20)] {
        let mut net = Net::path(3, &credits(constant(n2, n3), Ends::Suppressed));
        let latency = Duration::from_millis(100);
        net.link.latency = Duration::from_millis(1);
        net.set_link(2, 3, Link { latency, ..Link::default() });
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 100_000_000, 0);
        net.drive_for(Duration::from_secs(5));
        let before = net.at(transfer).download.received;
        net.drive_for(Duration::from_secs(20));
        let cells = (net.at(transfer).download.received - before) / 498;
        let cell = 512.0 / (10.0 * 1024.0 * 1024.0);
        let bound = 20.0 * f64::from(n2 + n3) / (0.2 + f64::from(n2) * cell);
        let share = cells as f64 / bound;
        assert!((0.9..=1.005).contains(&share), "{n2}/{n3}: {cells} cells of {bound:.0}");
    }
}

/// Checks the bound of all queues. For each stream, a CONNECTED or END may be in the edge's queue in addition.
fn assert_bounded(net: &Net, bound: u64, streams: u64) {
    for node in 0..4 {
        let more = if node == 0 || node == 3 { streams } else { 0 };
        let peak = net.nodes[node].peak_queue;
        assert!(peak.iter().all(|cells| *cells <= bound + more), "{peak:?} at node {node}, {bound} allowed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// G-20 to G-22 and G-24, behind any bottleneck and with readers that stop. Assertions in the core check G-20.
    #[test]
    fn queues_keep_the_bound_and_all_data_arrives(
        seed in any::<u64>(),
        n2 in 1u32..=50,
        n3 in 0u32..=500,
        bottleneck in 0usize..4,
        circuit_path in any::<bool>(),
        stalls in proptest::collection::vec((0usize..4, any::<bool>(), any::<bool>(), 1u64..600), 0..12),
    ) {
        let credit_path = if circuit_path { CreditPath::Circuit } else { CreditPath::Link };
        let mut net = Net::path(3, &credits(N23Config { credit_path, ..constant(n2, n3) }, Ends::Ignored));
        net.shuffle = Some(Seed(seed).stream("ready"));
        if bottleneck < 3 {
            net.set_link(bottleneck, bottleneck + 1, slow(100));
        }
        let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
        let transfers = [0, 1, 0, 1].map(|which| net.transfer(0, circuits[which], 120_000, 60_000));
        stall_and_resume(&mut net, &transfers, stalls);
        net.drive();
        prop_assert!(transfers.iter().all(|at| net.at(*at).is_complete()));
        assert_nothing_closed(&net);
        // In a circuit queue, credits wait next to the cells. Their number is at most that of
        // unacknowledged cells.
        let beside = if circuit_path { u64::from((n2 + n3) / n2) } else { 0 };
        let streams = 2 + beside;
        if !circuit_path {
            assert_bounded(&net, u64::from(n2 + n3), streams);
        }
        for node in 0..4 {
            let peak = net.nodes[node].peak_queue;
            prop_assert!(peak.iter().all(|cells| *cells <= u64::from(n2 + n3) + streams), "{:?}", peak);
        }
        // The client sends credits for downloads: one for every N2 cells of each circuit.
        let cells = 2 * 120_000u64.div_ceil(498) + 2 * (1 + 2 * 2) + 60_000 / 498;
        let made = credits_made(&net)[0];
        prop_assert!(made <= 2 * cells / u64::from(n2) + 2, "{} credits", made);
    }

    /// While N3 changes, no circuit stalls or closes and no cell is lost. The timers stop when the
    /// network is idle.
    #[test]
    fn all_data_arrives_while_n3_adapts(
        seed in any::<u64>(),
        pool in any::<bool>(),
        kernel in any::<bool>(),
        n2 in 1u32..=50,
        bottleneck in 0usize..4,
        stalls in proptest::collection::vec((0usize..3, any::<bool>(), any::<bool>(), 1u64..900), 0..8),
    ) {
        let law = match pool {
            true => LawConfig::Kung94(Kung94Config::default()),
            false => LawConfig::Exponential(ExponentialConfig::default()),
        };
        let mut n23 = N23Config { n2, ..adaptive(law) };
        n23.adapt.as_mut().expect("the configuration is adaptive").kernel = kernel;
        let mut net = Net::path(3, &credits(n23, Ends::Ignored));
        net.shuffle = Some(Seed(seed).stream("ready"));
        if bottleneck < 3 {
            net.set_link(bottleneck, bottleneck + 1, slow(100));
        }
        let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
        let transfers = [0, 1, 0].map(|which| net.transfer(0, circuits[which], 250_000, 100_000));
        stall_and_resume(&mut net, &transfers, stalls);
        // The network comes to rest, so all timers stop.
        net.drive();
        prop_assert!(transfers.iter().all(|at| net.at(*at).is_complete()));
        assert_nothing_closed(&net);
        assert_bounded(&net, u64::from(n2) + 500, 2);
    }
}

/// G-25: an application that does not read stops the sender. The sender resumes when the
/// application reads again.
#[test]
fn a_reader_that_stops_stops_the_sender_until_it_reads_again() {
    let (n2, n3) = (20, 70);
    for upload in [false, true] {
        let mut net = Net::path(3, &credits(constant(n2, n3), Ends::Suppressed));
        let circuit = net.build(0, &[1, 2, 3]);
        let (bytes, side) = (10_000_000, if upload { Side::Server } else { Side::Client });
        let transfer = net.transfer(0, circuit, u64::from(!upload) * bytes, u64::from(upload) * bytes);
        net.drive_for(Duration::from_secs(1));
        net.stall(transfer, side, true);
        net.drive();
        let frozen = |net: &Net| {
            let (client, exit) = (net.nodes[0].relay.counters(), net.nodes[3].relay.counters());
            let (source, at) = (if upload { client } else { exit }, net.at(transfer));
            let received = if upload { at.upload.received } else { at.download.received };
            source.data_packaged - received / 498
        };
        // Three hops and the edge queue of the sender fill. Each hop withholds fewer than N2
        // credits.
        let bound = 4 * u64::from(n2 + n3);
        let least = bound - 3 * u64::from(n2 - 1) - 1;
        assert!((least..=bound).contains(&frozen(&net)), "{} of {bound} cells", frozen(&net));
        // At each hop the free space reaches the sender one RTT later: the way back of the credits,
        // and N2 cells.
        let since = net.now;
        net.stall(transfer, side, false);
        let packaged = |net: &Net| {
            let (client, exit) = (net.nodes[0].relay.counters(), net.nodes[3].relay.counters());
            client.data_packaged.max(exit.data_packaged)
        };
        let already = packaged(&net);
        assert!(net.drive_until(|net| packaged(net) > already));
        let took = (net.now - since).as_millis();
        assert!(took <= 3 * 20 + 3, "{took} ms for three hops of 20 ms");
        net.drive();
        assert!(net.at(transfer).is_complete());
    }
}

/// A download continues while an upload of the same circuit is stopped. The SENDMEs of the download
/// fill no queue.
#[test]
fn sendmes_do_not_fill_the_queue_of_a_stopped_upload() {
    let limits = Limits { max_circuit_queue: 60, ..Limits::default() };
    for authenticated_sendmes in [false, true] {
        let config =
            RelayConfig { limits, authenticated_sendmes, ..credits(constant(10, 30), Ends::Ignored) };
        let mut net = Net::path(3, &config);
        let circuit = net.build(0, &[1, 2, 3]);
        let upload = net.transfer(0, circuit, 0, 1_000_000);
        net.stall(upload, Side::Server, true);
        let download = net.transfer(0, circuit, 4_000_000, 0);
        net.drive();
        assert_eq!(net.at(download).download.received, 4_000_000);
        assert!(
            net.at(upload).upload.received == 0 && net.nodes[0].peak_queue[0] >= 40,
            "the upload is stopped"
        );
        net.stall(upload, Side::Server, false);
        net.drive();
        assert!(net.at(upload).is_complete());
        assert_nothing_closed(&net);
        assert_eq!(net.nodes[0].relay.counters().sendmes, 0, "the queue never had space for a SENDME");
        let another = net.transfer(0, circuit, 498 * 1000, 0);
        net.drive();
        assert!(net.at(another).is_complete());
        assert_eq!(net.nodes[0].relay.counters().sendmes, 10);
    }
}

#[test]
fn n3_falls_when_cells_wait_in_the_output_buffer_and_recovers_later() {
    for (kernel, send_buffer, falls) in
        [(false, 4 << 10, true), (false, 64 << 10, false), (true, 64 << 10, true)]
    {
        let mut n23 = exponential();
        n23.adapt.as_mut().expect("the configuration is adaptive").kernel = kernel;
        let mut net = Net::path(3, &credits(n23, Ends::Suppressed));
        // Cells wait for 0.3 s before the link: in the output buffer, or in a kernel that accepts
        // them immediately.
        net.set_link(2, 3, Link { rate: DataRate::kib(100), send_buffer, ..Link::default() });
        if send_buffer > 4 << 10 {
            // The kernel has space for the whole window of 100 cells.
            let edge_control =
                EdgeControlConfig::Windows(WindowsConfig { circuit_window: 100, ..WindowsConfig::default() });
            net.configure(3, RelayConfig { edge_control, ..credits(n23, Ends::Suppressed) });
        }
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 1_000_000, 0);
        net.drive_for(Duration::from_secs(1));
        let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
        let limit = |net: &Net| net.nodes[3].relay.edge_queue_limit(exit, Direction::Backward);
        assert_eq!(limit(&net).map(|cells| cells.get() < 200), Some(falls), "{:?}", limit(&net));
        net.drive_for(Duration::from_secs(3));
        assert!(!net.at(transfer).is_complete());
        net.nodes[3].peak_queue = [0; 2];
        net.drive_for(Duration::from_secs(2));
        assert!(!falls || net.nodes[3].peak_queue[1] <= 120, "{:?}", net.nodes[3].peak_queue);
        net.drive();
        assert!(net.at(transfer).is_complete());
        assert_eq!(
            limit(&net).map(|cells| cells.get()),
            Some(510),
            "N3 recovers after forty seconds without a queue"
        );
        assert_eq!(net.nodes[3].relay.poll_timeout(), None, "the relay then needs no timer");
    }
}

/// A circuit without traffic gets the minimum of a pool. A circuit with traffic gets the free part.
#[test]
fn a_pool_is_shared_by_forwarded_and_waiting_cells() {
    let law = LawConfig::Kung94(Kung94Config { pool: 600 });
    let mut net = Net::path(3, &credits(adaptive(law), Ends::Suppressed));
    net.set_link(2, 3, slow(100));
    let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
    let pages = circuits.map(|circuit| net.transfer(0, circuit, 20_000, 0));
    assert!(net.drive_until(|net| pages.iter().all(|page| net.at(*page).is_complete())));
    net.transfer(0, circuits[0], 3_000_000, 0);
    net.drive_for(Duration::from_secs(10));
    let limits = circuits.map(|circuit| {
        let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
        net.nodes[3].relay.edge_queue_limit(exit, Direction::Backward).map(|cells| cells.get())
    });
    assert_eq!(limits[1], Some(110), "the circuit has no traffic");
    // The pool has 600 cells. Of its half, 300 cells, at least 110 wait, and two circuits share the
    // rest.
    assert!(limits[0].is_some_and(|cells| (110..=200).contains(&cells)), "{limits:?}");
}

/// Each circuit of a channel reduces the free half of the pool by one cell, even without traffic.
#[test]
fn each_idle_circuit_takes_one_cell_out_of_a_pool() {
    let n3 = |idle: usize| {
        let law = LawConfig::Kung94(Kung94Config { pool: 1000 });
        let mut net = Net::path(3, &credits(adaptive(law), Ends::Suppressed));
        let circuit = net.build(0, &[1, 2, 3]);
        (0..idle).for_each(|_| _ = net.build(0, &[1, 2, 3]));
        net.transfer(0, circuit, 3_000_000, 0);
        net.drive();
        let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
        net.nodes[3].relay.edge_queue_limit(exit, Direction::Backward).expect("the hop has credits").get()
            - 10
    };
    // When the last cells left, all queues were empty: (500 − 0 − N) · 1 + 1.
    assert_eq!([0, 40, 200].map(n3), [500, 460, 300]);
}

/// The edge reads again when an adaptive N3 increases, even if the circuit has no other event.
#[test]
fn an_edge_reads_when_n3_grows_while_the_hop_is_blocked() {
    let mut net = Net::path(3, &credits(exponential(), Ends::Suppressed));
    net.set_link(2, 3, slow(100));
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 3_000_000, 0);
    net.drive_for(Duration::from_secs(3));
    let exit = net.circuit_at(0, circuit, 3).expect("the circuit is there");
    let waiting = |net: &Net| {
        net.nodes[3].relay.circuit_queue(exit, Direction::Backward).expect("the circuit is there").get()
    };
    assert!(waiting(&net) <= 150, "{} cells", waiting(&net));
    net.stall(transfer, Side::Client, true);
    net.drive_for(Duration::from_secs(60));
    let limit = net.nodes[3].relay.edge_queue_limit(exit, Direction::Backward).expect("the hop has credits");
    assert_eq!((limit.get(), waiting(&net)), (510, 510));
}

#[test]
fn a_relay_with_a_slow_next_channel_soon_queues_less() {
    let mut net = Net::path(3, &credits(exponential(), Ends::Suppressed));
    net.set_link(1, 2, slow(60));
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 3_000_000, 0);
    net.drive_for(Duration::from_secs(1));
    // The middle accepts 510 cells at first. Later it holds at most 110 of them.
    let middle = net.circuit_at(0, circuit, 2).expect("the circuit is there");
    let waiting = |net: &Net| {
        net.nodes[2].relay.circuit_queue(middle, Direction::Backward).expect("the circuit is there")
    };
    let first = waiting(&net).get();
    net.drive_for(Duration::from_secs(4));
    let later = waiting(&net).get();
    assert!(first > 300 && later <= 120, "{first}, then {later} cells");
    net.drive();
    assert!(net.at(transfer).is_complete());
}

/// M-01: without hop control, a relay reads although its queue is long, and the relay before it sends all that the circuit
/// window allows. With credits, that relay holds cells back.
#[test]
fn without_hop_control_a_relay_reads_and_the_relay_before_it_still_sends() {
    let waiting = |config: &RelayConfig| {
        let mut net = Net::path(3, config);
        net.set_link(1, 2, slow(60));
        let circuit = net.build(0, &[1, 2, 3]);
        for _ in 0..2 {
            net.transfer(0, circuit, 3_000_000, 0);
        }
        net.drive_for(Duration::from_secs(5));
        [2, 3].map(|node| {
            let there = net.circuit_at(0, circuit, node).expect("the circuit is there");
            net.nodes[node].relay.circuit_queue(there, Direction::Backward).expect("it has a queue").get()
        })
    };
    let [middle, exit] = waiting(&RelayConfig::default());
    assert!((700..=1000).contains(&middle) && exit == 0, "{middle} and {exit} cells");
    let [middle, exit] = waiting(&credits(constant(10, 100), Ends::Ignored));
    assert!(middle <= 110 && exit > 100, "{middle} and {exit} cells");
}

#[test]
fn a_circuit_that_closes_at_a_middle_leaves_no_state() {
    for node in 0..4 {
        let mut net = Net::path(3, &credits(exponential(), Ends::Ignored));
        net.set_link(1, 2, slow(60));
        let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
        net.transfer(0, circuits[0], 3_000_000, 1_000_000);
        let other = net.transfer(0, circuits[1], 300_000, 100_000);
        net.drive_for(Duration::from_secs(2));
        let there = net.circuit_at(0, circuits[0], node).expect("the circuit is there");
        net.call(node, |relay, now, host| relay.close_circuit(now, there, DestroyReason::NONE, host));
        net.drive();
        assert!(net.at(other).is_complete(), "credits for a closed circuit disturb no other circuit");
        for node in &net.nodes {
            assert_eq!(node.relay.population()[1], 1);
            assert_eq!((node.relay.queued().get(), node.relay.outbuf_cells().get()), (0, 0));
        }
    }
}

/// A neighbour that sends too much credit, or exceeds its credit, loses its circuit and no other
/// one.
#[test]
fn a_neighbour_that_forges_credits_loses_only_the_circuit() {
    let forged = |forwarded, allowance| {
        move |id| {
            let direction = Direction::Backward;
            vec![TestCell::feedback(id, Feedback { direction, forwarded, allowance })]
        }
    };
    let flood = |id| (0..200).map(|_| TestCell::malformed(id, Command::Relay)).collect();
    assert_eq!(cheat(forged(1_000_000, 40)), Some((3, Violation::ForgedCredit)));
    assert_eq!(cheat(flood), Some((2, Violation::CreditExceeded)));
    // The exit's cells of the other direction do not go to the middle, so the middle must not send
    // credits for them.
    let backwards = Feedback { direction: Direction::Forward, forwarded: 0, allowance: 40 };
    assert_eq!(cheat(|id| vec![TestCell::feedback(id, backwards)]), Some((3, Violation::UnexpectedCell)));
    // The relay ignores old or repeated feedback, and feedback for an unknown circuit.
    assert_eq!(cheat(forged(u32::MAX, 40)), None);
    assert_eq!(cheat(|_| vec![TestCell::feedback(CircId(NonZeroU32::MAX), NOTHING)]), None);
}

const NOTHING: Feedback = Feedback { direction: Direction::Backward, forwarded: 9, allowance: 9 };

/// Injects forged cells between middle and exit, and returns the violation that they cause. Feedback goes to the exit;
/// other cells come from the exit. `cells` makes the cells for the circuit's id on that channel.
fn cheat(cells: impl Fn(CircId) -> Vec<TestCell>) -> Option<(usize, Violation)> {
    let mut net = Net::path(3, &credits(constant(10, 30), Ends::Suppressed));
    net.set_link(1, 2, slow(60));
    let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
    let transfers = circuits.map(|circuit| net.transfer(0, circuit, 200_000, 0));
    net.drive_for(Duration::from_millis(500));
    let exit = net.circuit_at(0, circuits[0], 3).expect("the circuit is there");
    let (_, id) = net.nodes[3].relay.leg(exit, Direction::Backward).expect("the circuit has a leg");
    for cell in cells(id) {
        let (from, to) = if cell.command() == Command::Feedback { (2, 3) } else { (3, 2) };
        net.inject(from, to, cell);
    }
    net.drive();
    assert!(net.at(transfers[1]).is_complete(), "the other circuit is not disturbed");
    let closed = (0..4).flat_map(|node| net.nodes[node].closed.iter().map(move |(_, why)| (node, *why)));
    let mut reasons = closed.filter_map(|(node, why)| Some((node, why?)));
    let reason = reasons.next();
    assert_eq!(reasons.next(), None);
    assert_eq!(net.at(transfers[0]).is_complete(), reason.is_none());
    reason
}

/// Credits in a circuit queue wait behind cells that have credit, and overtake cells that have
/// none.
#[test]
fn credits_overtake_only_cells_without_credit() {
    let n23 = N23Config { credit_path: CreditPath::Circuit, ..constant(1, 1) };
    let config = HopControlConfig::N23(n23);
    let mut circuit = Circuit::<TestCell>::new(Role::Opening, [config.build(None), config.build(None)]);
    let half = circuit.half_mut(Direction::Backward);
    let (direction, channel, agreed) = (Direction::Backward, ChannelKey::first(0), config.offer(false));
    half.hop.on_neighbour(Neighbour { side: hop_control::Side::After, direction, channel, agreed });
    let id = CircId(NonZeroU32::MIN);
    let cell = || TestCell::malformed(id, Command::Relay);
    let credit = || TestCell::feedback(id, NOTHING);
    for cell in [cell(), credit(), cell(), cell(), credit(), credit(), cell()] {
        half.push(Queued { cell, source: Source::Here, since: Stamp::default() });
    }
    // Two cells have credit. Before the third cell, only cells that need no credit leave.
    let mut left = Vec::new();
    while half.may_send() {
        let command = half.pop().expect("a cell has credit").cell.command();
        if command == Command::Relay {
            half.hop.on_sent(Instant::ZERO, Source::Here);
        }
        left.push(command);
    }
    use Command::{Feedback, Relay};
    assert_eq!(left, [Relay, Feedback, Relay, Feedback, Feedback]);
    assert_eq!(half.queue.len(), 2);
}

/// A peer that sends but does not read loses its channel when too many credits for it wait, on both
/// credit paths.
#[test]
fn a_channel_that_reads_no_credits_closes() {
    for credit_path in [CreditPath::Link, CreditPath::Circuit] {
        let limits = Limits { max_circuit_queue: 100, outbuf: Bytes::kib(64), ..Limits::default() };
        let n23 = N23Config { credit_path, ..constant(1, 30) };
        let mut net = Net::path(2, &RelayConfig { limits, ..credits(n23, Ends::Suppressed) });
        // The link to the client is very slow.
        net.set_link(0, 1, Link { rate: DataRate::kib(1), send_buffer: 4 << 10, ..Link::default() });
        let circuit = net.build(0, &[1, 2]);
        let entry = net.circuit_at(0, circuit, 1).expect("the circuit is there");
        let (_, id) = net.nodes[1].relay.leg(entry, Direction::Backward).expect("the circuit has a leg");
        // The first cell of the entry was the EXTEND.
        for place in 1..=2000 {
            net.inject(0, 1, TestCell::unwanted(id, &[(1, place + 1), (2, place)]));
            net.drive_for(Duration::from_millis(25));
            if net.channel(1, 0).is_none() {
                break;
            }
            // The client has sent no cells itself and would reject the credits.
            net.in_transit(1, 0).for_each(|cell| cell.set_circ_id(CircId(NonZeroU32::MAX)));
        }
        let peak = net.nodes[1].peak_queue[1];
        assert!(peak <= 201, "{peak} cells in the queue with {credit_path:?}");
        assert!(net.channel(1, 0).is_none(), "the channel is closed with {credit_path:?}");
    }
}

/// A stream that closes with unread data frees the hop, so the next stream continues.
#[test]
fn a_closed_stream_frees_its_buffer() {
    for upload in [false, true] {
        let mut net = Net::path(3, &credits(constant(10, 30), Ends::Suppressed));
        let circuit = net.build(0, &[1, 2, 3]);
        let (side, node) = if upload { (Side::Server, 3) } else { (Side::Client, 0) };
        for _ in 0..10 {
            let size = 1_000_000;
            let stuck = net.transfer(0, circuit, u64::from(!upload) * size, u64::from(upload) * size);
            net.stall(stuck, side, true);
            net.drive();
            let mut sockets = net.nodes[node].host.sockets.iter();
            let (stream, _) = sockets.find(|(_, at)| **at == (stuck, side)).expect("the stream is open");
            let stream = *stream;
            net.call(node, |relay, now, host| relay.close_stream(now, stream, EndReason::DONE, host));
            net.drive();
        }
        let next = net.transfer(0, circuit, 50_000, 50_000);
        net.drive();
        assert!(net.at(next).is_complete(), "upload {upload}");
        assert_nothing_closed(&net);
    }
}
