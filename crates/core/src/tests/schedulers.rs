//! Every scheduler on a path (K-30 to K-35).

use super::util::{Link, Net};
use crate::RelayConfig;
use crate::circuit_policy::{CircuitPolicyConfig, ConnectionConfig, EwmaConfig, Flush, PriorityClass, Share};
use crate::config::{Bandwidth, Refill};
use crate::scheduler::{
    GlobalConfig, GlobalLimitConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
};
use penstock_units::{Bytes, DataRate, Duration};

/// All built-in schedulers, vanilla first.
pub(super) fn schedulers() -> [SchedulerConfig; 7] {
    let kist = |global_limit| SchedulerConfig::Kist(KistConfig { global_limit, ..KistConfig::default() });
    [
        SchedulerConfig::default(),
        SchedulerConfig::Global(GlobalConfig::default()),
        kist(GlobalLimitConfig::Drained),
        kist(GlobalLimitConfig::Rate { fill: Duration::from_millis(10), known: None }),
        kist(GlobalLimitConfig::Measured),
        SchedulerConfig::KistDeployed(KistDeployedConfig::default()),
        SchedulerConfig::KistLite(KistLiteConfig::default()),
    ]
}

/// Uploads and downloads with small buffers, a slow link after the first relay and a rate limit at
/// the second relay.
#[test]
fn every_scheduler_carries_all_data_and_becomes_idle() {
    let ewma = EwmaConfig { flush: Flush::Queue, ..EwmaConfig::default() };
    let policies = [CircuitPolicyConfig::RoundRobin, CircuitPolicyConfig::EwmaHeap(ewma)];
    for (scheduler, circuit_policy) in
        schedulers().into_iter().flat_map(|each| policies.clone().map(|policy| (each.clone(), policy)))
    {
        let config = RelayConfig { scheduler, circuit_policy, ..RelayConfig::default() };
        let bandwidth = Some(Bandwidth { rate: DataRate::kib(200), burst: Bytes::kib(50) });
        let refill =
            Refill { interval: Duration::from_millis(100), phase: Duration::from_millis(7), unblock: None };
        let mut net = Net::path(3, &config);
        net.configure(2, RelayConfig { bandwidth, refill, ..config.clone() });
        net.set_link(0, 1, Link { rate: DataRate::kib(100), send_buffer: 2 << 10, ..Link::default() });
        let circuits = [0; 2].map(|_| net.build(0, &[1, 2, 3]));
        for circuit in circuits {
            (0..2).for_each(|_| {
                net.transfer(0, circuit, 200_000, 100_000);
            });
        }
        net.drive();
        assert!((0..net.transfers()).all(|at| net.at(at).is_complete()), "{config:?}");
        assert!(
            net.nodes.iter().all(|node| node.relay.poll_timeout().is_none()),
            "no node has a timer: {config:?}"
        );
    }
}

/// The bytes that two clients receive in 20 s through a middle relay with a slow link. The second client's circuit has
/// the worse class. The two circuits share the entry and the middle, or only the middle.
fn shares(scheduler: &SchedulerConfig, shared: bool) -> [u64; 2] {
    let ewma = EwmaConfig { half_life: Duration::from_secs(5), ..EwmaConfig::default() };
    let circuit_policy = CircuitPolicyConfig::EwmaHeap(ewma);
    let mut net = Net::path(5, &RelayConfig::default());
    net.configure(2, RelayConfig { circuit_policy, scheduler: scheduler.clone(), ..RelayConfig::default() });
    let worse = net.add(true, RelayConfig { priority_class: PriorityClass::Worse, ..RelayConfig::default() });
    if shared {
        net.set_link(1, 2, Link { rate: DataRate::kib(100), send_buffer: 8 << 10, ..Link::default() });
    }
    let transfers = [(0, 1, 3), (worse, if shared { 1 } else { 4 }, 5)].map(|(client, entry, exit)| {
        let circuit = net.build(client, &[entry, 2, exit]);
        [0; 3].map(|_| net.transfer(client, circuit, 10_000_000, 0))
    });
    let received =
        |net: &Net| transfers.map(|all| all.map(|at| net.at(at).download.received).into_iter().sum::<u64>());
    net.drive_for(Duration::from_secs(5));
    let before = received(&net);
    net.drive_for(Duration::from_secs(20));
    let after = received(&net);
    [after[0] - before[0], after[1] - before[1]]
}

/// K-38: a cell of the worse class counts as ten cells, so the class gets a tenth of the throughput
/// of the better class.
#[test]
fn every_scheduler_separates_classes_on_a_shared_socket() {
    for scheduler in schedulers() {
        let [better, worse] = shares(&scheduler, true);
        let ratio = better as f64 / worse as f64;
        assert!((8.0..12.0).contains(&ratio), "{scheduler:?}: {better} and {worse}");
        assert!((1_800_000..2_100_000).contains(&(better + worse)), "{scheduler:?}: the link is fully used");
    }
}

/// KIST's global limit is the bottleneck. KIST then serves the best circuit of the relay, on any
/// channel.
#[test]
fn kist_separates_classes_on_separate_sockets() {
    let known = Some(DataRate::kib(100));
    let global_limit = GlobalLimitConfig::Rate { fill: Duration::from_millis(10), known };
    let kist = SchedulerConfig::Kist(KistConfig { global_limit, ..KistConfig::default() });
    let [better, worse] = shares(&kist, false);
    let ratio = better as f64 / worse as f64;
    assert!((8.0..12.0).contains(&ratio), "{better} and {worse}");
    assert!(
        (1_800_000..2_100_000).contains(&(better + worse)),
        "the global limit is fully used: {better} and {worse}"
    );
}

/// The bytes that two clients receive in 20 s through a guard with a global limit. The first client has three circuits
/// on its connection, and the second one has one.
fn shares_of_clients(circuit_policy: CircuitPolicyConfig) -> [u64; 2] {
    let known = Some(DataRate::kib(100));
    let global_limit = GlobalLimitConfig::Rate { fill: Duration::from_millis(10), known };
    let scheduler = SchedulerConfig::Kist(KistConfig { global_limit, ..KistConfig::default() });
    let mut net = Net::path(2, &RelayConfig::default());
    net.configure(1, RelayConfig { circuit_policy, scheduler, ..RelayConfig::default() });
    let other = net.add(true, RelayConfig::default());
    let transfers = [(0, 3), (other, 1)].map(|(client, circuits)| -> Vec<usize> {
        let transfer = |_| {
            let circuit = net.build(client, &[1, 2]);
            net.transfer(client, circuit, 10_000_000, 0)
        };
        (0..circuits).map(transfer).collect()
    });
    net.drive_for(Duration::from_secs(20));
    transfers.map(|all| all.iter().map(|at| net.at(*at).download.received).sum())
}

/// E-44: EWMA ranks circuits, so three circuits get three shares. Ranked by connection, they get one.
#[test]
fn a_connection_gets_one_share_or_one_for_each_circuit() {
    let connection = |share| {
        CircuitPolicyConfig::EwmaConnection(ConnectionConfig { share, ..ConnectionConfig::default() })
    };
    for (policy, expected) in [
        (CircuitPolicyConfig::EwmaHeap(EwmaConfig::default()), 3.0),
        (connection(Share::Circuit), 3.0),
        (connection(Share::Connection), 1.0),
    ] {
        let [many, one] = shares_of_clients(policy.clone());
        let ratio = many as f64 / one as f64;
        assert!((ratio / expected - 1.0).abs() < 0.15, "{policy:?}: {many} and {one}");
        assert!(many + one > 1_700_000, "the limit is fully used: {many} and {one}");
    }
}
