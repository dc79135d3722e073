//! The downloads of an earlier run, to be asked for again at their times whatever becomes of them.

use penstock_scenario::model::{Activity, Path, Scenario};
use penstock_units::{Bytes, Instant};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A download of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The client's name.
    pub client: String,
    /// The workload's name.
    pub workload: String,
    /// Its circuit's number in that run.
    pub circuit: u64,
    /// When that circuit was begun.
    pub begun: Instant,
    /// Names of its guard, its middle and its exit.
    pub relays: [String; 3],
    /// When the client asked.
    pub start: Instant,
    /// What it asked for [B].
    pub size: Bytes,
}

/// Downloads of an earlier run, by client and circuit.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// By the client's index in the scenario: its circuits, in the order in which they were begun.
    clients: Vec<Vec<Recorded>>,
}

/// What was asked for over one circuit.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) begun: Instant,
    /// Indices of its relays, from the entry to the exit, if the client draws paths and the record knows all of it.
    pub(crate) path: Option<Vec<usize>>,
    /// In the order of their times; never empty.
    pub(crate) downloads: Vec<Download>,
}

/// One of those downloads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Download {
    pub(crate) start: Instant,
    /// Index of its workload.
    pub(crate) workload: usize,
    pub(crate) size: Bytes,
}

impl Replay {
    /// What of these downloads a scenario asks for again; or what they have that it has not.
    ///
    /// What follows Markov models is an open loop already, and is left to them.
    pub fn new(scenario: &Scenario, asked: impl IntoIterator<Item = Asked>) -> Result<Self, String> {
        let clients = by_name(scenario.clients.iter().map(|client| client.host.name.as_str()));
        let workloads = by_name(scenario.workloads.iter().map(|workload| workload.name.as_str()));
        let relays = by_name(scenario.relays.iter().map(|relay| relay.host.name.as_str()));
        let mut circuits: Vec<BTreeMap<(Instant, u64), Recorded>> = vec![BTreeMap::new(); clients.len()];
        for Asked { client: name, workload: does, circuit, begun, relays: through, start, size } in asked {
            let Some(index) = clients.get(name.as_str()) else {
                return Err(format!("it has downloads of the client {name:?}, which the scenario has not"));
            };
            let client = &scenario.clients[*index];
            let workload =
                workloads.get(does.as_str()).filter(|workload| client.workloads.contains(workload));
            let Some(workload) = workload else {
                return Err(format!(
                    "it has downloads of the workload {does:?}, which the client {name:?} has not"
                ));
            };
            if client.path == Path::Direct {
                return Err(format!(
                    "the client {name:?} has no Tor; only downloads over circuits can be replayed"
                ));
            }
            match scenario.workloads[*workload].does {
                Activity::Download(_) => {}
                Activity::Tgen(_) => continue,
                Activity::Hold(_) => {
                    return Err(format!("it has downloads of the workload {does:?}, which holds circuits"));
                }
            }
            let download = Download { start, workload: *workload, size };
            let recorded = match circuits[*index].entry((begun, circuit)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let path = path(&client.path, &relays, &through)
                        .map_err(|relay| format!("it has a circuit of the client {name:?} through the relay {relay:?}, which the scenario has not"))?;
                    new.insert(Recorded { begun, path, downloads: Vec::new() })
                }
            };
            recorded.downloads.push(download);
        }
        let recorded = |mut recorded: Recorded| {
            recorded.downloads.sort_by_key(|download| download.start);
            recorded
        };
        let clients = circuits.into_iter().map(|each| each.into_values().map(recorded).collect());
        Ok(Replay { clients: clients.collect() })
    }

    /// The circuits of a client.
    pub(crate) fn of(&self, client: usize) -> &[Recorded] {
        &self.clients[client]
    }
}

/// The relays of a circuit through these; none if the client has a path of its own, or one of which the record has a part
/// alone. The error is a relay that is not there.
fn path<'a>(
    of: &Path,
    relays: &BTreeMap<&str, usize>,
    through: &'a [String; 3],
) -> Result<Option<Vec<usize>>, &'a str> {
    let [guard, middle, exit] = through;
    let path = match of {
        Path::Tor { .. } | Path::Weighted { hops: 3 } => vec![guard, middle, exit],
        // The last of them is the middle, too.
        Path::Weighted { hops: 2 } => vec![guard, exit],
        Path::Weighted { hops: 1 } => vec![exit],
        Path::Weighted { .. } | Path::Fixed(_) | Path::Direct => return Ok(None),
    };
    let index = |name: &'a String| relays.get(name.as_str()).copied().ok_or(name.as_str());
    path.into_iter().map(index).collect::<Result<_, _>>().map(Some)
}

/// The place of each name.
fn by_name<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    names.zip(0..).collect()
}
