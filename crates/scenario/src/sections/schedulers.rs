//! `circuit_policy`, `scheduler` and `channel_map`: selection of the next circuit and of the next channel.

use crate::error::ConfigError;
use crate::keys::{NoKeys, PartnerInfo, Read, algorithm, keys, section};
use crate::values::{Choice, Or, RATE, Size, TIME};
use penstock_core::channel_map::ChannelMapConfig;
use penstock_core::circuit_policy::{CircuitPolicyConfig, ConnectionConfig, EwmaConfig, Flush, Share};
use penstock_core::scheduler::{
    GlobalConfig, GlobalLimitConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
    Unacked, VanillaConfig,
};
use penstock_units::{DataRate, Duration};

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct EwmaKeys("ewma") {
        /// The half-life of a sent cell's weight in the count of recent cells.
        half_life: Duration = TIME, Is("30 s");
        /// How many cells of the chosen circuit leave before the next choice: one, or its whole queue, even if the
        /// output buffer then exceeds its limit.
        flush: Flush = Choice(&[("cell", Flush::Cell), ("queue", Flush::Queue)]), Is("cell");
        /// The data structure that finds the next circuit. All three choose the same circuits.
        form: fn(EwmaConfig) -> CircuitPolicyConfig = Choice(&[
            ("list", CircuitPolicyConfig::EwmaList as fn(EwmaConfig) -> CircuitPolicyConfig),
            ("heap", CircuitPolicyConfig::EwmaHeap),
            ("tick", CircuitPolicyConfig::EwmaTick),
        ]), Is("heap");
    }
}

keys! {
    ConnectionConfig("ewma-connection") {
        /// The half-life of a sent cell's weight in the counts of the connection and of its circuits.
        half_life = TIME, Is("30 s");
        /// With "connection", every connection has the same share. With "circuit", the count of a connection is
        /// divided by the number of its open circuits that have sent a cell.
        share = Choice(&[("connection", Share::Connection), ("circuit", Share::Circuit)]), Is("connection");
    }
}

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum CircuitPolicy("CircuitPolicy", circuit_policy: CircuitPolicyConfig) {
        /// The relay sends one cell of each circuit in turn.
        RoundRobin("round-robin"): NoKeys, "C tor 0.2.3; DefenestraTor section 3.1", &[];
        /// The circuit that sent the fewest cells recently goes first.
        Ewma("ewma"): EwmaKeys, "EWMA sections 2.3 and 3.5; C tor circuitmux_ewma.c", &[];
        /// The connection that sent the fewest cells recently goes first, and on it the circuit that sent the fewest.
        /// The vanilla scheduler does not compare connections.
        EwmaConnection("ewma-connection"): ConnectionConfig, "EWMA section 8.1", &[];
    }
}

impl CircuitPolicy {
    pub(crate) fn config<S>(&self, node: &Read<S>) -> Result<CircuitPolicyConfig, ConfigError> {
        Ok(match self {
            CircuitPolicy::RoundRobin(_) => CircuitPolicyConfig::RoundRobin,
            CircuitPolicy::Ewma(EwmaKeys { half_life, flush, form }) => {
                form(EwmaConfig { half_life: *half_life, flush: *flush })
            }
            CircuitPolicy::EwmaConnection(config) => CircuitPolicyConfig::EwmaConnection(*config),
            CircuitPolicy::Plugin(chosen) => chosen.config(node, "circuit_policy")?,
        })
    }
}

keys! {
    VanillaConfig("vanilla") {
        /// Cells move to the output buffer when it holds less than this.
        outbuf_low = Size::ANY, Is("16 KiB");
        /// Cells move until the output buffer holds at least this.
        outbuf_high = Size::ANY, Is("32 KiB");
    }
}

keys! {
    GlobalConfig("global") {
        /// The time from the moment at which a first channel has cells to send, until the next scheduling round
        /// (GlobalWriteTimeout).
        interval = TIME, Is("10 ms");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GlobalLimit {
    Drained,
    Rate,
    Measured,
    Off,
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct KistKeys("kist") {
        /// The time from the moment at which a first channel has cells to send, until the next scheduling round
        /// (GlobalWriteTimeout).
        interval: Duration = TIME, Is("10 ms");
        /// The limit on the bytes of all channels together. "drained" is the largest number of bytes that left the
        /// kernel between two rounds. "rate" is a token bucket with the key rate. "measured" follows the rate at which
        /// data is acknowledged, and the bytes that wait for the link. "off" is no limit.
        global_limit: GlobalLimit = Choice(&[
            ("drained", GlobalLimit::Drained),
            ("rate", GlobalLimit::Rate),
            ("measured", GlobalLimit::Measured),
            ("off", GlobalLimit::Off),
        ]), Is("drained");
        /// For global_limit "rate": the rate of the bucket. "measured" is the highest rate at which data left the
        /// kernel.
        rate: Option<DataRate> = Or("measured", RATE), Is("measured");
        /// For global_limit "rate": the time in which the rate fills the bucket. This sets the bucket's depth. "auto"
        /// is interval.
        fill: Option<Duration> = Or("auto", TIME), Is("auto");
        /// The bytes that equation 1 counts as unacknowledged. With "sent", the value of TCP_INFO: bytes that the kernel
        /// has sent; with Shadow's profiles also unsent bytes. With "written", all bytes that the relay has
        /// written, as in the simulator of KIST's authors. With "in-flight", bytes that TCP counts against its congestion
        /// window: segments that were lost or have arrived do not count.
        unacked: Unacked = Choice(&[
            ("sent", Unacked::Sent),
            ("written", Unacked::Written),
            ("in-flight", Unacked::InFlight),
        ]), Is("sent");
    }
}

keys! {
    KistDeployedConfig("kist-deployed") {
        /// The minimum time between two scheduling rounds (KISTSchedRunInterval). The value in today's consensus is 2
        /// ms.
        interval = TIME, Is("10 ms");
        ..KistDeployedConfig::default()
    }
}

keys! {
    KistLiteConfig("kist-lite") {
        /// The minimum time between two scheduling rounds (KISTSchedRunInterval). The value in today's consensus is 2
        /// ms.
        interval = TIME, Is("10 ms");
    }
}

const ASKS_THE_KERNEL: PartnerInfo = PartnerInfo {
    key: "transport",
    not: "datagram",
    refused: false,
    why: "limits only writes to TCP sockets",
};

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum Scheduler("Scheduler", scheduler: SchedulerConfig) {
        /// The relay writes one socket at a time, when the kernel reports that the socket is writable.
        Vanilla("vanilla"): VanillaConfig, "C tor 0.2.3; DefenestraTor section 3.1; KIST section 5.1", &[];
        /// The relay serves the best circuit of all channels first, and writes as much as the kernel accepts.
        Global("global"): GlobalConfig, "KIST sections 5.2 and 5.3, without write limits", &[];
        /// Global scheduling that writes at most the bytes that the kernel can send immediately.
        Kist("kist"): KistKeys, "KIST section 5.2, algorithms 1 and 2, equations 1 and 2", &[ASKS_THE_KERNEL];
        /// The version of KIST in C tor. The congestion window of each socket limits the writes.
        KistDeployed("kist-deployed"): KistDeployedConfig, "C tor scheduler_kist.c", &[ASKS_THE_KERNEL];
        /// C tor's KIST without information from the kernel. The size of output buffers limits the writes.
        KistLite("kist-lite"): KistLiteConfig, "C tor scheduler_kist.c, channeltls.c", &[];
    }
}

impl Scheduler {
    pub(crate) fn config<S>(&self, node: &Read<S>) -> Result<SchedulerConfig, ConfigError> {
        Ok(match self {
            Scheduler::Vanilla(config) if config.outbuf_low > config.outbuf_high => {
                return Err(node.upside_down("scheduler.outbuf_low", "scheduler.outbuf_high"));
            }
            Scheduler::Vanilla(config) => SchedulerConfig::Vanilla(*config),
            Scheduler::Global(config) => SchedulerConfig::Global(*config),
            Scheduler::Kist(keys) => SchedulerConfig::Kist(KistConfig {
                interval: keys.interval,
                global_limit: global_limit(keys, node)?,
                unacked: keys.unacked,
            }),
            Scheduler::KistDeployed(config) => SchedulerConfig::KistDeployed(*config),
            Scheduler::KistLite(config) => SchedulerConfig::KistLite(*config),
            Scheduler::Plugin(chosen) => chosen.config(node, "scheduler")?,
        })
    }
}

fn global_limit<S>(keys: &KistKeys, node: &Read<S>) -> Result<GlobalLimitConfig, ConfigError> {
    let (limit, name) = match keys.global_limit {
        GlobalLimit::Rate => {
            let fill = keys.fill.unwrap_or(keys.interval);
            return Ok(GlobalLimitConfig::Rate { fill, known: keys.rate });
        }
        GlobalLimit::Drained => (GlobalLimitConfig::Drained, "drained"),
        GlobalLimit::Measured => (GlobalLimitConfig::Measured, "measured"),
        GlobalLimit::Off => (GlobalLimitConfig::Off, "off"),
    };
    let set =
        [("rate", keys.rate.is_some()), ("fill", keys.fill.is_some())].into_iter().find(|(_, set)| *set);
    set.map_or(Ok(limit), |(key, _)| {
        let message = format!("global_limit is {name:?} and has no bucket; {key} needs \"rate\"");
        Err(node.wrong(&format!("scheduler.{key}"), message))
    })
}

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum ChannelMap("ChannelMap", channel_map: ChannelMapConfig) {
        /// All circuits between two relays share one channel.
        Shared("shared"): NoKeys, "C tor; DefenestraTor section 3.1; KIST section 5.1", &[];
        /// Every circuit that this node begins or extends has its own channel.
        PerCircuit("per-circuit"): NoKeys, "throttling section 5.3", &[];
    }
}

impl ChannelMap {
    pub(crate) fn config<S>(&self, node: &Read<S>) -> Result<ChannelMapConfig, ConfigError> {
        Ok(match self {
            ChannelMap::Shared(_) => ChannelMapConfig::Shared,
            ChannelMap::PerCircuit(_) => ChannelMapConfig::PerCircuit,
            ChannelMap::Plugin(chosen) => chosen.config(node, "channel_map")?,
        })
    }
}
