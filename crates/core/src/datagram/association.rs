//! The datagrams between two nodes: all circuits of one channel.

use super::MAX_DATAGRAM;
use super::message::{DATA, Downstream, HEADER, Message};
use super::packer::{Packer, Pending};
use super::receiver::{Arrival, Receiver};
use super::sender::{Repair, RoundTrips, Sender};
use crate::cell::{Cell, CircId, Command};
use crate::error::Violation;
use crate::windowed_min::WindowedMin;
use penstock_units::{Bytes, Duration, Instant};
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::NonZeroU32;

/// How datagrams are packed and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramConfig {
    /// How long a message that is alone waits for company [ns] (nstor: 1 ms).
    pub coalesce_delay: Duration,
    /// The least retransmission timeout [ns] (nstor and RFC 6298: 1 s).
    pub min_timeout: Duration,
    /// After how long a least round trip to a neighbour is forgotten [s]; `None` is never, as nstor has it.
    pub base_memory: Option<u64>,
}

impl Default for DatagramConfig {
    fn default() -> Self {
        DatagramConfig {
            coalesce_delay: Duration::from_millis(1),
            min_timeout: Duration::from_secs(1),
            base_memory: None,
        }
    }
}

/// What a relay counted of its datagrams since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// FEEDBACK messages sent.
    pub feedback: u64,
    /// Cells sent another time.
    pub again: u64,
    /// Cells received another time.
    pub repeated: u64,
    /// Questions for FEEDBACK.
    pub probes: u64,
    /// Cells whose circuit ended before they were acknowledged; some of them have arrived.
    pub given_up: u64,
    /// Cells that arrived for circuits which are closed here.
    pub unwanted: u64,
}

impl DatagramCounters {
    /// Both together.
    pub(crate) fn plus(self, other: DatagramCounters) -> DatagramCounters {
        DatagramCounters {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            feedback: self.feedback + other.feedback,
            again: self.again + other.again,
            repeated: self.repeated + other.repeated,
            probes: self.probes + other.probes,
            given_up: self.given_up + other.given_up,
            unwanted: self.unwanted + other.unwanted,
        }
    }
}

/// What a datagram brought beside cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    /// The next hop said what it forwarded of a circuit.
    Forwarded {
        id: CircId,
        /// RELAY cells in all, modulo 2³² [cell].
        count: u32,
        /// How long the last of them took, and the least that any did to this neighbour [ns].
        trip: Option<(Duration, Duration)>,
        downstream: Downstream,
    },
    /// The circuit must close: for what the peer did or did not do, or because it does not know it.
    Failed { id: CircId, violation: Option<Violation> },
}

/// One circuit of the channel, in both directions.
#[derive(Debug)]
struct CircuitState<C> {
    sender: Sender<C>,
    receiver: Receiver<C>,
    /// What the control of hops last had to say for the peer.
    forwarded: u32,
    downstream: Downstream,
    /// How many FEEDBACKs wait to go: plain ones, and for cells beyond a hole.
    feedback_pending: bool,
    duplicates_pending: u8,
    /// The circuit is closed here: once the peer knows it, this goes too.
    closing: bool,
    /// When the timer is set for; never later than the sender wants.
    timer: Option<Instant>,
}

/// How many FEEDBACKs of a circuit for cells beyond a hole may wait to go [1]: more than three tell nothing new.
const MAX_DUPLICATES: u8 = 3;
/// How many answers about unknown circuits may wait to go [1]: a peer that wants one will ask again.
const MAX_UNKNOWN: usize = 64;
/// How many cells of all circuits may wait for others that are missing [cell]; what is more counts as lost.
pub(crate) const MAX_EARLY: usize = 16_384;

/// Cells of one channel, over datagrams.
///
/// Takes cells from the channel's output buffer and makes datagrams of them; takes datagrams and makes cells of them, in
/// order within each circuit. Each circuit has a number of 16 bits, half of them for each side to choose.
///
/// A circuit begins with the CREATE, which has number zero, and ends with the DESTROY: its sender keeps it until it is
/// acknowledged, or until it hears GONE, which is what a node answers that does not know a circuit.
#[derive(Debug)]
pub(crate) struct Association<C> {
    config: DatagramConfig,
    round_trips: RoundTrips,
    circuits: BTreeMap<u16, CircuitState<C>>,
    /// Cells of all of them that wait for others that are missing.
    early: usize,
    packer: Packer,
    /// One entry for each lane whose timer is set.
    timers: BinaryHeap<Reverse<(Instant, u16)>>,
    /// The least round trip of all circuits to this neighbour.
    base: WindowedMin,
    /// Answers about unknown circuits that wait to go.
    unknown_pending: usize,
    /// Circuits whose peers leave too much unacknowledged, or do not answer.
    failed: Vec<LinkEvent>,
    /// The messages of a datagram in the making, and of one that came; kept for their memory.
    batch: Vec<Pending>,
    pub(crate) inbox: Vec<Message<C>>,
    pub(crate) counters: DatagramCounters,
}

impl<C: Cell> Association<C> {
    pub(crate) fn new(config: DatagramConfig) -> Self {
        Association {
            config,
            round_trips: RoundTrips::Unknown,
            circuits: BTreeMap::new(),
            early: 0,
            packer: Packer::new(config.coalesce_delay),
            timers: BinaryHeap::new(),
            base: WindowedMin::new(config.base_memory.unwrap_or(u64::MAX)),
            unknown_pending: 0,
            failed: Vec::new(),
            batch: Vec::new(),
            inbox: Vec::new(),
            counters: DatagramCounters::default(),
        }
    }

    /// Whether the peer says what it forwards; before the first cell.
    pub(crate) fn expect(&mut self, round_trips: RoundTrips) {
        self.round_trips = round_trips;
    }

    /// What could be sent now, beside the output buffer [B].
    pub(crate) fn ready(&self) -> Bytes {
        Bytes::new(self.packer.ready() as u64)
    }

    /// Cells that were taken and not acknowledged [cell].
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.circuits.values().map(|state| state.sender.len()).sum()
    }

    /// Sends datagrams with what is owed and the cells of `outbuf` until `limit` is reached or exceeded by less than a
    /// datagram [B], or what is left is better sent later. `send` says what each took [B].
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        outbuf: &mut VecDeque<C>,
        limit: Bytes,
        mut send: impl FnMut(&mut dyn Iterator<Item = Message<&C>>) -> Bytes,
    ) -> Bytes {
        let mut written = Bytes::ZERO;
        while written < limit {
            while !self.packer.is_full()
                && let Some(cell) = outbuf.pop_front()
            {
                self.take(now, cell);
            }
            if self.packer.ready() == 0 {
                break;
            }
            written += self.send_one(now, &mut send);
        }
        written
    }

    fn take(&mut self, now: Instant, cell: C) {
        let id = cell.circ_id();
        let circuit = number(id);
        let is_last = cell.command() == Command::Destroy;
        let counts = cell.command() == Command::Relay;
        if cell.command() == Command::Create {
            self.end(circuit);
            self.circuits.insert(circuit, CircuitState::new(self.config, self.round_trips));
        }
        // What the peer closed while this waited for the kernel is over, and nothing follows a DESTROY.
        let Some(state) = self.circuits.get_mut(&circuit).filter(|state| !state.closing) else {
            self.counters.given_up += 1;
            return;
        };
        state.closing = is_last;
        match state.sender.push(cell, counts) {
            Ok(seq) => self.packer.push(now, Pending::Data(circuit, seq), DATA),
            Err(violation) => {
                self.counters.given_up += 1;
                self.failed.push(LinkEvent::Failed { id, violation: Some(violation) });
            }
        }
    }

    fn send_one(
        &mut self,
        now: Instant,
        send: &mut impl FnMut(&mut dyn Iterator<Item = Message<&C>>) -> Bytes,
    ) -> Bytes {
        let mut batch = std::mem::take(&mut self.batch);
        self.packer.pack(now, &mut batch);
        batch.retain_mut(|pending| self.prepare(now, pending));
        let mut written = Bytes::ZERO;
        if !batch.is_empty() {
            written = send(&mut batch.iter().map(|pending| self.message(*pending)));
            self.counters.sent += 1;
        }
        let mut armed = None;
        for pending in batch.drain(..) {
            if let Pending::Data(circuit, _) = pending
                && armed != Some(circuit)
            {
                self.arm(circuit);
                armed = Some(circuit);
            }
        }
        self.batch = batch;
        written
    }

    /// A message goes out; false if there is no more to say.
    fn prepare(&mut self, now: Instant, pending: &mut Pending) -> bool {
        match *pending {
            Pending::Data(circuit, seq) => {
                let sender = self.circuits.get_mut(&circuit).map(|state| &mut state.sender);
                sender.is_some_and(|sender| sender.on_packed(now, seq))
            }
            Pending::Feedback(circuit) | Pending::Hole(circuit) => {
                match self.circuits.get_mut(&circuit) {
                    Some(state) if matches!(pending, Pending::Hole(_)) => {
                        state.duplicates_pending = state.duplicates_pending.saturating_sub(1)
                    }
                    Some(state) => state.feedback_pending = false,
                    // The circuit closed meanwhile, and the peer may not know that its DESTROY came.
                    None => *pending = Pending::Gone(circuit),
                }
                self.counters.feedback += 1;
                true
            }
            Pending::Gone(_) => {
                self.unknown_pending -= 1;
                true
            }
            Pending::Probe(circuit) => self.circuits.contains_key(&circuit),
        }
    }

    fn message(&self, pending: Pending) -> Message<&C> {
        match pending {
            Pending::Data(circuit, seq) => {
                let body = self.circuits[&circuit].sender.cell(seq);
                let body = body.expect("a cell that was prepared is not acknowledged yet");
                Message::Data { circuit, seq: seq as u32, body }
            }
            Pending::Feedback(circuit) | Pending::Hole(circuit) => {
                let state = &self.circuits[&circuit];
                Message::Feedback {
                    circuit,
                    ack: state.receiver.ack(),
                    forwarded: state.forwarded,
                    hole: matches!(pending, Pending::Hole(_)),
                    downstream: state.downstream,
                }
            }
            Pending::Probe(circuit) => Message::Probe { circuit },
            Pending::Gone(circuit) => Message::Gone { circuit },
        }
    }
}

/// What arrives.
impl<C: Cell> Association<C> {
    /// A datagram came; its cells that are in order now go to `cells`, the rest to `notes`.
    pub(crate) fn on_datagram(
        &mut self,
        now: Instant,
        messages: impl IntoIterator<Item = Message<C>>,
        cells: &mut VecDeque<C>,
        events: &mut Vec<LinkEvent>,
    ) {
        self.counters.received += 1;
        // Number zero is nobody's.
        for message in messages.into_iter().filter(|message| message.circuit() != 0) {
            match message {
                Message::Data { circuit, seq, body } => self.on_data(now, circuit, seq, body, cells, events),
                Message::Feedback { circuit, ack, forwarded, hole, downstream } => {
                    let outcome = self.on_feedback(now, circuit, ack, forwarded, hole, downstream);
                    match outcome {
                        Ok(event) => events.extend(event),
                        Err(violation) => self.fail(circuit, Some(violation), events),
                    }
                }
                Message::Probe { circuit } => self.queue_feedback(now, circuit, false),
                Message::Gone { circuit } => {
                    let state = self.end(circuit);
                    if state.is_some_and(|state| !state.closing) {
                        self.fail(circuit, None, events);
                    }
                }
            }
        }
    }

    fn on_data(
        &mut self,
        now: Instant,
        circuit: u16,
        seq: u32,
        cell: C,
        cells: &mut VecDeque<C>,
        events: &mut Vec<LinkEvent>,
    ) {
        // A circuit begins with its CREATE, whatever overtakes it.
        let state = match self.circuits.entry(circuit) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) if seq == 0 && cell.command() == Command::Create => {
                new.insert(CircuitState::new(self.config, self.round_trips))
            }
            Entry::Vacant(_) => return self.answer(now, circuit),
        };
        // Who closed the circuit wants none of them, but the peer may wait for its own DESTROY to arrive.
        let closing = state.closing;
        let unwanted = &mut self.counters.unwanted;
        let hand_on = |cell| {
            if closing {
                *unwanted += 1;
            } else {
                cells.push_back(cell);
            }
        };
        if self.early >= MAX_EARLY && seq != state.receiver.ack() {
            return;
        }
        let before = state.receiver.early();
        match state.receiver.on_data(seq, cell, hand_on) {
            Ok(arrival) => {
                self.early = self.early + state.receiver.early() - before;
                let beyond = state.receiver.has_hole();
                self.counters.repeated += u64::from(arrival == Arrival::Again);
                state.queue_feedback(now, circuit, beyond, &mut self.packer);
            }
            Err(violation) => self.fail(circuit, Some(violation), events),
        }
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        circuit: u16,
        ack: u32,
        forwarded: u32,
        hole: bool,
        downstream: Downstream,
    ) -> Result<Option<LinkEvent>, Violation> {
        let Some(state) = self.circuits.get_mut(&circuit) else { return Ok(None) };
        let acknowledged = state.sender.on_feedback(now, ack, forwarded, hole, downstream)?;
        if state.closing && state.sender.is_empty() {
            self.end(circuit);
            return Ok(None);
        }
        let closing = state.closing;
        let trip = acknowledged.rtt.map(|rtt| {
            self.base.add(now, rtt);
            (rtt, self.base.get(now).unwrap_or(rtt))
        });
        self.counters.again += state.send_again(now, circuit, &mut self.packer);
        state.arm(circuit, &mut self.timers);
        let id = circ_id(circuit);
        Ok(acknowledged.forwarded.filter(|_| !closing).map(|count| LinkEvent::Forwarded {
            id,
            count,
            trip,
            downstream,
        }))
    }

    fn fail(&mut self, circuit: u16, violation: Option<Violation>, events: &mut Vec<LinkEvent>) {
        events.push(LinkEvent::Failed { id: circ_id(circuit), violation });
    }

    /// FEEDBACK of a circuit is to go; about one that is unknown, that it is.
    fn queue_feedback(&mut self, now: Instant, circuit: u16, hole: bool) {
        match self.circuits.get_mut(&circuit) {
            Some(state) => state.queue_feedback(now, circuit, hole, &mut self.packer),
            None => self.answer(now, circuit),
        }
    }

    /// Somebody spoke of a circuit that is unknown here.
    fn answer(&mut self, now: Instant, circuit: u16) {
        if self.unknown_pending < MAX_UNKNOWN {
            self.unknown_pending += 1;
            self.packer.push(now, Pending::Gone(circuit), HEADER);
        }
    }
}

/// What the node decides, and time that passes.
impl<C: Cell> Association<C> {
    /// The control of hops tells the hop before of what it forwarded; false if a FEEDBACK that waits already will say it.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        id: CircId,
        forwarded: u32,
        downstream: Downstream,
    ) -> bool {
        let circuit = number(id);
        let Some(state) = self.circuits.get_mut(&circuit).filter(|state| !state.closing) else {
            return false;
        };
        (state.forwarded, state.downstream) = (forwarded, downstream);
        if state.feedback_pending {
            return false;
        }
        state.queue_feedback(now, circuit, false, &mut self.packer);
        true
    }

    /// The peer closed the circuit.
    pub(crate) fn forget(&mut self, id: CircId) {
        self.end(number(id));
    }

    /// When [`on_timer`](Self::on_timer) is to be called for circuits.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// When it is to be called for a message that waits for company.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        self.packer.poll_timeout()
    }

    /// Time passed.
    pub(crate) fn on_timer(&mut self, now: Instant) {
        self.packer.on_timer(now);
        while let Some(Reverse((at, circuit))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            let Some(state) = self.circuits.get_mut(&circuit).filter(|state| state.timer == Some(at)) else {
                continue;
            };
            state.timer = None;
            match state.sender.on_timer(now) {
                Repair::Nothing => {}
                Repair::Again => self.counters.again += state.send_again(now, circuit, &mut self.packer),
                Repair::Probe => {
                    self.counters.probes += 1;
                    self.packer.push(now, Pending::Probe(circuit), HEADER);
                }
                Repair::GiveUp => {
                    // Nobody is left to tell that the circuit is closed; should somebody speak of it, it is GONE.
                    self.end(circuit);
                    let violation = Some(Violation::Unacknowledged);
                    self.failed.push(LinkEvent::Failed { id: circ_id(circuit), violation });
                }
            }
            self.arm(circuit);
        }
    }

    /// Whether there are circuits that must close for what did not happen.
    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Those circuits.
    pub(crate) fn take_failed(&mut self) -> impl Iterator<Item = LinkEvent> + '_ {
        self.failed.drain(..)
    }

    /// Cells that wait for others that are missing [cell].
    #[cfg(test)]
    pub(crate) fn early(&self) -> usize {
        self.early
    }

    /// Forgets a circuit.
    fn end(&mut self, circuit: u16) -> Option<CircuitState<C>> {
        let state = self.circuits.remove(&circuit)?;
        self.early -= state.receiver.early();
        self.counters.given_up += state.sender.len();
        Some(state)
    }

    /// Has the circuit's timer come no later than its sender wants.
    fn arm(&mut self, circuit: u16) {
        if let Some(state) = self.circuits.get_mut(&circuit) {
            state.arm(circuit, &mut self.timers);
        }
    }
}

impl<C> CircuitState<C> {
    fn new(config: DatagramConfig, round_trips: RoundTrips) -> Self {
        CircuitState {
            sender: Sender::new(0, config.min_timeout, round_trips),
            receiver: Receiver::new(0),
            forwarded: 0,
            downstream: Downstream::default(),
            feedback_pending: false,
            duplicates_pending: 0,
            closing: false,
            timer: None,
        }
    }

    /// FEEDBACK is to go, unless enough of it waits already.
    fn queue_feedback(&mut self, now: Instant, circuit: u16, hole: bool, packer: &mut Packer) {
        let pending = if hole && self.duplicates_pending < MAX_DUPLICATES {
            self.duplicates_pending += 1;
            Pending::Hole(circuit)
        } else if !hole && !std::mem::replace(&mut self.feedback_pending, true) {
            Pending::Feedback(circuit)
        } else {
            return;
        };
        let downstream = self.downstream;
        let size = Message::<C>::Feedback { circuit, ack: 0, forwarded: 0, hole, downstream }.wire_size();
        packer.push(now, pending, size);
    }

    /// Cells go again that are to; returns how many.
    fn send_again(&mut self, now: Instant, circuit: u16, packer: &mut Packer) -> u64 {
        let mut again = 0;
        while let Some(seq) = self.sender.poll_again() {
            again += 1;
            packer.push(now, Pending::Data(circuit, seq), DATA);
        }
        again
    }

    /// Has the timer come no later than the sender wants.
    fn arm(&mut self, circuit: u16, timers: &mut BinaryHeap<Reverse<(Instant, u16)>>) {
        if let Some(due) = self.sender.poll_timeout()
            && self.timer.is_none_or(|timer| due < timer)
        {
            self.timer = Some(due);
            timers.push(Reverse((due, circuit)));
        }
    }
}

const INITIATOR: u32 = 1 << 31;

/// A circuit's number in its association.
fn number(id: CircId) -> u16 {
    let low = id.0.get() & !INITIATOR;
    let low = u16::try_from(low).ok().filter(|low| *low < 1 << 15);
    let low = low.expect("a node that speaks datagrams counts its circuits with 15 bits");
    low | if id.0.get() & INITIATOR != 0 { 1 << 15 } else { 0 }
}

/// And the other way round.
fn circ_id(circuit: u16) -> CircId {
    let low = u32::from(circuit & 0x7fff);
    let id = low | if circuit >> 15 == 1 { INITIATOR } else { 0 };
    CircId(NonZeroU32::new(id).expect("what has number zero is thrown away when it comes"))
}

const _: () = assert!(2 * DATA <= MAX_DATAGRAM);
