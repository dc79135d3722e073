//! Software that some relays have and others do not.
//!
//! A network is upgraded relay by relay. A deployment says which relays have other settings than their group; of a
//! share, each network draws its own. Relays of a smaller share are among those of a larger one, so that shares compare.

use crate::build::View;
use crate::error::{Mistake, listed, listed_briefly};
use crate::model::{Phase, Relay};
use crate::overrides;
use crate::resolve::{Resolved, resolve};
use crate::schema;
use crate::tor::{self, Consensus};
use crate::tree::{Node, Origin, Table, Value};
use penstock_core::config::RelayConfig;
use penstock_units::Seed;

/// One deployment.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Indices of the relays that it may reach, and what each is then.
    pub relays: Vec<(usize, RelayConfig, Phase)>,
    /// Which part of them it reaches, in `[0, 1]`.
    pub share: f64,
}

/// Keys that are the operator's and the network's, not the software's.
const NOT_SOFTWARE: [&str; 3] = ["bandwidth_rate", "bandwidth_burst", "cpu"];

impl Deployment {
    /// Gives the relays that it reaches in one network what it sets.
    pub(crate) fn deploy(&self, relays: &mut [Relay], seed: Seed) {
        let draw = |(index, ..): &&(usize, RelayConfig, Phase)| {
            let name = &relays[*index].host.name;
            (seed.stream(&format!("{name}/deployment")).bits(), name.clone())
        };
        let mut reached: Vec<_> = self.relays.iter().collect();
        reached.sort_by_cached_key(draw);
        reached.truncate((self.share * self.relays.len() as f64).round() as usize);
        for (index, config, phase) in reached {
            let relay = &mut relays[*index];
            let bandwidth = relay.config.bandwidth;
            relay.config = RelayConfig { bandwidth, ..config.clone() };
            relay.refill_phase = *phase;
        }
    }
}

/// The deployments of one variant; `root` is the file with its overrides, `resolved` the same with all defaults.
///
/// Each is laid over those before it, at the relays that it reaches.
pub(crate) fn deployments(
    root: &Table,
    resolved: &Resolved,
    relays: &[Relay],
) -> Result<Vec<Deployment>, Mistake> {
    let Value::List(list) = &resolved.full["deployments"].value else {
        unreachable!("the schema lets only a list through here")
    };
    let one = |(index, node): (usize, &Node)| {
        let path = format!("deployments.{index}");
        let view =
            View { table: node.table().expect("the schema lets only tables through here"), path: &path };
        deployment(root, view, relays)
    };
    list.iter().enumerate().map(one).collect()
}

fn deployment(root: &Table, view: View<'_>, relays: &[Relay]) -> Result<Deployment, Mistake> {
    let reached = reached(view, relays)?;
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
    let mut root = root.clone();
    let mut groups: Vec<&str> = reached.iter().map(|index| relays[*index].host.group.as_str()).collect();
    groups.dedup();
    let tables = groups
        .iter()
        .map(|group| ((*group).to_owned(), Node { value: Value::Table(set.clone()), at: Origin::Default }));
    let overlay = Node { value: Value::Table(tables.collect()), at: Origin::Default };
    overrides::merge(&mut root, &Table::from([("relays".to_owned(), overlay)]));
    let full = resolve(&root)?.full;
    let consensus = Consensus::of(&full);
    let configured = |index: usize| {
        let group = &relays[index].host.group;
        let path = format!("relays.{group}");
        let table = full["relays"].table().expect("a section is a table")[group].table();
        let table = table.expect("the schema lets only tables through here");
        let (config, phase) = tor::config(View { table, path: &path }, consensus)?;
        Ok((index, config, phase))
    };
    let share = view.share_unless("share", "all").unwrap_or(1.0);
    Ok(Deployment { relays: reached.into_iter().map(configured).collect::<Result<_, Mistake>>()?, share })
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
