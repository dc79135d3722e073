//! Methods of a node for its operator.

use super::lookups::LookupLimits;
use super::room::DescriptorLimits;
use super::sockets::Token;
use super::trace::{Trace, TraceConfig, Traced, unknown};
use super::{DosCounters, DosOptions, Node, NodeCounters, peers, socket_info};
use crate::directory::{Flavour, OperatorOverrides};
use crate::torrc::Outbound;
use penstock_core::kernel::Interest;
use penstock_core::{CircuitIndex, Counters, Direction, Kernel, RelayConfig, Station, Tag, Violation};
use penstock_link::descriptor::ExitPolicy;
use penstock_record::tables::Name;
use penstock_record::{CircuitRow, Position, RelayRow};
use penstock_units::{Bytes, Cells, Instant};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;

/// The state of a node at one time, in numbers only.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Time since the node started.
    pub at: Instant,
    /// Counters of the core.
    pub counters: Counters,
    /// Counters of the node.
    pub node_counters: NodeCounters,
    /// Numbers of channels, circuits and streams [1].
    pub population: [usize; 3],
    /// Connections with unfinished link handshakes [1].
    pub opening: usize,
    /// Cells in all circuit queues [cell].
    pub queued: Cells,
    /// Bytes in all output buffers [B].
    pub outbuf: Bytes,
    /// Bytes in the kernel's send buffers of all channels [B].
    pub kernel_out: Bytes,
    /// Channels that wait for a token bucket [1].
    pub throttled: u32,
    /// Memory that peers make the node use, as the memory limit counts it [B].
    pub memory: Bytes,
    /// File descriptors of links and of exit streams [1].
    pub descriptors: [usize; 2],
    /// Refusals of C tor's defences.
    pub dos: DosCounters,
}

impl Observation {
    /// Row of `relays.parquet` for the time between observation `before` and this one.
    pub fn row(&self, before: &Observation, relay: Name, position: Position) -> RelayRow {
        let (last, now) = (&before.counters, &self.counters);
        RelayRow {
            relay,
            position,
            t_s: self.at.since(Instant::ZERO).as_secs_f64(),
            read_bytes: (now.read_bytes - last.read_bytes).get(),
            written_bytes: (now.written_bytes - last.written_bytes).get(),
            circuit_queue_cells: self.queued.get(),
            outbuf_bytes: self.outbuf.get(),
            kernel_out_bytes: self.kernel_out.get(),
            throttled_conns: self.throttled.into(),
            bound_by: None,
            written_cells: now.sent - last.sent,
            credits: now.credits - last.credits,
            longest_queue_cells: now.longest_queue,
        }
    }
}

impl Node {
    /// Observes the node. The run time grows with the number of circuits and channels.
    pub fn observe(&self) -> Observation {
        let conns = self.sockets.channels.values();
        Observation {
            at: self.clock.now(),
            counters: self.relay.counters(),
            node_counters: self.counters.clone(),
            population: self.relay.population(),
            opening: self.sockets.openings.len(),
            queued: self.relay.queued(),
            outbuf: self.relay.outbuf_bytes(),
            kernel_out: conns.map(|conn| socket_info::queued(&conn.socket)).sum(),
            throttled: self.relay.throttled_channels(),
            memory: self.relay.memory(),
            descriptors: self.held(),
            dos: self.dos.counters,
        }
    }

    /// The number of circuits.
    pub fn circuits(&self) -> usize {
        self.relay.population()[1]
    }

    /// The relay's position: middle if its exit policy rejects everything, otherwise exit.
    pub fn position(&self) -> Position {
        if self.policy.rejects_all() { Position::Middle } else { Position::Exit }
    }

    /// The time since the node started.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Also lets [`turn`](Self::turn) return when `waker` is readable. [`was_woken`](Self::was_woken) then returns
    /// true, and the caller reads `waker` until it is empty.
    ///
    /// # Errors
    ///
    /// If epoll cannot watch `waker`.
    pub fn wake_by(&self, waker: &impl AsFd) -> io::Result<()> {
        self.sockets.watch(waker, Token::Waker, Interest { readable: true, writable: false })
    }

    /// Whether the waker was readable since the last call.
    pub fn was_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// Sets the source addresses of new connections.
    pub fn set_outbound(&mut self, outbound: Outbound) {
        self.outbound = outbound;
    }

    /// Sets the operator's values of C tor's defences against denial of service.
    pub fn set_dos(&mut self, options: DosOptions) {
        let documents = self.documents();
        let consensus =
            documents.as_ref().and_then(|documents| documents.consensus(Flavour::Microdescriptors));
        let params = consensus.map(|consensus| consensus.params.clone()).unwrap_or_default();
        self.dos.set(Some(options), &params);
    }

    /// Sets the exit policy for new streams, and the limits of file descriptors that depend on it.
    pub fn set_policy(&mut self, policy: ExitPolicy) {
        self.policy = policy;
        self.descriptors = DescriptorLimits::new(self.process_descriptors, !self.policy.rejects_all());
        self.sockets.lookups.set_limits(LookupLimits::of(self.descriptors.lookups));
    }

    /// Changes settings of the running relay: circuit policy, rates, throttle, and the settings that the operator
    /// fixes. A setting that starts to override the consensus also applies, because the consensus may have changed it.
    pub fn reconfigure(
        &mut self,
        (old, old_overrides): (&RelayConfig, OperatorOverrides),
        (new, overrides): (&RelayConfig, OperatorOverrides),
    ) {
        let now = self.clock.now();
        let policy = |config: &RelayConfig| format!("{:?}", config.circuit_policy);
        if policy(old) != policy(new) || overrides.half_life && !old_overrides.half_life {
            self.relay.set_circuit_policy(now, new.circuit_policy.clone());
        }
        if old.bandwidth != new.bandwidth {
            self.relay.set_bandwidth(now, new.bandwidth);
        }
        let throttle = |config: &RelayConfig| format!("{:?} {:?}", config.throttle, config.client_buckets);
        if throttle(old) != throttle(new) || overrides.throttle && !old_overrides.throttle {
            self.relay.set_throttle(now, new.throttle.clone(), new.client_buckets);
        }
        if overrides != old_overrides {
            self.set_overrides(overrides);
        }
    }

    /// Stops accepting connections. Existing connections continue.
    pub fn stop_listening(&mut self) {
        self.stop_listening_for_socks();
        if let Some(listener) = &self.listener {
            self.sockets.forget(listener);
            // The shutdown makes the kernel refuse connections.
            let _ = socket2::SockRef::from(listener).shutdown(Shutdown::Both);
        }
    }

    /// Closes all connections. The peers notice the end of their links.
    pub fn close_all(&mut self) {
        self.end_proxy();
        let openings: Vec<u64> = self.sockets.openings.iter().map(|(number, _)| number).collect();
        for number in openings {
            self.sockets.take_opening(number);
        }
        let now = self.clock.now();
        for channel in self.relay.channels() {
            self.relay.close_channel(now, channel, &mut self.sockets);
        }
        self.process_events();
    }

    /// Starts tracing cells and circuits.
    pub fn trace(&mut self, config: TraceConfig) {
        self.sockets.trace = Some(Box::new(Trace::new(config)));
    }

    /// Cells and circuits that were traced since the last call.
    pub fn take_traced(&mut self) -> Traced {
        let now = self.clock.now();
        let Some(trace) = &mut self.sockets.trace else { return Traced::default() };
        let (cells, left) = trace.take_rows(now).into_iter().unzip();
        let circuits: Vec<_> = trace.circuits().collect();
        let circuits =
            circuits.into_iter().filter_map(|(circuit, number)| self.circuit_row(now, circuit, number));
        Traced { circuits: circuits.collect(), cells, left }
    }

    fn circuit_row(&mut self, now: Instant, circuit: CircuitIndex, number: u64) -> Option<CircuitRow> {
        let hop = self.hop(circuit)?;
        let queue = self.relay.circuit_queue(circuit, Direction::Backward)?;
        let window = self.relay.circuit_window(circuit);
        let backlog = self.relay.backlog(circuit, Direction::Backward);
        let (channel, _) = self.relay.leg(circuit, Direction::Backward)?;
        let socket = self.sockets.socket_info(channel);
        Some(CircuitRow {
            circuit: Some(number),
            workload: unknown(),
            hop,
            t_s: now.since(Instant::ZERO).as_secs_f64(),
            queue_cells: queue.get(),
            window_cells: window.map(|(window, _)| window.get() as i64),
            rtt_s: window.and_then(|(_, rtt)| rtt).map(|rtt| rtt.as_secs_f64()),
            client: unknown(),
            cwnd_segments: Some(socket.cwnd.into()).filter(|cwnd| *cwnd > 0),
            ssthresh_segments: None,
            srtt_s: Some(socket.rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0),
            backlog_cells: backlog.and_then(|backlog| backlog.next),
            backlog_beyond_cells: backlog.and_then(|backlog| backlog.beyond),
            sendmes: self.relay.arrived_sendmes(circuit),
        })
    }

    fn hop(&mut self, circuit: CircuitIndex) -> Option<Position> {
        let (channel, _) = self.relay.leg(circuit, Direction::Backward)?;
        if self.relay.leg(circuit, Direction::Forward).is_none() {
            return Some(Position::Exit);
        }
        let peer = self.sockets.channel(channel)?.peer?;
        Some(if peers::is_client(peer) { Position::Guard } else { Position::Middle })
    }

    pub(super) fn note_begun(&mut self, circuit: CircuitIndex) {
        if let Some(trace) = &mut self.sockets.trace {
            trace.begun(circuit);
        }
    }

    pub(super) fn note_over(&mut self, circuit: CircuitIndex, violation: Option<Violation>) {
        if let Some(violation) = violation {
            self.counters.violation(violation);
        }
        if let Some(trace) = &mut self.sockets.trace {
            trace.over(circuit);
        }
    }

    pub(super) fn note_station(&mut self, tag: Tag, circuit: CircuitIndex, station: Station, at: Instant) {
        let hop = self.hop(circuit);
        if let Some(trace) = &mut self.sockets.trace {
            trace.station(tag, circuit, hop, station, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeConfig;
    use penstock_core::Parameters;
    use penstock_core::circuit_policy::{CircuitPolicyConfig, EwmaConfig};
    use penstock_core::throttle::{ClientBuckets, StaticRateConfig, ThrottleConfig};
    use penstock_link::descriptor::Private;
    use penstock_link::keys::Keys;
    use penstock_units::{DataRate, Duration};
    use std::net::{Ipv4Addr, SocketAddr};

    #[test]
    fn a_fixed_setting_overrides_the_consensus_even_if_the_torrc_is_unchanged() {
        let localhost = Ipv4Addr::LOCALHOST.into();
        let ewma = |seconds| {
            CircuitPolicyConfig::EwmaTick(EwmaConfig {
                half_life: Duration::from_secs(seconds),
                ..EwmaConfig::default()
            })
        };
        let torrc = RelayConfig { circuit_policy: ewma(30), ..RelayConfig::default() };
        let policy = ExitPolicy::new(Vec::new(), Private::AsRules, Vec::new());
        let config = NodeConfig::new(SocketAddr::new(localhost, 0), localhost, torrc.clone(), policy);
        let keys = Keys::generate(&mut rand::rng(), config.clock.date());
        let mut node = Node::bind(config, keys).unwrap();
        let runs = |node: &Node| {
            let config = node.relay.config();
            (format!("{:?}", config.circuit_policy), matches!(config.throttle, ThrottleConfig::None))
        };
        // The consensus sets another half-life.
        let asked = Parameters { half_life: Some(Duration::from_secs(5)), ..Parameters::default() };
        node.relay.apply_parameters(node.now(), asked);
        let rate = ThrottleConfig::Static(StaticRateConfig { rate: DataRate::kib(20) });
        node.relay.set_throttle(node.now(), rate, ClientBuckets::default());
        let expected = (format!("{:?}", ewma(5)), false);
        assert_eq!(runs(&node), expected);
        // A torrc without the option changes nothing.
        node.reconfigure((&torrc, OperatorOverrides::default()), (&torrc, OperatorOverrides::default()));
        assert_eq!(runs(&node), expected);
        // A torrc with the option's default value overrides the consensus.
        let overrides = OperatorOverrides { half_life: true, ..OperatorOverrides::default() };
        node.reconfigure((&torrc, OperatorOverrides::default()), (&torrc, overrides));
        assert_eq!(runs(&node), (format!("{:?}", ewma(30)), false));
        node.reconfigure((&torrc, overrides), (&torrc, OperatorOverrides { throttle: true, ..overrides }));
        assert_eq!(runs(&node), (format!("{:?}", ewma(30)), true));
    }
}
