//! Sections of a scenario file. Each file declares the keys of a section and builds a part of the model.

pub(crate) mod clients;
pub(crate) mod edge_control;
pub(crate) mod hop_control;
pub(crate) mod network;
pub(crate) mod nodes;
pub(crate) mod relays;
pub(crate) mod run;
pub(crate) mod schedulers;
pub(crate) mod sets;
pub(crate) mod throttle;
pub(crate) mod tor;
pub(crate) mod workloads;

use crate::error::{ConfigError, Origin, instead};
use crate::keys::{Read, Section, in_list};
use crate::model::Tcp;
use crate::presets;
use crate::tree::{Node, Table, Value, is_name, join, merge, print_section};
use crate::values::{Parameter, Site, ValueType};
use clients::{ClientKeys, ClientsKeys};
use network::NetworkKeys;
use nodes::{ServerKeys, ServersKeys};
use relays::{RelayKeys, RelaysKeys};
use run::{HeadKeys, RunKeys, TraceKeys};
use sets::{ChangeKeys, DeploymentKeys, VariantKeys};
use std::collections::BTreeMap;
use workloads::WorkloadKeys;

const PRESET: &str = "preset";

/// Keys that the resolved file replaces by the keys that they stand for.
const REPLACED: [&str; 2] = [PRESET, "include"];

#[derive(Clone, Debug)]
pub(crate) struct Sections {
    pub(crate) head: Read<HeadKeys>,
    pub(crate) run: Read<RunKeys>,
    pub(crate) trace: Read<TraceKeys>,
    pub(crate) tcp: Read<Tcp>,
    pub(crate) network: Read<NetworkKeys>,
    pub(crate) relays: BTreeMap<String, Read<RelaysKeys>>,
    pub(crate) clients: BTreeMap<String, Read<ClientsKeys>>,
    /// Place of `[clients]` in the file.
    pub(crate) clients_at: Origin,
    pub(crate) servers: BTreeMap<String, Read<ServersKeys>>,
    pub(crate) workloads: BTreeMap<String, Read<WorkloadKeys>>,
    pub(crate) deployments: Vec<Read<DeploymentKeys>>,
    pub(crate) changes: Vec<Read<ChangeKeys>>,
    /// The resolved file: all sections with defaults. `[relays.NAME]` is without inherited keys.
    pub(crate) resolved: Table,
    /// Keys that every relay inherits.
    relay: Table,
}

/// One table of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// As a file writes it: `[run]`, `[relays.NAME]`.
    pub title: &'static str,
    /// Its keys.
    pub parameters: Vec<Parameter>,
}

impl SectionInfo {
    pub(crate) fn of<S: Section>() -> Self {
        SectionInfo { title: S::TITLE, parameters: S::parameters() }
    }
}

type Info = fn() -> SectionInfo;

/// The name of each section with its keys, in the order in which a file is written.
pub(crate) const SECTIONS: [(&str, Info); 15] = [
    ("scenario", SectionInfo::of::<HeadKeys>),
    ("run", SectionInfo::of::<RunKeys>),
    ("trace", SectionInfo::of::<TraceKeys>),
    ("tcp", SectionInfo::of::<Tcp>),
    ("network", SectionInfo::of::<NetworkKeys>),
    ("relay", SectionInfo::of::<RelayKeys>),
    ("relays", SectionInfo::of::<RelaysKeys>),
    ("client", SectionInfo::of::<ClientKeys>),
    ("clients", SectionInfo::of::<ClientsKeys>),
    ("server", SectionInfo::of::<ServerKeys>),
    ("servers", SectionInfo::of::<ServersKeys>),
    ("workloads", SectionInfo::of::<WorkloadKeys>),
    ("deployments", SectionInfo::of::<DeploymentKeys>),
    ("changes", SectionInfo::of::<ChangeKeys>),
    ("variants", SectionInfo::of::<VariantKeys>),
];

/// Reads all sections. `root` is the file merged with its overrides, without `[[variants]]`.
pub(crate) fn read(root: &Table) -> Result<Sections, ConfigError> {
    let names = SECTIONS.map(|(name, _)| name);
    if let Some((name, node)) = root.iter().find(|(name, _)| !names.contains(&&name[..])) {
        let message = format!("this section is unknown; {}", instead(name, "a scenario has", names));
        return Err(ConfigError::new(node.at, name, message));
    }
    let mut resolved = Table::new();
    let head = section(root, "scenario", &mut resolved, Read::<HeadKeys>::new)?;
    let run = section(root, "run", &mut resolved, Read::<RunKeys>::new)?;
    let trace = section(root, "trace", &mut resolved, Read::<TraceKeys>::new)?;
    let tcp = section(root, "tcp", &mut resolved, Read::<Tcp>::new)?;
    let network = section(root, "network", &mut resolved, |table, site| network::read(&table, site))?;
    let relay = inherited::<RelayKeys>(root, "relay", &mut resolved)?;
    let client = inherited::<ClientKeys>(root, "client", &mut resolved)?;
    let server = inherited::<ServerKeys>(root, "server", &mut resolved)?;
    let relays = named::<RelaysKeys>(root, "relays", &relay, &mut resolved)?;
    let clients = named::<ClientsKeys>(root, "clients", &client, &mut resolved)?;
    let servers = named::<ServersKeys>(root, "servers", &server, &mut resolved)?;
    let workloads = named::<WorkloadKeys>(root, "workloads", &Table::new(), &mut resolved)?;
    let deployments = list(root, "deployments", &mut resolved)?;
    let changes = list(root, "changes", &mut resolved)?;
    let clients_at = root.get("clients").map_or(Origin::Default, |node| node.at);
    Ok(Sections {
        head,
        run,
        trace,
        tcp,
        network,
        relays,
        clients,
        clients_at,
        servers,
        workloads,
        deployments,
        changes,
        resolved,
        relay,
    })
}

impl Sections {
    /// A group of relays of the file `root`, with the additional keys that deployments set.
    pub(crate) fn relay_with<'a>(
        &self,
        root: &'a Table,
        group: &str,
        sets: impl Iterator<Item = &'a Table>,
    ) -> Result<Read<RelaysKeys>, ConfigError> {
        let node = table_of(root, "relays")?.0.get(group);
        let own = node.and_then(Node::table);
        let mut keys = self.relay.clone();
        for written in own.into_iter().chain(sets) {
            keys = over_preset::<RelaysKeys>(&keys, written)?.0;
        }
        let at = node.map_or(Origin::Default, |node| node.at);
        Read::new(keys, &Site { at, path: &join("relays", group), sections: &self.resolved })
    }
}

/// The table of a section and its place in the file. The table is empty if the file does not have the section.
fn table_of<'a>(root: &'a Table, name: &str) -> Result<(&'a Table, Origin), ConfigError> {
    static EMPTY: Table = Table::new();
    let Some(node) = root.get(name) else { return Ok((&EMPTY, Origin::Default)) };
    let wrong = || format!("{}; it must be a section, written [{name}]", node.with_type());
    let table = node.table().ok_or_else(|| ConfigError::new(node.at, name, wrong()))?;
    Ok((table, node.at))
}

fn section<S>(
    root: &Table,
    name: &str,
    resolved: &mut Table,
    read: impl Fn(Table, &Site<'_>) -> Result<Read<S>, ConfigError>,
) -> Result<Read<S>, ConfigError> {
    let (table, at) = table_of(root, name)?;
    let mut read = read(table.clone(), &Site { at, path: name, sections: resolved })?;
    read.shown.retain(|key, _| !REPLACED.contains(&&key[..]));
    resolved.insert(name.to_owned(), Node::of_table(read.shown.clone(), at));
    Ok(read)
}

/// Checks a section that others inherit, such as `[relay]`. Returns its own keys, and the keys of its preset.
fn inherited<S: Section>(root: &Table, name: &str, resolved: &mut Table) -> Result<Table, ConfigError> {
    let (mut keys, _) = over_preset::<S>(&Table::new(), table_of(root, name)?.0)?;
    section(root, name, resolved, |_, site| Read::<S>::new(keys.clone(), site))?;
    keys.remove(PRESET);
    Ok(keys)
}

/// Merges three tables: the keys in `inherited`, the preset that `written` names, and the keys in `written`. Later
/// keys win. Also returns the preset's keys.
fn over_preset<S: Section>(inherited: &Table, written: &Table) -> Result<(Table, Table), ConfigError> {
    let mut preset = presets::keys_of(written.get(PRESET).and_then(Node::as_text))?;
    preset.retain(|name, _| S::has(name));
    let mut keys = inherited.clone();
    merge(&mut keys, &preset);
    merge(&mut keys, written);
    Ok((keys, preset))
}

/// Reads named tables such as `[relays.NAME]`, which inherit keys.
fn named<S: Section>(
    root: &Table,
    section: &str,
    inherited: &Table,
    resolved: &mut Table,
) -> Result<BTreeMap<String, Read<S>>, ConfigError> {
    let (tables, at) = table_of(root, section)?;
    let (mut all, mut shown) = (BTreeMap::new(), Table::new());
    for (name, node) in tables {
        let path = join(section, name);
        let site = Site { at: node.at, path: &path, sections: resolved };
        let Some(written) = node.table() else {
            let message = format!("{}; it must be a table, written [{path}]", node.with_type());
            return Err(site.wrong(message));
        };
        if !is_name(name, false) {
            let message = format!("{name:?} is no name; it must be of letters, digits, '_' and '-'");
            return Err(site.wrong(message));
        }
        let (keys, preset) = over_preset::<S>(inherited, written)?;
        let mut read = Read::<S>::new(keys, &site)?;
        read.shown.remove(PRESET);
        let mut own = read.shown.clone();
        own.retain(|key, _| written.contains_key(key) || preset.contains_key(key));
        shown.insert(name.clone(), Node::of_table(own, node.at));
        all.insert(name.clone(), read);
    }
    resolved.insert(section.to_owned(), Node::of_table(shown, at));
    Ok(all)
}

fn list<S: Section>(root: &Table, name: &str, resolved: &mut Table) -> Result<Vec<Read<S>>, ConfigError> {
    let empty = Node { value: Value::List(Vec::new()), at: Origin::Default };
    let node = root.get(name).unwrap_or(&empty);
    let (each, value) = in_list::<S>().read(node, &Site { at: node.at, path: name, sections: resolved })?;
    resolved.insert(name.to_owned(), Node { value, at: node.at });
    Ok(each)
}

/// The resolved file as TOML, in canonical form.
pub(crate) fn print(resolved: &Table) -> String {
    let mut out = String::new();
    for (name, _) in SECTIONS {
        match resolved.get(name).map(|node| &node.value) {
            Some(Value::List(list)) => {
                for table in list.iter().filter_map(Node::table) {
                    print_section(&mut out, &format!("[{name}]"), table);
                }
            }
            Some(Value::Table(tables)) if name.ends_with('s') => {
                for (key, table) in tables.iter().filter_map(|(key, node)| Some((key, node.table()?))) {
                    print_section(&mut out, &format!("{name}.{key}"), table);
                }
            }
            Some(Value::Table(table)) => print_section(&mut out, name, table),
            _ => {}
        }
    }
    out
}
