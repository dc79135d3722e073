//! Peers that violate the protocol lose their circuit or channel. No other one closes, and the
//! relay does not panic.

use super::cell::{Layer, Piece, TestCell, TestHandshake};
use super::host::Side;
use super::unlimited::Unlimited;
use super::util::Net;
use crate::cell::{Cell, CircId, Command, Message, PeerId, StreamId};
use crate::circuit_policy::PriorityClass;
use crate::edge_control::{EdgeControl, EdgeControlConfig, StreamControl};
use crate::hop_control::Feedback;
use crate::reason::{DestroyReason, EndReason};
use crate::{CircuitIndex, Direction, Factory, RelayConfig, Violation};
use std::num::{NonZeroU16, NonZeroU32};

/// A path on which client 0 attacks. Another client shares all its relays and channels.
struct Attack {
    net: Net,
    circuit: CircuitIndex,
    other_transfer: usize,
    /// The circuits and channels of relay 1 before the attack.
    before: [usize; 3],
}

impl Attack {
    fn new() -> Self {
        Attack::with(RelayConfig::default(), RelayConfig::default())
    }

    fn with(client: RelayConfig, exit: RelayConfig) -> Self {
        let mut net = Net::path(3, &RelayConfig::default());
        net.configure(0, client);
        net.configure(3, exit);
        let other = net.add(true, RelayConfig::default());
        let circuit = net.build(0, &[1, 2, 3]);
        let other_transfer = net.build(other, &[1, 2, 3]);
        let other_transfer = net.transfer(other, other_transfer, 300_000, 100_000);
        assert!(net.drive_until(|net| net.at(other_transfer).download.received > 0));
        let before = net.nodes[1].relay.population();
        Attack { net, circuit, other_transfer, before }
    }

    /// The id of the attacker's circuit between relay `node` and its neighbour in `direction`.
    fn id(&self, node: usize, direction: Direction) -> CircId {
        let circuit = self.net.circuit_at(0, self.circuit, node).expect("the circuit is there");
        self.net.nodes[node].relay.leg(circuit, direction).expect("the circuit has two legs").1
    }

    fn drive(&mut self) {
        self.net.drive();
        assert!(self.net.at(self.other_transfer).is_complete(), "the other client is not disturbed");
    }

    /// Checks that `node` closed the attacker's circuit for `violation`, all nodes freed it, and no
    /// other circuit closed.
    fn assert_closed_for(&mut self, node: usize, violation: Violation) {
        self.drive();
        let reasons = |node: usize| self.net.nodes[node].closed.iter().filter_map(|(_, reason)| *reason);
        assert_eq!(reasons(node).collect::<Vec<_>>(), [violation]);
        assert_eq!((0..4).flat_map(reasons).count(), 1);
        let [channels, circuits, _] = self.net.nodes[1].relay.population();
        assert_eq!([channels, circuits], [self.before[0], self.before[1] - 1]);
        for node in 0..4 {
            assert_eq!(self.net.nodes[node].closed.len(), 1, "node {node}");
        }
    }

    fn assert_unharmed(&mut self) {
        self.drive();
        assert!((0..4).all(|node| self.net.nodes[node].closed.is_empty()));
        assert_eq!(self.net.nodes[1].relay.population()[..2], self.before[..2]);
    }
}

fn id(id: u32) -> CircId {
    CircId(NonZeroU32::new(id).expect("ids count from one"))
}

fn stream(id: u16) -> Option<StreamId> {
    Some(StreamId(NonZeroU16::new(id).expect("ids count from one")))
}

/// A circuit id from the half of the id space that the client allocates on the channel to its guard.
const CLIENTS: u32 = 1 << 31 | 77;

const COMMANDS: [Command; 5] =
    [Command::Create, Command::Created, Command::Relay, Command::Destroy, Command::Feedback];

#[test]
fn cells_of_unknown_circuits_are_dropped() {
    let mut attack = Attack::new();
    for command in COMMANDS {
        if command != Command::Create {
            attack.net.inject(0, 1, TestCell::malformed(id(CLIENTS), command));
            attack.net.inject(2, 1, TestCell::malformed(id(999), command));
        }
    }
    attack.assert_unharmed();
}

#[test]
fn create_with_an_id_in_use_changes_nothing() {
    let mut attack = Attack::new();
    let used = attack.id(1, Direction::Backward);
    attack.net.inject(0, 1, TestCell::create(used, TestHandshake::new(1)));
    attack.assert_unharmed();
}

#[test]
fn create_with_an_id_of_the_wrong_half_or_without_a_handshake_is_rejected() {
    for cell in
        [TestCell::create(id(5), TestHandshake::new(1)), TestCell::malformed(id(CLIENTS), Command::Create)]
    {
        let mut attack = Attack::new();
        let before = attack.net.nodes[0].relay.counters().received;
        attack.net.inject(0, 1, cell);
        attack.assert_unharmed();
        assert!(attack.net.nodes[0].relay.counters().received > before, "the relay reports the rejection");
    }
}

#[test]
fn cells_after_the_one_that_closed_the_circuit_are_dropped() {
    let mut attack = Attack::new();
    let used = attack.id(1, Direction::Backward);
    let cells = COMMANDS.into_iter().filter(|command| *command != Command::Create);
    let cells: Vec<TestCell> = cells.map(|command| TestCell::malformed(used, command)).collect();
    attack.net.inject_all(0, 1, cells);
    attack.assert_closed_for(1, Violation::UnexpectedCell);
}

#[test]
fn created_from_the_client_side_closes_the_circuit() {
    let mut attack = Attack::new();
    let cell = TestCell::created(attack.id(1, Direction::Backward), TestHandshake::new(1));
    attack.net.inject(0, 1, cell);
    attack.assert_closed_for(1, Violation::UnexpectedCell);
}

#[test]
fn a_second_created_closes_the_circuit() {
    for node in [0, 1, 2] {
        let mut attack = Attack::new();
        let cell = TestCell::created(attack.id(node, Direction::Forward), TestHandshake::new(1));
        attack.net.inject(node + 1, node, cell);
        attack.assert_closed_for(node, Violation::UnexpectedCell);
    }
}

#[test]
fn two_created_cells_in_one_read_add_one_hop() {
    let mut net = Net::path(3, &RelayConfig::default());
    let circuit = net.open_circuit(0, &[1, 2, 3]);
    assert!(net.drive_until(|net| net.nodes[1].relay.population()[1] == 1));
    let (_, id) = net.nodes[0].relay.leg(circuit, Direction::Forward).expect("the circuit has a first hop");
    net.inject_all(
        1,
        0,
        [TestCell::created(id, TestHandshake::new(1)), TestCell::created(id, TestHandshake::new(1))],
    );
    net.drive();
    assert_eq!(net.nodes[0].closed, [(circuit, Some(Violation::UnexpectedCell))]);
    assert_eq!(net.nodes[1].relay.population()[1], 0);
}

#[test]
fn a_relay_cell_before_the_handshake_closes_the_circuit() {
    let mut attack = Attack::new();
    let cells = [
        TestCell::create(id(CLIENTS), TestHandshake::new(1)),
        TestCell::malformed(id(CLIENTS), Command::Relay),
    ];
    attack.net.inject_all(0, 1, cells);
    attack.drive();
    assert_eq!(attack.net.nodes[1].closed.len(), 1);
    assert_eq!(attack.net.nodes[1].relay.population()[..2], attack.before[..2]);
}

#[test]
fn an_answer_for_a_closed_circuit_does_not_reach_its_successor() {
    let mut attack = Attack::new();
    let made = attack.net.nodes[1].relay.counters().made;
    // All cells arrive in one read. The second circuit takes the slot of the first one.
    let cells = [
        TestCell::create(id(CLIENTS), TestHandshake::new(1)),
        TestCell::malformed(id(CLIENTS), Command::Destroy),
        TestCell::create(id(CLIENTS + 1), TestHandshake::new(2)),
    ];
    attack.net.inject_all(0, 1, cells);
    attack.net.step();
    attack.drive();
    assert_eq!(attack.net.nodes[1].relay.population()[1], attack.before[1] + 1);
    assert_eq!(attack.net.nodes[1].relay.counters().made, made + 1, "one CREATED");
    // The client of the second circuit has only the second key.
    let mut client = ManualClient { id: id(CLIENTS + 1), layer: Layer::new(2) };
    let cell = client.send(None, Message::Extend(PeerId(2), TestHandshake::new(3)));
    attack.net.inject(0, 1, cell);
    attack.drive();
    assert_eq!(attack.net.nodes[1].closed.len(), 1, "only the first circuit is closed");
}

#[test]
fn a_malformed_relay_cell_closes_the_circuit_at_its_end() {
    let mut attack = Attack::new();
    let cell = TestCell::malformed(attack.id(1, Direction::Backward), Command::Relay);
    attack.net.inject(0, 1, cell);
    attack.assert_closed_for(3, Violation::Unrecognised);

    let mut attack = Attack::new();
    let cell = TestCell::malformed(attack.id(1, Direction::Forward), Command::Relay);
    attack.net.inject(2, 1, cell);
    attack.assert_closed_for(0, Violation::Unrecognised);
}

#[test]
fn a_cell_that_the_cell_type_rejects_closes_the_circuit_immediately() {
    for (from, to, direction) in
        [(0, 1, Direction::Backward), (2, 1, Direction::Forward), (1, 0, Direction::Forward)]
    {
        let mut attack = Attack::new();
        let at = if to == 0 { attack.id(1, Direction::Backward) } else { attack.id(1, direction) };
        attack.net.inject(from, to, TestCell::forbidden(at));
        attack.assert_closed_for(to, Violation::UnexpectedEarlyCell);
    }
}

/// Replaces the message of the attacker's next DATA cell from `node` to `peer`.
fn tamper(
    attack: &mut Attack,
    node: usize,
    peer: usize,
    replacement: Option<(Option<StreamId>, Message<TestCell>)>,
) {
    let transfer = attack.net.transfer(0, attack.circuit, 100_000, 100_000);
    // The remaining DATA cells are not compared.
    for side in [Side::Client, Side::Server] {
        attack.net.stall(transfer, side, true);
    }
    loop {
        let (.., transfers) = (attack.net.step(), &transfer);
        let cell = attack.net.in_transit(node, peer).find(|cell| match cell.message() {
            Some((_, Message::Data(Piece { transfer, .. }))) => transfer == transfers,
            _ => false,
        });
        if let Some(cell) = cell {
            let (stream, message) =
                replacement.map_or((None, None), |(stream, message)| (stream, Some(message)));
            cell.replace(stream, message);
            return;
        }
    }
}

#[test]
fn a_malformed_message_closes_the_circuit() {
    let mut attack = Attack::new();
    tamper(&mut attack, 1, 2, None);
    attack.assert_closed_for(3, Violation::UnexpectedCell);
    let mut attack = Attack::new();
    tamper(&mut attack, 2, 1, None);
    attack.assert_closed_for(0, Violation::UnexpectedCell);
}

#[test]
fn padding_and_unknown_messages_are_ignored() {
    for (from, to) in [(1, 2), (2, 1)] {
        for stream in [None, stream(1), stream(u16::MAX)] {
            let mut attack = Attack::new();
            tamper(&mut attack, from, to, Some((stream, Message::Drop)));
            attack.assert_unharmed();
        }
    }
}

#[test]
fn messages_that_only_clients_send_close_the_circuit_at_a_client() {
    let piece = Piece { transfer: 0, download: true, offset: 0, len: 1 };
    let messages = [
        (stream(1), Message::Begin(0)),
        (None, Message::Begin(0)),
        (None, Message::Extend(PeerId(1), TestHandshake::new(1))),
        (stream(1), Message::Extend(PeerId(1), TestHandshake::new(1))),
        (None, Message::Connected(())),
        (None, Message::End(EndReason::DONE)),
        (None, Message::Data(piece)),
        (None, Message::Extended(TestHandshake::new(1))),
        (stream(1), Message::Extended(TestHandshake::new(1))),
        (None, Message::Truncate),
        (stream(1), Message::Truncated(DestroyReason::NONE)),
    ];
    for (stream, message) in messages {
        let mut attack = Attack::new();
        tamper(&mut attack, 2, 1, Some((stream, message)));
        attack.assert_closed_for(0, Violation::UnexpectedCell);
    }
}

#[test]
fn messages_that_only_relays_send_close_the_circuit_at_a_relay() {
    let piece = Piece { transfer: 0, download: false, offset: 0, len: 1 };
    let messages = [
        (None, Message::Begin(0)),
        (stream(1), Message::Extend(PeerId(1), TestHandshake::new(1))),
        (stream(1), Message::Connected(())),
        (None, Message::Connected(())),
        (None, Message::End(EndReason::DONE)),
        (None, Message::Data(piece)),
        (None, Message::Extended(TestHandshake::new(1))),
        (stream(1), Message::Truncate),
        (None, Message::Truncated(DestroyReason::NONE)),
    ];
    for (stream, message) in messages {
        let mut attack = Attack::new();
        tamper(&mut attack, 1, 2, Some((stream, message)));
        attack.assert_closed_for(3, Violation::UnexpectedCell);
    }
}

#[test]
fn a_second_connected_cell_is_ignored() {
    let mut attack = Attack::new();
    tamper(&mut attack, 2, 1, Some((stream(1), Message::Connected(()))));
    attack.drive();
    assert!(attack.net.nodes[0].closed.is_empty());
}

/// A client that sends individual cells on the channel of client 0 to relay 1.
struct ManualClient {
    id: CircId,
    layer: Layer,
}

impl ManualClient {
    fn new(attack: &mut Attack) -> Self {
        let client = ManualClient { id: id(CLIENTS), layer: Layer::new(7) };
        attack.net.inject(0, 1, TestCell::create(client.id, TestHandshake::new(7)));
        attack.net.drive_until(|net| net.nodes[1].relay.population()[1] == attack.before[1] + 1);
        client
    }

    fn send(&mut self, stream: Option<StreamId>, message: Message<TestCell>) -> TestCell {
        let mut cell = TestCell::relay(self.id, stream, message);
        cell.seal(&mut self.layer);
        cell
    }
}

#[test]
fn extend_twice_closes_the_circuit() {
    for at_once in [true, false] {
        let mut attack = Attack::new();
        let mut client = ManualClient::new(&mut attack);
        for _ in 0..2 {
            let cell = client.send(None, Message::Extend(PeerId(2), TestHandshake::new(1)));
            attack.net.inject(0, 1, cell);
            if !at_once {
                attack.net.drive_for(penstock_units::Duration::from_millis(200));
            }
        }
        attack.drive();
        assert_eq!(attack.net.nodes[1].closed.len(), 1);
        assert_eq!(attack.net.nodes[1].closed[0].1, Some(Violation::UnexpectedCell));
        assert_eq!(attack.net.nodes[1].relay.population()[..2], attack.before[..2]);
    }
}

#[test]
fn a_truncated_circuit_ends_at_the_relay_and_can_be_extended_again() {
    let mut attack = Attack::new();
    let mut client = ManualClient::new(&mut attack);
    let before = attack.net.nodes[2].relay.population()[1];
    for _ in 0..3 {
        let extend = client.send(None, Message::Extend(PeerId(2), TestHandshake::new(1)));
        attack.net.inject(0, 1, extend);
        assert!(attack.net.drive_until(|net| net.nodes[2].relay.population()[1] == before + 1));
        let truncate = client.send(None, Message::Truncate);
        attack.net.inject(0, 1, truncate);
        assert!(attack.net.drive_until(|net| net.nodes[2].relay.population()[1] == before));
        assert!(attack.net.nodes[1].closed.is_empty());
    }
    // Both cells arrive in one read, so the truncation comes before the extension completes.
    let cells = [
        client.send(None, Message::Extend(PeerId(2), TestHandshake::new(1))),
        client.send(None, Message::Truncate),
    ];
    attack.net.inject_all(0, 1, cells);
    attack.drive();
    assert_eq!(attack.net.nodes[2].relay.population()[1], before);
    assert!(attack.net.nodes[1].closed.is_empty());
}

#[test]
fn unexpected_sendmes_close_the_circuit() {
    let mut attack = Attack::new();
    let mut client = ManualClient::new(&mut attack);
    let cell = client.send(None, Message::Sendme { proof: None, marked: 0 });
    attack.net.inject(0, 1, cell);
    attack.drive();
    assert_eq!(
        attack.net.nodes[1].closed.last().map(|(_, reason)| *reason),
        Some(Some(Violation::UnexpectedSendme))
    );

    let mut attack = Attack::new();
    let mut client = ManualClient::new(&mut attack);
    let cells = [
        client.send(stream(9), Message::Begin(attack.other_transfer)),
        client.send(stream(9), Message::Sendme { proof: None, marked: 0 }),
    ];
    attack.net.inject_all(0, 1, cells);
    attack.drive();
    assert_eq!(
        attack.net.nodes[1].closed.last().map(|(_, reason)| *reason),
        Some(Some(Violation::UnexpectedSendme))
    );
    assert_eq!(attack.net.nodes[1].relay.population()[2], 0);
}

#[test]
fn messages_of_unknown_streams_are_ignored() {
    let mut attack = Attack::new();
    let mut client = ManualClient::new(&mut attack);
    let piece = Piece { transfer: 0, download: false, offset: 0, len: 1 };
    for _ in 0..300 {
        let cells = [
            client.send(stream(3), Message::Sendme { proof: None, marked: 0 }),
            client.send(stream(3), Message::End(EndReason::DONE)),
            client.send(stream(3), Message::Data(piece)),
        ];
        attack.net.inject_all(0, 1, cells);
    }
    attack.assert_circuits(1);
}

impl Attack {
    fn assert_circuits(&mut self, more: usize) {
        self.drive();
        assert!(self.net.nodes[1].closed.is_empty());
        assert_eq!(self.net.nodes[1].relay.population()[1], self.before[1] + more);
    }
}

#[test]
fn a_reused_stream_id_is_connected_once() {
    let mut attack = Attack::new();
    let mut client = ManualClient::new(&mut attack);
    let (first, second) = (attack.net.script(0, 0), attack.net.script(0, 1 << 20));
    let made = attack.net.nodes[1].relay.counters().made;
    let cells = [
        client.send(stream(1), Message::Begin(first)),
        client.send(stream(1), Message::Begin(first)),
        client.send(stream(1), Message::End(EndReason::DONE)),
        client.send(stream(2), Message::Begin(second)),
    ];
    attack.net.inject_all(0, 1, cells);
    attack.drive();
    assert_eq!(attack.net.nodes[1].relay.population()[2], 1);
    assert_eq!(attack.net.nodes[1].relay.counters().made, made + 1, "one CONNECTED");
}

#[test]
fn data_before_connected_waits_and_counts_in_the_window() {
    let mut attack = Attack::new();
    let mut client = ManualClient::new(&mut attack);
    let transfer = attack.net.script(0, 1 << 20);
    let piece = |cell: u64| Piece { transfer, download: false, offset: cell * 498, len: 498 };
    // All cells arrive before the server's connection, which takes one millisecond.
    let begin = client.send(stream(1), Message::Begin(transfer));
    attack.net.inject(0, 1, begin);
    for cell in 0..501 {
        let cell = client.send(stream(1), Message::Data(piece(cell)));
        attack.net.inject(0, 1, cell);
    }
    attack.net.step();
    while attack.net.nodes[1].closed.is_empty() {
        assert_eq!(
            attack.net.at(transfer).upload.received,
            0,
            "the relay writes nothing before the stream is connected"
        );
        assert!(attack.net.step());
    }
    assert_eq!(attack.net.nodes[1].closed[0].1, Some(Violation::WindowExceeded));
    attack.drive();
}

#[test]
fn invalid_feedback_closes_the_circuit() {
    let mut attack = Attack::new();
    let cell = TestCell::malformed(attack.id(1, Direction::Backward), Command::Feedback);
    attack.net.inject(0, 1, cell);
    attack.assert_closed_for(1, Violation::UnexpectedCell);

    let about = |direction| Feedback { direction, forwarded: 9, allowance: 9 };
    let mut attack = Attack::new();
    let cell = TestCell::feedback(attack.id(1, Direction::Backward), about(Direction::Forward));
    attack.net.inject(0, 1, cell);
    attack.assert_closed_for(1, Violation::UnexpectedCell);

    // The direction is right, but the relay does not support feedback.
    let mut attack = Attack::new();
    let cell = TestCell::feedback(attack.id(1, Direction::Backward), about(Direction::Backward));
    attack.net.inject(0, 1, cell);
    attack.assert_unharmed();
}

#[test]
fn destroy_during_circuit_construction_reaches_both_ends() {
    let mut net = Net::path(3, &RelayConfig::default());
    let circuit = net.open_circuit(0, &[1, 2, 3]);
    assert!(net.drive_until(|net| net.nodes[3].relay.population()[1] == 1));
    let middle = net.circuit_at(0, circuit, 2).expect("the circuit is there");
    net.call(2, |relay, now, host| relay.close_circuit(now, middle, DestroyReason::NONE, host));
    net.drive();
    assert_eq!(net.nodes[0].closed, [(circuit, None)]);
    assert!((0..4).all(|node| net.nodes[node].relay.population()[1] == 0));
}

fn unlimited(acknowledges: bool) -> RelayConfig {
    let edge_control = EdgeControlConfig::Custom {
        circuit: Factory::<dyn EdgeControl>::new(move || Box::new(Unlimited(acknowledges))),
        stream: Factory::<dyn StreamControl>::new(|| Box::new(Unlimited(false))),
    };
    RelayConfig { edge_control, ..RelayConfig::default() }
}

#[test]
fn a_client_that_sends_too_many_sendmes_loses_its_circuit() {
    let mut attack = Attack::with(unlimited(true), RelayConfig::default());
    attack.net.transfer(0, attack.circuit, 1 << 20, 0);
    attack.assert_closed_for(3, Violation::UnexpectedSendme);
}

#[test]
fn an_exit_that_ignores_the_stream_window_loses_the_circuit() {
    let mut attack = Attack::with(RelayConfig::default(), unlimited(false));
    let transfer = attack.net.transfer(0, attack.circuit, 1 << 20, 0);
    attack.net.stall(transfer, Side::Client, true);
    attack.assert_closed_for(0, Violation::WindowExceeded);
}

#[test]
fn a_class_cell_from_the_exit_side_closes_the_circuit() {
    let mut attack = Attack::new();
    let id = attack.id(2, Direction::Forward);
    attack.net.inject(3, 2, TestCell::class(id, PriorityClass::Worse));
    attack.assert_closed_for(2, Violation::UnexpectedCell);
}

#[test]
fn a_malformed_class_cell_closes_the_circuit() {
    let mut attack = Attack::new();
    let id = attack.id(1, Direction::Backward);
    attack.net.inject(0, 1, TestCell::malformed(id, Command::Class));
    attack.assert_closed_for(1, Violation::UnexpectedCell);
}

/// Frequent changes of the class fill no queue. For each change, the relay sends a class cell to the next relay, which
/// may not read.
#[test]
fn frequent_class_changes_fill_no_queue() {
    let mut attack = Attack::new();
    let id = attack.id(1, Direction::Backward);
    let classes = [PriorityClass::Worse, PriorityClass::Better].into_iter().cycle().take(6000);
    attack.net.inject_all(0, 1, classes.map(|class| TestCell::class(id, class)));
    attack.assert_closed_for(1, Violation::QueueExceeded);
}
