//! A relay under load for a long time. Many links and circuits open and close, some clients read slowly, and floods run in
//! turn. Honest clients measure the service. The relay is a process of its own, in its sandbox. The test fails in each of
//! these cases:
//!
//! - The relay's memory or its number of file descriptors grows.
//! - An honest client fails, or a flood delays honest clients for too long.
//! - The relay closes the link of a peer that obeys the protocol.
//!
//! `make test` runs a minute. `make soak` runs an hour.

#[path = "../common/mod.rs"]
mod common;
mod load;
mod report;

use common::dns::name_server;
use common::gauges::Gauges;
use common::markdown::write_block;
use common::program::{Folder, Program};
use common::{attacker_identity, test_identity};
use load::Load;
use report::Watch;
use std::fs;
use std::thread;

/// A name server's address for this test only.
const NAME_SERVER: &str = "127.53.53.54";

/// The sizes of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The duration of the load [s].
    time: f64,
    /// The number of cycles. Each cycle has each flood once, and then a phase without a flood.
    cycles: usize,
    /// Links of clients that open and close circuits all the time [1].
    links: usize,
    /// Circuits of each link [1].
    circuits: u32,
    /// Clients that read slowly [1].
    slow: usize,
    /// The duration of a link of a client [s].
    link_time: f64,
    /// `MaxMemInQueues` [MB].
    memory: u32,
    /// File descriptors of the relay [1].
    descriptors: usize,
    /// Circuits on one link that closes [1].
    closing: u32,
    /// Idle circuits on each of two links. Together they need more memory than the limit [1].
    idle: u32,
    /// TCP connections of the flood [1/s].
    connections: f64,
    /// Streams of each of eight circuits [1].
    streams: u16,
    /// The interval between two samples [s].
    interval: f64,
    /// A flood may add at most this time to the 99th percentile of the times of honest clients [s].
    delay: f64,
}

const SHORT: Plan = Plan {
    time: 70.0,
    cycles: 4,
    links: 40,
    circuits: 50,
    slow: 5,
    link_time: 15.0,
    memory: 64,
    descriptors: 6000,
    closing: 4000,
    idle: 8000,
    connections: 1000.0,
    streams: 500,
    // The second half of a phase takes a second.
    interval: 0.1,
    // Other tests run at the same time.
    delay: 3.0,
};

/// About 200 links and 10,000 circuits are open at any time, because a client waits before it opens its next link.
const FULL: Plan = Plan {
    time: 3600.0,
    cycles: 20,
    links: 215,
    circuits: 55,
    slow: 20,
    link_time: 60.0,
    memory: 512,
    descriptors: 10_000,
    closing: 40_000,
    idle: 65_530,
    connections: 3000.0,
    streams: 1000,
    interval: 1.0,
    delay: 1.0,
};

#[test]
fn a_relay_under_load_for_a_minute_does_not_grow() {
    soak(&SHORT);
}

#[test]
#[ignore = "it takes an hour"]
fn soak_for_an_hour() {
    let time = std::env::var("TIME").map_or(FULL.time, |time| time.parse().expect("TIME is in seconds"));
    // A cycle takes three minutes. The criterion needs four cycles.
    let cycles = ((time / 180.0) as usize).max(4) / 4 * 4;
    soak(&Plan { time, cycles, ..FULL });
}

/// Peers of the relay panic when the relay closes their links. Only the panics of other threads are printed.
fn silence_peers() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if thread::current().name() != Some("peer") {
            print(panic);
        }
    }));
}

fn soak(plan: &Plan) {
    silence_peers();
    let folder = Folder::new("soak");
    let mut torrc = format!("ExitPolicy accept *:*\nMetricsPort auto\nMaxMemInQueues {} MB\n", plan.memory);
    let has_names = name_server(&format!("{NAME_SERVER}:53")).is_ok();
    if has_names {
        let path = folder.0.join("resolv.conf");
        fs::write(&path, format!("nameserver {NAME_SERVER}\n")).unwrap();
        torrc += &format!("ServerDNSResolvConfFile {}\n", path.display());
    } else {
        println!("skipped: the flood of name lookups needs port 53");
    }
    let mut program = Program::start_with_descriptors(&folder.torrc(&torrc), plan.descriptors);
    let metrics = program.metrics();
    program.read_log();
    // Creating keys takes seconds, which must not belong to a client's time.
    let _ = (test_identity(), attacker_identity());
    let process = program.child.id();
    let before = Gauges::of(process, &metrics).expect("the relay answers");
    let watch = Watch::new(plan, process, &metrics);
    let load = Load::new(plan, program.hop(&folder), has_names);
    thread::scope(|scope| {
        scope.spawn(|| watch.run(&load));
        load.run(scope);
    });
    let after = before.return_at(process, &metrics);
    let table = watch.table(&load);
    println!("{table}");
    let mut problems = watch.growth();
    problems.extend(load.problems());
    problems.extend(after.err());
    let (status, log) = program.end();
    if status != Some(0) {
        problems.push(format!("the relay ended with status {status:?}: {log}"));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    write_block("make soak", &table);
}
