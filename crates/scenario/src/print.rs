//! Writes a tree as TOML, always in the same way.

use crate::schema::SECTIONS;
use crate::tree::{Node, Table, Value};
use std::fmt::Write as _;

/// The whole file, sections in the schema's order, keys in the alphabet's.
pub(crate) fn file(root: &Table) -> String {
    let mut out = String::new();
    for (name, _) in SECTIONS {
        let Some(node) = root.get(*name) else { continue };
        if let Value::List(list) = &node.value {
            for entry in list.iter().filter_map(Node::table) {
                section(&mut out, &format!("[{name}]"), entry);
            }
        }
        let Some(table) = node.table() else { continue };
        if table.values().all(|node| node.table().is_some()) && name.ends_with('s') {
            for (key, node) in table {
                section(&mut out, &format!("{name}.{key}"), node.table().expect("all are tables"));
            }
        } else {
            section(&mut out, name, table);
        }
    }
    out
}

fn section(out: &mut String, title: &str, table: &Table) {
    let gap = if out.is_empty() { "" } else { "\n" };
    writeln!(out, "{gap}[{title}]").expect("a string takes everything");
    for (name, node) in table {
        writeln!(out, "{name} = {}", value(node)).expect("a string takes everything");
    }
}

/// One value, on one line.
pub(crate) fn value(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Flag(flag) => flag.to_string(),
        Value::Date => "a date".to_owned(),
        Value::List(list) => format!("[{}]", list.iter().map(value).collect::<Vec<_>>().join(", ")),
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let entries: Vec<String> = table
                .iter()
                .map(|(key, node)| format!("{} = {}", bare_or_quoted(key), value(node)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

fn bare_or_quoted(key: &str) -> String {
    if crate::form::is_name(key, false) { key.to_owned() } else { quoted(key) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => write!(out, "\\u{:04X}", u32::from(c)).expect("a string takes everything"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse;

    #[test]
    fn what_is_written_reads_back() {
        let text =
            "[run]\na = \"x \\\" \\\\ \\n \\u0001 ü\"\nb = [1, 2.5, true]\nc = { \"d.e\" = \"\", f = {} }\n";
        let once = file(&parse(text).unwrap());
        assert_eq!(file(&parse(&once).unwrap()), once);
        assert!(once.contains("b = [1, 2.5, true]") && once.contains("\"d.e\" = \"\""), "{once}");
    }
}
