//! Tests that idle channels close.

use super::util::Net;
use crate::RelayConfig;
use crate::config::IdleTimeouts;
use crate::reason::DestroyReason;
use penstock_units::Duration;

/// A built circuit over three relays.
fn built() -> (Net, crate::CircuitIndex) {
    let [client, relay] = [30, 100].map(|seconds| Some(Duration::from_secs(seconds)));
    let config = RelayConfig { idle_timeouts: IdleTimeouts { client, relay }, ..RelayConfig::default() };
    let mut net = Net::path(3, &config);
    let circuit = net.build(0, &[1, 2, 3]);
    (net, circuit)
}

/// The number of channels of each node.
fn channels(net: &Net) -> Vec<usize> {
    net.nodes.iter().map(|node| node.relay.population()[0]).collect()
}

#[test]
fn a_channel_with_a_circuit_stays_open() {
    let (mut net, _) = built();
    net.drive_for(Duration::from_secs(1000));
    assert_eq!(channels(&net), [1, 2, 2, 1]);
    assert_eq!(net.nodes[1].relay.poll_timeout(), None, "no node has a timer");
}

#[test]
fn a_channel_closes_after_its_idle_timeout() {
    let (mut net, circuit) = built();
    net.drive_for(Duration::from_secs(200));
    net.call(0, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::NONE, host));
    net.drive_for(Duration::from_secs(29));
    assert_eq!(channels(&net), [1, 2, 2, 1]);
    net.drive_for(Duration::from_secs(2));
    assert_eq!(channels(&net), [0, 1, 2, 1], "the client closed its channel");
    net.drive_for(Duration::from_secs(70));
    assert_eq!(channels(&net), [0, 0, 0, 0], "the relays closed theirs");
    assert!(net.nodes.iter().all(|node| node.relay.poll_timeout().is_none()));
}

#[test]
fn a_new_circuit_keeps_an_idle_channel() {
    let (mut net, circuit) = built();
    net.call(0, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::NONE, host));
    net.drive_for(Duration::from_secs(20));
    net.build(0, &[1, 2, 3]);
    net.drive_for(Duration::from_secs(200));
    assert_eq!(channels(&net), [1, 2, 2, 1]);
}

#[test]
fn a_closed_channel_opens_again_for_the_next_circuit() {
    let (mut net, circuit) = built();
    net.call(0, |relay, now, host| relay.close_circuit(now, circuit, DestroyReason::NONE, host));
    net.drive_for(Duration::from_secs(200));
    assert_eq!(channels(&net), [0; 4]);
    net.build(0, &[1, 2, 3]);
    assert_eq!(channels(&net), [1, 2, 2, 1]);
}
