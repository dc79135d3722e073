//! What carries a channel's cells: a stream, as TCP has it, or datagrams.

use crate::cell::{Cell, CircId};
use crate::datagram::{
    Association, DatagramConfig, DatagramCounters, Downstream, LinkEvent, MAX_DATAGRAM, RoundTrips,
};
use crate::kernel::{Kernel, SocketInfo};
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Instant};
use std::collections::VecDeque;

/// More than any scheduler writes in one go [B].
const UNLIMITED: Bytes = Bytes::mib(1024);

/// Between a channel's output buffer and the kernel, and back.
#[derive(Debug)]
pub(crate) enum Transport<C> {
    /// The kernel takes cells and delivers them.
    Stream,
    /// The kernel takes datagrams; what becomes of them is our affair.
    Datagrams(Box<Association<C>>),
}

impl<C: Cell> Transport<C> {
    pub(crate) fn datagrams(config: DatagramConfig) -> Self {
        Transport::Datagrams(Box::new(Association::new(config)))
    }

    fn association(&mut self) -> Option<&mut Association<C>> {
        if let Transport::Datagrams(association) = self { Some(association) } else { None }
    }

    pub(crate) fn is_datagrams(&self) -> bool {
        matches!(self, Transport::Datagrams(_))
    }

    /// Whether the peer says what it forwards; before the first cell.
    pub(crate) fn expect(&mut self, round_trips: RoundTrips) {
        if let Some(association) = self.association() {
            association.expect(round_trips);
        }
    }

    /// What could be written now, beside the output buffer [B].
    pub(crate) fn ready(&self) -> Bytes {
        if let Transport::Datagrams(association) = self { association.ready() } else { Bytes::ZERO }
    }

    /// Writes the output buffer to the kernel until it takes no more or `limit` is reached or exceeded by less than a
    /// record or datagram [B]; returns what was written [B].
    pub(crate) fn write(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        outbuf: &mut VecDeque<C>,
        limit: Bytes,
        kernel: &mut impl Kernel<C>,
    ) -> Bytes {
        match self {
            Transport::Stream => kernel.write(channel, outbuf, limit),
            Transport::Datagrams(association) => {
                association.flush(now, outbuf, limit, |messages| kernel.send(channel, messages))
            }
        }
    }

    /// Reads cells from the kernel until there are no more or `limit` is reached or exceeded by less than a record or
    /// datagram [B]; returns what was read [B].
    pub(crate) fn read(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        limit: Bytes,
        kernel: &mut impl Kernel<C>,
        cells: &mut VecDeque<C>,
        events: &mut Vec<LinkEvent>,
    ) -> Bytes {
        let Transport::Datagrams(association) = self else { return kernel.read(channel, limit, cells) };
        let mut read = Bytes::ZERO;
        let mut messages = std::mem::take(&mut association.inbox);
        while read < limit {
            let bytes = kernel.receive(channel, &mut messages);
            if bytes == Bytes::ZERO {
                break;
            }
            read += bytes;
            association.on_datagram(now, messages.drain(..), cells, events);
        }
        association.inbox = messages;
        read
    }

    /// What schedulers may ask of the socket: one of datagrams takes whatever comes, and holds nothing back.
    pub(crate) fn socket_info(&self, channel: ChannelKey, kernel: &mut impl Kernel<C>) -> SocketInfo {
        match self {
            Transport::Stream => kernel.socket_info(channel),
            Transport::Datagrams(_) => SocketInfo {
                capacity: UNLIMITED,
                cwnd: (UNLIMITED.get() / MAX_DATAGRAM as u64) as u32,
                mss: MAX_DATAGRAM as u32,
                ..SocketInfo::default()
            },
        }
    }

    /// Tells the peer what of its cells was forwarded; false if that changes nothing about what is to be written.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        id: CircId,
        forwarded: u32,
        downstream: Downstream,
    ) -> bool {
        self.association().is_some_and(|association| association.acknowledge(now, id, forwarded, downstream))
    }

    /// The peer closed a circuit.
    pub(crate) fn forget(&mut self, id: CircId) {
        if let Some(association) = self.association() {
            association.forget(id);
        }
    }

    /// When [`on_timer`](Self::on_timer) is to be called: for what is not acknowledged.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if let Transport::Datagrams(association) = self { association.poll_timeout() } else { None }
    }

    /// When it is to be called for a message that waits for company: as long after it came for every channel of a node.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        if let Transport::Datagrams(association) = self { association.held_until() } else { None }
    }

    pub(crate) fn on_timer(&mut self, now: Instant) {
        if let Some(association) = self.association() {
            association.on_timer(now);
        }
    }

    /// Whether there are circuits that must close for what did not happen.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self, Transport::Datagrams(association) if association.has_failed())
    }

    /// Those circuits.
    pub(crate) fn take_failed(&mut self) -> impl Iterator<Item = LinkEvent> + '_ {
        self.association().into_iter().flat_map(Association::take_failed)
    }

    pub(crate) fn counters(&self) -> DatagramCounters {
        if let Transport::Datagrams(association) = self { association.counters } else { Default::default() }
    }

    /// Cells that the peer has not acknowledged, as far as that is our affair [cell].
    pub(crate) fn unacknowledged(&self) -> u64 {
        if let Transport::Datagrams(association) = self { association.unacknowledged() } else { 0 }
    }
}
