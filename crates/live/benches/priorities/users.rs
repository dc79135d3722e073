//! The load of each middle relay, and the clients that measure.
//!
//! The paper estimates 39 circuits between its middle relay and the exit (section 3.3.2). In 2008, BitTorrent had 3.3 % of
//! the connections at an exit and 40 % of the bytes (McCoy et al., cited in section 3.2).

use crate::fetch::{Times, fetch};
use crate::load::{BULK, User, WEB};
use crate::testnet::tor::Tor;
use crate::testnet::{socks_at, socks_to_name};
use penstock_live::clock::Clock;
use penstock_units::{Duration, Instant, Seed};
use std::net::SocketAddr;
use std::thread;

/// The circuits of each middle relay with low load: of users that load pages, and of users without pauses.
const USERS: [u32; 2] = [37, 2];
/// The shortest and the longest pause after a page [ms].
const PAUSE: [u64; 2] = [1000, 20_000];
/// The time before the first measured download.
const WARM_UP: Duration = Duration::from_secs(20);
/// The clients of each middle relay that download the small file.
const FETCHERS: u32 = 10;
/// The paper's break between two downloads.
const BREAK: Duration = Duration::from_secs(20);
/// The users of each onion service. Each user connects this many times, and downloads four times on each connection.
const VISITORS: u32 = 5;
pub(crate) const VISITS: u32 = 8;
const DOWNLOADS: u32 = 4;

/// A download of one middle relay's client. `None` if it failed.
pub(crate) struct Download {
    /// The middle relay.
    pub(crate) middle: usize,
    /// The client's number and the number of the download.
    pub(crate) client: u32,
    pub(crate) number: u32,
    pub(crate) times: Option<Times>,
}

/// The users of both middle relays, with `factor` times the low load. Both have the same random numbers.
pub(crate) fn load(clients: &[Tor; 2], seed: Seed, name: &str, factor: u32) -> Vec<User> {
    let [web, bulk] = USERS.map(|users| users * factor);
    let of_client = |client: &Tor| {
        let socks = client.socks;
        let user = move |number| {
            let name = format!("{name}-{number}");
            let rng = seed.stream(&name);
            let (bytes, pause) = if number < web { (WEB, PAUSE) } else { (BULK, [0; 2]) };
            User { socks, name, bytes, pause, rng }
        };
        (0..web + bulk).map(user).collect::<Vec<_>>()
    };
    clients.iter().flat_map(of_client).collect()
}

/// Downloads the small file `downloads` times with each client of each middle relay.
pub(crate) fn fetch_files(
    clients: &[Tor; 2],
    server: SocketAddr,
    load: &str,
    downloads: u32,
) -> Vec<Download> {
    let clock = Clock::start();
    let run = |middle: usize, client: u32| {
        let (socks, user) = (clients[middle].socks, format!("{load}-fetcher{client}"));
        let one = || fetch(|| socks_at(socks, server, Some(&user)));
        // The first download builds the circuit, and is not measured.
        let _ = one();
        let numbers = 0..downloads;
        let start = WARM_UP + BREAK * client / FETCHERS;
        numbers
            .map(|number| {
                wait_until(clock, Instant::ZERO + start + BREAK * number);
                Download { middle, client, number, times: one().ok() }
            })
            .collect()
    };
    together(FETCHERS, run)
}

/// Connects to each onion service again and again. The first download of each visit makes a new circuit.
pub(crate) fn visit_services(clients: &[Tor; 2], services: &[String; 2], visits: u32) -> Vec<Download> {
    let clock = Clock::start();
    let run = |middle: usize, client: u32| {
        wait_until(clock, Instant::ZERO + WARM_UP + BREAK * client / VISITORS);
        let number = |visit, download| visit * DOWNLOADS + download;
        let pairs = (0..visits).flat_map(|visit| (0..DOWNLOADS).map(move |download| (visit, download)));
        pairs
            .map(|(visit, download)| {
                let user = format!("visitor{client}-{visit}");
                let times = fetch(|| socks_to_name(clients[middle].socks, &services[middle], 80, &user)).ok();
                Download { middle, client, number: number(visit, download), times }
            })
            .collect()
    };
    together(VISITORS, run)
}

/// Runs this many clients of both middle relays at the same time.
fn together(clients: u32, run: impl Fn(usize, u32) -> Vec<Download> + Sync) -> Vec<Download> {
    thread::scope(|scope| {
        let run = &run;
        let pairs = (0..2).flat_map(|middle| (0..clients).map(move |client| (middle, client)));
        let all: Vec<_> = pairs.map(|(middle, client)| scope.spawn(move || run(middle, client))).collect();
        all.into_iter().flat_map(|one| one.join().expect("no client panics")).collect()
    })
}

fn wait_until(clock: Clock, at: Instant) {
    thread::sleep(at.since(clock.now()));
}
