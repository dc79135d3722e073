//! Streams at the edge of a circuit: packaged into cells, delivered from cells.
//!
//! An exit's streams lead to servers, a client's to its application; the code is the same.

use super::{Node, Relay};
use crate::cell::{Cell, MAX_PAYLOAD, Message, Payload, StreamId};
use crate::circuit::{Edge, End, HalfCircuit, Stamp};
use crate::config::EdgeQueue;
use crate::edge_control::{EdgeControl, Signals, StreamControl, StreamFeedback};
use crate::error::Violation;
use crate::event::Event;
use crate::hop_control::HopControl;
use crate::kernel::{Interest, Kernel, StreamRead};
use crate::keys::{CircuitIndex, Direction, StreamKey};
use crate::stream::{Stream, Wait};
use penstock_units::{Bytes, Cells, Instant};
use std::collections::VecDeque;
use std::num::NonZeroU16;

/// What drivers call about streams.
impl<C: Cell> Relay<C> {
    /// As a client: opens a stream to `target` over a built circuit; `None` if the circuit is not.
    ///
    /// With [`optimistic_data`](crate::config::RelayConfig::optimistic_data) the stream can be read at once: a
    /// driver whose application has something to say calls [`on_stream_readable`](Self::on_stream_readable) next.
    pub fn open_stream(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        target: C::Target,
        kernel: &mut impl Kernel<C>,
    ) -> Option<StreamKey> {
        let End::Origin(origin) = &self.node.circuits.get(circuit.0 as usize)?.end else { return None };
        if !origin.built {
            return None;
        }
        let id = self.node.free_stream_id(circuit)?;
        self.node.announce_class(now, circuit);
        let stream = self.node.add_stream(circuit, id);
        self.node.streams[stream.0 as usize].optimistic = self.node.config.optimistic_data;
        self.node.send_relay(now, circuit, Some(id), Message::Begin(target));
        self.settle(now, kernel);
        Some(stream)
    }

    /// As an exit: the connection that [`Event::StreamRequested`] asked for is there; `said` is what the client hears
    /// of it.
    pub fn on_stream_connected(
        &mut self,
        now: Instant,
        stream: StreamKey,
        said: C::Connected,
        kernel: &mut impl Kernel<C>,
    ) {
        let Some(state) = self.node.streams.get_mut(stream.0 as usize) else { return };
        state.open = true;
        let (circuit, id) = (state.circuit, state.id);
        self.node.send_relay(now, circuit, Some(id), Message::Connected(said));
        self.node.refresh_stream(stream, kernel);
        self.settle(now, kernel);
    }

    /// The stream's connection has something to read. Packages at most one I/O quantum.
    pub fn on_stream_readable(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        let Some(state) = self.node.streams.get(stream.0 as usize) else { return };
        let circuit = state.circuit;
        let share = self.node.fair_share(circuit);
        self.node.package(now, stream, share, kernel);
        self.node.refresh_edge(circuit, kernel);
        self.settle(now, kernel);
    }

    /// The stream's connection takes more.
    pub fn on_stream_writable(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        if self.node.streams.contains(stream.0 as usize) {
            self.node.flush_stream(now, stream, kernel);
            self.settle(now, kernel);
        }
    }

    /// Closes a stream from here: the connection failed, or the application is done. `end` is the last that the other
    /// end hears of it.
    pub fn close_stream(
        &mut self,
        now: Instant,
        stream: StreamKey,
        end: impl Into<C::End>,
        kernel: &mut impl Kernel<C>,
    ) {
        let Some(state) = self.node.streams.get(stream.0 as usize) else { return };
        let (circuit, id, ended) = (state.circuit, state.id, state.ended);
        if !ended {
            self.node.send_relay(now, circuit, Some(id), Message::End(end.into()));
        }
        self.node.remove_stream(now, stream, kernel);
        self.settle(now, kernel);
    }
}

/// Below which length a queue lets its edge go on, and how long it may get until the edge stops: a controlled hop's
/// own limit, or the edge's watermarks.
fn edge_marks<C>(marks: EdgeQueue, half: &HalfCircuit<C>) -> (u64, u64) {
    match half.hop.edge_queue_limit() {
        Some(limit) => (limit.get(), limit.get()),
        None => (u64::from(marks.low) + 1, marks.high.into()),
    }
}

/// Packaging.
impl<C: Cell> Node<C> {
    /// How many DATA cells the circuit's edge may package now: the window, and room in the queue.
    fn package_room(&mut self, circuit: CircuitIndex) -> u64 {
        let marks = self.config.edge_queue;
        let state = self.circuit(circuit);
        let half = state.half(state.outward());
        let (high, queue) = (edge_marks(marks, half).1, half.queue.len() as u64);
        let Some(edge) = &state.edge else { return 0 };
        let room = if edge.queue_full { 0 } else { high.saturating_sub(queue) };
        room.min(edge.control.package_window().get())
    }

    /// How many cells the edge may package now, if those are what travels in `direction`.
    pub(super) fn room_at_edge(&mut self, circuit: CircuitIndex, direction: Direction) -> u64 {
        let packages = self.circuit(circuit).outward() == direction;
        if packages { self.package_room(circuit) } else { 0 }
    }

    /// What the circuit's queue may hold may have changed since there was so much room.
    pub(super) fn review_edge(&mut self, circuit: CircuitIndex, direction: Direction, room: u64) {
        self.note_edge_queue(circuit, direction);
        let more = room == 0 && self.room_at_edge(circuit, direction) > 0;
        if direction == self.circuit(circuit).outward() && (more || self.edge_queue_has_drained(circuit)) {
            self.resume_once(circuit);
        }
    }

    /// What of that room one stream may take before the others had their turn.
    fn fair_share(&mut self, circuit: CircuitIndex) -> u64 {
        let streams = self.circuit(circuit).edge.as_ref().map_or(0, |edge| edge.streams.len());
        self.package_room(circuit).div_ceil(streams.max(1) as u64)
    }

    /// Whether the queue got full and has fallen to where its edge reads again.
    fn edge_queue_has_drained(&self, circuit: CircuitIndex) -> bool {
        let state = &self.circuits[circuit.0 as usize];
        let full = state.edge.as_ref().is_some_and(|edge| edge.queue_full);
        let half = state.half(state.outward());
        full && (half.queue.len() as u64) < edge_marks(self.config.edge_queue, half).0
    }

    /// Has the edge read its streams again if its queue has drained, and nothing else has it do so.
    pub(super) fn resume_if_drained(&mut self, circuit: CircuitIndex) {
        if self.edge_queue_has_drained(circuit) {
            self.resume_once(circuit);
        }
    }

    fn resume_once(&mut self, circuit: CircuitIndex) {
        if self.edge(circuit).resuming == 0 {
            self.resume(circuit);
        }
    }

    /// Has the edge read its streams before the present call is over.
    fn resume(&mut self, circuit: CircuitIndex) {
        self.edge(circuit).resuming += 1;
        self.resume.push_back(circuit);
    }

    /// Packages at most `most` cells of a stream, as far as windows, queue and buckets allow; returns how many.
    fn package(&mut self, now: Instant, stream: StreamKey, most: u64, kernel: &mut impl Kernel<C>) -> u64 {
        let state = &self.streams[stream.0 as usize];
        let (circuit, id) = (state.circuit, state.id);
        if !state.may_package() {
            return 0;
        }
        let window = state.control.package_window().get();
        let quantum = self.stream_read_quantum(now, stream);
        if quantum == Bytes::ZERO {
            self.wait_to_read_stream(now, stream);
            return 0;
        }
        let room = self.package_room(circuit).min(window).min(most);
        let room = room.min(quantum.get().div_ceil(MAX_PAYLOAD.into()));
        for packaged in 0..room {
            let most = self.most_payload(circuit);
            match kernel.read_stream(stream, most) {
                StreamRead::Data(payload) => self.package_one(now, stream, id, payload),
                StreamRead::Blocked => return packaged,
                StreamRead::Closed(reason) => {
                    self.send_relay(now, circuit, Some(id), Message::End(reason.into()));
                    self.remove_stream(now, stream, kernel);
                    return packaged;
                }
            }
        }
        room
    }

    /// How many bytes the circuit's next DATA cell may have: all but some padding, if no cell had so much since the last
    /// that is acknowledged.
    ///
    /// Source: proposal 289 section 3.4; C tor `connection_edge_get_inbuf_bytes_to_package()`.
    /// Deviation: the first of these cells has the padding, where C tor's has a random place.
    fn most_payload(&mut self, circuit: CircuitIndex) -> u16 {
        let padding = self.config.sendme_padding;
        if padding == 0 || self.edge(circuit).has_padding { MAX_PAYLOAD } else { MAX_PAYLOAD - padding }
    }

    fn package_one(&mut self, now: Instant, stream: StreamKey, id: StreamId, payload: C::Payload) {
        let bytes = Bytes::new(payload.len().into());
        self.charge_packaged(stream, bytes);
        self.counters.data_packaged += 1;
        let state = &mut self.streams[stream.0 as usize];
        state.control.on_package(now, bytes);
        let circuit = state.circuit;
        let signals = self.signals(circuit);
        let has_padding = bytes.get() + u64::from(self.config.sendme_padding) <= MAX_PAYLOAD.into();
        let edge = self.edge(circuit);
        let is_acknowledged = edge.control.on_package(now, signals);
        // What is acknowledged and what comes after it are proven by different cells.
        edge.has_padding = !is_acknowledged && (edge.has_padding || has_padding);
        let digest = self.send_relay(now, circuit, Some(id), Message::Data(payload));
        if is_acknowledged && self.config.authenticated_sendmes && self.obeys_windows(circuit) {
            self.edge(circuit).pending_digests.extend(digest);
        }
    }

    /// Stops the edge whose queue got full, whatever filled it.
    ///
    /// Source: C tor `append_cell_to_circuit_queue()`.
    pub(super) fn note_edge_queue(&mut self, circuit: CircuitIndex, direction: Direction) {
        let marks = self.config.edge_queue;
        let state = self.circuit(circuit);
        if direction != state.outward() {
            return;
        }
        let half = state.half(direction);
        let full = half.queue.len() as u64 >= edge_marks(marks, half).1;
        if full && let Some(edge) = &mut state.edge {
            edge.queue_full = true;
        }
    }

    fn signals(&self, circuit: CircuitIndex) -> Signals {
        let state = &self.circuits[circuit.0 as usize];
        let half = state.half(state.outward());
        let queue = Cells::new(half.queue.len() as u64);
        let channel = half.to.map(|leg| &self.channels[leg.channel.0 as usize]);
        let outbuf = channel.map_or(Bytes::ZERO, |channel| channel.outbuf_len());
        let blocked = state.edge.as_ref().is_some_and(|edge| edge.queue_full);
        Signals { queue, outbuf, blocked, marked: 0 }
    }

    /// The circuit may package again: shares its room among its streams, then lets the kernel report.
    ///
    /// Source: C tor `circuit_resume_edge_reading_helper()`, which gives each stream
    /// ceil(room / streams) cells until the room or what they have is used up.
    /// Deviation: the first stream is the next in turn, not a random one; and there is no input buffer
    /// that was filled before, so what is packaged is read from the kernel now, as far as buckets allow.
    pub(super) fn resume_reading(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        kernel: &mut impl Kernel<C>,
    ) {
        if !self.circuits.contains(circuit.0 as usize) {
            return;
        }
        self.edge(circuit).resuming -= 1;
        if self.edge_queue_has_drained(circuit) {
            self.edge(circuit).queue_full = false;
        }
        let mut streams = std::mem::take(&mut self.turns);
        streams.clone_from(&self.edge(circuit).streams);
        if streams.len() > 1 {
            let edge = self.edge(circuit);
            edge.turn = (edge.turn + 1) % streams.len();
            streams.rotate_left(edge.turn);
        }
        while !streams.is_empty() {
            let quantum = self.edge_read_quantum(now).get().div_ceil(MAX_PAYLOAD.into());
            let share = self.package_room(circuit).div_ceil(streams.len() as u64).min(quantum);
            if share == 0 {
                break;
            }
            // A stream that gave less than its share has no more for now.
            streams.retain(|stream| {
                self.streams.contains(stream.0 as usize) && self.package(now, *stream, share, kernel) == share
            });
        }
        self.turns = streams;
        self.refresh_edge(circuit, kernel);
    }

    /// Tells the kernel which of a circuit's streams to report.
    fn refresh_edge(&mut self, circuit: CircuitIndex, kernel: &mut impl Kernel<C>) {
        let Some(edge) = &self.circuit(circuit).edge else { return };
        for place in 0..edge.streams.len() {
            let stream = self.edge(circuit).streams[place];
            self.refresh_stream(stream, kernel);
        }
    }

    /// Tells the kernel whether to report the stream.
    pub(super) fn refresh_stream(&mut self, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        let Some(state) = self.streams.get(stream.0 as usize) else { return };
        let (circuit, may_read) = (state.circuit, state.may_package());
        let window = state.control.package_window().get();
        let writable = state.open && !state.outbuf.is_empty() && !self.stream_waits_to_write(stream);
        let readable =
            may_read && window > 0 && self.package_room(circuit) > 0 && !self.stream_waits_to_read(stream);
        let wanted = Interest { readable, writable };
        let state = &mut self.streams[stream.0 as usize];
        if state.interest != wanted {
            state.interest = wanted;
            kernel.want_stream(stream, wanted);
        }
    }
}

/// Delivering, and what the other edge says.
impl<C: Cell> Node<C> {
    /// The DATA cell that is delivered next met congestion.
    pub(super) fn note_mark(&mut self, circuit: CircuitIndex) {
        self.edge(circuit).control.on_mark();
    }

    pub(super) fn deliver(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        id: StreamId,
        payload: C::Payload,
        digest: C::Digest,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        self.counters.data_delivered += 1;
        if self.edge(circuit).control.on_deliver(now)? {
            self.send_sendme(now, circuit, None, Some(digest));
        }
        // Data of a stream that was closed meanwhile is counted and dropped.
        let Some(stream) = self.stream_of(circuit, id) else {
            self.hop_delivered(now, circuit, 1);
            return Ok(());
        };
        // An empty cell gives its application nothing to take.
        if payload.is_empty() {
            self.hop_delivered(now, circuit, 1);
            return Ok(());
        }
        let most = self.config.limits.edge_buffer;
        let edge = self.edge(circuit);
        if edge.waiting >= most.into() {
            return Err(Violation::BufferExceeded);
        }
        edge.waiting += 1;
        self.waiting_payloads += 1;
        let state = &mut self.streams[stream.0 as usize];
        if state.outbuf.is_empty() {
            state.wait = Wait::begin(Stamp::at(now));
        }
        state.outbuf_bytes += Bytes::new(payload.len().into());
        state.outbuf.push_back(payload);
        let backlog = state.backlog();
        state.control.on_deliver(now, backlog)?;
        self.flush_stream(now, stream, kernel);
        Ok(())
    }

    /// Hands what arrived to the stream's connection, and acknowledges it.
    pub(super) fn flush_stream(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        let quantum = self.stream_write_quantum(now);
        let Some(state) = self.streams.get_mut(stream.0 as usize) else { return };
        // What comes before the connection is there waits for it.
        if state.open && !state.outbuf.is_empty() {
            if quantum == Bytes::ZERO {
                self.wait_to_write_stream(now, stream);
                self.send_stream_feedback(now, stream);
                self.refresh_stream(stream, kernel);
                return;
            }
            let waiting = state.outbuf.len();
            let bytes = kernel.write_stream(stream, &mut state.outbuf, quantum);
            // A socket that is gone takes all and counts nothing.
            let left = if state.outbuf.is_empty() { Bytes::ZERO } else { state.outbuf_bytes - bytes };
            state.outbuf_bytes = left;
            let (circuit, taken) = (state.circuit, waiting - state.outbuf.len());
            if taken > 0 {
                state.wait.on_taken(Stamp::at(now), taken, state.outbuf.len());
            }
            let backlog = state.backlog();
            state.control.on_drain(now, bytes, backlog);
            self.charge_stream_write(bytes);
            self.edge(circuit).waiting -= taken as u64;
            self.waiting_payloads -= taken as u64;
            self.hop_delivered(now, circuit, taken);
        }
        // Also after END, as C tor does: what was sent is acknowledged, whoever still listens.
        self.send_stream_feedback(now, stream);
        let state = &self.streams[stream.0 as usize];
        if state.ended && state.outbuf.is_empty() {
            self.remove_stream(now, stream, kernel);
        } else {
            self.refresh_stream(stream, kernel);
        }
    }

    /// Sends what this end of a stream owes the other one.
    fn send_stream_feedback(&mut self, now: Instant, stream: StreamKey) {
        let state = &self.streams[stream.0 as usize];
        let (circuit, id) = (state.circuit, state.id);
        while let Some(feedback) = self.streams[stream.0 as usize].control.take_feedback() {
            let message = match feedback {
                StreamFeedback::Sendme => {
                    self.send_sendme(now, circuit, Some(id), None);
                    continue;
                }
                StreamFeedback::Xoff => {
                    self.counters.xoffs += 1;
                    Message::Xoff
                }
                StreamFeedback::Xon(rate) => {
                    self.counters.xons += 1;
                    Message::Xon(rate)
                }
            };
            self.send_relay(now, circuit, Some(id), message);
        }
    }

    /// Acknowledges cells of a stream, or of the circuit, if anyone waits for it or there is room for it.
    fn send_sendme(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        stream: Option<StreamId>,
        proof: Option<C::Digest>,
    ) {
        if !self.obeys_windows(circuit) && self.edge(circuit).queue_full {
            return;
        }
        self.counters.sendmes += u64::from(stream.is_none());
        self.counters.stream_sendmes += u64::from(stream.is_some());
        let marked = if stream.is_none() { self.edge(circuit).control.take_marks() } else { 0 };
        self.send_relay(now, circuit, stream, Message::Sendme { proof, marked });
    }

    fn obeys_windows(&mut self, circuit: CircuitIndex) -> bool {
        self.edge(circuit).control.obeys_windows()
    }

    pub(super) fn on_circuit_sendme(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        proof: Option<C::Digest>,
        marked: u8,
    ) -> Result<(), Violation> {
        let signals = Signals { marked, ..self.signals(circuit) };
        if self.config.authenticated_sendmes && self.obeys_windows(circuit) {
            let arrived =
                self.edge(circuit).pending_digests.pop_front().ok_or(Violation::UnexpectedSendme)?;
            if proof != Some(arrived) {
                return Err(Violation::ForgedSendme);
            }
        }
        self.edge(circuit).control.on_sendme(now, signals)?;
        self.resume(circuit);
        Ok(())
    }

    pub(super) fn on_stream_feedback(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        id: StreamId,
        feedback: StreamFeedback,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        let Some(stream) = self.stream_of(circuit, id) else { return Ok(()) };
        self.streams[stream.0 as usize].control.on_feedback(now, feedback)?;
        self.adjust_stream_bucket(now, stream);
        self.refresh_stream(stream, kernel);
        Ok(())
    }

    pub(super) fn on_begin(
        &mut self,
        circuit: CircuitIndex,
        id: StreamId,
        target: C::Target,
    ) -> Result<(), Violation> {
        // C tor ignores a BEGIN with an id in use, too.
        if self.stream_of(circuit, id).is_some() {
            return Ok(());
        }
        if self.edge(circuit).streams.len() >= self.config.limits.streams_per_circuit as usize {
            return Err(Violation::TooManyStreams);
        }
        let stream = self.add_stream(circuit, id);
        self.events.push_back(Event::StreamRequested { stream, target });
        Ok(())
    }

    pub(super) fn on_connected(&mut self, circuit: CircuitIndex, id: StreamId, kernel: &mut impl Kernel<C>) {
        if let Some(stream) = self.stream_of(circuit, id)
            && !std::mem::replace(&mut self.streams[stream.0 as usize].open, true)
        {
            self.events.push_back(Event::StreamConnected { stream });
            self.refresh_stream(stream, kernel);
        }
    }

    pub(super) fn on_end(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        id: StreamId,
        kernel: &mut impl Kernel<C>,
    ) {
        if let Some(stream) = self.stream_of(circuit, id) {
            self.streams[stream.0 as usize].ended = true;
            self.flush_stream(now, stream, kernel);
        }
    }
}

/// Streams come and go.
impl<C: Cell> Node<C> {
    /// The circuit's edge, made when it is first needed.
    fn edge(&mut self, circuit: CircuitIndex) -> &mut Edge<C> {
        let config = &self.config.edge_control;
        let state =
            self.circuits.get_mut(circuit.0 as usize).expect("an edge belongs to a circuit that is there");
        let agreed = state.agreed;
        state.edge.get_or_insert_with(|| {
            Box::new(Edge {
                control: config.build_circuit(agreed),
                pending_digests: VecDeque::new(),
                streams: Vec::new(),
                waiting: 0,
                turn: 0,
                queue_full: false,
                has_padding: false,
                resuming: 0,
                next_stream_id: 1,
            })
        })
    }

    /// An id that no stream of the circuit has; `None` if the circuit has as many as it may.
    fn free_stream_id(&mut self, circuit: CircuitIndex) -> Option<StreamId> {
        if self.edge(circuit).streams.len() >= self.config.limits.streams_per_circuit as usize {
            return None;
        }
        loop {
            let edge = self.edge(circuit);
            let id = StreamId(NonZeroU16::new(edge.next_stream_id)?);
            edge.next_stream_id = edge.next_stream_id.checked_add(1).unwrap_or(1);
            if self.stream_of(circuit, id).is_none() {
                return Some(id);
            }
        }
    }

    fn stream_of(&mut self, circuit: CircuitIndex, id: StreamId) -> Option<StreamKey> {
        let edge = self.circuits.get(circuit.0 as usize)?.edge.as_deref()?;
        edge.streams.iter().copied().find(|stream| self.streams[stream.0 as usize].id == id)
    }

    fn add_stream(&mut self, circuit: CircuitIndex, id: StreamId) -> StreamKey {
        let agreed = self.circuit(circuit).agreed;
        let control = self.config.edge_control.build_stream(agreed);
        let key = self.streams.insert(Stream {
            circuit,
            id,
            control,
            open: false,
            optimistic: false,
            ended: false,
            bucket: None,
            outbuf: VecDeque::new(),
            outbuf_bytes: Bytes::ZERO,
            wait: Wait::default(),
            interest: Interest::default(),
        });
        let stream = StreamKey(key as u32);
        self.edge(circuit).streams.push(stream);
        stream
    }

    fn remove_stream(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        kernel.close_stream(stream);
        let state = self.streams.remove(stream.0 as usize);
        // What the application will never take no longer fills the hop either.
        self.hop_delivered(now, state.circuit, state.outbuf.len());
        self.waiting.forget_stream(stream);
        let edge = self.edge(state.circuit);
        edge.waiting -= state.outbuf.len() as u64;
        edge.streams.retain(|other| *other != stream);
        self.waiting_payloads -= state.outbuf.len() as u64;
        // Before the driver polls, the key may belong to another stream.
        self.events.retain(|event| match event {
            Event::StreamRequested { stream: other, .. } | Event::StreamConnected { stream: other } => {
                *other != stream
            }
            _ => true,
        });
        self.events.push_back(Event::StreamClosed { stream });
    }

    pub(super) fn close_streams(&mut self, now: Instant, circuit: CircuitIndex, kernel: &mut impl Kernel<C>) {
        let streams = self.circuit(circuit).edge.as_deref().map(|edge| edge.streams.clone());
        for stream in streams.unwrap_or_default() {
            self.remove_stream(now, stream, kernel);
        }
    }
}
