//! Reads the state of a TCP socket in Linux over netlink. `sock_diag` reports the same values as `SIOCOUTQ`,
//! `SIOCOUTQNSD`, `TCP_INFO` and `SO_SNDBUF`, without unsafe code.

use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use penstock_units::{Bytes, Duration};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};

/// State of a TCP socket in Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// SO_SNDBUF, which includes the kernel's overhead for each segment [B].
    pub capacity: Bytes,
    /// Payload written and not yet acknowledged, SIOCOUTQ [B].
    pub queued: Bytes,
    /// Payload written and not yet sent, SIOCOUTQNSD [B].
    pub not_sent: Bytes,
    /// Congestion window [segment].
    pub cwnd: u32,
    /// Slow start threshold [segment]; `None` while it is infinite.
    pub ssthresh: Option<u32>,
    /// Segments sent and not yet acknowledged [segment].
    pub unacked: u32,
    /// Segments in the network, as TCP estimates [segment].
    pub in_flight: u32,
    /// Largest payload of a segment [B].
    pub mss: u32,
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Segments retransmitted since the connection was opened [segment].
    pub retransmits: u32,
    /// Total time in which the receive window limited the sender.
    pub window_limited: Duration,
    /// Total time in which the send buffer limited the sender.
    pub buffer_limited: Duration,
}

/// A netlink socket. It reports the sockets of its network namespace.
#[derive(Debug)]
pub struct Diag(OwnedFd);

/// Linux's TCP_INFINITE_SSTHRESH, net/tcp.h.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

impl Diag {
    /// Opens a netlink socket in the network namespace of the calling thread.
    pub fn new() -> std::io::Result<Diag> {
        let flags = SockFlag::SOCK_CLOEXEC;
        Ok(Diag(socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?))
    }

    /// State of an IPv4 socket; `None` if the kernel does not report the socket.
    pub fn info(&self, socket: &TcpStream) -> Option<TcpInfo> {
        let (here, there) = (socket.local_addr().ok()?, socket.peer_addr().ok()?);
        if !here.is_ipv4() {
            return None;
        }
        let request = InetRequest {
            family: AF_INET,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO | ExtensionFlags::SKMEMINFO,
            states: StateFlags::all(),
            socket_id: SocketId {
                source_port: here.port(),
                destination_port: there.port(),
                source_address: here.ip(),
                destination_address: there.ip(),
                interface_id: 0,
                cookie: [0xff; 8],
            },
        };
        let mut message = NetlinkMessage::from(SockDiagMessage::InetRequest(request));
        message.header.flags = NLM_F_REQUEST;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(self.0.as_raw_fd(), &bytes, MsgFlags::empty()).ok()?;
        let mut answer = [0u8; 2048];
        let len = recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
        let answer = NetlinkMessage::<SockDiagMessage>::deserialize(&answer[..len]).ok()?;
        match answer.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => Some(read(&response)),
            _ => None,
        }
    }
}

fn read(response: &InetResponse) -> TcpInfo {
    let queued = Bytes::new(response.header.send_queue.into());
    let mut info = TcpInfo { queued, ..TcpInfo::default() };
    for attribute in &response.nlas {
        match attribute {
            Nla::MemInfo(memory) => info.capacity = Bytes::new(memory.send_queue_max.into()),
            Nla::TcpInfo(tcp) => {
                info.mss = tcp.snd_mss;
                info.unacked = tcp.unacked;
                info.in_flight = (tcp.unacked + tcp.retrans).saturating_sub(tcp.sacked + tcp.lost);
                info.rtt = Some(Duration::from_micros(tcp.rtt.into())).filter(|rtt| !rtt.is_zero());
                info.ssthresh = Some(tcp.snd_ssthresh).filter(|ssthresh| *ssthresh < INFINITE_SSTHRESH);
                info.cwnd = tcp.snd_cwnd;
                info.retransmits = tcp.total_retrans;
                info.not_sent = Bytes::new(tcp.notsent_bytes.into());
                info.window_limited = Duration::from_micros(tcp.rwnd_limited);
                info.buffer_limited = Duration::from_micros(tcp.sndbuf_limited);
            }
            _ => {}
        }
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::NLM_F_DUMP;
    use std::net::TcpListener;
    use std::time::Instant;

    const NLMSG_DONE: u16 = 3;

    /// Reads the state of all connections to `port` with one request. Returns their number.
    fn dump(diag: &Diag, port: u16, answer: &mut [u8], parse: bool) -> usize {
        let request = InetRequest {
            family: AF_INET,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO | ExtensionFlags::SKMEMINFO,
            states: StateFlags::all(),
            socket_id: SocketId { destination_port: port, ..SocketId::new_v4() },
        };
        let mut message = NetlinkMessage::from(SockDiagMessage::InetRequest(request));
        message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(diag.0.as_raw_fd(), &bytes, MsgFlags::empty()).unwrap();
        let mut sockets = 0;
        loop {
            let len = recv(diag.0.as_raw_fd(), answer, MsgFlags::empty()).unwrap();
            let mut rest = &answer[..len];
            while rest.len() >= 16 {
                let size = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
                if u16::from_ne_bytes(rest[4..6].try_into().unwrap()) == NLMSG_DONE {
                    return sockets;
                }
                if parse {
                    let message = NetlinkMessage::<SockDiagMessage>::deserialize(&rest[..size]).unwrap();
                    let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) =
                        message.payload
                    else {
                        panic!("not the state of a socket");
                    };
                    assert!(read(&response).cwnd > 0);
                }
                sockets += 1;
                rest = &rest[size.next_multiple_of(4).min(rest.len())..];
            }
        }
    }

    /// KIST section 7 names one netlink request for all sockets as an alternative to calls for each socket.
    #[test]
    #[ignore = "measures: cargo test --release -p penstock-testbed --lib -- --ignored --nocapture measure_one_dump"]
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    fn measure_one_dump_of_all_sockets() {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let diag = Diag::new().unwrap();
        let mut answer = vec![0; 1 << 16];
        for count in [400, 5000] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let _sockets: Vec<_> = (0..count)
                .map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap()))
                .collect();
            for (what, parse) in [("by the kernel", false), ("and read", true)] {
                let mut rounds: Vec<f64> = (0..100_000 / count)
                    .map(|_| {
                        let begun = Instant::now();
                        assert_eq!(dump(&diag, address.port(), &mut answer, parse), count);
                        begun.elapsed().as_secs_f64() * 1e6 / count as f64
                    })
                    .collect();
                rounds.sort_by(f64::total_cmp);
                let median = rounds[rounds.len() / 2];
                println!(
                    "one dump {what}: {median:.2} µs for each of {count} connections; the median of {} rounds",
                    rounds.len()
                );
            }
        }
    }
}
