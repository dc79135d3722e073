//! The relay's view of its host.
//!
//! The interface is synchronous, non-blocking and monomorphised. The simulator's kernel and Linux
//! implement it. The relay pulls from the kernel: vanilla Tor writes until the kernel refuses, and KIST
//! asks for socket state again after writing.

use crate::cell::Cell;
use crate::datagram::Message;
use crate::keys::{ChannelKey, StreamKey};
use crate::reason::EndReason;
use penstock_units::{Bytes, Duration};
use std::collections::VecDeque;

/// The kernel's state of a socket (Linux: `SO_SNDBUF`, `SIOCOUTQ`, `SIOCOUTQNSD`, `TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// Capacity of the send buffer [B].
    pub capacity: Bytes,
    /// Bytes in the send buffer: sent but not acknowledged, and not sent [B].
    pub queued: Bytes,
    /// Bytes in the send buffer that were not sent [B].
    pub not_sent: Bytes,
    /// Congestion window [segment].
    pub cwnd: u32,
    /// Segments sent but not acknowledged [segment].
    pub unacked: u32,
    /// Payload of a full segment [B].
    pub mss: u32,
    /// Smoothed round-trip time [ns]; zero before the first measurement.
    pub rtt: Duration,
}

/// The result of reading a stream.
#[derive(Debug)]
pub enum StreamRead<P> {
    /// A payload.
    Data(P),
    /// No data now.
    Blocked,
    /// The other end sends no more, for this reason.
    Closed(EndReason),
}

/// The host of one relay.
///
/// A channel delivers and accepts whole cells. The host keeps cells of which the socket took only a part, as a TLS
/// library does. It waits for the socket by itself, because the relay counts such a cell as written.
pub trait Kernel<C: Cell> {
    /// Reads cells in order until none is left, or until `limit` is reached or exceeded by less than a
    /// record [B]. Returns the bytes read from the socket, TLS included [B].
    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<C>) -> Bytes;

    /// Writes cells from the front of `cells` until the send buffer is full, or until `limit` is reached
    /// or exceeded by less than a record [B]. Returns the bytes written to the socket, TLS included [B].
    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<C>, limit: Bytes) -> Bytes;

    /// Sends the messages as one datagram over DTLS. Returns its size with overhead [B]. The datagram
    /// may be lost. Hosts without datagrams need not implement this.
    fn send(&mut self, _channel: ChannelKey, _messages: &mut dyn Iterator<Item = Message<&C>>) -> Bytes {
        Bytes::ZERO
    }

    /// Takes the messages of the next datagram that arrived. Returns its size [B], zero if there is none.
    fn receive(&mut self, _channel: ChannelKey, _into: &mut Vec<Message<C>>) -> Bytes {
        Bytes::ZERO
    }

    /// The state of the channel's socket.
    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo;

    /// Chooses the readiness of the channel to report.
    fn want(&mut self, channel: ChannelKey, interest: Interest);

    /// Closes the channel's socket.
    fn close(&mut self, channel: ChannelKey);

    /// Reads at most `limit` bytes of a stream [B]. The limit is never above a cell's payload.
    fn read_stream(&mut self, stream: StreamKey, limit: u16) -> StreamRead<C::Payload>;

    /// Writes payloads from the front until the stream's buffer is full, or until `limit` is reached or
    /// exceeded by less than a cell [B]. Returns the bytes taken [B].
    fn write_stream(&mut self, stream: StreamKey, payloads: &mut VecDeque<C::Payload>, limit: Bytes)
    -> Bytes;

    /// Chooses the readiness of the stream to report.
    fn want_stream(&mut self, stream: StreamKey, interest: Interest);

    /// Closes the stream's socket after everything that it accepted is sent.
    fn close_stream(&mut self, stream: StreamKey);
}

/// The readiness to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Data can be read.
    pub readable: bool,
    /// Data can be written.
    pub writable: bool,
}
