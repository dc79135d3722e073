//! `[relay]` and `[relays.NAME]`: single relays, and groups that are sampled from the Tor network of a year (`era`).

use super::nodes::{CountKeys, HostKeys, LinkKeys, Names, host};
use super::tor::{OfClient, TorKeys};
use crate::error::{ConfigError, listed_briefly};
use crate::keys::{Read, section, sections};
use crate::model::{Generated, Relay};
use crate::tree::{Node, Value};
use crate::values::{Flag, Or, RATE, Site, Texts, ValueType, Word};
use penstock_network::{Country, Era, MAX_FAMILY};
use penstock_units::{DataRate, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct WeightKeys("") {
        /// The weight of the relay when clients draw paths. "auto" is bandwidth_rate if the relay has one, otherwise
        /// the sending rate of its link.
        weight: Option<DataRate> = Or("auto", RATE), Is("auto");
        /// With `path = "tor"`, the positions at which clients may use the relay: "guard", "exit", both or none. Every
        /// relay may also be in the middle.
        flags: [bool; 2] = FlagList, Is("['guard', 'exit']");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct EraKeys("") {
        /// Draws link, bandwidth_rate, bandwidth_burst, weight, flags and country of these relays from data of this
        /// year, for each network.
        era: Option<&'static str> = Or("none", Word(&Era::YEARS)), Is("none");
        /// With true, relays of an era have token buckets. With false, they have none, and the lower of link and
        /// bandwidth_rate becomes their link rate.
        era_buckets: bool = Flag, Is("true");
        /// With true, the bandwidth_rate of a relay is at most its link rate, as if its operator had set the option
        /// BandwidthRate to what the relay can send. Throttling divides this rate. With false, it is that of the year,
        /// which often exceeds the link. The burst is that of the year, too.
        era_rates_within_links: bool = Flag, Is("false");
        /// With true, the weights of these relays differ from their capacities, as in that year's consensus. With
        /// false, the weight of a relay is its capacity: the lower of link and bandwidth_rate.
        era_weights: bool = Flag, Is("true");
        /// With true, the flags of these relays are those of relays of that year. With false, the key flags has them.
        era_flags: bool = Flag, Is("true");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct FamilyKeys("") {
        /// The relays that these relays declare as their family, as names of relays or groups. With `path = "tor"`, no
        /// circuit has two relays that declare each other.
        family: Vec<String> = Texts, Is("[]");
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct RelayKeys("[relay]") {
        link: LinkKeys,
        host: HostKeys,
        tor: TorKeys,
        place: WeightKeys,
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct RelaysKeys("[relays.NAME]") {
        link: LinkKeys,
        host: HostKeys,
        tor: TorKeys,
        place: WeightKeys,
        family: FamilyKeys,
        copies: CountKeys,
        era: EraKeys,
    }
}

/// The relays in the order of their names, and the groups with an era.
pub(crate) fn relays(
    read: &BTreeMap<String, Read<RelaysKeys>>,
    names: &Names,
    n23: bool,
) -> Result<(Vec<Relay>, Vec<Generated>), ConfigError> {
    let mut relays = Vec::new();
    for (name, relay) in read {
        let RelaysKeys { host: host_keys, tor, place, era, .. } = &relay.keys;
        let (config, refill_phase) = tor.config(relay, OfClient::default(), n23)?;
        let host = host("relays", name, host_keys, tor.cpu, tor.bandwidth_rate.as_ref());
        let [guard, exit] = place.flags;
        let bucket = config.bandwidth.map(|bandwidth| bandwidth.rate);
        let model = Relay {
            weight: place.weight.or(bucket).unwrap_or(host.link_up),
            weight_follows: place.weight.is_none() && era.era.is_none(),
            host,
            guard,
            exit,
            family: Arc::default(),
            config: config.into(),
            refill_phase,
        };
        for name in &names.nodes[name] {
            relays.push(Relay { host: model.host.named(name), ..model.clone() });
        }
    }
    relays.sort_by(|a, b| a.host.name.cmp(&b.host.name));
    connect_families(read, names, &mut relays)?;
    let generated = generated(read, &mut relays)?;
    Ok((relays, generated))
}

/// Sets the families of all relays, which are in the order of their names.
fn connect_families(
    read: &BTreeMap<String, Read<RelaysKeys>>,
    names: &Names,
    relays: &mut [Relay],
) -> Result<(), ConfigError> {
    let place = |name: &str| relays.binary_search_by(|relay| (*relay.host.name).cmp(name)).ok();
    let mut declared: Vec<Arc<[u32]>> = vec![Arc::default(); relays.len()];
    for (name, relay) in read.iter().filter(|(_, relay)| !relay.keys.family.family.is_empty()) {
        if relay.keys.era.era.is_some() {
            // The flags of these relays differ between networks, so in some of them there might be no path.
            let message = "relays of an era have no families; leave era or family out";
            return Err(relay.wrong("family", message));
        }
        let mut family = Vec::new();
        for other in &relay.keys.family.family {
            let nodes = match names.nodes.get(other).filter(|_| read.contains_key(other)) {
                Some(nodes) => &nodes[..],
                None => std::slice::from_ref(other),
            };
            for node in nodes {
                let index = place(node).ok_or_else(|| {
                    let known = listed_briefly(read.keys().map(String::as_str));
                    relay.wrong("family", format!("there is no relay {node:?}; there are {known}"))
                })?;
                // A network has fewer than 2^32 relays.
                family.push(index as u32);
            }
        }
        family.sort_unstable();
        family.dedup();
        if family.len() > MAX_FAMILY {
            let message = format!("it has {} relays; a family has at most {MAX_FAMILY}", family.len());
            return Err(relay.wrong("family", message));
        }
        let family: Arc<[u32]> = family.into();
        names.nodes[name]
            .iter()
            .filter_map(|node| place(node))
            .for_each(|index| declared[index] = family.clone());
    }
    for (index, relay) in (0u32..).zip(relays.iter_mut()) {
        let own = declared[index as usize].iter().copied();
        let declares_back =
            |other: &u32| *other != index && declared[*other as usize].binary_search(&index).is_ok();
        relay.family = own.filter(declares_back).collect();
    }
    Ok(())
}

/// Value type: the flags of a relay, as the pair of `guard` and `exit`.
struct FlagList;

const FLAGS: [&str; 2] = ["guard", "exit"];

impl ValueType for FlagList {
    type Value = [bool; 2];

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<([bool; 2], Value), ConfigError> {
        let (flags, shown) = Texts.read(node, site)?;
        if let Some(unknown) = flags.iter().find(|flag| !FLAGS.contains(&&flag[..])) {
            return Err(site.wrong(format!("{unknown:?} is not a flag; it must be {}", self.describe())));
        }
        Ok((FLAGS.map(|name| flags.iter().any(|flag| flag == name)), shown))
    }

    fn describe(&self) -> String {
        "a list of \"guard\" and \"exit\", or []".to_owned()
    }
}

/// Keys that a relay with an era may not set, because their values are sampled.
const OF_ERA: [&str; 7] =
    ["link", "link_up", "link_down", "bandwidth_rate", "bandwidth_burst", "weight", "flags"];

/// Groups of relays with an era. Until a network is sampled, they have the relays of the network with seed 0.
fn generated(
    read: &BTreeMap<String, Read<RelaysKeys>>,
    relays: &mut [Relay],
) -> Result<Vec<Generated>, ConfigError> {
    let mut groups = Vec::new();
    for (name, relay) in read {
        let Some(era) = relay.keys.era.era.and_then(Era::of) else { continue };
        // The defaults of `[relay]`, which the resolved file repeats, are no contradiction.
        let EraKeys {
            era_buckets: buckets,
            era_rates_within_links: rates_within_links,
            era_weights: weights,
            era_flags: flags,
            ..
        } = relay.keys.era;
        let sampled = OF_ERA.iter().filter(|key| flags || **key != "flags");
        if let Some(key) = sampled.into_iter().find(|key| relay.sets(key) && !relay.has_default(key)) {
            let message = format!("the era of [{}] draws this; set one of the two", relay.path);
            return Err(relay.wrong(key, message));
        }
        if relay.keys.copies.count.is_none() {
            return Err(relay.wrong("era", "an era is for several relays; set count"));
        }
        let of_group = (0..relays.len()).filter(|index| relays[*index].host.group.name == *name).collect();
        let group = name.clone();
        let group = Generated { era, group, relays: of_group, buckets, rates_within_links, weights, flags };
        group.draw(relays, Seed(0));
        // A relay has no sampled country before its network is sampled.
        let country = relay.keys.host.country.and_then(Country::of);
        group.relays.iter().for_each(|index| relays[*index].host.country = country);
        groups.push(group);
    }
    Ok(groups)
}
