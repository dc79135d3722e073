use super::{Parts, Relay};
use crate::cell::{Cell, CircId};
use crate::circuit_policy::CircuitPolicy;
use crate::datagram::Downstream;
use crate::error::Violation;
use crate::hop_control::{
    AnyHopControl, CreditPath, DatagramHop, Feedback, HopControl, HopOffer, HopSignals, LinkSignals,
    Neighbour, RoundTrip, Side,
};
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use penstock_units::{Cells, Duration, Instant};

impl<C: Cell> Relay<C> {
    /// The hop control that this node offers in a link handshake. `with_client`: one end of the link is a client.
    pub fn hop_offer(&self, with_client: bool) -> Option<HopOffer> {
        self.parts.config.hop_control.offer(with_client)
    }

    /// The hop control that both ends of an open channel agreed on.
    pub fn hop_control(&self, channel: ChannelKey) -> Option<HopOffer> {
        self.parts.channels.get(channel)?.hops
    }

    pub(super) fn on_hop_tick(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        if self.parts.timers.take_hop_tick(now) {
            self.parts.tick_hops(now, kernel);
        }
    }
}

impl<C: Cell> Parts<C> {
    /// Whether the hop of a circuit to this side has hop control.
    pub(super) fn is_controlled(&self, circuit: CircuitIndex, direction: Direction) -> bool {
        let leg = self.circuits[circuit].half(direction).to;
        leg.is_some_and(|leg| self.channels[leg.channel].hops.is_some())
    }

    pub(super) fn attach_channel(&mut self, channel: ChannelKey, theirs: Option<HopOffer>) {
        let state = &mut self.channels[channel];
        let ours = self.config.hop_control.offer(state.with_client);
        let usable = |offer: &HopOffer| state.transport.association().is_some() || !offer.needs_datagrams();
        state.hops = HopOffer::agree(ours, theirs).filter(usable);
        if let Some(association) = state.transport.association_mut() {
            association.set_round_trips(HopOffer::round_trips(state.hops));
        }
        for circuit in state.circuits.all() {
            for direction in Direction::BOTH {
                if self.circuits[circuit].half(direction).to.is_some_and(|leg| leg.channel == channel) {
                    self.attach_circuit(circuit, direction);
                }
            }
        }
    }

    pub(super) fn attach_circuit(&mut self, circuit: CircuitIndex, direction: Direction) {
        let circuit = &mut self.circuits[circuit];
        let Some(leg) = circuit.half(direction).to else { return };
        let channel = &self.channels[leg.channel];
        if !channel.open {
            return;
        }
        for (side, direction) in [(Side::After, direction), (Side::Before, direction.opposite())] {
            let neighbour = Neighbour { side, direction, channel: leg.channel, agreed: channel.hops };
            circuit.half_mut(direction).hop.on_neighbour(neighbour);
        }
    }
}

impl<C: Cell> Parts<C> {
    /// Sends feedback about the cells that travel in `direction`. The feedback goes to the hop that sent these cells.
    pub(super) fn send_feedback(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        feedback: Feedback,
    ) {
        let feedback = Feedback { direction, ..feedback };
        let state = &self.circuits[circuit];
        let hop = &state.half(direction).hop;
        let back = direction.opposite();
        let Some(leg) = state.half(back).to else { return };
        match hop.credit_path() {
            CreditPath::Link => {
                self.counters.credits += 1;
                self.send_control(now, leg.channel, C::feedback(leg.id, feedback));
            }
            CreditPath::Circuit => {
                self.counters.credits += 1;
                self.counters.made += 1;
                self.enqueue(now, circuit, back, C::feedback(leg.id, feedback));
                // With a correct peer, the queue has at most as many cells, and at most as many credits, as the hop
                // allows. A longer queue shows that the peer does not read.
                let max = 2 * self.config.limits.max_circuit_queue as usize;
                if self.circuits[circuit].half(back).queue.len() > max {
                    self.channels.close_soon(leg.channel);
                }
            }
            CreditPath::Acknowledgement => {
                let downstream = hop.downstream(now);
                let association = self.channels[leg.channel].transport.association_mut();
                if association
                    .is_some_and(|link| link.acknowledge(now, leg.id, feedback.forwarded, downstream))
                {
                    self.review_transport(leg.channel);
                }
            }
        }
    }

    pub(super) fn hop_delivered(&mut self, now: Instant, circuit: CircuitIndex, cells: usize) {
        let direction = self.circuits[circuit].own_direction().opposite();
        for _ in 0..cells {
            if let Some(feedback) = self.circuits[circuit].half_mut(direction).hop.on_delivered(now) {
                self.send_feedback(now, circuit, direction, feedback);
            }
        }
    }

    pub(super) fn on_feedback(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        circuit: CircuitIndex,
        cell: &C,
    ) -> Result<(), Violation> {
        self.counters.consumed += 1;
        let feedback = cell.as_feedback().ok_or(Violation::UnexpectedCell)?;
        let direction = feedback.direction;
        // Only the next hop of a direction may send feedback about this direction.
        if self.circuits[circuit].direction_from(channel, cell.circ_id()) == direction {
            return Err(Violation::UnexpectedCell);
        }
        self.update_hop(now, circuit, direction, |hop| hop.on_feedback(now, feedback))
    }

    pub(super) fn on_forwarded(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        id: CircId,
        count: u32,
        trip: Option<(Duration, Duration)>,
        downstream: Downstream,
    ) -> Result<(), Violation> {
        let Some(circuit) = self.circuit_of(channel, id) else { return Ok(()) };
        let direction = self.circuits[circuit].direction_from(channel, id).opposite();
        let datagrams = self.config.datagrams;
        let mut feedback = None;
        self.update_hop(now, circuit, direction, |hop| {
            if let Some((rtt, base)) = trip {
                let hold = datagrams.map_or(Duration::ZERO, |config| config.hold(base));
                hop.on_round_trip(now, RoundTrip { rtt, base, hold });
            }
            feedback = hop.on_downstream(now, downstream);
            hop.on_feedback(now, Feedback { direction, forwarded: count, allowance: 0 })
        })?;
        if let Some(feedback) = feedback {
            self.send_feedback(now, circuit, direction, feedback);
        }
        Ok(())
    }

    /// Changes a hop control, and updates the circuit policy and the edge, because the credit may have changed.
    fn update_hop(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        change: impl FnOnce(&mut AnyHopControl) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let state = &mut self.circuits[circuit];
        let room = state.package_room_in(direction, self.config.edge_queue);
        let half = state.half_mut(direction);
        let could_send = half.may_send();
        change(&mut half.hop)?;
        self.review_credit(now, circuit, direction, could_send);
        self.review_edge(circuit, direction, room);
        Ok(())
    }

    fn review_credit(&mut self, now: Instant, circuit: CircuitIndex, direction: Direction, could_send: bool) {
        let half = self.circuits[circuit].half(direction);
        let Some(leg) = half.to else { return };
        match (could_send, half.may_send()) {
            (false, true) => self.channels.on_circuit_ready(now, leg.channel, circuit.key(direction)),
            (true, false) => self.channels[leg.channel].policy.on_blocked(now, circuit.key(direction)),
            _ => {}
        }
    }
}

impl<C: Cell> Parts<C> {
    fn tick_hops(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        let links = self.measure_links(now, kernel);
        for circuit in self.circuits.keys() {
            for direction in Direction::BOTH {
                let state = &mut self.circuits[circuit];
                let room = state.package_room_in(direction, self.config.edge_queue);
                let half = state.half_mut(direction);
                let Some(period) = half.hop.period() else { continue };
                let queue = Cells::new(half.queue.len() as u64);
                let link = half.to.and_then(|leg| *links.get(leg.channel.index())?).unwrap_or_default();
                let could_send = half.may_send();
                let ticked = half.hop.on_tick(now, HopSignals { queue, link });
                self.review_credit(now, circuit, direction, could_send);
                if let Some(feedback) = ticked.feedback {
                    self.send_feedback(now, circuit, direction, feedback);
                }
                if ticked.again {
                    self.timers.set_hop_tick(now, period);
                }
                self.review_edge(circuit, direction, room);
            }
        }
    }

    fn measure_links(&mut self, now: Instant, kernel: &mut impl Kernel<C>) -> Vec<Option<LinkSignals>> {
        let mut links = Vec::new();
        for (key, channel) in self.channels.iter_mut() {
            let Some(delay) = &mut channel.delay else { continue };
            if channel.open {
                delay.look(now, || kernel.socket_info(key).not_sent);
            }
            let (delay, moved) = delay.take_period(now);
            links.resize(key.index() + 1, None);
            links[key.index()] =
                Some(LinkSignals { delay, moved: Cells::new(moved), ..LinkSignals::default() });
        }
        for circuit in self.circuits.values() {
            for half in circuit.halves() {
                let link = half.to.and_then(|leg| links.get_mut(leg.channel.index())?.as_mut());
                if let Some(link) = link {
                    link.queued += Cells::new(half.queue.len() as u64);
                    link.circuits += 1;
                }
            }
        }
        links
    }
}
