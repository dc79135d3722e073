//! Runs a paper's scenario with two external algorithms, and compares them with stock Tor.

mod least_sent;
mod short_queues;

use least_sent::LeastSent;
use penstock_core::circuit_policy::{CircuitPolicy, CircuitPolicyConfig};
use penstock_core::scheduler::{Scheduler, SchedulerConfig};
use penstock_core::{Factory, RelayConfig};
use penstock_scenario::Document;
use penstock_sim::Control;
use penstock_units::Bytes;
use short_queues::ShortQueues;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("the scenario's file is missing")?;
    let sets = ["run.stop.downloads=20", "trace.workloads=[]"].map(str::to_owned);
    let document = Document::parse(&std::fs::read_to_string(&file)?, &file, &sets)?;

    println!("relays        web TTFB  web download  bulk download");
    let both = |config: &mut RelayConfig| {
        least_sent(config);
        short_queues(config);
    };
    type Change<'a> = &'a dyn Fn(&mut RelayConfig);
    let rows: [(&str, Change); 4] =
        [("stock", &|_| ()), ("least sent", &least_sent), ("short queues", &short_queues), ("both", &both)];
    for (name, change) in rows {
        let mut scenario = document.scenario("stock")?.clone();
        for relay in &mut scenario.relays {
            // Relays of a group share a configuration. `make_mut` copies it for the changed relay.
            change(Arc::make_mut(&mut relay.config));
        }
        let seed = 1;
        let transfers = penstock_sim::run(&scenario, seed, &Control::new())?.tables.transfers;
        let of = |workload| transfers.iter().filter(move |transfer| &*transfer.workload == workload);
        let ttfb = median(of("web").filter_map(|transfer| transfer.ttfb_s));
        let [web, bulk] = ["web", "bulk"].map(|name| median(of(name).filter_map(|transfer| transfer.ttlb_s)));
        println!("{name:<12}  {ttfb:6.2} s  {web:10.1} s  {bulk:11.1} s");
    }
    Ok(())
}

/// Each channel of a relay gets its own policy from the factory.
fn least_sent(config: &mut RelayConfig) {
    config.circuit_policy =
        CircuitPolicyConfig::Custom(Factory::<dyn CircuitPolicy>::new(|| Box::new(LeastSent::default())));
}

/// Each relay gets its own scheduler from the factory. The closure keeps the parameter.
fn short_queues(config: &mut RelayConfig) {
    let most = Bytes::kib(8);
    config.scheduler =
        SchedulerConfig::Custom(Factory::<dyn Scheduler>::new(move || Box::new(ShortQueues::new(most))));
}

/// The median of `values`. Of an even number of values, the lower one of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len().saturating_sub(1) / 2]
}
