//! Measures what EWMA's priorities at one live middle relay change for other users: sections 3.3 and 5 of EWMA, figures 7
//! to 9 and 14.
//!
//! Two middle relays of Penstock run at the same time in one emulated network: one without priorities, one with EWMA. Both
//! carry the same load. Guard, exit, clients and onion services are C tor's. `TOR` names C tor. One call measures one
//! round, in a fresh network. `docs/validation/ewma.md` states the criteria.
//!
//! ```console
//! $ cargo bench --package penstock-live --bench priorities -- --out FOLDER --round N [--factor exit|bucket|uplink] [--short]
//! ```

#[path = "../../tests/common/exchange.rs"]
mod exchange;
mod fetch;
#[path = "../shared/load.rs"]
mod load;
mod network;
#[path = "../../tests/common/observations.rs"]
mod observations;
#[path = "../shared/relays.rs"]
mod relays;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../shared/mod.rs"]
mod shared;
#[path = "../shared/star.rs"]
mod star;
mod tables;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/network/testnet/mod.rs"]
mod testnet;
mod users;
mod waits;

use lexopt::ValueExt;
use network::{CLIENT, EXIT, Factor, GUARD, HOSTS, MIDDLES, MODES, Nodes, SERVER};
use penstock_live::clock::Clock;
use penstock_testbed::site::Site;
use penstock_units::{Instant, Seed};
use relays::quantile;
use shared::{Options, has_tor};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use testnet::place::Place;
use users::{Download, VISITS};

/// The loads: the name, the factor of the low load, and whether onion services are measured.
const LOADS: [(&str, u32, bool); 3] = [("low", 1, false), ("high", 2, false), ("onion", 2, true)];
/// The measured downloads of each client in each load.
const DOWNLOADS: u32 = 5;
const DOWNLOAD_COLUMNS: &str = "factor,round,load,mode,client,number,connected_s,first_byte_s,last_byte_s";
const ROUND_COLUMNS: &str = "factor,round,load,mode,middle_mbit,guard_mbit,exit_mbit,late_p99_ms,\
                             late_max_ms,unseen,machine_load,station,waits,mean_ms,median_ms,p95_ms";

/// The results of one load.
struct Phase {
    name: &'static str,
    start: Instant,
    end: Instant,
    downloads: Vec<Download>,
    /// Rates at which the middle relays, the guard and the exit sent [B/s].
    sent: [f64; 4],
    /// Runnable processes of the machine, averaged over the last minute [1].
    machine_load: f64,
}

fn main() -> ExitCode {
    let (mut out, mut round, mut factor, mut short) = (None::<PathBuf>, 1, "none".to_owned(), false);
    let options = Options::parse(1, |name, parser| {
        match name {
            "out" => out = Some(parser.value()?.into()),
            "round" => round = parser.value()?.parse()?,
            "factor" => factor = parser.value()?.string()?,
            "short" => short = true,
            _ => return Ok(false),
        }
        Ok(true)
    });
    let result = options.map_err(|error| error.to_string()).and_then(|_| {
        let out = out.ok_or("write --out and the name of a folder")?;
        let factor = Factor::named(&factor).ok_or("--factor is none, exit, bucket or uplink")?;
        run(&out, round, factor, short)
    });
    shared::exit("priorities", result)
}

fn run(out: &Path, round: u64, factor: Factor, short: bool) -> Result<(), String> {
    if !has_tor() {
        return Ok(());
    }
    // The emulated network is created first, because only a process with one thread can enter new namespaces.
    let site = Arc::new(network::emulated(factor).map_err(|error| error.to_string())?);
    let places = relays::places(&site, HOSTS);
    let folder = std::env::temp_dir().join(format!("penstock-priorities-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
    let records = [0, 1].map(|at| folder.join(format!("record{at}")));
    let phases = measure(&places, &folder, records.each_ref().map(PathBuf::as_path), round, factor, short);
    drop(places);
    let site: Site = Arc::into_inner(site).expect("all nodes have ended");
    let emulation = site.close().map_err(|error| error.to_string())?;
    let cells = records.each_ref().map(|record| waits::cells(record));
    let late = [0.99, 1.0].map(|part| emulation.report.lateness.quantile(part).as_secs_f64() * 1e3);
    let accuracy = format!("{:.3},{:.3},{}", late[0], late[1], emulation.unseen);
    println!("round {round}: 99 % of the packets were at most {:.3} ms late", late[0]);
    let end = phases.iter().map(|phase| phase.end).max().unwrap_or(Instant::ZERO);
    let (mut downloads, mut rounds) = (Vec::new(), Vec::new());
    for phase in &phases {
        downloads.extend(phase.downloads.iter().map(|download| download_row(phase.name, download)));
        for (middle, (mode, _)) in MODES.into_iter().enumerate() {
            let [start, stop] = [phase.start, phase.end].map(|time| end.since(time));
            let all = waits::between(&cells[middle], start, stop);
            for (station, waits) in waits::STATIONS.into_iter().zip(&all) {
                let [sent, guard, exit] =
                    [phase.sent[middle], phase.sent[2], phase.sent[3]].map(|rate| rate * 8e-6);
                let mean = waits.iter().sum::<f64>() / waits.len() as f64 * 1e3;
                let [median, high] = [0.5, 0.95].map(|part| quantile(waits, part) * 1e3);
                rounds.push(format!(
                    "{},{mode},{sent:.2},{guard:.2},{exit:.2},{accuracy},{:.2},{station},{},{mean:.3},{median:.3},{high:.3}",
                    phase.name,
                    phase.machine_load,
                    waits.len()
                ));
            }
        }
    }
    let _ = fs::remove_dir_all(&folder);
    let key = format!("{},{round}", factor.name());
    let add = |file: &str, head, rows: &[String]| {
        let path = out.join(file);
        tables::add(&path, head, &key, rows).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(out).map_err(|error| format!("--out {}: {error}", out.display()))?;
    add("live-downloads.csv", DOWNLOAD_COLUMNS, &downloads)?;
    add("live-rounds.csv", ROUND_COLUMNS, &rounds)
}

fn download_row(load: &str, download: &Download) -> String {
    let Download { middle, client, number, times } = download;
    let times = times.map_or_else(
        || ",,".to_owned(),
        |times| format!("{:.4},{:.4},{:.4}", times.connected, times.first_byte, times.last_byte),
    );
    format!("{load},{},{client},{number},{times}", MODES[*middle].0)
}

/// Applies each load to both middle relays.
fn measure(
    places: &[Place],
    folder: &Path,
    records: [&Path; 2],
    round: u64,
    factor: Factor,
    short: bool,
) -> Vec<Phase> {
    let (server, ends) = places[SERVER].run(|| exchange::server_at(places[SERVER].address));
    drop(ends);
    // The middle relays exchange their hosts in each round.
    let hosts = if round.is_multiple_of(2) { [MIDDLES[1], MIDDLES[0]] } else { MIDDLES };
    let nodes = Nodes::start(places, hosts, records, folder, server, factor);
    let has_onions = factor == Factor::None;
    if has_onions {
        places[CLIENT].run(|| nodes.await_services());
    }
    let clock = Clock::start();
    let seed = Seed(round);
    let senders = [hosts[0], hosts[1], GUARD, EXIT];
    let sent = || senders.map(|host| places[host].run(star::sent_bytes));
    let [downloads, visits] = if short { [1, 1] } else { [DOWNLOADS, VISITS] };
    let phases = LOADS
        .into_iter()
        .filter(|(_, _, is_onion)| has_onions || !is_onion)
        .map(|(name, factor, is_onion)| {
            let (before, start) = (sent(), clock.now());
            let users = users::load(&nodes.clients, seed, name, factor);
            let work = || {
                if is_onion {
                    users::visit_services(&nodes.visitors, &nodes.services, visits)
                } else {
                    users::fetch_files(&nodes.clients, server, name, downloads)
                }
            };
            let mut end = start;
            let downloads = places[CLIENT].run(|| {
                load::during(users, server, || {
                    let downloads = work();
                    end = clock.now();
                    downloads
                })
            });
            let after = sent();
            let rate = |at: usize| (after[at] - before[at]) as f64 / end.since(start).as_secs_f64();
            Phase { name, start, end, downloads, sent: [0, 1, 2, 3].map(rate), machine_load: machine_load() }
        })
        .collect();
    for middle in &nodes.middles {
        relays::end(middle.process(), middle.process());
    }
    phases
}

/// The first number of `/proc/loadavg`.
fn machine_load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").expect("Linux has this file");
    text.split(' ').next().and_then(|number| number.parse().ok()).expect("the file begins with a number")
}
