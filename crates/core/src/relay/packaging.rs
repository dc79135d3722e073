use super::Parts;
use super::buckets::Blocked;
use crate::cell::Payload;
use crate::cell::{Cell, MAX_PAYLOAD, Message, StreamId};
use crate::circuit::Edge;
use crate::edge_control::{EdgeControl, Signals, StreamControl};
use crate::kernel::{Interest, Kernel, StreamRead};
use crate::keys::{CircuitIndex, Direction, StreamKey};
use penstock_units::{Bytes, Cells, Instant};

impl<C: Cell> Parts<C> {
    pub(super) fn edge(&mut self, circuit: CircuitIndex) -> &mut Edge<C> {
        let config = &self.config.edge_control;
        let state = &mut self.circuits[circuit];
        let agreed = state.agreed;
        state.edge.get_or_insert_with(|| Box::new(Edge::new(config.build_circuit(agreed))))
    }

    /// Updates the edge after a change of the circuit's queue or credit. `room` is how many cells the edge could
    /// package before the change.
    pub(super) fn review_edge(&mut self, circuit: CircuitIndex, direction: Direction, room: u64) {
        let marks = self.config.edge_queue;
        let state = &mut self.circuits[circuit];
        state.update_queue_full(direction, marks);
        let more = room == 0 && state.package_room_in(direction, marks) > 0;
        if direction == state.own_direction() && (more || state.edge_queue_has_drained(marks)) {
            self.resume_once(circuit);
        }
    }

    pub(super) fn resume_if_drained(&mut self, circuit: CircuitIndex) {
        if self.circuits[circuit].edge_queue_has_drained(self.config.edge_queue) {
            self.resume_once(circuit);
        }
    }

    fn resume_once(&mut self, circuit: CircuitIndex) {
        let circuit = self.stream_circuit(circuit);
        if self.edge(circuit).resuming == 0 {
            self.resume(circuit);
        }
    }

    /// Lets the streams of a circuit, or of its linked circuits, resume soon.
    pub(super) fn resume(&mut self, circuit: CircuitIndex) {
        let circuit = self.stream_circuit(circuit);
        self.edge(circuit);
        if let Some(edge) = &mut self.circuits[circuit].edge {
            self.edges.resume(circuit, edge);
        }
    }

    /// Packages at most `most` cells of a stream, limited by windows, queue and buckets. Returns the number of cells.
    pub(super) fn package(
        &mut self,
        now: Instant,
        stream: StreamKey,
        most: u64,
        kernel: &mut impl Kernel<C>,
    ) -> u64 {
        let state = &mut self.edges.streams[stream];
        let (circuit, id) = (state.circuit, state.id);
        if !state.may_package() {
            return 0;
        }
        let window = state.control.package_window().get();
        let quantum = self.buckets.stream_read_quantum(now, state.bucket.as_mut());
        if quantum == Bytes::ZERO {
            self.wait_for_refill(now, Blocked::ReadStream(stream));
            return 0;
        }
        let Some(leg) = self.packaging_leg(circuit) else { return 0 };
        let room = self.circuits[leg].package_room(self.config.edge_queue).min(window).min(most);
        let room = room.min(quantum.get().div_ceil(MAX_PAYLOAD.into()));
        for packaged in 0..room {
            let limit = self.max_payload(leg);
            match kernel.read_stream(stream, limit) {
                StreamRead::Data(payload) => self.package_one(now, stream, leg, id, payload),
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

    /// The maximum payload of the circuit's next DATA cell [B]. It leaves space for padding if none of the DATA cells
    /// that the next SENDME acknowledges has padding yet.
    /// Source: proposal 289 section 3.4; C tor `connection_edge_get_inbuf_bytes_to_package()`.
    /// Deviation: the first of these cells has the padding, while C tor chooses a random one.
    fn max_payload(&mut self, circuit: CircuitIndex) -> u16 {
        let padding = self.config.sendme_padding;
        if padding == 0 || self.edge(circuit).has_padding { MAX_PAYLOAD } else { MAX_PAYLOAD - padding }
    }

    fn package_one(
        &mut self,
        now: Instant,
        stream: StreamKey,
        circuit: CircuitIndex,
        id: StreamId,
        payload: C::Payload,
    ) {
        let bytes = Bytes::new(payload.len().into());
        self.charge_stream_read(bytes);
        self.counters.data_packaged += 1;
        let state = &mut self.edges.streams[stream];
        if let Some(own) = &mut state.bucket {
            own.consume(bytes);
        }
        state.control.on_package(now, bytes);
        let signals = self.signals(circuit);
        let has_padding = bytes.get() + u64::from(self.config.sendme_padding) <= MAX_PAYLOAD.into();
        let edge = self.edge(circuit);
        let is_acknowledged = edge.control.on_package(now, signals);
        // Padding in an acknowledged cell counts for this SENDME, not for the next one.
        edge.has_padding = !is_acknowledged && (edge.has_padding || has_padding);
        let obeys_windows = edge.control.obeys_windows();
        let digest = self.send_on_leg(now, circuit, Some(id), Message::Data(payload));
        if is_acknowledged && self.config.authenticated_sendmes && obeys_windows {
            self.edge(circuit).pending_digests.extend(digest);
        }
    }

    pub(super) fn signals(&self, circuit: CircuitIndex) -> Signals {
        let state = &self.circuits[circuit];
        let half = state.own_half();
        let queue = Cells::new(half.queue.len() as u64);
        let outbuf = half.to.map_or(Bytes::ZERO, |leg| self.channels[leg.channel].outbuf_len());
        let blocked = state.edge.as_ref().is_some_and(|edge| edge.queue_full);
        Signals { queue, outbuf, blocked, marked: 0 }
    }

    /// Packages DATA cells from the circuit's streams in turn. Then sets which streams the kernel reports as ready.
    /// Source: C tor `circuit_resume_edge_reading_helper()`, which gives each stream ceil(room / streams) cells until
    /// no room or no data is left.
    /// Deviation: the first stream is the next one in turn, not a random one. There is no input buffer, so the payloads
    /// are read from the kernel now, limited by the buckets.
    pub(super) fn resume_reading(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        kernel: &mut impl Kernel<C>,
    ) {
        self.clear_queue_full(circuit);
        let Some(state) = self.circuits.get_mut(circuit) else { return };
        let Some(edge) = &mut state.edge else { return };
        edge.resuming -= 1;
        let mut round = self.edges.begin_round(edge);
        while !round.is_empty() {
            let quantum = self.buckets.stream_read_quantum(now, None).get().div_ceil(MAX_PAYLOAD.into());
            let share = self.package_room(circuit).div_ceil(round.len() as u64).min(quantum);
            if share == 0 {
                break;
            }
            // A stream that packaged less than its share has no more data now.
            round.retain(|stream| {
                self.edges.streams.contains(*stream) && self.package(now, *stream, share, kernel) == share
            });
        }
        self.edges.end_round(round);
        self.refresh_edge(circuit, kernel);
    }

    /// The share of the room that one stream of a circuit gets in a round [cell].
    pub(super) fn package_share(&self, circuit: CircuitIndex) -> u64 {
        let streams = self.circuits[circuit].edge.as_ref().map_or(0, |edge| edge.streams.len());
        self.package_room(circuit).div_ceil(streams.max(1) as u64)
    }

    pub(super) fn refresh_edge(&mut self, circuit: CircuitIndex, kernel: &mut impl Kernel<C>) {
        let streams =
            |parts: &Self| parts.circuits[circuit].edge.as_ref().map_or(0, |edge| edge.streams.len());
        for place in 0..streams(self) {
            let stream = self.edge(circuit).streams[place];
            self.refresh_stream(stream, kernel);
        }
    }

    pub(super) fn refresh_stream(&mut self, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        let Some(state) = self.edges.streams.get(stream) else { return };
        let room = if state.may_package() { self.package_room(state.circuit) } else { 0 };
        let waiting = &self.buckets.waiting;
        let state = &mut self.edges.streams[stream];
        let writable = state.open && !state.outbuf.is_empty() && !waiting.writes_stream(stream);
        let readable = state.may_package()
            && state.control.package_window() > Cells::ZERO
            && room > 0
            && !waiting.reads_stream(stream);
        let wanted = Interest { readable, writable };
        if state.interest != wanted {
            state.interest = wanted;
            kernel.want_stream(stream, wanted);
        }
    }
}
