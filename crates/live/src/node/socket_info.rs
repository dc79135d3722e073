//! The kernel's state of a socket, which KIST reads (section 4.4): SO_SNDBUF, SIOCOUTQ and TCP_INFO. TCP_INFO also
//! has the value of SIOCOUTQNSD.

// No library offers TCP_INFO and these ioctls as safe functions.
#![allow(unsafe_code)]

use penstock_core::SocketInfo;
use penstock_units::{Bytes, Duration};
use std::mem::{MaybeUninit, offset_of};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// The ioctl for unsent bytes in the send buffer (linux/sockios.h).
const SIOCOUTQNSD: nix::libc::Ioctl = 0x894B;

/// The state of a socket; `None` if the socket is closed.
pub(super) fn socket_info(socket: &TcpStream) -> Option<SocketInfo> {
    let (info, len) = tcp_info(socket)?;
    let not_sent =
        if says_unsent(len) { info.tcpi_notsent_bytes.into() } else { count(socket, SIOCOUTQNSD)? };
    Some(SocketInfo {
        capacity: Bytes::new(socket2::SockRef::from(socket).send_buffer_size().ok()? as u64),
        queued: Bytes::new(count(socket, nix::libc::TIOCOUTQ)?),
        not_sent: Bytes::new(not_sent),
        cwnd: info.tcpi_snd_cwnd,
        unacked: info.tcpi_unacked,
        in_flight: (info.tcpi_unacked + info.tcpi_retrans).saturating_sub(info.tcpi_sacked + info.tcpi_lost),
        // An older kernel leaves the field zero.
        peer_window: Bytes::new(info.tcpi_snd_wnd.into()),
        mss: info.tcpi_snd_mss,
        rtt: Duration::from_micros(info.tcpi_rtt.into()),
    })
}

/// Bytes in the send buffer [B]; zero if the socket is closed.
pub(super) fn queued(socket: &TcpStream) -> Bytes {
    Bytes::new(count(socket, nix::libc::TIOCOUTQ).unwrap_or(0))
}

/// Whether a TCP_INFO of `len` bytes [B] has the number of unsent bytes. Linux 4.6 added this field.
fn says_unsent(len: usize) -> bool {
    len >= offset_of!(nix::libc::tcp_info, tcpi_notsent_bytes) + size_of::<u32>()
}

/// The TCP_INFO of a socket, and its length [B].
fn tcp_info(socket: &TcpStream) -> Option<(nix::libc::tcp_info, usize)> {
    let mut info = MaybeUninit::<nix::libc::tcp_info>::zeroed();
    let mut len = size_of::<nix::libc::tcp_info>() as nix::libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the struct's size. Any bytes are valid, because all fields are
    // numbers.
    unsafe {
        let (level, name) = (nix::libc::IPPROTO_TCP, nix::libc::TCP_INFO);
        let done =
            nix::libc::getsockopt(socket.as_raw_fd(), level, name, info.as_mut_ptr().cast(), &raw mut len);
        (done == 0).then(|| (info.assume_init(), len as usize))
    }
}

/// The value of an ioctl [B].
fn count(socket: &TcpStream, what: nix::libc::Ioctl) -> Option<u64> {
    let mut bytes: nix::libc::c_int = 0;
    // SAFETY: both ioctls write one `c_int`.
    let done = unsafe { nix::libc::ioctl(socket.as_raw_fd(), what, &raw mut bytes) };
    (done == 0).then_some(bytes.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn unread_bytes_are_counted_as_queued() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let idle = socket_info(&socket).unwrap();
        assert_eq!((idle.queued, idle.not_sent), (Bytes::ZERO, Bytes::ZERO));
        assert!(idle.cwnd > 0 && idle.mss >= 536 && idle.capacity > Bytes::ZERO, "{idle:?}");
        while socket.write(&[0; 65_536]).is_ok() {}
        let full = socket_info(&socket).unwrap();
        assert!(
            full.queued > Bytes::ZERO && full.not_sent > Bytes::ZERO && full.not_sent <= full.queued,
            "{full:?}"
        );
        let (info, len) = tcp_info(&socket).unwrap();
        assert!(says_unsent(len), "this kernel is older than 4.6");
        assert_eq!(Some(info.tcpi_notsent_bytes.into()), count(&socket, SIOCOUTQNSD), "as the ioctl has it");
    }

    /// KIST section 5.2 reports 0.914 µs for one connection, and 4.57 ms for 5000.
    #[test]
    #[ignore = "measures: cargo test --release -p penstock-live --lib -- --ignored --nocapture measure_the_time_of_a_socket_query"]
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    fn measure_the_time_of_a_socket_query() {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        let sockets: Vec<_> = (0..5000).map(open).collect();
        // The three calls of KIST section 4.4: SO_SNDBUF, SIOCOUTQ and TCP_INFO.
        let three: fn(&TcpStream) -> bool = |socket| {
            tcp_info(socket).is_some()
                && count(socket, nix::libc::TIOCOUTQ).is_some()
                && socket2::SockRef::from(socket).send_buffer_size().is_ok()
        };
        let fourth: fn(&TcpStream) -> bool = |socket| count(socket, SIOCOUTQNSD).is_some();
        for (what, ask) in
            [("the paper's three calls take", three), ("SIOCOUTQNSD, for Linux before 4.6, takes", fourth)]
        {
            for count in [400, 5000] {
                let mut rounds: Vec<f64> = (0..100_000 / count)
                    .map(|_| {
                        let begun = std::time::Instant::now();
                        assert!(sockets[..count].iter().all(|(socket, _)| ask(socket)));
                        begun.elapsed().as_secs_f64() * 1e6 / count as f64
                    })
                    .collect();
                rounds.sort_by(f64::total_cmp);
                let median = rounds[rounds.len() / 2];
                println!(
                    "{what} {median:.2} µs, {:.1} ms for {count} connections; the median of {} rounds",
                    median * count as f64 / 1000.0,
                    rounds.len()
                );
            }
        }
    }
}
