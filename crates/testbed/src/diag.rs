//! What Linux says of a TCP socket, asked over netlink: `sock_diag` answers with what
//! `SIOCOUTQ`, `SIOCOUTQNSD`, `TCP_INFO` and `SO_SNDBUF` do, and needs no unsafe code.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use penstock_units::{Bytes, Duration};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

/// What Linux says of a TCP socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// SO_SNDBUF, in the kernel's own units, which count a segment's overhead [B].
    pub capacity: Bytes,
    /// Payload written and not yet acknowledged, SIOCOUTQ [B].
    pub queued: Bytes,
    /// Payload written and not yet sent, SIOCOUTQNSD [B].
    pub not_sent: Bytes,
    /// Congestion window [segment].
    pub cwnd: u32,
    /// Where slow start ends [segment]; `None` while it is infinite.
    pub ssthresh: Option<u32>,
    /// Segments sent and not yet acknowledged [segment].
    pub unacked: u32,
    /// Largest payload of a segment [B].
    pub mss: u32,
    /// Smoothed round trip [ns]; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Segments sent again since the connection began [segment].
    pub retransmits: u32,
    /// Time in which the receiver's window held the sender back [ns].
    pub window_limited: Duration,
    /// Time in which the send buffer did [ns].
    pub buffer_limited: Duration,
}

/// A netlink socket that answers for the sockets of its network namespace.
#[derive(Debug)]
pub struct Diag(OwnedFd);

// linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// Length of an `inet_diag_req_v2` with its netlink header [B].
const REQUEST: usize = 72;
/// Length of an `inet_diag_msg` with its netlink header [B]; and where in it the write queue's length is.
const ANSWER: usize = 88;
const WRITE_QUEUE: usize = 76;
/// TCP_INFINITE_SSTHRESH, net/tcp.h.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

impl Diag {
    /// For the namespace that the calling thread is in.
    pub fn new() -> std::io::Result<Diag> {
        let flags = SockFlag::SOCK_CLOEXEC;
        Ok(Diag(socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?))
    }

    /// What the kernel knows of an IPv4 socket; `None` where it does not tell.
    pub fn info(&self, socket: &TcpStream) -> Option<TcpInfo> {
        let (SocketAddr::V4(here), SocketAddr::V4(there)) =
            (socket.local_addr().ok()?, socket.peer_addr().ok()?)
        else {
            return None;
        };
        let mut request = [0u8; REQUEST];
        request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
        // AF_INET, IPPROTO_TCP, and which attributes.
        request[16..19].copy_from_slice(&[2, 6, 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1)]);
        request[20..24].fill(0xff);
        request[24..26].copy_from_slice(&here.port().to_be_bytes());
        request[26..28].copy_from_slice(&there.port().to_be_bytes());
        request[28..32].copy_from_slice(&here.ip().octets());
        request[44..48].copy_from_slice(&there.ip().octets());
        request[64..72].fill(0xff);
        send(self.0.as_raw_fd(), &request, MsgFlags::empty()).ok()?;
        let mut answer = [0u8; 2048];
        let len = recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
        parse(&answer[..len])
    }
}

fn parse(answer: &[u8]) -> Option<TcpInfo> {
    if answer.len() < ANSWER || answer[4..6] != SOCK_DIAG_BY_FAMILY.to_ne_bytes() {
        return None;
    }
    let mut info = TcpInfo { queued: Bytes::new(word(answer, WRITE_QUEUE)?.into()), ..TcpInfo::default() };
    let mut rest = &answer[ANSWER..];
    while rest.len() >= 4 {
        let len = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let (kind, value) = (u16::from_ne_bytes([rest[2], rest[3]]), rest.get(4..len)?);
        match kind {
            INET_DIAG_SKMEMINFO => info.capacity = Bytes::new(word(value, 12)?.into()),
            // Offsets in struct tcp_info, linux/tcp.h.
            INET_DIAG_INFO => {
                info.mss = word(value, 16)?;
                info.unacked = word(value, 24)?;
                let rtt = Duration::from_micros(word(value, 68)?.into());
                info.rtt = (rtt > Duration::ZERO).then_some(rtt);
                info.ssthresh = Some(word(value, 76)?).filter(|ssthresh| *ssthresh < INFINITE_SSTHRESH);
                info.cwnd = word(value, 80)?;
                info.retransmits = word(value, 100)?;
                info.not_sent = Bytes::new(word(value, 144)?.into());
                info.window_limited = Duration::from_micros(long(value, 176)?);
                info.buffer_limited = Duration::from_micros(long(value, 184)?);
            }
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Some(info)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
