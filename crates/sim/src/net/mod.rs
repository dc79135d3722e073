//! The network below Tor: hosts, links, TCP connections, datagrams, and the readiness of sockets.
//!
//! A segment leaves through its host's interface, which has one FIFO for all sockets. The network delays the segment by
//! a fixed time and may lose it. At the receiver the segment waits in the access link's drop-tail queue and then
//! reaches the kernel. Packets that arrive within a host's look-ahead join this queue in one step, because no other
//! packet can arrive between them.

mod arrivals;
mod channel_setup;
mod closing;
mod cpu;
mod datagrams;
mod event;
mod host;
mod inspect;
mod kernel;
mod link;
mod mail;
mod oldest_write;
mod packet;
mod plain;
mod readiness;
mod server;
mod socket;
mod topology;
mod transmission;

pub(crate) use event::{Step, Timer};
pub(crate) use host::{App, Host, Ready, StreamSock};
pub(crate) use kernel::HostKernel;
pub(crate) use mail::{Mail, Outbox, remove_closed};
pub(crate) use packet::{Peer, SockRef};
pub(crate) use plain::PLAIN;
pub(crate) use socket::Owner;

use crate::awake::Awake;
use crate::cell::SimCell;
use crate::host_queue::HostQueue;
use crate::plan::Plan;
use crate::queue::HostId;
use crate::tcp::TcpConfig;
use crate::tracker::Tracker;
use datagrams::Datagram;
use host::tcp_config;
use penstock_core::datagram::Message;
use penstock_scenario::model::{self, Tcp, Tgen};
use penstock_units::{Duration, Instant};
use server::model_of;
use slab::Slab;
use socket::Sock;
use std::sync::Arc;
use topology::Topology;

#[derive(Debug)]
pub(crate) struct Net<'a> {
    /// The time of the host whose events are being handled.
    now: Instant,
    pub(crate) host_queue: HostQueue,
    /// How far a host may run ahead of the others: the shortest delay of a packet.
    pub(crate) lookahead: Duration,
    pub(crate) hosts: Awake<Host>,
    tcp: TcpConfigs<'a>,
    pub(crate) tracker: Tracker,
    datagrams: Slab<Datagram>,
    /// Unused buffers for the messages of datagrams.
    spare_buffers: Vec<Vec<Message<SimCell>>>,
    generations: u32,
    /// Whether the events of all hosts are handled in the order of time, and each packet is sent separately.
    one_by_one: bool,
    /// Messages to hosts of other shards.
    pub(crate) outbox: Outbox<'a>,
    /// Closed sockets. A barrier removes a connection after both ends have closed.
    closed: Vec<Peer>,
    topology: Topology<'a>,
    /// The Markov models of each workload that has them.
    models: Vec<Option<Tgen>>,
    lost: u64,
    pub(crate) delivered: u64,
    pub(crate) handled: u64,
    /// Whether the connection of a client without Tor has changed.
    pub(crate) plain_progress: bool,
    /// Channels and streams that opened or broke. The main loop informs the relays about them.
    pub(crate) events: Vec<(HostId, NetEvent)>,
}

/// An event about which the main loop informs a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetEvent {
    /// The channel that this host opened to this peer is established.
    Opened(penstock_core::ChannelKey, HostId),
    Accepted(SockRef, HostId),
    Connected(penstock_core::StreamKey),
    ChannelBroke(penstock_core::ChannelKey),
    StreamBroke(penstock_core::StreamKey),
}

/// The minimum delay of a packet, and the resolution of time.
pub(crate) const TICK: Duration = Duration::from_nanos(1);

/// The TCP configurations of hosts. Hosts with equal buffer sizes share one.
#[derive(Debug)]
struct TcpConfigs<'a> {
    tcp: &'a Tcp,
    known: Vec<(&'a model::Host, Arc<TcpConfig>)>,
}

impl<'a> TcpConfigs<'a> {
    fn of(&mut self, host: &'a model::Host) -> Arc<TcpConfig> {
        let buffers = |host: &model::Host| (host.group.send_buffer, host.group.receive_buffer);
        if let Some((_, config)) = self.known.iter().find(|(like, _)| buffers(like) == buffers(host)) {
            return config.clone();
        }
        let config = Arc::new(tcp_config(host, self.tcp));
        self.known.push((host, config.clone()));
        config
    }
}

impl<'a> Net<'a> {
    /// The network of these hosts, which are all dormant.
    pub(crate) fn new(plan: &'a Plan<'a>, outbox: Outbox<'a>) -> Self {
        let (scenario, count) = (plan.scenario, plan.len());
        let topology = Topology::new(plan);
        Net {
            now: Instant::ZERO,
            host_queue: HostQueue::new(count),
            lookahead: topology.shortest(),
            hosts: Awake::new(count),
            tcp: TcpConfigs { tcp: &scenario.tcp, known: Vec::new() },
            tracker: Tracker::new(0, 0, 1),
            datagrams: Slab::new(),
            spare_buffers: Vec::new(),
            generations: 0,
            one_by_one: false,
            outbox,
            closed: Vec::new(),
            topology,
            models: scenario.workloads.iter().map(model_of).collect(),
            lost: 0,
            delivered: 0,
            handled: 0,
            plain_progress: false,
            events: Vec::new(),
        }
    }

    pub(crate) fn wake(&mut self, id: HostId) {
        let host = self.topology.plan.host(id);
        self.hosts.insert(id, Host::new(host, self.tcp.of(host), self.tcp.tcp));
        self.hosts[id as usize].lookahead = self.lookahead;
    }

    /// Promises that a host will receive packets only from these `peers`. The host may then run further ahead.
    pub(crate) fn limit_peers(&mut self, id: HostId, peers: impl Iterator<Item = HostId>) {
        if self.one_by_one {
            return;
        }
        let delay = |peer| {
            let wire = self.wire(peer, id);
            wire.delay - wire.jitter
        };
        if let Some(shortest) = peers.map(delay).min() {
            self.hosts[id as usize].lookahead = shortest.max(self.lookahead);
        }
    }

    /// Disables look-ahead and trains.
    pub(crate) fn one_by_one(&mut self) {
        (self.lookahead, self.one_by_one) = (TICK, true);
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    pub(crate) fn set_timer(&mut self, id: HostId, at: Instant, due: Timer) {
        assert!(at >= self.now, "a timer at {at} comes after {}", self.now);
        self.hosts[id as usize].timers.push(at, due);
        self.host_queue.advance(id, at);
    }

    fn sock(&mut self, sock: SockRef) -> &mut Sock {
        &mut self.hosts[sock.host as usize].socks[sock.slot as usize]
    }
}
