//! Linked circuits. The first leg of a set owns the set's streams. The other steps ask here which leg packages, which
//! leg sends a message, and which messages are due.

use super::{Parts, Relay};
use crate::arena::Arena;
use crate::cell::{Cell, Message, StreamId};
use crate::circuit::{Edge, Role, Stamp};
use crate::conflux::{ConfluxSet, Link, Nonce, Removed};
use crate::edge_control::{Agreement, EdgeControl};
use crate::error::Violation;
use crate::event::Event;
use crate::kernel::Kernel;
use crate::keys::{CircuitIndex, ConfluxKey, Direction};
use crate::stream::Wait;
use penstock_units::{Cells, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of waiting messages that one call of the relay handles [1]. It is four times the number of cells that
/// a call reads, an I/O quantum and a TLS record. Therefore each call shortens a queue whose messages are due.
const MAX_RELEASED: u32 = 256;

type Waiting<C> = (Option<StreamId>, Message<C>);
/// The circuit that stands for a set, and the set's next message.
type Due<C> = (CircuitIndex, Option<StreamId>, Message<C>);

#[derive(Debug)]
struct LinkedSet<C: Cell> {
    legs: ConfluxSet<CircuitIndex, Waiting<C>>,
    /// Whether this node began the circuits.
    is_client: bool,
    /// The age of the messages that wait for earlier ones.
    wait: Wait,
    /// Whether the set is in [`LinkedCircuits::unfinished`].
    is_unfinished: bool,
}

/// All sets of this node.
#[derive(Debug)]
pub(super) struct LinkedCircuits<C: Cell> {
    sets: Arena<ConfluxKey, LinkedSet<C>>,
    by_nonce: BTreeMap<(bool, Nonce), ConfluxKey>,
    /// Sets with due messages that a later call handles. Some of these sets may be removed.
    unfinished: VecDeque<ConfluxKey>,
    /// How many waiting messages the current call may still handle [1].
    share: u32,
}

impl<C: Cell> LinkedCircuits<C> {
    pub(super) fn new() -> Self {
        LinkedCircuits {
            sets: Arena::new(),
            by_nonce: BTreeMap::new(),
            unfinished: VecDeque::new(),
            share: MAX_RELEASED,
        }
    }

    /// The current call ends. The next one may handle as many waiting messages.
    pub(super) fn renew_share(&mut self) {
        self.share = MAX_RELEASED;
    }

    fn set(&self, key: ConfluxKey) -> Option<&ConfluxSet<CircuitIndex, Waiting<C>>> {
        self.sets.get(key).map(|set| &set.legs)
    }

    fn set_mut(&mut self, key: ConfluxKey) -> Option<&mut ConfluxSet<CircuitIndex, Waiting<C>>> {
        self.sets.get_mut(key).map(|set| &mut set.legs)
    }

    /// The set with this nonce. If there is none, a new set that needs this number of linked legs.
    fn set_with(&mut self, is_client: bool, nonce: Nonce, needed: usize) -> ConfluxKey {
        *self.by_nonce.entry((is_client, nonce)).or_insert_with(|| {
            let legs = ConfluxSet::new(nonce, needed);
            self.sets.insert(LinkedSet { legs, is_client, wait: Wait::default(), is_unfinished: false })
        })
    }

    /// Removes a set without legs, or a set whose legs all close. Returns how many messages were waiting [1].
    fn remove(&mut self, key: ConfluxKey) -> u64 {
        let LinkedSet { legs, is_client, .. } = self.sets.remove(key);
        self.by_nonce.remove(&(is_client, legs.nonce()));
        legs.waiting() as u64
    }

    /// The number of waiting messages that the memory limit counts for one of the legs. The legs share the number.
    pub(super) fn waiting_at(&self, leg: &Edge<C>) -> u64 {
        let set = leg.set.and_then(|key| self.set(key));
        set.map_or(0, |set| set.waiting().div_ceil(set.legs().count().max(1)) as u64)
    }

    pub(super) fn age(&self, leg: &Edge<C>, now: Stamp) -> Option<u32> {
        let set = self.sets.get(leg.set?)?;
        (set.legs.waiting() > 0).then(|| set.wait.age(now))
    }
}

impl<C: Cell> Relay<C> {
    /// Clients only: asks the exit to link this circuit with the other circuits of the same nonce. The circuit must be
    /// built, unused, and have congestion control. Returns false if it cannot be linked.
    ///
    /// [`Event::CircuitsLinked`] follows when [`legs`](crate::conflux::ConfluxConfig::legs) circuits are linked. If a
    /// leg closes before, the driver may link another circuit.
    pub fn link_circuit(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        nonce: Nonce,
        kernel: &mut impl Kernel<C>,
    ) -> bool {
        let parts = &mut self.parts;
        let Some(config) = parts.config.conflux.filter(|config| config.active) else { return false };
        let Some(state) = parts.circuits.get(circuit) else { return false };
        let is_built = matches!(&state.role, Role::Origin(origin) if origin.built);
        if !is_built || !parts.may_link(circuit) {
            return false;
        }
        let key = parts.linked.set_with(true, nonce, config.legs.max(1).into());
        let set = &mut parts.linked.sets[key].legs;
        let Some(link) = set.start_link(circuit, now, config.client_ux) else { return false };
        parts.edge(circuit).set = Some(key);
        parts.announce_class(now, circuit);
        parts.send_relay(now, circuit, None, Message::Link(Box::new(link)));
        self.settle(now, kernel);
        true
    }

    /// The circuits that are linked with this one, including itself, in the order in which they joined the set. Empty
    /// if the circuit is not linked.
    pub fn linked_circuits(&self, circuit: CircuitIndex) -> Vec<CircuitIndex> {
        let edge = self.parts.circuits.get(circuit).and_then(|state| state.edge.as_deref());
        let set = edge.and_then(|edge| self.parts.linked.set(edge.set?));
        set.map(|set| set.legs().collect()).unwrap_or_default()
    }

    /// Whether the other end of a leg has not answered this node's LINK or LINKED.
    pub fn awaits_link(&self, circuit: CircuitIndex) -> bool {
        let edge = self.parts.circuits.get(circuit).and_then(|state| state.edge.as_deref());
        let set = edge.and_then(|edge| self.parts.linked.set(edge.set?));
        set.is_some_and(|set| set.awaits_answer(circuit))
    }

    /// How many messages of linked circuits wait for earlier ones [1].
    pub fn reordering(&self) -> usize {
        self.parts.linked.sets.values().map(|set| set.legs.waiting()).sum()
    }

    /// Handles the messages of a set that waited and are due now, up to [`MAX_RELEASED`] in a call of the relay. A timer
    /// then continues with the others.
    pub(super) fn release(
        &mut self,
        now: Instant,
        set: ConfluxKey,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        while let Some((owner, id, message)) = self.parts.next_due(now, set)? {
            self.on_ordered_message(now, owner, id, message, kernel)?;
        }
        Ok(())
    }

    /// Continues with sets whose due messages exceeded the share of earlier calls, in turn.
    pub(super) fn on_release(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        if !self.parts.timers.take_release(now) {
            return;
        }
        while self.parts.linked.share > 0
            && let Some(key) = self.parts.linked.unfinished.pop_front()
        {
            let Some(set) = self.parts.linked.sets.get_mut(key) else { continue };
            set.is_unfinished = false;
            let owner = set.legs.first();
            if let Err(violation) = self.release(now, key, kernel)
                && let Some(owner) = owner
            {
                self.close(now, owner, None, Err(violation), kernel);
            }
        }
        if !self.parts.linked.unfinished.is_empty() {
            self.parts.timers.set_release(now);
        }
    }
}

/// Which leg?
impl<C: Cell> Parts<C> {
    pub(super) fn set_of(&self, circuit: CircuitIndex) -> Option<ConfluxKey> {
        self.circuits[circuit].edge.as_deref()?.set
    }

    /// The circuit that owns the streams of `circuit`.
    pub(super) fn stream_circuit(&self, circuit: CircuitIndex) -> CircuitIndex {
        let Some(key) = self.set_of(circuit) else { return circuit };
        self.linked.set(key).and_then(ConfluxSet::first).unwrap_or(circuit)
    }

    /// The other circuits of a circuit's set, if the set is complete.
    pub(super) fn linked_with(&self, circuit: CircuitIndex) -> Vec<CircuitIndex> {
        let set = self.set_of(circuit).and_then(|key| self.linked.set(key)).filter(|set| set.is_complete());
        set.map_or_else(Vec::new, |set| set.legs().filter(|leg| *leg != circuit).collect())
    }

    /// Whether the circuit belongs to a set that is not complete.
    pub(super) fn is_linking(&self, circuit: CircuitIndex) -> bool {
        let set = self.set_of(circuit).and_then(|key| self.linked.set(key));
        set.is_some_and(|set| !set.is_complete())
    }

    /// The circuit that packages the next DATA cell for the streams of `circuit`; `None` if no leg may send.
    pub(super) fn packaging_leg(&self, circuit: CircuitIndex) -> Option<CircuitIndex> {
        let Some(key) = self.set_of(circuit) else { return Some(circuit) };
        let marks = self.config.edge_queue;
        self.linked.set(key)?.next_leg(|leg| self.circuits[leg].package_room(marks) > 0)
    }

    /// How many DATA cells the streams of `circuit` may package now [cell].
    pub(super) fn package_room(&self, circuit: CircuitIndex) -> u64 {
        let leg = self.packaging_leg(circuit);
        leg.map_or(0, |leg| self.circuits[leg].package_room(self.config.edge_queue))
    }

    /// Whether no leg's window has space.
    pub(super) fn lacks_window(&self, circuit: CircuitIndex) -> bool {
        let used_up = |leg: CircuitIndex| {
            let edge = self.circuits[leg].edge.as_ref();
            edge.is_some_and(|edge| edge.control.package_window() == Cells::ZERO)
        };
        match self.set_of(circuit).and_then(|key| self.linked.set(key)) {
            None => used_up(circuit),
            Some(set) => set.legs().all(used_up),
        }
    }

    /// The circuit that sends a multiplexed message for the streams of `circuit`. If no leg may send, the current leg
    /// sends it, because windows limit only DATA cells.
    ///
    /// Source: C tor `conflux_decide_circ_for_send()`.
    pub(super) fn message_leg(&self, circuit: CircuitIndex) -> CircuitIndex {
        let Some(set) = self.set_of(circuit).and_then(|key| self.linked.set(key)) else { return circuit };
        self.packaging_leg(circuit).or_else(|| set.current()).unwrap_or(circuit)
    }

    /// Sends a message on a leg. Before a multiplexed message, SWITCH tells the other end how many numbers the leg skips.
    pub(super) fn send_on_leg(
        &mut self,
        now: Instant,
        leg: CircuitIndex,
        stream: Option<StreamId>,
        message: Message<C>,
    ) -> Option<C::Digest> {
        if let Some(key) = self.set_of(leg)
            && message.is_multiplexed()
        {
            while let Some(relative) = self.linked.set_mut(key).and_then(|set| set.switch_to(leg)) {
                self.counters.switches += 1;
                self.seal_and_enqueue(now, leg, None, Message::Switch(relative));
            }
            if let Some(set) = self.linked.set_mut(key) {
                set.on_sent(leg);
            }
        }
        self.seal_and_enqueue(now, leg, stream, message)
    }

    /// Lets the edges of a circuit, or of its linked circuits, read their streams again if their queues have drained.
    pub(super) fn clear_queue_full(&mut self, circuit: CircuitIndex) {
        let marks = self.config.edge_queue;
        let mut clear = |leg: CircuitIndex| {
            let state = self.circuits.get_mut(leg)?;
            let has_drained = state.edge_queue_has_drained(marks);
            let edge = state.edge.as_deref_mut()?;
            edge.queue_full &= !has_drained;
            edge.set
        };
        if let Some(set) = clear(circuit).and_then(|key| self.linked.set(key)) {
            set.legs().for_each(|leg| {
                clear(leg);
            });
        }
    }

    /// A SENDME has changed the round-trip time of a circuit.
    pub(super) fn update_leg_rtt(&mut self, circuit: CircuitIndex) {
        let Some(edge) = self.circuits[circuit].edge.as_deref() else { return };
        if let Some(set) = edge.set.and_then(|key| self.linked.set_mut(key))
            && let Some(rtt) = edge.control.smoothed_rtt()
        {
            set.set_rtt(circuit, rtt);
        }
    }
}

/// Which message?
impl<C: Cell> Parts<C> {
    /// A multiplexed message arrived on a leg. Returns it if it is next, with the circuit that stands for the set.
    pub(super) fn arrange(
        &mut self,
        now: Instant,
        key: ConfluxKey,
        leg: CircuitIndex,
        id: Option<StreamId>,
        message: Message<C>,
    ) -> Result<Option<Due<C>>, Violation> {
        let max = self.config.limits.edge_buffer as usize;
        let set = self.linked.sets.get_mut(key).ok_or(Violation::UnexpectedCell)?;
        if !set.legs.is_complete() {
            return Err(Violation::UnexpectedCell);
        }
        let before = set.legs.waiting();
        let due = set.legs.receive(leg, (id, message), max)?;
        let waiting = set.legs.waiting();
        if waiting > before {
            if before == 0 {
                set.wait = Wait::begin(Stamp::at(now));
            }
            self.memory.payloads += 1;
            self.counters.longest_reordering = self.counters.longest_reordering.max(waiting as u64);
        }
        let owner = set.legs.first().unwrap_or(leg);
        Ok(due.map(|(id, message)| (owner, id, message)))
    }

    /// Takes the next message of a set, if it has arrived. If the call has handled its share of messages, the set waits
    /// for a later call.
    fn next_due(&mut self, now: Instant, key: ConfluxKey) -> Result<Option<Due<C>>, Violation> {
        let LinkedCircuits { sets, unfinished, share, .. } = &mut self.linked;
        let Some(set) = sets.get_mut(key) else { return Ok(None) };
        if set.legs.has_lost() {
            return Err(Violation::BadSequence);
        }
        if *share == 0 && set.legs.is_due() {
            if !std::mem::replace(&mut set.is_unfinished, true) {
                unfinished.push_back(key);
            }
            self.timers.set_release(now);
            return Ok(None);
        }
        let due = set.legs.first().zip(set.legs.next_due());
        Ok(due.map(|(owner, (id, message))| {
            *share -= 1;
            set.wait.on_taken(Stamp::at(now), 1, set.legs.waiting());
            self.memory.payloads -= 1;
            (owner, id, message)
        }))
    }

    /// The applications have taken the payloads of DATA cells. On linked circuits, each leg counted them on arrival.
    pub(super) fn payloads_delivered(&mut self, now: Instant, circuit: CircuitIndex, cells: usize) {
        if self.set_of(circuit).is_none() {
            self.hop_delivered(now, circuit, cells);
        }
    }
}

/// Linking.
impl<C: Cell> Parts<C> {
    /// Whether a circuit ends here, has congestion control and no streams, and is not linked.
    fn may_link(&self, circuit: CircuitIndex) -> bool {
        let state = &self.circuits[circuit];
        let is_unused = state.edge.as_deref().is_none_or(Edge::is_unused);
        let ends_here = matches!(state.role, Role::Origin(_)) || state.half(Direction::Forward).to.is_none();
        is_unused && ends_here && matches!(state.agreed, Agreement::Congestion(_))
    }

    /// Source: C tor `conflux_process_link()`.
    pub(super) fn on_link(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        link: &Link,
    ) -> Result<(), Violation> {
        if !self.config.conflux.is_some_and(|config| config.active) || !self.may_link(circuit) {
            return Err(Violation::UnexpectedLink);
        }
        let key = self.linked.set_with(false, link.nonce, 1);
        let set = &mut self.linked.sets[key].legs;
        let is_new = set.first().is_none();
        let answer = set.on_link(circuit, now, link);
        if answer.is_err() && is_new {
            self.linked.remove(key);
        }
        let answer = answer?;
        self.edge(circuit).set = Some(key);
        self.counters.linked += 1;
        self.send_relay(now, circuit, None, Message::Linked(Box::new(answer)));
        Ok(())
    }

    /// Source: C tor `conflux_process_linked()`.
    pub(super) fn on_linked(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        link: &Link,
    ) -> Result<(), Violation> {
        let set = self.set_of(circuit).and_then(|key| self.linked.set_mut(key));
        let set = set.ok_or(Violation::UnexpectedLink)?;
        let completes = set.on_linked(circuit, now, link)?;
        let first = set.first().unwrap_or(circuit);
        self.counters.linked += 1;
        self.send_relay(now, circuit, None, Message::LinkedAck);
        if completes {
            self.events.push(Event::CircuitsLinked { circuit: first });
        }
        Ok(())
    }

    pub(super) fn on_linked_ack(&mut self, now: Instant, circuit: CircuitIndex) -> Result<(), Violation> {
        let set = self.set_of(circuit).and_then(|key| self.linked.set_mut(key));
        set.ok_or(Violation::UnexpectedLink)?.on_linked_ack(circuit, now)?;
        // The leg has a round-trip time now, so it may send.
        self.resume(circuit);
        Ok(())
    }

    pub(super) fn on_switch(&mut self, circuit: CircuitIndex, relative: u32) -> Result<(), Violation> {
        let set = self.set_of(circuit).and_then(|key| self.linked.set_mut(key));
        set.filter(|set| set.is_complete()).ok_or(Violation::UnexpectedLink)?.on_switch(circuit, relative)
    }

    /// A circuit closes. Removes it from its set, and returns the linked circuits that must close, too. `whole`: the
    /// set must close in any case. Otherwise the streams move to the first of the other legs.
    ///
    /// Source: C tor `linked_circuit_closed()`, `linked_update_stream_backpointers()`. Deviation: after a violation on a
    /// leg, the set always closes.
    pub(super) fn leave_set(&mut self, circuit: CircuitIndex, whole: bool) -> Vec<CircuitIndex> {
        let Some(key) = self.set_of(circuit) else { return Vec::new() };
        let in_flight = self.has_acknowledgeable(circuit);
        let Some(set) = self.linked.set_mut(key) else { return Vec::new() };
        let was_first = set.first() == Some(circuit);
        let whole = whole && set.is_complete();
        let removed = set.remove(circuit, in_flight);
        let others: Vec<_> = set.legs().collect();
        if whole || removed == Removed::MustClose || others.is_empty() {
            self.memory.payloads -= self.linked.remove(key);
            return others;
        }
        if was_first {
            self.move_streams(circuit, others[0]);
        }
        Vec::new()
    }

    /// Whether cells are in flight that a SENDME would acknowledge. Source: C tor `cfx_del_leg()`.
    fn has_acknowledgeable(&self, circuit: CircuitIndex) -> bool {
        let state = &self.circuits[circuit];
        let (Some(edge), Agreement::Congestion(inc)) = (state.edge.as_deref(), state.agreed) else {
            return false;
        };
        let free = edge.control.package_window();
        edge.control.window().get().saturating_sub(free.get()) >= u64::from(inc.get())
    }

    fn move_streams(&mut self, from: CircuitIndex, to: CircuitIndex) {
        let old = self.edge(from);
        let (streams, waiting) = (std::mem::take(&mut old.streams), std::mem::take(&mut old.waiting));
        let next_stream_id = old.next_stream_id;
        for stream in &streams {
            self.edges.streams[*stream].circuit = to;
        }
        let new = self.edge(to);
        (new.streams, new.waiting, new.next_stream_id) = (streams, waiting, next_stream_id);
        self.resume(to);
    }
}
