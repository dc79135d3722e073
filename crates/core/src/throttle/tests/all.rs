//! Random operations for every throttle and each of its options, compared with the reference.

use super::model::{ClientId, Expected, expected};
use crate::ClientKey;
use crate::throttle::{
    AnyThrottle, BitSplittingConfig, ClientSignals, Count, FlaggingConfig, Order, StaticRateConfig,
    ThresholdConfig, Throttle, ThrottleConfig, ThrottleSignals, Throughput, Unflag,
};
use penstock_units::{Bytes, Cells, DataRate, Duration, Instant};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Operation {
    Come,
    Leave(usize),
    /// One connected client receives cells and bytes, and sends bytes.
    Carry {
        client: usize,
        sent: u64,
        written: u64,
        read: u64,
    },
    Relays(u32),
    /// The relay's bandwidth changes to this rate [B/s]; 0 removes the limit.
    Bandwidth(u64),
    /// A refill at this time after the last one.
    Refill {
        millis: u64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => Just(Operation::Come),
        1 => (0usize..8).prop_map(Operation::Leave),
        8 => (0usize..8, 0u64..400, 0u64..200_000, 0u64..20_000)
            .prop_map(|(client, sent, written, read)| Operation::Carry { client, sent, written, read }),
        1 => (0u32..5).prop_map(Operation::Relays),
        1 => (0u64..400_000).prop_map(Operation::Bandwidth),
        8 => (1u64..4000).prop_map(|millis| Operation::Refill { millis }),
    ]
}

/// One client at a refill.
#[derive(Clone, Debug)]
pub(super) struct ClientState {
    pub(super) id: ClientId,
    pub(super) key: ClientKey,
    pub(super) sent: u64,
    pub(super) written: u64,
    pub(super) read: u64,
}

/// One refill and the state at that time.
#[derive(Clone, Debug)]
pub(super) struct Refilled {
    pub(super) at: Instant,
    pub(super) relays: u32,
    pub(super) bandwidth: Option<DataRate>,
    pub(super) clients: Vec<ClientState>,
}

/// The list of all events.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    pub(super) refills: Vec<Refilled>,
}

/// The throttle's rates at each refill.
pub(super) type Seen = Vec<BTreeMap<ClientId, Option<DataRate>>>;

/// A simple model of the relay's client table. It reuses the lowest free key first.
fn perform(throttle: &mut AnyThrottle, operations: &[Operation]) -> (Case, Seen) {
    let (mut case, mut seen) = (Case::default(), Seen::new());
    let (mut now, mut relays, mut bandwidth) = (Instant::ZERO, 1, DataRate::new(200_000));
    let mut connected: BTreeMap<ClientKey, ClientState> = BTreeMap::new();
    let mut next_id = 0;
    for operation in operations {
        match *operation {
            Operation::Come => {
                let key = (0..)
                    .map(ClientKey::first)
                    .find(|key| !connected.contains_key(key))
                    .expect("the keys are unlimited");
                connected.insert(key, ClientState { id: next_id, key, sent: 0, written: 0, read: 0 });
                next_id += 1;
            }
            Operation::Leave(client) => {
                if let Some(key) = connected.keys().nth(client).copied() {
                    connected.remove(&key);
                    throttle.on_close(key);
                }
            }
            Operation::Carry { client, sent, written, read } => {
                if let Some(client) = connected.values_mut().nth(client) {
                    client.sent += sent;
                    client.written += written;
                    client.read += read;
                }
            }
            Operation::Relays(count) => relays = count,
            Operation::Bandwidth(rate) => bandwidth = DataRate::new(rate),
            Operation::Refill { millis } => {
                now += Duration::from_millis(millis);
                let clients: Vec<_> = connected.values().cloned().collect();
                let signals: Vec<_> = clients.iter().map(ClientState::signals).collect();
                throttle.on_refill(now, &ThrottleSignals { clients: &signals, relays, bandwidth });
                seen.push(clients.iter().map(|client| (client.id, throttle.rate(client.key))).collect());
                case.refills.push(Refilled { at: now, relays, bandwidth, clients });
                for client in connected.values_mut() {
                    (client.sent, client.written, client.read) = (0, 0, 0);
                }
            }
        }
    }
    (case, seen)
}

impl ClientState {
    fn signals(&self) -> ClientSignals {
        let (written, read) = (Bytes::new(self.written), Bytes::new(self.read));
        ClientSignals { client: self.key, sent: Cells::new(self.sent), written, read }
    }
}

/// Declares the tests of all throttles, one test for each line of the list.
macro_rules! reference_tests {
    ($($name:ident: $config:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(96))]
            $(
                #[test]
                fn $name(operations in proptest::collection::vec(operation(), 0..150)) {
                    let config = $config;
                    let mut throttle = config.build().expect("the configuration throttles");
                    let (case, seen) = perform(&mut throttle, &operations);
                    let expected: Expected = expected(&config, &case, &seen);
                    prop_assert_eq!(expected.len(), seen.len());
                    for (at, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
                        if let Some(expected) = expected {
                            prop_assert_eq!(seen, expected, "refill {} of {:?}", at, &case);
                        }
                    }
                }
            )*
        }
    };
}

const FLAGGING: FlaggingConfig = FlaggingConfig {
    rate: DataRate::kib(5),
    penalty: 0.5,
    half_life: Duration::from_secs(3),
    unflag: Unflag::Current,
    count: Count::All,
};

const THRESHOLD: ThresholdConfig = ThresholdConfig {
    fraction: 0.4,
    refresh: Duration::from_secs(5),
    floor: DataRate::kib(5),
    half_life: Duration::from_secs(3),
    throughput: Throughput::Mean,
    order: Order::Descending,
    lift_zero: true,
};

reference_tests! {
    static_rate_matches_the_reference: ThrottleConfig::Static(StaticRateConfig { rate: DataRate::kib(5) });
    bit_splitting_matches_the_reference: ThrottleConfig::BitSplitting(BitSplittingConfig::default());
    bit_splitting_among_clients_matches_the_reference:
        ThrottleConfig::BitSplitting(BitSplittingConfig { count: Count::Clients });
    flagging_matches_the_reference: ThrottleConfig::Flagging(FLAGGING);
    flagging_among_clients_matches_the_reference:
        ThrottleConfig::Flagging(FlaggingConfig { count: Count::Clients, ..FLAGGING });
    flagging_with_a_frozen_limit_matches_the_reference:
        ThrottleConfig::Flagging(FlaggingConfig { unflag: Unflag::Frozen, ..FLAGGING });
    permanent_flagging_matches_the_reference:
        ThrottleConfig::Flagging(FlaggingConfig { penalty: 0.0, ..FLAGGING });
    flagging_until_the_fair_share_matches_the_reference:
        ThrottleConfig::Flagging(FlaggingConfig { penalty: 1.0, ..FLAGGING });
    threshold_matches_the_reference: ThrottleConfig::Threshold(THRESHOLD);
    threshold_of_written_bytes_matches_the_reference:
        ThrottleConfig::Threshold(ThresholdConfig { throughput: Throughput::Written, ..THRESHOLD });
    threshold_in_ascending_order_matches_the_reference:
        ThrottleConfig::Threshold(ThresholdConfig { order: Order::Ascending, ..THRESHOLD });
    threshold_of_zero_matches_the_reference:
        ThrottleConfig::Threshold(ThresholdConfig { lift_zero: false, ..THRESHOLD });
}

/// Checks that the suite fails for a wrong throttle.
#[test]
fn the_suite_distinguishes_throttles() {
    let mut operations = vec![Operation::Come, Operation::Come, Operation::Come];
    for _ in 0..12 {
        operations.push(Operation::Carry { client: 0, sent: 300, written: 153_600, read: 3_000 });
        operations.push(Operation::Carry { client: 1, sent: 20, written: 10_240, read: 1_000 });
        operations.push(Operation::Refill { millis: 1000 });
    }
    operations.push(Operation::Refill { millis: 9000 });
    let configs = [
        ThrottleConfig::Static(StaticRateConfig { rate: DataRate::kib(5) }),
        ThrottleConfig::BitSplitting(BitSplittingConfig::default()),
        ThrottleConfig::BitSplitting(BitSplittingConfig { count: Count::Clients }),
        ThrottleConfig::Flagging(FLAGGING),
        ThrottleConfig::Flagging(FlaggingConfig { penalty: 0.0, ..FLAGGING }),
        ThrottleConfig::Threshold(THRESHOLD),
        ThrottleConfig::Threshold(ThresholdConfig { throughput: Throughput::Written, ..THRESHOLD }),
        ThrottleConfig::Threshold(ThresholdConfig { order: Order::Ascending, ..THRESHOLD }),
    ];
    for (index, config) in configs.iter().enumerate() {
        let (case, seen) = perform(&mut config.build().expect("the configuration throttles"), &operations);
        for (other, model) in configs.iter().enumerate() {
            let agrees = expected(model, &case, &seen)
                .iter()
                .zip(&seen)
                .all(|(model, seen)| model.as_ref() == Some(seen));
            assert_eq!(agrees, index == other, "{config:?} by the rules of {model:?}");
        }
    }
}
