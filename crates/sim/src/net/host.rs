use super::cpu::Cpu;
use super::event::Timer;
use super::link::Link;
use super::oldest_write::Line;
use super::packet::{Arrival, Delivery, SockRef};
use super::socket::Sock;
use crate::cell::Request;
use crate::queue::{HostId, Timers};
use crate::tcp::{self, InterfaceOrder, TcpConfig};
use penstock_core::{ChannelKey, StreamKey};
use penstock_scenario::model::{self, Span};
use penstock_units::{Bytes, Duration, Instant, Rng};
use slab::Slab;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// The length of the network interface's queue [packet] (the default of Linux's `txqueuelen`).
const NIC_QUEUE_PACKETS: u64 = 1000;

/// The state of a node below its Tor software: links, sockets, timers and processor.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) tcp: Arc<TcpConfig>,
    /// The processor; `None` means infinitely fast.
    pub(crate) cpu: Option<Cpu>,
    /// The number of Tor's reads, writes and datagrams on channels.
    pub(crate) calls: u64,
    /// The number of times that Tor asked for the state of a channel's socket.
    pub(crate) queries: u64,
    /// The sending direction of the access link, with the interface's queue.
    pub(crate) up: Link,
    /// The receiving direction of the access link, with a drop-tail queue.
    pub(crate) down: Link,
    /// Packets in transit to this host, by the time of arrival at the access link. Each connection has at most one
    /// entry.
    pub(crate) inbox: BinaryHeap<Arrival>,
    pub(crate) deliveries: VecDeque<Delivery>,
    /// All packets that arrive at the access link before this time have joined its queue.
    pub(crate) horizon: Instant,
    /// How far the host may run ahead of all others: the shortest delay from a peer.
    pub(crate) lookahead: Duration,
    pub(crate) timers: Timers<Timer>,
    pub(crate) sent: u64,
    /// The number of the last write of the host's sockets.
    pub(crate) writes: u64,
    pub(crate) socks: Slab<Sock>,
    /// The slots of accepted sockets, by host and generation of the peer's socket.
    pub(crate) accepted: BTreeMap<(HostId, u32), u32>,
    pub(crate) channels: Vec<Option<SockRef>>,
    /// The number of channel sockets that hold bytes that TCP cannot send yet.
    pub(crate) holding: u32,
    pub(crate) streams: Vec<Option<StreamSock>>,
    /// Ready sockets, in the order in which they became ready. The relay serves one at a time.
    pub(crate) ready: VecDeque<Ready>,
    /// Slots of the sockets that wait for space in the interface's queue.
    pub(crate) nic_waiters: VecDeque<u32>,
    /// The sockets with waiting segments, if the interface sends the oldest write first.
    pub(crate) line: Line,
    pub(crate) drain_scheduled: bool,
    /// The time of the next check of the relay's bound; FAR_FUTURE for other hosts.
    pub(crate) next_bound_check: Instant,
    /// Payload that the applications of a client have received [B].
    pub(crate) received: u64,
    /// For a server, the distribution of the time before an answer.
    pub(crate) think: Option<(Span, Rng)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Readable(SockRef),
    Writable(SockRef),
    /// A client's application has bytes to send.
    App(StreamKey),
}

/// The socket of a stream, by the kind of owner.
#[derive(Debug)]
pub(crate) enum StreamSock {
    /// An exit's connection to a server.
    Tcp(SockRef),
    /// A client's application on the same host as its onion proxy.
    App(App),
    /// The application of a client without Tor, and its current connection.
    Plain { sock: Option<SockRef>, app: App },
}

/// A client's application. It sends a request and receives the response, or sends and receives as a Markov model
/// decides.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Bytes that the application has sent and the relay has not yet read [B].
    pub(crate) to_send: u64,
    /// The request, and the number of its bytes that the relay has not taken yet [B]; `None` if no request waits.
    pub(crate) request: Option<(u64, Request)>,
    /// Bytes that the application expects [B].
    pub(crate) wants: u64,
    pub(crate) received: u64,
    /// For a client without Tor, when its connection was established.
    pub(crate) connected: Option<Instant>,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) last_byte: Option<Instant>,
    pub(crate) readable_wanted: bool,
    pub(crate) ready: bool,
}

impl App {
    pub(crate) fn new(wants: u64) -> Self {
        App {
            to_send: 0,
            request: None,
            wants,
            received: 0,
            connected: None,
            first_byte: None,
            last_byte: None,
            readable_wanted: false,
            ready: false,
        }
    }

    pub(crate) fn send_request(&mut self, bytes: u64, request: Request) {
        self.to_send += bytes;
        self.request = Some((bytes, request));
    }

    /// Lets the relay take this many bytes [B]. Returns the request if these bytes include the request's last byte.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Request> {
        self.to_send -= bytes;
        let (left, request) = self.request.take()?;
        if left > bytes {
            self.request = Some((left - bytes, request));
            return None;
        }
        Some(request)
    }

    pub(crate) fn receive(&mut self, now: Instant, bytes: u64) {
        self.received += bytes;
        self.first_byte.get_or_insert(now);
        self.last_byte = Some(now);
    }
}

impl Host {
    pub(crate) fn new(host: &model::Host, config: Arc<TcpConfig>, tcp: &model::Tcp) -> Self {
        let mut up = Link::new(host.link_up, Bytes::new(NIC_QUEUE_PACKETS * config.full_segment()));
        let queue = host.group.link_queue.unwrap_or(tcp.profile.link_queue());
        let mut down = Link::new(host.link_down, queue.bytes());
        if let model::LinkQueue::Packets(packets) = queue {
            down.limit_packets(packets);
        }
        if let Some(time) = tcp.batch() {
            for link in [&mut up, &mut down] {
                link.set_batches(time);
            }
        }
        if config.sockets_wait() {
            up.let_sockets_wait();
        }
        Host {
            up,
            down,
            tcp: config,
            cpu: host.group.cpu.map(Cpu::new),
            calls: 0,
            queries: 0,
            inbox: BinaryHeap::new(),
            deliveries: VecDeque::new(),
            horizon: Instant::ZERO,
            lookahead: Duration::ZERO,
            timers: Timers::default(),
            sent: 0,
            socks: Slab::new(),
            accepted: BTreeMap::new(),
            channels: Vec::new(),
            holding: 0,
            streams: Vec::new(),
            ready: VecDeque::new(),
            nic_waiters: VecDeque::new(),
            line: Line::default(),
            writes: 0,
            drain_scheduled: false,
            next_bound_check: Instant::FAR_FUTURE,
            received: 0,
            think: None,
        }
    }

    /// A packet in transit does not reach the kernel before this time.
    pub(crate) fn earliest_delivery(&self, packet: &Arrival) -> Instant {
        self.down.earliest(packet.at, packet.bytes.into())
    }

    /// The socket in a slot, if it still has this generation.
    pub(crate) fn sock_of(&mut self, slot: u32, generation: u32) -> Option<&mut Sock> {
        self.socks.get_mut(slot as usize).filter(|sock| sock.generation == generation)
    }

    pub(crate) fn channel(&self, channel: ChannelKey) -> Option<SockRef> {
        self.channels.get(channel.index()).copied().flatten()
    }

    pub(crate) fn set_channel(&mut self, channel: ChannelKey, sock: Option<SockRef>) {
        put(&mut self.channels, channel.index(), sock);
    }

    pub(crate) fn stream(&mut self, stream: StreamKey) -> Option<&mut StreamSock> {
        self.streams.get_mut(stream.index())?.as_mut()
    }

    pub(crate) fn set_stream(&mut self, stream: StreamKey, sock: Option<StreamSock>) {
        put(&mut self.streams, stream.index(), sock);
    }

    /// The application of a client's stream, or of a client without Tor.
    pub(crate) fn app(&mut self, stream: StreamKey) -> Option<&mut App> {
        match self.stream(stream)? {
            StreamSock::App(app) | StreamSock::Plain { app, .. } => Some(app),
            StreamSock::Tcp(_) => None,
        }
    }
}

fn put<T>(slots: &mut Vec<Option<T>>, key: usize, value: Option<T>) {
    if slots.len() <= key {
        slots.resize_with(key + 1, || None);
    }
    slots[key] = value;
}

pub(super) fn tcp_config(host: &model::Host, tcp: &model::Tcp) -> TcpConfig {
    let defaults = match tcp.profile {
        model::TcpProfile::Linux3_2 => TcpConfig::linux_3_2(),
        model::TcpProfile::Linux6 => TcpConfig::linux_6(),
        model::TcpProfile::Ns3 => TcpConfig::ns3(),
        model::TcpProfile::Shadow1_9Sockets => TcpConfig::shadow_1_9_sockets(),
        model::TcpProfile::Shadow1_9 => TcpConfig::shadow_1_9(),
        model::TcpProfile::Shadow3_3 => TcpConfig::shadow_3_3(),
    };
    let buffer = |wanted: Option<Bytes>, auto| wanted.map_or(auto, |bytes| tcp::Buffer::Fixed(bytes.get()));
    let tuned = match (tcp.initial_send_buffer, defaults.send_buffer) {
        (Some(initial), tcp::Buffer::Auto { max, .. }) => tcp::Buffer::Auto { initial: initial.get(), max },
        (_, buffer) => buffer,
    };
    TcpConfig {
        mss: tcp.mss.get() as u32,
        congestion: match tcp.congestion {
            model::Congestion::Cubic => tcp::Congestion::Cubic,
            model::Congestion::Reno => tcp::Congestion::Reno,
            model::Congestion::NewReno => tcp::Congestion::NewReno,
        },
        hystart: tcp.hystart,
        nagle: !tcp.sets_nodelay(),
        segment_per_write: tcp.segment_per_write.unwrap_or(defaults.segment_per_write),
        initial_cwnd: tcp.initial_window.unwrap_or(defaults.initial_cwnd),
        send_buffer: buffer(host.group.send_buffer, tuned),
        receive_buffer: buffer(host.group.receive_buffer, defaults.receive_buffer),
        interface_order: match (tcp.profile, tcp.interface_order) {
            (model::TcpProfile::Shadow1_9, model::InterfaceOrder::OldestWrite) => InterfaceOrder::OldestWrite,
            _ => defaults.interface_order,
        },
        ..defaults
    }
}
