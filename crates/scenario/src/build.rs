//! Builds the model of one variant from its sections, and checks keys of several sections against each other.

use crate::error::{ConfigError, listed, listed_briefly};
use crate::model::{Deployments, Host, Latency, Scenario, Variant};
use crate::rtt_matrix::RttMatrix;
use crate::sections::Sections;
use crate::sections::clients::Clients;
use crate::sections::network::network;
use crate::sections::nodes::{Names, servers};
use crate::sections::relays::relays;
use crate::sections::run::{run, trace};
use crate::sections::workloads::workloads;
use penstock_network::geo;
use penstock_units::Seed;
use std::collections::BTreeMap;

/// Maximum number of sampled circuits. If none of them is possible, the builder reports an error.
const TRIES: usize = 1000;

/// Builds the model of one variant, except its deployments and changes.
pub(crate) fn scenario(sections: &Sections, variant: Variant) -> Result<Scenario, ConfigError> {
    let n23 = sections.network.keys.wire.consensus_n23;
    let names = names(sections)?;
    let servers = servers(&sections.servers, &names)?;
    let (relays, generated) = relays(&sections.relays, &names, n23)?;
    let workloads = workloads(&sections.workloads)?;
    let clients = Clients { workloads: &workloads, relays: &relays, servers: &servers, n23 };
    let clients = clients.build(&sections.clients, &names)?;
    let wrong = |message: String| ConfigError::new(sections.clients_at, "clients", message);
    if clients.is_empty() {
        return Err(wrong("there is no client; write one as [clients.NAME], with a workload".to_owned()));
    }
    let mut scenario = Scenario {
        head: sections.head.keys.head.clone(),
        variant,
        run: run(&sections.run, &workloads, &clients)?,
        trace: trace(&sections.trace, &workloads)?,
        tcp: sections.tcp.keys.clone(),
        network: network(&sections.network, &names)?,
        relays,
        generated,
        deployments: Deployments::default(),
        selector: None,
        clients,
        servers,
        workloads,
        changes: Vec::new(),
    };
    if let Latency::RttMatrix(matrix, _) = &scenario.network.latency
        && let Some(message) = missing_round_trips(matrix, &scenario)
    {
        return Err(sections.network.wrong("rtt_matrix", message));
    }
    let impossible = |why: String| wrong(format!("no path \"tor\" can be drawn: {why}"));
    scenario.selector = scenario.select().map_err(|error| impossible(error.to_string()))?;
    if let Some(selector) = &scenario.selector {
        let mut rng = Seed(0).stream("paths");
        if (0..TRIES).all(|_| selector.draw(&mut rng, &[]).is_none()) {
            let why = "there are no three different relays with a guard and an exit among them; add relays, or flags";
            return Err(impossible(why.to_owned()));
        }
    }
    Ok(scenario)
}

/// The names of all nodes. Relays, servers and clients share one namespace.
fn names(sections: &Sections) -> Result<Names, ConfigError> {
    let mut names = Names::default();
    for (name, relays) in &sections.relays {
        names.take(name, relays.keys.copies.count, relays)?;
    }
    for (name, servers) in &sections.servers {
        names.take(name, servers.keys.copies.count, servers)?;
    }
    for (name, clients) in &sections.clients {
        names.take(name, clients.keys.copies.count, clients)?;
    }
    Ok(names)
}

fn missing_round_trips(matrix: &RttMatrix, scenario: &Scenario) -> Option<String> {
    let hosts = scenario.relays.iter().map(|relay| &relay.host);
    let hosts = hosts.chain(scenario.clients.iter().map(|client| &client.host));
    let hosts = hosts.chain(scenario.servers.iter().map(|server| &server.host));
    let mut countries = BTreeMap::new();
    for Host { name, group, country, .. } in hosts {
        let of_era = scenario.generated.iter().find(|generated| generated.group == *group);
        let possible = of_era.map_or(matrix.users(), |generated| generated.era.countries());
        match country {
            Some(country) => *countries.entry(country.code).or_insert(0) += 1,
            None if possible.is_empty() => {
                return Some(format!(
                    "the node {name:?} has no country of its own, so it needs a country with users of Tor, and the matrix has none; it must have one of {}",
                    listed(geo::USERS.iter().map(|(code, _)| *code))
                ));
            }
            None => possible.iter().for_each(|(code, _)| *countries.entry(*code).or_insert(0) += 1),
        }
    }
    let missing = matrix.missing(&countries);
    let pairs = || listed_briefly(missing.iter().map(String::as_str));
    (!missing.is_empty()).then(|| {
        format!("nodes may be in countries without a round trip between them: {}; it must have all of these pairs", pairs())
    })
}
