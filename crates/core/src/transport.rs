use crate::cell::Cell;
use crate::datagram::{Association, DatagramConfig, LinkEvent, MAX_DATAGRAM};
use crate::kernel::{Kernel, SocketInfo};
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Instant};
use std::collections::VecDeque;

/// More bytes than any scheduler writes in one call [B].
const UNLIMITED: Bytes = Bytes::mib(1024);

#[derive(Debug)]
pub(crate) enum Transport<C> {
    /// A TCP stream: the kernel takes and delivers cells.
    Stream,
    /// Datagrams: the kernel takes and delivers datagrams, and the association retransmits lost cells.
    Datagrams(Box<Association<C>>),
}

impl<C: Cell> Transport<C> {
    pub(crate) fn datagrams(config: DatagramConfig) -> Self {
        Transport::Datagrams(Box::new(Association::new(config)))
    }

    pub(crate) fn association(&self) -> Option<&Association<C>> {
        if let Transport::Datagrams(association) = self { Some(association) } else { None }
    }

    pub(crate) fn association_mut(&mut self) -> Option<&mut Association<C>> {
        if let Transport::Datagrams(association) = self { Some(association) } else { None }
    }

    pub(crate) fn ready(&self) -> Bytes {
        self.association().map_or(Bytes::ZERO, Association::ready)
    }

    /// Writes the output buffer to the kernel until the kernel refuses or `limit` is reached [B]. The last TLS record
    /// or datagram may exceed the limit. Returns the bytes written [B].
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

    /// Reads cells from the kernel until none is left or `limit` is reached [B]. The last TLS record or datagram may
    /// exceed the limit. Returns the bytes read [B].
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

    /// The socket state that schedulers see. A datagram socket accepts every byte and queues no bytes. For datagrams that
    /// travel over TCP, it is the state of the TCP socket.
    pub(crate) fn socket_info(&self, channel: ChannelKey, kernel: &mut impl Kernel<C>) -> SocketInfo {
        match self {
            Transport::Datagrams(_) if kernel.uses_udp(channel) => SocketInfo {
                capacity: UNLIMITED,
                cwnd: (UNLIMITED.get() / MAX_DATAGRAM as u64) as u32,
                mss: MAX_DATAGRAM as u32,
                ..SocketInfo::default()
            },
            Transport::Stream | Transport::Datagrams(_) => kernel.socket_info(channel),
        }
    }
}
