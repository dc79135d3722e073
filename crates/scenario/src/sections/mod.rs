//! Sections of a scenario file. Each file declares the keys of a section and builds a part of the model.

pub(crate) mod clients;
pub(crate) mod edge_control;
pub(crate) mod elsewhere;
pub(crate) mod hop_control;
pub(crate) mod network;
pub(crate) mod nodes;
pub(crate) mod places;
pub(crate) mod relays;
pub(crate) mod run;
pub(crate) mod schedulers;
pub(crate) mod sets;
pub(crate) mod throttle;
pub(crate) mod tor;
pub(crate) mod workloads;

use crate::error::{ConfigError, Origin, instead};
use crate::keys::{Read, Section, in_list};
use crate::model::{Head, Tcp};
use crate::presets::PRESET;
use crate::tree::{Node, Table, Value, is_name, join, print_section};
use crate::values::{Parameter, Site, ValueType};
use clients::{ClientKeys, ClientsKeys};
use network::NetworkKeys;
use nodes::{ServerKeys, ServersKeys};
use relays::{RelayKeys, RelaysKeys};
use run::{HeadKeys, RunKeys, TraceKeys};
use sets::{ChangeKeys, DeploymentKeys, VariantKeys};
use std::collections::BTreeMap;
use workloads::WorkloadKeys;

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

/// Reads only `[scenario]`.
pub(crate) fn head(root: &Table) -> Result<Head, ConfigError> {
    Ok(section(root, "scenario", &mut Table::new(), Read::<HeadKeys>::new)?.keys.head)
}

/// Reads all sections of one variant. In `root`, nodes and workloads have all their keys. In `own`, they lack the keys
/// that they inherit.
pub(crate) fn read(root: &Table, own: &Table) -> Result<Sections, ConfigError> {
    all(root, own).map_err(elsewhere::explain)
}

fn all(root: &Table, own: &Table) -> Result<Sections, ConfigError> {
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
    section(root, "relay", &mut resolved, Read::<RelayKeys>::new)?;
    section(root, "client", &mut resolved, Read::<ClientKeys>::new)?;
    section(root, "server", &mut resolved, Read::<ServerKeys>::new)?;
    let relays = named::<RelaysKeys>(root, own, "relays", &mut resolved)?;
    let clients = named::<ClientsKeys>(root, own, "clients", &mut resolved)?;
    let servers = named::<ServersKeys>(root, own, "servers", &mut resolved)?;
    let workloads = named::<WorkloadKeys>(root, own, "workloads", &mut resolved)?;
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
    })
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

/// Reads named tables such as `[relays.NAME]`. The resolved file has only their keys in `own`.
fn named<S: Section>(
    root: &Table,
    own: &Table,
    section: &str,
    resolved: &mut Table,
) -> Result<BTreeMap<String, Read<S>>, ConfigError> {
    let (tables, at) = table_of(root, section)?;
    let own = table_of(own, section)?.0;
    let (mut all, mut shown) = (BTreeMap::new(), Table::new());
    for (name, node) in tables {
        let path = join(section, name);
        let site = Site { at: node.at, path: &path, sections: resolved };
        let (Some(keys), Some(own)) = (node.table(), own.get(name).and_then(Node::table)) else {
            let message = format!("{}; it must be a table, written [{path}]", node.with_type());
            return Err(site.wrong(message));
        };
        if !is_name(name, false) {
            let message = format!("{name:?} is not a name; it must consist of letters, digits, '_' and '-'");
            return Err(site.wrong(message));
        }
        let mut read = Read::<S>::new(keys.clone(), &site)?;
        read.shown.remove(PRESET);
        let mut shown_keys = read.shown.clone();
        shown_keys.retain(|key, _| own.contains_key(key));
        shown.insert(name.clone(), Node::of_table(shown_keys, node.at));
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
