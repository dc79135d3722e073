//! Random operations in random order: the relays do not panic, they conserve cells, and open
//! circuits deliver their cells.
//!
//! `util` checks G-02 after every call and G-01 for every byte.

use super::cell::{TestCell, TestHandshake};
use super::host::Side;
use super::schedulers::schedulers;
use super::util::{Impairments, Net};
use crate::cell::{Cell, CircId, Command};
use crate::config::{Bandwidth, Refill};
use crate::datagram::{DatagramConfig, Downstream, Message};
use crate::edge_control::{DctcpConfig, EdgeControlConfig, Ends, TimelyConfig, VegasConfig, WindowsConfig};
use crate::hop_control::{
    AdaptConfig, BackTapConfig, Counts, CreditPath, HopControlConfig, MarutConfig, N23Config,
};
use crate::reason::{DestroyReason, EndReason};
use crate::scheduler::SchedulerConfig;
use crate::throttle::{
    Aggregate, BitSplittingConfig, ClientBuckets, FlaggingConfig, StaticRateConfig, ThresholdConfig,
    ThrottleConfig,
};
use crate::{CircuitIndex, RelayConfig};
use penstock_units::{Bytes, DataRate, Duration, Seed};
use proptest::prelude::*;
use std::num::NonZeroU32;

/// An operation of a user, a peer or the network. The numbers choose among existing objects.
#[derive(Clone, Debug)]
enum Operation {
    /// A client opens a circuit over three relays.
    Build {
        client: usize,
        path: usize,
    },
    /// A client opens a stream on one of its circuits.
    Open {
        circuit: usize,
        download: u64,
        upload: u64,
    },
    CloseStream(usize),
    /// A node of the path closes the circuit.
    CloseCircuit {
        circuit: usize,
        node: usize,
    },
    Stall {
        transfer: usize,
        server: bool,
    },
    Resume {
        transfer: usize,
        server: bool,
    },
    Disconnect {
        from: usize,
        to: usize,
    },
    /// A timer that fires early.
    Timer(usize),
    /// A forged cell, perhaps on an existing circuit.
    Forge {
        from: usize,
        to: usize,
        command: usize,
        id: u32,
    },
    /// An operator sets, changes or removes the throttle of a node.
    Throttle {
        node: usize,
        how: usize,
        aggregate: bool,
    },
    Wait {
        millis: u64,
    },
    Step {
        steps: usize,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let node = 0usize..5;
    prop_oneof![
        3 => (0usize..2, 0usize..6).prop_map(|(client, path)| Operation::Build { client, path }),
        6 => (0usize..8, 0u64..300_000, 0u64..100_000)
            .prop_map(|(circuit, download, upload)| Operation::Open { circuit, download, upload }),
        1 => (0usize..16).prop_map(Operation::CloseStream),
        1 => (0usize..8, node.clone()).prop_map(|(circuit, node)| Operation::CloseCircuit { circuit, node }),
        2 => (0usize..16, any::<bool>()).prop_map(|(transfer, server)| Operation::Stall { transfer, server }),
        2 => (0usize..16, any::<bool>()).prop_map(|(transfer, server)| Operation::Resume { transfer, server }),
        1 => (node.clone(), node.clone()).prop_map(|(from, to)| Operation::Disconnect { from, to }),
        1 => node.clone().prop_map(Operation::Timer),
        1 => (node.clone(), node, 0usize..6, any::<u32>())
            .prop_map(|(from, to, command, id)| Operation::Forge { from, to, command, id }),
        2 => (2usize..5, 0usize..5, any::<bool>())
            .prop_map(|(node, how, aggregate)| Operation::Throttle { node, how, aggregate }),
        4 => (1u64..400).prop_map(|millis| Operation::Wait { millis }),
        4 => (1usize..3000).prop_map(|steps| Operation::Step { steps }),
    ]
}

/// Two clients (0 and 1), three relays (2, 3, 4); one relay is slow.
fn network(seed: u64, scheduler: &SchedulerConfig) -> Net {
    let mut net = Net::path(0, &RelayConfig::default());
    net.shuffle = Some(Seed(seed).stream("ready"));
    // Each node supports congestion control or not, or disables windows.
    let edge_control = |node: u64| match (seed >> node & 1, seed >> 6 & 1) {
        (0, 0) => EdgeControlConfig::default(),
        (0, _) => {
            EdgeControlConfig::Windows(WindowsConfig { ends: Ends::Ignored, ..WindowsConfig::default() })
        }
        _ => match seed >> 30 & 3 {
            0 => EdgeControlConfig::Dctcp(DctcpConfig::default()),
            1 => EdgeControlConfig::Timely(TimelyConfig::default()),
            _ => EdgeControlConfig::Vegas(VegasConfig::default()),
        },
    };
    // Each node supports credits of some kind or not, or all nodes do.
    let hop_control = |node: u64| match (seed >> (8 + 2 * node) & 3) | (seed >> 7 & 1) {
        0 => HopControlConfig::None,
        1 => HopControlConfig::N23(N23Config { n2: 5, n3: 20, ..N23Config::default() }),
        2 => HopControlConfig::N23(N23Config {
            n3: 0,
            credit_path: CreditPath::Circuit,
            ..N23Config::default()
        }),
        _ => HopControlConfig::N23(N23Config { adapt: Some(AdaptConfig::default()), ..N23Config::default() }),
    };
    // Each node supports datagrams or not, or all nodes do, over a good or a bad network. In some
    // networks windows stay on.
    let datagrams = |node: u64| ((seed >> (20 + node) | seed >> 26) & 1 == 1).then(DatagramConfig::default);
    let hop_control = |node: u64| match seed >> 28 & 3 {
        1 if datagrams(node).is_some() => HopControlConfig::BackTap(BackTapConfig::default()),
        2 if datagrams(node).is_some() => HopControlConfig::Marut(MarutConfig::default()),
        3 if datagrams(node).is_some() => {
            HopControlConfig::Marut(MarutConfig { counts: Counts::Path, ..MarutConfig::default() })
        }
        _ => hop_control(node),
    };
    if seed >> 27 & 1 == 1 {
        net.impairments = Impairments { loss: 0.1, delayed: 0.2, duplicated: 0.1, ..Impairments::default() };
    }
    let client = |node: u64| RelayConfig {
        edge_control: edge_control(node),
        hop_control: hop_control(node),
        datagrams: datagrams(node),
        ..RelayConfig::default()
    };
    net.configure(0, client(0));
    net.add(true, client(1));
    for relay in 0..3 {
        let bandwidth =
            (relay == 1).then_some(Bandwidth { rate: DataRate::kib(150), burst: Bytes::kib(100) });
        let (edge_control, hop_control) = (edge_control(2 + relay), hop_control(2 + relay));
        let datagrams = datagrams(2 + relay);
        let refill =
            Refill { interval: Duration::from_millis(100), phase: Duration::from_millis(20), unblock: None };
        let refill = if seed >> 5 & 1 == 0 { refill } else { Refill::TOR_0_4_9 };
        let scheduler = scheduler.clone();
        let config = RelayConfig {
            bandwidth,
            refill,
            edge_control,
            hop_control,
            datagrams,
            scheduler,
            ecn_threshold: (seed >> (32 + relay) & 1 == 1).then_some(3),
            ..RelayConfig::default()
        };
        net.add(false, config);
    }
    net
}

const PATHS: [[usize; 3]; 6] = [[2, 3, 4], [2, 4, 3], [3, 2, 4], [3, 4, 2], [4, 3, 2], [2, 3, 2]];

const COMMANDS: [Command; 6] =
    [Command::Create, Command::Created, Command::Relay, Command::Destroy, Command::Feedback, Command::Class];

/// A circuit that a client opened.
struct Made {
    client: usize,
    circuit: CircuitIndex,
    transfers: Vec<usize>,
}

fn perform(net: &mut Net, made: &mut Vec<Made>, operation: &Operation) {
    // A client removes a circuit as soon as it closes.
    made.retain(|made| !net.nodes[made.client].closed.iter().any(|(circuit, _)| *circuit == made.circuit));
    (0..net.nodes.len()).for_each(|node| net.nodes[node].closed.clear());
    let transfers = net.transfers();
    match *operation {
        Operation::Build { client, path } => {
            let circuit = net.open_circuit(client, &PATHS[path]);
            made.push(Made { client, circuit, transfers: Vec::new() });
        }
        Operation::Open { circuit, download, upload } if circuit < made.len() => {
            let made = &mut made[circuit];
            if net.nodes[made.client].built.contains(&made.circuit) {
                made.transfers.push(net.transfer(made.client, made.circuit, download, upload));
            }
        }
        Operation::CloseStream(transfer) if transfer < transfers => {
            let owner = made.iter_mut().find(|made| made.transfers.contains(&transfer));
            let at = net.at(transfer);
            if let (Some(made), Some(stream), [false, _]) = (owner, at.stream, at.closed) {
                made.transfers.retain(|other| *other != transfer);
                net.call(made.client, |relay, now, host| {
                    relay.close_stream(now, stream, EndReason::DONE, host)
                });
            }
        }
        Operation::CloseCircuit { circuit, node } if circuit < made.len() => {
            let Made { client, circuit, .. } = made[circuit];
            if let Some(there) = net.circuit_at(client, circuit, node) {
                net.call(node, |relay, now, host| relay.close_circuit(now, there, DestroyReason::NONE, host));
            }
        }
        Operation::Stall { transfer, server } if transfer < transfers => {
            net.stall(transfer, if server { Side::Server } else { Side::Client }, true);
        }
        Operation::Resume { transfer, server } if transfer < transfers => {
            net.stall(transfer, if server { Side::Server } else { Side::Client }, false);
        }
        Operation::Disconnect { from, to } if from != to => net.disconnect(from, to),
        Operation::Timer(node) => net.call(node, |relay, now, host| relay.on_timer(now, host)),
        Operation::Forge { from, to, command, id } if from != to => forge(net, from, to, command, id),
        Operation::Throttle { node, how, aggregate } => throttle(net, node, how, aggregate),
        Operation::Wait { millis } => net.drive_for(Duration::from_millis(millis)),
        Operation::Step { steps } => (0..steps).for_each(|_| {
            net.step();
        }),
        _ => {}
    }
}

/// Throttles a node. The buckets are so small that they limit the traffic.
fn throttle(net: &mut Net, node: usize, how: usize, aggregate: bool) {
    let (half_life, rate) = (Duration::from_millis(300), DataRate::kib(20));
    let throttle = match how {
        0 => ThrottleConfig::None,
        1 => ThrottleConfig::Static(StaticRateConfig { rate }),
        2 => ThrottleConfig::BitSplitting(BitSplittingConfig::default()),
        3 => ThrottleConfig::Flagging(FlaggingConfig { rate, half_life, ..FlaggingConfig::default() }),
        _ => ThrottleConfig::Threshold(ThresholdConfig {
            fraction: 0.5,
            refresh: half_life,
            half_life,
            floor: rate,
            ..ThresholdConfig::default()
        }),
    };
    let aggregate = if aggregate { Aggregate::Address } else { Aggregate::Connection };
    let buckets = ClientBuckets { burst: Bytes::kib(30), aggregate };
    net.call(node, |relay, now, _| relay.set_throttle(now, throttle, buckets));
}

fn forge(net: &mut Net, from: usize, to: usize, command: usize, id: u32) {
    if [from, to].iter().all(|node| net.nodes[*node].relay.speaks_datagrams()) {
        forge_datagram(net, from, to, command, id);
    } else if net.channel(to, from).is_some() {
        // Few circuits have other ids.
        let id = (id / 2 % 3 + 1) | (id % 2) << 31;
        let id = CircId(NonZeroU32::new(id).expect("ids count from one"));
        net.inject(from, to, TestCell::malformed(id, COMMANDS[command]));
        net.inject(from, to, TestCell::create(id, TestHandshake::new(1)));
    }
}

/// A forged datagram about any circuit, except claims that the relay cannot check.
fn forge_datagram(net: &mut Net, from: usize, to: usize, command: usize, number: u32) {
    let (low, top) = (number / 2 % 3 + 1, number % 2);
    let id = CircId(NonZeroU32::new(low | top << 31).expect("ids count from one"));
    let circuit = (low | top << 15) as u16;
    let cell = TestCell::malformed(id, COMMANDS[command]);
    // A false acknowledgement stalls its own circuit and no other one.
    let feedback = Message::Feedback {
        circuit,
        ack: number | 1 << 20,
        forwarded: number >> 12 & 15,
        hole: number >> 16 & 1 == 1,
        downstream: Downstream { congestion: Some(number as u16), ended: Some(number >> 17 & 15) },
    };
    let datagram = match number >> 4 & 7 {
        0 => vec![Message::Gone { circuit }, Message::Data { circuit, seq: 0, body: cell }],
        1 => vec![Message::Data { circuit, seq: number, body: cell }],
        2 => vec![feedback, Message::Probe { circuit }],
        3 => vec![Message::Data { circuit, seq: 0, body: TestCell::create(id, TestHandshake::new(1)) }],
        _ => vec![Message::Probe { circuit }, Message::Data { circuit, seq: number >> 8 & 7, body: cell }],
    };
    net.deliver(from, to, datagram);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn relays_do_not_panic_and_open_circuits_deliver_their_cells(
        seed in any::<u64>(),
        scheduler in 0usize..7,
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        let mut net = network(seed, &schedulers()[scheduler]);
        let mut made = Vec::new();
        for operation in &operations {
            perform(&mut net, &mut made, operation);
        }
        for transfer in 0..net.transfers() {
            net.stall(transfer, Side::Client, false);
            net.stall(transfer, Side::Server, false);
        }
        // A relay that throttles always has a timer.
        (2..5).for_each(|node| throttle(&mut net, node, 0, false));
        net.drive();
        for Made { client, circuit, transfers } in made {
            let closed = net.nodes[client].closed.iter().any(|(other, _)| *other == circuit);
            for transfer in transfers {
                let at = net.at(transfer);
                prop_assert!(closed || at.is_complete(), "{:?}", at);
                prop_assert_eq!(at.closed[0], true, "{:?}", at);
            }
        }
        // Every circuit of a node also exists at its neighbours.
        for node in 0..net.nodes.len() {
            prop_assert_eq!(net.nodes[node].relay.queued().get(), 0);
            prop_assert_eq!(net.nodes[node].relay.outbuf_cells().get(), 0);
        }
    }
}
