//! Selects the calls to report, and reports them.

use libc::{c_int, sockaddr_storage, socklen_t};
use penstock_kqtime::mark::{
    Connection, Direction, FD_VARIABLE, INODE_VARIABLE, INTERVAL_VARIABLE, Mark, Tag, canonical,
};
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sockets with larger numbers are not reported [1].
const MAX_FDS: usize = 1 << 16;

/// The last look at each socket in each direction, since boot [ns].
static LAST: [[AtomicU64; MAX_FDS]; 2] = [const { [const { AtomicU64::new(0) }; MAX_FDS] }; 2];

/// Where reports go, and how often.
struct Settings {
    reports: c_int,
    /// The inode of the socket for reports. A program may close the socket, and the number may then be another file's.
    inode: u64,
    interval: u64,
}

static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();

/// Reads the environment.
pub(crate) fn read_settings() {
    let read = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    SETTINGS.get_or_init(|| {
        let reports = c_int::try_from(read(FD_VARIABLE)?).ok()?;
        Some(Settings { reports, inode: read(INODE_VARIABLE)?, interval: read(INTERVAL_VARIABLE)? })
    });
}

/// A call to report.
pub(crate) struct Sample {
    direction: Direction,
    connection: Connection,
    time: u64,
    queue: u32,
    settings: &'static Settings,
}

impl Sample {
    /// `None` if the socket is no TCP connection, or was looked at a short time ago. `errno` stays as it is.
    pub(crate) fn due(fd: c_int, direction: Direction) -> Option<Self> {
        let settings = SETTINGS.get()?.as_ref()?;
        let last = LAST[usize::from(direction == Direction::In)].get(usize::try_from(fd).ok()?)?;
        let now = clock(libc::CLOCK_MONOTONIC);
        if now.saturating_sub(last.load(Ordering::Relaxed)) < settings.interval {
            return None;
        }
        last.store(now, Ordering::Relaxed);
        keeping_errno(|| {
            let connection =
                Connection { local: name(fd, libc::getsockname)?, remote: name(fd, libc::getpeername)? };
            let request = if direction == Direction::Out { libc::TIOCOUTQ } else { libc::FIONREAD };
            let mut queue: c_int = 0;
            // SAFETY: these requests write one integer.
            let known = unsafe { libc::ioctl(fd, request, &raw mut queue) } == 0;
            let queue = if known { queue.max(0) as u32 } else { 0 };
            let time = clock(libc::CLOCK_REALTIME);
            Some(Self { direction, connection, time, queue, settings })
        })
    }

    /// Sends the report. If penstock-kqtime is too slow, the report is lost.
    pub(crate) fn send(self, tag: Tag) {
        let Self { direction, connection, time, queue, settings } = self;
        let bytes = Mark { direction, connection, time, queue, tag }.to_bytes();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        keeping_errno(|| {
            if inode(settings.reports) != Some(settings.inode) {
                return;
            }
            // SAFETY: the buffer has this length. The system call is made directly, because sendto is wrapped.
            unsafe {
                let no_address = std::ptr::null::<libc::sockaddr>();
                libc::syscall(
                    libc::SYS_sendto,
                    settings.reports,
                    bytes.as_ptr(),
                    bytes.len(),
                    flags,
                    no_address,
                    0,
                );
            }
        });
    }
}

/// The inode of a socket.
fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: zeros are a valid value.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the structure is writable.
    let known = unsafe { libc::fstat(fd, &raw mut status) } == 0;
    (known && status.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(status.st_ino)
}

fn keeping_errno<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: each thread has its own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let result = act();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

fn clock(id: libc::clockid_t) -> u64 {
    // SAFETY: zeros are a valid time.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the time is writable; Linux has both clocks.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

type NameCall = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int;

/// The address of one end of a TCP connection.
fn name(fd: c_int, call: NameCall) -> Option<SocketAddr> {
    // SAFETY: zeros are a valid address.
    let mut address: sockaddr_storage = unsafe { mem::zeroed() };
    let mut len = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: the buffer has this length.
    if unsafe { call(fd, (&raw mut address).cast(), &raw mut len) } != 0 || !is_stream(fd) {
        return None;
    }
    let address = match c_int::from(address.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is its type.
            let address = unsafe { *(&raw const address).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            SocketAddr::new(ip.into(), u16::from_be(address.sin_port))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is its type.
            let address = unsafe { *(&raw const address).cast::<libc::sockaddr_in6>() };
            SocketAddr::new(Ipv6Addr::from(address.sin6_addr.s6_addr).into(), u16::from_be(address.sin6_port))
        }
        _ => return None,
    };
    Some(canonical(address))
}

fn is_stream(fd: c_int) -> bool {
    let mut kind: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: the buffer has this length.
    let known = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut len)
    };
    known == 0 && kind == libc::SOCK_STREAM
}
