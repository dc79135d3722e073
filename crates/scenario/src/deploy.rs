//! Software that some relays have and others do not.
//!
//! A network is upgraded relay by relay. A deployment says which relays have other settings than their group; of a
//! share, each network draws its own. Relays of a smaller share are among those of a larger one, so that shares compare.

use crate::build::View;
use crate::drawn::set_bandwidth;
use crate::error::{Mistake, listed, listed_briefly};
use crate::model::{Phase, Relay};
use crate::overrides;
use crate::resolve::{Resolved, resolve};
use crate::schema;
use crate::tor::{self, Consensus};
use crate::tree::{Node, Origin, Table, Value};
use penstock_core::config::RelayConfig;
use penstock_units::Seed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All deployments of a scenario, which lie over each other in their order.
#[derive(Clone, Debug, Default)]
pub struct Deployments {
    each: Vec<Deployment>,
    /// What a relay of a group is that is reached by these and by no others.
    software: BTreeMap<(String, Layers), (Arc<RelayConfig>, Phase)>,
}

/// Deployments that reach the same relay, by their places in the file, growing.
type Layers = Vec<usize>;

/// One deployment.
#[derive(Clone, Debug)]
struct Deployment {
    /// Indices of the relays that it may reach.
    relays: Vec<usize>,
    /// How many of them it reaches.
    count: usize,
    /// What it sets.
    set: Table,
}

/// Keys that are the operator's and the network's, not the software's.
const NOT_SOFTWARE: [&str; 3] = ["bandwidth_rate", "bandwidth_burst", "cpu"];

/// So many layers may come of deployments with shares: each is resolved beforehand, so that a mistake is found then.
const MOST_LAYERS: usize = 1024;

impl Deployments {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Gives the relays that they reach in one network what they set.
    pub(crate) fn deploy(&self, relays: &mut [Relay], seed: Seed) {
        let mut layers: BTreeMap<usize, Layers> = BTreeMap::new();
        for (place, deployment) in self.each.iter().enumerate() {
            for index in deployment.draw(relays, seed) {
                layers.entry(index).or_default().push(place);
            }
        }
        for (index, layers) in layers {
            let relay = &mut relays[index];
            let known = self.software.get(&(relay.host.group.clone(), layers));
            let (config, phase) = known.expect("all layers that a relay can have were resolved");
            let bandwidth = std::mem::replace(&mut relay.config, config.clone()).bandwidth;
            set_bandwidth(&mut relay.config, bandwidth);
            relay.refill_phase = *phase;
        }
    }
}

impl Deployment {
    /// Whom it reaches in one network.
    fn draw(&self, relays: &[Relay], seed: Seed) -> Vec<usize> {
        let draw = |index: &usize| {
            let name = &relays[*index].host.name;
            (seed.stream(&format!("{name}/deployment")).bits(), name.clone())
        };
        let mut reached = self.relays.clone();
        reached.sort_by_cached_key(draw);
        reached.truncate(self.count);
        reached
    }

    /// Whether it reaches whomever `other` reaches, in every network: both take the first of the same row.
    fn contains(&self, other: &Deployment) -> bool {
        self.count == self.relays.len() || self.relays == other.relays && self.count >= other.count
    }
}

/// The deployments of one variant; `root` is the file with its overrides, `resolved` the same with all defaults.
///
/// What a relay has is resolved once for all layers that can be: each is laid over those before it, as a variant over
/// the file.
pub(crate) fn deployments(
    root: &Table,
    resolved: &Resolved,
    relays: &[Relay],
) -> Result<Deployments, Mistake> {
    let node = &resolved.full["deployments"];
    let Value::List(list) = &node.value else { unreachable!("the schema lets only a list through here") };
    let mut each = Vec::new();
    for (index, node) in list.iter().enumerate() {
        let path = format!("deployments.{index}");
        let table = node.table().expect("the schema lets only tables through here");
        each.push(deployment(View { table, path: &path }, relays)?);
    }
    let mut software = BTreeMap::new();
    let Some(groups) = groups(&each, relays) else {
        let message = format!(
            "more than {MOST_LAYERS} mixes of software may come of these shares; give a share to fewer of them"
        );
        return Err(Mistake::new(list[0].at, "deployments", message));
    };
    for (layers, groups) in groups {
        let full = laid(root, layers.iter().map(|place| &each[*place].set), &groups)?;
        for group in groups {
            let path = format!("relays.{group}");
            let table = full["relays"].table().expect("a section is a table")[group].table();
            let table = table.expect("the schema lets only tables through here");
            let (config, phase) = tor::config(View { table, path: &path }, Consensus::of(&full))?;
            software.insert((group.to_owned(), layers.clone()), (config.into(), phase));
        }
    }
    Ok(Deployments { each, software })
}

/// The layers that some relay has in some network, with the groups of those relays; `None` if there are too many.
fn groups<'a>(each: &[Deployment], relays: &'a [Relay]) -> Option<BTreeMap<Layers, BTreeSet<&'a str>>> {
    // Relays that the same ones may reach.
    let mut alike: BTreeMap<Layers, BTreeSet<&str>> = BTreeMap::new();
    for (index, relay) in relays.iter().enumerate() {
        let may = |place: &usize| each[*place].relays.binary_search(&index).is_ok();
        let reaching = (0..each.len()).filter(may).collect();
        alike.entry(reaching).or_default().insert(&relay.host.group);
    }
    let mut found: BTreeMap<Layers, BTreeSet<&str>> = BTreeMap::new();
    for (reaching, groups) in alike {
        for layers in layers(each, &reaching)? {
            found.entry(layers).or_default().extend(&groups);
        }
    }
    // Who is reached by none stays as it is.
    found.remove(&Layers::new());
    Some(found).filter(|found| found.len() <= MOST_LAYERS)
}

/// Which of `reaching` can reach one relay together; `None` if there are too many ways.
fn layers(each: &[Deployment], reaching: &[usize]) -> Option<Vec<Layers>> {
    let mut all = vec![Layers::new()];
    for (done, place) in reaching.iter().enumerate() {
        let next = &each[*place];
        let with = |layers: &Layers| {
            let can = |before: &usize| layers.contains(before) || !each[*before].contains(next);
            reaching[..done].iter().all(can).then(|| [&layers[..], &[*place]].concat())
        };
        let without = |layers: &&Layers| {
            next.count < next.relays.len() && layers.iter().all(|before| !next.contains(&each[*before]))
        };
        all = all.iter().filter_map(with).chain(all.iter().filter(without).cloned()).collect();
        if all.len() > MOST_LAYERS {
            return None;
        }
    }
    Some(all)
}

/// The file with these sets over the groups of relays, each over those before it, resolved.
fn laid<'a>(
    root: &Table,
    sets: impl Iterator<Item = &'a Table>,
    groups: &BTreeSet<&str>,
) -> Result<Table, Mistake> {
    let mut root = root.clone();
    for set in sets {
        let node = |value| Node { value: Value::Table(value), at: Origin::Default };
        let tables = groups.iter().map(|group| ((*group).to_owned(), node(set.clone())));
        overrides::merge(&mut root, &Table::from([("relays".to_owned(), node(tables.collect()))]));
    }
    Ok(resolve(&root)?.full)
}

fn deployment(view: View<'_>, relays: &[Relay]) -> Result<Deployment, Mistake> {
    let relays = reached(view, relays)?;
    let set = overrides::of_change(view.table["set"].table().expect("overrides are a table"))?;
    let software =
        |key: &&str| schema::TOR.iter().any(|known| known.name == *key) && !NOT_SOFTWARE.contains(key);
    if let Some((key, node)) = set.iter().find(|(key, _)| !software(&key.as_str())) {
        let known = schema::TOR.iter().map(|key| key.name).filter(software);
        let message = format!("{key:?} is no software of a relay; a deployment sets {}", listed(known));
        return Err(Mistake::new(node.at, format!("{}.set", view.path), message));
    }
    if set.is_empty() {
        return Err(
            view.wrong("set", "it sets nothing; write keys of [relay], like { scheduler = \"kist\" }")
        );
    }
    let share = view.share_unless("share", "all").unwrap_or(1.0);
    let count = (share * relays.len() as f64).round() as usize;
    Ok(Deployment { relays, count, set })
}

/// Indices of the relays that a deployment may reach.
fn reached(view: View<'_>, relays: &[Relay]) -> Result<Vec<usize>, Mistake> {
    let names = view.texts("relays");
    if let Some(unknown) =
        names.iter().find(|name| **name != "any" && relays.iter().all(|relay| !is_called(relay, name)))
    {
        let mut groups: Vec<&str> = relays.iter().map(|relay| relay.host.group.as_str()).collect();
        groups.dedup();
        let message =
            format!("there is no relay {unknown:?}; [relays] has {}", listed_briefly(groups.into_iter()));
        return Err(view.wrong("relays", message));
    }
    let stands = |relay: &Relay| match view.text("position") {
        "guard" => relay.guard && !relay.exit,
        "exit" => relay.exit,
        "middle" => !relay.guard && !relay.exit,
        _ => true,
    };
    let is_meant =
        |relay: &Relay| stands(relay) && names.iter().any(|name| *name == "any" || is_called(relay, name));
    let reached: Vec<usize> = (0..relays.len()).filter(|index| is_meant(&relays[*index])).collect();
    if reached.is_empty() {
        let message = format!("none of these relays is a {}, by their flags", view.text("position"));
        return Err(view.wrong("position", message));
    }
    Ok(reached)
}

fn is_called(relay: &Relay, name: &str) -> bool {
    relay.host.name == name || relay.host.group == name
}
