//! Hop control at work: who the neighbours are, what is owed to them and what they say, and time that passes.

use super::{Node, Relay};
use crate::cell::{Cell, CircId};
use crate::circuit_policy::CircuitPolicy;
use crate::datagram::Downstream;
use crate::error::Violation;
use crate::hop_control::{
    AnyHopControl, CreditPath, Feedback, HopControl, HopOffer, HopSignals, LinkSignals, Neighbour, RoundTrip,
    Side,
};
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use penstock_units::{Cells, Duration, Instant};

impl<C: Cell> Relay<C> {
    /// What to say of the control of hops in the handshake of a link with a relay, or `with_client`s.
    pub fn hop_offer(&self, with_client: bool) -> Option<HopOffer> {
        self.node.config.hop_control.offer(with_client)
    }

    /// Tells controls that time passed, if it did.
    pub(super) fn on_hop_tick(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        if self.node.hop_tick.is_none_or(|due| due > now) {
            return;
        }
        self.node.hop_tick = None;
        self.node.tick_hops(now, kernel);
    }
}

/// Who the neighbours are.
impl<C: Cell> Node<C> {
    /// The channel is open, and the peer said what it knows of the control of hops.
    pub(super) fn attach_channel(&mut self, channel: ChannelKey, theirs: Option<HopOffer>) {
        let with_client = self.channel(channel).with_client;
        let ours = self.config.hop_control.offer(with_client);
        let state = self.channel(channel);
        let usable = |offer: &HopOffer| state.transport.is_datagrams() || !offer.needs_datagrams();
        state.hops = HopOffer::agree(ours, theirs).filter(usable);
        state.transport.expect(HopOffer::round_trips(state.hops));
        for circuit in state.circuits.all() {
            for direction in [Direction::Forward, Direction::Backward] {
                if self.circuit(circuit).half(direction).to.is_some_and(|leg| leg.channel == channel) {
                    self.attach_circuit(circuit, direction);
                }
            }
        }
    }

    /// Tells both controls of a circuit of the node to which its cells go in `direction`, if its channel is open.
    pub(super) fn attach_circuit(&mut self, circuit: CircuitIndex, direction: Direction) {
        let Some(leg) = self.circuit(circuit).half(direction).to else { return };
        let channel = self.channel(leg.channel);
        if !channel.open {
            return;
        }
        let agreed = channel.hops;
        for (side, direction) in [(Side::After, direction), (Side::Before, direction.opposite())] {
            let neighbour = Neighbour { side, direction, channel: leg.channel, agreed };
            self.circuit(circuit).half_mut(direction).hop.on_neighbour(neighbour);
        }
    }
}

/// What is owed and what is said.
impl<C: Cell> Node<C> {
    /// Hands feedback about cells that travel in `direction` to the hop that sends them to us.
    pub(super) fn send_feedback(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        feedback: Feedback,
    ) {
        let feedback = Feedback { direction, ..feedback };
        let state = self.circuit(circuit);
        let hop = &state.half(direction).hop;
        let (path, downstream) = (hop.credit_path(), hop.downstream(now));
        let back = direction.opposite();
        let Some(leg) = state.half(back).to else { return };
        match path {
            CreditPath::Link => {
                self.counters.credits += 1;
                self.send_control(now, leg.channel, C::feedback(leg.id, feedback));
            }
            CreditPath::Circuit => {
                self.counters.credits += 1;
                self.counters.made += 1;
                self.enqueue(now, circuit, back, C::feedback(leg.id, feedback));
                // Beside what the hop may have here in cells, no honest one leaves as many credits unread.
                let most = 2 * self.config.limits.max_circuit_queue as usize;
                if self.circuit(circuit).half(back).queue.len() > most {
                    self.to_close.push(leg.channel);
                }
            }
            CreditPath::Acknowledgement => {
                let transport = &mut self.channel(leg.channel).transport;
                if transport.acknowledge(now, leg.id, feedback.forwarded, downstream) {
                    self.review_transport(leg.channel);
                }
            }
        }
    }

    /// Cells of a circuit reached their application: the hop before may be owed feedback.
    pub(super) fn hop_delivered(&mut self, now: Instant, circuit: CircuitIndex, cells: usize) {
        let direction = self.circuit(circuit).outward().opposite();
        for _ in 0..cells {
            if let Some(feedback) = self.circuit(circuit).half_mut(direction).hop.on_delivered(now) {
                self.send_feedback(now, circuit, direction, feedback);
            }
        }
    }

    /// The next hop of some direction says what it forwarded.
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
        let state = self.circuit(circuit);
        // Feedback about a direction comes from where that direction's cells go.
        if state.arriving(channel, cell.circ_id()) == direction {
            return Err(Violation::UnexpectedCell);
        }
        self.update_hop(now, circuit, direction, |hop| hop.on_feedback(now, feedback))
    }

    /// The next hop of a circuit says in its acknowledgements what it forwarded, how long that took and what lies beyond.
    pub(super) fn on_forwarded(
        &mut self,
        now: Instant,
        channel: ChannelKey,
        id: CircId,
        count: u32,
        trip: Option<(Duration, Duration)>,
        downstream: Downstream,
    ) -> Result<(), Violation> {
        let known = self.channels.get(channel.0 as usize).and_then(|channel| channel.circuits.get(id));
        let Some(circuit) = known else { return Ok(()) };
        let direction = self.circuit(circuit).arriving(channel, id).opposite();
        let mut feedback = None;
        self.update_hop(now, circuit, direction, |hop| {
            if let Some((rtt, base)) = trip {
                hop.on_round_trip(now, RoundTrip { rtt, base });
            }
            feedback = hop.on_downstream(now, downstream);
            hop.on_feedback(now, Feedback { direction, forwarded: count, allowance: 0 })
        })?;
        if let Some(feedback) = feedback {
            self.send_feedback(now, circuit, direction, feedback);
        }
        Ok(())
    }

    /// A control hears of the next hop; what it then allows may be more than before, or less.
    fn update_hop(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        direction: Direction,
        change: impl FnOnce(&mut AnyHopControl) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let room = self.room_at_edge(circuit, direction);
        let half = self.circuit(circuit).half_mut(direction);
        let could_send = half.may_send();
        change(&mut half.hop)?;
        self.review_credit(now, circuit, direction, could_send);
        self.review_edge(circuit, direction, room);
        Ok(())
    }

    /// Tells the circuit policy if a circuit that could send, or not, now cannot, or can.
    fn review_credit(&mut self, now: Instant, circuit: CircuitIndex, direction: Direction, could_send: bool) {
        let half = self.circuit(circuit).half(direction);
        let Some(leg) = half.to else { return };
        match (could_send, half.may_send()) {
            (false, true) => self.make_ready(now, circuit, direction),
            (true, false) => {
                self.channel(leg.channel).policy.on_blocked(now, circuit.key(direction));
            }
            _ => {}
        }
    }
}

/// Time passes.
impl<C: Cell> Node<C> {
    /// Has the next tick come a period from now, unless one is due already.
    pub(super) fn await_hop_tick(&mut self, now: Instant, period: Option<Duration>) {
        if let Some(period) = period {
            self.hop_tick.get_or_insert(now + period);
        }
    }

    /// Tells every control that wants to know that a period passed, and what its channel was like.
    fn tick_hops(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        let links = self.measure_links(now, kernel);
        let circuits: Vec<_> = self.circuits.iter().map(|(key, _)| CircuitIndex(key as u32)).collect();
        for circuit in circuits {
            for direction in [Direction::Forward, Direction::Backward] {
                let half = self.circuit(circuit).half_mut(direction);
                let Some(period) = half.hop.period() else { continue };
                let queue = Cells::new(half.queue.len() as u64);
                let link = half.to.and_then(|leg| links[leg.channel.0 as usize]).unwrap_or_default();
                let could_send = half.may_send();
                let room = self.room_at_edge(circuit, direction);
                let half = self.circuit(circuit).half_mut(direction);
                let ticked = half.hop.on_tick(now, HopSignals { queue, link });
                self.review_credit(now, circuit, direction, could_send);
                if let Some(feedback) = ticked.feedback {
                    self.send_feedback(now, circuit, direction, feedback);
                }
                self.await_hop_tick(now, ticked.again.then_some(period));
                self.review_edge(circuit, direction, room);
            }
        }
    }

    /// What every channel was like since the last tick, by its key.
    fn measure_links(&mut self, now: Instant, kernel: &mut impl Kernel<C>) -> Vec<Option<LinkSignals>> {
        let mut links = Vec::new();
        for (key, channel) in &mut self.channels {
            let Some(delay) = &mut channel.delay else { continue };
            if channel.open {
                delay.look(now, || kernel.socket_info(ChannelKey(key as u32)).not_sent);
            }
            let (delay, moved) = delay.take_period(now);
            links.resize(key + 1, None);
            links[key] = Some(LinkSignals { delay, moved: Cells::new(moved), ..LinkSignals::default() });
        }
        for (_, circuit) in &self.circuits {
            for direction in [Direction::Forward, Direction::Backward] {
                let half = circuit.half(direction);
                let link = half.to.and_then(|leg| links.get_mut(leg.channel.0 as usize)?.as_mut());
                if let Some(link) = link {
                    link.queued += Cells::new(half.queue.len() as u64);
                    link.circuits += 1;
                }
            }
        }
        // Channels that nobody measures, behind the last one that somebody does.
        links.resize(self.channels.capacity(), None);
        links
    }
}
