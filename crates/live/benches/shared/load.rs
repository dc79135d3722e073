//! Background load: users who download again and again, each on circuits of its own.

use crate::exchange::exchange;
use crate::testnet::socks_at;
use penstock_units::Rng;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// A web page as in the paper's experiments [B] (KIST section 3).
pub(crate) const WEB: u64 = 320 << 10;
/// A file of a bulk user in the same experiments [B].
pub(crate) const BULK: u64 = 5 << 20;

/// A user with downloads of one size.
pub(crate) struct User {
    /// The SOCKS port of the user's client.
    pub(crate) socks: SocketAddr,
    /// Streams with different names use different circuits.
    pub(crate) name: String,
    /// The size of a download [B].
    pub(crate) bytes: u64,
    /// The shortest and the longest pause between two downloads [ms].
    pub(crate) pause: [u64; 2],
    pub(crate) rng: Rng,
}

/// The open stream of each user, and whether all downloads must end.
struct Open {
    streams: Vec<Option<TcpStream>>,
    has_ended: bool,
}

/// Runs `work` while these users download from a server. Then all downloads end.
pub(crate) fn during<T>(users: Vec<User>, server: SocketAddr, work: impl FnOnce() -> T) -> T {
    let streams = users.iter().map(|_| None).collect();
    let open = Mutex::new(Open { streams, has_ended: false });
    thread::scope(|scope| {
        for (place, user) in users.into_iter().enumerate() {
            let open = &open;
            scope.spawn(move || user.run(server, place, open));
        }
        let result = work();
        let mut open = open.lock().expect("no user panics");
        open.has_ended = true;
        for stream in open.streams.iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        result
    })
}

impl User {
    fn run(mut self, server: SocketAddr, place: usize, open: &Mutex<Open>) {
        let has_ended = || open.lock().expect("no user panics").has_ended;
        while !has_ended() {
            let Ok(stream) = socks_at(self.socks, server, Some(&self.name)) else {
                thread::sleep(Duration::from_millis(200));
                continue;
            };
            {
                let mut open = open.lock().expect("no user panics");
                if open.has_ended {
                    return;
                }
                open.streams[place] = Some(stream.try_clone().expect("there are file descriptors"));
            }
            // The last download of each user ends with an error.
            let _ = exchange(&stream, 0, self.bytes);
            open.lock().expect("no user panics").streams[place] = None;
            let mut pause = self.rng.between(self.pause[0], self.pause[1]);
            while pause > 0 && !has_ended() {
                let step = pause.min(100);
                thread::sleep(Duration::from_millis(step));
                pause -= step;
            }
        }
    }
}
