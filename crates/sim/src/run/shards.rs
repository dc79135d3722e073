//! Several shards, each in its own thread.
//!
//! The leading thread runs the first shard, and decides about windows and barriers. Before and after each window, all
//! threads wait for each other at a gate. If windows have few events, the leading thread runs all shards itself.

use super::{Next, Run};
use crate::control::Control;
use crate::error::Error;
use crate::net::Mail;
use crate::plan::Plan;
use crate::queue::HostId;
use crate::world::World;
use penstock_units::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard};

/// A shard, and the messages of the other shards to it.
struct Shard<'a> {
    /// The hosts of the shard. The shard's own thread creates them, so that it also allocates their memory.
    world: Mutex<Option<World<'a>>>,
    /// The messages from each shard, in the order in which it sent them.
    inbox: Vec<Mutex<Vec<(HostId, Mail)>>>,
    /// The time of the first event of the shard's hosts, or of a packet that it has sent to another shard [ns].
    next: AtomicU64,
    /// How many events the shard handled in its last window.
    events: AtomicU64,
}

/// If the last window had fewer events than this, waiting at the gates would take longer than the work of other shards.
const FEW_EVENTS: u64 = 100;

/// The leading thread reports the progress after this many windows.
const WINDOWS_PER_REPORT: u64 = 64;

/// The state that the threads of all shards share.
struct Crew<'a> {
    plan: &'a Plan<'a>,
    shards: Vec<Shard<'a>>,
    gate: Barrier,
    /// The end of the current window [ns].
    horizon: AtomicU64,
    is_over: AtomicBool,
    /// Whether the thread of a shard other than the first has panicked.
    failed: AtomicBool,
    /// Whether the leading thread is between the two gates of a window.
    in_window: AtomicBool,
}

impl<'a> Run<'a> {
    pub(super) fn in_threads(mut self, control: &Control) -> Result<crate::Outcome, Error> {
        let crew = Crew::new(self.plan);
        let end = std::thread::scope(|scope| {
            for shard in 1..crew.shards.len() {
                let crew = &crew;
                scope.spawn(move || control.in_thread(&mut || crew.follow(shard, control)));
            }
            // The other threads must also end if this thread returns an error or panics.
            let _end = EndOnDrop(&crew);
            self.lead(&crew, control)
        })?;
        let worlds = crew.shards.into_iter().map(|shard| shard.world.into_inner().expect(NO_PANIC));
        Ok(self.finish(worlds.map(|world| world.expect(CREATED)).collect(), end))
    }

    /// Runs the first shard. Returns the time at which the run ends.
    fn lead(&mut self, crew: &Crew<'a>, control: &Control) -> Result<Instant, Error> {
        crew.window(|| crew.create(0, control));
        let lookahead = crew.with_world(0, |world| world.lookahead());
        let mut windows: u64 = 0;
        loop {
            assert!(!crew.failed.load(Ordering::Acquire), "the thread of another shard has panicked");
            if control.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let first = crew.shards.iter().map(|shard| shard.next.load(Ordering::Acquire)).min();
            let first = first.map(Instant::from_nanos).filter(|at| *at != Instant::FAR_FUTURE);
            match self.next(first, lookahead) {
                Next::Window { start, horizon } => {
                    crew.horizon.store(horizon.as_nanos(), Ordering::Release);
                    let events = crew.shards.iter().map(|shard| shard.events.load(Ordering::Acquire));
                    if events.sum::<u64>() < FEW_EVENTS {
                        (0..crew.shards.len()).for_each(|shard| crew.run_window(shard, control));
                    } else {
                        crew.window(|| crew.run_window(0, control));
                    }
                    windows += 1;
                    if !windows.is_multiple_of(WINDOWS_PER_REPORT) {
                        continue;
                    }
                    let of_shard = |shard| crew.with_world(shard, |world| world.finished.clone());
                    let all = (0..crew.shards.len()).map(of_shard);
                    let add = |one: Vec<u64>, other: Vec<u64>| {
                        one.iter().zip(other).map(|(one, other)| one + other).collect()
                    };
                    control.report(start, self.fraction(start, &all.reduce(add).unwrap_or_default()));
                }
                Next::Barrier(now) => {
                    (0..crew.shards.len()).for_each(|shard| crew.deliver(shard));
                    let mut guards: Vec<_> = crew.shards.iter().map(Shard::lock).collect();
                    let worlds = guards.iter_mut().map(|guard| guard.as_mut().expect(CREATED));
                    let mut worlds: Vec<&mut World<'a>> = worlds.collect();
                    self.at_barrier(&mut worlds, now);
                    for (shard, world) in crew.shards.iter().zip(&worlds) {
                        shard.next.store(next_of(world), Ordering::Release);
                    }
                    let worlds: Vec<&World<'a>> = worlds.iter().map(|world| &**world).collect();
                    if self.is_over(&worlds, now) {
                        return Ok(now);
                    }
                }
            }
        }
    }
}

impl<'a> Shard<'a> {
    fn lock(&self) -> MutexGuard<'_, Option<World<'a>>> {
        self.world.lock().expect(NO_PANIC)
    }
}

fn next_of(world: &World<'_>) -> u64 {
    world.next_event().unwrap_or(Instant::FAR_FUTURE).min(world.net.outbox.earliest).as_nanos()
}

impl<'a> Crew<'a> {
    fn new(plan: &'a Plan<'a>) -> Self {
        let shard = |_| Shard {
            world: Mutex::new(None),
            inbox: (0..plan.shards).map(|_| Mutex::default()).collect(),
            next: AtomicU64::new(0),
            events: AtomicU64::new(0),
        };
        Crew {
            plan,
            shards: (0..plan.shards).map(shard).collect(),
            gate: Barrier::new(plan.shards),
            horizon: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            in_window: AtomicBool::new(false),
        }
    }

    /// The leading thread's part of a window.
    fn window(&self, work: impl FnOnce()) {
        self.gate.wait();
        self.in_window.store(true, Ordering::Release);
        work();
        self.gate.wait();
        self.in_window.store(false, Ordering::Release);
    }

    /// The thread of a shard other than the first. After a panic it still passes the gates, until the run ends.
    fn follow(&self, shard: usize, control: &Control) {
        let mut panic = None;
        let mut is_created = false;
        loop {
            self.gate.wait();
            if self.is_over.load(Ordering::Acquire) {
                break;
            }
            let work = || match std::mem::replace(&mut is_created, true) {
                false => self.create(shard, control),
                true => self.run_window(shard, control),
            };
            if panic.is_none()
                && let Err(payload) = catch_unwind(AssertUnwindSafe(work))
            {
                self.failed.store(true, Ordering::Release);
                panic = Some(payload);
            }
            self.gate.wait();
        }
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    fn with_world<T>(&self, shard: usize, work: impl FnOnce(&mut World<'a>) -> T) -> T {
        work(self.shards[shard].lock().as_mut().expect(CREATED))
    }

    fn create(&self, shard: usize, control: &Control) {
        let world = World::new(self.plan, shard, control);
        self.shards[shard].next.store(next_of(&world), Ordering::Release);
        *self.shards[shard].lock() = Some(world);
    }

    fn run_window(&self, shard: usize, control: &Control) {
        self.deliver(shard);
        let horizon = Instant::from_nanos(self.horizon.load(Ordering::Acquire));
        let outbox = self.with_world(shard, |world| {
            let before = world.net.handled;
            // The leading thread also sees that the run was cancelled.
            let _ = world.run_window(horizon, control, |_| ());
            self.shards[shard].events.store(world.net.handled - before, Ordering::Release);
            self.shards[shard].next.store(next_of(world), Ordering::Release);
            std::mem::take(&mut world.net.outbox)
        });
        for (to, mail) in outbox.mail {
            let receiver = &self.shards[self.plan.shard(to)];
            receiver.inbox[shard].lock().expect(NO_PANIC).push((to, mail));
        }
    }

    /// Delivers the messages of all other shards to a shard.
    fn deliver(&self, shard: usize) {
        self.with_world(shard, |world| {
            for inbox in &self.shards[shard].inbox {
                let mail = std::mem::take(&mut *inbox.lock().expect(NO_PANIC));
                mail.into_iter().for_each(|(to, mail)| world.deliver(to, mail));
            }
        });
    }
}

/// Lets the threads of the other shards end.
struct EndOnDrop<'c, 'a>(&'c Crew<'a>);

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        if self.0.in_window.load(Ordering::Acquire) {
            self.0.gate.wait();
        }
        self.0.is_over.store(true, Ordering::Release);
        self.0.gate.wait();
    }
}

const NO_PANIC: &str = "a panic of one thread ends the run";
const CREATED: &str = "each thread creates its shard in the first window";
