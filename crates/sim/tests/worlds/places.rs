//! Networks of places: loss and delay by direction, jitter, and packets that the network never loses.

use crate::util::{Lab, assert_conserved, complete};
use penstock_record::Outcome as Ending;
use penstock_sim::Control;

/// The path with a network of three places. The client is far from all others.
fn placed(edges: &str) -> Lab {
    let places = "[network.places.near]\n\n[network.places.far]\n\n[network.places.lossy]\nloss = 0.02\n\n";
    Lab::path()
        .with(&format!("{places}[network.edges]\norder = ['near', 'far', 'lossy']\n{edges}\n"))
        .set("network.latency", "places")
        .set("relays.middle.link", "10 MiB/s")
        .set("relays.entry.place", "near")
        .set("relays.middle.place", "near")
        .set("relays.exit.place", "near")
        .set("servers.destination.place", "near")
        .set("clients.bulk.place", "far")
        .set("clients.web.place", "far")
}

const EVEN: &str = "latency = ['10 10 10 ms', '10 10 10 ms', '10 10 10 ms']";

/// The time to the first byte of the first web download without other traffic [s].
fn first_byte(lab: &Lab) -> f64 {
    let lab = lab.clone().set("clients.bulk.workload", "web").set("workloads.web.size", "400 B");
    let lab = lab.set("trace.workloads", "['web']");
    let outcome = lab.run(1);
    let times = outcome.tables.transfers.iter().filter_map(|row| row.ttfb_s);
    times.fold(f64::INFINITY, f64::min)
}

#[test]
fn an_asymmetric_edge_delays_each_direction_by_its_own_latency() {
    let even = first_byte(&placed(EVEN));
    // Each of two circuit round trips passes the edge of the client once in each direction.
    let there = first_byte(&placed("latency = ['10 10 10 ms', '70 10 10 ms', '10 10 10 ms']"));
    let back = first_byte(&placed("latency = ['10 40 10 ms', '10 10 10 ms', '10 10 10 ms']"));
    assert!((there - even - 2.0 * 0.060).abs() < 0.002, "{even} {there}");
    assert!((back - even - 2.0 * 0.030).abs() < 0.002, "{even} {back}");
}

#[test]
fn the_loss_of_a_place_costs_time_in_both_directions() {
    let lab = |loss_of: &str| placed(EVEN).set("clients.bulk.place", "lossy").set("network.loss_of", loss_of);
    let count = |lab: &Lab| {
        let outcome = lab.run(1);
        assert_conserved(&outcome);
        complete(&outcome, "bulk").len()
    };
    let clean = count(&placed(EVEN));
    assert_eq!(count(&lab("none")), clean);
    let (data, all) = (count(&lab("data")), count(&lab("all")));
    assert!(data < clean, "{data} of {clean}");
    // With few losses, the next acknowledgement replaces a lost one.
    assert!(all <= data + data / 10 + 1, "{all} of {data}");
}

#[test]
fn packets_without_data_are_spared_if_only_data_is_lost() {
    // The client never gets data through, but every handshake of TCP succeeds at once.
    let lab = placed(EVEN).set("network.places.lossy.loss", "0.999").set("clients.bulk.place", "lossy");
    let connected = |loss_of: &str| {
        let lab =
            lab.clone().set("network.loss_of", loss_of).set("client.path", "[]").set("run.duration", "20 s");
        let outcome = lab.run(1);
        let of_bulk = outcome.tables.transfers.iter().filter(|row| &*row.client == "bulk");
        assert!(of_bulk.clone().all(|row| row.outcome != Ending::Ok));
        of_bulk.filter_map(|row| row.connect_s).next()
    };
    assert!(connected("data").is_some_and(|time| time < 0.03), "{:?}", connected("data"));
    assert_eq!(connected("all"), None);
}

#[test]
fn jitter_keeps_the_order_of_segments_and_the_look_ahead() {
    let jitter = "jitter = ['0 8 0 ms', '8 0 0 ms', '0 0 0 ms']";
    let lab = placed(&format!("{EVEN}\n{jitter}"));
    let outcome = lab.run(1);
    assert_conserved(&outcome);
    assert!(complete(&outcome, "bulk").len() > 3);
    let times = |lab: &Lab| {
        let outcome = lab.run(1);
        outcome.tables.transfers.iter().filter_map(|row| row.ttfb_s).collect::<Vec<_>>()
    };
    assert_ne!(times(&lab), times(&placed(EVEN)));
    let document = lab.document();
    let scenario = document.scenario("stock").unwrap();
    let one_by_one = penstock_sim::run(scenario, 1, &Control::one_by_one()).unwrap();
    assert_eq!(outcome.tables, one_by_one.tables);
}
