//! The relay's interface to its host.
//!
//! The interface is synchronous, non-blocking and monomorphised. The simulator's kernel and Linux implement this
//! interface. Relay code calls the kernel directly, because vanilla Tor writes until the kernel refuses, and KIST reads
//! the socket state again after writing.

use crate::cell::Cell;
use crate::datagram::Message;
use crate::keys::{ChannelKey, StreamKey};
use crate::reason::EndReason;
use penstock_units::{Bytes, Duration};
use std::collections::{BTreeMap, VecDeque};

/// The kernel's state of a socket (Linux: `SO_SNDBUF`, `SIOCOUTQ`, `SIOCOUTQNSD`, `TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// Capacity of the send buffer [B].
    pub capacity: Bytes,
    /// Bytes in the send buffer [B], both unsent bytes and sent but unacknowledged bytes.
    pub queued: Bytes,
    /// Unsent bytes in the send buffer [B].
    pub not_sent: Bytes,
    /// Congestion window [segment].
    pub cwnd: u32,
    /// Segments sent but not acknowledged [segment].
    pub unacked: u32,
    /// Segments that TCP counts as in the network [segment]: sent, without those that arrived out of order or were lost,
    /// and with retransmissions.
    pub in_flight: u32,
    /// The peer's receive window [B]: how many bytes it accepts after the last acknowledged byte. Zero if the window is
    /// closed, or if the kernel does not report it (Linux before 5.4).
    pub peer_window: Bytes,
    /// Payload of a full segment [B].
    pub mss: u32,
    /// Smoothed round-trip time [ns]; zero before the first measurement.
    pub rtt: Duration,
}

/// The result of reading from a stream's socket.
#[derive(Debug)]
pub enum StreamRead<P> {
    /// The socket had data.
    Data(P),
    /// The socket has no data now.
    Blocked,
    /// The other end has closed the connection, for this reason.
    Closed(EndReason),
}

/// The connection without an open channel that a holder lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// The connection closed.
    Closed {
        /// Its memory [B].
        memory: Bytes,
        /// The channel that waits for it.
        channel: Option<ChannelKey>,
    },
    /// The connection now belongs to another holder.
    Moved {
        /// Its memory [B].
        memory: Bytes,
        /// The new holder.
        to: [u128; 2],
    },
}

/// The host of one relay.
///
/// A channel delivers and accepts only whole cells. If a socket takes only a part of a cell, the host stores the rest,
/// as a TLS library does. The host writes this rest without the relay, because the relay counts the cell as written.
pub trait Kernel<C: Cell> {
    /// Reads cells in order until none is left or `limit` is reached [B]. The last TLS record may exceed the limit.
    /// Returns the bytes read from the socket, TLS included [B].
    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<C>) -> Bytes;

    /// Writes cells from the front of `cells` until the send buffer is full or `limit` is reached [B]. The last TLS
    /// record may exceed the limit. Returns the bytes written to the socket, TLS included [B].
    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<C>, limit: Bytes) -> Bytes;

    /// Sends the messages as one datagram over DTLS. Returns the datagram's size with overhead [B]. The network may
    /// lose the datagram. Hosts without datagrams need not implement this.
    fn send(&mut self, _channel: ChannelKey, _messages: &mut dyn Iterator<Item = Message<&C>>) -> Bytes {
        Bytes::ZERO
    }

    /// Takes the messages of the next received datagram. Returns the datagram's size [B], or zero if there is none.
    fn receive(&mut self, _channel: ChannelKey, _into: &mut Vec<Message<C>>) -> Bytes {
        Bytes::ZERO
    }

    /// Whether the channel's datagrams travel over UDP now. If UDP does not work, a host may carry them over the channel's
    /// TCP connection.
    fn uses_udp(&self, _channel: ChannelKey) -> bool {
        true
    }

    /// The kernel's state of the channel's TCP socket.
    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo;

    /// Sets the readiness that the kernel reports for the channel.
    fn want(&mut self, channel: ChannelKey, interest: Interest);

    /// Numbers that identify the network of the channel's remote host, and this host (the holder), for the memory limit.
    /// A [`Kernel`] without a memory limit need not implement this.
    fn holder(&self, channel: ChannelKey) -> [u128; 2] {
        [channel.index() as u128; 2]
    }

    /// Memory of the channel's connection [B], a part of the [driver's memory](crate::Relay::set_driver_memory).
    fn memory(&self, _channel: ChannelKey) -> Bytes {
        Bytes::ZERO
    }

    /// Memory of each holder that belongs to no open channel and to no stream [B], such as that of unfinished link
    /// handshakes. It is a part of the [driver's memory](crate::Relay::set_driver_memory).
    fn other_memory(&self) -> BTreeMap<[u128; 2], Bytes> {
        BTreeMap::new()
    }

    /// Closes a connection of a holder that has no open channel, without a call of the relay. If other holders need this
    /// connection, it moves to one of them instead. `None` if the holder has no such connection.
    fn close_unfinished(&mut self, _holder: [u128; 2]) -> Option<Unfinished> {
        None
    }

    /// Memory of the stream's connection [B], a part of the [driver's memory](crate::Relay::set_driver_memory).
    fn stream_memory(&self, _stream: StreamKey) -> Bytes {
        Bytes::ZERO
    }

    /// Closes the channel's socket.
    fn close(&mut self, channel: ChannelKey);

    /// Reads at most `limit` bytes of a stream [B]. The limit is at most one cell's payload.
    fn read_stream(&mut self, stream: StreamKey, limit: u16) -> StreamRead<C::Payload>;

    /// Writes payloads from the front until the stream's buffer is full or `limit` is reached [B]. The last cell's
    /// payload may exceed the limit. Returns the bytes taken [B].
    fn write_stream(&mut self, stream: StreamKey, payloads: &mut VecDeque<C::Payload>, limit: Bytes)
    -> Bytes;

    /// Sets the readiness that the kernel reports for the stream.
    fn want_stream(&mut self, stream: StreamKey, interest: Interest);

    /// Closes the stream's socket after the kernel has sent all bytes that it accepted.
    fn close_stream(&mut self, stream: StreamKey);
}

/// Which kinds of readiness the kernel must report for a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Report when data can be read.
    pub readable: bool,
    /// Report when data can be written.
    pub writable: bool,
}
