//! Nodes of ours on loopback, and a client by hand: circuits of three hops, and what comes through them.

mod common;

use common::{Client, Running, pattern, serve};
use penstock_core::scheduler::{
    GlobalConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
};

fn downloads(scheduler: &SchedulerConfig) {
    let nodes: [Running; 3] = std::array::from_fn(|_| Running::start(scheduler.clone()));
    let path: Vec<_> = nodes.iter().map(Running::hop).collect();
    for hops in 1..=3 {
        let mut client = Client::connect(&path[0].0);
        client.build(&path[..hops]);
        for (number, bytes) in (1..).zip([0, 1, 498, 10_000, 1_000_000]) {
            let came = client.download(serve(bytes), number);
            assert!(came == pattern(bytes), "{hops} hops, {bytes} B, {scheduler:?}: {} came", came.len());
        }
    }
}

#[test]
fn what_comes_over_three_nodes_is_what_was_sent() {
    downloads(&SchedulerConfig::default());
}

#[test]
fn so_it_is_with_every_scheduler() {
    let kinds = [
        SchedulerConfig::Global(GlobalConfig::default()),
        SchedulerConfig::Kist(KistConfig::default()),
        SchedulerConfig::KistDeployed(KistDeployedConfig::default()),
        SchedulerConfig::KistLite(KistLiteConfig::default()),
    ];
    kinds.iter().for_each(downloads);
}
