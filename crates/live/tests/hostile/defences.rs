//! C tor's defences against denial of service, as the torrc sets them.

use super::common::{Client, Running, dial, pattern, serve};
use super::stream;
use penstock_core::{Cell, CircId, Command, DestroyReason, EndReason};
use penstock_link::cell::{Handshake, HandshakeKind, LiveCell, RelayMessage};
use penstock_live::node::DOS_OPTIONS;
use std::io::{ErrorKind, Read};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 21);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 22);

/// A node with these values of options.
fn node(values: &[(&str, u32)]) -> Running {
    Running::start_configured(|config| {
        for (name, value) in values {
            let place = DOS_OPTIONS.iter().position(|option| option.name == *name);
            config.dos.0[place.expect("the option exists")] = Some(*value);
        }
    })
}

#[test]
fn an_address_has_a_limited_number_of_connections() {
    let node = node(&[("DoSConnectionEnabled", 1), ("DoSConnectionMaxConcurrentCount", 2)]);
    // As in C tor, the address may have one more than the limit.
    let mut links: Vec<_> = (0..3).map(|_| Client::connect_from(FIRST, &node.spec)).collect();
    let mut refused = dial(FIRST, node.spec.addresses[0]).unwrap();
    match refused.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
    Client::connect_from(SECOND, &node.spec);
    assert_eq!(node.observations.next_observation().dos.concurrent, 1);
    links.pop();
    while node.observations.next_observation().population[0] > 2 {}
    Client::connect_from(FIRST, &node.spec);
}

#[test]
fn circuits_above_the_burst_are_refused_for_a_time() {
    let node = node(&[
        ("DoSCircuitCreationEnabled", 1),
        ("DoSCircuitCreationMinConnections", 1),
        ("DoSCircuitCreationRate", 1),
        ("DoSCircuitCreationBurst", 10),
    ]);
    let mut client = Client::connect_from(FIRST, &node.spec);
    let mut made = 0;
    for number in 0..40 {
        let id = CircId(NonZeroU32::new(1 << 31 | (number + 100)).unwrap());
        let handshake = Handshake { kind: HandshakeKind::Fast, data: vec![7; 20] };
        client.write(&LiveCell::create(id, handshake).to_bytes());
        let cell = client.receive();
        match cell.command() {
            Command::Created => made += 1,
            Command::Destroy => assert_eq!(cell.destroy_reason(), DestroyReason::RESOURCE_LIMIT),
            other => panic!("{other:?}"),
        }
    }
    // A few more tokens come if this takes seconds.
    assert!((9..20).contains(&made), "{made}");
    let mut other = Client::connect_from(SECOND, &node.spec);
    other.build(&[node.hop()]);
    let dos = node.observations.next_observation().dos;
    assert_eq!((dos.marked, dos.circuits), (1, 40 - made));
}

#[test]
fn streams_above_the_burst_are_refused_or_close_the_circuit() {
    let values =
        [("DoSStreamCreationEnabled", 1), ("DoSStreamCreationRate", 1), ("DoSStreamCreationBurst", 3)];
    let lenient = node(&values);
    let server = serve(1000);
    let mut client = Client::connect_from(FIRST, &lenient.spec);
    client.build(&[lenient.hop()]);
    for number in 1..=3 {
        assert!(client.download(server, number) == pattern(1000));
    }
    let mut refused = 0;
    for number in 4..14 {
        client.begin(server, stream(number));
        loop {
            match client.receive_message().1 {
                RelayMessage::End(end) if end == EndReason::RESOURCE_LIMIT.into() => {
                    refused += 1;
                    break;
                }
                RelayMessage::End(_) => break,
                _ => {}
            }
        }
    }
    assert!(refused > 5, "{refused}");
    assert_eq!(lenient.observations.next_observation().dos.streams, refused);

    let strict = node(&[values[0], values[1], values[2], ("DoSStreamCreationDefenseType", 3)]);
    let mut client = Client::connect_from(FIRST, &strict.spec);
    client.build(&[strict.hop()]);
    for number in 1..=10 {
        client.begin(server, stream(number));
    }
    loop {
        let cell = client.receive();
        if cell.command() == Command::Destroy {
            assert_eq!(cell.destroy_reason(), DestroyReason::RESOURCE_LIMIT);
            break;
        }
    }
}
