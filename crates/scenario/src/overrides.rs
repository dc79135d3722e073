//! What goes over what: file < variant < `--set`, and `[relay]` < `[relays.NAME]`.
//!
//! Tables merge key by key, everything else is replaced. Two keys start afresh: a table that names
//! its `kind` takes nothing from the one below, and `link` sets both directions again.

use crate::error::{Mistake, listed_briefly};
use crate::schema::ALGORITHMS;
use crate::tree::{Node, Origin, Table, Value, join, parse_value};

/// Tables whose entries an override may change but not add: a mistyped name must not make a node.
const NAMED: &[&str] = &["relays", "clients", "servers", "workloads"];

/// Puts `over` on top of `base`.
pub(crate) fn merge(base: &mut Table, over: &Table) {
    let names_text = |key: &str| over.get(key).is_some_and(|node| node.as_text().is_some());
    if names_text("kind") {
        base.clear();
    }
    if names_text("link") {
        base.remove("link_up");
        base.remove("link_down");
    }
    for (key, node) in over {
        match (base.get_mut(key), &node.value) {
            (Some(Node { value: Value::Table(below), .. }), Value::Table(above)) => merge(below, above),
            (Some(below), Value::Table(above)) if below.as_text().is_some() && is_algorithm(key) => {
                // `scheduler = "vanilla"` is short for `scheduler = { kind = "vanilla" }`.
                let mut table = Table::from([("kind".to_owned(), below.clone())]);
                merge(&mut table, above);
                *below = Node { value: Value::Table(table), at: node.at };
            }
            _ => {
                base.insert(key.clone(), node.clone());
            }
        }
    }
}

/// Whether a word alone stands for a kind; `cpu = "none"` and its like stand for no table at all.
fn is_algorithm(key: &str) -> bool {
    ALGORITHMS.iter().any(|(name, _)| *name == key)
}

/// The overlay of a variant's `set`, whose keys may be dotted.
pub(crate) fn of_variant(set: &Table, index: usize) -> Result<Table, Mistake> {
    let to_variant = |at| match at {
        Origin::Line(line) => Origin::Variant { line, index: index as u32 },
        other => other,
    };
    let mut overlay = Table::new();
    for (path, node) in set {
        let node = node.clone().moved(&to_variant);
        insert(&mut overlay, path, path, node, true)?;
    }
    for (key, below, why) in [
        ("scenario", None, "a variant does not change what the scenario stands for"),
        ("variants", None, "a variant does not change variants"),
        ("run", Some("seeds"), "all variants meet the same seeds: set them in [run]"),
        ("run", Some("networks"), "all variants meet the same networks: set them in [run]"),
    ] {
        let found = overlay.get(key).and_then(|node| match below {
            None => Some((node.at, key.to_owned())),
            Some(below) => node.table()?.get(below).map(|node| (node.at, join(key, below))),
        });
        if let Some((at, key)) = found {
            return Err(Mistake::new(at, key, why));
        }
    }
    Ok(overlay)
}

/// The overlay of a change's `set`, whose keys may be dotted.
pub(crate) fn of_change(set: &Table) -> Result<Table, Mistake> {
    let mut overlay = Table::new();
    for (path, node) in set {
        insert(&mut overlay, path, path, node.clone(), true)?;
    }
    Ok(overlay)
}

/// The overlay of the command line's `--set key=value`; later ones go over earlier ones.
///
/// The value is TOML. What is not TOML and has none of `" ' [ ] { } = #` in it is taken as a
/// string, so that a shell's lost quotes do no harm: `run.duration=10 s`.
pub(crate) fn of_sets(sets: &[String]) -> Result<Table, Mistake> {
    let mut overlay = Table::new();
    for (index, set) in sets.iter().enumerate() {
        let at = Origin::Set(index as u32);
        let fail = |message: &str| Mistake::new(at, "", message);
        let (path, text) =
            set.split_once('=').ok_or_else(|| fail("it must be key=value, like run.duration=\"10 min\""))?;
        let (path, text) = (path.trim(), text.trim());
        let node = match parse_value(text) {
            Some(node) => node,
            None if text.is_empty() => return Err(fail("the value is missing")),
            None if text.contains(['"', '\'', '[', ']', '{', '}', '=', '#', '\n']) => {
                return Err(fail(
                    "the value is not TOML; a string needs quotes that the shell leaves, like 'key=\"10 s\"'",
                ));
            }
            None => Node::text(text, at),
        };
        if path == "variants" || path.starts_with("variants.") {
            return Err(fail("variants are written in the file; choose among them with --variant"));
        }
        insert(&mut overlay, path, path, node.moved(&|_| at), false)?;
    }
    Ok(overlay)
}

/// Puts `node` at the dotted `path`; `once` refuses to replace what is there.
fn insert(table: &mut Table, path: &str, whole: &str, node: Node, once: bool) -> Result<(), Mistake> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    if head.is_empty() {
        return Err(Mistake::new(
            node.at,
            whole,
            "this is no key; a key is a path with dots, like relays.middle.link",
        ));
    }
    let node = match rest {
        None => node,
        Some(rest) => {
            let at = node.at;
            let mut inner = Table::new();
            insert(&mut inner, rest, whole, node, once)?;
            Node { value: Value::Table(inner), at }
        }
    };
    match table.get_mut(head) {
        None => {
            table.insert(head.to_owned(), node);
        }
        Some(below) => join_nodes(below, node, whole, once)?,
    }
    Ok(())
}

/// Two overrides of the same level: tables join, a later value replaces an earlier one.
fn join_nodes(below: &mut Node, above: Node, whole: &str, once: bool) -> Result<(), Mistake> {
    let at = above.at;
    let old = std::mem::replace(&mut below.value, Value::Date);
    let (mut lower, upper) = match (old, above.value) {
        (Value::Table(lower), Value::Table(upper)) => (lower, upper),
        // A word beside a table is the table's `kind`.
        (Value::Table(lower), Value::Text(kind)) => {
            (lower, Table::from([("kind".to_owned(), Node::text(kind, at))]))
        }
        (Value::Text(kind), Value::Table(upper)) => {
            (Table::from([("kind".to_owned(), Node::text(kind, below.at))]), upper)
        }
        _ if once => return Err(Mistake::new(at, whole, "the key is set twice here")),
        (_, value) => {
            *below = Node { value, at };
            return Ok(());
        }
    };
    for (key, node) in upper {
        match lower.get_mut(&key) {
            None => {
                lower.insert(key, node);
            }
            Some(below) => join_nodes(below, node, whole, once)?,
        }
    }
    below.value = Value::Table(lower);
    Ok(())
}

/// Refuses overrides of nodes and workloads that the file does not have.
pub(crate) fn check_names(base: &Table, overlay: &Table) -> Result<(), Mistake> {
    for section in NAMED {
        let Some(over) = overlay.get(*section).and_then(Node::table) else { continue };
        let empty = Table::new();
        let known = base.get(*section).and_then(Node::table).unwrap_or(&empty);
        if let Some((name, node)) = over.iter().find(|(name, _)| !known.contains_key(*name)) {
            let known = listed_briefly(known.keys().map(String::as_str));
            return Err(Mistake::new(
                node.at,
                join(section, name),
                format!("there is no {name:?} to override; [{section}] has {known}"),
            ));
        }
    }
    Ok(())
}

/// Every value of an overlay with its dotted key.
pub(crate) fn leaves(overlay: &Table) -> Vec<(String, &Node)> {
    fn walk<'a>(table: &'a Table, path: &str, found: &mut Vec<(String, &'a Node)>) {
        for (key, node) in table {
            let path = join(path, key);
            match &node.value {
                Value::Table(inner) => walk(inner, &path, found),
                _ => found.push((path, node)),
            }
        }
    }
    let mut found = Vec::new();
    walk(overlay, "", &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse;

    fn merged(base: &str, over: &str) -> Table {
        let mut base = parse(base).unwrap();
        merge(&mut base, &parse(over).unwrap());
        base
    }

    /// Compares what is said, not where.
    fn same(one: Table, other: &str) -> bool {
        let nowhere = |table: Table| {
            Node { value: Value::Table(table), at: Origin::Default }.moved(&|_| Origin::Default)
        };
        nowhere(one) == nowhere(parse(other).unwrap())
    }

    #[test]
    fn naming_a_kind_starts_afresh_and_a_parameter_refines() {
        let base = "scheduler = { kind = 'a', x = 1 }";
        assert!(same(merged(base, "scheduler = { y = 2 }"), "scheduler = { kind = 'a', x = 1, y = 2 }"));
        assert!(same(merged(base, "scheduler = { kind = 'b', y = 2 }"), "scheduler = { kind = 'b', y = 2 }"));
        assert!(same(merged(base, "scheduler = 'b'"), "scheduler = 'b'"));
        assert!(same(merged("scheduler = 'a'", "scheduler.y = 2"), "scheduler = { kind = 'a', y = 2 }"));
        assert!(same(merged("cpu = 'none'", "cpu = { cell = '1 us' }"), "cpu = { cell = '1 us' }"));
    }

    #[test]
    fn setting_the_link_sets_both_directions() {
        let base = "link = '1 MiB/s'\nlink_up = '2 MiB/s'";
        assert!(same(merged(base, "link = '3 MiB/s'"), "link = '3 MiB/s'"));
        assert!(same(merged(base, "link_up = '3 MiB/s'"), "link = '1 MiB/s'\nlink_up = '3 MiB/s'"));
    }

    #[test]
    fn a_node_may_be_called_kind_or_link() {
        let base = "[relays.kind]\nlink = '1 MiB/s'\n[relays.link_up]\n[relays.link]\n";
        assert_eq!(
            merged(base, "relays.kind.link = 'x'\nrelays.link.link = 'x'")["relays"].table().unwrap().len(),
            3
        );
    }

    #[test]
    fn a_set_takes_toml_or_plain_words() {
        let sets = ["a.b=1", "a.c=10 s", "a.d=\"x\"", "a.e=uniform(1 s, 3 s)", "a.b=2", "a.f=[1, 2]"];
        let overlay = of_sets(&sets.map(str::to_owned)).unwrap();
        let expected = "a = { b = 2, c = '10 s', d = 'x', e = 'uniform(1 s, 3 s)', f = [1, 2] }";
        assert!(same(overlay, expected));
        for wrong in ["a.b", "a.b=", "=1", "a..b=1", "a=[1", "a=\"x", "variants.0.name=\"x\""] {
            assert!(of_sets(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
