//! What changes while a run is under way: a change sets keys as a variant does, at its time.

use crate::build::View;
use crate::error::Mistake;
use crate::model::{Change, Host, Path, Scenario, Switch, TorNode};
use crate::overrides;
use crate::print;
use crate::resolve::{Resolved, resolve};
use crate::tor::{self, Consensus};
use crate::tree::{Node, Table, Value};
use penstock_core::config::RelayConfig;
use penstock_units::Duration;

/// The changes of one variant, in the order of time.
///
/// `root` is the file with its overrides, `resolved` the same with all defaults, `scenario` what it says at first.
pub(crate) fn changes(
    root: &Table,
    resolved: &Resolved,
    scenario: &Scenario,
) -> Result<Vec<Change>, Mistake> {
    let Value::List(list) = &resolved.full["changes"].value else {
        unreachable!("the schema lets only a list through here")
    };
    if !list.is_empty() && !scenario.deployments.is_empty() {
        let message = "deployments and changes do not go together yet: a change would undo the deployment; leave one of them out";
        return Err(Mistake::new(list[0].at, "changes", message));
    }
    let (mut root, mut full) = (root.clone(), resolved.full.clone());
    let (mut changes, mut last) = (Vec::new(), Duration::ZERO);
    for (index, node) in list.iter().enumerate() {
        let path = format!("changes.{index}");
        let view = View { table: table(node), path: &path };
        last = time(view, scenario.run.duration, last)?;
        let overlay = overrides::of_change(table(&view.table["set"]))?;
        overrides::check_names(&root, &overlay)?;
        refuse_the_rest(&overlay)?;
        overrides::merge(&mut root, &overlay);
        let next = resolve(&root)?.full;
        let before = changes.len();
        let consensus = Consensus::of(&next);
        for (node, section, host) in tors(scenario) {
            let [was, is] = [&full, &next].map(|full| table(&table(&full[section])[&host.group]));
            let differs = |key: &&str| print::value(&was[*key]) != print::value(&is[*key]);
            let mut switches = CAN_CHANGE
                .iter()
                .filter(|(keys, _)| keys.iter().any(differs))
                .map(|(_, switch)| switch)
                .peekable();
            if switches.peek().is_some() {
                let path = format!("{section}.{}", host.group);
                let drawn = |table: &Table| {
                    let of_era = table.get("era").is_some_and(|era| era.as_text() != Some("none"));
                    of_era || View { table, path: &path }.drawn_rate("bandwidth_rate").is_some()
                };
                if ["bandwidth_rate", "bandwidth_burst"].iter().any(differs) && (drawn(was) || drawn(is)) {
                    let message = format!(
                        "the bandwidth_rate of {:?} is drawn for each seed, and such a rate cannot change in a run; write one rate",
                        host.group
                    );
                    return Err(view.wrong("set", message));
                }
                let (config, _) = tor::config(View { table: is, path: &path }, consensus)?;
                changes.extend(switches.map(|switch| Change { at: last, node, to: switch(&config) }));
            }
        }
        if changes.len() == before {
            let message = "this changes nothing; it must set what not all of these nodes have already";
            return Err(view.wrong("set", message));
        }
        full = next;
    }
    Ok(changes)
}

/// Keys that say one thing, and how a running Tor is told of it.
type Changeable = (&'static [&'static str], fn(&RelayConfig) -> Switch);

/// What an operator can change without a restart.
const CAN_CHANGE: [Changeable; 3] = [
    (&["bandwidth_rate", "bandwidth_burst"], |config| Switch::Bandwidth(config.bandwidth)),
    (&["circuit_policy"], |config| Switch::CircuitPolicy(config.circuit_policy.clone())),
    (&["throttle"], |config| Switch::Throttle(config.throttle.clone(), config.client_buckets)),
];

/// Every node with a Tor, and the section that its table is in.
fn tors(scenario: &Scenario) -> impl Iterator<Item = (TorNode, &'static str, &Host)> {
    let relays = scenario.relays.iter().enumerate();
    let clients = scenario.clients.iter().enumerate().filter(|(_, client)| client.path != Path::Direct);
    relays
        .map(|(index, relay)| (TorNode::Relay(index), "relays", &relay.host))
        .chain(clients.map(|(index, client)| (TorNode::Client(index), "clients", &client.host)))
}

fn table(node: &Node) -> &Table {
    node.table().expect("the schema lets only tables through here")
}

/// When a change happens: within the run, and not before the one above it.
fn time(view: View<'_>, end: Duration, last: Duration) -> Result<Duration, Mistake> {
    let at = view.span("at");
    let said = view.text("at");
    if at >= end {
        let end = penstock_units::parse::show_duration(end);
        let message =
            format!("\"{said}\" is not within the run; it must be shorter than run.duration, \"{end}\"");
        return Err(view.wrong("at", message));
    }
    if at < last {
        let message =
            format!("\"{said}\" is before the change above it; changes must be in the order of time");
        return Err(view.wrong("at", message));
    }
    Ok(at)
}

/// Refuses what no operator of a running Tor can change.
fn refuse_the_rest(overlay: &Table) -> Result<(), Mistake> {
    let can_change = |key: &str| {
        let mut keys = key.split('.');
        let of_tors = match keys.next() {
            Some("relay" | "client") => true,
            Some("relays" | "clients") => keys.next().is_some(),
            _ => false,
        };
        of_tors && keys.next().is_some_and(|key| CAN_CHANGE.iter().any(|(keys, _)| keys.contains(&key)))
    };
    match overrides::leaves(overlay).into_iter().find(|(key, _)| !can_change(key)) {
        None => Ok(()),
        Some((key, node)) => {
            let all: Vec<_> = CAN_CHANGE.iter().flat_map(|(keys, _)| *keys).copied().collect();
            let message = format!(
                "this cannot change in a run; only {} of [relay], [relays.NAME], [client] and [clients.NAME] can",
                all.join(", ")
            );
            Err(Mistake::new(node.at, key, message))
        }
    }
}
