//! The circuits of a client: one, or several that are linked (Conflux).
//!
//! The core's [`ConfluxSet`] decides which circuit sends a message, and restores the order of arriving messages. Each
//! circuit (leg) acknowledges its own cells.
//!
//! With Vegas, the client sends SENDMEs of the circuit only. Without congestion control, it sends a SENDME for every 50
//! cells of a stream and one for every 100 cells of the circuit, as stock Tor does.
//!
//! Source: C tor `CIRCWINDOW_INCREMENT`, `STREAMWINDOW_INCREMENT`; proposal 329.

use super::link::{Arrived, Circuit, Halt, LOOK, broke};
use crate::clock::Clock;
use crate::forward::readable;
use penstock_core::cell::MAX_PAYLOAD;
use penstock_core::conflux::{ConfluxSet, Nonce};
use penstock_core::edge_control::{Agreement, EdgeControlConfig, Ends};
use penstock_core::{RelayConfig, StreamId};
use penstock_link::cell::{LivePayload, RelayMessage};
use rand::RngExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of cells that one SENDME acknowledges without congestion control, of a stream and of a circuit [cell].
const INCREMENTS: [u32; 2] = [50, 100];

/// A circuit, and what the client and its last relay agreed on.
pub type Built<'a> = (Circuit<'a>, Agreement);

/// A message of a relay and its stream.
type Message = (Option<StreamId>, RelayMessage);

/// A circuit, and the SENDMEs for its cells.
#[derive(Debug)]
struct Leg<'a> {
    circuit: Circuit<'a>,
    /// Cells per SENDME [cell]; `None` sends none.
    increment: Option<u32>,
    /// DATA cells so far [cell].
    cells: u32,
}

/// The circuits that carry a client's streams.
#[derive(Debug)]
pub struct Circuits<'a> {
    legs: Vec<Leg<'a>>,
    /// The set of linked circuits, with indices in `legs`.
    set: Option<ConfluxSet<usize, Message>>,
    /// Cells of a stream per SENDME [cell]; `None` sends none.
    stream_increment: Option<u32>,
    config: &'a RelayConfig,
    clock: Clock,
    over: &'a AtomicBool,
}

/// Cells of a stream and of a circuit per SENDME [cell].
fn increments(config: &RelayConfig, agreed: Agreement) -> [Option<u32>; 2] {
    let ends = match &config.edge_control {
        EdgeControlConfig::Windows(windows) => windows.ends,
        _ => Ends::Enforced,
    };
    match agreed {
        Agreement::Congestion(increment) => [None, Some(increment.get().into())],
        Agreement::OpenEnds if ends == Ends::Suppressed => [None, None],
        Agreement::OpenEnds | Agreement::Nothing => INCREMENTS.map(Some),
    }
}

impl<'a> Circuits<'a> {
    /// Takes new circuits. If there are several, links them.
    pub fn new(
        built: Vec<Built<'a>>,
        config: &'a RelayConfig,
        clock: Clock,
        over: &'a AtomicBool,
    ) -> Result<Self, Halt> {
        let agreed = built.iter().map(|(_, agreed)| *agreed);
        let can_link = agreed.clone().all(|agreed| matches!(agreed, Agreement::Congestion(_)));
        let stream_increment = agreed.clone().next().and_then(|agreed| increments(config, agreed)[0]);
        let leg = |(circuit, agreed)| Leg { circuit, increment: increments(config, agreed)[1], cells: 0 };
        let legs: Vec<_> = built.into_iter().map(leg).collect();
        let mut circuits = Circuits { legs, set: None, stream_increment, config, clock, over };
        if circuits.legs.len() > 1 {
            if !can_link {
                return broke("the exit granted no congestion control, so the circuits cannot be linked");
            }
            circuits.link()?;
        }
        Ok(circuits)
    }

    /// Cells of a stream per SENDME [cell]; `None` sends none.
    pub fn stream_increment(&self) -> Option<u32> {
        self.stream_increment
    }

    fn link(&mut self) -> Result<(), Halt> {
        let Some(conflux) = self.config.conflux else { return broke("the client links no circuits") };
        let mut set = ConfluxSet::new(Nonce(rand::rng().random()), self.legs.len());
        for (key, leg) in self.legs.iter_mut().enumerate() {
            if let Some(link) = set.start_link(key, self.clock.now(), conflux.client_ux) {
                leg.circuit.send_message(None, &RelayMessage::Link(Box::new(link)))?;
            }
        }
        self.set = Some(set);
        while self.set.as_ref().is_some_and(|set| !set.is_complete()) {
            let (key, arrived) = self.receive()?;
            if self.handle(key, arrived)?.is_some() {
                return broke("a message came before the circuits were linked");
            }
        }
        Ok(())
    }

    /// Sends a message to the last relay.
    pub fn send_message(&mut self, stream: Option<StreamId>, message: &RelayMessage) -> Result<(), Halt> {
        let mut key = 0;
        if let Some(set) = self.set.as_mut().filter(|_| message.is_multiplexed()) {
            // Requests never fill a window.
            key = set.next_leg(|_| true).or(set.current()).unwrap_or(key);
            while let Some(relative) = set.switch_to(key) {
                self.legs[key].circuit.send_message(None, &RelayMessage::Switch(relative))?;
            }
            set.on_sent(key);
        }
        self.legs[key].circuit.send_message(stream, message)
    }

    /// Sends stream data, in as many cells as necessary.
    pub fn send_data(&mut self, stream: Option<StreamId>, bytes: &[u8]) -> Result<(), Halt> {
        for chunk in bytes.chunks(MAX_PAYLOAD.into()) {
            let Some(payload) = LivePayload::new(chunk) else { return broke("a cell holds a chunk") };
            self.send_message(stream, &RelayMessage::Data(payload))?;
        }
        Ok(())
    }

    /// Waits for the next message of the last relay, in the order in which the relay sent the messages of streams.
    pub fn receive_message(&mut self) -> Result<Message, Halt> {
        loop {
            if let Some(due) = self.set.as_mut().and_then(ConfluxSet::next_due) {
                return Ok(due);
            }
            let (key, arrived) = self.receive()?;
            if let Some(due) = self.handle(key, arrived)? {
                return Ok(due);
            }
        }
    }

    /// Waits for a message on any circuit.
    fn receive(&mut self) -> Result<(usize, Arrived), Halt> {
        loop {
            for (key, leg) in self.legs.iter_mut().enumerate() {
                if let Some(arrived) = leg.circuit.take_message()? {
                    return Ok((key, arrived));
                }
            }
            let circuits: Vec<_> = self.legs.iter().map(|leg| &leg.circuit).collect();
            for key in readable(&circuits, LOOK)? {
                self.legs[key].circuit.fill()?;
            }
            if self.over.load(Ordering::Relaxed) {
                return Err(Halt::Over);
            }
        }
    }

    /// Handles a message that arrived on a circuit. Returns it if the client must handle it now.
    fn handle(&mut self, key: usize, (stream, message, tag): Arrived) -> Result<Option<Message>, Halt> {
        let leg = &mut self.legs[key];
        if matches!(message, RelayMessage::Data(_)) {
            leg.cells += 1;
            if leg.increment.is_some_and(|increment| leg.cells.is_multiple_of(increment)) {
                leg.circuit.send_message(None, &RelayMessage::Sendme(Some(tag)))?;
            }
        }
        let Some(set) = &mut self.set else { return Ok(Some((stream, message))) };
        match message {
            RelayMessage::Linked(link) => {
                set.on_linked(key, self.clock.now(), &link)?;
                leg.circuit.send_message(None, &RelayMessage::LinkedAck)?;
                Ok(None)
            }
            RelayMessage::Switch(relative) => {
                set.on_switch(key, relative)?;
                Ok(None)
            }
            message if message.is_multiplexed() => {
                let max = self.config.limits.edge_buffer as usize;
                Ok(set.receive(key, (stream, message), max)?)
            }
            message => Ok(Some((stream, message))),
        }
    }
}
