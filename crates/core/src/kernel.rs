//! What the relay sees of its host.
//!
//! Synchronous, non-blocking, monomorphised. The simulator's kernel and Linux implement it.
//! It is pulled, because vanilla Tor writes until the kernel refuses and KIST asks again after writing.

use crate::cell::Cell;
use crate::datagram::Message;
use crate::keys::{ChannelKey, StreamKey};
use crate::reason::EndReason;
use penstock_units::{Bytes, Duration};
use std::collections::VecDeque;

/// What the kernel says of a socket (Linux: `SO_SNDBUF`, `SIOCOUTQ`, `SIOCOUTQNSD`, `TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// What the send buffer holds at most [B].
    pub capacity: Bytes,
    /// What it holds: sent but not acknowledged, and not sent [B].
    pub queued: Bytes,
    /// What of it was not sent yet [B].
    pub not_sent: Bytes,
    /// Congestion window [segment].
    pub cwnd: u32,
    /// Segments sent but not acknowledged [segment].
    pub unacked: u32,
    /// Payload of a full segment [B].
    pub mss: u32,
    /// Smoothed round-trip time [ns]; zero if none was measured.
    pub rtt: Duration,
}

/// What reading a stream gave.
#[derive(Debug)]
pub enum StreamRead<P> {
    /// Some bytes.
    Data(P),
    /// None now.
    Blocked,
    /// The other end sends no more, and why.
    Closed(EndReason),
}

/// The host of one relay.
///
/// A channel delivers and accepts whole cells: what of a cell crossed the socket so far is the
/// host's affair, as it is a TLS library's. A host that holds half a cell waits for the socket by
/// itself, since the relay believes it written.
pub trait Kernel<C: Cell> {
    /// Takes cells that arrived, in order, until `limit` is reached or exceeded by less than a
    /// record [B]; returns what was read from the socket for them, TLS included [B].
    fn read(&mut self, channel: ChannelKey, limit: Bytes, into: &mut VecDeque<C>) -> Bytes;

    /// Accepts cells from the front of `cells` until the send buffer is full or `limit` is reached
    /// or exceeded by less than a record [B]; returns what was written to the socket for them, TLS
    /// included [B].
    fn write(&mut self, channel: ChannelKey, cells: &mut VecDeque<C>, limit: Bytes) -> Bytes;

    /// Sends the messages as one datagram of a channel of datagrams, over DTLS; returns what it took [B], overhead
    /// included. Nobody says what becomes of it. A host without datagrams need not know how.
    fn send(&mut self, _channel: ChannelKey, _messages: &mut dyn Iterator<Item = Message<&C>>) -> Bytes {
        Bytes::ZERO
    }

    /// Takes the messages of the next datagram that arrived; returns what it took [B], zero if there is none.
    fn receive(&mut self, _channel: ChannelKey, _into: &mut Vec<Message<C>>) -> Bytes {
        Bytes::ZERO
    }

    /// What the kernel knows of the channel's socket.
    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo;

    /// Which readiness of the channel to report.
    fn want(&mut self, channel: ChannelKey, interest: Interest);

    /// Closes the channel's socket.
    fn close(&mut self, channel: ChannelKey);

    /// Takes at most `limit` bytes of a stream (never more than a cell's payload) [B].
    fn read_stream(&mut self, stream: StreamKey, limit: u16) -> StreamRead<C::Payload>;

    /// Accepts payloads from the front until the stream's buffer is full or `limit` is reached or
    /// exceeded by less than a cell [B]; returns the bytes taken [B].
    fn write_stream(&mut self, stream: StreamKey, payloads: &mut VecDeque<C::Payload>, limit: Bytes)
    -> Bytes;

    /// Which readiness of the stream to report.
    fn want_stream(&mut self, stream: StreamKey, interest: Interest);

    /// Closes the stream's socket once what it accepted is sent.
    fn close_stream(&mut self, stream: StreamKey);
}

/// Which readiness to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// That there is something to read.
    pub readable: bool,
    /// That there is room to write.
    pub writable: bool,
}
