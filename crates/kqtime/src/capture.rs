//! Captures the TCP packets of all interfaces, with the kernel's time stamps.

use crate::Error;
use crate::mark::{Connection, Direction, canonical};
use crate::matching::Packet;
use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Space for packets that wait for this process [B].
const RECEIVE_BUFFER: usize = 64 << 20;
/// The largest IP packet, also of segmentation offload [B].
const LARGEST: usize = 1 << 16;

/// A captured packet.
#[derive(Debug)]
pub struct Captured {
    /// When the interface sent or received it: real time since 1970 [ns].
    pub time: u64,
    /// Its TCP payload, if it is kept.
    pub packet: Option<Packet>,
}

/// A packet socket.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Capture {
    /// Captures on all interfaces of this network namespace.
    ///
    /// # Errors
    ///
    /// [`Error::Machine`] without CAP_NET_RAW.
    pub fn open() -> Result<Self, Error> {
        let machine = |errno: Errno| {
            let remedy = "run it as root, in the network namespace of the program";
            Error::Machine(format!("packets cannot be captured ({}); {remedy}", errno.desc()))
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll)
            .map_err(machine)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(machine)?;
        // In a namespace of another user, only the size without privileges is possible.
        if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER).map_err(machine)?;
        }
        Ok(Self { socket, buffer: vec![0; LARGEST] })
    }

    /// The next captured packet. It is kept if it has TCP payload of a connection for which `keeps` is true. `None`: there
    /// is no packet now.
    pub fn next_packet(&mut self, keeps: impl Fn(&Connection) -> bool) -> Option<Captured> {
        loop {
            let mut space = cmsg_space!(TimeSpec);
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let fd = self.socket.as_raw_fd();
            let message = match recvmsg::<LinkAddr>(fd, &mut parts, Some(&mut space), MsgFlags::empty()) {
                Ok(message) => message,
                Err(Errno::EINTR) => continue,
                Err(_) => return None,
            };
            let direction = match message.address.map(|address| address.pkttype()) {
                Some(libc::PACKET_OUTGOING) => Direction::Out,
                Some(libc::PACKET_HOST) => Direction::In,
                _ => continue,
            };
            let time = message.cmsgs().ok().and_then(|mut messages| {
                messages.find_map(|message| match message {
                    ControlMessageOwned::ScmTimestampns(time) => Some(nanos(time)),
                    _ => None,
                })
            });
            let len = message.bytes;
            if let Some(time) = time {
                let packet = tcp_packet(direction, time, &self.buffer[..len], &keeps);
                return Some(Captured { time, packet });
            }
        }
    }

    /// Packets that found no space in the socket since the last call [1].
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        #[allow(unsafe_code, reason = "nix does not have this option")]
        // SAFETY: the structure is writable and has this length.
        let known = unsafe {
            let (fd, value) = (self.socket.as_raw_fd(), (&raw mut statistics).cast());
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut len)
        };
        if known == 0 { statistics.tp_drops.into() } else { 0 }
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn nanos(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// The TCP payload of an IP packet. `None` without payload, or for another connection.
fn tcp_packet(
    direction: Direction,
    time: u64,
    packet: &[u8],
    keeps: impl Fn(&Connection) -> bool,
) -> Option<Packet> {
    let sliced = LaxSlicedPacket::from_ip(packet).ok()?;
    let [from, to]: [IpAddr; 2] = match sliced.net? {
        LaxNetSlice::Ipv4(ip) => [ip.header().source_addr().into(), ip.header().destination_addr().into()],
        LaxNetSlice::Ipv6(ip) => [ip.header().source_addr().into(), ip.header().destination_addr().into()],
        LaxNetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { return None };
    let from = canonical(SocketAddr::new(from, tcp.source_port()));
    let to = canonical(SocketAddr::new(to, tcp.destination_port()));
    let (local, remote) = match direction {
        Direction::Out => (from, to),
        Direction::In => (to, from),
    };
    let connection = Connection { local, remote };
    let is_kept = !tcp.payload().is_empty() && keeps(&connection);
    let seq = tcp.sequence_number();
    is_kept.then(|| Packet { direction, connection, time, seq, payload: tcp.payload().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn payload_is_found_in_both_families() {
        let builders =
            [PacketBuilder::ipv4([1, 2, 3, 4], [5, 6, 7, 8], 64), PacketBuilder::ipv6([1; 16], [2; 16], 64)];
        for builder in builders {
            let mut bytes = Vec::new();
            builder.tcp(9001, 443, 77, 1000).write(&mut bytes, b"cells").unwrap();
            let out = tcp_packet(Direction::Out, 5, &bytes, |_| true).unwrap();
            assert_eq!((&out.payload[..], out.seq, out.time), (&b"cells"[..], 77, 5));
            assert_eq!((out.connection.local.port(), out.connection.remote.port()), (9001, 443));
            let arrived = tcp_packet(Direction::In, 5, &bytes, |_| true).unwrap().connection;
            assert_eq!((arrived.local, arrived.remote), (out.connection.remote, out.connection.local));
            assert!(tcp_packet(Direction::In, 5, &bytes, |_| false).is_none());
        }
    }

    #[test]
    fn packets_without_payload_and_other_protocols_are_left_out() {
        let mut empty = Vec::new();
        PacketBuilder::ipv4([1; 4], [2; 4], 64).tcp(1, 2, 3, 4).write(&mut empty, b"").unwrap();
        let mut udp = Vec::new();
        PacketBuilder::ipv4([1; 4], [2; 4], 64).udp(1, 2).write(&mut udp, b"cells").unwrap();
        for bytes in [&empty[..], &udp, &udp[..10], b"", b"\xff"] {
            assert!(tcp_packet(Direction::Out, 5, bytes, |_| true).is_none());
        }
    }
}
