//! N23 between Penstock nodes on loopback: agreement, credits, mixed paths, and peers that violate the protocol.

mod common;

use common::credits::{self, Credits};
use common::{Circuit, Client, Hop, Running, endless, pattern, serve, stream};
use penstock_core::edge_control::{EdgeControlConfig, Ends, Negotiation, WindowsConfig};
use penstock_core::hop_control::{Feedback, HopControlConfig, N23Config};
use penstock_core::{Cell, CircId, Command, DestroyReason, Direction};
use penstock_link::cell::{LiveCell, LivePayload, RelayMessage};
use std::num::NonZeroU32;

const N2: u32 = 20;
const N3: u32 = 70;

fn n23(with_clients: bool, ends: Ends) -> Running {
    let hop_control =
        HopControlConfig::N23(N23Config { n2: N2, n3: N3, with_clients, ..N23Config::default() });
    let windows = WindowsConfig { ends, ..WindowsConfig::default() };
    Running::start_configured(|config| {
        config.relay.hop_control = hop_control;
        config.relay.edge_control = EdgeControlConfig::Windows(windows);
    })
}

fn node(has_n23: bool) -> Running {
    if has_n23 { n23(true, Ends::Enforced) } else { Running::start(Default::default()) }
}

fn path(nodes: &[Running]) -> Vec<Hop> {
    nodes.iter().map(Running::hop).collect()
}

/// The credits that each node has made.
fn made(nodes: &[Running]) -> Vec<u64> {
    nodes.iter().map(|node| node.observations.next_observation().counters.credits).collect()
}

#[test]
fn each_hop_has_credits_if_both_of_its_nodes_have_n23() {
    const BYTES: usize = 1_000_000;
    let cells = (BYTES / 498) as u64;
    for has_n23 in [[true, true, true], [true, true, false], [false, true, true], [true, false, true]] {
        let nodes = has_n23.map(node);
        for client_has_n23 in [true, false] {
            let before = made(&nodes);
            let mut client = if client_has_n23 {
                Client::connect_with_n23(&nodes[0].spec, [N2, N3])
            } else {
                Client::connect(&nodes[0].spec)
            };
            assert_eq!(client.credits.is_some(), client_has_n23 && has_n23[0]);
            client.build(&path(&nodes));
            assert!(client.download(serve(BYTES), 1) == pattern(BYTES), "{has_n23:?}");
            client.exchange(common::exchange::server().0, 2, 300_000, 100_000);
            let made: Vec<u64> = made(&nodes).iter().zip(before).map(|(now, then)| now - then).collect();
            let hops = [client_has_n23 && has_n23[0], has_n23[0] && has_n23[1], has_n23[1] && has_n23[2]];
            // For the download, the guard gives credit to the middle, and the middle to the exit.
            for (node, [before, after]) in
                [[hops[0], hops[1]], [hops[1], hops[2]], [hops[2], false]].iter().enumerate()
            {
                let least = if *after { cells / u64::from(N2) } else { 0 };
                let is_idle = !before && !after;
                assert_eq!(made[node] == 0, is_idle, "{has_n23:?}, client {client_has_n23}: {made:?}");
                assert!(made[node] >= least, "{has_n23:?}, client {client_has_n23}: {made:?}");
            }
        }
    }
}

/// All nodes of a path have N23 and use no end-to-end windows, so the client needs no SENDMEs. If a hop has no N23, its
/// relay does not confirm it.
#[test]
fn a_circuit_without_windows_needs_credits_on_each_hop() {
    const BYTES: usize = 1_500_000;
    let asks = [Negotiation::Nothing, Negotiation::HopAsked, Negotiation::OpenEndsAsked];
    let ask = |nodes: &[Running]| {
        let mut client = Client::connect_with_n23(&nodes[0].spec, [N2, N3]);
        let path: Vec<(Hop, Negotiation)> = path(nodes).into_iter().zip(asks).collect();
        let answers = client.build_asking(&path);
        (client, answers)
    };
    let all = [true; 3].map(|with_clients| n23(with_clients, Ends::Ignored));
    let (mut client, answers) = ask(&all);
    assert_eq!(answers, [Negotiation::Nothing, Negotiation::HopAgreed, Negotiation::OpenEndsAgreed]);
    client.sends_sendmes = false;
    assert!(client.download(serve(BYTES), 1) == pattern(BYTES), "{BYTES} B are more than a window");
    for node in &all {
        // Each node has one circuit, so this is the length of its queues in both directions.
        let queued = node.observations.summary().queued;
        assert!(queued <= 2 * u64::from(N2 + N3), "{queued} cells in queues");
    }
    let [guard, middle, exit] = [n23(true, Ends::Ignored), node(false), n23(true, Ends::Ignored)];
    let (_client, answers) = ask(&[guard, middle, exit]);
    assert_eq!(answers, [Negotiation::Nothing; 3]);
    // The middle does not have to know why the client asks.
    let nodes = [node(false), n23(true, Ends::Ignored), n23(true, Ends::Ignored)];
    let mut client = Client::connect(&nodes[0].spec);
    let path: Vec<(Hop, Negotiation)> = path(&nodes).into_iter().zip(asks).collect();
    assert_eq!(client.build_asking(&path)[1], Negotiation::Nothing);
}

#[test]
fn a_relay_may_leave_clients_without_credits() {
    let nodes = [n23(false, Ends::Enforced), n23(false, Ends::Enforced)];
    let mut client = Client::connect_with_n23(&nodes[0].spec, [N2, N3]);
    assert!(client.credits.is_none());
    client.build(&path(&nodes));
    assert!(client.download(serve(500_000), 1) == pattern(500_000));
    assert!(made(&nodes)[0] > 0, "the hop between the relays has credits");
}

/// A client with two circuits of one link. Returns also the unused one, with its credits.
fn two_circuits(node: &Running) -> (Client, Circuit, Option<Credits>) {
    let mut client = Client::connect_with_n23(&node.spec, [N2, N3]);
    client.build(&[node.hop()]);
    let second = client.new_circuit(99);
    let fresh = Credits::agreed(credits::offer(N2, N3));
    let credits = client.credits.replace(Credits { n2: N2, allowance: N2 + N3, ..fresh });
    client.build(&[node.hop()]);
    (client, second, credits)
}

/// Downloads over the second circuit of a link. No cell of the first one may arrive.
fn assert_second_works(mut client: Client, second: Circuit, credits: Option<Credits>) {
    client.switch_circuit(second);
    client.credits = credits;
    assert!(client.download(serve(100_000), 1) == pattern(100_000), "the second circuit stays open");
}

/// The reason in the DESTROY of the client's circuit. Waits until it arrives, or fails at the socket's timeout.
fn await_destroy(client: &mut Client) -> DestroyReason {
    loop {
        let cell = client.receive();
        if cell.command() == Command::Destroy {
            assert_eq!(cell.circ_id(), client.id);
            return cell.destroy_reason();
        }
    }
}

/// The node gets `bytes` from the client during a download. `closes`: the node must then close this circuit, otherwise
/// it must go on. A second circuit of the same link must work afterwards.
fn attack(closes: bool, bytes: impl Fn(&Client) -> Vec<u8>) {
    let node = node(true);
    let (mut client, second, second_credits) = two_circuits(&node);
    client.begin(endless(), stream(1));
    for _ in 0..N2 {
        client.receive_message();
    }
    let bytes = bytes(&client);
    client.write(&bytes);
    let credits = client.credits.as_mut().unwrap();
    credits.is_silent = true;
    if closes {
        assert_eq!(await_destroy(&mut client), DestroyReason::PROTOCOL);
    } else {
        // Without more credit, the node sends so many more cells, and then none.
        for _ in 0..credits.allowance - credits.received % N2 {
            client.receive_message();
        }
    }
    assert_second_works(client, second, second_credits);
}

fn credit(id: CircId, direction: Direction, forwarded: u32, allowance: u32) -> LiveCell {
    LiveCell::feedback(id, Feedback { direction, forwarded, allowance })
}

#[test]
fn a_forged_credit_closes_only_its_circuit() {
    let backward = Direction::Backward;
    // For cells that were never sent.
    attack(true, |client| credit(client.id, backward, 5000, N2 + N3).to_bytes().into());
    // More than the client announced.
    attack(true, |client| credit(client.id, backward, N2, N2 + N3 + 1).to_bytes().into());
    // For the other direction.
    attack(true, |client| credit(client.id, Direction::Forward, 1, N2 + N3).to_bytes().into());
    // A direction that does not exist.
    let malformed = |client: &Client| {
        let mut bytes = credit(client.id, backward, N2, N2 + N3).to_bytes();
        bytes[5] = 2;
        bytes.into()
    };
    attack(true, malformed);
}

#[test]
fn repeated_late_and_stray_credits_change_nothing() {
    let backward = Direction::Backward;
    let same = |client: &Client| {
        let forwarded = client.credits.as_ref().unwrap().received / N2 * N2;
        credit(client.id, backward, forwarded, N2 + N3).to_bytes().repeat(5000)
    };
    attack(false, same);
    attack(false, |client| credit(client.id, backward, 0, N2 + N3).to_bytes().repeat(10));
    let unknown = CircId(NonZeroU32::new(12_345).unwrap());
    attack(false, |_| credit(unknown, backward, 1, 1).to_bytes().repeat(10));
}

#[test]
fn a_peer_without_an_agreement_may_send_any_feedback() {
    let node = node(true);
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    let mut bytes = credit(client.id, Direction::Backward, 5000, 1).to_bytes();
    client.write(&bytes);
    bytes[5] = 77;
    client.write(&bytes);
    assert!(client.download(serve(500_000), 1) == pattern(500_000));
}

#[test]
fn cells_without_credit_close_only_their_circuit() {
    let node = node(true);
    let (mut client, second, second_credits) = two_circuits(&node);
    client.begin(common::silent_server(), stream(1));
    assert!(matches!(client.receive_message().1, RelayMessage::Connected(_)));
    // The client ignores credits from now on.
    client.credits = None;
    // The server does not read. The kernel's buffers take some megabytes.
    let payload = LivePayload::new(&[7; 498]).unwrap();
    for _ in 0..40_000 {
        client.send_message(stream(1), &RelayMessage::Data(payload.clone()));
    }
    assert_eq!(await_destroy(&mut client), DestroyReason::PROTOCOL);
    assert_second_works(client, second, second_credits);
}
