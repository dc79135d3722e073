//! The users of each relay: some load web pages with pauses, and some download without pauses.

use crate::load::{BULK, User, WEB};
use crate::testnet::tor::Tor;
use penstock_units::Seed;

/// The users of each relay that load pages, and those that download without pauses [1]. Clients choose relays by bandwidth,
/// so the load is proportional to the rate, as far as whole users allow.
const USERS: [[u32; 2]; 3] = [[1, 0], [8, 2], [40, 10]];

/// The users of all clients.
pub(crate) fn all(clients: &[Tor; 3]) -> Vec<User> {
    let of_client = |(client, [web, bulk]): (&Tor, [u32; 2])| {
        let socks = client.socks;
        (0..web + bulk).map(move |user| {
            let name = format!("user{user}");
            let rng = Seed(0).stream(&name);
            let (bytes, seconds) = if user < web { (WEB, 2 + user % 3) } else { (BULK, 0) };
            User { socks, name, bytes, pause: [u64::from(seconds) * 1000; 2], rng }
        })
    };
    clients.iter().zip(USERS).flat_map(of_client).collect()
}
