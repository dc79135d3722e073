//! Settings of relays. Limits are so low that short inputs reach them.

use crate::choices::Choices;
use penstock_core::RelayConfig;
use penstock_core::circuit_policy::{CircuitPolicyConfig, EwmaConfig};
use penstock_core::config::{Bandwidth, Limits, Refill};
use penstock_core::conflux::ConfluxConfig;
use penstock_core::edge_control::{
    DynamicConfig, EdgeControlConfig, TimelyConfig, VegasConfig, WindowsConfig, XonXoffConfig,
};
use penstock_core::hop_control::{AdaptConfig, CreditPath, HopControlConfig, N23Config};
use penstock_core::scheduler::{
    GlobalConfig, GlobalLimitConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
};
use penstock_core::throttle::{
    Aggregate, BitSplittingConfig, ClientBuckets, FlaggingConfig, StaticRateConfig, ThresholdConfig,
    ThrottleConfig,
};
use penstock_units::{Bytes, DataRate, Duration};

/// Settings of a relay. `is_scarce` adds a memory limit.
pub(super) fn relay(choices: &mut Choices<'_>, is_scarce: bool) -> RelayConfig {
    let (scheduler, edge, flags) = (choices.byte(), choices.byte(), choices.byte());
    RelayConfig {
        bandwidth: (flags & 1 != 0).then_some(Bandwidth { rate: DataRate::kib(150), burst: Bytes::kib(100) }),
        refill: if flags & 2 != 0 { Refill::TOR_0_4_9 } else { Refill::default() },
        circuit_policy: policy(flags >> 2 & 3),
        scheduler: self::scheduler(scheduler),
        edge_control: edge_control(edge),
        hop_control: hop_control(edge >> 4),
        throttle: throttle(flags >> 5 & 7),
        client_buckets: buckets(),
        authenticated_sendmes: flags & 16 == 0,
        conflux: Some(ConfluxConfig::TOR_0_4_9),
        sendme_padding: if edge & 8 != 0 { 16 } else { 0 },
        limits: Limits {
            max_circuit_queue: 300,
            circuits_per_channel: 8,
            streams_per_circuit: 6,
            outbuf: Bytes::kib(64),
            // A stream's window is 500 cells.
            edge_buffer: if edge & 7 == 1 { 600 } else { 60 },
            memory: is_scarce.then_some(Bytes::kib(64)),
            circuit: Bytes::new(512),
            stream: Bytes::new(64),
        },
        ..RelayConfig::default()
    }
}

fn scheduler(number: u8) -> SchedulerConfig {
    let kist = |global_limit| SchedulerConfig::Kist(KistConfig { global_limit, ..KistConfig::default() });
    match number % 7 {
        0 => SchedulerConfig::default(),
        1 => SchedulerConfig::Global(GlobalConfig::default()),
        2 => kist(GlobalLimitConfig::Drained),
        3 => kist(GlobalLimitConfig::Rate { fill: Duration::from_millis(10), known: None }),
        4 => SchedulerConfig::KistDeployed(KistDeployedConfig::default()),
        5 => kist(GlobalLimitConfig::Measured),
        _ => SchedulerConfig::KistLite(KistLiteConfig::default()),
    }
}

fn edge_control(number: u8) -> EdgeControlConfig {
    match number & 7 {
        0 => EdgeControlConfig::default(),
        1 => EdgeControlConfig::Windows(WindowsConfig {
            circuit_window: 100,
            stream_window: Some(50),
            ..WindowsConfig::default()
        }),
        2 => EdgeControlConfig::Dynamic(DynamicConfig::default()),
        3 => EdgeControlConfig::Timely(TimelyConfig::default()),
        4 => EdgeControlConfig::Vegas(VegasConfig::TOR_0_4_7),
        5 => EdgeControlConfig::Vegas(VegasConfig::default()),
        // With these settings, the buffers of streams fill quickly.
        _ => {
            let streams =
                XonXoffConfig { xoff: 10, grace: Duration::ZERO, xon_rate: 10, ..XonXoffConfig::TOR_0_4_9 };
            EdgeControlConfig::Vegas(VegasConfig { streams, ..VegasConfig::default() })
        }
    }
}

fn hop_control(number: u8) -> HopControlConfig {
    let n23 = N23Config { n2: 5, n3: 20, ..N23Config::default() };
    match number {
        1 => HopControlConfig::N23(n23),
        2 => HopControlConfig::N23(N23Config { credit_path: CreditPath::Circuit, ..n23 }),
        3 => HopControlConfig::N23(N23Config { adapt: Some(AdaptConfig::default()), ..n23 }),
        _ => HopControlConfig::None,
    }
}

pub(super) fn policy(number: u8) -> CircuitPolicyConfig {
    let ewma = EwmaConfig { half_life: Duration::from_secs(5), ..EwmaConfig::default() };
    match number & 3 {
        0 => CircuitPolicyConfig::RoundRobin,
        1 => CircuitPolicyConfig::EwmaList(ewma),
        2 => CircuitPolicyConfig::EwmaHeap(ewma),
        _ => CircuitPolicyConfig::EwmaTick(ewma),
    }
}

pub(super) fn buckets() -> ClientBuckets {
    ClientBuckets { burst: Bytes::kib(30), aggregate: Aggregate::Address }
}

pub(super) fn throttle(number: u8) -> ThrottleConfig {
    let (half_life, rate) = (Duration::from_millis(300), DataRate::kib(20));
    match number {
        1 => ThrottleConfig::Static(StaticRateConfig { rate }),
        2 => ThrottleConfig::BitSplitting(BitSplittingConfig::default()),
        3 => ThrottleConfig::Flagging(FlaggingConfig { rate, half_life, ..FlaggingConfig::default() }),
        4 => ThrottleConfig::Threshold(ThresholdConfig {
            fraction: 0.5,
            refresh: half_life,
            half_life,
            floor: rate,
            ..ThresholdConfig::default()
        }),
        _ => ThrottleConfig::None,
    }
}
