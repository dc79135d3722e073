use super::Relay;
use crate::cell::{Cell, Message};
use crate::circuit::Role;
use crate::kernel::Kernel;
use crate::keys::{CircuitIndex, StreamKey};
use penstock_units::Instant;

impl<C: Cell> Relay<C> {
    /// Clients only: opens a stream to `target` on a built circuit, or on the set of linked circuits to which it
    /// belongs; `None` if the circuit or the set is not complete.
    ///
    /// With [`optimistic_data`](crate::config::RelayConfig::optimistic_data) the relay may read the stream before
    /// CONNECTED arrives. The driver then calls [`on_stream_readable`](Self::on_stream_readable) as soon as the
    /// application has data.
    pub fn open_stream(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        target: C::Target,
        kernel: &mut impl Kernel<C>,
    ) -> Option<StreamKey> {
        let parts = &mut self.parts;
        let Role::Origin(origin) = &parts.circuits.get(circuit)?.role else { return None };
        if !origin.built || parts.is_linking(circuit) {
            return None;
        }
        let circuit = parts.stream_circuit(circuit);
        parts.edge(circuit);
        let edge = parts.circuits[circuit].edge.as_deref_mut()?;
        let id = parts.edges.free_id(edge, parts.config.limits.streams_per_circuit)?;
        parts.announce_class(now, circuit);
        let stream = parts.add_stream(circuit, id);
        parts.edges.streams[stream].optimistic = parts.config.optimistic_data;
        parts.send_relay(now, circuit, Some(id), Message::Begin(target));
        self.settle(now, kernel);
        Some(stream)
    }

    /// Exits only: the connection of [`Event::StreamRequested`](crate::Event::StreamRequested) is open. The relay sends
    /// `answer` to the client.
    pub fn on_stream_connected(
        &mut self,
        now: Instant,
        stream: StreamKey,
        answer: C::Connected,
        kernel: &mut impl Kernel<C>,
    ) {
        let Some(state) = self.parts.edges.streams.get_mut(stream) else { return };
        state.open = true;
        let (circuit, id) = (state.circuit, state.id);
        self.parts.send_relay(now, circuit, Some(id), Message::Connected(answer));
        self.parts.refresh_stream(stream, kernel);
        self.settle(now, kernel);
    }

    /// The stream's connection has data to read. Packages at most one I/O quantum.
    pub fn on_stream_readable(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        let parts = &mut self.parts;
        let Some(state) = parts.edges.streams.get(stream) else { return };
        let circuit = state.circuit;
        let share = parts.package_share(circuit);
        parts.package(now, stream, share, kernel);
        parts.refresh_edge(circuit, kernel);
        self.settle(now, kernel);
    }

    /// The stream's connection accepts more data.
    pub fn on_stream_writable(&mut self, now: Instant, stream: StreamKey, kernel: &mut impl Kernel<C>) {
        if self.parts.edges.streams.contains(stream) {
            self.parts.flush_stream(now, stream, kernel);
            self.settle(now, kernel);
        }
    }

    /// Closes a stream, because the connection has failed or the application has finished. The other end receives
    /// `end`.
    pub fn close_stream(
        &mut self,
        now: Instant,
        stream: StreamKey,
        end: impl Into<C::End>,
        kernel: &mut impl Kernel<C>,
    ) {
        let Some(state) = self.parts.edges.streams.get(stream) else { return };
        let (circuit, id, ended) = (state.circuit, state.id, state.ended);
        if !ended {
            self.parts.send_relay(now, circuit, Some(id), Message::End(end.into()));
        }
        self.parts.remove_stream(now, stream, kernel);
        self.settle(now, kernel);
    }
}
