//! Nodes of ours on loopback, and a client by hand: circuits of three hops, and what comes through them.

mod common;

use common::{Client, Running, pattern, serve};
use penstock_core::scheduler::{
    GlobalConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
};
use penstock_core::{RelayConfig, StreamId};
use penstock_live::cell::{LinkSpec, LivePayload, RelayMessage, Target};
use penstock_live::clock::Clock;
use penstock_live::descriptor::{Description, ExitPolicy, Private};
use penstock_live::directory::{Own, Pace};
use penstock_live::keys::Keys;
use penstock_live::node::{Membership, Node, NodeConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn downloads(scheduler: &SchedulerConfig) {
    let nodes: [Running; 3] = std::array::from_fn(|_| Running::start(scheduler.clone()));
    let path: Vec<_> = nodes.iter().map(Running::hop).collect();
    for hops in 1..=3 {
        let mut client = Client::connect(&path[0].0);
        client.build(&path[..hops]);
        for (number, bytes) in (1..).zip([0, 1, 498, 10_000, 1_000_000]) {
            let came = client.download(serve(bytes), number);
            assert!(came == pattern(bytes), "{hops} hops, {bytes} B, {scheduler:?}: {} came", came.len());
        }
    }
}

#[test]
fn what_comes_over_three_nodes_is_what_was_sent() {
    downloads(&SchedulerConfig::default());
}

#[test]
fn so_it_is_with_every_scheduler() {
    let kinds = [
        SchedulerConfig::Global(GlobalConfig::default()),
        SchedulerConfig::Kist(KistConfig::default()),
        SchedulerConfig::KistDeployed(KistDeployedConfig::default()),
        SchedulerConfig::KistLite(KistLiteConfig::default()),
    ];
    kinds.iter().for_each(downloads);
}

/// A relay of a network without authorities, with so long a descriptor [B].
fn member(contact: usize, directory: bool) -> Running {
    let date = Clock::start().date();
    let keys = Keys::generate(&mut rand::rng(), date);
    let onion = keys.identities().onion[0].public;
    let localhost = Ipv4Addr::LOCALHOST;
    let policy = ExitPolicy::new(Vec::new(), Private::AsRules, Vec::new());
    let listen = SocketAddr::new(localhost.into(), 0);
    let relay = RelayConfig::default();
    let config = NodeConfig {
        extend_to_private: true,
        ..NodeConfig::new(listen, localhost.into(), relay, policy.clone())
    };
    let (said, hears) = std::sync::mpsc::channel::<(LinkSpec, i32)>();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut node = Node::bind(config, keys).unwrap();
        let description = Description {
            nickname: "member".into(),
            address: localhost,
            or_port: node.listens_at().unwrap().port(),
            ipv6: None,
            platform: None,
            protocols: "Link=4-5".into(),
            started: date,
            bandwidth: [1, 1, 0],
            contact: Some("x".repeat(contact)),
            family: Vec::new(),
            directory,
            policy,
        };
        let (authorities, pace) = (Vec::new(), Pace::TESTING);
        node.join(Membership { authorities, description, publish: true, own: Own::default(), pace }).unwrap();
        while node.documents().unwrap().own().is_none() {
            node.turn().unwrap();
        }
        said.send((node.link_spec().unwrap(), nix::unistd::gettid().as_raw())).unwrap();
        while !flag.load(Ordering::Relaxed) {
            node.turn().unwrap();
        }
    });
    let (spec, task) = hears.recv().unwrap();
    Running { spec, onion, stop, thread: Some(thread), task, window: Default::default() }
}

/// What comes of a request on a stream of its own, whose cells leave before anybody says CONNECTED.
fn ask(client: &mut Client, number: u16, request: &str) -> String {
    let stream = NonZeroU16::new(number).map(StreamId);
    client.say(stream, &RelayMessage::Begin(Target::Directory));
    for chunk in request.as_bytes().chunks(498) {
        client.say(stream, &RelayMessage::Data(LivePayload::new(chunk).unwrap()));
    }
    String::from_utf8(client.take_all(stream)).unwrap()
}

#[test]
fn a_document_comes_over_one_hop_and_over_three() {
    let nodes: [Running; 3] = std::array::from_fn(|_| member(300_000, true));
    let path: Vec<_> = nodes.iter().map(Running::hop).collect();
    for hops in [1, 3] {
        let mut client = Client::connect(&path[0].0);
        client.build(&path[..hops]);
        // A request of one cell and of many.
        for (number, header) in [(1, 0), (2, 20_000)] {
            let header = "y".repeat(header);
            let request = format!("GET /tor/server/authority.z HTTP/1.0\r\nX: {header}\r\n\r\n");
            let answer = ask(&mut client, number, &request);
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}: {} B", body.len());
            assert!(body.starts_with("router member 127.0.0.1 ") && body.len() > 300_000, "{} B", body.len());
        }
        let answer = ask(&mut client, 3, "GET /tor/keys/all HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.0 404 Not found\r\n"), "{answer}");
        let answer = ask(&mut client, 4, &"z".repeat(40_000));
        assert!(answer.starts_with("HTTP/1.0 400 Bad request\r\n"), "{answer}");
    }
}

#[test]
fn who_is_no_directory_says_so() {
    let node = member(10, false);
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    assert_eq!(ask(&mut client, 1, "GET /tor/server/authority HTTP/1.0\r\n\r\n"), "");
}
