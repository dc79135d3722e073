//! Measures the cost of packets and cells in five cases: one TCP flow, one flow over a relay, very many connections, a
//! small network, and the small network with each scheduler.
//!
//! `cargo run --release -p penstock-sim --example bench [-- REPEATS]`, also as `make bench`. Each measurement has its
//! own process, so its peak memory does not include the others. If valgrind is installed, the bench also counts
//! instructions. `docs/explanation/performance.md` explains the numbers.
//!
//! `-- --network FILE VARIANT [KEY=VALUE]...` measures a scenario after its warm-up, and compares its load with Tor's.
//! With THREADS=N in the environment, the run uses N threads. `make bench-network` measures networks of several sizes.

mod network;

use penstock_scenario::Document;
use penstock_sim::Control;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the heap and the allocations.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

impl Counting {
    fn grown(bytes: usize) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
}

#[allow(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: everything is the system allocator's; we only count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::grown(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        Counting::grown(size);
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// The measured schedulers. Vanilla, the baseline, is first.
const SCHEDULERS: [&str; 6] = [
    "'vanilla'",
    "'global'",
    "'kist'",
    "'kist-deployed'",
    "{ kind = 'kist-deployed', interval = '2 ms' }",
    "'kist-lite'",
];

/// Runs one network in this process and prints the measured numbers.
#[allow(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn measure(world: &str, sets: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let (name, one_by_one) = world.split_once('+').map_or((world, false), |(name, _)| (name, true));
    let text = match name {
        "plain" => include_str!("plain.toml"),
        "crowd" => include_str!("crowd.toml"),
        "flow" => include_str!("flow.toml"),
        _ => include_str!("smoke.toml"),
    };
    let control = if one_by_one { Control::one_by_one() } else { Control::new() };
    let document = Document::parse(text, world, sets)?;
    let scenario = document.scenario("default")?;
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    let begun = std::time::Instant::now();
    let outcome = penstock_sim::run(scenario, 1, &control)?;
    let wall = begun.elapsed().as_secs_f64();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    let stats = outcome.stats;
    let written = stats.cells * 512;
    let delivered: u64 = outcome.nodes.iter().map(|node| node.counters.data_delivered).sum();
    // A lower bound of cells on every hop, and of their bytes from the server in full segments.
    let plain: i64 = outcome.tables.transfers.iter().map(|row| row.bytes_received as i64).sum();
    let plain = if name == "plain" || name == "crowd" { plain as u64 } else { 0 };
    let segments = (written + delivered * 498 + plain) / 1448;
    let downloads = outcome.tables.transfers.iter().filter(|row| row.ttlb_s.is_some()).count();
    let numbers = [
        wall,
        cpu_seconds(),
        stats.sim_seconds,
        stats.events as f64,
        stats.packets as f64,
        stats.cells as f64,
        written as f64,
        downloads as f64,
        allocations as f64,
        PEAK.load(Ordering::Relaxed) as f64,
        peak_rss() as f64,
        segments as f64,
    ];
    println!("{}", numbers.map(|number| number.to_string()).join(" "));
    Ok(())
}

/// Processor time of this process on all cores [s]; 0 on a system without /proc.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Peak memory of this process [B]; 0 on a system without /proc.
fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The median of each measured number over several runs. Each run has its own process.
fn medians(world: &str, sets: &[&str], repeats: usize) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let mut runs: Vec<Vec<f64>> = Vec::new();
    for _ in 0..repeats {
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["--world", world])
            .args(sets)
            .output()?;
        let numbers: Result<_, _> =
            String::from_utf8(child.stdout)?.split_whitespace().map(str::parse).collect();
        runs.push(numbers?);
    }
    let columns = runs.first().map_or(0, Vec::len);
    let median = |column: usize| {
        let mut values: Vec<f64> = runs.iter().map(|run| run[column]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok((0..columns).map(median).collect())
}

/// Valgrind's counts for a run of `seconds` [instructions, packets, data segments, cells].
fn counted(world: &str, sets: &[String], seconds: u32) -> Option<[f64; 4]> {
    let child = std::process::Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["--world", world, &format!("run.duration=\"{seconds} s\"")])
        .args(sets)
        .output()
        .ok()?;
    let said = String::from_utf8(child.stderr).ok()?;
    let line = said.lines().find(|line| line.contains("refs:"))?;
    let instructions = line.rsplit(' ').next()?.replace(',', "").parse().ok()?;
    let numbers: Vec<f64> =
        String::from_utf8(child.stdout).ok()?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some([instructions, *numbers.get(4)?, *numbers.get(11)?, *numbers.get(5)?])
}

/// Prints the number of instructions between two times of a run. This excludes the start of the run.
fn report_instructions(world: &str, sets: &[String], from: u32, until: u32) {
    let (Some(first), Some(second)) = (counted(world, sets, from), counted(world, sets, until)) else {
        return println!("  no instructions counted: valgrind is missing");
    };
    let [instructions, packets, segments, cells] = std::array::from_fn(|i| second[i] - first[i]);
    let each = [("packet", packets), ("data segment", segments), ("cell-write", cells)];
    let each = each.iter().filter(|(_, count)| *count > 1000.0);
    let each: Vec<String> =
        each.map(|(name, count)| format!("{:.0} a {name}", instructions / count)).collect();
    println!("  instructions: {}", each.join(", "));
}

fn report(title: &str, numbers: &[f64]) {
    let [wall, cpu, simulated, events, packets, cells, written, downloads, allocations, heap, rss, segments] =
        numbers
    else {
        return println!("{title}: the run failed");
    };
    let mib = 1024.0 * 1024.0;
    // Processor time is less affected by other programs.
    let core = if *cpu > 0.0 { cpu } else { wall };
    println!("{title}");
    println!(
        "  {simulated:.0} s simulated in {cpu:.2} s of a core ({wall:.2} s on the clock): {:.2} x real time",
        simulated / core
    );
    let rate = |count: &f64| count / core / 1e6;
    println!(
        "  {:.3} M packets/s ({:.3} M data segments at least), {:.3} M cell-writes/s, {:.3} M events/s",
        rate(packets),
        rate(segments),
        rate(cells),
        rate(events)
    );
    let nanos = |count: &f64| core / count * 1e9;
    println!("  {:.0} ns a packet, {:.0} ns an event", nanos(packets), nanos(events));
    println!(
        "  {:.3} allocations a packet; peak heap {:.1} MiB, peak RSS {:.1} MiB",
        allocations / packets,
        heap / mib,
        rss / mib
    );
    if *cells < 1000.0 {
        return;
    }
    println!("  {:.0} ns a cell-write", nanos(cells));
    println!(
        "  {:.2} events, {:.2} packets and {:.3} allocations a cell-write",
        events / cells,
        packets / cells,
        allocations / cells
    );
    println!(
        "  load: {:.1} MiB/s of cells written by all nodes, {downloads:.0} downloads complete",
        written / mib / simulated
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (flag, rest) = args.split_first().map_or(("", &args[..]), |(flag, rest)| (flag.as_str(), rest));
    match (flag, rest) {
        ("--network-here", [file, variant, sets @ ..]) => return network::print(file, variant, sets),
        ("--network-json", [file, variant, sets @ ..]) => return network::print_json(file, variant, sets),
        ("--network", [_, _, ..]) => return network::print_counted(rest),
        ("--world", [world, sets @ ..]) => return measure(world, sets),
        ("--count", [world, from, until, sets @ ..]) => {
            report_instructions(world, sets, from.parse()?, until.parse()?);
            return Ok(());
        }
        _ => {}
    }
    let repeats = args.first().map_or(Ok(3), |repeats| repeats.parse())?;
    println!("medians of {repeats} runs, one core each");
    report("one TCP flow without Tor, hosts running ahead", &medians("plain", &[], repeats)?);
    report_instructions("plain", &[], 2, 6);
    report("the same, one event at a time", &medians("plain+single", &[], repeats)?);
    report("50,000 connections without Tor", &medians("crowd", &[], repeats)?);
    report(
        "one bulk flow: server to exit in segments, exit to client in cells",
        &medians("flow", &[], repeats)?,
    );
    report_instructions("flow", &[], 2, 6);
    report(
        "a smoke network: 500 relays, 1800 web and 200 bulk clients, 20 servers",
        &medians("smoke", &[], repeats)?,
    );
    report_instructions("smoke", &[], 3, 4);
    for scheduler in SCHEDULERS {
        let set = format!("relay={{ circuit_policy = 'ewma', scheduler = {scheduler} }}");
        report(&format!("the same with EWMA and {scheduler}"), &medians("smoke", &[&set], repeats)?);
    }
    Ok(())
}
