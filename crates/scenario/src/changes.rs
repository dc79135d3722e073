//! Reads `[[changes]]`: settings that a relay or a client changes during a run.

use crate::error::ConfigError;
use crate::keys::Read;
use crate::layers::{self, Merged};
use crate::model::{Change, Host, Path, Scenario, Switch, TorNode};
use crate::sections::clients::ClientsKeys;
use crate::sections::relays::RelaysKeys;
use crate::sections::sets::ChangeKeys;
use crate::sections::tor::{OfClient, TorKeys};
use crate::sections::{self, Sections};
use crate::tree::Table;
use penstock_core::config::RelayConfig;
use penstock_units::{Duration, parse::show_duration};

/// Reads the changes of one variant. Returns them in the order of time. `merged`, `sections` and `scenario` describe the
/// state before the first change.
pub(crate) fn changes(
    merged: Merged,
    sections: &Sections,
    scenario: &Scenario,
) -> Result<Vec<Change>, ConfigError> {
    let Some(first) = sections.changes.first() else { return Ok(Vec::new()) };
    if !scenario.deployments.is_empty() {
        let message = "deployments and changes cannot be combined: a change would undo the deployment; leave one of them out";
        return Err(ConfigError::new(first.at, "changes", message));
    }
    let (mut merged, mut before) = (merged, sections.clone());
    let mut changes = Vec::new();
    for change in &sections.changes {
        refuse_the_rest(&change.keys.set)?;
        merged = merged.changed(&change.keys.set)?;
        let after = sections::read(&merged.whole, &merged.own)?;
        let count = changes.len();
        for (node, host) in tors(scenario) {
            for to in switches(change, node, host, &before, &after)? {
                changes.push(Change { at: change.keys.at, node, to });
            }
        }
        if changes.len() == count {
            let message =
                "this changes nothing; it must set a value that some of these nodes do not have already";
            return Err(change.wrong("set", message));
        }
        before = after;
    }
    check_times(&sections.changes, scenario.run.duration)?;
    Ok(changes)
}

/// The keys of one setting, and a function that reads the new setting from the node's configuration.
type Changeable = (&'static [&'static str], fn(&RelayConfig) -> Switch);

const CAN_CHANGE: [Changeable; 3] = [
    (&["bandwidth_rate", "bandwidth_burst"], |config| Switch::Bandwidth(config.bandwidth)),
    (&["circuit_policy"], |config| Switch::CircuitPolicy(config.circuit_policy.clone())),
    (&["throttle"], |config| Switch::Throttle(config.throttle.clone(), config.client_buckets)),
];

/// All relays, and all clients with an onion proxy of their own.
fn tors(scenario: &Scenario) -> impl Iterator<Item = (TorNode, &Host)> {
    let relays = scenario.relays.iter().enumerate();
    let clients = scenario
        .clients
        .iter()
        .enumerate()
        .filter(|(_, client)| client.group.path != Path::Direct && !client.group.at_entry);
    relays
        .map(|(index, relay)| (TorNode::Relay(index), &relay.host))
        .chain(clients.map(|(index, client)| (TorNode::Client(index), &client.host)))
}

fn switches(
    change: &Read<ChangeKeys>,
    node: TorNode,
    host: &Host,
    before: &Sections,
    after: &Sections,
) -> Result<Vec<Switch>, ConfigError> {
    let n23 = after.network.keys.wire.consensus_n23;
    let of_relay = |read: &Read<RelaysKeys>| read.keys.era.era.is_some() || is_sampled(&read.keys.tor);
    let of_client = |read: &Read<ClientsKeys>| is_sampled(&read.keys.tor);
    match node {
        TorNode::Relay(_) => {
            let tables = [&before.relays, &after.relays].map(|relays| &relays[&host.group.name]);
            let config = |relay: &Read<RelaysKeys>| relay.keys.tor.config(relay, OfClient::default(), n23);
            switched(change, host, tables, of_relay, |relay| Ok(config(relay)?.0))
        }
        TorNode::Client(_) => {
            let tables = [&before.clients, &after.clients].map(|clients| &clients[&host.group.name]);
            let config =
                |client: &Read<ClientsKeys>| client.keys.tor.config(client, OfClient::default(), n23);
            switched(change, host, tables, of_client, |client| Ok(config(client)?.0))
        }
    }
}

fn is_sampled(tor: &TorKeys) -> bool {
    tor.bandwidth_rate.as_ref().is_some_and(|rate| rate.sampled.is_some())
}

/// Compares the tables of one node before and after a change. Returns the settings that differ.
fn switched<S>(
    change: &Read<ChangeKeys>,
    host: &Host,
    [before, after]: [&Read<S>; 2],
    is_sampled: impl Fn(&Read<S>) -> bool,
    config: impl Fn(&Read<S>) -> Result<RelayConfig, ConfigError>,
) -> Result<Vec<Switch>, ConfigError> {
    let shown = |read: &Read<S>, key: &str| read.shown.get(key).map(|node| node.value.print());
    let differs = |key: &&str| shown(before, key) != shown(after, key);
    let switches: Vec<_> = CAN_CHANGE.iter().filter(|(keys, _)| keys.iter().any(differs)).collect();
    if switches.is_empty() {
        return Ok(Vec::new());
    }
    if CAN_CHANGE[0].0.iter().any(differs) && (is_sampled(before) || is_sampled(after)) {
        let message = format!(
            "the bandwidth_rate of {:?} is drawn for each seed, and such a rate cannot change in a run; write one rate",
            host.group.name
        );
        return Err(change.wrong("set", message));
    }
    let config = config(after)?;
    Ok(switches.into_iter().map(|(_, switch)| switch(&config)).collect())
}

/// Checks that changes happen during the run, in the order of time.
fn check_times(changes: &[Read<ChangeKeys>], end: Duration) -> Result<(), ConfigError> {
    let mut last = Duration::ZERO;
    for change in changes {
        let at = change.keys.at;
        let shown = show_duration(at);
        if at >= end {
            let end = show_duration(end);
            let message =
                format!("\"{shown}\" is not within the run; it must be shorter than run.duration, \"{end}\"");
            return Err(change.wrong("at", message));
        }
        if at < last {
            let message =
                format!("\"{shown}\" is before the change above it; changes must be in the order of time");
            return Err(change.wrong("at", message));
        }
        last = at;
    }
    Ok(())
}

/// Refuses keys that an operator cannot change without a restart of Tor.
fn refuse_the_rest(overlay: &Table) -> Result<(), ConfigError> {
    let can_change = |key: &str| {
        let mut keys = key.split('.');
        let of_tors = match keys.next() {
            Some("relay" | "client") => true,
            Some("relays" | "clients") => keys.next().is_some(),
            _ => false,
        };
        of_tors && keys.next().is_some_and(|key| CAN_CHANGE.iter().any(|(keys, _)| keys.contains(&key)))
    };
    let leaves = layers::leaves(overlay);
    let Some((key, node)) = leaves.into_iter().find(|(key, _)| !can_change(key)) else { return Ok(()) };
    let all: Vec<_> = CAN_CHANGE.iter().flat_map(|(keys, _)| *keys).copied().collect();
    let message = format!(
        "this cannot change in a run; only {} of [relay], [relays.NAME], [client] and [clients.NAME] can",
        all.join(", ")
    );
    Err(ConfigError::new(node.at, key, message))
}
