//! What changes while a run is under way: a change sets keys as a variant does, at its time.

use crate::build::View;
use crate::error::Mistake;
use crate::model::{Change, Scenario, Switch};
use crate::overrides;
use crate::print;
use crate::resolve::{Resolved, resolve};
use crate::tor;
use crate::tree::{Node, Table, Value};
use penstock_units::Duration;

/// The changes of one variant, in the order of time.
///
/// `root` is the file with its overrides, `resolved` the same with all defaults, `scenario` what it says at first.
pub(crate) fn changes(
    root: &Table,
    resolved: &Resolved,
    scenario: &Scenario,
) -> Result<Vec<Change>, Mistake> {
    let Value::List(list) = &resolved.full["changes"].value else {
        unreachable!("the schema lets only a list through here")
    };
    let (mut root, mut full) = (root.clone(), resolved.full.clone());
    let (mut changes, mut last) = (Vec::new(), Duration::ZERO);
    for (index, node) in list.iter().enumerate() {
        let path = format!("changes.{index}");
        let view = View { table: table(node), path: &path };
        last = time(view, scenario.run.duration, last)?;
        let overlay = overrides::of_change(table(&view.table["set"]))?;
        overrides::check_names(&root, &overlay)?;
        refuse_the_rest(&overlay)?;
        overrides::merge(&mut root, &overlay);
        let next = resolve(&root)?.full;
        let before = changes.len();
        for (relay, model) in scenario.relays.iter().enumerate() {
            let [was, is] = [&full, &next].map(|full| table(&table(&full["relays"])[&model.host.group]));
            let path = format!("relays.{}", model.host.group);
            let view = View { table: is, path: &path };
            for key in CAN_CHANGE {
                if print::value(&was[key]) != print::value(&is[key]) {
                    changes.push(Change { at: last, relay, to: switch(key, view)? });
                }
            }
        }
        if changes.len() == before {
            let message = "this changes nothing; it must set a circuit_policy or throttle that not all of these relays have already";
            return Err(view.wrong("set", message));
        }
        full = next;
    }
    Ok(changes)
}

/// What an operator can change without a restart.
const CAN_CHANGE: [&str; 2] = ["circuit_policy", "throttle"];

fn switch(key: &str, view: View<'_>) -> Result<Switch, Mistake> {
    if key == "throttle" {
        let (throttle, buckets) = tor::throttle(view)?;
        return Ok(Switch::Throttle(throttle, buckets));
    }
    Ok(Switch::CircuitPolicy(tor::circuit_policy(view)?))
}

fn table(node: &Node) -> &Table {
    node.table().expect("the schema lets only tables through here")
}

/// When a change happens: within the run, and not before the one above it.
fn time(view: View<'_>, end: Duration, last: Duration) -> Result<Duration, Mistake> {
    let at = view.span("at");
    let said = view.text("at");
    if at >= end {
        let end = penstock_units::parse::show_duration(end);
        let message =
            format!("\"{said}\" is not within the run; it must be shorter than run.duration, \"{end}\"");
        return Err(view.wrong("at", message));
    }
    if at < last {
        let message =
            format!("\"{said}\" is before the change above it; changes must be in the order of time");
        return Err(view.wrong("at", message));
    }
    Ok(at)
}

/// Refuses what no operator of a running relay can change.
fn refuse_the_rest(overlay: &Table) -> Result<(), Mistake> {
    let can_change = |key: &str| {
        let mut keys = key.split('.');
        let of_relays = match keys.next() {
            Some("relay") => true,
            Some("relays") => keys.next().is_some(),
            _ => false,
        };
        of_relays && keys.next().is_some_and(|key| CAN_CHANGE.contains(&key))
    };
    match overrides::leaves(overlay).into_iter().find(|(key, _)| !can_change(key)) {
        None => Ok(()),
        Some((key, node)) => {
            let message = "this cannot change in a run; only circuit_policy and throttle of [relay] and [relays.NAME] can";
            Err(Mistake::new(node.at, key, message))
        }
    }
}
