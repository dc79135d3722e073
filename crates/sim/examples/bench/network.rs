//! Measures a scenario after its warm-up.

use crate::{NOW, PEAK, cpu_seconds, peak_rss};
use penstock_scenario::Document;
use penstock_sim::Control;
use std::error::Error;
use std::fmt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rate at which all of Tor's relays wrote in July 2013 [MiB/s] (KIST section 5.3 and figure 8).
const LOAD: std::ops::RangeInclusive<f64> = 650.0..=800.0;
const RELAYS_OF_TOR: f64 = 3600.0;

/// Median time to the first byte in a Tor network with sequential writes [s] (KIST figure 7a).
const FIRST_BYTE: std::ops::RangeInclusive<f64> = 0.6..=1.1;

const MIB: f64 = 1024.0 * 1024.0;

/// The cost of a run after its warm-up.
struct Measured {
    threads: usize,
    relays: usize,
    clients: usize,
    hosts: usize,
    /// The simulated time at the end of the warm-up, and from then to the end [s].
    warmup: f64,
    simulated: f64,
    /// Processor time of all threads, and elapsed time [s].
    cpu: f64,
    wall: f64,
    /// Cell-writes of relays.
    cells: u64,
    /// Events and packets of the whole run for each cell-write of any node.
    events_per_cell: f64,
    packets_per_cell: f64,
    /// The rate at which relays write [MiB/s].
    load: f64,
    /// The median time to the first byte [s].
    first_byte: f64,
    /// The peak heap, and the heap before the run [B].
    peak_heap: usize,
    heap_before: usize,
    /// Connections at the end.
    connections: usize,
    balance: f64,
}

/// Measures a scenario with network seed 1 in this process. THREADS in the environment is the number of threads.
#[allow(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn measured(file: &str, variant: &str, sets: &[String]) -> Result<Measured, Box<dyn Error>> {
    let document = Document::parse(&std::fs::read_to_string(file)?, file, sets)?;
    let scenario = document.scenario(variant)?;
    let heap_before = NOW.load(Ordering::Relaxed);
    let warmup = scenario.run.warmup.as_secs_f64();
    let threads = std::env::var("THREADS").map_or(Ok(1), |threads| threads.parse())?;
    let (control, begun) = (Control::new().with_threads(threads), std::time::Instant::now());
    let is_over = AtomicBool::new(false);
    let (outcome, started) = std::thread::scope(|scope| {
        // End of the warm-up: simulated seconds, processor seconds and clock seconds.
        let watch = scope.spawn(|| {
            while control.progress().0 < warmup && !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            [control.progress().0, cpu_seconds(), begun.elapsed().as_secs_f64()]
        });
        let outcome = penstock_sim::run_in(scenario, 1, 1, &control);
        is_over.store(true, Ordering::Relaxed);
        (outcome, watch.join().expect("it only reads clocks"))
    });
    let (outcome, [warmup, cpu, wall]) = (outcome?, started);
    let (cpu, wall) = (cpu_seconds() - cpu, begun.elapsed().as_secs_f64() - wall);
    let stats = outcome.stats;
    let simulated = stats.sim_seconds - warmup;
    let rows = || outcome.tables.relays.iter().filter(|row| row.t_s > warmup);
    let mut first: Vec<f64> =
        outcome.tables.transfers.iter().filter(|row| !row.warmup).filter_map(|row| row.ttfb_s).collect();
    first.sort_by(f64::total_cmp);
    Ok(Measured {
        threads,
        relays: scenario.relays.len(),
        clients: scenario.clients.len(),
        hosts: scenario.relays.len() + scenario.clients.len() + scenario.servers.len(),
        warmup,
        simulated,
        cpu,
        wall,
        cells: rows().map(|row| row.written_cells).sum(),
        events_per_cell: stats.events as f64 / stats.cells as f64,
        packets_per_cell: stats.packets as f64 / stats.cells as f64,
        load: rows().map(|row| row.written_bytes).sum::<u64>() as f64 / MIB / simulated,
        first_byte: first.get(first.len() / 2).copied().unwrap_or(f64::NAN),
        peak_heap: PEAK.load(Ordering::Relaxed),
        heap_before,
        connections: outcome.network.connections,
        balance: outcome.balance,
    })
}

impl Measured {
    /// The rate at which the relays of a network of Tor's size would write [MiB/s].
    fn scaled_load(&self) -> f64 {
        self.load * RELAYS_OF_TOR / self.relays as f64
    }

    /// The numbers as one object of JSON.
    fn json(&self) -> String {
        let numbers = [
            ("threads", self.threads as f64),
            ("relays", self.relays as f64),
            ("clients", self.clients as f64),
            ("hosts", self.hosts as f64),
            ("warmup_s", self.warmup),
            ("simulated_s", self.simulated),
            ("cpu_s", self.cpu),
            ("wall_s", self.wall),
            ("cell_writes", self.cells as f64),
            ("load_mib_s", self.scaled_load()),
            ("peak_heap_bytes", self.peak_heap as f64),
            ("connections", self.connections as f64),
            ("balance", self.balance),
        ];
        let fields = numbers.map(|(name, number)| format!("\"{name}\": {}", (number * 1e3).round() / 1e3));
        format!("{{{}}}", fields.join(", "))
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} relays, {} clients, {} hosts", self.relays, self.clients, self.hosts)?;
        writeln!(
            f,
            "  after a warm-up of {:.0} s, {:.0} s in {:.1} s of a core ({:.1} s on the clock): {:.2} x real time",
            self.warmup,
            self.simulated,
            self.cpu,
            self.wall,
            self.simulated / self.cpu
        )?;
        let cells = self.cells as f64;
        writeln!(
            f,
            "  {:.3} M cell-writes of relays a second, {:.3} us each; {:.2} events and {:.2} packets for each of all cell-writes",
            cells / self.cpu / 1e6,
            self.cpu / cells * 1e6,
            self.events_per_cell,
            self.packets_per_cell
        )?;
        writeln!(
            f,
            "  peak heap {:.1} MiB, {:.1} KiB a host, {:.1} MiB of it before the run; peak RSS {:.1} MiB; {} connections at the end",
            self.peak_heap as f64 / MIB,
            self.peak_heap as f64 / 1024.0 / self.hosts as f64,
            self.heap_before as f64 / MIB,
            peak_rss() as f64 / MIB,
            self.connections
        )?;
        let (load, scaled, first) = (self.load, self.scaled_load(), self.first_byte);
        writeln!(
            f,
            "  load: relays write {load:.1} MiB/s, {scaled:.0} scaled to {RELAYS_OF_TOR} of them; first byte after {first:.2} s"
        )?;
        if self.threads > 1 {
            writeln!(f, "  balance in events: {:.2} of {} threads", self.balance, self.threads)?;
        }
        if !LOAD.contains(&scaled) || !FIRST_BYTE.contains(&first) || self.warmup < 300.0 {
            writeln!(
                f,
                "  this does not count: that takes 5 minutes of warm-up, {} to {} MiB/s (scaled) and, with sequential writes, {} to {} s",
                LOAD.start(),
                LOAD.end(),
                FIRST_BYTE.start(),
                FIRST_BYTE.end()
            )?;
        }
        Ok(())
    }
}

/// Measures a scenario in this process, and prints the result for a reader.
pub(crate) fn print(file: &str, variant: &str, sets: &[String]) -> Result<(), Box<dyn Error>> {
    print!("{file}, {variant}: {}", measured(file, variant, sets)?);
    Ok(())
}

/// Measures a scenario in this process, and prints the result for `benches/networks.py`.
pub(crate) fn print_json(file: &str, variant: &str, sets: &[String]) -> Result<(), Box<dyn Error>> {
    println!("{}", measured(file, variant, sets)?.json());
    Ok(())
}

/// Runs a scenario in its own process. If perf works on this machine, it counts instructions and cache misses.
pub(crate) fn print_counted(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x", ",", "-e", "instructions:u,cache-misses:u"]).arg(&this);
    let counted = perf.arg("--network-here").args(arguments).output();
    let Some(output) = counted.ok().filter(|output| output.status.success()) else {
        Command::new(this).arg("--network-here").args(arguments).status()?;
        println!("  no instructions and cache misses counted: perf is missing");
        return Ok(());
    };
    print!("{}", String::from_utf8_lossy(&output.stdout));
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let fields: Vec<&str> = line.split(',').collect();
        if let [count, _, event, ..] = fields.as_slice() {
            match count.parse::<f64>() {
                Ok(count) => println!("  {event} of the whole run: {:.3} G", count / 1e9),
                Err(_) => println!("  {event}: not counted on this machine"),
            }
        }
    }
    Ok(())
}
