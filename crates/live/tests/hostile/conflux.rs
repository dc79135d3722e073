//! Clients that link circuits in a wrong way. Their set closes, and nothing else.

use super::common::{Circuit, Client, Running, pattern, serve, silent_server, stream};
use super::{destroyed, unharmed};
use penstock_core::conflux::{ConfluxConfig, DesiredUx, Link, Nonce};
use penstock_core::edge_control::{Congestion, EdgeControlConfig, Negotiation, VegasConfig};
use penstock_core::{Cell, Command, DestroyReason};
use penstock_link::cell::{LivePayload, RelayMessage};
use penstock_units::Bytes;

const LINK: Link =
    Link { nonce: Nonce([7; 32]), last_sent: 0, last_received: 0, desired_ux: DesiredUx::HighThroughput };

/// The largest number of waiting cells of a set [cell].
const QUEUE: u32 = 60;

fn node() -> Running {
    Running::start_configured(|config| {
        config.relay.edge_control = EdgeControlConfig::Vegas(VegasConfig::default());
        config.relay.conflux = Some(ConfluxConfig::TOR_0_4_9);
        config.relay.limits.edge_buffer = QUEUE;
    })
}

fn link(client: &mut Client, link: Link) {
    client.send_message(None, &RelayMessage::Link(Box::new(link)));
}

/// Selects a new circuit with congestion control. Returns the circuit before it.
fn build(client: &mut Client, node: &Running, id: u32) -> Circuit {
    let before = client.new_circuit(id);
    client.build_asking(&[(node.hop(), Negotiation::Asked(Congestion::Vegas))]);
    before
}

/// Builds a circuit without links, and a set with two legs. Returns the circuit and the first leg. The second leg is
/// selected.
fn one_and_two(client: &mut Client, node: &Running) -> [Circuit; 2] {
    client.build(&[node.hop()]);
    [8, 9].map(|id| {
        let before = build(client, node, id);
        link(client, LINK);
        assert!(matches!(client.receive_message().1, RelayMessage::Linked(_)));
        client.send_message(None, &RelayMessage::LinkedAck);
        before
    })
}

/// The ids of two circuits that end, with their reasons.
fn two_ends(client: &mut Client) -> [(u32, DestroyReason); 2] {
    let mut end = || loop {
        let cell = client.receive();
        if cell.command() == Command::Destroy {
            return (cell.circ_id().0.get() & 0x7fff_ffff, cell.destroy_reason());
        }
    };
    let mut ends = [end(), end()];
    ends.sort_by_key(|(id, _)| *id);
    ends
}

#[test]
fn a_wrong_message_closes_its_set_and_nothing_else() {
    let node = node();
    let again: [RelayMessage; 3] =
        [RelayMessage::Link(Box::new(LINK)), RelayMessage::Linked(Box::new(LINK)), RelayMessage::LinkedAck];
    for wrong in again {
        let mut client = Client::connect(&node.spec);
        let [alone, _] = one_and_two(&mut client, &node);
        client.send_message(None, &wrong);
        let ends = two_ends(&mut client);
        assert_eq!(ends, [(8, DestroyReason::FINISHED), (9, DestroyReason::PROTOCOL)], "{wrong:?}");
        client.switch_circuit(alone);
        assert!(client.download(serve(10_000), 1) == pattern(10_000));
    }
    unharmed(&node);
}

#[test]
fn a_wrong_link_closes_its_circuit_and_not_the_set() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    let [alone, _] = one_and_two(&mut client, &node);
    build(&mut client, &node, 10);
    // The nonce is that of the set, but no leg has received such a cell.
    link(&mut client, Link { last_sent: 1, ..LINK });
    destroyed(&mut client, DestroyReason::PROTOCOL);
    // No other circuit has ended: a cell of another circuit would fail this download.
    client.switch_circuit(alone);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
    assert_eq!(node.observations.next_observation().population[1], 3);
}

#[test]
fn cells_that_wait_for_a_missing_one_are_bounded_and_count_as_memory() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    let [alone, first] = one_and_two(&mut client, &node);
    let second = client.switch_circuit(first);
    client.begin(silent_server(), stream(1));
    // The exit may send CONNECTED on either leg.
    let is_open = || node.observations.next_observation().node_counters.streams.contains_key("connected");
    while !is_open() {}
    let before = node.observations.next_observation().memory;
    // The second leg skips cells that the first leg could still bring.
    client.switch_circuit(second);
    client.send_message(None, &RelayMessage::Switch(1000));
    let data = RelayMessage::Data(LivePayload::new(&[1; 498]).expect("the data fits"));
    for _ in 0..QUEUE {
        client.send_message(stream(1), &data);
    }
    let cells = Bytes::new(u64::from(QUEUE) * 498);
    let seen = std::iter::repeat_with(|| node.observations.next_observation()).take(1000);
    let waiting = { seen }.find(|seen| seen.memory >= before + cells);
    assert_eq!(waiting.expect("the cells count").counters.longest_reordering, u64::from(QUEUE));
    client.send_message(stream(1), &data);
    assert_eq!(two_ends(&mut client), [(8, DestroyReason::FINISHED), (9, DestroyReason::RESOURCE_LIMIT)]);
    client.switch_circuit(alone);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
    assert!(node.observations.next_observation().memory < before);
    unharmed(&node);
}
