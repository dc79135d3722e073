//! Introduction points and rendezvous points of onion services at this relay.
//!
//! Source: rend-spec-v3; C tor `hs_intropoint.c`, `rendmid.c`, `hs_circuitmap.c` and `hs_dos.c`.
//! Deviation: each circuit has one purpose, and no streams. In C tor, a circuit with streams may get a purpose, and a circuit
//! may become a rendezvous point after its INTRODUCE1. A full circuit queue refuses introductions; C tor has no such limit.
//! A burst of N allows N introductions at once; C tor allows N - 1.

use super::Node;
use super::dos::Tokens;
use penstock_core::{CircuitIndex, DestroyReason, Direction};
use penstock_link::cell::{
    EstablishIntro, IntroLimit, IntroduceStatus, LimitRequest, OnionService, OnionServiceCommand,
    RendezvousCookie, introduced_key,
};
use penstock_units::Instant;
use std::collections::BTreeMap;
use std::fmt;

/// The purpose of a circuit that ends here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A service waits for introductions with this key.
    Introduction([u8; 32]),
    /// A client has sent its one INTRODUCE1.
    Introduced,
    /// A client waits for a service.
    Rendezvous(RendezvousCookie),
    /// The circuit is joined with another one.
    Joined,
}

struct Introduction {
    circuit: CircuitIndex,
    limit: LimitRequest,
    tokens: Tokens,
}

/// The circuits of onion services that end at this relay.
#[derive(Default)]
pub(super) struct MeetingPoints {
    introductions: BTreeMap<[u8; 32], Introduction>,
    clients: BTreeMap<RendezvousCookie, CircuitIndex>,
    purposes: BTreeMap<CircuitIndex, Purpose>,
    /// The consensus's limit for services without a limit of their own.
    pub(super) default_limit: Option<IntroLimit>,
}

/// Logs show no keys and no cookies.
impl fmt::Debug for MeetingPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [services, clients] = [self.introductions.len(), self.clients.len()];
        write!(f, "MeetingPoints({services} services, {clients} clients)")
    }
}

/// The node's reaction to a message.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It does nothing.
    Ignore,
    /// The circuit closes, because the message violates the protocol.
    Violation,
    /// This relay is an introduction point of the service now. The service's older circuit closes.
    Established { replaced: Option<CircuitIndex> },
    /// The service gets the message on this circuit.
    Introduce(CircuitIndex),
    /// No client waits with this cookie, for example because it gave up. The circuit closes.
    UnknownCookie,
    /// The client gets this answer to its INTRODUCE1.
    Refuse(IntroduceStatus),
    /// This relay is the client's rendezvous point now.
    Waiting,
    /// The service meets the client of this circuit.
    Join(CircuitIndex),
}

impl Outcome {
    /// The name in the metrics.
    fn name(&self) -> Option<&'static str> {
        match self {
            Outcome::Ignore => None,
            Outcome::Violation => Some("violation"),
            Outcome::UnknownCookie => Some("unknown_cookie"),
            Outcome::Established { .. } => Some("introduction_point"),
            Outcome::Introduce(_) => Some("introduced"),
            Outcome::Refuse(_) => Some("refused"),
            Outcome::Waiting => Some("rendezvous_point"),
            Outcome::Join(_) => Some("joined"),
        }
    }
}

impl MeetingPoints {
    pub(super) fn on_circuit_closed(&mut self, circuit: CircuitIndex) {
        match self.purposes.remove(&circuit) {
            Some(Purpose::Introduction(key)) => drop(self.introductions.remove(&key)),
            Some(Purpose::Rendezvous(cookie)) => drop(self.clients.remove(&cookie)),
            Some(Purpose::Introduced | Purpose::Joined) | None => {}
        }
    }

    /// Handles a message on a circuit. `is_free`: the circuit ends here and has no streams. `nonce`: the nonce of the
    /// circuit's handshake. `is_client`: the circuit has one hop.
    fn on_message(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        message: &OnionService,
        is_free: bool,
        is_client: bool,
        nonce: &[u8],
    ) -> Outcome {
        let has_purpose = self.purposes.contains_key(&circuit);
        let body = message.body();
        match message.command {
            OnionServiceCommand::EstablishIntro
            | OnionServiceCommand::EstablishRendezvous
            | OnionServiceCommand::Introduce1
            | OnionServiceCommand::Rendezvous1
                if has_purpose || !is_free =>
            {
                Outcome::Violation
            }
            OnionServiceCommand::EstablishIntro => match EstablishIntro::read(body, nonce) {
                Ok(asked) => self.establish(now, circuit, asked),
                Err(_) => Outcome::Violation,
            },
            // C tor `circuit_is_suitable_for_introduce1()` refuses a client that is not anonymous.
            OnionServiceCommand::Introduce1 if is_client => Outcome::Violation,
            OnionServiceCommand::Introduce1 => {
                self.purposes.insert(circuit, Purpose::Introduced);
                self.introduce(now, body)
            }
            OnionServiceCommand::EstablishRendezvous => {
                let Ok(cookie) = RendezvousCookie::try_from(body) else { return Outcome::Violation };
                if self.clients.contains_key(&cookie) {
                    return Outcome::Violation;
                }
                self.clients.insert(cookie, circuit);
                self.purposes.insert(circuit, Purpose::Rendezvous(cookie));
                Outcome::Waiting
            }
            OnionServiceCommand::Rendezvous1 => {
                let cookie: Option<&RendezvousCookie> = body.first_chunk();
                let Some(cookie) = cookie else { return Outcome::Violation };
                let Some(client) = self.clients.remove(cookie) else { return Outcome::UnknownCookie };
                self.purposes.insert(client, Purpose::Joined);
                self.purposes.insert(circuit, Purpose::Joined);
                Outcome::Join(client)
            }
            // Answers of an introduction point or rendezvous point. C tor also ignores them.
            OnionServiceCommand::Introduce2
            | OnionServiceCommand::Rendezvous2
            | OnionServiceCommand::IntroEstablished
            | OnionServiceCommand::RendezvousEstablished
            | OnionServiceCommand::IntroduceAck => Outcome::Ignore,
        }
    }

    /// Source: C tor `handle_verified_establish_intro_cell()`, `hs_circuitmap_register_circuit()`.
    fn establish(&mut self, now: Instant, circuit: CircuitIndex, asked: EstablishIntro) -> Outcome {
        // The first use lowers the tokens to the burst.
        let tokens = Tokens::full(now, u32::MAX);
        let introduction = Introduction { circuit, limit: asked.limit, tokens };
        let old = self.introductions.insert(asked.key, introduction);
        let replaced = old.map(|old| old.circuit);
        if let Some(replaced) = replaced {
            self.purposes.remove(&replaced);
        }
        self.purposes.insert(circuit, Purpose::Introduction(asked.key));
        Outcome::Established { replaced }
    }

    /// Source: C tor `handle_introduce1()`.
    fn introduce(&mut self, now: Instant, body: &[u8]) -> Outcome {
        let Ok(key) = introduced_key(body) else { return Outcome::Refuse(IntroduceStatus::Malformed) };
        let Some(service) = self.introductions.get_mut(&key) else {
            return Outcome::Refuse(IntroduceStatus::UnknownService);
        };
        if let Some(limit) = service.limit.limit(self.default_limit)
            && !service.tokens.take(now, limit.rate, limit.burst)
        {
            return Outcome::Refuse(IntroduceStatus::CannotRelay);
        }
        Outcome::Introduce(service.circuit)
    }
}

impl Node {
    /// Handles a message of an onion service's protocol.
    pub(super) fn on_onion_service(&mut self, circuit: CircuitIndex, message: OnionService) {
        let now = self.clock.now();
        let Some(nonce) = self.relay.layer(circuit).map(|layer| *layer.nonce()) else { return };
        let channel = self.relay.leg(circuit, Direction::Backward).map(|(channel, _)| channel);
        let conn = channel.and_then(|channel| self.sockets.channel(channel));
        let peer = conn.and_then(|conn| conn.peer).and_then(|peer| self.peers.known(peer));
        let is_client = !peer.is_some_and(|known| self.is_relay(&known.rsa));
        // C tor also leaves the client without an answer.
        if message.command == OnionServiceCommand::EstablishRendezvous
            && is_client
            && self.dos.refuses_single_hop()
        {
            return;
        }
        let is_free = self.relay.is_free(circuit);
        let outcome = self.meeting_points.on_message(now, circuit, &message, is_free, is_client, &nonce);
        let (name, mut is_done) = (outcome.name(), true);
        let close = |node: &mut Node, circuit, reason| {
            node.relay.close_circuit(now, circuit, reason, &mut node.sockets);
        };
        match outcome {
            Outcome::Ignore => {}
            Outcome::Violation | Outcome::UnknownCookie => close(self, circuit, DestroyReason::PROTOCOL),
            Outcome::Established { replaced } => {
                if let Some(replaced) = replaced {
                    close(self, replaced, DestroyReason::FINISHED);
                }
                self.send_message(now, circuit, OnionService::intro_established());
            }
            Outcome::Introduce(service) => {
                let introduced =
                    self.send_message(now, service, message.with_command(OnionServiceCommand::Introduce2));
                let status = if introduced { IntroduceStatus::Success } else { IntroduceStatus::CannotRelay };
                self.send_message(now, circuit, OnionService::introduce_ack(status));
                is_done = introduced;
            }
            Outcome::Refuse(status) => {
                self.send_message(now, circuit, OnionService::introduce_ack(status));
            }
            Outcome::Waiting => {
                let command = OnionServiceCommand::RendezvousEstablished;
                self.send_message(now, circuit, OnionService::new(command, &[]));
            }
            Outcome::Join(client) => {
                let handshake = &message.body()[size_of::<RendezvousCookie>()..];
                let answer = OnionService::new(OnionServiceCommand::Rendezvous2, handshake);
                if !self.send_message(now, client, answer) || !self.relay.join_circuits(circuit, client) {
                    close(self, client, DestroyReason::FINISHED);
                    close(self, circuit, DestroyReason::FINISHED);
                    is_done = false;
                }
            }
        }
        if let Some(name) = name {
            self.counters.onion_service(if is_done { name } else { "refused" });
        }
    }

    /// Sends a message to the client or service at the end of a circuit. Returns false if the circuit cannot take it.
    fn send_message(&mut self, now: Instant, circuit: CircuitIndex, message: OnionService) -> bool {
        self.relay.send_onion_service(now, circuit, message, &mut self.sockets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVICE: [u8; 32] = [3; 32];

    fn circuit(number: u32) -> CircuitIndex {
        CircuitIndex::first(number)
    }

    fn at(second: u64) -> Instant {
        Instant::from_secs(second)
    }

    fn message(command: OnionServiceCommand, body: &[u8]) -> OnionService {
        OnionService::new(command, body)
    }

    fn introduce1(key: [u8; 32]) -> OnionService {
        message(OnionServiceCommand::Introduce1, &[&[0; 20][..], &[2, 0, 32], &key, &[0, 9]].concat())
    }

    /// Handles a message on a free circuit of three hops.
    fn on(points: &mut MeetingPoints, number: u32, message: &OnionService) -> Outcome {
        points.on_message(at(0), circuit(number), message, true, false, &[0; 20])
    }

    fn with_service(number: u32, limit: Option<IntroLimit>) -> MeetingPoints {
        let mut points = MeetingPoints::default();
        let asked = EstablishIntro {
            key: SERVICE,
            limit: limit.map_or(LimitRequest::Unlimited, LimitRequest::Limit),
        };
        assert_eq!(points.establish(at(0), circuit(number), asked), Outcome::Established { replaced: None });
        points
    }

    #[test]
    fn a_client_introduces_itself_once() {
        let mut points = with_service(1, None);
        assert_eq!(on(&mut points, 2, &introduce1(SERVICE)), Outcome::Introduce(circuit(1)));
        assert_eq!(on(&mut points, 2, &introduce1(SERVICE)), Outcome::Violation);
        assert_eq!(
            on(&mut points, 3, &introduce1([4; 32])),
            Outcome::Refuse(IntroduceStatus::UnknownService)
        );
        let malformed = message(OnionServiceCommand::Introduce1, &[0; 30]);
        assert_eq!(on(&mut points, 4, &malformed), Outcome::Refuse(IntroduceStatus::Malformed));
        let single_hop = points.on_message(at(0), circuit(5), &introduce1(SERVICE), true, true, &[0; 20]);
        assert_eq!(single_hop, Outcome::Violation);
    }

    #[test]
    fn a_new_circuit_of_a_service_replaces_the_old_one() {
        let mut points = with_service(1, None);
        let asked = EstablishIntro { key: SERVICE, limit: LimitRequest::Consensus };
        let replaced = Some(circuit(1));
        assert_eq!(points.establish(at(0), circuit(2), asked), Outcome::Established { replaced });
        points.on_circuit_closed(circuit(1));
        assert_eq!(on(&mut points, 3, &introduce1(SERVICE)), Outcome::Introduce(circuit(2)));
        points.on_circuit_closed(circuit(2));
        assert_eq!(
            on(&mut points, 4, &introduce1(SERVICE)),
            Outcome::Refuse(IntroduceStatus::UnknownService)
        );
    }

    #[test]
    fn introductions_have_the_limit_of_the_service() {
        let mut points = with_service(1, Some(IntroLimit { rate: 2, burst: 3 }));
        let mut number = 10;
        let mut introduced = |points: &mut MeetingPoints, second| {
            let outcomes = (0..10).map(|_| {
                number += 1;
                points.on_message(at(second), circuit(number), &introduce1(SERVICE), true, false, &[0; 20])
            });
            outcomes.filter(|outcome| *outcome == Outcome::Introduce(circuit(1))).count()
        };
        assert_eq!([0, 1, 100].map(|second| introduced(&mut points, second)), [3, 2, 3]);
    }

    #[test]
    fn a_new_consensus_limits_services_without_a_limit_of_their_own() {
        let mut points = MeetingPoints::default();
        points.establish(at(0), circuit(1), EstablishIntro { key: SERVICE, limit: LimitRequest::Consensus });
        points.establish(at(0), circuit(2), EstablishIntro { key: [4; 32], limit: LimitRequest::Unlimited });
        points.default_limit = Some(IntroLimit { rate: 1, burst: 2 });
        let outcomes = |points: &mut MeetingPoints, key, from: u32| {
            [0u32, 1, 2, 3].map(|n| matches!(on(points, from + n, &introduce1(key)), Outcome::Introduce(_)))
        };
        assert_eq!(outcomes(&mut points, SERVICE, 10), [true, true, false, false]);
        assert_eq!(outcomes(&mut points, [4; 32], 20), [true; 4], "this service wants no limit");
    }

    proptest! {
        /// After any messages and closed circuits, each entry belongs to an open circuit with this purpose.
        #[test]
        fn no_entry_remains_of_a_closed_circuit(
            steps in prop::collection::vec((0u32..6, 0u8..6, 0u8..3), 1..100)
        ) {
            let mut points = MeetingPoints::default();
            for (number, what, which) in steps {
                let cookie = [which; 20];
                match what {
                    0 => {
                        let asked = EstablishIntro { key: [which; 32], limit: LimitRequest::Consensus };
                        if !points.purposes.contains_key(&circuit(number)) {
                            points.establish(at(0), circuit(number), asked);
                        }
                    }
                    1 => drop(on(&mut points, number, &introduce1([which; 32]))),
                    2 => drop(on(&mut points, number, &message(OnionServiceCommand::EstablishRendezvous, &cookie))),
                    3 => drop(on(&mut points, number, &message(OnionServiceCommand::Rendezvous1, &cookie))),
                    _ => {
                        points.on_circuit_closed(circuit(number));
                        prop_assert!(!points.purposes.contains_key(&circuit(number)));
                    }
                }
                for (key, introduction) in &points.introductions {
                    let purpose = points.purposes.get(&introduction.circuit);
                    prop_assert!(purpose == Some(&Purpose::Introduction(*key)));
                }
                for (cookie, client) in &points.clients {
                    prop_assert!(points.purposes.get(client) == Some(&Purpose::Rendezvous(*cookie)));
                }
            }
        }
    }

    #[test]
    fn a_service_meets_the_client_with_its_cookie_once() {
        let mut points = MeetingPoints::default();
        let establish = message(OnionServiceCommand::EstablishRendezvous, &[8; 20]);
        let rendezvous = message(OnionServiceCommand::Rendezvous1, &[[8; 20], [9; 20]].concat());
        assert_eq!(on(&mut points, 2, &rendezvous), Outcome::UnknownCookie, "no client waits");
        assert_eq!(on(&mut points, 1, &establish), Outcome::Waiting);
        assert_eq!(on(&mut points, 3, &establish), Outcome::Violation, "the cookie is in use");
        assert_eq!(on(&mut points, 1, &rendezvous), Outcome::Violation, "the client itself");
        assert_eq!(on(&mut points, 4, &rendezvous), Outcome::Join(circuit(1)));
        assert_eq!(on(&mut points, 5, &rendezvous), Outcome::UnknownCookie);
        assert_eq!(on(&mut points, 4, &establish), Outcome::Violation);
        points.on_circuit_closed(circuit(1));
        points.on_circuit_closed(circuit(4));
        assert!(points.purposes.is_empty() && points.clients.is_empty());
    }

    #[test]
    fn circuits_in_use_and_malformed_messages_are_refused() {
        let mut points = MeetingPoints::default();
        for command in [
            OnionServiceCommand::EstablishIntro,
            OnionServiceCommand::EstablishRendezvous,
            OnionServiceCommand::Rendezvous1,
        ] {
            assert_eq!(on(&mut points, 1, &message(command, &[7; 19])), Outcome::Violation, "{command:?}");
            let busy =
                points.on_message(at(0), circuit(1), &message(command, &[7; 20]), false, false, &[0; 20]);
            assert_eq!(busy, Outcome::Violation, "{command:?}");
        }
        let answer = message(OnionServiceCommand::Introduce2, &[]);
        assert_eq!(on(&mut points, 1, &answer), Outcome::Ignore);
        assert!(points.purposes.is_empty());
    }
}
