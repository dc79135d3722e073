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

/// Options for packing and retransmission of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramConfig {
    /// The maximum time for which a single message waits for a second message [ns] (nstor: 1 ms). On a short hop, it
    /// waits for at most an eighth of the base round trip.
    pub coalesce_delay: Duration,
    /// The minimum retransmission timeout [ns] (nstor and RFC 6298: 1 s).
    pub min_timeout: Duration,
    /// How long the minimum round trip to a neighbour is remembered [s]; `None` remembers it forever, as in nstor.
    pub base_memory: Option<u64>,
    /// Whether reads wait for tokens of the read bucket. In nstor, reads take tokens but never wait.
    pub gated_reads: bool,
}

/// A single message waits for at most this part of the base round trip.
const HOLD_PART: u32 = 8;

impl DatagramConfig {
    /// The maximum time for which a single message waits for a second one, on a hop with this base round trip.
    ///
    /// Source: nstor, whose FIFO for each channel is flushed when two messages wait or after 1 ms.
    /// Deviation: nstor's hold does not depend on the round trip. There, ACK and FWD of a cell are two messages, so the
    /// FWD of a cell that is forwarded immediately never waits. Here, one FEEDBACK has both. A hold of several base
    /// round trips would look like cells that wait at the next node.
    pub(crate) fn hold(&self, base: Duration) -> Duration {
        self.coalesce_delay.min(base / HOLD_PART)
    }
}

impl Default for DatagramConfig {
    fn default() -> Self {
        DatagramConfig {
            coalesce_delay: Duration::from_millis(1),
            min_timeout: Duration::from_secs(1),
            base_memory: None,
            gated_reads: true,
        }
    }
}

/// Counters of datagrams since the relay started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// FEEDBACK messages sent.
    pub feedback: u64,
    /// Cells retransmitted.
    pub again: u64,
    /// Duplicate cells received.
    pub repeated: u64,
    /// PROBE messages sent (requests for FEEDBACK).
    pub probes: u64,
    /// Cells whose circuit ended before the peer acknowledged them. Some of these cells did arrive.
    pub given_up: u64,
    /// Cells received for circuits that this node has closed.
    pub unwanted: u64,
}

impl DatagramCounters {
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

/// Information in a received datagram, besides cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    Forwarded {
        id: CircId,
        /// RELAY cells that the next hop has forwarded so far, modulo 2³² [cell].
        count: u32,
        /// The round trip of the last forwarded cell, and the minimum round trip of all cells to this neighbour [ns].
        trip: Option<(Duration, Duration)>,
        downstream: Downstream,
    },
    Failed(LinkFailure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkFailure {
    pub(crate) id: CircId,
    /// The peer's violation; `None` if the peer does not know the circuit.
    pub(crate) violation: Option<Violation>,
}

#[derive(Debug)]
struct CircuitState<C> {
    sender: Sender<C>,
    receiver: Receiver<C>,
    /// The values of the last hop-control feedback that this node sent to the peer.
    forwarded: u32,
    downstream: Downstream,
    /// Whether a FEEDBACK with new counts waits to be sent. `duplicates_pending` counts waiting FEEDBACKs that report a
    /// missing cell.
    feedback_pending: bool,
    duplicates_pending: u8,
    /// Whether this node has closed the circuit. The node forgets the circuit when the peer has acknowledged the
    /// DESTROY.
    closing: bool,
    /// When the circuit's timer expires. This may be before the sender's timeout.
    timer: Option<Instant>,
}

/// Maximum number of waiting FEEDBACKs that report a missing cell [1]. More than three have no effect.
const MAX_DUPLICATES: u8 = 3;
/// Maximum number of GONE messages that wait to be sent [1]. If a GONE is dropped, the peer asks again.
const MAX_UNKNOWN: usize = 64;
/// Maximum number of cells that wait for missing earlier cells, in all circuits [cell]. The receiver drops more.
pub(crate) const MAX_EARLY: usize = 16_384;
/// The size of a stored cell in the memory count [B].
const CELL: u64 = 514;
/// The counted size of a circuit's state, with the smallest buffer for cells [B].
const CIRCUIT: u64 = 3 * 1024;

/// Sends and receives the cells of one channel as datagrams.
///
/// The association packs cells of the channel's output buffer into datagrams. From received datagrams, the association
/// returns the cells of each circuit in order. Circuits have 16-bit numbers; each side allocates half of them.
///
/// A circuit begins with the CREATE, which has sequence number 0, and ends with the DESTROY. The sender stores the
/// DESTROY until the peer acknowledges it, or until a GONE reports that the peer does not know the circuit.
#[derive(Debug)]
pub(crate) struct Association<C> {
    config: DatagramConfig,
    round_trips: RoundTrips,
    circuits: BTreeMap<u16, CircuitState<C>>,
    early: usize,
    /// Cells that wait for an acknowledgement [cell].
    unacknowledged: u64,
    /// The memory that the relay has counted for this channel [B].
    pub(crate) counted: u64,
    packer: Packer,
    timers: BinaryHeap<Reverse<(Instant, u16)>>,
    base: WindowedMin,
    unknown_pending: usize,
    failed: Vec<LinkFailure>,
    /// The messages of the current datagram. The buffer is kept to avoid allocations.
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
            unacknowledged: 0,
            counted: 0,
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

    pub(crate) fn set_round_trips(&mut self, round_trips: RoundTrips) {
        self.round_trips = round_trips;
    }

    pub(crate) fn gates_reads(&self) -> bool {
        self.config.gated_reads
    }

    /// Bytes of pending messages that could be sent now [B], not counting the output buffer.
    pub(crate) fn ready(&self) -> Bytes {
        Bytes::new(self.packer.ready() as u64)
    }

    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// Limits the size of the datagrams from now on [B]. Two cells must fit.
    pub(crate) fn set_max_datagram(&mut self, max: usize) {
        self.packer.set_max(max.clamp(2 * DATA, MAX_DATAGRAM));
    }

    /// The memory of the stored cells and of the circuits [B].
    pub(crate) fn memory(&self) -> u64 {
        (self.unacknowledged + self.early as u64) * CELL + self.circuits.len() as u64 * CIRCUIT
    }

    /// The part of [`memory`](Self::memory) that belongs to an open circuit [B].
    pub(crate) fn circuit_memory(&self, id: CircId) -> u64 {
        self.circuits.get(&number(id)).filter(|state| !state.closing).map_or(0, CircuitState::memory)
    }

    /// The part of [`memory`](Self::memory) that belongs to closed circuits whose DESTROY is not acknowledged yet [B].
    pub(crate) fn closing_memory(&self) -> u64 {
        self.circuits.values().filter(|state| state.closing).map(CircuitState::memory).sum()
    }

    /// Forgets a circuit without the peer's acknowledgement, and sends GONE instead of the DESTROY.
    pub(crate) fn abandon(&mut self, now: Instant, id: CircId) {
        if self.end(number(id)).is_some() {
            self.answer(now, number(id));
        }
    }

    /// Sends pending messages and the cells of `outbuf` as datagrams. `send` returns the size of each datagram [B]. The
    /// call ends when it has sent `limit` bytes [B] (the last datagram may exceed the limit). The call also ends when a
    /// single remaining message waits for a second message.
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
        // The peer closed the circuit while this cell waited, or this node sent a DESTROY before the cell.
        let Some(state) = self.circuits.get_mut(&circuit).filter(|state| !state.closing) else {
            self.counters.given_up += 1;
            return;
        };
        state.closing = is_last;
        match state.sender.push(cell, counts) {
            Ok(seq) => {
                self.unacknowledged += 1;
                self.packer.push(now, Pending::Data(circuit, seq), DATA);
            }
            Err(violation) => {
                self.counters.given_up += 1;
                self.failed.push(LinkFailure { id, violation: Some(violation) });
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
                    // The circuit closed while the FEEDBACK waited. The peer may not know that its DESTROY arrived.
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

impl<C: Cell> Association<C> {
    /// Handles a datagram. Adds the cells that are now in order to `cells`, and all other reports to `events`.
    pub(crate) fn on_datagram(
        &mut self,
        now: Instant,
        messages: impl IntoIterator<Item = Message<C>>,
        cells: &mut VecDeque<C>,
        events: &mut Vec<LinkEvent>,
    ) {
        self.counters.received += 1;
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
        let state = match self.circuits.entry(circuit) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) if seq == 0 && cell.command() == Command::Create => {
                new.insert(CircuitState::new(self.config, self.round_trips))
            }
            Entry::Vacant(_) => return self.answer(now, circuit),
        };
        // Cells of a closed circuit are dropped but acknowledged, because the peer may wait for the ACK of a DESTROY.
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
        let before = state.sender.len();
        let acknowledged = state.sender.on_feedback(now, ack, forwarded, hole, downstream)?;
        self.unacknowledged -= before - state.sender.len();
        if state.closing && state.sender.is_empty() {
            self.end(circuit);
            return Ok(None);
        }
        let closing = state.closing;
        let trip = acknowledged.rtt.map(|rtt| {
            self.base.add(now, rtt);
            let base = self.base.get(now).unwrap_or(rtt);
            self.packer.set_hold(self.config.hold(base));
            (rtt, base)
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
        events.push(LinkEvent::Failed(LinkFailure { id: circ_id(circuit), violation }));
    }

    fn queue_feedback(&mut self, now: Instant, circuit: u16, hole: bool) {
        match self.circuits.get_mut(&circuit) {
            Some(state) => state.queue_feedback(now, circuit, hole, &mut self.packer),
            None => self.answer(now, circuit),
        }
    }

    fn answer(&mut self, now: Instant, circuit: u16) {
        if self.unknown_pending < MAX_UNKNOWN {
            self.unknown_pending += 1;
            self.packer.push(now, Pending::Gone(circuit), HEADER);
        }
    }
}

impl<C: Cell> Association<C> {
    /// Reports how many of the peer's cells this node has forwarded. Returns false if no new message waits or may leave.
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
            // The waiting FEEDBACK now has an ACK and a FWD, which are two messages in nstor.
            return self.packer.complete();
        }
        state.queue_feedback(now, circuit, false, &mut self.packer);
        true
    }

    pub(crate) fn remove_circuit(&mut self, id: CircId) {
        self.end(number(id));
    }

    /// When to call [`on_timer`](Self::on_timer) for the circuits' retransmission timers.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// When to call [`on_timer`](Self::on_timer) for a single message that waits for a second one.
    pub(crate) fn coalesce_timeout(&self) -> Option<Instant> {
        self.packer.poll_timeout()
    }

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
                    // The peer does not answer, so it cannot learn that the circuit has ended. If it sends a message
                    // about the circuit later, this node answers GONE.
                    self.end(circuit);
                    let violation = Some(Violation::Unacknowledged);
                    self.failed.push(LinkFailure { id: circ_id(circuit), violation });
                }
            }
            self.arm(circuit);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    pub(crate) fn take_failed(&mut self) -> impl Iterator<Item = LinkFailure> + '_ {
        self.failed.drain(..)
    }

    #[cfg(test)]
    pub(crate) fn early(&self) -> usize {
        self.early
    }

    fn end(&mut self, circuit: u16) -> Option<CircuitState<C>> {
        let state = self.circuits.remove(&circuit)?;
        self.early -= state.receiver.early();
        self.unacknowledged -= state.sender.len();
        self.counters.given_up += state.sender.len();
        Some(state)
    }

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

    fn memory(&self) -> u64 {
        (self.sender.len() + self.receiver.early() as u64) * CELL + CIRCUIT
    }

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

    fn send_again(&mut self, now: Instant, circuit: u16, packer: &mut Packer) -> u64 {
        let mut again = 0;
        while let Some(seq) = self.sender.poll_again() {
            again += 1;
            packer.push(now, Pending::Data(circuit, seq), DATA);
        }
        again
    }

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

fn number(id: CircId) -> u16 {
    let low = id.0.get() & !INITIATOR;
    let low = u16::try_from(low).ok().filter(|low| *low < 1 << 15);
    let low = low.expect("a node that speaks datagrams counts its circuits with 15 bits");
    low | if id.0.get() & INITIATOR != 0 { 1 << 15 } else { 0 }
}

/// The id of the circuit with this number in datagrams; `None` for number 0, which no circuit has.
pub fn circuit_id(circuit: u16) -> Option<CircId> {
    let low = u32::from(circuit & 0x7fff);
    let id = low | if circuit >> 15 == 1 { INITIATOR } else { 0 };
    NonZeroU32::new(id).map(CircId)
}

fn circ_id(circuit: u16) -> CircId {
    circuit_id(circuit).expect("a received message with circuit number zero is dropped")
}

const _: () = assert!(2 * DATA <= MAX_DATAGRAM);
