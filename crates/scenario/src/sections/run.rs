//! `[scenario]`, `[run]` and `[trace]`: the paper, the seeds, the duration, and the circuits to record in detail.

use super::workloads::find_workload;
use crate::error::ConfigError;
use crate::keys::{Read, in_table, section, sections};
use crate::model::{Activity, Client, Head, Run, Stop, Trace, Workload};
use crate::values::{Count, Fraction, INTERVAL, Or, Seeds, TEXT, TIME, TIME_OR_ZERO, Texts, Whole};
use penstock_units::{Duration, parse::show_duration};

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct IncludeKeys("[scenario]") {
        /// Files whose keys this file inherits, like "common.toml" in the same folder or "../kist/ci.toml" in a folder
        /// beside it. The keys of this file override the inherited keys.
        include: Vec<String> = Texts, Is("[]");
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct HeadKeys("[scenario]") {
        head: Head,
        files: IncludeKeys,
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct StopKeys("run.stop") {
        /// The workload whose downloads count.
        workload: String = TEXT, Required;
        /// The number of finished downloads of all its clients, warm-up included.
        downloads: u64 = Count, Required;
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct RunKeys("[run]") {
        /// One run for each seed. All variants have the same seeds.
        seeds: Vec<u64> = Seeds, Is("[1]");
        /// The seeds of networks. Each network runs with every seed of seeds. With "none", each run draws its network
        /// from its own seed.
        networks: Option<Vec<u64>> = Or("none", Seeds), Is("none");
        /// The latest end of simulated time.
        duration: Duration = TIME, Required;
        /// Downloads that start before this time are marked as warm-up.
        warmup: Duration = TIME_OR_ZERO, Is("0 s");
        /// Ends a run at the next sample after the clients of a workload have finished a number of downloads.
        stop: Option<StopKeys> = Or("none", in_table::<StopKeys>()), Is("none");
        /// The interval of relays.parquet, at least 1 ms.
        sample: Duration = INTERVAL, Is("1 s");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct TraceKeys("[trace]") {
        /// Circuits of these workloads' clients are recorded in circuits.parquet.
        workloads: Vec<String> = Texts, Is("[]");
        /// The probability that Penstock records the circuits of a client. Each seed draws the recorded clients.
        share: Option<f64> = Or("all", Fraction), Is("all");
        /// The interval of circuits.parquet, at least 1 ms.
        interval: Duration = INTERVAL, Is("100 ms");
        /// With 10, every tenth DATA cell of a traced circuit is recorded in cells.parquet. With 0, no cell is
        /// recorded.
        cells: u32 = Whole::cells(0, 1_000_000), Is("0");
        /// The interval of clients.parquet, the bytes that each client receives; at least 1 ms. With "none", the table
        /// is empty.
        clients: Option<Duration> = Or("none", INTERVAL), Is("none");
    }
}

pub(crate) fn run(
    read: &Read<RunKeys>,
    workloads: &[Workload],
    clients: &[Client],
) -> Result<Run, ConfigError> {
    let RunKeys { duration, warmup, stop, sample, .. } = &read.keys;
    if warmup >= duration {
        let [warmup, duration] = [warmup, duration].map(|span| show_duration(*span));
        let message = format!(
            "\"{warmup}\" leaves no time to measure; it must be shorter than run.duration, \"{duration}\""
        );
        return Err(read.wrong(if read.sets("warmup") { "warmup" } else { "duration" }, message));
    }
    let stop = stop.as_ref().map(|stop| {
        let wrong = |message| read.wrong("stop.workload", message);
        let workload = find_workload(workloads, &stop.workload, wrong)?;
        if let Activity::Hold(_) = workloads[workload].does {
            let name = &stop.workload;
            return Err(wrong(format!("{name:?} downloads nothing; name a workload with size or tgen")));
        }
        if clients.iter().all(|client| !client.group.workloads.contains(&workload)) {
            let name = &stop.workload;
            return Err(wrong(format!("no client has the workload {name:?}; name a client's workload")));
        }
        Ok(Stop { workload, downloads: stop.downloads })
    });
    Ok(Run { duration: *duration, warmup: *warmup, stop: stop.transpose()?, sample: *sample })
}

pub(crate) fn trace(read: &Read<TraceKeys>, workloads: &[Workload]) -> Result<Trace, ConfigError> {
    let TraceKeys { workloads: names, share, interval, cells, clients } = &read.keys;
    let find = |name: &String| find_workload(workloads, name, |message| read.wrong("workloads", message));
    let mut traced = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    traced.sort_unstable();
    traced.dedup();
    let share = share.unwrap_or(1.0);
    Ok(Trace { workloads: traced, share, interval: *interval, cells: *cells, clients: *clients })
}
