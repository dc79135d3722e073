//! A host: its access link, its sockets, and which of them are ready.

use super::cpu::Cpu;
use super::link::Link;
use super::socket::SockRef;
use crate::cell::Request;
use crate::event::Timer;
use crate::queue::{HostId, Timers};
use crate::tcp::{self, TcpConfig};
use penstock_core::{ChannelKey, StreamKey};
use penstock_scenario::model;
use penstock_units::{Bytes, Instant};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// The interface's queue, as Linux has it by default: 1000 packets [packet] (`txqueuelen`).
const NIC_QUEUE_PACKETS: u64 = 1000;

/// What a node has below Tor.
#[derive(Debug)]
pub(crate) struct Host {
    /// Many hosts have the same.
    pub(crate) tcp: Arc<TcpConfig>,
    /// What its Tor costs; one without is infinitely fast.
    pub(crate) cpu: Option<Cpu>,
    /// What it sends, behind the interface's own queue.
    pub(crate) up: Link,
    /// What the network sends it, behind a drop-tail queue.
    pub(crate) down: Link,
    /// Connections that have something on its way to here, by when the first reaches the access link.
    pub(crate) inbox: BinaryHeap<Arrival>,
    /// What is in the access link's queue, in order.
    pub(crate) deliveries: VecDeque<Delivery>,
    pub(crate) timers: Timers<Timer>,
    /// Packets sent so far.
    pub(crate) sent: u64,
    /// Sockets of the relay's channels, by key.
    pub(crate) channels: Vec<Option<SockRef>>,
    /// How many of these hold bytes that TCP does not send.
    pub(crate) holding: u32,
    /// Sockets of the relay's streams, by key.
    pub(crate) streams: Vec<Option<StreamSock>>,
    /// Sockets to serve, one at a time, in the order in which they became ready.
    pub(crate) ready: VecDeque<Ready>,
    /// Connections whose segments wait for room in the interface's queue.
    pub(crate) nic_waiters: VecDeque<SockRef>,
    pub(crate) drain_scheduled: bool,
}

/// The first of a connection's segments that is on its way to a host, or any datagram.
///
/// Those of one instant come in the order of their senders' names, then as they were sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) from: HostId,
    pub(crate) count: u64,
    pub(crate) what: Packet,
}

/// What travels.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    /// The next segment of a connection's.
    Segment(SockRef),
    /// The datagram in this place.
    Datagram(u32),
}

impl Arrival {
    pub(crate) fn key(&self) -> (Instant, HostId, u64) {
        (self.at, self.from, self.count)
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Arrival {}
impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Arrival {
    /// Reversed: a heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// A packet in the access link's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// When it is in the kernel.
    pub(crate) at: Instant,
    pub(crate) what: Packet,
}

/// What is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Readable(SockRef),
    Writable(SockRef),
    /// A client's application has something to send.
    App(StreamKey),
}

/// The far side of a stream.
#[derive(Debug)]
pub(crate) enum StreamSock {
    /// An exit's connection to a server.
    Tcp(SockRef),
    /// A client's application on the same host.
    App(App),
    /// The application of a client without Tor, and its connection while there is one.
    Plain { sock: Option<SockRef>, app: App },
}

/// A client's application: a request, an answer; or what it says and hears as a model has it.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// What it said and was not taken yet [B].
    pub(crate) request: u64,
    /// What it asks for, and after how many more bytes the question ends; until it is asked.
    pub(crate) ask: Option<(u64, Request)>,
    /// What it is to get [B].
    pub(crate) wants: u64,
    /// What arrived [B].
    pub(crate) received: u64,
    /// When its connection was there, if it has one of its own.
    pub(crate) connected: Option<Instant>,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) last_byte: Option<Instant>,
    pub(crate) readable_wanted: bool,
    pub(crate) ready: bool,
}

impl App {
    /// One that has not asked yet.
    pub(crate) fn new(wants: u64) -> Self {
        App {
            request: 0,
            ask: None,
            wants,
            received: 0,
            connected: None,
            first_byte: None,
            last_byte: None,
            readable_wanted: false,
            ready: false,
        }
    }

    /// RequestKind, in so many bytes [B].
    pub(crate) fn ask(&mut self, bytes: u64, what: Request) {
        self.request += bytes;
        self.ask = Some((bytes, what));
    }

    /// So much of what it said is taken [B]: the question, if it ends in there.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Request> {
        self.request -= bytes;
        let (left, what) = self.ask.take()?;
        if left > bytes {
            self.ask = Some((left - bytes, what));
            return None;
        }
        Some(what)
    }

    /// Takes what arrived [B].
    pub(crate) fn receive(&mut self, now: Instant, bytes: u64) {
        self.received += bytes;
        self.first_byte.get_or_insert(now);
        self.last_byte = Some(now);
    }
}

impl Host {
    pub(crate) fn new(host: &model::Host, config: Arc<TcpConfig>) -> Self {
        Host {
            up: Link::new(host.link_up, Bytes::new(NIC_QUEUE_PACKETS * config.full_segment())),
            down: Link::new(host.link_down, host.link_queue),
            tcp: config,
            cpu: host.cpu.map(Cpu::new),
            inbox: BinaryHeap::new(),
            deliveries: VecDeque::new(),
            timers: Timers::default(),
            sent: 0,
            channels: Vec::new(),
            holding: 0,
            streams: Vec::new(),
            ready: VecDeque::new(),
            nic_waiters: VecDeque::new(),
            drain_scheduled: false,
        }
    }

    pub(crate) fn channel(&self, channel: ChannelKey) -> Option<SockRef> {
        self.channels.get(channel.0 as usize).copied().flatten()
    }

    pub(crate) fn set_channel(&mut self, channel: ChannelKey, sock: Option<SockRef>) {
        put(&mut self.channels, channel.0, sock);
    }

    pub(crate) fn stream(&mut self, stream: StreamKey) -> Option<&mut StreamSock> {
        self.streams.get_mut(stream.0 as usize)?.as_mut()
    }

    pub(crate) fn set_stream(&mut self, stream: StreamKey, sock: Option<StreamSock>) {
        put(&mut self.streams, stream.0, sock);
    }

    /// The application of a client's stream, or of a client without Tor.
    pub(crate) fn app(&mut self, stream: StreamKey) -> Option<&mut App> {
        match self.stream(stream)? {
            StreamSock::App(app) | StreamSock::Plain { app, .. } => Some(app),
            StreamSock::Tcp(_) => None,
        }
    }
}

fn put<T>(slots: &mut Vec<Option<T>>, key: u32, value: Option<T>) {
    let key = key as usize;
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
    };
    let buffer = |wanted: model::Buffer, auto: tcp::Buffer| match wanted {
        model::Buffer::Auto => auto,
        model::Buffer::Fixed(bytes) => tcp::Buffer::Fixed(bytes.get()),
    };
    TcpConfig {
        mss: tcp.mss.get() as u32,
        congestion: match tcp.congestion {
            model::Congestion::Cubic => tcp::Congestion::Cubic,
            model::Congestion::Reno => tcp::Congestion::Reno,
        },
        hystart: tcp.hystart,
        nagle: !tcp.nodelay,
        send_buffer: buffer(host.send_buffer, defaults.send_buffer),
        receive_buffer: buffer(host.receive_buffer, defaults.receive_buffer),
        ..defaults
    }
}
