//! The peers of the relay: clients that open and close links and circuits, slow readers, attackers and honest clients.

use super::Plan;
use super::common::floods::{
    SilentServer, attacker, circuit, connections, creates, garbage, names, open_circuits, streams,
};
use super::common::honest::{Served, Visit};
use super::common::{Client, Hop, endless, seconds, stream, test_identity};
use penstock_core::{Cell, DestroyReason};
use penstock_link::cell::{LiveCell, RelayMessage};
use penstock_live::clock::Clock;
use penstock_units::Duration;
use rand::RngExt;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};

/// The floods of a cycle, in their order.
pub(crate) const FLOODS: [&str; 7] = [
    "circuits on links that close",
    "TCP connections",
    "unanswered name lookups",
    "streams that never end",
    "idle circuits beyond the memory limit",
    "CREATEs",
    "connections with random bytes",
];
/// The number of the flood of name lookups, which needs a name server.
const NAMES: usize = 2;
/// The number of phases of a cycle. The last phase has no flood.
pub(crate) const PHASES: usize = FLOODS.len() + 1;
/// Least number of samples in each phase without a flood.
pub(crate) const LEAST_SAMPLES: usize = 5;
/// Honest clients that open a link each time, and honest clients that keep their link.
const HONEST: [usize; 2] = [2, 4];

/// The result of one attempt of an honest client.
pub(crate) struct Attempt {
    /// The end of the attempt [s].
    pub(crate) end: f64,
    /// The flood beside it; `None` if no flood ran.
    flood: Option<usize>,
    pub(crate) served: Served,
}

pub(crate) struct Load<'a> {
    plan: &'a Plan,
    hop: Hop,
    visit: Visit,
    has_names: bool,
    endless: SocketAddr,
    clock: Clock,
    pub(crate) stop: AtomicBool,
    /// The number of the current phase, counted from the start.
    pub(crate) phase: AtomicUsize,
    /// When the second half of the current phase without a flood begins [s]; infinite in other phases.
    pub(crate) rests_from: Mutex<f64>,
    /// The number of samples since then.
    pub(crate) rested: AtomicUsize,
    /// The circuits, connections, names or streams of each flood so far, and the floods that the relay cut short.
    floods: Mutex<[(usize, usize); FLOODS.len()]>,
    /// The links that the relay closed, although the client obeyed.
    lost_links: AtomicUsize,
    pub(crate) honest: Mutex<Vec<Attempt>>,
}

fn flood_name(flood: Option<usize>) -> &'static str {
    flood.map_or("no flood", |number| FLOODS[number])
}

impl<'a> Load<'a> {
    pub(crate) fn new(plan: &'a Plan, hop: Hop, has_names: bool) -> Self {
        Load {
            plan,
            visit: Visit::new(&hop, Duration::ZERO, has_names),
            hop,
            has_names,
            endless: endless(),
            clock: Clock::start(),
            stop: AtomicBool::new(false),
            phase: AtomicUsize::new(0),
            rests_from: Mutex::new(f64::INFINITY),
            rested: AtomicUsize::new(0),
            floods: Mutex::default(),
            lost_links: AtomicUsize::new(0),
            honest: Mutex::default(),
        }
    }

    /// The time since the start [s].
    pub(crate) fn seconds(&self) -> f64 {
        seconds(self.clock)
    }

    /// The duration of a phase [s].
    pub(crate) fn phase_time(&self) -> f64 {
        self.plan.time / (self.plan.cycles * PHASES) as f64
    }

    /// Starts all peers, and returns after the last phase.
    pub(crate) fn run<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let peer = |action: &mut dyn FnMut()| {
            while !self.is_over() {
                if catch_unwind(AssertUnwindSafe(&mut *action)).is_err() && !self.is_over() {
                    self.lost_links.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_secs(1));
                }
            }
        };
        let spawn = |name: &str, action: Box<dyn FnMut() + Send + 'scope>| {
            let mut action = action;
            let named = thread::Builder::new().name(name.into());
            named.spawn_scoped(scope, move || peer(&mut *action)).expect("the system has threads");
        };
        for number in 0..self.plan.links {
            spawn("peer", Box::new(move || self.open_and_close(number)));
        }
        for number in 0..self.plan.slow {
            spawn("peer", Box::new(move || self.read_slowly(number)));
        }
        for number in 0..HONEST.iter().sum() {
            let keeps_link = number >= HONEST[0];
            spawn("honest", Box::new(move || if keeps_link { self.stay() } else { self.come_and_go() }));
        }
        let floods = thread::Builder::new().name("peer".into());
        let floods = floods.spawn_scoped(scope, || self.flood()).expect("the system has threads");
        let ended = floods.join();
        self.stop.store(true, Ordering::Relaxed);
        ended.expect("a flood that the relay cuts short is counted");
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps. Returns false if the load ended.
    fn sleep(&self, seconds: f64) -> bool {
        let until = self.seconds() + seconds;
        while !self.is_over() && self.seconds() < until {
            thread::sleep(Duration::from_secs_f64((until - self.seconds()).clamp(0.0, 0.2)));
        }
        !self.is_over()
    }

    /// A client's link. Each second, the client closes its oldest two circuits and opens two.
    fn open_and_close(&self, number: usize) {
        let address = Ipv4Addr::new(127, 0, 1, 1 + (number / 4) as u8);
        // The links neither open nor close at the same time.
        if !self.sleep(rand::rng().random_range(0.0..self.plan.link_time / 4.0)) {
            return;
        }
        let until = self.seconds() + self.plan.link_time * rand::rng().random_range(0.5..1.5);
        let mut client = Client::connect_from(address, &self.hop.0);
        let (mut circuits, mut next) = (VecDeque::new(), 1000);
        while self.seconds() < until {
            let count = self.plan.circuits - circuits.len() as u32;
            open_circuits(&mut client, next, count);
            circuits.extend(next..next + count);
            next += count;
            if !self.sleep(1.0) {
                return;
            }
            for old in circuits.drain(..2) {
                client.write(&LiveCell::destroy(circuit(old), DestroyReason::NONE).to_bytes());
            }
        }
    }

    /// A client that reads ten cells a second of an endless stream, and sometimes reads nothing at all.
    fn read_slowly(&self, number: usize) {
        let address = Ipv4Addr::new(127, 0, 3, 1 + number as u8);
        let mut client = Client::connect_authenticated(test_identity(), address, &self.hop.0);
        client.build(std::slice::from_ref(&self.hop));
        client.begin(self.endless, stream(1));
        let until = self.seconds() + self.plan.link_time * rand::rng().random_range(0.5..1.5);
        let reads = rand::rng().random_bool(0.5);
        let mut cells = 0;
        while self.seconds() < until && self.sleep(0.1) {
            if !reads {
                continue;
            }
            if let (_, RelayMessage::Data(_), tag) = client.receive_message() {
                cells += 1;
                if cells % 50 == 0 {
                    client.send_message(stream(1), &RelayMessage::Sendme(None));
                }
                if cells % 100 == 0 {
                    client.send_message(None, &RelayMessage::Sendme(Some(tag)));
                }
            }
        }
    }

    /// An honest client that opens a link and a circuit for each download.
    fn come_and_go(&self) {
        let number = rand::rng().random_range(1..60_000);
        self.record(|| self.visit.download(&mut self.visit.connect(), number));
        self.sleep(0.2);
    }

    /// An honest client that keeps its link and its circuit. It downloads a file each second.
    fn stay(&self) {
        let mut client = None;
        self.record(|| client = Some(self.visit.connect()));
        let Some(mut client) = client else { return };
        let mut is_served = true;
        for number in 1..60_000 {
            if !is_served || !self.sleep(1.0) {
                return;
            }
            is_served = self.record(|| self.visit.download(&mut client, number));
        }
    }

    /// The number of the flood that runs now.
    fn running_flood(&self) -> Option<usize> {
        let number = self.phase.load(Ordering::Relaxed) % PHASES;
        (number < FLOODS.len()).then_some(number)
    }

    /// Records the time of an honest client. Returns whether it was served.
    fn record(&self, attempt: impl FnOnce()) -> bool {
        let mut served = Served::default();
        let before = self.running_flood();
        served.time(attempt);
        let flood = before.or(self.running_flood());
        let is_served = served.failures == 0;
        if !is_served {
            println!("{:.1} s: an honest client failed beside {}", self.seconds(), flood_name(flood));
        }
        // A minute has tens of thousands of times at most.
        self.honest.lock().unwrap().push(Attempt { end: self.seconds(), flood, served });
        is_served
    }

    /// The results of honest clients beside this flood.
    fn served_beside(&self, flood: Option<usize>) -> Served {
        let mut all = Served::default();
        let honest = self.honest.lock().unwrap();
        honest.iter().filter(|attempt| attempt.flood == flood).for_each(|attempt| all.add(&attempt.served));
        all
    }

    /// All cycles of floods. A phase without a flood lasts until it has enough samples, or for half a minute.
    fn flood(&self) {
        for phase in 0..self.plan.cycles * PHASES {
            self.phase.store(phase, Ordering::Relaxed);
            let until = self.seconds() + self.phase_time();
            let number = phase % PHASES;
            if number < FLOODS.len() {
                let outcome =
                    catch_unwind(AssertUnwindSafe(|| self.flood_once(number, phase / PHASES, until)));
                let mut floods = self.floods.lock().unwrap();
                match outcome {
                    Ok(count) => floods[number].0 += count,
                    Err(_) => floods[number].1 += 1,
                }
                drop(floods);
                self.sleep(until - self.seconds());
                continue;
            }
            self.rested.store(0, Ordering::Relaxed);
            *self.rests_from.lock().unwrap() = until - self.phase_time() / 2.0;
            self.sleep(until - self.seconds());
            while self.rested.load(Ordering::Relaxed) < LEAST_SAMPLES && self.seconds() < until + 30.0 {
                self.sleep(self.plan.interval);
            }
            *self.rests_from.lock().unwrap() = f64::INFINITY;
        }
    }

    /// Runs a flood until this time [s]. Returns its size.
    fn flood_once(&self, number: usize, cycle: usize, until: f64) -> usize {
        let Plan { closing, idle, connections: rate, streams: each, .. } = *self.plan;
        let (spec, stop) = (&self.hop.0, || self.seconds() >= until);
        let mut count = 0;
        match number {
            0 => {
                for link in 0.. {
                    if stop() {
                        break;
                    }
                    let mut client = Client::connect_from(attacker(link), spec);
                    count += open_circuits(&mut client, 1000, closing) as usize;
                }
            }
            1 => count = connections(spec.addresses[0], rate, stop, |at| attacker(at).into()),
            NAMES if self.has_names => count = names(&self.hop, 4, stop),
            3 => {
                let server = SilentServer::start();
                let (links, results) = streams(&self.hop, server.address, 8, [8, each]);
                self.sleep(until - self.seconds());
                count = results.opened + results.refused;
                drop(links);
            }
            4 => {
                let mut links = Vec::new();
                for link in 0..2 {
                    let mut client = Client::connect_from(attacker(link), spec);
                    open_circuits(&mut client, 1000, idle);
                    count += idle as usize;
                    links.push(client);
                }
                self.sleep(until - self.seconds());
            }
            5 => count = creates(&self.hop, attacker(cycle), stop).iter().sum::<u64>() as usize,
            6 => count = garbage(&self.hop, stop),
            _ => {}
        }
        count
    }

    /// The sizes of all floods, as a Markdown table.
    pub(crate) fn table(&self) -> String {
        let floods = self.floods.lock().unwrap();
        let row = |flood: Option<usize>| {
            let size = flood.map(|number| floods[number]).map(|(count, cut)| format!("{count} | {cut}"));
            let served = self.served_beside(flood);
            let (clients, slow) = (served.times.len() + served.failures, served.percentile(0.99));
            let (name, size) = (flood_name(flood), size.unwrap_or(" | ".to_owned()));
            format!("| {name} | {size} | {clients} | {slow:.2} |\n")
        };
        let rows: String = (0..FLOODS.len()).map(Some).chain([None]).map(row).collect();
        let lost = self.lost_links.load(Ordering::Relaxed);
        format!(
            "| flood | size | floods that the relay cut short | honest clients beside it | their 99th percentile [s] \
             |\n|---|---|---|---|---|\n{rows}\n\
             Links of peers that obey, which the relay closed: {lost}.\n"
        )
    }

    /// Failures and delays of honest clients, lost links, and floods that did not run.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let honest = self.honest.lock().unwrap();
        let failures: usize = honest.iter().map(|attempt| attempt.served.failures).sum();
        if failures > 0 || honest.is_empty() {
            problems.push(format!("{failures} of {} honest clients failed", honest.len()));
        }
        drop(honest);
        let alone = self.served_beside(None).percentile(0.99);
        if alone.is_infinite() {
            problems.push("no honest client ran without a flood".into());
        }
        for (number, flood) in FLOODS.iter().enumerate() {
            let served = self.served_beside(Some(number));
            let slow = served.percentile(0.99);
            if !served.times.is_empty() && slow > alone + self.plan.delay {
                problems
                    .push(format!("{flood}: 99th percentile of {slow:.2} s; without a flood {alone:.2} s"));
            }
        }
        let lost = self.lost_links.load(Ordering::Relaxed);
        if lost > 0 {
            problems.push(format!("the relay closed {lost} links of peers that obeyed"));
        }
        for (number, (count, cut)) in self.floods.lock().unwrap().iter().enumerate() {
            if *count == 0 && (number != NAMES || self.has_names) {
                problems.push(format!("no flood of {} ran to its end; {cut} were cut short", FLOODS[number]));
            }
        }
        problems
    }
}
