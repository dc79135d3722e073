//! Reads `[[deployments]]`: new software on some of the relays.
//!
//! A deployment sets keys for some relays of a group. If the deployment has a `share`, each network samples the reached
//! relays. A larger share contains all relays of a smaller share. Results for different shares are therefore
//! comparable.

use crate::error::{ConfigError, listed, listed_briefly};
use crate::keys::{Read, Section};
use crate::layers;
use crate::model::{Deployment, Deployments, Layers, Relay};
use crate::sections::Sections;
use crate::sections::relays::RelaysKeys;
use crate::sections::sets::{DeploymentKeys, Position};
use crate::sections::tor::{OfClient, TorKeys};
use crate::tree::Table;
use crate::values::Site;
use std::collections::{BTreeMap, BTreeSet};

/// Keys that an operator sets, or that describe the machine. A deployment cannot change them.
const NOT_SOFTWARE: [&str; 3] = ["bandwidth_rate", "bandwidth_burst", "cpu"];

/// Largest number of combinations of deployments. The parser checks the keys of each combination before a run.
const MOST_LAYERS: usize = 1024;

pub(crate) fn deployments(sections: &Sections, relays: &[Relay]) -> Result<Deployments, ConfigError> {
    let Some(first) = sections.deployments.first() else { return Ok(Deployments::default()) };
    let (mut each, mut sets) = (Vec::new(), Vec::new());
    for read in &sections.deployments {
        each.push(deployment(read, relays)?);
        sets.push(set(read)?);
    }
    let Some(groups) = groups(&each, relays) else {
        let message = format!(
            "these shares allow more than {MOST_LAYERS} combinations of software; give fewer deployments a share"
        );
        return Err(ConfigError::new(first.at, "deployments", message));
    };
    let own: BTreeMap<&str, &Relay> =
        relays.iter().map(|relay| (relay.host.group.name.as_str(), relay)).collect();
    let mut software = BTreeMap::new();
    for (layers, groups) in groups {
        for group in groups {
            if layers.is_empty() {
                let relay = own[group];
                software
                    .insert((group.to_owned(), layers.clone()), (relay.config.clone(), relay.refill_phase));
                continue;
            }
            let relay = deployed(sections, group, layers.iter().map(|place| sets[*place]))?;
            let n23 = sections.network.keys.wire.consensus_n23;
            let (config, phase) = relay.keys.tor.config(&relay, OfClient::default(), n23)?;
            software.insert((group.to_owned(), layers.clone()), (config.into(), phase));
        }
    }
    Ok(Deployments { each, software })
}

/// The keys of a group of relays with the deployments that reach them.
fn deployed<'a>(
    sections: &Sections,
    group: &str,
    sets: impl Iterator<Item = &'a Table>,
) -> Result<Read<RelaysKeys>, ConfigError> {
    let Read { written, path, at, .. } = &sections.relays[group];
    let mut keys = written.clone();
    for set in sets {
        layers::add(&mut keys, set, RelaysKeys::has)?;
    }
    Read::new(keys, &Site { at: *at, path, sections: &sections.resolved })
}

fn set(read: &Read<DeploymentKeys>) -> Result<&Table, ConfigError> {
    let set = &read.keys.set;
    let is_software = |key: &str| TorKeys::has(key) && !NOT_SOFTWARE.contains(&key);
    if let Some((key, node)) = set.iter().find(|(key, _)| !is_software(key)) {
        let keys = TorKeys::parameters();
        let known = listed(keys.iter().map(|key| key.key).filter(|key| is_software(key)));
        let message = format!("{key:?} is not a software key of a relay; a deployment may set {known}");
        return Err(ConfigError::new(node.at, format!("{}.set", read.path), message));
    }
    if set.is_empty() {
        let message = "it sets no key; write keys of [relay], like { scheduler = \"kist\" }";
        return Err(read.wrong("set", message));
    }
    Ok(set)
}

fn deployment(read: &Read<DeploymentKeys>, relays: &[Relay]) -> Result<Deployment, ConfigError> {
    let DeploymentKeys { relays: names, position, share, share_of, .. } = &read.keys;
    let is_called = |relay: &Relay, name: &str| *relay.host.name == *name || relay.host.group.name == name;
    let unknown = |name: &&String| *name != "any" && relays.iter().all(|relay| !is_called(relay, name));
    if let Some(unknown) = names.iter().find(unknown) {
        let mut groups: Vec<&str> = relays.iter().map(|relay| relay.host.group.name.as_str()).collect();
        groups.dedup();
        let message = format!("there is no relay {unknown:?}; [relays] has {}", listed_briefly(groups));
        return Err(read.wrong("relays", message));
    }
    let stands = |relay: &Relay| match position {
        Position::Any => true,
        Position::Guard => relay.guard && !relay.exit,
        Position::Middle => !relay.guard && !relay.exit,
        Position::Exit => relay.exit,
    };
    let is_meant =
        |relay: &Relay| stands(relay) && names.iter().any(|name| name == "any" || is_called(relay, name));
    let reached: Vec<usize> = (0..relays.len()).filter(|index| is_meant(&relays[*index])).collect();
    if reached.is_empty() {
        let position = read.shown.get("position").and_then(|node| node.as_text()).unwrap_or_default();
        let message = format!(
            "none of these relays has the flags of the position {position}; change position, relays or their flags"
        );
        return Err(read.wrong("position", message));
    }
    Ok(Deployment { relays: reached, share: share.unwrap_or(1.0), share_of: *share_of })
}

impl Deployment {
    /// Whether this deployment reaches all relays that `other` reaches, in every network. Each deployment takes the
    /// first relays in a random order, which is the same for both.
    fn contains(&self, other: &Deployment) -> bool {
        let alike = self.relays == other.relays && self.share_of == other.share_of;
        self.is_for_all() || alike && self.share >= other.share
    }

    fn is_for_all(&self) -> bool {
        self.share >= 1.0
    }
}

/// Lists the combinations of deployments that can reach one relay, each with the groups whose relays it may reach. The
/// empty combination has the groups with relays that no deployment may reach.
/// Returns `None` if there are more than [`MOST_LAYERS`] combinations.
fn groups<'a>(each: &[Deployment], relays: &'a [Relay]) -> Option<BTreeMap<Layers, BTreeSet<&'a str>>> {
    // Relays that the same deployments may reach are treated together.
    let mut alike: BTreeMap<Layers, BTreeSet<&str>> = BTreeMap::new();
    for (index, relay) in relays.iter().enumerate() {
        let may = |place: &usize| each[*place].relays.binary_search(&index).is_ok();
        let reaching = (0..each.len()).filter(may).collect();
        alike.entry(reaching).or_default().insert(&relay.host.group.name);
    }
    let mut found: BTreeMap<Layers, BTreeSet<&str>> = BTreeMap::new();
    for (reaching, groups) in alike {
        for layers in layers(each, &reaching)? {
            found.entry(layers).or_default().extend(&groups);
        }
    }
    Some(found).filter(|found| found.len() <= MOST_LAYERS)
}

/// Lists the subsets of `reaching` whose deployments can all reach one relay. Returns `None` if there are too many.
fn layers(each: &[Deployment], reaching: &[usize]) -> Option<Vec<Layers>> {
    let mut all = vec![Layers::new()];
    for (done, place) in reaching.iter().enumerate() {
        let next = &each[*place];
        let with = |layers: &Layers| {
            let can = |before: &usize| layers.contains(before) || !each[*before].contains(next);
            reaching[..done].iter().all(can).then(|| [&layers[..], &[*place]].concat())
        };
        let without = |layers: &&Layers| {
            !next.is_for_all() && layers.iter().all(|before| !next.contains(&each[*before]))
        };
        all = all.iter().filter_map(with).chain(all.iter().filter(without).cloned()).collect();
        if all.len() > MOST_LAYERS {
            return None;
        }
    }
    Some(all)
}
