//! Old names of keys. They still work for one release. A warning gives the new name.

use crate::error::{ConfigError, Origin};
use crate::tree::{Node, Table, Value, join};

const OF_NETWORK: [(&str, &str); 1] = [("ways", "rtt_matrix")];

const OF_TOR: [(&str, &str); 3] = [
    ("circuit_queue_most", "max_circuit_queue"),
    ("mark_above", "ecn_threshold"),
    ("datagram_hold", "coalesce_delay"),
];

/// Warnings, each with the place in the file.
pub(crate) type Warnings = Vec<(Origin, String)>;

/// Renames old keys in a file or in overrides, and adds a warning for each.
pub(crate) fn rename(root: &mut Table, warnings: &mut Warnings) -> Result<(), ConfigError> {
    if let Some(network) = root.get_mut("network").and_then(table_of) {
        rename_keys(network, "network", &OF_NETWORK, warnings)?;
        if let Some(latency) = network.get_mut("latency")
            && latency.as_text() == Some("ways")
        {
            latency.value = Value::Text("rtt-matrix".to_owned());
            warnings.push((latency.at, message("network.latency = \"ways\"", "\"rtt-matrix\"")));
        }
    }
    for section in ["relay", "client"] {
        let table = root.get_mut(section).and_then(table_of);
        table.map_or(Ok(()), |table| rename_tor(table, section, warnings))?;
    }
    for section in ["relays", "clients"] {
        for (name, node) in root.get_mut(section).and_then(table_of).into_iter().flatten() {
            let table = table_of(node);
            table.map_or(Ok(()), |table| rename_tor(table, &join(section, name), warnings))?;
        }
    }
    if let Some(Node { value: Value::List(list), .. }) = root.get_mut("deployments") {
        for (index, node) in list.iter_mut().enumerate() {
            let set = table_of(node).and_then(|table| table.get_mut("set")).and_then(table_of);
            let path = format!("deployments.{index}.set");
            set.map_or(Ok(()), |set| rename_tor(set, &path, warnings))?;
        }
    }
    Ok(())
}

pub(crate) fn rename_tor(table: &mut Table, path: &str, warnings: &mut Warnings) -> Result<(), ConfigError> {
    rename_keys(table, path, &OF_TOR, warnings)
}

fn rename_keys(
    table: &mut Table,
    path: &str,
    names: &[(&str, &str)],
    warnings: &mut Warnings,
) -> Result<(), ConfigError> {
    for (old, new) in names {
        let Some(node) = table.remove(*old) else { continue };
        let key = join(path, old);
        if table.contains_key(*new) {
            let message =
                format!("this is the old name of {new}, which is set, too; leave one of the two out");
            return Err(ConfigError::new(node.at, key, message));
        }
        warnings.push((node.at, message(&key, new)));
        table.insert((*new).to_owned(), node);
    }
    Ok(())
}

fn message(old: &str, new: &str) -> String {
    format!("{old}: this name is old and will not work in the next release; write {new}")
}

fn table_of(node: &mut Node) -> Option<&mut Table> {
    match &mut node.value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}
