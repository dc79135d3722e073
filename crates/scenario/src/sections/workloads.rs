//! `[workloads.NAME]`: the activity of clients.

use crate::error::{ConfigError, listed_briefly};
use crate::keys::{Read, in_table, section};
use crate::markov::{Emission, Markov, Transition};
use crate::model::{Activity, Amount, Span, Tgen, Workload};
use crate::presets;
use crate::values::{AMOUNT, EMISSIONS, Flag, NAME, Or, SPAN, Size, TIME, TRANSITIONS, Whole, Word};
use penstock_units::{Bytes, Duration};
use std::collections::BTreeMap;
use std::sync::Arc;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct MarkovKeys("workload.tgen.packets") {
        /// The state in which each walk starts. A walk leaves it without an emission.
        start: String = NAME, Is("start");
        /// The transitions between states, with weights.
        transitions: Vec<Transition> = TRANSITIONS, Required;
        /// The emissions of each state, with weights. Each emission has a delay until the next emission.
        emissions: Vec<Emission> = EMISSIONS, Required;
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct TgenKeys("workload.tgen") {
        /// The model that decides when flows begin. Each flow has its own circuit. With "none", each flow begins after
        /// the end of the previous flow and the workload's pause.
        flows: Option<MarkovKeys> = Or("none", in_table::<MarkovKeys>()), Is("none");
        /// The model that decides when the streams of a flow begin. With "none", a flow is one stream.
        streams: Option<MarkovKeys> = Or("none", in_table::<MarkovKeys>()), Is("none");
        /// The model that decides when the packets of a stream leave. The client sends the packets +, and the server
        /// sends the packets -.
        packets: MarkovKeys = in_table::<MarkovKeys>(), Required;
        /// The payload of a packet.
        packet: Bytes = Size { least: 1, most: 1 << 16 }, Is("1434 B");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct WorkloadKeys("[workloads.NAME]") {
        /// The workload of a paper's clients, which sets several keys. The section's own keys override them.
        preset: Option<&'static str> = Or("none", Word(presets::WORKLOAD_NAMES)), Is("none");
        /// The size of a download. A workload has one of the keys size, hold and tgen.
        size: Option<Amount> = Or("none", AMOUNT), Is("none");
        /// Instead of downloading, a client opens a circuit, and closes it and its connection after this time.
        hold: Option<Span> = Or("none", SPAN), Is("none");
        /// tgen's Markov models, which decide when streams begin and packets leave. They replace the loop of downloads.
        tgen: Option<TgenKeys> = Or("none", in_table::<TgenKeys>()), Is("none");
        /// The number of circuits that a client uses at the same time. Each circuit has its own downloads or holds.
        circuits: u32 = Whole::from_1_to(1000), Is("1");
        /// The time from the end of a download or hold to the start of the next one.
        pause: Span = SPAN, Is("0 s");
        /// The time at which a client begins.
        start: Span = SPAN, Is("0 s");
        /// With true, every download gets a new circuit.
        fresh_circuit: bool = Flag, Is("false");
        /// The time limit for a download. A client abandons a slower download.
        timeout: Option<Duration> = Or("none", TIME), Is("none");
        /// The size of the request for the file.
        request: Bytes = Size { least: 1, most: 1 << 20 }, Is("200 B");
    }
}

pub(crate) fn workloads(read: &BTreeMap<String, Read<WorkloadKeys>>) -> Result<Vec<Workload>, ConfigError> {
    let workload = |(name, read): (&String, &Read<WorkloadKeys>)| {
        let keys = &read.keys;
        Ok(Workload {
            name: name.clone(),
            does: activity(read)?,
            circuits: keys.circuits,
            pause: keys.pause.clone(),
            start: keys.start.clone(),
            fresh_circuit: keys.fresh_circuit,
            timeout: keys.timeout,
            request: keys.request,
        })
    };
    read.iter().map(workload).collect()
}

fn activity(read: &Read<WorkloadKeys>) -> Result<Activity, ConfigError> {
    let WorkloadKeys { size, hold, tgen, .. } = &read.keys;
    match (size, hold, tgen) {
        (Some(size), None, None) => Ok(Activity::Download(size.clone())),
        (None, Some(hold), None) => Ok(Activity::Hold(hold.clone())),
        (None, None, Some(tgen)) => traffic(read, tgen).map(Activity::Tgen),
        (None, None, None) => {
            let message = "this workload does nothing; set size (the bytes of a download), hold or tgen";
            Err(ConfigError::new(read.at, &read.path, message))
        }
        _ => {
            let [one, other] = match size {
                Some(_) => ["size", if hold.is_some() { "hold" } else { "tgen" }],
                None => ["hold", "tgen"],
            };
            let message = format!("this workload has a {one}, too; it must be one of size, hold and tgen");
            Err(read.wrong(other, message))
        }
    }
}

/// Models of flows and streams must have delays. Packets may have none, because they wait for window space.
fn traffic(read: &Read<WorkloadKeys>, keys: &TgenKeys) -> Result<Tgen, ConfigError> {
    let pausing = |key: &str, keys: &Option<MarkovKeys>| {
        keys.as_ref().map(|keys| markov(read, key, keys, true)).transpose()
    };
    Ok(Tgen {
        flows: pausing("flows", &keys.flows)?,
        streams: pausing("streams", &keys.streams)?,
        packets: markov(read, "packets", &keys.packets, false)?,
        packet: keys.packet,
    })
}

/// A Markov model. If `must_pause` is true, walks without an end and without a delay are refused.
fn markov(
    read: &Read<WorkloadKeys>,
    key: &str,
    keys: &MarkovKeys,
    must_pause: bool,
) -> Result<Arc<Markov>, ConfigError> {
    let model = Markov::new(&keys.start, &keys.transitions, &keys.emissions)
        .map_err(|error| read.wrong(&format!("tgen.{key}.transitions"), error.to_string()))?;
    let Some(state) = model.endless().filter(|_| must_pause) else { return Ok(Arc::new(model)) };
    let message = format!(
        "the model never ends after the state {state:?}, and has no delay; add an emission F or a delay"
    );
    Err(read.wrong(&format!("tgen.{key}"), message))
}

/// The index of a workload. For an unknown name, `wrong` turns the message into an error.
pub(crate) fn find_workload(
    workloads: &[Workload],
    name: &str,
    wrong: impl Fn(String) -> ConfigError,
) -> Result<usize, ConfigError> {
    workloads.iter().position(|workload| workload.name == name).ok_or_else(|| {
        let known = listed_briefly(workloads.iter().map(|workload| workload.name.as_str()));
        wrong(format!("there is no workload {name:?}; [workloads] has {known}"))
    })
}
