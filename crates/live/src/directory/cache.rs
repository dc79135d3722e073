//! The directory cache. It schedules downloads and uploads, and keeps documents. It has no sockets, and the date is
//! an argument.
//!
//! Source: dir-spec, "Downloading consensus documents", "Retrying failed downloads"; C tor
//! `update_consensus_networkstatus_fetch_time_impl()` for a cache.
//! Deviation: each request goes to the directory port of a random authority, as in caches of C tor.

use super::authorities::Fingerprint;
use super::between;
use super::consensus::{Consensus, Flavour};
use super::documents::Documents;
use super::failure::Failure;
use super::http::{Answer, get, post};
use penstock_network::document::{to_base64, to_hex};
use rand::RngExt as _;
use rand::rngs::StdRng;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Maximum number of documents in a request [1] (C tor: `MAX_DL_PER_REQUEST`).
const BATCH: usize = 96;
/// Wait after a consensus stops being fresh (C tor: `CONSENSUS_MIN_SECONDS_BEFORE_CACHING`). The wait is never longer
/// than 1/16 of the interval between two consensuses.
const SETTLE: Duration = Duration::from_secs(120);

/// Clock difference to an authority that is still accepted (C tor: `ALLOW_DIRECTORY_TIME_SKEW`).
const MOST_SKEW: Duration = Duration::from_secs(30 * 60);

/// Delays between retries of failed requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Shortest delay.
    pub min_delay: Duration,
    /// Longest delay.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { min_delay: Duration::from_secs(60), max_delay: Duration::from_secs(3600) }
    }
}

impl RetryPolicy {
    /// Delays for test networks (C tor: `TestingTorNetwork`).
    pub const TESTING: RetryPolicy =
        RetryPolicy { min_delay: Duration::from_secs(1), max_delay: Duration::from_secs(5) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Certs,
    Consensus(Flavour),
    Microdescriptors,
    Descriptors,
    /// Uploads the descriptor to the authority with this index.
    Upload(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) to: SocketAddr,
    pub(super) request: Vec<u8>,
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryEvent {
    /// An authority accepted the descriptor. The text names the authority.
    Published(String),
    /// An upload of the descriptor failed. The text names the authority.
    NotPublished(String, Failure),
    /// A new consensus with this valid-after time arrived.
    Consensus(Flavour, SystemTime),
    /// A download failed. The text names the documents.
    NotFetched(&'static str, Failure),
    /// More than half of the authorities disagree with our clock. The number is our offset [s].
    ClockIsOff(i64),
}

impl fmt::Display for DirectoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryEvent::Published(who) => write!(f, "the authority {who} accepted the descriptor"),
            DirectoryEvent::NotPublished(who, why) => {
                write!(f, "the authority {who} did not accept the descriptor: {why}")
            }
            DirectoryEvent::Consensus(_, after) => {
                write!(f, "new consensus, valid after {}", humantime::format_rfc3339_seconds(*after))
            }
            DirectoryEvent::NotFetched(what, why) => write!(f, "fetching {what} failed: {why}"),
            DirectoryEvent::ClockIsOff(ahead) => {
                let way = if *ahead < 0 { "behind" } else { "ahead of" };
                write!(f, "this machine's clock is {} s {way} the authorities': set it", ahead.unsigned_abs())
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Schedule {
    due: SystemTime,
    waited: Duration,
    is_busy: bool,
}

const FETCHES: [Task; 5] = [
    Task::Certs,
    Task::Consensus(Flavour::Plain),
    Task::Consensus(Flavour::Microdescriptors),
    Task::Microdescriptors,
    Task::Descriptors,
];

#[derive(Debug)]
pub(super) struct DirectoryCache {
    documents: Documents,
    retry: RetryPolicy,
    rng: StdRng,
    /// Schedules in the order of [`FETCHES`], then one for each authority.
    schedules: Vec<Schedule>,
    /// Consensuses of both flavors that cannot be verified yet, because certificates are missing.
    waiting: [Option<Consensus>; 2],
    /// This relay's descriptor.
    descriptor: Option<Arc<str>>,
    to_publish: Vec<bool>,
    /// The descriptor of each upload in progress.
    uploading: Vec<Option<Arc<str>>>,
    /// Offset of our clock from each authority's clock [s], measured at the authority's last answer.
    skews: Vec<Option<i64>>,
    /// Whether the authorities agree that our clock is wrong.
    is_off: bool,
    events: Vec<DirectoryEvent>,
}

impl DirectoryCache {
    /// A cache whose tasks are all due at `now`.
    pub(super) fn new(documents: Documents, retry: RetryPolicy, rng: StdRng, now: SystemTime) -> Self {
        let authorities = documents.authorities.len();
        let schedule = Schedule { due: now, waited: Duration::ZERO, is_busy: false };
        DirectoryCache {
            documents,
            retry,
            rng,
            schedules: vec![schedule; FETCHES.len() + authorities],
            waiting: [None, None],
            descriptor: None,
            to_publish: vec![false; authorities],
            uploading: vec![None; authorities],
            skews: vec![None; authorities],
            is_off: false,
            events: Vec::new(),
        }
    }

    pub(super) fn documents(&self) -> &Documents {
        &self.documents
    }

    pub(super) fn take_events(&mut self) -> Vec<DirectoryEvent> {
        std::mem::take(&mut self.events)
    }

    /// Sets a new descriptor, and schedules its upload to all authorities.
    pub(super) fn publish(&mut self, now: SystemTime, identity: Fingerprint, descriptor: Arc<str>) {
        self.documents.set_own(identity, &descriptor);
        self.descriptor = Some(descriptor);
        self.to_publish.fill(true);
        for schedule in &mut self.schedules[FETCHES.len()..] {
            (schedule.due, schedule.waited) = (now, Duration::ZERO);
        }
    }

    pub(super) fn poll(&mut self, now: SystemTime) -> Option<Job> {
        let count = self.schedules.len();
        let is_due = |cache: &DirectoryCache, place: usize| {
            let schedule = cache.schedules[place];
            !schedule.is_busy && schedule.due <= now && cache.is_needed(task(place), now)
        };
        let place = (0..count).find(|place| is_due(self, *place))?;
        self.schedules[place].is_busy = true;
        Some(self.job(task(place)))
    }

    pub(super) fn poll_timeout(&self, now: SystemTime) -> Option<SystemTime> {
        let places = (0..self.schedules.len()).filter(|place| !self.schedules[*place].is_busy);
        let needed = places.filter(|place| self.is_needed(task(*place), now));
        needed.map(|place| self.schedules[place].due).min()
    }

    fn is_needed(&self, task: Task, now: SystemTime) -> bool {
        if self.documents.authorities.is_empty() {
            return false;
        }
        match task {
            Task::Certs => self.documents.lacks_certs(now) || self.waiting.iter().any(Option::is_some),
            Task::Consensus(flavour) => self.documents.keeps(flavour),
            Task::Microdescriptors => self.documents.missing_microdescriptors().next().is_some(),
            Task::Descriptors => self.documents.missing_descriptors().next().is_some(),
            Task::Upload(number) => self.to_publish[number],
        }
    }

    fn job(&mut self, task: Task) -> Job {
        let number = match task {
            Task::Upload(number) => number,
            _ => self.rng.random_range(0..self.documents.authorities.len()),
        };
        let to = self.documents.authorities[number].dir_port;
        let request = match task {
            Task::Certs => get(to, "/tor/keys/all", None),
            Task::Consensus(flavour) => {
                let since = self.documents.consensus(flavour).map(|consensus| consensus.valid_after);
                get(to, flavour.path(), since)
            }
            Task::Microdescriptors => {
                let missing = self.documents.missing_microdescriptors().take(BATCH);
                let names: Vec<_> = missing.map(|digest| to_base64(&digest)).collect();
                get(to, &format!("/tor/micro/d/{}", names.join("-")), None)
            }
            Task::Descriptors => {
                let missing = self.documents.missing_descriptors().take(BATCH);
                let names: Vec<_> = missing.map(|digest| to_hex(&digest)).collect();
                get(to, &format!("/tor/server/d/{}", names.join("+")), None)
            }
            Task::Upload(number) => {
                self.uploading[number].clone_from(&self.descriptor);
                post(to, "/tor/", self.descriptor.as_deref().expect("a descriptor is to be published"))
            }
        };
        Job { task, to, request }
    }

    pub(super) fn on_answer(&mut self, now: SystemTime, job: &Job, answer: Result<Answer, Failure>) {
        let place = place(job.task);
        self.schedules[place].is_busy = false;
        if let Some(date) = answer.as_ref().ok().and_then(|answer| answer.date) {
            self.compare_clocks(job.to, seconds(now, date));
        }
        let answer = answer.and_then(|answer| match answer.status {
            200 => String::from_utf8(answer.body).map_err(|_| Failure::Malformed),
            304 => Err(Failure::Old),
            status => Err(Failure::Refused(status, answer.reason)),
        });
        let taken = answer.and_then(|text| self.take(now, job.task, &text));
        match taken {
            Ok(due) => (self.schedules[place].due, self.schedules[place].waited) = (due, Duration::ZERO),
            Err(failure) => self.fail(now, job.task, failure),
        }
    }

    /// Records how far our clock is ahead of an authority's clock, `ahead` [s]. One authority's clock can be wrong. A
    /// wrong clock is therefore reported only if more than half of the compared authorities agree on the direction. If
    /// several authorities exist, at least two must agree. The report is not repeated.
    /// Source: C tor `handle_response_fetch_*()`, `connection_dir_client_reached_eof()`.
    /// Deviation: C tor trusts a single authority.
    fn compare_clocks(&mut self, to: SocketAddr, ahead: i64) {
        let number = self.documents.authorities.iter().position(|known| known.dir_port == to);
        let Some(number) = number else { return };
        self.skews[number] = Some(ahead);
        let mut skews: Vec<i64> = self.skews.iter().flatten().copied().collect();
        skews.sort_unstable();
        let most = i64::try_from(MOST_SKEW.as_secs()).expect("half an hour is no long time");
        let (ours, theirs): (Vec<i64>, Vec<i64>) =
            skews.iter().filter(|skew| skew.abs() > most).partition(|skew| **skew > 0);
        let agree = if ours.len() > theirs.len() { ours } else { theirs };
        let is_off = agree.len() * 2 > skews.len() && agree.len() >= self.skews.len().min(2);
        if is_off && !self.is_off {
            self.events.push(DirectoryEvent::ClockIsOff(agree[agree.len() / 2]));
        }
        self.is_off = is_off;
    }

    /// Stores the documents of an answer. Returns the time of the task's next request.
    fn take(&mut self, now: SystemTime, task: Task, text: &str) -> Result<SystemTime, Failure> {
        let some = |count: usize| if count > 0 { Ok(now) } else { Err(Failure::Malformed) };
        match task {
            Task::Certs => {
                self.documents.take_certs(now, text);
                for flavour in Flavour::ALL {
                    if let Some(consensus) = self.waiting[flavour as usize].take() {
                        self.try_consensus(now, consensus);
                    }
                }
                // If certificates are still missing, the next request waits.
                Ok(now + self.retry.min_delay)
            }
            Task::Consensus(_) => {
                let consensus = Consensus::read(text)?;
                let checked = consensus.check(&self.documents.authorities, &self.documents.certs);
                if let Err(failure) = checked {
                    let flavour = consensus.flavour;
                    self.waiting[flavour as usize] = Some(consensus);
                    return Err(failure);
                }
                let due = self.next_consensus(&consensus);
                self.accept(now, consensus)?;
                Ok(due.max(now + self.retry.min_delay))
            }
            Task::Microdescriptors => some(self.documents.take_microdescriptors(now, text)),
            Task::Descriptors => some(self.documents.take_descriptors(now, text)),
            Task::Upload(number) => {
                // The descriptor may have changed during the upload.
                let is_this = match (&self.uploading[number], &self.descriptor) {
                    (Some(uploading), Some(descriptor)) => Arc::ptr_eq(uploading, descriptor),
                    _ => false,
                };
                self.to_publish[number] = !is_this;
                self.events
                    .push(DirectoryEvent::Published(self.documents.authorities[number].nickname.clone()));
                Ok(now)
            }
        }
    }

    fn try_consensus(&mut self, now: SystemTime, consensus: Consensus) {
        let (task, due) = (Task::Consensus(consensus.flavour), self.next_consensus(&consensus));
        match self.accept(now, consensus) {
            Ok(()) => self.schedules[place(task)].due = due.max(now + self.retry.min_delay),
            // The download of the next consensus is already scheduled.
            Err(failure) => self.events.push(DirectoryEvent::NotFetched(name(task), failure)),
        }
    }

    fn accept(&mut self, now: SystemTime, consensus: Consensus) -> Result<(), Failure> {
        let (flavour, after) = (consensus.flavour, consensus.valid_after);
        self.documents.take_consensus(now, consensus)?;
        self.events.push(DirectoryEvent::Consensus(flavour, after));
        // The documents that the new consensus lists are due now.
        for task in [Task::Microdescriptors, Task::Descriptors] {
            let schedule = &mut self.schedules[place(task)];
            (schedule.due, schedule.waited) = (schedule.due.min(now), Duration::ZERO);
        }
        Ok(())
    }

    /// A random time for the next download, up to about half an interval after the consensus stops being fresh.
    fn next_consensus(&mut self, consensus: &Consensus) -> SystemTime {
        let interval = between(consensus.valid_after, consensus.fresh_until);
        let begin = consensus.fresh_until + SETTLE.min(interval / 16);
        begin + (interval / 2).mul_f64(self.rng.random::<f64>())
    }

    /// Schedules a retry. The delay is random, and at most three times the last delay.
    fn fail(&mut self, now: SystemTime, task: Task, failure: Failure) {
        let place = place(task);
        if let (Task::Upload(number), Failure::Refused(400..=499, _)) = (task, &failure) {
            // The authority refuses this descriptor permanently.
            self.to_publish[number] = false;
        }
        let schedule = &mut self.schedules[place];
        let most = (schedule.waited * 3).max(self.retry.min_delay * 2).min(self.retry.max_delay);
        let least = self.retry.min_delay.min(most);
        schedule.waited = least + (most - least).mul_f64(self.rng.random::<f64>());
        schedule.due = now + schedule.waited;
        self.events.push(match task {
            Task::Upload(number) => {
                DirectoryEvent::NotPublished(self.documents.authorities[number].nickname.clone(), failure)
            }
            task => DirectoryEvent::NotFetched(name(task), failure),
        });
    }
}

/// The time from `then` to `now` [s].
fn seconds(now: SystemTime, then: SystemTime) -> i64 {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    seconds(between(then, now)) - seconds(between(now, then))
}

fn task(place: usize) -> Task {
    FETCHES.get(place).copied().unwrap_or(Task::Upload(place.saturating_sub(FETCHES.len())))
}

fn place(task: Task) -> usize {
    match task {
        Task::Upload(number) => FETCHES.len() + number,
        task => FETCHES.iter().position(|other| *other == task).expect("all fetches are there"),
    }
}

fn name(task: Task) -> &'static str {
    match task {
        Task::Certs => "certificates of authorities",
        Task::Consensus(_) => "consensus",
        Task::Microdescriptors => "microdescriptors",
        Task::Descriptors => "server descriptors",
        Task::Upload(_) => unreachable!("an upload fetches nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::samples;
    use rand::SeedableRng as _;
    use std::collections::VecDeque;

    /// A cache, and authorities that answer in order.
    struct World {
        cache: DirectoryCache,
        now: SystemTime,
        asked: VecDeque<Job>,
    }

    fn ok(body: &str) -> Result<Answer, Failure> {
        Ok(Answer { status: 200, reason: "OK".into(), date: None, body: body.into() })
    }

    impl World {
        fn new() -> Self {
            let now = samples::at(1);
            let retry = RetryPolicy { min_delay: Duration::from_secs(1), max_delay: Duration::from_secs(8) };
            let documents = Documents::new(samples::authorities());
            let cache = DirectoryCache::new(documents, retry, StdRng::seed_from_u64(7), now);
            World { cache, now, asked: VecDeque::new() }
        }

        /// Sends all requests that are due; returns their tasks.
        fn poll(&mut self) -> Vec<Task> {
            let begun = self.asked.len();
            while let Some(job) = self.cache.poll(self.now) {
                self.asked.push_back(job);
            }
            self.asked.iter().skip(begun).map(|job| job.task).collect()
        }

        fn answer(&mut self, task: Task, answer: Result<Answer, Failure>) {
            let place = self.asked.iter().position(|job| job.task == task).expect("it was asked for");
            let job = self.asked.remove(place).expect("it is there");
            self.cache.on_answer(self.now, &job, answer);
        }

        /// Advances the time to the next request.
        fn wait(&mut self) -> Duration {
            let due = self.cache.poll_timeout(self.now).expect("something is due");
            let waited = between(self.now, due);
            self.now = due.max(self.now);
            waited
        }
    }

    const PLAIN: Task = Task::Consensus(Flavour::Plain);
    const MICRO: Task = Task::Consensus(Flavour::Microdescriptors);

    #[test]
    fn documents_are_fetched_in_the_order_in_which_they_can_be_verified() {
        let mut world = World::new();
        assert_eq!(world.poll(), [Task::Certs, PLAIN, MICRO]);
        // A consensus before the certificates waits for them.
        world.answer(MICRO, ok(samples::MICRO));
        assert_eq!(world.poll(), []);
        world.answer(Task::Certs, ok(samples::CERTIFICATES));
        assert_eq!(world.poll(), [Task::Microdescriptors]);
        world.answer(PLAIN, ok(samples::PLAIN));
        assert_eq!(world.poll(), [Task::Descriptors]);
        world.answer(Task::Microdescriptors, ok(samples::MICRODESCRIPTORS));
        world.answer(Task::Descriptors, ok(samples::DESCRIPTORS));
        assert_eq!(world.poll(), []);
        let micro = String::from_utf8(world.cache.job(MICRO).request).unwrap();
        assert!(micro.contains("\r\nIf-Modified-Since: Sun, 22 Nov 2026 09:21:20 GMT\r\n"), "{micro}");
        // The next consensus is fetched in the half interval after this one ceases to be fresh.
        world.wait();
        let after = between(samples::at(10), world.now);
        assert!(world.now >= samples::at(10) && after <= Duration::from_millis(5625), "{after:?}");
    }

    #[test]
    fn missing_documents_are_requested_by_digest() {
        let mut world = World::new();
        world.poll();
        world.answer(Task::Certs, ok(samples::CERTIFICATES));
        world.answer(MICRO, ok(samples::MICRO));
        assert_eq!(world.poll(), [Task::Microdescriptors]);
        let request = String::from_utf8(world.asked.back().unwrap().request.clone()).unwrap();
        let first = samples::MICRO.lines().find_map(|line| line.strip_prefix("m ")).unwrap();
        assert!(request.starts_with(&format!("GET /tor/micro/d/{first}-")), "{request}");
        // One document arrived; the others are requested again.
        let one = penstock_network::document::split(samples::MICRODESCRIPTORS, "onion-key")[0];
        world.answer(Task::Microdescriptors, ok(one));
        assert_eq!(world.poll(), [Task::Microdescriptors]);
        let request = String::from_utf8(world.asked.back().unwrap().request.clone()).unwrap();
        assert_eq!(request.lines().next().unwrap().split('-').count(), 4);
        // No document arrived: the retry waits.
        world.answer(Task::Microdescriptors, ok(one));
        assert_eq!(world.poll(), []);
    }

    #[test]
    fn delays_between_retries_grow() {
        let mut world = World::new();
        world.poll();
        world.answer(Task::Certs, ok(samples::CERTIFICATES));
        world.answer(MICRO, Err(Failure::Short));
        world.answer(PLAIN, Err(Failure::Short));
        let mut waits = Vec::new();
        for _ in 0..40 {
            waits.push(world.wait());
            for task in world.poll() {
                world.answer(task, Err(Failure::NotHttp));
            }
        }
        assert!(waits[0] >= Duration::from_secs(1), "{waits:?}");
        let late: Duration = waits[20..].iter().sum();
        // Two tasks with delays of up to eight seconds each.
        assert!(late > Duration::from_secs(20) && late < Duration::from_secs(20 * 8), "{late:?}");
        assert!(
            world.cache.take_events().contains(&DirectoryEvent::NotFetched("consensus", Failure::NotHttp))
        );
    }

    #[test]
    fn uploads_continue_until_each_authority_accepts_or_refuses() {
        let mut world = World::new();
        world.poll();
        world.asked.clear();
        let uploads = [0, 1, 2].map(Task::Upload);
        world.cache.publish(world.now, [1; 20], "router 1\nrouter-signature\n".into());
        assert_eq!(world.poll(), uploads);
        let first = world.asked[0].clone();
        assert_eq!(first.to, samples::authorities()[0].dir_port);
        assert!(String::from_utf8(first.request).unwrap().ends_with("\r\n\r\nrouter 1\nrouter-signature\n"));
        world.answer(uploads[0], ok(""));
        world.answer(uploads[1], Err(Failure::Unreachable("gone".into())));
        let refused =
            Answer { status: 400, reason: "Key is not pinned".into(), date: None, body: Vec::new() };
        world.answer(uploads[2], Ok(refused));
        assert_eq!(world.poll(), []);
        let said = world.cache.take_events();
        assert_eq!(said[0], DirectoryEvent::Published("auth0".into()));
        let why = Failure::Refused(400, "Key is not pinned".into());
        assert_eq!(said[2], DirectoryEvent::NotPublished("auth2".into(), why));
        world.wait();
        assert_eq!(world.poll(), [uploads[1]]);
        // A newer descriptor during the upload is uploaded, too.
        world.cache.publish(world.now, [1; 20], "router 2\nrouter-signature\n".into());
        assert_eq!(world.poll(), [uploads[0], uploads[2]]);
        world.answer(uploads[1], ok(""));
        assert_eq!(world.poll(), [uploads[1]]);
    }

    /// The reported clock offset after answers with these offsets of the authorities' clocks [s].
    fn skews_reported(world: &mut World, skews: &[(usize, i64)]) -> Vec<Option<i64>> {
        let hears = |&(number, skew): &(usize, i64)| {
            world.poll();
            let task = world.asked[0].task;
            world.asked[0].to = samples::authorities()[number].dir_port;
            let skew_s = Duration::from_secs(skew.unsigned_abs());
            let date = if skew < 0 { world.now - skew_s } else { world.now + skew_s };
            world.answer(task, Ok(Answer { date: Some(date), ..ok("").unwrap() }));
            world.wait();
            let ahead = |note| if let DirectoryEvent::ClockIsOff(ahead) = note { Some(ahead) } else { None };
            world.cache.take_events().into_iter().find_map(ahead)
        };
        skews.iter().map(hears).collect()
    }

    #[test]
    fn a_wrong_clock_is_reported_once() {
        let mut world = World::new();
        assert_eq!(skews_reported(&mut world, &[(0, 900), (1, 900)]), [None; 2]);
        // Two of two, or of three, authorities agree; the next one causes no second report.
        assert_eq!(skews_reported(&mut world, &[(0, 3600), (1, 3700), (2, 3600)]), [None, Some(-3600), None]);
        assert_eq!(skews_reported(&mut world, &[(0, 0), (1, 0), (2, 0)]), [None; 3]);
        assert_eq!(skews_reported(&mut world, &[(2, -3600), (0, -3600)]), [None, Some(3600)]);
        assert_eq!(
            DirectoryEvent::ClockIsOff(-86_400).to_string(),
            "this machine's clock is 86400 s behind the authorities': set it"
        );
    }

    #[test]
    fn a_single_authority_with_a_wrong_clock_is_ignored() {
        let mut world = World::new();
        assert_eq!(skews_reported(&mut world, &[(0, 3600), (0, 3600), (1, 0), (2, 0)]), [None; 4]);
        for _ in 0..3 {
            assert_eq!(skews_reported(&mut world, &[(0, 3600), (1, 0), (2, 0)]), [None; 3]);
        }
        // Two authorities with opposite offsets do not agree.
        assert_eq!(skews_reported(&mut world, &[(1, -3600)]), [None]);
        assert_eq!(skews_reported(&mut world, &[(2, -3600)]), [Some(3600)]);
    }

    #[test]
    fn without_authorities_no_task_is_due() {
        let now = samples::at(0);
        let mut cache = DirectoryCache::new(
            Documents::new(Vec::new()),
            RetryPolicy::default(),
            StdRng::seed_from_u64(1),
            now,
        );
        cache.publish(now, [1; 20], "router 1\nrouter-signature\n".into());
        assert_eq!((cache.poll(now), cache.poll_timeout(now)), (None, None));
    }
}
