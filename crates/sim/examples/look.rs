//! Runs one variant of a scenario file and prints the downloads of its clients.
//!
//! `cargo run --release -p penstock-sim --example look -- FILE VARIANT SEED [KEY=VALUE]...`

use penstock_sim::Control;

fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(((values.len() as f64 - 1.0) * q) as usize).copied().unwrap_or(f64::NAN)
}

#[allow(clippy::disallowed_methods, reason = "an example is no part of the simulator")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, variant, seed, sets @ ..] = args.as_slice() else { return Err("FILE VARIANT SEED".into()) };
    let document = penstock_scenario::Document::parse(&std::fs::read_to_string(file)?, file, sets)?;
    let scenario = document.scenario(variant)?;
    let begun = std::time::Instant::now();
    let outcome = penstock_sim::run(scenario, seed.parse()?, &Control::new())?;
    let wall = begun.elapsed().as_secs_f64();
    let stats = outcome.stats;
    println!(
        "{:.1} s simulated in {wall:.2} s; {} events, {} packets ({:.2} M/s), {} cells",
        stats.sim_seconds,
        stats.events,
        stats.packets,
        stats.packets as f64 / wall / 1e6,
        stats.cells
    );
    for node in &outcome.nodes {
        println!("{}: {:?}", node.name, node.counters);
    }
    for workload in &scenario.workloads {
        let rows: Vec<_> =
            outcome.tables.transfers.iter().filter(|row| *row.workload == workload.name).collect();
        let mut ttfb: Vec<f64> = rows.iter().filter_map(|row| row.ttfb_s).collect();
        let mut ttlb: Vec<f64> = rows.iter().filter_map(|row| row.ttlb_s).collect();
        println!(
            "{}: {} rows, {} complete; ttfb {:.3} [{:.3}] ttlb {:.3} [{:.3}]",
            workload.name,
            rows.len(),
            ttlb.len(),
            quantile(&mut ttfb, 0.5),
            quantile(&mut ttfb, 0.9),
            quantile(&mut ttlb, 0.5),
            quantile(&mut ttlb, 0.9),
        );
    }
    let queue = outcome.tables.circuits.iter().filter(|row| row.hop == penstock_record::Position::Exit);
    for workload in ["web", "bulk"] {
        let most = queue.clone().filter(|row| &*row.workload == workload).map(|row| row.queue_cells).max();
        println!("{workload}: longest queue at the exit {most:?}");
    }
    println!("{:?}", &outcome.tables.paths[..outcome.tables.paths.len().min(3)]);
    Ok(())
}
