use super::Parts;
use super::buckets::Blocked;
use crate::cell::{Cell, Message, Payload, StreamId};
use crate::circuit::Stamp;
use crate::edge_control::{EdgeControl, Signals, StreamControl, StreamFeedback};
use crate::error::Violation;
use crate::event::Event;
use crate::kernel::{Interest, Kernel};
use crate::keys::{CircuitIndex, StreamKey};
use crate::stream::{Stream, Wait};
use penstock_units::{Bytes, Instant, fifo::trim};
use std::collections::VecDeque;

impl<C: Cell> Parts<C> {
    /// A DATA cell arrived on a circuit. Sends a SENDME if one is due.
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        marked: bool,
        digest: C::Digest,
    ) -> Result<(), Violation> {
        self.counters.data_delivered += 1;
        let control = &mut self.edge(circuit).control;
        if marked {
            control.on_mark();
        }
        if control.on_deliver(now)? {
            self.send_sendme(now, circuit, None, Some(digest));
        }
        Ok(())
    }

    /// Passes the payload of a DATA cell to its stream.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        id: StreamId,
        payload: C::Payload,
        kernel: &mut impl Kernel<C>,
    ) -> Result<(), Violation> {
        // Empty payloads, and those of closed streams, count as delivered immediately.
        let stream = self.stream_of(circuit, id).filter(|_| !payload.is_empty());
        let Some(stream) = stream else {
            self.payloads_delivered(now, circuit, 1);
            return Ok(());
        };
        let max = self.config.limits.edge_buffer;
        let edge = self.edge(circuit);
        if edge.waiting >= max.into() {
            return Err(Violation::BufferExceeded);
        }
        edge.waiting += 1;
        self.memory.payloads += 1;
        let state = &mut self.edges.streams[stream];
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

    pub(super) fn flush_stream(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        let quantum = self.buckets.stream_write_quantum(now);
        let Some(state) = self.edges.streams.get_mut(stream) else { return };
        if state.open && !state.outbuf.is_empty() {
            if quantum == Bytes::ZERO {
                self.wait_for_refill(now, Blocked::WriteStream(stream));
                self.send_stream_feedback(now, stream);
                self.refresh_stream(stream, kernel);
                return;
            }
            let waiting = state.outbuf.len();
            let bytes = kernel.write_stream(stream, &mut state.outbuf, quantum);
            // A closed socket accepts every payload but reports zero bytes.
            let left = if state.outbuf.is_empty() { Bytes::ZERO } else { state.outbuf_bytes - bytes };
            state.outbuf_bytes = left;
            let (circuit, taken) = (state.circuit, waiting - state.outbuf.len());
            trim(&mut state.outbuf);
            if taken > 0 {
                state.wait.on_taken(Stamp::at(now), taken, state.outbuf.len());
            }
            let backlog = state.backlog();
            state.control.on_drain(now, bytes, backlog);
            self.charge_stream_write(bytes);
            self.edge(circuit).waiting -= taken as u64;
            self.memory.payloads -= taken as u64;
            self.payloads_delivered(now, circuit, taken);
        }
        // As in C tor, payloads are acknowledged even after END.
        self.send_stream_feedback(now, stream);
        let state = &self.edges.streams[stream];
        if state.ended && state.outbuf.is_empty() {
            self.remove_stream(now, stream, kernel);
        } else {
            self.refresh_stream(stream, kernel);
        }
    }

    fn send_stream_feedback(&mut self, now: Instant, stream: StreamKey) {
        let state = &self.edges.streams[stream];
        let (circuit, id) = (state.circuit, state.id);
        while let Some(feedback) = self.edges.streams[stream].control.take_feedback() {
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

    /// Sends a SENDME for a stream or for the circuit. An end without end-to-end windows sends no SENDME while the
    /// circuit's queue is full.
    fn send_sendme(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        stream: Option<StreamId>,
        proof: Option<C::Digest>,
    ) {
        let edge = self.edge(circuit);
        if !edge.control.obeys_windows() && edge.queue_full {
            return;
        }
        let marked = if stream.is_none() { edge.control.take_marks() } else { 0 };
        self.counters.sendmes += u64::from(stream.is_none());
        self.counters.stream_sendmes += u64::from(stream.is_some());
        self.send_relay(now, circuit, stream, Message::Sendme { proof, marked });
    }

    pub(super) fn on_circuit_sendme(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        proof: Option<C::Digest>,
        marked: u8,
    ) -> Result<(), Violation> {
        let signals = Signals { marked, ..self.signals(circuit) };
        let authenticated = self.config.authenticated_sendmes;
        let edge = self.edge(circuit);
        if authenticated && edge.control.obeys_windows() {
            let expected = edge.pending_digests.pop_front().ok_or(Violation::UnexpectedSendme)?;
            if proof != Some(expected) {
                return Err(Violation::ForgedSendme);
            }
        }
        edge.control.on_sendme(now, signals)?;
        edge.sendmes += 1;
        self.update_leg_rtt(circuit);
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
        self.edges.streams[stream].control.on_feedback(now, feedback)?;
        self.edge(circuit).sendmes += u64::from(feedback == StreamFeedback::Sendme);
        self.adjust_stream_bucket(now, stream);
        self.refresh_stream(stream, kernel);
        Ok(())
    }
}

impl<C: Cell> Parts<C> {
    pub(super) fn on_begin(
        &mut self,
        circuit: CircuitIndex,
        id: StreamId,
        target: C::Target,
    ) -> Result<(), Violation> {
        // C tor also ignores a BEGIN whose stream id is in use.
        if self.stream_of(circuit, id).is_some() {
            return Ok(());
        }
        if self.edge(circuit).streams.len() >= self.config.limits.streams_per_circuit as usize {
            return Err(Violation::TooManyStreams);
        }
        let stream = self.add_stream(circuit, id);
        self.events.push(Event::StreamRequested { stream, target });
        Ok(())
    }

    pub(super) fn on_connected(&mut self, circuit: CircuitIndex, id: StreamId, kernel: &mut impl Kernel<C>) {
        if let Some(stream) = self.stream_of(circuit, id)
            && !std::mem::replace(&mut self.edges.streams[stream].open, true)
        {
            self.events.push(Event::StreamConnected { stream });
            self.refresh_stream(stream, kernel);
        }
    }

    /// Ends a stream. A client's driver gets the content `end` of the exit's message.
    pub(super) fn on_end(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        id: StreamId,
        end: Option<C::End>,
        kernel: &mut impl Kernel<C>,
    ) {
        if let Some(stream) = self.stream_of(circuit, id) {
            self.edges.streams[stream].ended = true;
            if let Some(end) = end {
                self.events.push(Event::StreamEnded { stream, end });
            }
            self.flush_stream(now, stream, kernel);
        }
    }

    fn stream_of(&self, circuit: CircuitIndex, id: StreamId) -> Option<StreamKey> {
        self.edges.find(self.circuits.get(circuit)?.edge.as_deref()?, id)
    }

    pub(super) fn add_stream(&mut self, circuit: CircuitIndex, id: StreamId) -> StreamKey {
        let agreed = self.circuits[circuit].agreed;
        let control = self.config.edge_control.build_stream(agreed);
        let stream = self.edges.streams.insert(Stream {
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
        self.edge(circuit).streams.push(stream);
        stream
    }

    pub(super) fn remove_stream(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        kernel.close_stream(stream);
        let state = self.edges.streams.remove(stream);
        let lost = state.outbuf.len();
        // The stream has closed, so its unread payloads count as delivered and free the hop's window.
        self.payloads_delivered(now, state.circuit, lost);
        self.buckets.waiting.remove_stream(stream);
        let edge = self.edge(state.circuit);
        edge.waiting -= lost as u64;
        edge.streams.retain(|other| *other != stream);
        self.memory.payloads -= lost as u64;
        self.events.push(Event::StreamClosed { stream });
    }

    pub(super) fn close_streams(&mut self, now: Instant, circuit: CircuitIndex, kernel: &mut impl Kernel<C>) {
        // The whole list is taken in one step, because removing one stream at a time would need quadratic time.
        let edge = self.circuits[circuit].edge.as_deref_mut();
        for stream in edge.map(|edge| std::mem::take(&mut edge.streams)).unwrap_or_default() {
            self.remove_stream(now, stream, kernel);
        }
    }
}
