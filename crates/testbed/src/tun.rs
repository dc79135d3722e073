//! A TUN device. The forwarding loop reads packets that the kernel sends. It writes packets that the kernel receives.

use crate::Error;
use crate::error::machine;
use nix::errno::Errno;
use std::ffi::c_char;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// An IPv4 packet.
pub type Packet = Vec<u8>;

/// Maximum size of a packet, which is the MTU of the interface [B].
pub const MTU: usize = 1500;

/// A TUN device without offloads. Each read is one packet on the link.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Creates the interface `name` in the network namespace of the calling thread.
    pub fn open(name: &str) -> Result<Tun, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|error| {
                machine!("/dev/net/tun cannot be opened: {error}; load the kernel module tun")
            })?;
        attach(&file, name).map_err(|error| machine!("no TUN device can be made here: {error}"))?;
        Ok(Tun(file))
    }

    /// The next packet that the kernel sent; `None` if no packet waits.
    pub fn read(&self) -> std::io::Result<Option<Packet>> {
        let mut packet = vec![0; MTU];
        match (&self.0).read(&mut packet) {
            Ok(len) => {
                packet.truncate(len);
                Ok(Some(packet))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes `packet` to the kernel. The kernel handles the packet before this call returns.
    pub fn write(&self, packet: &[u8]) -> std::io::Result<()> {
        (&self.0).write_all(packet)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Packets that the interface `name` dropped before the loop read them [packet]. The interface is in the network
/// namespace of the calling thread.
pub fn drops(name: &str) -> Result<u64, Error> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").map_err(|error| machine!("{error}"))?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    // Columns: eight for receiving, then bytes, packets, errors and drops for sending.
    let drops = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    drops.ok_or_else(|| machine!("/proc/net/dev has no line for {name}"))
}

/// Assigns an interface name to a TUN file with TUNSETIFF, linux/if_tun.h.
#[allow(unsafe_code, reason = "nothing safe has this ioctl")]
fn attach(file: &File, name: &str) -> Result<(), Errno> {
    assert!(name.len() < libc::IFNAMSIZ, "{name} is too long for an interface");
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as i16 },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    // SAFETY: the file is open. The request is a whole ifreq that lives until the call returns.
    Errno::result(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) }).map(drop)
}
