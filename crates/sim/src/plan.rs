//! The nodes of a run, and the shard of each host.

use crate::queue::HostId;
use crate::replay::Replay;
use penstock_core::config::RelayConfig;
use penstock_record::tables::Name;
use penstock_scenario::model::{self, Scenario};
use penstock_units::Seed;
use std::collections::BTreeMap;

/// The data that all shards of a run share. They do not change during the run.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) seed: Seed,
    pub(crate) record: Option<&'a Replay>,
    /// All nodes of the scenario, indexed by [`HostId`] (the order of names).
    pub(crate) builders: Vec<Builder<'a>>,
    /// The host of each relay, client and server of the scenario.
    pub(crate) relay_ids: Vec<HostId>,
    pub(crate) client_ids: Vec<HostId>,
    pub(crate) server_ids: Vec<HostId>,
    pub(crate) relay_names: Vec<Name>,
    pub(crate) workload_names: Vec<Name>,
    pub(crate) shards: usize,
    pub(crate) shard_of: Vec<u8>,
}

/// A node of the scenario, from which its state is built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Builder<'a> {
    Relay(&'a model::Relay),
    /// A client, by its index in the scenario.
    Client(usize, &'a Scenario),
    Server(&'a model::Server),
}

impl<'a> Plan<'a> {
    /// The plan of a run in at most `threads` threads.
    pub(crate) fn new(
        scenario: &'a Scenario,
        seed: Seed,
        record: Option<&'a Replay>,
        threads: usize,
    ) -> Self {
        let mut builders: Vec<Builder<'a>> = Vec::new();
        builders.extend(scenario.relays.iter().map(Builder::Relay));
        builders.extend((0..scenario.clients.len()).map(|index| Builder::Client(index, scenario)));
        builders.extend(scenario.servers.iter().map(Builder::Server));
        // Host ids follow the order of names, so they do not depend on the order in the scenario.
        builders.sort_by(|one, other| one.host().name.cmp(&other.host().name));
        let ids: BTreeMap<&str, HostId> =
            builders.iter().enumerate().map(|(id, node)| (node.host().name.as_str(), id as HostId)).collect();
        let relay_names: Vec<Name> =
            scenario.relays.iter().map(|relay| relay.host.name.as_str().into()).collect();
        let shards = threads.clamp(1, builders.len().clamp(1, u8::MAX.into()));
        Plan {
            scenario,
            seed,
            record,
            relay_ids: scenario.relays.iter().map(|relay| ids[relay.host.name.as_str()]).collect(),
            client_ids: scenario.clients.iter().map(|client| ids[client.host.name.as_str()]).collect(),
            server_ids: scenario.servers.iter().map(|server| ids[server.host.name.as_str()]).collect(),
            relay_names,
            workload_names: scenario.workloads.iter().map(|workload| workload.name.as_str().into()).collect(),
            shards,
            shard_of: placed(&builders, scenario, shards),
            builders,
        }
    }

    pub(crate) fn shard(&self, id: HostId) -> usize {
        self.shard_of[id as usize].into()
    }
}

/// The shard of each host, such that all shards have similar expected load.
fn placed(builders: &[Builder<'_>], scenario: &Scenario, shards: usize) -> Vec<u8> {
    let mut shard_of = vec![0; builders.len()];
    if shards == 1 {
        return shard_of;
    }
    let mut order: Vec<(f64, usize)> = expected_loads(builders, scenario).into_iter().zip(0..).collect();
    order.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut loads = vec![0.0_f64; shards];
    for (load, host) in order {
        let least = (0..shards).min_by(|one, other| loads[*one].total_cmp(&loads[*other]));
        let least = least.expect("a run has at least one shard");
        loads[least] += load;
        shard_of[host] = least as u8;
    }
    shard_of
}

/// The expected load of each host. The load of a relay is its weight. All servers together, and all clients together,
/// have a third of the load of all relays.
fn expected_loads(builders: &[Builder<'_>], scenario: &Scenario) -> Vec<f64> {
    let of_relays: f64 = scenario.relays.iter().map(|relay| relay.weight.bytes_per_sec() as f64).sum();
    let each = |count: usize| of_relays.max(1.0) / 3.0 / count.max(1) as f64;
    let load = |builder: &Builder<'_>| match builder {
        Builder::Relay(relay) => relay.weight.bytes_per_sec() as f64,
        Builder::Client(..) => each(scenario.clients.len()),
        Builder::Server(_) => each(scenario.servers.len()),
    };
    builders.iter().map(load).collect()
}

impl<'a> Builder<'a> {
    pub(crate) fn has_tor(&self) -> bool {
        match self {
            Builder::Relay(_) => true,
            Builder::Client(index, scenario) => scenario.clients[*index].path != model::Path::Direct,
            Builder::Server(_) => false,
        }
    }

    pub(crate) fn host(&self) -> &'a model::Host {
        match self {
            Builder::Relay(relay) => &relay.host,
            Builder::Client(index, scenario) => &scenario.clients[*index].host,
            Builder::Server(server) => &server.host,
        }
    }

    /// The configuration of the node's relay or onion proxy; `None` if the node does not use Tor.
    pub(crate) fn config(&self) -> Option<&'a RelayConfig> {
        match self {
            Builder::Relay(relay) => Some(&relay.config),
            Builder::Client(index, scenario) => {
                Some(&*scenario.clients[*index].config).filter(|_| self.has_tor())
            }
            Builder::Server(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_scenario::Document;

    #[test]
    fn shards_have_similar_loads() {
        let text = r#"
            [scenario]
            title = "x"
            [run]
            duration = "1 s"
            [relays.fast]
            link = "30 MiB/s"
            [relays.slow]
            count = 30
            link = "1 MiB/s"
            [servers.s]
            count = 3
            [workloads.x]
            size = "1 MiB"
            [clients.x]
            count = 60
            workload = "x"
        "#;
        let document = Document::parse(text, "x.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        let scenario = document.scenario("default").expect("there is one variant");
        for shards in [1, 2, 3] {
            let plan = Plan::new(scenario, Seed(1), None, shards);
            let mut loads = vec![0.0_f64; shards];
            for (id, load) in (0..).zip(expected_loads(&plan.builders, scenario)) {
                loads[plan.shard(id)] += load;
            }
            let mean = loads.iter().sum::<f64>() / shards as f64;
            assert!(loads.iter().all(|load| (load / mean - 1.0).abs() < 0.02), "{loads:?}");
        }
        assert_eq!(Plan::new(scenario, Seed(1), None, 1000).shards, 94);
    }
}
