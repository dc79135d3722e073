//! Keys that all nodes have, and the names of nodes.

use super::places::{NodePlaces, PlacesOfNodes};
use crate::error::ConfigError;
use crate::keys::{Read, section, sections};
use crate::model::{Costs, Host, HostGroup, LinkQueue, Place, SampledRates, Server, Span};
use crate::values::{BUFFER, LINK_RATE, NodeRate, Or, QUEUE, SPAN, Whole, Word};
use penstock_network::{Country, geo};
use penstock_units::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct LinkKeys("") {
        /// The rate of the access link, in each direction. With "place", it is that of the node's place.
        link: NodeRate = LINK_RATE, Is("10 MiB/s");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct ServerLinkKeys("") {
        /// The rate of the access link, in each direction. With "place", it is that of the node's place.
        link: NodeRate = LINK_RATE, Is("100 MiB/s");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct HostKeys("") {
        /// The rate at which the access link sends.
        link_up: NodeRate = LINK_RATE, As("link");
        /// The rate at which the access link receives.
        link_down: NodeRate = LINK_RATE, As("link");
        /// The size of the queue in front of the receiving link.
        link_queue: Option<LinkQueue> = QUEUE, As("network.link_queue");
        /// The size of the send buffer of each socket.
        send_buffer: Option<Bytes> = BUFFER, As("tcp.send_buffer");
        /// The size of the receive buffer of each socket.
        receive_buffer: Option<Bytes> = BUFFER, As("tcp.receive_buffer");
        /// The country of the node, if network.latency is "geographic" or "rtt-matrix". With "any", each node draws a
        /// country. A relay with an era draws from the countries of relays of that year. Any other node draws from the
        /// countries of Tor's users. If network.latency is "places", the node is at a place in this country.
        country: Option<&'static str> = Or("any", Word(&geo::CODES)), Is("any");
        /// The place of the node, if network.latency is "places". A table of places with numbers divides the nodes of
        /// this section in proportion. With "any", nodes with a country are at the places of this country, and all
        /// other nodes at any place, in proportion to the weights of the places.
        place: Option<NodePlaces> = Or("any", PlacesOfNodes), Is("any");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct CountKeys("") {
        /// Makes this number of nodes, NAME0001, NAME0002 and so on; "one" makes NAME itself.
        count: Option<u32> = Or("one", Whole::from_1_to(1_000_000)), Is("one");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct ThinkKeys("") {
        /// The time from the arrival of a request to the first byte of the answer. Markov models are not delayed.
        think_time: Span = SPAN, Is("0 s");
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct ServerKeys("[server]") {
        link: ServerLinkKeys,
        host: HostKeys,
        think: ThinkKeys,
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct ServersKeys("[servers.NAME]") {
        link: ServerLinkKeys,
        host: HostKeys,
        think: ThinkKeys,
        copies: CountKeys,
    }
}

/// The first host of a group. `bandwidth` gives the distribution of the sampled bandwidth.
pub(crate) fn host(
    section: &'static str,
    name: &str,
    keys: &HostKeys,
    cpu: Option<Costs>,
    bandwidth: Option<&NodeRate>,
) -> Host {
    let group = HostGroup {
        name: name.to_owned(),
        section,
        link_queue: keys.link_queue,
        send_buffer: keys.send_buffer,
        receive_buffer: keys.receive_buffer,
        cpu,
        sampled: SampledRates {
            link_up: keys.link_up.sampled.clone(),
            link_down: keys.link_down.sampled.clone(),
            bandwidth: bandwidth.and_then(|rate| rate.sampled.clone()),
            of_place: [keys.link_up.of_place, keys.link_down.of_place],
        },
        places: None,
    };
    Host {
        name: name.into(),
        group: Arc::new(group),
        link_up: keys.link_up.typical,
        link_down: keys.link_down.typical,
        country: keys.country.and_then(Country::of),
        place: Place::default(),
    }
}

pub(crate) fn servers(
    read: &BTreeMap<String, Read<ServersKeys>>,
    names: &Names,
) -> Result<Vec<Server>, ConfigError> {
    let mut servers = Vec::new();
    for (name, server) in read {
        let host = host("servers", name, &server.keys.host, None, None);
        for name in &names.nodes[name] {
            let think_time = server.keys.think.think_time.clone();
            servers.push(Server { host: host.named(name), think_time });
        }
    }
    servers.sort_by(|a, b| a.host.name.cmp(&b.host.name));
    Ok(servers)
}

/// Names of all nodes and groups.
#[derive(Default)]
pub(crate) struct Names {
    /// The table that each name comes from.
    taken: BTreeMap<String, String>,
    /// The nodes of each table, by the name of the table.
    pub(crate) nodes: BTreeMap<String, Vec<String>>,
}

impl Names {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.taken.contains_key(name)
    }

    /// Whether the name stands for several nodes, `NAME0001` and so on.
    pub(crate) fn is_group(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|nodes| nodes[0] != name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.taken.keys().map(String::as_str)
    }

    /// Reserves the names of all nodes of a table: the table's name, or NAME0001, NAME0002 and so on for a `count`.
    pub(crate) fn take<S>(
        &mut self,
        name: &str,
        count: Option<u32>,
        table: &Read<S>,
    ) -> Result<(), ConfigError> {
        let copies: Vec<String> = match count {
            None => vec![name.to_owned()],
            Some(count) => (1..=count).map(|number| format!("{name}{number:04}")).collect(),
        };
        let group = count.map(|_| name.to_owned());
        for name in group.iter().chain(&copies) {
            let refuse = |message| Err(ConfigError::new(table.at, &table.path, message));
            if matches!(&name[..], "weighted" | "tor" | "circuits" | "any") {
                return refuse(format!(
                    "{name:?} is a word of paths and servers; give the node another name"
                ));
            }
            if let Some(other) = self.taken.insert(name.clone(), table.path.clone()) {
                return refuse(format!(
                    "the name {name:?} is taken by [{other}]; relays, clients and servers must all be named differently"
                ));
            }
        }
        self.nodes.insert(name.to_owned(), copies);
        Ok(())
    }
}
