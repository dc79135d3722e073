//! Peers and servers that use up resources: circuits that close at once, too many CREATEs and name lookups, empty token
//! buckets, and connections that break.

use super::common::dns::name_server;
use super::common::exchange;
use super::common::floods::{attacker, creates};
use super::common::gauges;
use super::common::{Client, Running, noise, pattern, seconds, serve, stream};
use super::{node, one_at_a_time, resident, unharmed};
use penstock_core::config::{Bandwidth, Refill};
use penstock_core::{Cell, CircId, DestroyReason, EndReason};
use penstock_link::cell::{Handshake, HandshakeKind, LiveCell, RelayMessage, Resolved, Target};
use penstock_live::clock::Clock;
use penstock_live::names::NameServers;
use penstock_units::{Bytes, DataRate, Duration};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// CPU time of a node's thread so far [s].
pub(super) fn cpu(node: &Running) -> f64 {
    gauges::cpu(node.task())
}

#[test]
fn circuits_that_open_and_close_immediately_leave_no_state() {
    let _guard = one_at_a_time();
    let node = node();
    let mut client = Client::connect(&node.spec);
    let before = resident();
    for round in 0..10 {
        let floods: Vec<u8> = (0..2000)
            .flat_map(|n| {
                let id = CircId(NonZeroU32::new(1 << 31 | (round * 2000 + n + 1000)).unwrap());
                let create = Handshake { kind: HandshakeKind::Ntor, data: noise(84) };
                let create = LiveCell::create(id, create).to_bytes();
                [create, LiveCell::destroy(id, DestroyReason::NONE).to_bytes()].concat()
            })
            .collect();
        client.write(&floods);
    }
    unharmed(&node);
    // The node has processed the whole flood.
    let left = || node.observations.next_observation().population[1];
    assert!((0..600).any(|_| left() == 0), "{} circuits are left", left());
    let grown = resident().saturating_sub(before);
    println!(
        "20000 circuits made and dropped: {grown} B more, at most {} at once",
        node.observations.summary().circuits
    );
    assert!(grown < 50_000_000, "{grown} B");
    client.build(&[node.hop()]);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
}

#[test]
fn a_client_that_floods_handshakes_does_not_block_other_clients() {
    let _guard = one_at_a_time();
    let node = node();
    let stop = AtomicBool::new(false);
    let flooding = || node.observations.next_observation().population[1] > 500;
    thread::scope(|scope| {
        let flood = scope.spawn(|| creates(&node.hop(), attacker(0), || stop.load(Ordering::Relaxed)));
        while !flooding() && !flood.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        let clock = Clock::start();
        // If this thread fails, the flood still ends.
        let served = scope.spawn(|| {
            let mut client = Client::connect(&node.spec);
            for circuit in 0..30 {
                client.new_circuit(circuit + 10);
                client.build(&[node.hop()]);
                assert!(client.download(serve(20_000), 1) == pattern(20_000));
            }
        });
        let served = served.join();
        let (took, still) = (seconds(clock), flooding());
        stop.store(true, Ordering::Relaxed);
        let [made, refused] = flood.join().unwrap();
        println!(
            "30 circuits and downloads in {took:.1} s beside {made} circuits made and {refused} refused"
        );
        assert!(served.is_ok() && still && refused > 1000);
    });
}

#[test]
fn lookups_above_the_limit_are_refused() {
    let _guard = one_at_a_time();
    // This name server never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = NameServers::At(vec![silent.local_addr().unwrap()]);
    let node = Running::start_configured(|config| (config.name_servers, config.descriptors) = (at, 50_000));
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    // This is no name, so it needs no name server.
    let (host, port, flags) = ("127.1".to_owned(), 80, Default::default());
    client.send_message(stream(1), &RelayMessage::Begin(Target::Host { host, port, flags }));
    let clock = Clock::start();
    assert_eq!(client.receive_message().1, RelayMessage::End(EndReason::RESOLVE_FAILED.into()));
    assert!(seconds(clock) < 3.0);
    let before = resident();
    let count = 1500;
    for number in 1..=count {
        client.send_message(
            stream(number),
            &RelayMessage::Begin(Target::Resolve(format!("x{number}.example"))),
        );
    }
    unharmed(&node);
    let (mut refused, mut later) = (0, 0);
    for _ in 0..count {
        match client.receive_message().1 {
            RelayMessage::End(end) if end == EndReason::RESOURCE_LIMIT.into() => refused += 1,
            RelayMessage::Resolved(answers)
                if answers.iter().all(|(answer, _)| *answer == Resolved::Transient) =>
            {
                later += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    println!("{later} lookups had no answer, {refused} were refused, {} B more memory", resident() - before);
    assert_eq!((later, refused), (256, 1244));
    assert_eq!(node.observations.next_observation().population[2], 0);
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
}

/// One circuit asks for 200 names per second that no server answers; then 6 circuits ask for 300 such names each.
/// Beside them, an honest circuit of the same address opens a stream to another name every 50 ms.
#[test]
fn names_that_no_server_answers_delay_no_other_circuit() {
    let _guard = one_at_a_time();
    let at = NameServers::At(vec![name_server("127.0.0.1:0").unwrap()]);
    let node = Running::start_configured(|config| (config.name_servers, config.descriptors) = (at, 50_000));
    let server = serve(100);
    let ask = |client: &mut Client, number: u16, name: String| {
        let (host, flags) = (name, Default::default());
        let target = Target::Host { host, port: server.port(), flags };
        client.send_message(stream(number), &RelayMessage::Begin(target));
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut client = Client::connect(&node.spec);
            client.build(&[node.hop()]);
            for number in 1..=1400 {
                ask(&mut client, number, format!("x{number}.example"));
                thread::sleep(std::time::Duration::from_millis(5));
            }
            for circuit in 0..6 {
                client.new_circuit(circuit + 10);
                client.build(&[node.hop()]);
                for number in 1..=300 {
                    ask(&mut client, number, format!("x{number}.c{circuit}.example"));
                }
            }
            thread::sleep(std::time::Duration::from_secs(2));
            stop.store(true, Ordering::Relaxed);
        });
        let honest = scope.spawn(|| {
            let mut client = Client::connect(&node.spec);
            client.build(&[node.hop()]);
            let (mut number, mut slowest) = (0, 0.0_f64);
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let clock = Clock::start();
                ask(&mut client, number, format!("name{number}.example"));
                let came = client.read_to_end(stream(number));
                assert_eq!(came.len(), 100, "stream {number} failed");
                slowest = slowest.max(seconds(clock));
                thread::sleep(std::time::Duration::from_millis(50));
            }
            (number, slowest)
        });
        let honest = honest.join();
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        let (streams, slowest) = honest.unwrap();
        println!("{streams} streams to other names, the slowest took {slowest:.3} s");
        assert!(streams > 50 && slowest < 1.0);
    });
}

#[test]
fn an_empty_bucket_stops_all_clients_until_its_refill() {
    let rate = DataRate::new(400_000).unwrap();
    let node = Running::start_configured(|config| {
        config.relay.bandwidth = Some(Bandwidth { rate, burst: Bytes::new(100_000) });
        config.relay.refill = Refill::TOR_0_4_9;
    });
    let (server, _ends) = exchange::server();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    let (clock, before) = (Clock::start(), cpu(&node));
    client.exchange(server, 1, 0, 1_000_000);
    let (down, spent) = (seconds(clock), cpu(&node) - before);
    // Each byte is read and written once. Reads and writes have separate buckets.
    println!("1 MB down at 400 kB/s: {down:.2} s, {spent:.2} s of CPU");
    assert!((2.0..6.0).contains(&down), "{down} s");
    assert!(spent < down / 4.0, "the node sleeps while it waits for tokens: {spent} s of {down} s");
    let (clock, before) = (Clock::start(), cpu(&node));
    client.exchange(server, 2, 1_000_000, 0);
    let (up, spent) = (seconds(clock), cpu(&node) - before);
    println!("1 MB up at 400 kB/s: {up:.2} s, {spent:.2} s of CPU");
    assert!((2.0..6.0).contains(&up), "{up} s");
    assert!(spent < up / 4.0, "the node sleeps while it waits for tokens: {spent} s of {up} s");
    // A client that connects while the bucket is empty is served, too.
    let second = thread::scope(|scope| {
        let busy = scope.spawn(|| client.exchange(server, 3, 500_000, 500_000));
        let mut other = Client::connect(&node.spec);
        other.build(&[node.hop()]);
        other.exchange(server, 1, 20_000, 20_000);
        let second = busy.is_finished();
        busy.join().unwrap();
        second
    });
    assert!(!second, "the small transfer does not wait for the large one");
}

/// A server that sends `bytes` bytes to each client, waits, and resets the connection.
fn resets(bytes: u64, wait: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket2::Socket::from(socket.unwrap());
            thread::spawn(move || {
                socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
                let mut said = Vec::new();
                exchange::send(&mut said, bytes).unwrap();
                // The server drops bytes that the node does not accept.
                socket.set_write_timeout(Some(wait)).unwrap();
                let _ = (&socket).write_all(&said);
                thread::sleep(wait);
            });
        }
    });
    address
}

#[test]
fn a_server_that_resets_its_connection_ends_its_stream_and_no_other() {
    let node = node();
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    // The client receives the bytes before the reset, and then the reason.
    let wait = Duration::from_millis(500);
    client.begin(resets(100_000, wait), stream(1));
    let mut came = 0;
    let reason = loop {
        match client.receive_message().1 {
            RelayMessage::Connected(_) => {}
            RelayMessage::Data(payload) => came += payload.as_bytes().len(),
            RelayMessage::End(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((came, reason), (100_000, EndReason::CONNECTION_RESET.into()));
    // The node still has SENDMEs to send on this circuit.
    let acknowledged = client.new_circuit(9);
    client.build(&[node.hop()]);
    drop(acknowledged);

    // A stream with a used-up window ends only when it may send again. Meanwhile, the node does not use the processor.
    client.begin(resets(10_000_000, wait), stream(2));
    let mut tags = Vec::new();
    while tags.len() < 500 {
        if let (_, RelayMessage::Data(_), tag) = client.receive_message() {
            tags.push(tag);
        }
    }
    thread::sleep(2 * wait);
    let before = cpu(&node);
    thread::sleep(Duration::from_secs(1));
    let spent = cpu(&node) - before;
    assert!(spent < 0.2, "{spent} s of a second");
    for number in 1..=10 {
        client.send_message(stream(2), &RelayMessage::Sendme(None));
        if number % 2 == 0 {
            client.send_message(None, &RelayMessage::Sendme(Some(tags[number * 50 - 1])));
        }
    }
    let mut cells = tags.len();
    let reason = loop {
        match client.receive_message() {
            (_, RelayMessage::End(end), _) => break end,
            (_, RelayMessage::Data(_), tag) => {
                cells += 1;
                if cells % 50 == 0 {
                    client.send_message(stream(2), &RelayMessage::Sendme(None));
                }
                if cells % 100 == 0 {
                    client.send_message(None, &RelayMessage::Sendme(Some(tag)));
                }
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason, EndReason::CONNECTION_RESET.into());
    assert_eq!(node.observations.next_observation().population[2], 0);
    unharmed(&node);
}

#[test]
fn a_server_that_resets_what_is_written_to_it_ends_its_stream() {
    let node = node();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    // Closing with unread bytes resets.
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        thread::sleep(Duration::from_millis(500));
        drop(socket);
    });
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    client.begin(server, stream(1));
    assert!(matches!(client.receive_message().1, RelayMessage::Connected(_)));
    let payload = penstock_link::cell::LivePayload::new(&[0; 498]).unwrap();
    for _ in 0..200 {
        client.send_message(stream(1), &RelayMessage::Data(payload.clone()));
    }
    let reason = loop {
        if let RelayMessage::End(end) = client.receive_message().1 {
            break end;
        }
    };
    assert_eq!(reason, EndReason::CONNECTION_RESET.into());
    unharmed(&node);
}
