//! Recorded downloads of an earlier run. In a replay, clients request them again at the recorded times, in an open
//! loop.

use crate::Error;
use penstock_scenario::model::{Activity, Path, Scenario};
use penstock_units::{Bytes, Instant};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A download of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDownload {
    /// The client's name.
    pub client: String,
    /// The workload's name.
    pub workload: String,
    /// The number of the download's circuit in the earlier run.
    pub circuit: u64,
    /// When the client began to build this circuit.
    pub begun: Instant,
    /// The names of the circuit's guard, middle and exit.
    pub relays: [String; 3],
    /// When the client requested the download.
    pub start: Instant,
    /// The requested bytes [B].
    pub size: Bytes,
}

/// Downloads of an earlier run, grouped by client and circuit.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The circuits of each client of the scenario, in the order of their start times.
    clients: Vec<Vec<RecordedCircuit>>,
}

/// The downloads over one circuit of an earlier run.
#[derive(Clone, Debug)]
pub(crate) struct RecordedCircuit {
    pub(crate) begun: Instant,
    /// Indices of the circuit's relays from the entry to the exit; `None` if the client has a fixed path or the record
    /// is incomplete.
    pub(crate) path: Option<Vec<usize>>,
    /// The circuit's downloads in the order of time; never empty.
    pub(crate) downloads: Vec<Download>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Download {
    pub(crate) start: Instant,
    pub(crate) workload: usize,
    pub(crate) size: Bytes,
}

impl Replay {
    /// The downloads of an earlier run that a replay in `scenario` requests again.
    ///
    /// Downloads of Markov models are not repeated, because these models generate their downloads in an open loop
    /// anyway.
    pub fn new(
        scenario: &Scenario,
        downloads: impl IntoIterator<Item = RecordedDownload>,
    ) -> Result<Self, Error> {
        let clients = by_name(scenario.clients.iter().map(|client| &*client.host.name));
        let workloads = by_name(scenario.workloads.iter().map(|workload| workload.name.as_str()));
        let relays = by_name(scenario.relays.iter().map(|relay| &*relay.host.name));
        let mut circuits: Vec<BTreeMap<(Instant, u64), RecordedCircuit>> =
            vec![BTreeMap::new(); clients.len()];
        for RecordedDownload { client: name, workload: does, circuit, begun, relays: through, start, size } in
            downloads
        {
            let Some(index) = clients.get(name.as_str()) else {
                return Err(Error::UnknownClient { client: name });
            };
            let client = &scenario.clients[*index];
            let workload =
                workloads.get(does.as_str()).filter(|workload| client.group.workloads.contains(workload));
            let Some(workload) = workload else {
                return Err(Error::UnknownWorkload { client: name, workload: does });
            };
            if client.group.path == Path::Direct {
                return Err(Error::ClientWithoutTor { client: name });
            }
            match scenario.workloads[*workload].does {
                Activity::Download(_) => {}
                Activity::Tgen(_) => continue,
                Activity::Hold(_) => return Err(Error::WorkloadWithoutDownloads { workload: does }),
            }
            let download = Download { start, workload: *workload, size };
            let recorded = match circuits[*index].entry((begun, circuit)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let path = path(&client.group.path, &relays, &through)
                        .map_err(|relay| Error::UnknownRelay { client: name, relay: relay.to_owned() })?;
                    new.insert(RecordedCircuit { begun, path, downloads: Vec::new() })
                }
            };
            recorded.downloads.push(download);
        }
        let recorded = |mut recorded: RecordedCircuit| {
            recorded.downloads.sort_by_key(|download| download.start);
            recorded
        };
        let clients = circuits.into_iter().map(|each| each.into_values().map(recorded).collect());
        Ok(Replay { clients: clients.collect() })
    }

    pub(crate) fn of(&self, client: usize) -> &[RecordedCircuit] {
        &self.clients[client]
    }
}

/// The relays of a recorded circuit; `None` if the client has a fixed path or the record is incomplete. The error is
/// the name of an unknown relay.
fn path<'a>(
    of: &Path,
    relays: &BTreeMap<&str, usize>,
    through: &'a [String; 3],
) -> Result<Option<Vec<usize>>, &'a str> {
    let [guard, middle, exit] = through;
    let path = match of {
        Path::Tor { .. } | Path::Weighted { hops: 3 } => vec![guard, middle, exit],
        // In the record, the middle relay is the same as the last relay.
        Path::Weighted { hops: 2 } => vec![guard, exit],
        Path::Weighted { hops: 1 } => vec![exit],
        Path::Weighted { .. } | Path::Fixed(_) | Path::Listed | Path::Direct => return Ok(None),
    };
    let index = |name: &'a String| relays.get(name.as_str()).copied().ok_or(name.as_str());
    path.into_iter().map(index).collect::<Result<_, _>>().map(Some)
}

fn by_name<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    names.zip(0..).collect()
}
