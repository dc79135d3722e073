//! The layers of a scenario: included files, the file itself, a network file, a variant and `--set`. The keys of
//! `[relays.NAME]` override those of `[relay]`.
//!
//! Tables merge key by key. Other values are replaced. Two rules discard inherited keys. A table with a `kind` replaces
//! the whole inherited table. A table with a `link` discards the inherited `link_up` and `link_down`. Old names of keys
//! still work for one release. A warning gives the new name.

use crate::error::{ConfigError, Origin, Sources, listed_briefly};
use crate::keys::{Section, in_list};
use crate::model::Variant;
use crate::presets::{self, PRESET};
use crate::sections::clients::ClientsKeys;
use crate::sections::nodes::ServersKeys;
use crate::sections::relays::RelaysKeys;
use crate::sections::sets::VariantKeys;
use crate::sections::workloads::WorkloadKeys;
use crate::tree::{ALGORITHM_KEYS, Node, Table, Value, expand, join, nested, parse, parse_value};
use crate::values::{Site, Texts, ValueType};
use std::path::Path;

/// A network file, as text.
#[derive(Clone, Copy, Debug)]
pub struct NetworkFile<'a> {
    /// Name of the network file in messages.
    pub name: &'a str,
    /// Text of the file, in TOML.
    pub text: &'a str,
}

/// A variant and its overrides.
pub(crate) struct Entry {
    pub(crate) variant: Variant,
    set: Table,
    /// Index in the file, from 0.
    index: usize,
}

/// All sections of one variant, before the values are read.
pub(crate) struct Merged {
    /// The keys that the user wrote, merged.
    written: Table,
    /// Like `written`, with the keys of presets.
    pub(crate) own: Table,
    /// Like `own`, and each node has the keys that it inherits.
    pub(crate) whole: Table,
}

/// Whether a section has a key.
type HasKey = fn(&str) -> bool;

/// Sections of nodes and workloads: the section of inherited keys, and whether a key of a preset applies.
const INHERIT: [(&str, &str, HasKey); 4] = [
    ("relays", "relay", RelaysKeys::has),
    ("clients", "client", ClientsKeys::has),
    ("servers", "server", ServersKeys::has),
    ("workloads", "", WorkloadKeys::has),
];

impl Merged {
    /// Adds the keys of presets, and then the inherited keys. A preset overrides inherited keys. Keys next to the preset
    /// override the preset.
    pub(crate) fn new(written: Table) -> Result<Self, ConfigError> {
        let (mut own, mut whole) = (written.clone(), written.clone());
        for (section, base, has) in INHERIT {
            let mut inherited = Table::new();
            if let Some(table) = whole.get_mut(base).and_then(table_of) {
                add(&mut inherited, table, has)?;
                *table = inherited.clone();
                inherited.remove(PRESET);
            }
            for table in whole.get_mut(section).and_then(table_of).into_iter().flat_map(Table::values_mut) {
                let Some(table) = table_of(table) else { continue };
                let mut keys = inherited.clone();
                add(&mut keys, table, has)?;
                *table = keys;
            }
            for table in own.get_mut(section).and_then(table_of).into_iter().flat_map(Table::values_mut) {
                let Some(table) = table_of(table) else { continue };
                table.extend(presets::keys_of(table.get(PRESET))?.into_iter().filter(|(key, _)| has(key)));
            }
        }
        Ok(Merged { written, own, whole })
    }

    /// The sections after a change in a run.
    pub(crate) fn changed(&self, set: &Table) -> Result<Self, ConfigError> {
        check_names(&self.written, set)?;
        let mut written = self.written.clone();
        merge(&mut written, set);
        Merged::new(written)
    }
}

/// Merges `written` into `keys`, after the keys of the preset that `written` names.
pub(crate) fn add(keys: &mut Table, written: &Table, has: HasKey) -> Result<(), ConfigError> {
    let mut preset = presets::keys_of(written.get(PRESET))?;
    preset.retain(|key, _| has(key));
    merge(keys, &preset);
    merge(keys, written);
    Ok(())
}

/// The file merged with the overrides of a variant and then with `sets`. Also returns the overrides of the variant.
pub(crate) fn layered(
    file: &Table,
    entry: &Entry,
    sets: &Table,
    warnings: &mut Warnings,
) -> Result<(Merged, Table), ConfigError> {
    let mut overlay = of_variant(&entry.set, entry.index)?;
    rename(&mut overlay, warnings)?;
    check_names(file, &overlay)?;
    let mut root = file.clone();
    merge(&mut root, &overlay);
    merge(&mut root, sets);
    Ok((Merged::new(root)?, overlay))
}

/// Merges included files, the scenario file and the network file, in this order. Returns the result and its variants.
pub(crate) fn read_file(
    text: &str,
    network: Option<NetworkFile<'_>>,
    sources: &mut Sources,
    warnings: &mut Warnings,
) -> Result<(Table, Vec<Entry>), ConfigError> {
    let mut own = parse(text, 0)?;
    rename(&mut own, warnings)?;
    let mut file = included(&own, sources, warnings)?;
    merge(&mut file, &own);
    // `penstock attack` reads this section. It affects no run.
    file.remove("attacks");
    if let Some(network) = network {
        let number = sources.files.len();
        sources.files.push(network.name.to_owned());
        let mut network = parse(network.text, number)?;
        check_sections(&network, number)?;
        rename(&mut network, warnings)?;
        replace(&mut file, network, warnings);
    }
    let entries = variants(file.remove("variants"))?;
    sources.variants = entries.iter().map(|entry| entry.variant.name.clone()).collect();
    Ok((file, entries))
}

/// Merges the files that `[scenario] include` lists. A later file replaces keys of an earlier file.
fn included(own: &Table, sources: &mut Sources, warnings: &mut Warnings) -> Result<Table, ConfigError> {
    const KEY: &str = "scenario.include";
    let include = |table: &Table| table.get("scenario")?.table()?.get("include").cloned();
    let mut file = Table::new();
    let Some(node) = include(own) else { return Ok(file) };
    let site = Site { at: node.at, path: KEY, sections: &Table::new() };
    for name in Texts.read(&node, &site)?.0 {
        if !is_near(&name) {
            let message = format!(
                "{name:?} is in another folder; it must be a file of the same one, or \"../FOLDER/FILE.toml\""
            );
            return Err(site.wrong(message));
        }
        let path = Path::new(&sources.files[0]).with_file_name(&name);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| site.wrong(format!("the file {} cannot be read: {error}", path.display())))?;
        sources.files.push(path.display().to_string());
        let mut table = parse(&text, sources.files.len() - 1)?;
        if let Some(node) = include(&table) {
            return Err(ConfigError::new(
                node.at,
                KEY,
                "an included file cannot include another file; leave this out",
            ));
        }
        rename(&mut table, warnings)?;
        merge(&mut file, &table);
    }
    Ok(file)
}

/// Whether an included file is in the folder of the scenario, or in a folder beside it.
fn is_near(name: &str) -> bool {
    let is_plain = |name: &str| !name.is_empty() && name != ".." && !name.contains(['/', '\\']);
    match name.strip_prefix("../") {
        None => is_plain(name),
        Some(beside) => beside
            .split_once('/')
            .is_some_and(|(folder, file)| is_plain(folder) && is_plain(file) && file.ends_with(".toml")),
    }
}

fn variants(node: Option<Node>) -> Result<Vec<Entry>, ConfigError> {
    let Some(node) = node else {
        let variant = Variant { name: "default".to_owned(), label: "default".to_owned() };
        return Ok(vec![Entry { variant, set: Table::new(), index: 0 }]);
    };
    let site = Site { at: node.at, path: "variants", sections: &Table::new() };
    let mut entries: Vec<Entry> = Vec::new();
    for (index, read) in in_list::<VariantKeys>().read(&node, &site)?.0.into_iter().enumerate() {
        let VariantKeys { name, label, set } = read.keys.clone();
        if entries.iter().any(|entry| entry.variant.name == name) {
            let message = format!("two variants have the name {name:?}; every variant needs its own name");
            return Err(ConfigError { key: "variants".to_owned(), ..read.wrong("name", message) });
        }
        entries.push(Entry { variant: Variant { name, label }, set, index });
    }
    match entries.is_empty() {
        true => Err(site.wrong("the list is empty; leave it out, or write [[variants]]")),
        false => Ok(entries),
    }
}

/// Sections that a network file may have.
const OF_FILE: [&str; 6] = ["network", "relays", "client", "clients", "server", "servers"];

/// Keys of clients and servers that a network file may set: where they are, and their access links.
const OF_ENDS: [&str; 6] = ["place", "country", "link", "link_up", "link_down", "link_queue"];

/// Checks that a network file has only allowed sections. `file` is its index in the list of files.
fn check_sections(root: &Table, file: usize) -> Result<(), ConfigError> {
    for (name, node) in root {
        let wrong = |message: String| Err(ConfigError::new(node.at, name, message));
        if !OF_FILE.contains(&name.as_str()) {
            let sections = OF_FILE.join(", ");
            return wrong(format!("this belongs in a scenario; a network file has only {sections}"));
        }
        let Some(table) = node.table() else {
            return wrong(format!("{}; it must be a section, written [{name}]", node.with_type()));
        };
        if name == "relays" && table.is_empty() {
            return wrong("there is no relay; write one as [relays.NAME]".to_owned());
        }
        match name.as_str() {
            "client" | "server" => check_end(name, table)?,
            "clients" | "servers" => {
                for (group, node) in table {
                    let path = join(name, group);
                    let Some(table) = node.table() else {
                        let message = format!("{}; it must be a table, written [{path}]", node.with_type());
                        return Err(ConfigError::new(node.at, path, message));
                    };
                    check_end(&path, table)?;
                }
            }
            _ => {}
        }
    }
    if root.is_empty() {
        let message = "there is no network; a network file has [relays.NAME], [network] or both";
        return Err(ConfigError::new(Origin::File { file, line: 1, variant: None }, "", message));
    }
    Ok(())
}

fn check_end(path: &str, table: &Table) -> Result<(), ConfigError> {
    let unknown = table.iter().find(|(key, _)| !OF_ENDS.contains(&key.as_str()));
    unknown.map_or(Ok(()), |(key, node)| {
        let keys = OF_ENDS.join(", ");
        let message = format!("this key belongs in a scenario; here a network file sets only {keys}");
        Err(ConfigError::new(node.at, join(path, key), message))
    })
}

/// Merges a network file into a scenario file. The relays of the network file replace all relays of the scenario.
fn replace(file: &mut Table, mut network: Table, warnings: &mut Warnings) {
    if let Some(relays) = network.remove("relays") {
        file.insert("relays".to_owned(), relays);
    }
    // Two networks have different countries, places and circuits, so those of the scenario are dropped.
    let has = |node: &Node, key| node.table().is_some_and(|table| table.contains_key(key));
    for keys in [&["rtt_matrix"][..], &["places", "edges"], &["circuits"]] {
        if network.get("network").is_some_and(|node| has(node, keys[0]))
            && let Some(Node { value: Value::Table(below), .. }) = file.get_mut("network")
        {
            below.retain(|key, _| !keys.contains(&&key[..]));
        }
    }
    for section in ["clients", "servers"] {
        let known = file.get(section).and_then(Node::table).cloned().unwrap_or_default();
        let Some(groups) = network.get_mut(section).and_then(table_of) else { continue };
        groups.retain(|name, node| {
            let used = known.contains_key(name);
            if !used {
                let message =
                    format!("{}: the scenario has no such nodes, so this has no effect", join(section, name));
                warnings.push((node.at, message));
            }
            used
        });
        // A place of the network file replaces the places of the scenario.
        let places = groups.iter().filter(|(_, node)| has(node, "place")).map(|(name, _)| name.clone());
        for name in places.collect::<Vec<_>>() {
            let below = file.get_mut(section).and_then(table_of).and_then(|table| table.get_mut(&name));
            if let Some(below) = below.and_then(table_of) {
                below.remove("place");
            }
        }
    }
    merge(file, &network);
}

const OF_NETWORK: [(&str, &str); 1] = [("ways", "rtt_matrix")];

const OF_CPU: [(&str, &str); 1] = [("look", "scan")];

const OF_TOR: [(&str, &str); 3] = [
    ("circuit_queue_most", "max_circuit_queue"),
    ("mark_above", "ecn_threshold"),
    ("datagram_hold", "coalesce_delay"),
];

/// Warnings, each with the place in the file.
pub(crate) type Warnings = Vec<(Origin, String)>;

/// Renames old keys in a file or in overrides, and adds a warning for each.
fn rename(root: &mut Table, warnings: &mut Warnings) -> Result<(), ConfigError> {
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
    if let Some(cpu) = table.get_mut("cpu").and_then(table_of) {
        rename_keys(cpu, &join(path, "cpu"), &OF_CPU, warnings)?;
    }
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

/// Tables with entries that an override may change. It cannot add entries, because a mistyped name would add a node.
const NAMED: &[&str] = &["relays", "clients", "servers", "workloads"];

/// Merges `over` into `base`: tables key by key, other values as a whole. A table with a `kind` replaces the whole table
/// below it. A `link` discards `link_up` and `link_down`.
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
        let below = base.get_mut(key);
        if let (Some(below), Value::Table(above)) = (below, &node.value) {
            expand(key, below);
            if let Value::Table(table) = &mut below.value {
                merge(table, above);
                continue;
            }
        }
        base.insert(key.clone(), node.clone());
    }
}

/// The overrides of a variant. Keys of `set` may be dotted.
fn of_variant(set: &Table, index: usize) -> Result<Table, ConfigError> {
    let to_variant = |at| match at {
        Origin::File { file, line, .. } => Origin::File { file, line, variant: Some(index) },
        other => other,
    };
    let overlay = Node::of_table(set.clone(), Origin::Default).moved(&to_variant);
    let overlay = overlay.table().cloned().unwrap_or_default();
    for (key, below, why) in [
        ("scenario", None, "a variant cannot change the paper or the figure of a scenario; leave this out"),
        ("variants", None, "a variant cannot change variants; leave this out"),
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

/// The overrides of all `--set key=value`. A later one overrides earlier ones. The value is TOML. A string needs no
/// quotes if it has none of the characters `" ' [ ] { } = #`, because a shell removes quotes: `run.duration=10 s`.
pub(crate) fn of_sets(file: &Table, sets: &[String], warnings: &mut Warnings) -> Result<Table, ConfigError> {
    let mut overlay = Table::new();
    for (index, set) in sets.iter().enumerate() {
        merge(&mut overlay, &of_set(set, Origin::Set(index))?);
    }
    rename(&mut overlay, warnings)?;
    check_names(file, &overlay)?;
    Ok(overlay)
}

fn of_set(set: &str, at: Origin) -> Result<Table, ConfigError> {
    let fail = |message: &str| ConfigError::new(at, "", message);
    let (path, text) =
        set.split_once('=').ok_or_else(|| fail("it must be key=value, like run.duration=\"10 min\""))?;
    let (path, text) = (path.trim(), text.trim());
    let node = match parse_value(text, path) {
        Some(Ok(node)) => node,
        Some(Err(error)) => return Err(ConfigError { at, ..error }),
        None if text.is_empty() => return Err(fail("the value is missing; write it after the =")),
        None if text.contains(['"', '\'', '[', ']', '{', '}', '=', '#', '\n']) => {
            return Err(fail(
                "the value is not TOML; a string needs quotes that the shell leaves, like 'key=\"10 s\"'",
            ));
        }
        None => Node::text(text, at),
    };
    let overlay = nested(path, node.moved(&|_| at))?;
    if overlay.contains_key("variants") {
        return Err(fail("--set cannot change variants; select variants with --variant"));
    }
    if overlay.get("scenario").and_then(Node::table).is_some_and(|table| table.contains_key("include")) {
        return Err(fail("an override cannot include files; write include in the scenario file"));
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

/// An algorithm that an override replaces. Its keys that the override does not write have defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewKind {
    /// The dotted key of the algorithm, such as `relay.scheduler`.
    pub(crate) key: String,
    /// The keys with defaults, and their values in TOML.
    pub(crate) defaults: Vec<(String, String)>,
    /// Of `defaults`, the keys for which the file without overrides has another value: key, default, and this value.
    pub(crate) reset: Vec<(String, String, String)>,
}

/// The algorithms that the overrides in `overlays` replace. `file` is the file without overrides, and `resolved` the
/// file with overrides and defaults.
pub(crate) fn new_kinds(file: &Table, overlays: &[&Table], resolved: &Table) -> Vec<NewKind> {
    let written: Vec<String> =
        overlays.iter().flat_map(|overlay| leaves(overlay)).map(|(key, _)| key).collect();
    let algorithm = |key: &String| {
        let key = key.strip_suffix(".kind").unwrap_or(key);
        ALGORITHM_KEYS.contains(&key.rsplit('.').next()?).then(|| key.to_owned())
    };
    let before = Merged::new(file.clone()).map(|merged| merged.whole).unwrap_or_default();
    let mut found: Vec<NewKind> = Vec::new();
    for key in written.iter().filter_map(algorithm) {
        let Some(table) = at(resolved, &key).and_then(Node::table) else { continue };
        if found.iter().any(|known| known.key == key) {
            continue;
        }
        let old = at(&before, &key).and_then(Node::table);
        let (mut defaults, mut reset) = (Vec::new(), Vec::new());
        let own = |name: &str| name == "kind" || written.contains(&join(&key, name));
        for (name, node) in table.iter().filter(|(name, _)| !own(name)) {
            let value = node.value.print();
            let of_file = old.and_then(|old| old.get(name)).map(|node| node.value.print());
            if let Some(of_file) = of_file.filter(|of_file| *of_file != value) {
                reset.push((name.clone(), value.clone(), of_file));
            }
            defaults.push((name.clone(), value));
        }
        found.push(NewKind { key, defaults, reset });
    }
    found
}

/// The node at a dotted key.
fn at<'a>(root: &'a Table, key: &str) -> Option<&'a Node> {
    let mut names = key.split('.');
    let first = root.get(names.next()?);
    names.fold(first, |node, name| node?.table()?.get(name))
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
        let overlay = of_sets(&Table::new(), &sets.map(str::to_owned), &mut Warnings::new()).unwrap();
        let expected = "a = { b = 2, c = '10 s', d = 'x', e = 'uniform(1 s, 3 s)', f = [1, 2] }";
        assert!(same(overlay, expected));
        for wrong in ["a.b", "a.b=", "=1", "a..b=1", "a=[1", "a=\"x", "variants.0.name=\"x\""] {
            assert!(of_set(wrong, Origin::Set(0)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_later_set_overrides_an_earlier_one() {
        let overlay = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            of_sets(&Table::new(), &sets, &mut Warnings::new()).unwrap()
        };
        let of_kist = ["relay.scheduler={ kind = 'kist', interval = '2 ms' }", "relay.scheduler=vanilla"];
        assert!(same(overlay(&of_kist), "relay = { scheduler = 'vanilla' }"));
        let refined = ["relay.scheduler=kist", "relay.scheduler.interval=2 ms"];
        assert!(same(overlay(&refined), "relay = { scheduler = { kind = 'kist', interval = '2 ms' } }"));
        let plain = ["network.latency.near=10 ms", "network.latency=even"];
        assert!(same(overlay(&plain), "network = { latency = 'even' }"));
        let table = ["network.latency=even", "network.latency.near=10 ms"];
        assert!(same(overlay(&table), "network = { latency = { near = '10 ms' } }"));
        let link = ["relay.link_up=1 MiB/s", "relay.link=2 MiB/s"];
        assert!(same(overlay(&link), "relay = { link = '2 MiB/s' }"));
    }
}
