//! Keys of Tor on a relay or a client, and the configuration of the core that they give.

use super::edge_control::EdgeControl;
use super::hop_control::HopControl;
use super::schedulers::{ChannelMap, CircuitPolicy, Scheduler};
use super::throttle::{Throttle, too_small};
use crate::error::ConfigError;
use crate::keys::{Algorithm, PartnerInfo, Read, in_table, kind_of, section};
use crate::model::{Costs, Phase};
use crate::presets;
use crate::tree::{Node, Table, Value};
use crate::values::{Choice, Flag, NodeRate, Or, SAMPLED_RATE, Size, TIME, TIME_OR_ZERO, Whole, Word};
use penstock_core::circuit_policy::{PriorityClass, PriorityFactor};
use penstock_core::config::{Bandwidth, EdgeQueue, IdleTimeouts, Limits, Refill, RelayConfig};
use penstock_core::conflux::{ConfluxConfig, DesiredUx};
use penstock_core::datagram::DatagramConfig;
use penstock_core::hop_control::{HopControlConfig, MAX_WINDOW};
use penstock_units::{Bytes, Duration, parse::show_duration};

const CELLS: Whole = Whole::cells(1, 100_000);
/// The channels between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Datagram,
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct TorKeys("") {
        /// A version of Tor, which sets several keys. The keys of the preset override inherited keys. Keys in the
        /// section itself override the preset.
        preset: Option<&'static str> = Or("none", Word(presets::NAMES)), Is("none");
        /// The processor time of Tor's work. All work of a node waits in one queue. With "none", work takes no time.
        cpu: Option<Costs> = Or("none", in_table::<Costs>()), Is("none");
        /// The refill rate of the global read and write buckets (torrc BandwidthRate).
        bandwidth_rate: Option<NodeRate> = Or("none", SAMPLED_RATE), Is("none");
        /// The depth of the global read and write buckets (torrc BandwidthBurst). "auto" is the amount that
        /// bandwidth_rate gives in a second.
        bandwidth_burst: Option<Bytes> = Or("auto", Size::ANY), Is("auto");
        /// The time between two refills of a bucket. Tor used 1 s before version 0.2.3.5, and has used 100 ms since
        /// then.
        refill: Duration = TIME, Is("1 s");
        /// The time of the first refill. With "random", each node and seed draws it from [0, refill).
        refill_phase: Option<Duration> = Or("random", TIME_OR_ZERO), Is("random");
        /// The interval at which a connection with an empty bucket tries again. A bucket then gets its due refills only
        /// when a connection uses it. With "none", connections try again at the next refill. C tor since 0.4.0 has 100
        /// ms here, and a refill of 16 ms.
        refill_unblock: Option<Duration> = Or("none", TIME), Is("none");
        /// The policy that chooses which circuit of a channel sends next.
        circuit_policy: CircuitPolicy = kind_of::<CircuitPolicy>(), Is("{}");
        /// The cost of a cell of a circuit in the worse class: the circuit policy counts it as this many cells (KIST
        /// section 5.1). Only policies that count cells use this key.
        priority_factor: u32 = Whole::cells(1, 1_000_000), Is("10");
        /// The scheduler that decides which channels write now, and how much.
        scheduler: Scheduler = kind_of::<Scheduler>(), Is("{}");
        /// The algorithm that limits the unacknowledged cells of a circuit, at the node that packages them.
        edge_control: EdgeControl = kind_of::<EdgeControl>(), Is("{}");
        /// The algorithm that limits the outstanding cells of a circuit on one hop.
        hop_control: HopControl = kind_of::<HopControl>(), Is("{}");
        /// The transport of a channel, if both of its nodes have the same value: TLS over TCP, or datagrams that each
        /// hop acknowledges. All other channels use TCP.
        transport: Transport = Choice(&[("tcp", Transport::Tcp), ("datagram", Transport::Datagram)]), Is("tcp");
        /// The maximum time for which a single message waits for another message that can leave in the same datagram.
        /// It waits for at most an eighth of the smallest measured round trip to the neighbour.
        coalesce_delay: Duration = TIME_OR_ZERO, Is("1 ms");
        /// Whether reads of datagrams wait for tokens of the read bucket. With false, they take tokens but never wait,
        /// as in nstor.
        datagram_read_limit: bool = Flag, Is("true");
        /// The minimum retransmission timeout of an unacknowledged cell.
        datagram_timeout: Duration = TIME, Is("1 s");
        /// The algorithm that sets the rate at which a guard serves each client.
        throttle: Throttle = kind_of::<Throttle>(), Is("{}");
        /// The rule that selects the channel of a circuit.
        channel_map: ChannelMap = kind_of::<ChannelMap>(), Is("{}");
        /// With true, a client sends each stream over two linked circuits to the same exit (Conflux, proposal 329), and a
        /// relay accepts links. Both need congestion control, for example `edge_control = "vegas"`.
        conflux: bool = Flag, Is("false");
        /// With true, a circuit SENDME must prove that the acknowledged cell arrived (proposal 289). The node that
        /// packages cells closes the circuit if the proof is missing.
        authenticated_sendmes: bool = Flag, Is("false");
        /// The node resumes reading streams when the circuit's queue has at most this many cells.
        edge_queue_low: u32 = CELLS, Is("64");
        /// The node stops reading streams when the circuit's queue has this many cells.
        edge_queue_high: u32 = CELLS, Is("256");
        /// For `edge_control = "dctcp"`: a relay marks a RELAY cell if more cells than this wait in the circuit queue
        /// that the cell enters. DCTCP's K is 20.
        ecn_threshold: Option<u32> = Or("none", Whole::cells(0, 100_000)), Is("none");
        /// The maximum number of queued cells of a circuit in one direction (consensus circ_max_cell_queue_size). The
        /// node closes the circuit when a further cell arrives.
        max_circuit_queue: u32 = CELLS, Is("2500");
    }
}

/// Keys that only clients have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfClient {
    pub(crate) optimistic_data: bool,
    pub(crate) priority_class: PriorityClass,
    pub(crate) conflux_ux: DesiredUx,
}

impl TorKeys {
    /// The configuration of a relay or an onion proxy. `n23` says whether the consensus activates N23.
    pub(crate) fn config<S>(
        &self,
        node: &Read<S>,
        client: OfClient,
        n23: bool,
    ) -> Result<(RelayConfig, Phase), ConfigError> {
        self.refuse_partners(node)?;
        let interval = self.refill;
        let phase = match self.refill_phase {
            None => Phase::Random,
            Some(phase) if phase < interval => Phase::Fixed(phase),
            Some(phase) => {
                let [phase, refill] = [phase, interval].map(show_duration);
                let message = format!(
                    "\"{phase}\" is not within a refill; it must be shorter than refill, \"{refill}\""
                );
                return Err(node.wrong("refill_phase", message));
            }
        };
        let fixed = if let Phase::Fixed(phase) = phase { phase } else { Duration::ZERO };
        let longest = self.refill_unblock.unwrap_or_default().max(interval);
        let (throttle, client_buckets) = self.throttle.config(node, interval, longest)?;
        let hop_control = self.hop_control.config(node, self.max_circuit_queue, n23)?;
        let datagrams = (self.transport == Transport::Datagram).then(|| DatagramConfig {
            coalesce_delay: self.coalesce_delay,
            min_timeout: self.datagram_timeout,
            gated_reads: self.datagram_read_limit,
            base_memory: self.hop_control.base_memory().map(|memory| memory.as_secs().max(1)),
        });
        if let (HopControlConfig::N23(n23), Some(_)) = (&hop_control, datagrams)
            && n23.most() > MAX_WINDOW
        {
            let message = format!(
                "{} cells, N2 and the greatest N3, are more than a hop of datagrams holds; it must be {MAX_WINDOW} at most",
                n23.most()
            );
            return Err(node.wrong("hop_control", message));
        }
        if self.edge_queue_low >= self.edge_queue_high {
            return Err(node.upside_down("edge_queue_low", "edge_queue_high"));
        }
        let edge_control = self.edge_control.config(node)?;
        if self.conflux && !edge_control.has_congestion_control() {
            let message = "linked circuits need congestion control; set edge_control to \"vegas\", or set conflux = false";
            return Err(node.wrong("conflux", message));
        }
        let client_ux = client.conflux_ux;
        let conflux = self.conflux.then_some(ConfluxConfig { client_ux, ..ConfluxConfig::TOR_0_4_9 });
        let config = RelayConfig {
            bandwidth: self.bandwidth(node, longest)?,
            refill: Refill { interval, phase: fixed, unblock: self.refill_unblock },
            circuit_policy: self.circuit_policy.config(node)?,
            priority_factor: PriorityFactor(f64::from(self.priority_factor)),
            priority_class: client.priority_class,
            scheduler: self.scheduler.config(node)?,
            edge_control,
            hop_control,
            datagrams,
            throttle,
            client_buckets,
            channel_map: self.channel_map.config(node)?,
            ecn_threshold: self.ecn_threshold,
            conflux,
            edge_queue: EdgeQueue { low: self.edge_queue_low, high: self.edge_queue_high },
            optimistic_data: client.optimistic_data,
            authenticated_sendmes: self.authenticated_sendmes,
            sendme_padding: 0,
            idle_timeouts: IdleTimeouts::default(),
            limits: Limits { max_circuit_queue: self.max_circuit_queue, ..Limits::default() },
        };
        Ok((config, phase))
    }

    /// Refuses algorithms that do not work with other keys of the same node.
    fn refuse_partners<S>(&self, node: &Read<S>) -> Result<(), ConfigError> {
        for (key, (kind, partners)) in [
            ("hop_control", self.hop_control.kind()),
            ("throttle", self.throttle.kind()),
            ("circuit_policy", self.circuit_policy.kind()),
            ("scheduler", self.scheduler.kind()),
            ("edge_control", self.edge_control.kind()),
            ("channel_map", self.channel_map.kind()),
        ] {
            let clashes = |partner: &&PartnerInfo| {
                partner.refused && value(&node.shown, partner.key) == Some(partner.not)
            };
            if let Some(partner) = partners.iter().find(clashes) {
                return Err(node.wrong(&format!("{key}.kind"), format!("{kind:?} {}", partner.why)));
            }
        }
        Ok(())
    }

    fn bandwidth<S>(&self, node: &Read<S>, refill: Duration) -> Result<Option<Bandwidth>, ConfigError> {
        let Some(rate) = self.bandwidth_rate.as_ref().map(|rate| rate.typical) else {
            let message = "there is a burst but no rate; set bandwidth_rate too";
            return self.bandwidth_burst.map_or(Ok(None), |_| Err(node.wrong("bandwidth_burst", message)));
        };
        let least = rate.bytes_in(refill);
        let burst = self.bandwidth_burst.unwrap_or(rate.bytes_in(Duration::from_secs(1)).max(least));
        if burst < least {
            return Err(node.wrong("bandwidth_burst", too_small(burst, rate, refill)));
        }
        Ok(Some(Bandwidth { rate, burst }))
    }
}

/// A string of a node, or the kind of one of its algorithms. Relays of an era have a bandwidth that is drawn.
fn value<'a>(node: &'a Table, key: &str) -> Option<&'a str> {
    let era = node.get("era").and_then(Node::as_text).unwrap_or("none");
    let has_buckets = node.get("era_buckets").is_some_and(|node| node.value == Value::Flag(true));
    if key == "bandwidth_rate" && era != "none" && has_buckets {
        return None;
    }
    let node = node.get(key)?;
    node.as_text().or_else(|| node.table()?.get("kind")?.as_text())
}
