//! `[network]`: delays, losses and queues between nodes.

use super::nodes::Names;
use crate::error::{ConfigError, listed_briefly};
use crate::keys::{Read, in_list, in_table, section, sections};
use crate::model::{Dumbbell, Latency, LinkQueue, Network, Quantiles, Wire};
use crate::rtt_matrix::{RttMatrix, pair};
use crate::tree::{Node, Table, Value, join};
use crate::values::{Flag, Fraction, Or, QUEUE, SAMPLED_TIME, Site, TIME, Texts, ValueType};
use penstock_units::Duration;
use std::collections::BTreeMap;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct WireKeys("[network]") {
        /// The round trip between any two nodes, without queues and serialisation.
        rtt: Duration = TIME, Is("80 ms");
        /// The source of round-trip times. With "even", all are network.rtt. With "geographic", they depend on the
        /// distance between the nodes' countries. With "rtt-matrix", they come from network.rtt_matrix. A table
        /// describes a dumbbell, whose delays are drawn for each seed.
        latency: Option<Option<Option<Dumbbell>>> =
            Or("even", Or("geographic", Or("rtt-matrix", in_table::<Dumbbell>()))), Is("even");
        /// The access delay of a node. It adds to every round trip of the node if latency is "geographic" or
        /// "rtt-matrix".
        access: Quantiles = SAMPLED_TIME, Is("11 ms");
        /// The round trips between two countries and within a country, for latency = "rtt-matrix". They do not include
        /// the access delays of the nodes.
        rtt_matrix: Option<RttMatrix> = Or("none", RoundTrips), Is("none");
        /// The probability that a packet is lost, in each direction.
        loss: f64 = Fraction, Is("0.0");
        /// The probability that a datagram is delayed by up to a round trip, so that later datagrams arrive first. TCP
        /// segments keep their order.
        reorder: f64 = Fraction, Is("0.0");
        /// The probability that a datagram is duplicated. TCP segments are never duplicated.
        duplicate: f64 = Fraction, Is("0.0");
        /// The limit of the drop-tail queue in front of every receiving access link. With "auto", tcp.profile decides:
        /// 75 kB for Linux (ModelNet's 50 packets), 100 packets for "ns3", and 1024 kB for "shadow-1.9".
        link_queue: Option<LinkQueue> = QUEUE, Is("auto");
        /// Whether the consensus activates N23. With false, nodes with the hop_control "n23" behave as with "none".
        consensus_n23: bool = Flag, Is("true");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct PairKeys("[[network.pairs]]") {
        /// Two nodes or groups of nodes. A group twice means all pairs of its nodes.
        between: Vec<String> = Texts, Required;
        /// The round-trip time between the two.
        rtt: Duration = TIME, As("network.rtt");
        /// The probability that a packet between the two is lost.
        loss: f64 = Fraction, As("network.loss");
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
    own.remove("pairs");
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
                    "{text:?} is no country; a pair is two codes of ISO 3166-1 that [relays.NAME] may have, like DE-US"
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

pub(crate) fn network(read: &Read<NetworkKeys>, names: &Names) -> Result<Network, ConfigError> {
    let NetworkKeys { wire, exceptions: PairsKeys { pairs } } = &read.keys;
    let mut exceptions = BTreeMap::new();
    for pair in pairs {
        let PairKeys { between, rtt, loss, reorder, duplicate } = &pair.keys;
        let mut between = between.clone();
        between.sort_unstable();
        if let Some(unknown) = between.iter().find(|name| !names.has(name)) {
            let known = listed_briefly(names.all());
            let message = format!("there is no node {unknown:?}; there are {known}");
            return Err(pair.wrong("between", message));
        }
        let [one, other] = &between[..] else {
            let message =
                format!("it names {} nodes; it must be two nodes or groups of nodes", between.len());
            return Err(pair.wrong("between", message));
        };
        if one == other && !names.is_group(one) {
            let message =
                format!("it names the node {one:?} twice; it must be two nodes, or a group of nodes twice");
            return Err(pair.wrong("between", message));
        }
        let wire = Wire { rtt: *rtt, loss: *loss, reorder: *reorder, duplicate: *duplicate };
        if exceptions.insert((one.clone(), other.clone()), wire).is_some() {
            let message = format!("the pair {one:?} and {other:?} is listed twice; leave one of the two out");
            return Err(pair.wrong("between", message));
        }
    }
    let access = wire.access.clone();
    let latency = match (&wire.latency, &wire.rtt_matrix) {
        (None, _) => Latency::Even,
        (Some(None), _) => Latency::Geographic(access),
        (Some(Some(None)), Some(matrix)) => Latency::RttMatrix(matrix.clone(), access),
        (Some(Some(None)), None) => {
            let message = "it is \"rtt-matrix\", and network.rtt_matrix is \"none\"; set it, too";
            return Err(read.wrong("latency", message));
        }
        (Some(Some(Some(dumbbell))), _) => Latency::Dumbbell(dumbbell.clone()),
    };
    let WireKeys { rtt, loss, reorder, duplicate, .. } = *wire;
    let default = Wire { rtt, loss, reorder, duplicate };
    Ok(Network { default, latency, trunk: Duration::ZERO, exceptions })
}
