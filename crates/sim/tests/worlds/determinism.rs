//! G-03: the same scenario, seed and version give the same bytes.

use crate::networks;
use crate::util::{Lab, complete};
use penstock_record::{RunKey, Tables};
use penstock_sim::Outcome;
use std::path::PathBuf;

const FILES: [&str; 6] = [
    "transfers.parquet",
    "paths.parquet",
    "relays.parquet",
    "circuits.parquet",
    "cells.parquet",
    "clients.parquet",
];

/// The bytes of the tables, written into a directory of this test.
fn parquet(tables: &Tables, name: &str) -> Vec<Vec<u8>> {
    let dir: PathBuf = std::env::temp_dir().join(format!("penstock-sim-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the test");
    tables.write(&dir, &RunKey::new("stock", 1)).expect("the directory is writable");
    let files = FILES.map(|file| std::fs::read(dir.join(file)).expect("the file was written")).to_vec();
    std::fs::remove_dir_all(&dir).expect("the directory exists");
    files
}

fn assert_same(one: &Outcome, other: &Outcome) {
    assert!(one.tables == other.tables, "the tables differ");
    assert_eq!(one.stats, other.stats);
    assert_eq!(one.nodes, other.nodes);
    assert_eq!(one.network, other.network);
}

/// A path with random losses, sizes, pauses and refill phases.
fn lossy() -> Lab {
    Lab::path()
        .set("network.loss", "0.01")
        .set("relays.entry.bandwidth_rate", "300 KiB/s")
        .set("trace.clients", "1 s")
        .set("relays.entry.throttle", "{ kind = 'static', rate = '100 KiB/s' }")
        .set("run.duration", "20 s")
}

/// Hosts at many distances, and links whose queues overflow.
fn crowded() -> Lab {
    Lab::path()
        .with("[relays.more]\ncount = 3\nlink = \"200 KiB/s\"\n\n[clients.crowd]\ncount = 6\nworkload = \"web\"\n")
        .set("client.path", "weighted")
        .set("network.link_queue", "9000 B")
        .set("network.pairs", "[{ between = [\"entry\", \"middle\"], rtt = \"1 ms\" }, \
             { between = [\"crowd\", \"entry\"], rtt = \"333 ms\" }]")
        .set("run.duration", "10 s")
}

/// Slow processors, closing sockets, and clients with short timeouts, some without Tor.
fn saturated() -> Lab {
    Lab::path()
        .with(
            "[clients.crowd]\ncount = 8\nworkload = \"impatient\"\n\n\
             [clients.plain]\ncount = 4\nworkload = \"impatient\"\npath = []\n\n\
             [workloads.impatient]\nsize = \"200 KiB\"\ntimeout = \"900 ms\"\nfresh_circuit = true\n\
             pause = \"uniform(0 s, 300 ms)\"\n",
        )
        .set("relay.cpu", "{ cell = \"800 us\", call = \"2 ms\" }")
        .set("client.optimistic_data", "true")
        .set("network.rtt", "1 ms")
        .set("run.duration", "10 s")
}

/// Closing sockets whose interfaces send the oldest write first, so the order of ACKs must not depend on slots.
fn oldest_first() -> Lab {
    saturated()
        .set("tcp.profile", "shadow-1.9")
        .set("tcp.interface_order", "oldest-write")
        .set("network.loss", "0.01")
}

/// Sampled rates and delays: a dumbbell with a trunk.
fn sampled() -> Lab {
    let latency =
        "{ near = \"quantiles(8 ms, 40 ms)\", far_share = 0.5, across = \"quantiles(60 ms, 120 ms)\" }";
    weighted()
        .set("network.latency", latency)
        .set("relay.bandwidth_rate", "quantiles(100 KiB/s, 200 KiB/s, 2 MiB/s)")
}

/// Clients that sample paths, circuits and servers.
fn weighted() -> Lab {
    Lab::path()
        .with("[relays.more]\ncount = 6\nlink = \"300 KiB/s\"\n\n[servers.farm]\ncount = 3\n")
        .set("client.path", "weighted")
        .set("workloads.web.fresh_circuit", "true")
        .set("run.duration", "20 s")
}

/// Relays of an era at their places, and clients with paths like Tor's.
fn network() -> Lab {
    networks::network().set("run.duration", "20 s")
}

#[test]
fn the_same_run_twice_gives_the_same_bytes() {
    for (name, lab) in [("lossy", lossy()), ("weighted", weighted())] {
        let (one, other) = (lab.run(3), lab.run(3));
        assert_same(&one, &other);
        assert!(parquet(&one.tables, &format!("{name}-a")) == parquet(&other.tables, &format!("{name}-b")));
        assert!(!one.tables.cells.is_empty() && one.tables.transfers.len() > 5);
        assert_eq!(one.tables.clients.is_empty(), name != "lossy");
    }
}

/// Look-ahead is correct: every arrival, ACK and queue is the same as with one event at a time.
#[test]
fn a_run_one_event_at_a_time_gives_the_same_bytes() {
    let stopped = Lab::path().set("run.stop", "{ workload = \"web\", downloads = 5 }");
    let labs = [
        ("lossy", lossy()),
        ("weighted", weighted()),
        ("sampled", sampled()),
        ("crowded", crowded()),
        ("saturated", saturated()),
        ("oldest first", oldest_first()),
        ("stopped", stopped),
    ];
    for (name, lab) in labs {
        let document = lab.document();
        let scenario = document.scenario("stock").expect("the variant is in the text");
        let slow = penstock_sim::run(scenario, 3, &penstock_sim::Control::one_by_one())
            .expect("the run is not cancelled");
        let fast = lab.run(3);
        assert_same(&fast, &slow);
        assert!(
            parquet(&fast.tables, &format!("{name}-fast")) == parquet(&slow.tables, &format!("{name}-slow"))
        );
        assert!(
            fast.tables.cells.len() > 100 && fast.tables.transfers.len() > 5,
            "{name} has cells and downloads"
        );
    }
}

#[test]
fn a_run_in_several_threads_gives_the_same_bytes() {
    let plain = lossy().with("[clients.plain]\nworkload = \"web\"\npath = []\n");
    let labs = [lossy(), weighted(), sampled(), crowded(), saturated(), oldest_first(), plain, network()];
    for (place, lab) in labs.iter().enumerate() {
        let document = lab.document();
        let scenario = document.scenario("stock").expect("the variant is in the text");
        let one = lab.run(3);
        for threads in [2, 3, 8] {
            let control = penstock_sim::Control::new().with_threads(threads);
            let several = penstock_sim::run(scenario, 3, &control).expect("the run is not cancelled");
            assert_same(&one, &several);
        }
        assert!(one.tables.cells.len() > 100 && one.tables.circuits.len() > 100, "{place}");
    }
}

#[test]
fn a_run_in_several_threads_can_be_cancelled() {
    let document = lossy().document();
    let scenario = document.scenario("stock").expect("the variant is in the text");
    let control = penstock_sim::Control::new().with_threads(3);
    control.cancel();
    assert_eq!(penstock_sim::run(scenario, 3, &control).map(drop), Err(penstock_sim::Error::Cancelled));
}

#[test]
fn another_seed_gives_another_run() {
    assert!(lossy().run(3).tables != lossy().run(4).tables);
}

#[test]
fn a_run_next_to_seven_others_gives_the_same_bytes() {
    let (lossy, weighted, network) = (lossy(), weighted(), network());
    let single = [lossy.run(1), weighted.run(1), network.run(1)];
    let parallel: Vec<Outcome> = std::thread::scope(|scope| {
        let run = |place: u64| {
            let (lossy, weighted, network) = (&lossy, &weighted, &network);
            move || match place {
                0 => lossy.run(1),
                1 => weighted.run(1),
                2 => network.run(1),
                3..5 => lossy.run_variant("50KiB", place),
                _ => weighted.run(place),
            }
        };
        let threads: Vec<_> = (0..8).map(|place| scope.spawn(run(place))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no run panics")).collect()
    });
    for (place, (single, parallel)) in single.iter().zip(&parallel).enumerate() {
        assert_same(single, parallel);
        let names = ["single", "beside"].map(|side| format!("{side}-{place}"));
        assert!(parquet(&single.tables, &names[0]) == parquet(&parallel.tables, &names[1]));
    }
}

#[test]
fn the_order_of_tables_in_the_file_changes_nothing() {
    for lab in [lossy(), weighted(), network()] {
        let one = lab.run(2);
        assert_same(&one, &lab.clone().reordered(|tables| tables.reverse()).run(2));
        assert_same(&one, &lab.clone().reordered(|tables| tables.rotate_left(5)).run(2));
    }
}

#[test]
fn an_idle_node_changes_no_row_of_another() {
    let lab = lossy();
    let idle = "[relays.aardvark]\nbandwidth_rate = \"1 MiB/s\"\n\n[servers.aside]\n\n\
                [workloads.never]\nsize = \"1 MiB\"\nstart = \"1 h\"\n\n\
                [clients.early]\nworkload = \"never\"\n\n[clients.zebra]\nworkload = \"never\"\n";
    // No client uses the new server: the number of servers affects the choice.
    let lab = lab.set("client.server", "destination");
    let (without, with) = (lab.run(5), lab.clone().with(idle).run(5));
    let mut tables = with.tables.clone();
    tables.relays.retain(|row| &*row.relay != "aardvark");
    assert!(tables == without.tables);
    let busy = |node: &&penstock_sim::NodeReport| node.counters.made > 0;
    assert!(with.nodes.iter().filter(busy).eq(&without.nodes));
    assert_eq!((with.stats.packets, with.stats.cells), (without.stats.packets, without.stats.cells));
}

#[test]
fn a_busy_client_on_another_path_changes_no_row() {
    let lab = lossy().set("client.server", "destination");
    let elsewhere = "[relays.a1]\n\n[relays.a2]\n\n[relays.z3]\n\n[servers.another]\n\n\
                     [clients.also]\nworkload = \"web\"\npath = [\"a1\", \"a2\", \"z3\"]\nserver = \"another\"\n\n\
                     [clients.zebra]\nworkload = \"bulk\"\npath = [\"z3\", \"a2\", \"a1\"]\nserver = \"another\"\n";
    let (without, with) = (lab.run(5), lab.clone().with(elsewhere).run(5));
    // Circuits are numbered within the run, so those of other clients lie between ours.
    let ours = |outcome: &Outcome| {
        let mut tables = outcome.tables.clone();
        tables.transfers.retain(|row| ["web", "bulk"].contains(&&*row.client));
        tables.transfers.iter_mut().for_each(|row| row.circuit = None);
        tables.relays.retain(|row| ["entry", "middle", "exit"].contains(&&*row.relay));
        (tables.transfers, tables.relays)
    };
    assert!(ours(&with) == ours(&without));
    assert!(!complete(&with, "also").is_empty() && !complete(&with, "zebra").is_empty());
}

#[test]
fn variants_have_identical_clients() {
    for lab in [Lab::path(), weighted()] {
        // Bulk files also have random sizes.
        let lab = lab.set("workloads.bulk.size", "uniform(100 KiB, 500 KiB)").set("tcp.nodelay", "true");
        let (stock, small) = (lab.run_variant("stock", 9), lab.run_variant("50KiB", 9));
        assert!(stock.tables.transfers != small.tables.transfers, "the variants differ");
        for client in ["web", "bulk"] {
            let (one, other) = (complete(&stock, client), complete(&small, client));
            let both = one.len().min(other.len());
            assert!(both > 4, "{client}: {both}");
            for k in 0..both {
                assert_eq!(one[k].bytes, other[k].bytes, "{client}'s download {k}");
            }
            // Only the first download on a circuit waits for the circuit.
            let fresh = one.iter().any(|row| row.circuit != one[0].circuit);
            for k in (1..both).filter(|_| !fresh) {
                let pause = |rows: &[&penstock_record::Transfer]| {
                    rows[k].start_s
                        - rows[k - 1].start_s
                        - rows[k - 1].ttlb_s.expect("the download is complete")
                };
                assert!((pause(&one) - pause(&other)).abs() < 1e-8, "{client}'s pause {k}");
            }
        }
        let paths = |outcome: &Outcome, client: &str| {
            let of_client = outcome.tables.paths.iter().filter(|row| &*row.client == client);
            of_client
                .map(|row| [&row.guard, &row.middle, &row.exit].map(|name| name.to_string()))
                .collect::<Vec<_>>()
        };
        for client in ["web", "bulk"] {
            let (one, other) = (paths(&stock, client), paths(&small, client));
            let both = one.len().min(other.len());
            assert_eq!(one[..both], other[..both], "{client}'s paths");
        }
    }
}
