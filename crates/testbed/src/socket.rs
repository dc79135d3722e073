//! TCP sockets of experiments.

use crate::Error;
use crate::error::machine;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt};
use serde::Serialize;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use strum::{Display, EnumString, VariantNames};

/// A congestion control of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Congestion {
    /// CUBIC, RFC 9438.
    Cubic,
    /// Reno, RFC 5681.
    Reno,
}

impl Congestion {
    /// Whether HyStart is on; `None` for Reno, or if the kernel does not report it.
    pub fn hystart(self) -> Option<bool> {
        let text = fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart").ok()?;
        (self == Congestion::Cubic).then(|| text.trim() != "0")
    }
}

/// Connects to `to` from the network namespace of the calling thread. Blocks until the connection is established. The
/// process needs root in its user namespace if `net.ipv4.tcp_allowed_congestion_control` lacks `congestion`. Root may
/// select it for a socket, but not as the namespace's default.
pub fn dial(to: SocketAddrV4, congestion: Congestion) -> Result<TcpStream, Error> {
    let refused = |what: &str, error: Errno| machine!("{what}: {error}");
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|error| refused("no TCP socket can be made here", error))?;
    setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(congestion.to_string())).map_err(|error| {
        refused(&format!("this kernel does not let a socket use {congestion} (load tcp_{congestion})"), error)
    })?;
    connect(fd.as_raw_fd(), &SockaddrIn::from(to))
        .map_err(|error| refused("the other node cannot be reached", error))?;
    Ok(TcpStream::from(fd))
}

/// Linux's default buffer sizes, for an application that writes as much as the socket accepts.
pub const OWN_BUFFERS: [(&str, &str); 3] =
    [("tcp_wmem", "4096 16384 4194304"), ("tcp_rmem", "4096 131072 6291456"), ("tcp_no_metrics_save", "1")];

/// Connects with CUBIC, without Nagle's algorithm and non-blocking, for an application with unlimited data.
pub fn dial_eager(to: SocketAddrV4) -> Result<TcpStream, Error> {
    let socket = dial(to, Congestion::Cubic)?;
    socket
        .set_nonblocking(true)
        .and_then(|()| socket.set_nodelay(true))
        .map_err(|error| machine!("{error}"))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::word;

    #[test]
    fn congestion_controls_have_the_kernels_names() {
        for name in ["cubic", "reno"] {
            assert_eq!(name.parse::<Congestion>().unwrap().to_string(), name);
        }
        let error = word::<Congestion>("--congestion", "bbr").unwrap_err();
        assert_eq!(error.to_string(), r#"--congestion "bbr" is unknown: write cubic or reno"#);
    }
}
