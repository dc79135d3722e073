//! A model of a relay for one scheduler: channels and circuits are only counts.

use crate::circuit_policy::Priority;
use crate::kernel::SocketInfo;
use crate::keys::ChannelKey;
use crate::scheduler::{Flushed, Scheduler, SchedulerContext};
use penstock_units::{Bytes, Duration, Instant};
use std::cell::RefCell;
use std::collections::BTreeMap;

pub(super) const CELL: u64 = 512;
/// The maximum number of cells in a record [cell]; the next constant is a record's overhead [B].
pub(super) const RECORD_CELLS: u64 = 8;
pub(super) const RECORD: u64 = 29;
/// The I/O quantum [B].
const QUANTUM: u64 = 16 << 10;

/// An action of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Read the kernel's state of a channel's socket.
    ReadKernel(u32),
    /// Moved a cell of a circuit to the output buffer of the channel.
    Moved(u32, usize),
    /// Wrote bytes of the channel [B].
    Wrote(u32, u64),
}

/// The numbers of sent cells and waiting cells of a circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Circuit {
    pub(super) sent: u64,
    pub(super) cells: u64,
}

/// A channel and its socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) circuits: [Circuit; 3],
    /// Cells in the channel's output buffer [cell].
    pub(super) outbuf: u64,
    pub(super) info: SocketInfo,
    pub(super) wants: bool,
    pub(super) has_datagrams: bool,
}

impl Channel {
    /// An idle connection with a window of 20 segments, a buffer of 64 KiB, and a peer that accepts all bytes.
    fn open() -> Self {
        let (capacity, peer_window) = (Bytes::kib(64), Bytes::mib(1024));
        let info = SocketInfo { capacity, peer_window, cwnd: 20, mss: 1448, ..SocketInfo::default() };
        Channel { info, ..Channel::default() }
    }

    /// The best circuit of the channel: the one with the fewest sent cells, or the first of
    /// several.
    pub(super) fn best(&self) -> Option<usize> {
        let waiting = (0..3).filter(|at| self.circuits[*at].cells > 0);
        waiting.min_by_key(|at| self.circuits[*at].sent)
    }

    pub(super) fn has_work(&self) -> bool {
        self.outbuf > 0 || self.best().is_some()
    }
}

/// All channels of the relay, its write bucket, and the scheduler's actions.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) channels: BTreeMap<u32, Channel>,
    /// Tokens of the relay's bucket [B]. `None` is no limit.
    pub(super) tokens: Option<u64>,
    /// Channels that wait for a refill.
    pub(super) throttled: Vec<u32>,
    /// Whether all circuits have the same priority, as with round robin.
    pub(super) alike: bool,
    /// Whether a choice moves the whole queue of a circuit.
    pub(super) whole_queues: bool,
    pub(super) actions: RefCell<Vec<Action>>,
}

impl World {
    pub(super) fn with(channels: impl IntoIterator<Item = u32>) -> Self {
        let channels = channels.into_iter().map(|key| (key, Channel::open())).collect();
        World { channels, ..World::default() }
    }

    pub(super) fn at(&mut self, channel: u32) -> &mut Channel {
        self.channels.get_mut(&channel).expect("the channel is open")
    }

    fn see(&self, channel: ChannelKey) -> &Channel {
        &self.channels[&(channel.index() as u32)]
    }

    /// The actions since the last call.
    pub(super) fn actions(&self) -> Vec<Action> {
        self.actions.take()
    }

    /// Adds cells to a circuit. Notifies the scheduler if the queue was empty.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        scheduler: &mut dyn Scheduler,
        at: (u32, usize),
        cells: u64,
    ) {
        let circuit = &mut self.at(at.0).circuits[at.1];
        circuit.cells += cells;
        if circuit.cells == cells && cells > 0 {
            scheduler.on_ready(now, ChannelKey::first(at.0), self);
            self.notify(now, scheduler);
        }
    }

    /// A link-control cell enters the output buffer directly.
    pub(super) fn control(&mut self, now: Instant, scheduler: &mut dyn Scheduler, channel: u32) {
        self.at(channel).outbuf += 1;
        scheduler.on_ready(now, ChannelKey::first(channel), self);
        self.notify(now, scheduler);
    }

    /// The network drains bytes of a channel's kernel buffer [B].
    pub(super) fn drain(&mut self, now: Instant, scheduler: &mut dyn Scheduler, channel: u32, bytes: u64) {
        let info = &mut self.at(channel).info;
        info.queued = info.queued.saturating_sub(Bytes::new(bytes));
        self.notify(now, scheduler);
    }

    /// Notifies the scheduler of writable channels while it wants to write.
    pub(super) fn notify(&mut self, now: Instant, scheduler: &mut dyn Scheduler) {
        let ready = |channel: &Channel| channel.wants && channel.info.queued < channel.info.capacity;
        for calls in 0.. {
            assert!(calls < 10_000, "the scheduler does not spin");
            let Some((channel, _)) = self.channels.iter().find(|(_, state)| ready(state)) else { return };
            scheduler.on_writable(now, ChannelKey::first(*channel), self);
        }
    }

    pub(super) fn refill(&mut self, now: Instant, scheduler: &mut dyn Scheduler, tokens: Option<u64>) {
        self.tokens = tokens;
        for channel in std::mem::take(&mut self.throttled) {
            scheduler.on_refill(now, ChannelKey::first(channel), self);
        }
        self.notify(now, scheduler);
    }

    pub(super) fn close(&mut self, scheduler: &mut dyn Scheduler, channel: u32) {
        self.channels.remove(&channel);
        self.throttled.retain(|other| *other != channel);
        scheduler.on_close(ChannelKey::first(channel));
    }

    pub(super) fn open(&mut self, channel: u32) {
        self.channels.insert(channel, Channel::open());
    }

    /// Advances time. Returns the times at which the scheduler's timer fired.
    pub(super) fn wait(
        &mut self,
        now: &mut Instant,
        scheduler: &mut dyn Scheduler,
        span: Duration,
    ) -> Vec<Instant> {
        let end = *now + span;
        let mut fired = Vec::new();
        while let Some(due) = scheduler.poll_timeout()
            && due <= end
        {
            *now = due.max(*now);
            fired.push(*now);
            scheduler.on_timer(*now, self);
            self.notify(*now, scheduler);
            assert!(fired.len() < 100_000, "the scheduler does not spin");
        }
        *now = end;
        fired
    }
}

impl SchedulerContext for World {
    fn outbuf(&self, channel: ChannelKey) -> Bytes {
        Bytes::new(self.see(channel).outbuf * CELL)
    }

    fn head(&self, channel: ChannelKey) -> Option<Priority> {
        let state = self.see(channel);
        let best = state.best()?;
        Some(Priority(if self.alike { 0.0 } else { state.circuits[best].sent as f64 }))
    }

    fn move_cell(&mut self, channel: ChannelKey) -> bool {
        let whole_queues = self.whole_queues;
        let state = self.at(channel.index() as u32);
        let Some(best) = state.best() else { return false };
        let circuit = &mut state.circuits[best];
        let cells = if whole_queues { circuit.cells } else { 1 };
        (circuit.cells, circuit.sent) = (circuit.cells - cells, circuit.sent + cells);
        state.outbuf += cells;
        self.actions.get_mut().push(Action::Moved(channel.index() as u32, best));
        true
    }

    fn flush(&mut self, channel: ChannelKey, limit: Bytes) -> Flushed {
        assert!(limit > Bytes::ZERO, "every write has a positive limit");
        if self.tokens == Some(0) {
            if !self.throttled.contains(&(channel.index() as u32)) {
                self.throttled.push(channel.index() as u32);
            }
            return Flushed { throttled: true, ..Flushed::default() };
        }
        let limit = limit.get().min(self.tokens.unwrap_or(u64::MAX)).min(QUANTUM);
        let state = self.at(channel.index() as u32);
        let mut bytes = 0;
        while bytes < limit && state.outbuf > 0 && state.info.queued < state.info.capacity {
            let space = (state.info.capacity - state.info.queued).get();
            let cells = (limit - bytes).div_ceil(CELL).min((space / CELL).max(1));
            let cells = cells.min(RECORD_CELLS).min(state.outbuf);
            state.outbuf -= cells;
            state.info.queued += Bytes::new(cells * CELL + RECORD);
            bytes += cells * CELL + RECORD;
        }
        let refused = state.outbuf > 0 && bytes < limit;
        self.tokens = self.tokens.map(|tokens| tokens.saturating_sub(bytes));
        self.actions.get_mut().push(Action::Wrote(channel.index() as u32, bytes));
        Flushed { bytes: Bytes::new(bytes), refused, throttled: false }
    }

    fn has_datagrams(&self, channel: ChannelKey) -> bool {
        self.see(channel).has_datagrams
    }

    fn socket_info(&mut self, channel: ChannelKey) -> SocketInfo {
        self.actions.borrow_mut().push(Action::ReadKernel(channel.index() as u32));
        self.see(channel).info
    }

    fn want_writable(&mut self, channel: ChannelKey, wanted: bool) {
        self.at(channel.index() as u32).wants = wanted;
    }
}
