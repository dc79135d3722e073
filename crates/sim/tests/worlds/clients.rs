//! Clients: paths, circuits, timeouts and cancellation.

use crate::util::{Lab, assert_conserved, complete, node};
use penstock_record::Outcome as Ending;
use penstock_sim::{Control, Error};
use std::collections::BTreeSet;

#[test]
fn weighted_paths_have_three_relays_in_proportion_to_their_weights() {
    let lab = Lab::path()
        .with("[relays.fat]\nweight = \"3 MiB/s\"\n\n[relays.thin]\nweight = \"1 MiB/s\"\n")
        .set("client.path", "weighted")
        .set("relay.weight", "1 MiB/s")
        .set("workloads.web.fresh_circuit", "true")
        .set("workloads.web.size", "1 KiB")
        .set("workloads.web.pause", "0 s")
        .set("workloads.bulk.start", "1 h")
        .set("run.duration", "600 s")
        .set("trace.workloads", "[]");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    let paths = &outcome.tables.paths;
    assert!(paths.len() > 500, "{} circuits", paths.len());
    for path in paths {
        assert_eq!(BTreeSet::from([&path.guard, &path.middle, &path.exit]).len(), 3, "{path:?}");
    }
    let share =
        |name: &str| paths.iter().filter(|path| &*path.guard == name).count() as f64 / paths.len() as f64;
    // The first relay is sampled from all five, whose weights are 3 and four times 1.
    assert!((share("fat") - 3.0 / 7.0).abs() < 0.06, "{}", share("fat"));
    assert!((share("thin") - 1.0 / 7.0).abs() < 0.05, "{}", share("thin"));
}

/// With any policy and any edge control in a network with loss, no cell is lost or duplicated, and downloads end.
#[test]
fn every_policy_and_edge_control_carries_a_download() {
    let policies = [
        "{ kind = 'round-robin' }",
        "{ kind = 'ewma', form = 'list' }",
        "{ kind = 'ewma', form = 'heap', half_life = '5 s' }",
        "{ kind = 'ewma', form = 'tick' }",
    ];
    let edges = [
        "{ kind = 'windows' }",
        "{ kind = 'dynamic-windows' }",
        "{ kind = 'dynamic-windows', adjust = 'once-per-rtt', decay = 0.01 }",
    ];
    for policy in policies {
        for edge in edges {
            let lab = Lab::path()
                .set("relay.circuit_policy", policy)
                .set("relays.exit.edge_control", edge)
                .set("network.loss", "0.01");
            let outcome = lab.run(1);
            assert_conserved(&outcome);
            assert!(complete(&outcome, "web").len() > 3, "{policy} {edge}");
        }
    }
}

#[test]
fn the_bytes_of_clients_add_up_to_their_downloads() {
    // A run of 40 s ends between two samples of 7 s, and at a sample of 500 ms.
    for (interval, seconds) in [("500 ms", 0.5), ("7 s", 7.0)] {
        let outcome = Lab::path().set("trace.clients", interval).run(1);
        for client in ["web", "bulk"] {
            let rows = outcome.tables.clients.iter().filter(|row| &*row.client == client);
            let counted: u64 = rows.clone().map(|row| row.received_bytes).sum();
            let transfers = outcome.tables.transfers.iter().filter(|row| &*row.client == client);
            let received: u64 = transfers.map(|row| row.bytes_received).sum();
            assert!(counted > 0 && counted == received, "{client}, {interval}: {counted} of {received}");
            let at_end = |t_s: f64| (t_s / seconds).fract() == 0.0 || t_s == 40.0;
            assert!(rows.clone().all(|row| row.received_bytes > 0 && at_end(row.t_s)));
        }
    }
    assert!(Lab::path().run(1).tables.clients.is_empty());
}

/// T-53: the throttle of a guard with a static rate limits every client. Flagging limits the client that downloads without
/// end for a longer time than the other one.
#[test]
fn clients_are_recorded_as_throttled() {
    let throttled = |throttle: &str| {
        let lab = Lab::path().set("trace.clients", "1 s").set("relays.entry.bandwidth_rate", "300 KiB/s");
        let outcome = lab.set("relays.entry.throttle", throttle).run(1);
        ["web", "bulk"].map(|client| {
            let rows = outcome.tables.clients.iter().filter(|row| &*row.client == client);
            let (count, limited) = (rows.clone().count(), rows.filter(|row| row.throttled).count());
            limited as f64 / count as f64
        })
    };
    assert_eq!(throttled("none"), [0.0, 0.0]);
    for aggregate in ["connection", "address"] {
        let throttle = format!("{{ kind = 'static', rate = '100 KiB/s', aggregate = '{aggregate}' }}");
        assert_eq!(throttled(&throttle), [1.0, 1.0]);
    }
    let [web, bulk] =
        throttled("{ kind = 'flagging', rate = '20 KiB/s', penalty = 0.5, half_life = '10 s' }");
    assert!(web < 0.5 && bulk > 0.5, "{web} {bulk}");
}

#[test]
fn a_server_thinks_before_each_answer() {
    let first_byte = |think_time: &str| {
        let lab = Lab::path().set("workloads.web.size", "400 B").set("clients.bulk.workload", "web");
        let outcome =
            lab.set("trace.workloads", "['web']").set("servers.destination.think_time", think_time).run(1);
        let times = outcome.tables.transfers.iter().filter_map(|row| row.ttfb_s);
        times.fold(f64::INFINITY, f64::min)
    };
    let added = first_byte("700 ms") - first_byte("0 s");
    assert!((added - 0.7).abs() < 0.01, "{added}");
    let outcome = Lab::path().set("server.think_time", "uniform(10 ms, 400 ms)").run(1);
    assert_conserved(&outcome);
    assert!(complete(&outcome, "web").len() > 5);
}

#[test]
fn clients_begin_at_their_own_times() {
    let lab = Lab::path()
        .with("[clients.late]\ncount = 3\nworkload = \"web\"\nstart = [\"3 s\", \"0 s\", \"7 s\"]\n");
    let outcome = lab.set("relays.middle.link", "10 MiB/s").set("clients.bulk.start", "5 s").run(1);
    let first = |client: &str| {
        let own = outcome.tables.transfers.iter().filter(|row| &*row.client == client);
        own.map(|row| row.start_s).fold(f64::INFINITY, f64::min)
    };
    // A client builds its circuit before its first download.
    for (client, begins) in [("late0001", 3.0), ("late0002", 0.0), ("late0003", 7.0), ("bulk", 5.0)] {
        assert!((begins..begins + 1.0).contains(&first(client)), "{client}: {}", first(client));
    }
    let said = lab_of_starts("[\"1 s\"]");
    assert_eq!(
        said,
        "test.toml:4: clients.late.start: the list has 1 times for 2 clients; it must have one for each"
    );
}

/// The error for two clients with these times.
fn lab_of_starts(start: &str) -> String {
    let clients = format!("[clients.late]\ncount = 2\nworkload = \"web\"\nstart = {start}\n");
    Lab::path().with(&clients).parse().unwrap_err().to_string()
}

#[test]
fn fresh_circuits_carry_one_download_each() {
    for pause in ["0 s", "uniform(100 ms, 1 s)"] {
        let lab = Lab::path().set("workloads.web.fresh_circuit", "true").set("workloads.web.pause", pause);
        let outcome = lab.run(1);
        assert_conserved(&outcome);
        let downloads = complete(&outcome, "web");
        let circuits: BTreeSet<_> = downloads.iter().map(|row| row.circuit).collect();
        assert!(downloads.len() > 5 && circuits.len() == downloads.len(), "{}", downloads.len());
        assert!(downloads.iter().all(|row| row.stream == Some(1)));
        assert_eq!(
            complete(&outcome, "bulk").iter().map(|row| row.circuit).collect::<BTreeSet<_>>().len(),
            1
        );
    }
}

/// The bucket allows the five cells of a circuit and a request. The sixth cell, which closes the circuit, waits for the
/// next refill while the client continues.
#[test]
fn a_lost_destroy_does_not_affect_the_next_circuit() {
    for (rate, loss) in [("256 B/s", "0.0"), ("256 B/s", "0.05"), ("307 B/s", "0.0"), ("350 B/s", "0.02")] {
        let outcome = Lab::path()
            .set("client.bandwidth_rate", rate)
            .set("client.refill", "10 s")
            .set("network.loss", loss)
            .set("workloads.web.fresh_circuit", "true")
            .set("workloads.web.pause", "0 s")
            .set("workloads.web.size", "1 B")
            .set("workloads.bulk.start", "10 h")
            .set("run.duration", "1000 s")
            .run(1);
        assert_conserved(&outcome);
        assert!(complete(&outcome, "web").len() > 20, "{}", complete(&outcome, "web").len());
        assert!(outcome.tables.transfers.iter().all(|row| row.outcome != Ending::Failed));
    }
}

#[test]
fn a_client_gives_up_after_its_timeout_and_continues() {
    let lab = Lab::path().set("workloads.bulk.timeout", "3 s").set("workloads.bulk.pause", "500 ms");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    let rows: Vec<_> = outcome.tables.transfers.iter().filter(|row| &*row.client == "bulk").collect();
    assert!(rows.len() > 8);
    for pair in rows.windows(2) {
        let last = pair[0];
        assert_eq!((last.outcome, last.ttlb_s), (Ending::Timeout, None), "{last:?}");
        assert!(last.bytes_received < last.bytes);
        assert!((pair[1].start_s - last.start_s - 3.5).abs() < 1e-6, "{pair:?}");
    }
    // The circuit remains open: the next download is a stream on it.
    assert!(rows.iter().enumerate().all(|(k, row)| row.stream == Some(k as u64 + 1)));
    assert!(rows[rows.len() - 2].bytes_received > 0);
}

#[test]
fn a_run_stops_at_the_first_sample_after_its_last_download() {
    let lab = Lab::path().set("run.stop", "{ workload = 'web', downloads = 7 }").set("run.warmup", "5 s");
    let outcome = lab.run(1);
    let downloads = complete(&outcome, "web");
    assert_eq!(downloads.len(), 7);
    let last = downloads[6];
    let after = outcome.stats.sim_seconds - last.start_s - last.ttlb_s.unwrap();
    assert!((0.0..=0.1).contains(&after), "a sample of 100 ms: {after}");
    assert!((outcome.stats.sim_seconds * 10.0).fract() < 1e-6, "{}", outcome.stats.sim_seconds);
    let unfinished = outcome.tables.transfers.iter().filter(|row| row.outcome == Ending::Unfinished);
    assert!(unfinished.clone().all(|row| row.ttlb_s.is_none()) && unfinished.count() <= 1);
    assert!(outcome.tables.transfers.iter().all(|row| row.warmup == (row.start_s < 5.0)));
}

#[test]
fn paths_can_have_one_to_eight_hops() {
    let more: String = (1..=5).map(|k| format!("[relays.r{k}]\n\n")).collect();
    for (path, hops) in [
        ("['middle']", 1),
        ("['exit', 'middle']", 2),
        ("['r1', 'r2', 'r3', 'r4', 'r5', 'entry', 'middle', 'exit']", 8),
    ] {
        let outcome = Lab::path().with(&more).set("client.path", path).run(1);
        assert_conserved(&outcome);
        let downloads = complete(&outcome, "web");
        assert!(downloads.len() > 5, "{hops} hops: {} downloads", downloads.len());
        let least = 2.0 * f64::from(hops + 1) * 0.04;
        assert!(downloads.iter().all(|row| row.ttfb_s.unwrap() >= least), "{hops} hops");
    }
}

#[test]
fn clients_of_several_paths_share_a_network() {
    let lab = Lab::path()
        .with("[relays.pool]\ncount = 5\nlink = \"300 KiB/s\"\n\n[clients.crowd]\ncount = 12\nworkload = \"web\"\n")
        .set("client.path", "weighted")
        .set("run.duration", "20 s");
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    for k in 1..=12 {
        let name = format!("crowd{k:04}");
        assert!(!complete(&outcome, &name).is_empty(), "{name}");
        assert!(node(&outcome, &name).counters.data_delivered > 0);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "how long it takes on the clock is the question")]
fn a_cancelled_run_ends_within_milliseconds() {
    let document = Lab::path().set("run.duration", "1000 h").set("trace.workloads", "[]").document();
    let scenario = document.scenario("stock").unwrap();
    let control = Control::new();
    let waited = std::thread::scope(|scope| {
        let run = scope.spawn(|| penstock_sim::run(scenario, 1, &control));
        let mut before = (0.0, 0.0);
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let progress = control.progress();
            assert!(progress.0 >= before.0 && progress.1 >= before.1 && progress.1 < 1.0);
            before = progress;
        }
        assert!(before.0 > 0.0, "no progress");
        control.cancel();
        let cancelled = std::time::Instant::now();
        assert_eq!(run.join().expect("the run does not panic").err(), Some(Error::Cancelled));
        cancelled.elapsed()
    });
    println!("stopped {waited:?} after the cancellation");
    // About 4096 events, with other tests on the same cores.
    assert!(waited.as_millis() < 250, "{waited:?}");
}

/// A client at its entry and a client with a host of its own share the entry's link.
#[test]
fn a_client_at_its_entry_shares_the_link_of_this_relay() {
    let lab = Lab::path()
        .set("relays.entry.link", "256 KiB/s")
        .set("relays.middle.link", "10 MiB/s")
        .set("workloads.bulk.size", "1 GiB")
        .set("clients.web.workload", "bulk")
        .set("clients.bulk.at", "entry");
    let received = |outcome: &penstock_sim::Outcome, client: &str| {
        let of_client = outcome.tables.transfers.iter().filter(|row| &*row.client == client);
        of_client.map(|row| row.bytes_received).sum::<u64>() as f64
    };
    let alone = lab.clone().set("clients.web.start", "1 h").run(1);
    let link = 256.0 * 1024.0 * 40.0;
    let most = received(&alone, "bulk");
    assert!((0.8 * link..link).contains(&most), "{most} of {link}");
    // The entry only sends requests and acknowledgements.
    let [sent, _] = node(&alone, "entry").link_bytes;
    assert!((sent.get() as f64) < 0.1 * most, "{sent}");

    let both = lab.run(1);
    assert_conserved(&both);
    let [own, others] = ["bulk", "web"].map(|client| received(&both, client));
    assert!(((own + others) / most - 1.0).abs() < 0.1, "{own} and {others}, alone {most}");
    assert!(own.min(others) > 0.25 * most, "{own} and {others}");
    let [sent, arrived] = node(&both, "entry").link_bytes.map(|bytes| bytes.get() as f64);
    assert!(arrived < 1.02 * link && arrived > own + others, "{arrived}");
    assert!(sent > others && sent < others + 0.2 * most, "{sent}");
    assert!(both.nodes.iter().all(|node| node.name != "bulk"), "the client has no node");
    assert!(both.tables.paths.iter().any(|path| &*path.client == "bulk" && &*path.guard == "entry"));
}

/// Several clients at one relay have their own sessions, circuits and random streams.
#[test]
fn clients_at_one_entry_act_as_with_hosts_of_their_own() {
    let lab = Lab::path().set("relays.middle.link", "10 MiB/s").set("clients.bulk.count", "3");
    let lab = lab.set("clients.web.workload", "['web', 'bulk']").set("clients.web.isolate_workloads", "true");
    let starts = |lab: &Lab| {
        let outcome = lab.run(1);
        assert_conserved(&outcome);
        let first = |name: &str| complete(&outcome, name).iter().map(|row| (row.start_s, row.bytes)).next();
        let names = ["bulk0001", "bulk0002", "bulk0003", "web"];
        let circuits = outcome.tables.paths.len();
        (names.map(|name| first(name).unwrap_or_else(|| panic!("{name} downloads nothing"))), circuits)
    };
    let (hosts, circuits) = starts(&lab);
    let (at_entry, same) = starts(&lab.clone().set("client.at", "entry"));
    assert_eq!(circuits, same);
    for ((start, bytes), (other, others)) in hosts.into_iter().zip(at_entry) {
        // There is no connection to the entry, and no handshake with it.
        assert_eq!(bytes, others);
        assert!(other < start && start - other < 0.5, "{start} {other}");
    }
    let once = lab.clone().set("client.at", "entry").run(2);
    let document = lab.set("client.at", "entry").document();
    let scenario = document.scenario("stock").expect("the variant is in the text");
    let control = Control::new().with_threads(3);
    let threads = penstock_sim::run(scenario, 2, &control).expect("the run is not cancelled");
    assert_eq!(once.tables, threads.tables);
}
