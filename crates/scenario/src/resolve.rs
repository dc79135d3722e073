//! Fills in every default, so that what follows meets no missing key and no wrong type.

use crate::error::{Mistake, listed};
use crate::form::{Form, is_name};
use crate::overrides::merge;
use crate::presets;
use crate::schema::{self, Section};
use crate::tree::{Node, Origin, Table, Value, join};

/// One variant with all its defaults.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// Every key of every section; `[relays.NAME]` with what it takes from `[relay]`.
    pub(crate) full: Table,
    /// The same, but `[relays.NAME]` only with what it says itself, its preset included: what is written down.
    pub(crate) written: Table,
}

/// Fills in `root`, the file with its overrides and without its variants.
pub(crate) fn resolve(root: &Table) -> Result<Resolved, Mistake> {
    let known = || schema::SECTIONS.iter().map(|(name, _)| *name);
    if let Some((name, node)) = root.iter().find(|(name, _)| known().all(|known| known != *name)) {
        let message = format!("this section is unknown; there are {}", listed(known()));
        return Err(Mistake::new(node.at, name, message));
    }
    let mut full = Table::new();
    for (name, section) in [
        ("scenario", &schema::HEAD),
        ("run", &schema::RUN),
        ("trace", &schema::TRACE),
        ("tcp", &schema::TCP),
        ("relay", &schema::RELAY),
        ("client", &schema::CLIENT),
        ("server", &schema::SERVER),
    ] {
        if name == "relay" {
            fill_network(root, &mut full)?;
        }
        let (table, at) = section_of(root, name)?;
        let (filled, _) = fill_over(Table::new(), table, at, name, section, &full)?;
        full.insert(name.to_owned(), Node { value: Value::Table(filled), at });
    }
    let mut written = full.clone();
    for (name, below, section) in [
        ("relays", Some("relay"), &schema::RELAYS),
        ("clients", Some("client"), &schema::CLIENTS),
        ("servers", Some("server"), &schema::SERVERS),
        ("workloads", None, &schema::WORKLOADS),
    ] {
        let (named, at) = section_of(root, name)?;
        let (mut all, mut said) = (Table::new(), Table::new());
        for (key, node) in named {
            let (filled, given) = fill_named(key, node, name, below, section, &full)?;
            all.insert(key.clone(), Node { value: Value::Table(filled), at: node.at });
            said.insert(key.clone(), Node { value: Value::Table(given), at: node.at });
        }
        full.insert(name.to_owned(), Node { value: Value::Table(all), at });
        written.insert(name.to_owned(), Node { value: Value::Table(said), at });
    }
    for (name, section) in [("deployments", &schema::DEPLOYMENTS), ("changes", &schema::CHANGES)] {
        let list = match root.get(name) {
            None => Node { value: Value::List(Vec::new()), at: Origin::Default },
            Some(node) => Form::Sections(section).check(node, name, &full)?,
        };
        full.insert(name.to_owned(), list.clone());
        written.insert(name.to_owned(), list);
    }
    Ok(Resolved { full, written })
}

/// A section's table and where it begins; an empty one if it is not there.
fn section_of<'a>(root: &'a Table, name: &str) -> Result<(&'a Table, Origin), Mistake> {
    static EMPTY: Table = Table::new();
    match root.get(name) {
        None => Ok((&EMPTY, Origin::Default)),
        Some(node) => match node.table() {
            Some(table) => Ok((table, node.at)),
            None => Err(Mistake::new(
                node.at,
                name,
                format!("{}; it must be a section, written [{name}]", node.is_what()),
            )),
        },
    }
}

/// `[network]`, in two steps: its pairs fall back on its own keys.
fn fill_network(root: &Table, full: &mut Table) -> Result<(), Mistake> {
    let (table, at) = section_of(root, "network")?;
    schema::NETWORK_AND_PAIRS.refuse_unknown(table, "network")?;
    let mut own = table.clone();
    own.remove("pairs");
    let filled = schema::NETWORK.fill(&own, at, "network", full)?;
    full.insert("network".to_owned(), Node { value: Value::Table(filled), at });
    let filled = schema::NETWORK_AND_PAIRS.fill(table, at, "network", full)?;
    full.insert("network".to_owned(), Node { value: Value::Table(filled), at });
    Ok(())
}

/// One named table, complete, and the part of it that it says itself.
fn fill_named(
    key: &str,
    node: &Node,
    section_name: &str,
    below: Option<&str>,
    section: &Section,
    full: &Table,
) -> Result<(Table, Table), Mistake> {
    let path = join(section_name, key);
    let Some(given) = node.table() else {
        let message = format!("{}; it must be a table, written [{path}]", node.is_what());
        return Err(Mistake::new(node.at, path, message));
    };
    if !is_name(key, false) {
        let message = format!("{key:?} is no name; it must be of letters, digits, '_' and '-'");
        return Err(Mistake::new(node.at, path, message));
    }
    section.refuse_unknown(given, &path)?;
    let base = match below {
        Some(below) => full[below].table().expect("a section is a table").clone(),
        None => Table::new(),
    };
    let (filled, preset) = fill_over(base, given, node.at, &path, section, full)?;
    let said = |name: &String| given.contains_key(name) || preset.contains_key(name);
    let said = filled.iter().filter(|(name, _)| said(name));
    let said = said.map(|(name, node)| (name.clone(), node.clone())).collect();
    Ok((filled, said))
}

/// `given` over its preset over `base`, complete, and what the preset set.
///
/// The preset's name is gone then: what is resolved says what it stands for.
fn fill_over(
    mut base: Table,
    given: &Table,
    at: Origin,
    path: &str,
    section: &Section,
    full: &Table,
) -> Result<(Table, Table), Mistake> {
    let preset = presets::lay(&mut base, given, section);
    merge(&mut base, given);
    let mut filled = section.fill(&base, at, path, full)?;
    filled.remove(presets::KEY);
    Ok((filled, preset))
}
