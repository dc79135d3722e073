//! A host: its access link, its sockets, and which of them are ready.

use super::nic::Wire;
use super::socket::SockRef;
use crate::tcp::{self, TcpConfig};
use penstock_core::{ChannelKey, StreamKey};
use penstock_scenario::model;
use penstock_units::{Bytes, Instant};
use std::collections::VecDeque;

/// The interface's queue, as Linux has it by default: 1000 packets [packet] (`txqueuelen`).
const NIC_QUEUE_PACKETS: u64 = 1000;

/// What a node has below Tor.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) tcp: TcpConfig,
    /// What it sends, behind the interface's own queue.
    pub(crate) up: Wire,
    /// What the network sends it, behind a drop-tail queue.
    pub(crate) down: Wire,
    /// Sockets of the relay's channels, by key.
    pub(crate) channels: Vec<Option<SockRef>>,
    /// Sockets of the relay's streams, by key.
    pub(crate) streams: Vec<Option<StreamSock>>,
    /// Sockets to serve, one at a time, in the order in which they became ready.
    pub(crate) ready: VecDeque<Ready>,
    /// Connections whose segments wait for room in the interface's queue.
    pub(crate) nic_waiters: VecDeque<SockRef>,
    pub(crate) drain_scheduled: bool,
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

/// A client's application: one request, one answer.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Request still to be sent [B].
    pub(crate) request: u64,
    /// What it asks for [B].
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
    pub(crate) fn new(request: u64, wants: u64) -> Self {
        App {
            request,
            wants,
            received: 0,
            connected: None,
            first_byte: None,
            last_byte: None,
            readable_wanted: false,
            ready: false,
        }
    }

    /// Takes what arrived [B].
    pub(crate) fn receive(&mut self, now: Instant, bytes: u64) {
        self.received += bytes;
        self.first_byte.get_or_insert(now);
        self.last_byte = Some(now);
    }
}

impl Host {
    pub(crate) fn new(host: &model::Host, tcp: &model::Tcp) -> Self {
        let config = tcp_config(host, tcp);
        Host {
            up: Wire::new(host.link_up, Bytes::new(NIC_QUEUE_PACKETS * config.full_segment())),
            down: Wire::new(host.link_down, host.link_queue),
            tcp: config,
            channels: Vec::new(),
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

fn tcp_config(host: &model::Host, tcp: &model::Tcp) -> TcpConfig {
    let model::TcpProfile::Linux3_2 = tcp.profile;
    let defaults = TcpConfig::default();
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
        send_buffer: buffer(host.send_buffer, defaults.send_buffer),
        receive_buffer: buffer(host.receive_buffer, defaults.receive_buffer),
        ..defaults
    }
}
