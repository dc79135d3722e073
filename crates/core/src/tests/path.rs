//! Circuits are built, streams open, and bytes arrive complete and in order (G-01, G-02).

use super::cell::TestHandshake;
use super::host::Side;
use super::util::{Link, Net};
use crate::cell::PeerId;
use crate::keys::CircuitIndex;
use crate::reason::{DestroyReason, EndReason};
use crate::{Direction, RelayConfig};
use penstock_units::{DataRate, Duration};

fn path() -> Net {
    Net::path(3, &RelayConfig::default())
}

fn cells(bytes: u64) -> u64 {
    bytes.div_ceil(498)
}

#[test]
fn a_circuit_is_built_hop_by_hop() {
    let mut net = path();
    let circuit = net.open_circuit(0, &[1, 2, 3]);
    for relay in 1..=3 {
        assert!(net.nodes[relay].relay.population() == [0, 0, 0], "relay {relay} has no circuit yet");
        let hop = net.drive_until(|net| net.nodes[relay].relay.population()[1] == 1);
        assert!(hop, "relay {relay} has the circuit");
    }
    assert!(net.nodes[0].built.is_empty());
    net.drive();
    assert_eq!(net.nodes[0].built, [circuit]);
    let created = |node: usize| net.nodes[node].relay.counters().made;
    // The client sends CREATE and two EXTENDs. Each relay sends CREATED, CREATE and EXTENDED, but
    // the last relay sends only CREATED.
    assert_eq!([0, 1, 2, 3].map(created), [3, 3, 3, 1]);
}

#[test]
fn circuits_to_the_same_peer_share_a_channel() {
    let mut net = path();
    net.build(0, &[1, 2, 3]);
    let [second, other] = [2, 77].map(PeerId);
    let relay = &mut net.nodes[1].relay;
    let (channel, _) = relay.leg(CircuitIndex::first(0), Direction::Forward).unwrap();
    assert!(relay.has_channel(second) && relay.shares(second) && !relay.has_channel(other));
    relay.set_peer(channel, other);
    assert!(relay.has_channel(other) && relay.shares(other) && !relay.has_channel(second));
    assert!(!relay.shares(second));
    net.build(0, &[1, 2, 3]);
    assert_eq!(net.nodes[1].relay.population(), [3, 2, 0], "the third channel leads to the second relay");
    net.call(1, |relay, now, host| relay.close_channel(now, channel, host));
    let relay = &net.nodes[1].relay;
    assert!(relay.has_channel(second) && !relay.has_channel(other));
}

#[test]
fn a_circuit_of_any_length_works() {
    for relays in 1..=6 {
        let mut net = Net::path(relays, &RelayConfig::default());
        let hops: Vec<_> = (1..=relays).collect();
        let circuit = net.build(0, &hops);
        let transfer = net.transfer(0, circuit, 10_000, 10_000);
        net.drive();
        assert!(net.at(transfer).is_complete(), "{relays} relays");
    }
}

#[test]
fn a_stream_opens_and_closes() {
    let mut net = path();
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 0, 1);
    net.stall(transfer, Side::Server, true);
    assert!(net.drive_until(|net| net.at(transfer).connected));
    assert_eq!(net.at(transfer).closed, [false, false]);
    net.drive();
    net.stall(transfer, Side::Server, false);
    net.drive();
    assert_eq!(net.at(transfer).closed, [true, true], "the server closed after the transfer");
    assert_eq!(net.nodes[0].relay.population(), [1, 1, 0]);
    assert_eq!(net.nodes[3].relay.population(), [1, 1, 0]);
}

#[test]
fn a_client_learns_why_the_exit_ended_a_stream() {
    let mut net = path();
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 1000, 0);
    net.drive();
    assert!(net.at(transfer).is_complete());
    assert_eq!(net.nodes[0].ended, [EndReason::DONE]);
    // The end that sends END gets no event.
    assert_eq!(net.nodes[3].ended, []);
}

#[test]
fn an_application_can_close_first() {
    let mut net = path();
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 10 << 20, 0);
    assert!(net.drive_until(|net| net.at(transfer).download.received > 100_000));
    let stream = net.at(transfer).stream.expect("the stream was opened");
    net.call(0, |relay, now, host| relay.close_stream(now, stream, EndReason::DONE, host));
    net.drive();
    assert_eq!(net.at(transfer).closed, [true, true]);
    assert!(net.at(transfer).download.sent < 500_000, "the exit stops reading");
    // The circuit still works.
    let next = net.transfer(0, circuit, 700_000, 0);
    net.drive();
    assert!(net.at(next).is_complete());
}

#[test]
fn a_download_arrives_complete_and_in_order() {
    for bytes in [1, 497, 498, 499, 50 << 10, 320 << 10, 1 << 20, 5_000_001] {
        let mut net = path();
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, bytes, 0);
        net.drive();
        assert!(net.at(transfer).is_complete(), "{bytes} bytes");
        assert_eq!(net.nodes[3].relay.counters().data_packaged, cells(bytes));
        assert_eq!(net.nodes[0].relay.counters().data_delivered, cells(bytes));
    }
}

#[test]
fn an_upload_arrives_complete_and_in_order() {
    let mut net = path();
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 0, 1 << 20);
    net.drive();
    assert!(net.at(transfer).is_complete());
    assert_eq!(net.nodes[0].relay.counters().data_packaged, cells(1 << 20));
    assert_eq!(net.nodes[3].relay.counters().sendmes, cells(1 << 20) / 100);
}

#[test]
fn streams_and_circuits_share_the_path_both_ways() {
    let mut net = path();
    let second = net.add(true, RelayConfig::default());
    let circuits = [
        (0, net.build(0, &[1, 2, 3])),
        (0, net.build(0, &[3, 1, 2])),
        (second, net.build(second, &[1, 2, 3])),
    ];
    for (client, circuit) in circuits {
        for stream in 0..4u64 {
            net.transfer(client, circuit, 100_000 * stream + 1, 300_000 / (stream + 1));
        }
    }
    net.drive();
    assert_eq!(net.transfers(), 12);
    for transfer in 0..net.transfers() {
        assert!(net.at(transfer).is_complete(), "{transfer}: {:?}", net.at(transfer));
        assert_eq!(net.at(transfer).closed, [true, true]);
    }
    let channels = |node: usize| net.nodes[node].relay.population()[0];
    assert_eq!([0, 1, 2, 3].map(channels), [2, 4, 2, 3], "circuits share channels");
}

#[test]
fn small_buffers_lose_no_cells() {
    let mut net = path();
    net.link = Link { rate: DataRate::kib(200), send_buffer: 700, receive_buffer: 1100, ..Link::default() };
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 200_000, 50_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
}

#[test]
fn a_partly_written_output_buffer_keeps_the_rejected_cells() {
    let mut net = path();
    // The kernel of the exit accepts 5 cells at a time from an output buffer of 64 cells.
    net.set_link(2, 3, Link { rate: DataRate::kib(50), send_buffer: 5 * 512, ..Link::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 300_000, 0);
    let mut refused = 0;
    while net.step() {
        let exit = &net.nodes[3];
        assert!(
            exit.relay.outbuf_bytes().get() <= 32 << 10,
            "the output buffer fills only to its high-water mark"
        );
        refused += u32::from(exit.host.writes.last().is_some_and(|write| (1..5).contains(&write.ids.len())));
    }
    assert!(refused > 0, "the kernel rejects cells of a batch");
    assert!(net.at(transfer).is_complete());
}

#[test]
fn a_reader_that_stops_stops_the_sender() {
    for side in [Side::Client, Side::Server] {
        let mut net = path();
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 3 << 20, 3 << 20);
        assert!(net.drive_until(
            |net| net.at(transfer).download.received > 0 && net.at(transfer).upload.received > 0
        ));
        net.stall(transfer, side, true);
        net.drive();
        let state = net.at(transfer);
        let (stalled, other) = if side == Side::Client {
            (state.download, state.upload)
        } else {
            (state.upload, state.download)
        };
        assert!(stalled.sent - stalled.received <= 500 * 498, "at most the stream window waits: {stalled:?}");
        assert!(stalled.sent < stalled.total);
        assert_eq!(other.received, other.total, "the other direction continues");
        net.stall(transfer, side, false);
        net.drive();
        assert!(net.at(transfer).is_complete());
    }
}

#[test]
fn a_stopped_stream_does_not_block_the_other_streams_of_its_circuit() {
    let mut net = path();
    let circuit = net.build(0, &[1, 2, 3]);
    let stalled = net.transfer(0, circuit, 2 << 20, 0);
    net.stall(stalled, Side::Client, true);
    let other = net.transfer(0, circuit, 2 << 20, 0);
    net.drive();
    assert!(net.at(other).is_complete());
    assert!(!net.at(stalled).is_complete());
}

#[test]
fn a_stream_after_end_delivers_its_data_and_reads_no_more() {
    let mut net = path();
    net.set_link(2, 3, Link { rate: DataRate::kib(40), send_buffer: 4 << 10, ..Link::default() });
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 20 << 20, 100 * 498);
    net.stall(transfer, Side::Server, true);
    // All data of the upload waits at the exit, whose queue is full.
    assert!(net.drive_until(|net| net.nodes[3].relay.counters().data_delivered == 100));
    let stream = net.at(transfer).stream.expect("the stream was opened");
    net.call(0, |relay, now, host| relay.close_stream(now, stream, EndReason::DONE, host));
    net.drive_for(Duration::from_millis(100));
    let sent = net.at(transfer).download.sent;
    net.drive();
    assert_eq!(net.at(transfer).download.sent, sent, "the exit reads no data after the END");
    assert_eq!(net.at(transfer).closed, [true, false], "the server has not read all data yet");
    net.stall(transfer, Side::Server, false);
    net.drive();
    assert_eq!(net.at(transfer).upload.received, 100 * 498);
    assert_eq!(net.at(transfer).closed, [true, true]);
}

#[test]
fn destroy_during_a_transfer_frees_all_state() {
    for closer in 0..=3 {
        let mut net = path();
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 5 << 20, 1 << 20);
        assert!(net.drive_until(|net| net.at(transfer).download.received > 1 << 20));
        let there = net.circuit_at(0, circuit, closer).expect("the circuit is there");
        net.call(closer, |relay, now, host| relay.close_circuit(now, there, DestroyReason::NONE, host));
        net.drive();
        for node in 0..=3 {
            let [_, circuits, streams] = net.nodes[node].relay.population();
            assert_eq!(
                (circuits, streams),
                (0, 0),
                "closed by {closer}: node {node} has no circuit and no stream"
            );
            assert_eq!(net.nodes[node].closed.len(), 1);
            assert_eq!(net.nodes[node].closed[0].1, None);
            assert_eq!(net.nodes[node].relay.queued().get(), 0);
        }
        assert_eq!(net.at(transfer).closed, [true, true]);
        let circuit = net.build(0, &[1, 2, 3]);
        let again = net.transfer(0, circuit, 100_000, 0);
        net.drive();
        assert!(net.at(again).is_complete(), "the channels still work");
    }
}

#[test]
fn a_channel_that_closes_during_a_transfer_closes_only_its_circuits() {
    for (near, far) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)] {
        let mut net = path();
        let other = net.add(true, RelayConfig::default());
        let relay = net.add(false, RelayConfig::default());
        let circuit = net.build(0, &[1, 2, 3]);
        let elsewhere = net.build(other, &[2, relay]);
        let transfer = net.transfer(0, circuit, 5 << 20, 1 << 20);
        let untouched = net.transfer(other, elsewhere, 5 << 20, 1 << 20);
        assert!(net.drive_until(|net| net.at(transfer).download.received > 1 << 20));
        net.disconnect(near, far);
        net.drive();
        assert_eq!(net.at(transfer).closed, [true, true], "{near} to {far}");
        assert!(net.at(untouched).is_complete());
        for node in 0..=3 {
            assert_eq!(net.nodes[node].closed.len(), 1, "{near} to {far}: node {node}");
        }
        // A new circuit opens a new channel.
        let circuit = net.build(0, &[1, 2, 3]);
        let again = net.transfer(0, circuit, 100_000, 0);
        net.drive();
        assert!(net.at(again).is_complete());
    }
}

#[test]
fn a_circuit_may_return_on_the_same_channel() {
    // Relay 1 extends to relay 2 and relay 2 back to relay 1: two legs of one circuit on one channel.
    let mut net = path();
    let circuit = net.build(0, &[1, 2, 1]);
    let transfer = net.transfer(0, circuit, 300_000, 300_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
    let second = net.transfer(0, circuit, 5 << 20, 0);
    assert!(net.drive_until(|net| net.at(second).download.received > 1 << 20));
    net.disconnect(1, 2);
    net.drive();
    assert_eq!([0, 1, 2].map(|node| net.nodes[node].relay.population()[1]), [0, 0, 0]);
}

#[test]
fn early_and_repeated_timers_change_nothing() {
    let bandwidth =
        crate::config::Bandwidth { rate: DataRate::kib(100), burst: penstock_units::Bytes::kib(100) };
    let config = RelayConfig { bandwidth: Some(bandwidth), ..RelayConfig::default() };
    let run = |nervous: bool| {
        let mut net = Net::path(3, &config);
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 500_000, 100_000);
        while net.step() {
            for node in 0..if nervous { 4 } else { 0 } {
                net.call(node, |relay, now, host| (relay.on_timer(now, host), relay.on_timer(now, host)));
            }
        }
        assert!(net.at(transfer).is_complete());
        (net.now, [0, 1, 2, 3].map(|node| net.nodes[node].relay.counters()))
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn keys_of_closed_circuits_and_channels_are_ignored() {
    let mut net = path();
    let circuit = net.build(0, &[1, 2, 3]);
    let transfer = net.transfer(0, circuit, 1000, 0);
    net.drive();
    let stream = net.at(transfer).stream.expect("the stream was opened");
    let channel = net.channel(0, 1).expect("the channel is open");
    net.call(0, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::NONE, host));
    net.disconnect(0, 1);
    net.drive();
    net.call(0, |relay, now, host| {
        relay.close_circuit(now, circuit, DestroyReason::NONE, host);
        relay.close_stream(now, stream, EndReason::DONE, host);
        relay.on_channel_closed(now, channel, host);
        relay.on_channel_open(now, channel, None, host);
        relay.on_readable(now, channel, host);
        relay.on_writable(now, channel, host);
        relay.on_stream_readable(now, stream, host);
        relay.on_stream_writable(now, stream, host);
        relay.on_stream_connected(now, stream, (), host);
        relay.start_handshake(now, circuit, TestHandshake::new(1), host);
        relay.extend(now, circuit, crate::PeerId(2), TestHandshake::new(1), host);
        assert!(relay.open_stream(now, circuit, 0, host).is_none());
        assert_eq!(relay.leg(circuit, Direction::Forward), None);
    });
}

#[test]
fn a_run_is_deterministic() {
    let run = || {
        let mut net = path();
        net.link.latency = Duration::from_millis(7);
        let circuit = net.build(0, &[1, 2, 3]);
        for stream in 1..5 {
            net.transfer(0, circuit, 100_000 * stream, 10_000 * stream);
        }
        net.drive();
        (net.now, format!("{:?}", net.nodes[2].host.writes))
    };
    assert_eq!(run(), run());
}

#[test]
fn acknowledged_cells_have_random_padding() {
    let config = RelayConfig { sendme_padding: 16, ..RelayConfig::default() };
    let windows = 40;
    for (config, cells) in [(config, windows * 100), (RelayConfig::default(), windows * 100 - 1)] {
        let mut net = Net::path(3, &config);
        let circuit = net.build(0, &[1, 2, 3]);
        // 99 of 100 cells are full.
        let transfer = net.transfer(0, circuit, windows * (99 * 498 + 482), 0);
        net.drive();
        assert!(net.at(transfer).is_complete());
        assert_eq!(net.nodes[3].relay.counters().data_packaged, cells);
    }
}

#[test]
fn a_client_that_hangs_up_with_many_circuits_does_not_close_the_next_link() {
    let limits =
        crate::config::Limits { outbuf: penstock_units::Bytes::kib(16), ..crate::config::Limits::default() };
    let mut net = Net::path(2, &RelayConfig { limits, ..RelayConfig::default() });
    // 200 DESTROYs have 100 KiB.
    let circuits = 200;
    for _ in 0..circuits {
        net.build(0, &[1, 2]);
    }
    let other = net.add(true, RelayConfig::default());
    net.set_link(1, other, Link::default());
    let survivor = net.build(other, &[1, 2]);
    assert_eq!(net.nodes[2].relay.population()[1], circuits + 1);
    net.disconnect(0, 1);
    net.drive();
    assert_eq!(net.nodes[2].relay.population()[1], 1, "all circuits of the client are closed");
    let transfer = net.transfer(other, survivor, 10_000, 10_000);
    net.drive();
    assert!(net.at(transfer).is_complete());
}
