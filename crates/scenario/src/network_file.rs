//! A network in a file of its own: relays and `[network]`, which go over those of a scenario.

use crate::error::{Mistake, listed};
use crate::overrides::merge;
use crate::tree::{self, Node, Origin, Table};

/// A network file as it is read.
#[derive(Clone, Copy, Debug)]
pub struct NetworkFile<'a> {
    /// What messages call it.
    pub name: &'a str,
    /// What it says, in TOML.
    pub text: &'a str,
}

/// What such a file may have.
const SECTIONS: [&str; 2] = ["network", "relays"];

/// Reads one.
pub(crate) fn read(text: &str) -> Result<Table, Mistake> {
    let root = tree::parse(text)
        .map_err(|mistake| Mistake { at: to_network(mistake.at), ..mistake })?
        .into_iter()
        .map(|(name, node)| (name, node.moved(&to_network)))
        .collect::<Table>();
    if let Some((name, node)) = root.iter().find(|(name, _)| !SECTIONS.contains(&name.as_str())) {
        let message =
            format!("this belongs into a scenario; a network file has {} and nothing else", listed(SECTIONS));
        return Err(Mistake::new(node.at, name, message));
    }
    for (name, node) in &root {
        let Some(table) = node.table() else {
            let message = format!("{}; it must be a section, written [{name}]", node.is_what());
            return Err(Mistake::new(node.at, name, message));
        };
        if name == "relays" && table.is_empty() {
            return Err(Mistake::new(node.at, name, "there is no relay; write one as [relays.NAME]"));
        }
    }
    if root.is_empty() {
        let message = "there is no network; a network file has [relays.NAME], [network] or both";
        return Err(Mistake::new(Origin::Network(1), "", message));
    }
    Ok(root)
}

fn to_network(at: Origin) -> Origin {
    match at {
        Origin::Line(line) => Origin::Network(line),
        other => other,
    }
}

/// Puts one over a scenario's file: its relays take the place of all others, the rest goes over what is there.
pub(crate) fn lay(file: &mut Table, mut network: Table) {
    if let Some(relays) = network.remove("relays") {
        file.insert("relays".to_owned(), relays);
    }
    let has_ways = |node: &Node| node.table().is_some_and(|table| table.contains_key("ways"));
    if network.get("network").is_some_and(has_ways)
        && let Some(Node { value: tree::Value::Table(below), .. }) = file.get_mut("network")
    {
        // Ways of two networks do not mix.
        below.remove("ways");
    }
    merge(file, &network);
}
