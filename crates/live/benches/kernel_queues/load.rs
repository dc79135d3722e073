//! The load of each relay: downloads of web pages with pauses, and downloads without pauses, each on circuits of its own.

use crate::exchange::exchange;
use crate::testnet::socks_at;
use crate::testnet::tor::Tor;
use penstock_live::clock::Clock;
use penstock_units::Instant;
use std::net::{Shutdown, SocketAddr};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Sizes as in the paper's experiments [B] (KIST section 3).
const WEB: u64 = 320 << 10;
const BULK: u64 = 5 << 20;
/// The users of each relay that load pages, and those that download without pauses [1]. Clients choose relays by bandwidth,
/// so the load is proportional to the rate, as far as whole users allow.
const USERS: [[u32; 2]; 3] = [[1, 0], [8, 2], [40, 10]];

/// Loads the relay of each client for this time [s]. Then all downloads end.
pub(crate) fn run(clients: &[Tor; 3], server: SocketAddr, seconds: u32) {
    let (clock, end) = (Clock::start(), Instant::from_secs(seconds.into()));
    let open = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for (client, [web, bulk]) in clients.iter().zip(USERS) {
            for user in 0..web + bulk {
                let open = &open;
                scope.spawn(move || {
                    let (bytes, pause) = if user < web { (WEB, 2 + user % 3) } else { (BULK, 0) };
                    while clock.now() < end {
                        // Streams with different names use different circuits.
                        let stream = socks_at(client.socks, server, Some(&format!("user{user}")));
                        let Ok(stream) = stream else {
                            thread::sleep(Duration::from_millis(200));
                            continue;
                        };
                        open.lock().unwrap().push(stream.try_clone().expect("there are file descriptors"));
                        // The last download of each user ends with an error.
                        let _ = exchange(&stream, 0, bytes);
                        thread::sleep(Duration::from_secs(pause.into()));
                    }
                });
            }
        }
        thread::sleep(end.since(clock.now()));
        for stream in open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
}
