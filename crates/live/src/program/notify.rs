//! Messages to the service manager, by the protocol of systemd's sd_notify(3).
//!
//! The socket is connected before the relay changes its user and restricts its files and system calls. Sending a
//! message later then needs no right, and no other system call than `sendto`.
//!
//! This is own code, because the protocol is one datagram of text lines. The crate `sd-notify` opens the socket for
//! each message.

use penstock_units::{Duration, Instant};
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::{env, io, process};

/// The longest time that a message waits for a service manager that reads no messages.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// The time between updates of the status.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);
/// The time for the last work of a relay after the last circuit, such as its tables.
const LAST_WORK: Duration = Duration::from_secs(60);
/// A node waits for events for up to a second, and must send twice in the time of the watchdog.
const SHORTEST_WATCHDOG: Duration = Duration::from_secs(2);

/// The connection to the service manager. Without a service manager, all calls do nothing.
#[derive(Debug, Default)]
pub(super) struct Notify {
    socket: Option<UnixDatagram>,
    /// Time after which a silent relay is restarted.
    watchdog: Option<Duration>,
    next_ping: Instant,
    next_status: Instant,
    status: String,
}

impl Notify {
    /// Reads the variables that the service manager sets, and connects to its socket.
    ///
    /// # Errors
    ///
    /// If there is no such socket.
    pub(super) fn from_environment() -> io::Result<Self> {
        let is_ours = env::var_os("WATCHDOG_PID").is_none_or(|pid| *pid == *process::id().to_string());
        let micros = env::var("WATCHDOG_USEC").ok().and_then(|micros| micros.parse().ok());
        let watchdog = micros.filter(|micros| is_ours && *micros > 0).map(Duration::from_micros);
        env::var_os("NOTIFY_SOCKET")
            .map_or_else(|| Ok(Notify::default()), |name| Notify::connect(&name, watchdog))
    }

    /// Connects to a socket in the file system, or to one with an abstract name after `@` (unix(7)).
    fn connect(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::other("the name starts with neither / nor @")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(MAX_WAIT))?;
        Ok(Notify { socket: Some(socket), watchdog, ..Notify::default() })
    }

    /// A shorter time of the watchdog than a healthy relay needs.
    pub(super) fn too_short_watchdog(&self) -> Option<Duration> {
        self.watchdog.filter(|watchdog| *watchdog < SHORTEST_WATCHDOG)
    }

    /// The relay accepts links, or has read its torrc again.
    pub(super) fn ready(&mut self, now: Instant, status: &str) {
        self.send(&["READY=1", &line(status)]);
        self.next_status = now + STATUS_INTERVAL;
    }

    /// The relay reads its torrc again; `micros` is the time of `CLOCK_MONOTONIC` [µs].
    pub(super) fn reloading(&self, micros: u64) {
        self.send(&["RELOADING=1", &format!("MONOTONIC_USEC={micros}")]);
    }

    /// The relay ends after at most `wait`.
    pub(super) fn stopping(&self, wait: Duration, status: &str) {
        let micros = (wait + LAST_WORK).as_micros();
        self.send(&["STOPPING=1", &format!("EXTEND_TIMEOUT_USEC={micros}"), &line(status)]);
    }

    /// Tells the watchdog that the relay works, and updates the status. Each is sent when it is due.
    pub(super) fn tick(&mut self, now: Instant, status: impl FnOnce() -> String) {
        if self.socket.is_none() {
            return;
        }
        if let Some(watchdog) = self.watchdog.filter(|_| self.next_ping <= now) {
            self.send(&["WATCHDOG=1"]);
            self.next_ping = now + watchdog / 3;
        }
        if self.next_status <= now {
            self.next_status = now + STATUS_INTERVAL;
            let status = status();
            if status != self.status {
                self.send(&[&line(&status)]);
                self.status = status;
            }
        }
    }

    fn send(&self, lines: &[&str]) {
        if let Some(socket) = &self.socket {
            // A service manager that reads no messages must not stop the relay.
            let _ = socket.send(lines.join("\n").as_bytes());
        }
    }
}

/// The assignment of a status. A line break inside it would start another assignment.
fn line(status: &str) -> String {
    format!("STATUS={}", status.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A service manager's socket in the file system, and its name.
    fn manager(test: &str) -> (UnixDatagram, PathBuf) {
        let path = env::temp_dir().join(format!("penstock-notify-{}-{test}", process::id()));
        let _ = std::fs::remove_file(&path);
        (UnixDatagram::bind(&path).unwrap(), path)
    }

    /// The next message; `None` if there is none.
    fn message(manager: &UnixDatagram) -> Option<String> {
        manager.set_nonblocking(true).unwrap();
        let mut bytes = [0; 4096];
        let read = manager.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..read].to_vec()).unwrap())
    }

    fn after(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn messages_have_the_assignments_of_sd_notify() {
        let (manager, path) = manager("messages");
        let mut notify = Notify::connect(path.as_os_str(), None).unwrap();
        // The socket's name is not needed any more.
        std::fs::remove_file(path).unwrap();
        notify.ready(after(0), "accepts links");
        notify.reloading(1_234_567);
        notify.stopping(Duration::from_secs(30), "waits");
        let expected = [
            "READY=1\nSTATUS=accepts links",
            "RELOADING=1\nMONOTONIC_USEC=1234567",
            "STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000\nSTATUS=waits",
        ];
        for expected in expected {
            assert_eq!(message(&manager).as_deref(), Some(expected));
        }
        assert_eq!(message(&manager), None);
    }

    #[test]
    fn an_abstract_name_starts_with_an_at_sign() {
        let name = format!("penstock-notify-{}", process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Notify::connect(format!("@{name}").as_ref(), None).unwrap().ready(after(0), "accepts links");
        assert_eq!(message(&manager).as_deref(), Some("READY=1\nSTATUS=accepts links"));
    }

    #[test]
    fn a_missing_socket_is_an_error() {
        for name in ["/nowhere/notify", "@penstock-nowhere", "vsock:2:1", "relative", ""] {
            assert!(Notify::connect(name.as_ref(), None).is_err(), "{name}");
        }
    }

    #[test]
    fn the_watchdog_hears_the_relay_three_times_in_its_time() {
        let (manager, path) = manager("watchdog");
        let mut notify = Notify::connect(path.as_os_str(), Some(Duration::from_secs(3))).unwrap();
        std::fs::remove_file(path).unwrap();
        notify.next_status = Instant::FAR_FUTURE;
        let pings: Vec<u64> = (0..30)
            .map(|step| step * 100)
            .filter(|millis| {
                notify.tick(after(*millis), String::new);
                message(&manager).is_some_and(|message| message == "WATCHDOG=1")
            })
            .collect();
        assert_eq!(pings, [0, 1000, 2000]);
        assert_eq!(notify.too_short_watchdog(), None);
        notify.watchdog = Some(Duration::from_millis(1999));
        assert_eq!(notify.too_short_watchdog(), notify.watchdog);
    }

    #[test]
    fn a_status_is_one_line_and_is_sent_after_a_change() {
        let (manager, path) = manager("status");
        let mut notify = Notify::connect(path.as_os_str(), None).unwrap();
        std::fs::remove_file(path).unwrap();
        let mut notified = |millis, status: &str| {
            notify.tick(after(millis), || status.to_owned());
            message(&manager)
        };
        assert_eq!(notified(0, "no link\nREADY=1").as_deref(), Some("STATUS=no link READY=1"));
        assert_eq!(notified(9_999, "a link"), None);
        assert_eq!(notified(10_000, "a link").as_deref(), Some("STATUS=a link"));
        assert_eq!(notified(20_000, "a link"), None);
    }

    #[test]
    fn a_service_manager_that_reads_no_messages_stops_no_relay() {
        let (manager, path) = manager("silent");
        let mut notify = Notify::connect(path.as_os_str(), None).unwrap();
        std::fs::remove_file(path).unwrap();
        let queue: u64 =
            std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap().trim().parse().unwrap();
        // Linux queues at most one message more than this limit; the next one waits.
        (0..queue + 2).for_each(|_| notify.ready(after(0), "again"));
        assert_eq!(message(&manager).as_deref(), Some("READY=1\nSTATUS=again"));
        drop(manager);
        notify.ready(after(0), "to no socket");
        Notify::default().ready(after(0), "to no service manager");
    }
}
