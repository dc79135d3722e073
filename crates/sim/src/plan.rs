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
    order: Vec<Entry>,
    /// The host of each relay, client and server of the scenario. A client at its entry has the host of this relay.
    pub(crate) relay_ids: Vec<HostId>,
    pub(crate) client_ids: Vec<HostId>,
    pub(crate) server_ids: Vec<HostId>,
    pub(crate) workload_names: Vec<Name>,
    /// For each relay, the clients that are a part of it, by their indices in the scenario.
    pub(crate) clients_at: BTreeMap<usize, Vec<usize>>,
    pub(crate) shards: usize,
    pub(crate) shard_of: Vec<u8>,
}

/// A node, by its index in the list of the scenario.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Relay(u32),
    Client(u32),
    Server(u32),
}

/// A node of the scenario, from which its state is built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Builder<'a> {
    /// A relay, and its index in the scenario. Some clients may be a part of it.
    Relay(usize, &'a model::Relay),
    /// A client, and its index in the scenario.
    Client(usize, &'a model::Client),
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
        let [relays, clients, servers] =
            [scenario.relays.len(), scenario.clients.len(), scenario.servers.len()].map(|count| count as u32);
        let mut order = Vec::with_capacity((relays + clients + servers) as usize);
        order.extend((0..relays).map(Entry::Relay));
        let mut clients_at: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, client) in (0..).zip(&scenario.clients) {
            match client.group.entry() {
                Some(relay) => clients_at.entry(relay).or_default().push(index as usize),
                None => order.push(Entry::Client(index)),
            }
        }
        order.extend((0..servers).map(Entry::Server));
        // Host ids follow the order of names, so they do not depend on the order in the scenario.
        order.sort_by_key(|node| &node.of(scenario).host().name);
        let mut ids = [relays, clients, servers].map(|count| vec![0; count as usize]);
        for (id, node) in (0..).zip(&order) {
            let (kind, index) = node.place();
            ids[kind][index] = id;
        }
        let [relay_ids, mut client_ids, server_ids] = ids;
        for (relay, clients) in &clients_at {
            clients.iter().for_each(|client| client_ids[*client] = relay_ids[*relay]);
        }
        let shards = threads.clamp(1, order.len().clamp(1, u8::MAX.into()));
        Plan {
            scenario,
            seed,
            record,
            relay_ids,
            client_ids,
            server_ids,
            clients_at,
            workload_names: scenario.workloads.iter().map(|workload| workload.name.as_str().into()).collect(),
            shards,
            shard_of: placed(&order, scenario, shards),
            order,
        }
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn builder(&self, id: HostId) -> Builder<'a> {
        self.order[id as usize].of(self.scenario)
    }

    pub(crate) fn host(&self, id: HostId) -> &'a model::Host {
        self.builder(id).host()
    }

    pub(crate) fn shard(&self, id: HostId) -> usize {
        self.shard_of[id as usize].into()
    }
}

/// The shard of each host, such that all shards have similar expected load.
fn placed(nodes: &[Entry], scenario: &Scenario, shards: usize) -> Vec<u8> {
    let mut shard_of = vec![0; nodes.len()];
    if shards == 1 {
        return shard_of;
    }
    let mut order: Vec<(f64, usize)> = expected_loads(nodes, scenario).into_iter().zip(0..).collect();
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
fn expected_loads(nodes: &[Entry], scenario: &Scenario) -> Vec<f64> {
    let of_relays: f64 = scenario.relays.iter().map(|relay| relay.weight.bytes_per_sec() as f64).sum();
    let each = |count: usize| of_relays.max(1.0) / 3.0 / count.max(1) as f64;
    let load = |node: &Entry| match node.of(scenario) {
        Builder::Relay(_, relay) => relay.weight.bytes_per_sec() as f64,
        Builder::Client(..) => each(scenario.clients.len()),
        Builder::Server(_) => each(scenario.servers.len()),
    };
    nodes.iter().map(load).collect()
}

impl Entry {
    /// The kind of the node, in the order of [`Entry`], and its index.
    fn place(self) -> (usize, usize) {
        match self {
            Entry::Relay(index) => (0, index as usize),
            Entry::Client(index) => (1, index as usize),
            Entry::Server(index) => (2, index as usize),
        }
    }

    fn of(self, scenario: &Scenario) -> Builder<'_> {
        match self {
            Entry::Relay(index) => Builder::Relay(index as usize, &scenario.relays[index as usize]),
            Entry::Client(index) => Builder::Client(index as usize, &scenario.clients[index as usize]),
            Entry::Server(index) => Builder::Server(&scenario.servers[index as usize]),
        }
    }
}

impl<'a> Builder<'a> {
    pub(crate) fn has_tor(&self) -> bool {
        match self {
            Builder::Relay(..) => true,
            Builder::Client(_, client) => client.group.path != model::Path::Direct,
            Builder::Server(_) => false,
        }
    }

    pub(crate) fn host(&self) -> &'a model::Host {
        match self {
            Builder::Relay(_, relay) => &relay.host,
            Builder::Client(_, client) => &client.host,
            Builder::Server(server) => &server.host,
        }
    }

    /// The configuration of the node's relay or onion proxy; `None` if the node does not use Tor.
    pub(crate) fn config(&self) -> Option<&'a RelayConfig> {
        match self {
            Builder::Relay(_, relay) => Some(&relay.config),
            Builder::Client(_, client) => Some(&*client.group.config).filter(|_| self.has_tor()),
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
            for (id, load) in (0..).zip(expected_loads(&plan.order, scenario)) {
                loads[plan.shard(id)] += load;
            }
            let mean = loads.iter().sum::<f64>() / shards as f64;
            assert!(loads.iter().all(|load| (load / mean - 1.0).abs() < 0.02), "{loads:?}");
        }
        assert_eq!(Plan::new(scenario, Seed(1), None, 1000).shards, 94);
    }
}
