//! Several shards, each in its own thread.
//!
//! The threads work in turns. In a turn, each thread runs a window of its shard, then waits for the others at the gate.
//! All threads derive the next turn from the same numbers, which each shard published before the gate. At a barrier the
//! leading thread, which runs the first shard, uses all shards, and the other threads wait. If windows have few events,
//! the leading thread runs all shards.
//!
//! A thread can be one turn ahead of another thread. Therefore published numbers and messages have two places, one for
//! even turns and one for odd turns.

use super::gate::Gate;
use super::{Next, Run};
use crate::control::Control;
use crate::error::Error;
use crate::net::Mail;
use crate::plan::Plan;
use crate::queue::HostId;
use crate::world::{Window, World};
use penstock_units::time::nanos;
use penstock_units::{Duration, Instant};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A shard, and the messages of the other shards to it.
struct Shard<'a> {
    /// The hosts of the shard. The shard's own thread creates them, so that it also allocates their memory.
    world: Mutex<Option<World<'a>>>,
    turns: [Turn; 2],
}

/// The result of a shard's turn.
#[derive(Default)]
struct Turn {
    /// The messages from each shard, in the order in which it sent them.
    inbox: Vec<Mutex<Vec<(HostId, Mail)>>>,
    /// The time of the first event of the shard's hosts, or of a packet that it has sent to another shard [ns].
    first: AtomicU64,
    /// How many events the shard has handled in this turn.
    events: AtomicU64,
    /// The value of [`World::downloads_for_stop`].
    downloads: AtomicU64,
}

/// If the last window had fewer events than this, waiting at the gate would take longer than the work of other shards.
const FEW_EVENTS: u64 = 20;

/// The leading thread reports the progress after this many turns.
const TURNS_PER_REPORT: u64 = 64;

/// The state that the threads of all shards share.
struct SharedState<'a> {
    plan: &'a Plan<'a>,
    control: &'a Control,
    shards: Vec<Shard<'a>>,
    gate: Gate,
    lookahead: AtomicU64,
    /// The time of the next barrier, as known after an even turn and after an odd turn [ns].
    barrier: [AtomicU64; 2],
    /// The first panic in the thread of a shard other than the first.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl<'a> Run<'a> {
    pub(super) fn in_threads(mut self, control: &'a Control) -> Result<crate::Outcome, Error> {
        let shared = SharedState::new(self.plan, control);
        let end = std::thread::scope(|scope| {
            let _end = EndOnDrop(&shared.gate);
            for shard in 1..shared.shards.len() {
                let shared = &shared;
                scope.spawn(move || shared.in_thread(shard));
            }
            self.lead(&shared)
        });
        shared.continue_panic();
        let end = end?;
        let worlds = shared.shards.into_iter().map(|shard| shard.world.into_inner().expect(NO_PANIC));
        Ok(self.finish(worlds.map(|world| world.expect(CREATED)).collect(), end))
    }

    /// Runs the first shard. Returns the time at which the run ends.
    fn lead(&mut self, shared: &SharedState<'a>) -> Result<Instant, Error> {
        shared.barrier[0].store(self.next_barrier().as_nanos(), Ordering::Release);
        shared.create(0);
        let mut was_shared = false;
        for turn in 1.. {
            // If another thread has panicked, the caller continues its panic.
            if !shared.gate.wait() || shared.control.is_cancelled() {
                return Err(Error::Cancelled);
            }
            if std::mem::take(&mut was_shared) {
                let events = || shared.published(turn, |turn| &turn.events);
                self.parallel_events += events().sum::<u64>() - events().max().unwrap_or_default();
            }
            let next = shared.next(turn);
            if let Next::Window(window) = &next
                && turn.is_multiple_of(TURNS_PER_REPORT)
            {
                let downloads = shared.published(turn, |turn| &turn.downloads).sum();
                shared.control.report(window.start, self.fraction(window.start, downloads));
            }
            match next {
                Next::Window(window) if shared.has_few_events(turn) => {
                    (0..shared.shards.len()).for_each(|shard| shared.run_window(shard, turn, window));
                }
                Next::Window(window) => {
                    shared.run_window(0, turn, window);
                    was_shared = true;
                }
                Next::Barrier(now) => {
                    let mut worlds: Vec<_> = shared.shards.iter().map(Shard::lock).collect();
                    let mut worlds: Vec<_> =
                        worlds.iter_mut().map(|world| world.as_mut().expect(CREATED)).collect();
                    (0..worlds.len()).for_each(|shard| shared.deliver(worlds[shard], shard, turn));
                    self.at_barrier(&mut worlds, now);
                    if self.is_over(&worlds, now) {
                        return Ok(now);
                    }
                    let events = shared.published(turn, |turn| &turn.events);
                    for ((world, events), shard) in worlds.into_iter().zip(events).zip(0..) {
                        assert!(world.net.outbox.is_empty(), "a host sent a message at a barrier");
                        shared.publish(world, shard, turn, events);
                    }
                }
            }
            shared.barrier[place(turn)].store(self.next_barrier().as_nanos(), Ordering::Release);
        }
        unreachable!("a run ends at a barrier")
    }
}

/// The place of a turn's results.
fn place(turn: u64) -> usize {
    (turn % 2) as usize
}

impl<'a> Shard<'a> {
    fn new(shards: usize) -> Self {
        let turn = || Turn { inbox: (0..shards).map(|_| Mutex::default()).collect(), ..Turn::default() };
        Shard { world: Mutex::new(None), turns: [turn(), turn()] }
    }

    fn lock(&self) -> MutexGuard<'_, Option<World<'a>>> {
        self.world.lock().expect(NO_PANIC)
    }
}

impl<'a> SharedState<'a> {
    fn new(plan: &'a Plan<'a>, control: &'a Control) -> Self {
        SharedState {
            plan,
            control,
            shards: (0..plan.shards).map(|_| Shard::new(plan.shards)).collect(),
            gate: Gate::new(plan.shards),
            lookahead: AtomicU64::new(0),
            barrier: Default::default(),
            panic: Mutex::new(None),
        }
    }

    /// The thread of a shard other than the first, in the caller's wrapper. When it ends, the other threads end too.
    fn in_thread(&self, shard: usize) {
        let _end = EndOnDrop(&self.gate);
        let mut has_worked = false;
        let work = || {
            self.control.in_thread(&mut || {
                assert!(
                    !std::mem::replace(&mut has_worked, true),
                    "a thread wrapper called its argument twice"
                );
                self.follow(shard);
            });
            assert!(has_worked, "a thread wrapper did not call its argument");
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            self.panic.lock().expect(NO_PANIC).get_or_insert(payload);
        }
    }

    /// Runs a shard other than the first until the run ends.
    fn follow(&self, shard: usize) {
        self.create(shard);
        for turn in 1.. {
            if !self.gate.wait() {
                return;
            }
            match self.next(turn) {
                Next::Window(window) if !self.has_few_events(turn) => self.run_window(shard, turn, window),
                // The leading thread runs this shard.
                Next::Window(_) | Next::Barrier(_) => {}
            }
        }
    }

    /// Continues the first panic of the other threads, if there is one.
    fn continue_panic(&self) {
        let panic = self.panic.lock().expect(NO_PANIC).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// The numbers that all shards published in the turn before this one.
    fn published(&self, turn: u64, number: impl Fn(&Turn) -> &AtomicU64) -> impl Iterator<Item = u64> {
        self.shards.iter().map(move |shard| number(&shard.turns[place(turn - 1)]).load(Ordering::Acquire))
    }

    fn next(&self, turn: u64) -> Next {
        let first = self.published(turn, |turn| &turn.first).min().map(Instant::from_nanos);
        let lookahead = Duration::from_nanos(self.lookahead.load(Ordering::Relaxed));
        let barrier = Instant::from_nanos(self.barrier[place(turn - 1)].load(Ordering::Acquire));
        Next::after(first, lookahead, barrier)
    }

    fn has_few_events(&self, turn: u64) -> bool {
        self.published(turn, |turn| &turn.events).sum::<u64>() < FEW_EVENTS
    }

    fn create(&self, shard: usize) {
        let mut world = World::new(self.plan, shard, self.control);
        self.lookahead.store(nanos(world.lookahead()), Ordering::Relaxed);
        self.publish(&mut world, shard, 0, 0);
        *self.shards[shard].lock() = Some(world);
    }

    fn publish(&self, world: &mut World<'_>, shard: usize, turn: u64, events: u64) {
        let first = world.next_event().unwrap_or(Instant::FAR_FUTURE).min(world.net.outbox.earliest);
        let turn = &self.shards[shard].turns[place(turn)];
        turn.first.store(first.as_nanos(), Ordering::Release);
        turn.events.store(events, Ordering::Release);
        turn.downloads.store(world.downloads_for_stop(), Ordering::Release);
    }

    fn run_window(&self, shard: usize, turn: u64, window: Window) {
        let mut guard = self.shards[shard].lock();
        let world = guard.as_mut().expect(CREATED);
        self.deliver(world, shard, turn);
        let before = world.net.handled;
        // The leading thread also sees that the run was cancelled.
        let _ = world.run_window(window, self.control, |_| ());
        let events = world.net.handled - before;
        self.publish(world, shard, turn, events);
        world.net.outbox.earliest = Instant::FAR_FUTURE;
        for (mail, receiver) in world.net.outbox.mail.iter_mut().zip(&self.shards) {
            if !mail.is_empty() {
                // The receiver has emptied this buffer, so both buffers are used again.
                std::mem::swap(mail, &mut *receiver.turns[place(turn)].inbox[shard].lock().expect(NO_PANIC));
                debug_assert!(mail.is_empty(), "a message was not delivered in its turn");
            }
        }
    }

    /// Delivers the messages that other shards sent to a shard in the turn before this one.
    fn deliver(&self, world: &mut World<'_>, shard: usize, turn: u64) {
        for inbox in &self.shards[shard].turns[place(turn - 1)].inbox {
            let mut mail = inbox.lock().expect(NO_PANIC);
            mail.drain(..).for_each(|(to, mail)| world.deliver(to, mail));
        }
    }
}

/// Lets the threads of all other shards end, also after a panic or an error.
struct EndOnDrop<'g>(&'g Gate);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.dismantle();
    }
}

const NO_PANIC: &str = "a panic of one thread ends the run";
const CREATED: &str = "each thread creates its shard in the first turn";
