//! `[network]`: delays, losses and queues between nodes.

use super::clients::MOST_HOPS;
use super::nodes::Names;
use super::places::{EdgeKeys, PlaceSource, PlaceTables, places};
use crate::error::{ConfigError, listed_briefly};
use crate::keys::{Read, Section, in_list, in_table, section, sections};
use crate::model::{Circuits, Dumbbell, Latency, LinkQueue, LossOf, Network, Quantiles, Relay, Wire};
use crate::rtt_matrix::{RttMatrix, pair};
use crate::tree::{Node, Table, Value, join};
use crate::values::{Choice, Factor, Flag, Fraction, Or, QUEUE, SAMPLED_TIME, Site, TIME, Texts, ValueType};
use penstock_units::{Duration, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct WireKeys("[network]") {
        /// The round trip between any two nodes, without queues and serialisation.
        rtt: Duration = TIME, Is("80 ms");
        /// The source of round-trip times. With "even", all are network.rtt. With "geographic", they depend on the
        /// distance between the nodes' countries. With "rtt-matrix", they come from network.rtt_matrix. With "places",
        /// they come from network.edges. A table describes a dumbbell, whose delays are drawn for each seed.
        latency: Option<Option<Option<Option<Dumbbell>>>> =
            Or("even", Or("geographic", Or("rtt-matrix", Or("places", in_table::<Dumbbell>())))), Is("even");
        /// The access delay of a node. It adds to every round trip of the node if latency is "geographic" or
        /// "rtt-matrix".
        access: Quantiles = SAMPLED_TIME, Is("11 ms");
        /// The round trips between two countries and within a country, for latency = "rtt-matrix". They do not include
        /// the access delays of the nodes.
        rtt_matrix: Option<RttMatrix> = Or("none", RoundTrips), Is("none");
        /// The places of nodes, for latency = "places". With the name of an environment, each network draws places
        /// and edges that resemble those of this environment.
        places: Option<PlaceSource> = Or("none", PlaceTables), Is("none");
        /// The delays and losses between places, and within a place.
        edges: Option<EdgeKeys> = Or("none", in_table::<EdgeKeys>()), Is("none");
        /// The probability that a packet is lost, in each direction. With places, it adds to the loss of places and
        /// edges.
        loss: f64 = Fraction, Is("0.0");
        /// The part of the loss of places and edges that packets meet: all of it, or a fraction.
        place_loss: Option<f64> = Or("all", Fraction), Is("all");
        /// The factor on the delays and jitters of edges.
        place_latency: f64 = Factor, Is("1.0");
        /// The packets that the network may lose. With "data", TCP segments without payload are never lost, as in
        /// Shadow 1.9. With "none", no packet is lost, whatever the loss of places and edges is.
        loss_of: LossOf = Choice(&[("all", LossOf::All), ("data", LossOf::Data), ("none", LossOf::None)]), Is("all");
        /// The probability that a datagram is delayed by up to a round trip, so that later datagrams arrive first. TCP
        /// segments keep their order.
        reorder: f64 = Fraction, Is("0.0");
        /// The probability that a datagram is duplicated. TCP segments are never duplicated.
        duplicate: f64 = Fraction, Is("0.0");
        /// The limit of the drop-tail queue in front of every receiving access link. With "auto", tcp.profile decides:
        /// 75 kB for Linux and "shadow-3.3" (ModelNet's 50 packets), 100 packets for "ns3", and 1024 kB for
        /// both profiles of Shadow 1.9.
        link_queue: Option<LinkQueue> = QUEUE, Is("auto");
        /// Whether the consensus activates N23. With false, nodes with the hop_control "n23" behave as with "none".
        consensus_n23: bool = Flag, Is("true");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct PairKeys("[[network.pairs]]") {
        /// Two nodes or groups of nodes. A group twice means all pairs of its nodes. The words "relays", "clients" and
        /// "servers" mean all nodes of this section.
        between: Vec<String> = Texts, Required;
        /// The round-trip time between the two. Each direction takes half of this time.
        rtt: Duration = TIME, As("network.rtt");
        /// The one-way delays instead of rtt: from the first node to the second, and back. A single delay is for both
        /// directions.
        latency: Option<[Duration; 2]> = Or("none", BothWays(TIME)), Is("none");
        /// The probability that a packet between the two is lost. A list of two is for packets from the first node to
        /// the second, and back.
        loss: [f64; 2] = BothWays(Fraction), As("network.loss");
        /// The probability that a datagram is delayed, so that later datagrams overtake it.
        reorder: f64 = Fraction, As("network.reorder");
        /// The probability that a datagram is duplicated.
        duplicate: f64 = Fraction, As("network.duplicate");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct PairsKeys("[network]") {
        /// Other values for the network between two nodes or groups.
        pairs: Vec<Read<PairKeys>> = in_list::<PairKeys>(), Is("[]");
        /// The circuits of clients with path = "circuits", as a list of strings. Each string has the names of relays
        /// from the entry to the exit, like "guard1 middle7 exit2". With "weighted", each network draws three relays by
        /// weight for each such client.
        circuits: Option<Vec<String>> = Or("weighted", Texts), Is("weighted");
        /// With "first", the first client takes the first circuit, and so on, in the order of names. With "random",
        /// each network draws as many different circuits as there are such clients. The circuits keep their order.
        circuit_choice: bool = Choice(&[("first", false), ("random", true)]), Is("first");
    }
}

/// One value for both directions between two nodes, or a list of two.
struct BothWays<V>(V);

impl<V: ValueType<Value: Clone>> ValueType for BothWays<V> {
    type Value = [V::Value; 2];

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<([V::Value; 2], Value), ConfigError> {
        let Value::List(list) = &node.value else {
            let (value, shown) = self.0.read(node, site)?;
            return Ok(([value.clone(), value], shown));
        };
        let [there, back] = &list[..] else {
            return Err(site.wrong(format!("the list has {} values; it must have two", list.len())));
        };
        let [there, back] = [self.0.read(there, site)?, self.0.read(back, site)?];
        let shown = [there.1, back.1].into_iter().map(|value| Node { value, at: node.at });
        Ok(([there.0, back.0], Value::List(shown.collect())))
    }

    fn describe(&self) -> String {
        format!("{}, or a list of two", self.0.describe())
    }

    fn unit(&self) -> &'static str {
        self.0.unit()
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct NetworkKeys("[network]") {
        wire: WireKeys,
        exceptions: PairsKeys,
    }
}

/// Reads `[network]`. The section's own keys come first, because `[[network.pairs]]` takes defaults from them.
pub(crate) fn read(table: &Table, site: &Site<'_>) -> Result<Read<NetworkKeys>, ConfigError> {
    let mut own = table.clone();
    own.retain(|key, _| !PairsKeys::has(key));
    let own = Read::<WireKeys>::new(own, site)?;
    let mut sections = site.sections.clone();
    sections.insert("network".to_owned(), Node::of_table(own.shown, site.at));
    Read::new(table.clone(), &Site { sections: &sections, ..*site })
}

struct RoundTrips;

impl ValueType for RoundTrips {
    type Value = RttMatrix;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(RttMatrix, Value), ConfigError> {
        let (mut between, mut shown) = (BTreeMap::new(), Table::new());
        for (key, node) in node.table().ok_or_else(|| self.mismatch(node, site))? {
            let path = join(site.path, key);
            let site = Site { at: node.at, path: &path, ..*site };
            let pair = pair(key).map_err(|text| {
                site.wrong(format!(
                    "{text:?} is not a country; a pair is two codes of ISO 3166-1 that [relays.NAME] may have, like DE-US"
                ))
            })?;
            let (rtt, value) = TIME.read(node, &site)?;
            if between.insert(pair, rtt).is_some() {
                return Err(
                    site.wrong("this pair is listed in the other order, too; leave one of the two out")
                );
            }
            shown.insert(pair.join("-"), Node { value, at: node.at });
        }
        if between.is_empty() {
            return Err(
                site.wrong("the table is empty; it must have at least one pair, like DE-US = \"104 ms\"")
            );
        }
        Ok((RttMatrix::new(between), Value::Table(shown)))
    }

    fn describe(&self) -> String {
        "a table of round trips by country pair, like { DE-DE = \"18 ms\", DE-US = \"104 ms\" }".to_owned()
    }

    fn unit(&self) -> &'static str {
        "s"
    }
}

/// Words for all nodes of a section.
const ALL_OF: [&str; 3] = ["relays", "clients", "servers"];

pub(crate) fn network(
    read: &Read<NetworkKeys>,
    names: &Names,
    relays: &[Relay],
) -> Result<Network, ConfigError> {
    let NetworkKeys { wire, exceptions: PairsKeys { pairs, .. } } = &read.keys;
    let loss_of = wire.loss_of;
    let possible = |loss: f64| if loss_of == LossOf::None { 0.0 } else { loss };
    let mut exceptions = BTreeMap::new();
    for pair in pairs {
        let PairKeys { between, rtt, latency, loss, reorder, duplicate } = pair.keys.clone();
        let is_known = |name: &String| names.has(name) || ALL_OF.contains(&&name[..]);
        if let Some(unknown) = between.iter().find(|name| !is_known(name)) {
            let known = listed_briefly(names.all());
            let message = format!("there is no node {unknown:?}; there are {known}");
            return Err(pair.wrong("between", message));
        }
        let [one, other] = &between[..] else {
            let message =
                format!("it names {} nodes; it must be two nodes or groups of nodes", between.len());
            return Err(pair.wrong("between", message));
        };
        if one == other && !names.is_group(one) && !ALL_OF.contains(&&one[..]) {
            let message =
                format!("it names the node {one:?} twice; it must be two nodes, or a group of nodes twice");
            return Err(pair.wrong("between", message));
        }
        if latency.is_some() && pair.sets("rtt") {
            return Err(pair.wrong("latency", "this pair has an rtt, too; set one of the two"));
        }
        let delays = latency.unwrap_or([rtt / 2; 2]);
        let rtt = latency.map_or(rtt, |[there, back]| there + back);
        let jitter = Duration::ZERO;
        let way = |way: usize| {
            let (delay, loss) = (delays[way], possible(loss[way]));
            Wire { rtt, delay, jitter, loss, loss_of, reorder, duplicate }
        };
        let (pair_names, wires) = match one <= other {
            true => ((one.clone(), other.clone()), [way(0), way(1)]),
            false => ((other.clone(), one.clone()), [way(1), way(0)]),
        };
        if one == other && wires[0] != wires[1] {
            let message = "two nodes of one group have no direction; give both directions the same values";
            return Err(pair.wrong("between", message));
        }
        if exceptions.insert(pair_names.clone(), wires).is_some() {
            let (one, other) = pair_names;
            let message = format!("the pair {one:?} and {other:?} is listed twice; leave one of the two out");
            return Err(pair.wrong("between", message));
        }
    }
    let WireKeys { rtt, loss, reorder, duplicate, .. } = *wire;
    let (loss, jitter) = (possible(loss), Duration::ZERO);
    let default = Wire { rtt, delay: rtt / 2, jitter, loss, loss_of, reorder, duplicate };
    let place_loss = wire.place_loss.unwrap_or(1.0);
    let (latency, circuits) = (latency(read)?, circuits(read, relays)?);
    let place_latency = wire.place_latency;
    Ok(Network { default, latency, place_loss, place_latency, trunk: Duration::ZERO, exceptions, circuits })
}

fn latency(read: &Read<NetworkKeys>) -> Result<Latency, ConfigError> {
    let wire = &read.keys.wire;
    let (access, factor) = (wire.access.clone(), wire.place_latency);
    let missing = |mode: &str, key: &str| {
        read.wrong("latency", format!("it is {mode:?}, and network.{key} is \"none\"; set it, too"))
    };
    match &wire.latency {
        None => Ok(Latency::Even),
        Some(None) => Ok(Latency::Geographic(access)),
        Some(Some(None)) => match &wire.rtt_matrix {
            Some(matrix) => Ok(Latency::RttMatrix(matrix.clone(), access)),
            None => Err(missing("rtt-matrix", "rtt_matrix")),
        },
        Some(Some(Some(None))) => match &wire.places {
            Some(PlaceSource::Generated(environment)) => Ok(Latency::generated(environment, Seed(0), factor)),
            Some(PlaceSource::Listed(tables)) => {
                let places = places(tables, wire.edges.as_ref(), read)?;
                Ok(Latency::Places(Arc::new(places.stretched(factor)), None))
            }
            None => Err(missing("places", "places")),
        },
        Some(Some(Some(Some(dumbbell)))) => Ok(Latency::Dumbbell(dumbbell.clone())),
    }
}

fn circuits(read: &Read<NetworkKeys>, relays: &[Relay]) -> Result<Circuits, ConfigError> {
    let keys = &read.keys.exceptions;
    let sampled = keys.circuit_choice;
    let Some(listed) = &keys.circuits else { return Ok(Circuits { each: None, sampled }) };
    let mut each = Vec::with_capacity(listed.len());
    for (number, circuit) in (1..).zip(listed) {
        let wrong = |why: String| Err(read.wrong("circuits", format!("circuit {number}: {why}")));
        let mut path = Vec::new();
        for name in circuit.split_ascii_whitespace() {
            match relays.binary_search_by(|relay| (*relay.host.name).cmp(name)) {
                Ok(relay) if path.contains(&relay) => {
                    return wrong(format!("it has {name:?} twice; its relays must be different"));
                }
                Ok(relay) => path.push(relay),
                Err(_) => {
                    let known = listed_briefly(relays.iter().map(|relay| &*relay.host.name));
                    return wrong(format!("there is no relay {name:?}; there are {known}"));
                }
            }
        }
        if path.is_empty() || path.len() > MOST_HOPS {
            return wrong(format!("it has {} relays; it must have 1 to {MOST_HOPS}", path.len()));
        }
        each.push(path);
    }
    Ok(Circuits { each: Some(each.into()), sampled })
}
