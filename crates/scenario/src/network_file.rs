//! Network files: their relays and their section `[network]` replace those of a scenario.

use crate::error::{ConfigError, Origin, listed};
use crate::overrides::merge;
use crate::tree::{Node, Table, Value};

/// A network file, as text.
#[derive(Clone, Copy, Debug)]
pub struct NetworkFile<'a> {
    /// Name of the network file in messages.
    pub name: &'a str,
    /// Text of the file, in TOML.
    pub text: &'a str,
}

const SECTIONS: [&str; 2] = ["network", "relays"];

/// Checks that a network file has only allowed sections. `file` is its index in the list of files.
pub(crate) fn check(root: &Table, file: usize) -> Result<(), ConfigError> {
    for (name, node) in root {
        let wrong = |message: String| Err(ConfigError::new(node.at, name, message));
        if !SECTIONS.contains(&name.as_str()) {
            return wrong(format!(
                "this belongs in a scenario; a network file has only {}",
                listed(SECTIONS)
            ));
        }
        let Some(table) = node.table() else {
            return wrong(format!("{}; it must be a section, written [{name}]", node.with_type()));
        };
        if name == "relays" && table.is_empty() {
            return wrong("there is no relay; write one as [relays.NAME]".to_owned());
        }
    }
    if root.is_empty() {
        let message = "there is no network; a network file has [relays.NAME], [network] or both";
        return Err(ConfigError::new(Origin::File { file, line: 1, variant: None }, "", message));
    }
    Ok(())
}

/// Merges a network file into a scenario file. The relays of the network file replace all relays of the scenario.
pub(crate) fn replace(file: &mut Table, mut network: Table) {
    if let Some(relays) = network.remove("relays") {
        file.insert("relays".to_owned(), relays);
    }
    let has_matrix = |node: &Node| node.table().is_some_and(|table| table.contains_key("rtt_matrix"));
    if network.get("network").is_some_and(has_matrix)
        && let Some(Node { value: Value::Table(below), .. }) = file.get_mut("network")
    {
        // The round-trip matrix of the scenario is dropped, because two networks have different countries.
        below.remove("rtt_matrix");
    }
    merge(file, &network);
}
