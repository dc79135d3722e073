//! Applies overrides: first the file, then the variant, then `--set`. `[relays.NAME]` overrides `[relay]`.
//!
//! Tables merge key by key. Other values are replaced. Two keys also discard inherited keys: a table with a `kind`
//! replaces the whole inherited table, and `link` replaces the inherited `link_up` and `link_down`.

use crate::error::{ConfigError, Origin, listed_briefly};
use crate::tree::{Node, Table, Value, insert, join, parse_value};

/// Tables with entries that an override may change. It cannot add entries, because a mistyped name would add a node.
const NAMED: &[&str] = &["relays", "clients", "servers", "workloads"];

/// Keys that select an algorithm. `scheduler = "vanilla"` is short for `scheduler = { kind = "vanilla" }`.
pub(crate) const ALGORITHM_KEYS: [&str; 6] =
    ["circuit_policy", "scheduler", "edge_control", "hop_control", "throttle", "channel_map"];

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
            (Some(below), Value::Table(above))
                if below.as_text().is_some() && ALGORITHM_KEYS.contains(&&key[..]) =>
            {
                let mut table = Table::from([("kind".to_owned(), below.clone())]);
                merge(&mut table, above);
                *below = Node::of_table(table, node.at);
            }
            _ => {
                base.insert(key.clone(), node.clone());
            }
        }
    }
}

/// The overrides of a variant. Keys of `set` may be dotted.
pub(crate) fn of_variant(set: &Table, index: usize) -> Result<Table, ConfigError> {
    let to_variant = |at| match at {
        Origin::File { file, line, .. } => Origin::File { file, line, variant: Some(index) },
        other => other,
    };
    let overlay = Node::of_table(set.clone(), Origin::Default).moved(&to_variant);
    let overlay = overlay.table().cloned().unwrap_or_default();
    for (key, below, why) in [
        ("scenario", None, "a variant cannot change the paper or the figure of a scenario"),
        ("variants", None, "a variant cannot change variants"),
        ("run", Some("seeds"), "all variants have the same seeds: set them in [run]"),
        ("run", Some("networks"), "all variants have the same networks: set them in [run]"),
    ] {
        let found = overlay.get(key).and_then(|node| match below {
            None => Some((node.at, key.to_owned())),
            Some(below) => node.table()?.get(below).map(|node| (node.at, join(key, below))),
        });
        if let Some((at, key)) = found {
            return Err(ConfigError::new(at, key, why));
        }
    }
    Ok(overlay)
}

/// The overrides of all `--set key=value`. If two set the same key, the later one wins. The value is TOML. Other text
/// is a string if it has none of the characters `" ' [ ] { } = #`, because a shell removes quotes: `run.duration=10 s`.
pub(crate) fn of_sets(sets: &[String]) -> Result<Table, ConfigError> {
    let mut overlay = Table::new();
    for (index, set) in sets.iter().enumerate() {
        let at = Origin::Set(index);
        let fail = |message: &str| ConfigError::new(at, "", message);
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
            return Err(fail("--set cannot change variants; select variants with --variant"));
        }
        insert(&mut overlay, path, path, node.moved(&|_| at), false)?;
    }
    Ok(overlay)
}

/// Refuses overrides of nodes and workloads that the file does not define.
pub(crate) fn check_names(base: &Table, overlay: &Table) -> Result<(), ConfigError> {
    for section in NAMED {
        let Some(over) = overlay.get(*section).and_then(Node::table) else { continue };
        let empty = Table::new();
        let known = base.get(*section).and_then(Node::table).unwrap_or(&empty);
        if let Some((name, node)) = over.iter().find(|(name, _)| !known.contains_key(*name)) {
            let known = listed_briefly(known.keys().map(String::as_str));
            return Err(ConfigError::new(
                node.at,
                join(section, name),
                format!("there is no {name:?} to override; [{section}] has {known}"),
            ));
        }
    }
    Ok(())
}

/// Every value of an overlay, with its dotted key.
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
        let mut base = parse(base, 0).unwrap();
        merge(&mut base, &parse(over, 0).unwrap());
        base
    }

    /// Compares values without their origins.
    fn same(one: Table, other: &str) -> bool {
        let nowhere = |table: Table| Node::of_table(table, Origin::Default).moved(&|_| Origin::Default);
        nowhere(one) == nowhere(parse(other, 0).unwrap())
    }

    #[test]
    fn a_kind_replaces_the_algorithm_and_a_parameter_changes_it() {
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
    fn a_node_can_have_the_name_kind_or_link() {
        let base = "[relays.kind]\nlink = '1 MiB/s'\n[relays.link_up]\n[relays.link]\n";
        assert_eq!(
            merged(base, "relays.kind.link = 'x'\nrelays.link.link = 'x'")["relays"].table().unwrap().len(),
            3
        );
    }

    #[test]
    fn a_set_accepts_toml_or_plain_words() {
        let sets = ["a.b=1", "a.c=10 s", "a.d=\"x\"", "a.e=uniform(1 s, 3 s)", "a.b=2", "a.f=[1, 2]"];
        let overlay = of_sets(&sets.map(str::to_owned)).unwrap();
        let expected = "a = { b = 2, c = '10 s', d = 'x', e = 'uniform(1 s, 3 s)', f = [1, 2] }";
        assert!(same(overlay, expected));
        for wrong in ["a.b", "a.b=", "=1", "a..b=1", "a=[1", "a=\"x", "variants.0.name=\"x\""] {
            assert!(of_sets(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
