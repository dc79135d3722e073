//! Settings that have no effect. Each one gives a warning.

use crate::error::ConfigError;
use crate::layers::Warnings;
use crate::model::{Path, Scenario};
use crate::sections::Sections;
use penstock_core::config::RelayConfig;
use penstock_core::edge_control::EdgeControlConfig;
use std::collections::BTreeSet;

/// Key of a node that selects its edge control.
const KEY: &str = "edge_control.kind";

/// Adds a warning for each congestion control that clients or relays have, but that no circuit uses. The client and
/// the last relay of a circuit must have the same congestion control. Otherwise the circuit has SENDME windows.
///
/// Source: proposal 324 §10.3 (the client asks for congestion control, and the relay answers).
pub(crate) fn warn(sections: &Sections, scenario: &Scenario, warnings: &mut Warnings) {
    let clients = scenario.clients.iter().filter(|client| client.path != Path::Direct);
    let asked: BTreeSet<_> = clients.clone().filter_map(|client| congestion(&client.config)).collect();
    let deployed = scenario.deployments.software.values().filter_map(|(config, _)| congestion(config));
    let own = scenario.relays.iter().filter_map(|relay| congestion(&relay.config));
    let offered: BTreeSet<_> = own.chain(deployed).collect();
    for kind in offered.difference(&asked) {
        let mut relays = scenario.relays.iter().filter(|relay| congestion(&relay.config) == Some(*kind));
        // Without such a relay, a deployment sets the congestion control.
        let at = match relays.next() {
            Some(relay) => sections.relays.get(&relay.host.group).map(|read| read.wrong(KEY, "")),
            None => sections.deployments.first().map(|read| read.wrong("set", "")),
        };
        add(
            at,
            format!(
                "edge_control = \"{kind}\" of relays has no effect, because no client asks for it; \
                 set client.edge_control = \"{kind}\" too"
            ),
            warnings,
        );
    }
    for kind in asked.difference(&offered) {
        let mut clients = clients.clone().filter(|client| congestion(&client.config) == Some(*kind));
        let group = clients.next().and_then(|client| sections.clients.get(&client.host.group));
        add(
            group.map(|read| read.wrong(KEY, "")),
            format!(
                "edge_control = \"{kind}\" of clients has no effect, because no relay supports it; \
                 set relay.edge_control = \"{kind}\" too"
            ),
            warnings,
        );
    }
}

fn add(at: Option<ConfigError>, message: String, warnings: &mut Warnings) {
    warnings.extend(at.map(|error| (error.at, message)));
}

/// The congestion control that a node requests as a client, and supports as a relay.
fn congestion(config: &RelayConfig) -> Option<&'static str> {
    match config.edge_control {
        EdgeControlConfig::Vegas(_) => Some("vegas"),
        EdgeControlConfig::Dctcp(_) => Some("dctcp"),
        EdgeControlConfig::Timely(_) => Some("timely"),
        _ => None,
    }
}
