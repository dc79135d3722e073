//! Target `handshake`: the link handshake against a hostile peer. The peer changes, drops, repeats and reorders cells
//! of an honest peer, forges certificates, and sends arbitrary bytes in arbitrary pieces.

use super::choices::Choices;
use super::forge;
use super::test_relays::{TestRelay, now, seeded_rng, test_relays};
use penstock_core::hop_control::HopOffer;
use penstock_link::cell::{Front, IdLen, command, front, push_fixed, push_variable};
use penstock_link::certs::Netinfo;
use penstock_link::handshake::{Established, Expected, Extensions, Link, LinkFailure, MAX_TOTAL, Peer};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

/// Result of a handshake: `Ok(None)` while it is unfinished, then the peer or a failure.
pub type HandshakeResult = Result<Option<Peer>, LinkFailure>;

/// Maximum number of bytes in one call to the link, as in a TLS record [B].
const CHUNK: usize = 16 * 1024;
/// Maximum size of an incomplete cell: the longest CERTS and its header [B]. The link keeps no padding.
const MAX_BUFFERED: usize = 16 * 1024 + 7;
/// Maximum number of bytes that the link sends in response to one call, mostly certificates [B].
const MAX_REPLY: usize = 8 * 1024;

const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Sends any bytes to one side of a handshake.
///
/// # Panics
///
/// If the link uses too much memory, accepts bytes after it was closed, or gives another result for the same bytes in
/// other pieces. Also if it accepts a peer as a relay although the peer lacks the relay's keys.
pub fn handshake(input: &[u8]) -> HandshakeResult {
    let mut choices = Choices::new(input);
    let mut pair = LinkPair::new(choices.byte());
    while !choices.is_over() && !pair.is_over() {
        pair.step(&mut choices);
    }
    pair.deliver();
    pair.check_whole();
    pair.check_identity();
    pair.outcome
}

struct LinkPair {
    setting: u8,
    link: Link,
    /// The honest peer. It receives the bytes that the tested link sends.
    honest: Option<Link>,
    coming: VecDeque<Vec<u8>>,
    honest_sent: Vec<u8>,
    /// Bytes for the tested link. `delivered` is the number of bytes that the link already received.
    sent: Vec<u8>,
    delivered: usize,
    last: Vec<u8>,
    now: SystemTime,
    exports: bool,
    /// Whether time and TLS stayed the same, so that the same bytes must give the same result.
    is_steady: bool,
    outcome: HandshakeResult,
    over: bool,
}

/// The relay with the tested link.
fn me() -> &'static TestRelay {
    &test_relays()[0]
}

fn peer() -> &'static TestRelay {
    &test_relays()[1]
}

/// A TLS exporter. It computes its result from the context alone, or returns `None`.
fn export(exports: bool) -> impl Fn(&[u8; 32]) -> Option<[u8; 32]> {
    move |context| exports.then(|| context.map(|byte| byte ^ 0x5A))
}

/// The tested link. `setting` selects whether it connects or responds.
fn link(setting: u8) -> Link {
    let identity = peer().identity();
    let expected = Expected {
        rsa: (setting & 4 != 0).then_some(identity.rsa),
        ed25519: (setting & 8 != 0).then_some(identity.ed25519),
    };
    let certificate = peer().credentials.tls_sha256();
    let link = match setting & 3 {
        0 | 3 => Link::respond(&mut seeded_rng(3), THEIRS, vec![OURS]),
        1 => Link::connect(expected, certificate, THEIRS, vec![OURS]),
        _ => Link::connect_as_client(expected, certificate, THEIRS),
    };
    link.with_extensions(extensions(setting & 16 != 0))
}

/// The announcement of a node with or without hop control.
fn extensions(announces: bool) -> Extensions {
    let offer = announces.then_some(HopOffer::Credits { start: 90, most: 510 });
    Extensions { with_relay: offer, with_client: offer, ..Extensions::default() }
}

fn responds(setting: u8) -> bool {
    matches!(setting & 3, 0 | 3)
}

impl LinkPair {
    fn new(setting: u8) -> Self {
        let certificate = me().credentials.tls_sha256();
        let honest = match setting & 3 {
            0 => Link::connect(Expected::default(), certificate, OURS, vec![THEIRS]),
            3 => Link::connect_as_client(Expected::default(), certificate, OURS),
            _ => Link::respond(&mut seeded_rng(4), OURS, vec![THEIRS]),
        };
        let honest = honest.with_extensions(extensions(setting & 32 != 0));
        let mut pair = LinkPair {
            setting,
            link: link(setting),
            honest: Some(honest),
            coming: VecDeque::new(),
            honest_sent: Vec::new(),
            sent: Vec::new(),
            delivered: 0,
            last: Vec::new(),
            now: now(),
            exports: true,
            is_steady: true,
            outcome: Ok(None),
            over: false,
        };
        pair.receive();
        pair
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0..=3 => {
                if let Some(cell) = self.honest_cell() {
                    self.send(cell);
                }
            }
            4 => {
                if let Some(cell) = self.honest_cell() {
                    self.send(changed(cell, choices));
                }
            }
            5 => drop(self.honest_cell()),
            6 => self.send(self.last.clone()),
            7 if choices.flag() => self.send(fixed(command::PADDING, &[])),
            7 if choices.flag() => {
                self.send(variable(command::VPADDING, &[b"penstock", choices.bytes(64)].concat()));
            }
            7 => self.send(variable(command::VPADDING, &vec![0; choices.u16().into()])),
            8 => {
                let mut cell = Vec::new();
                push_variable(&mut cell, IdLen::Two, command::VERSIONS, choices.bytes(255));
                self.send(cell);
            }
            9 => self.send(fixed(command::NETINFO, &netinfo(choices))),
            10 => self.send(variable(command::CERTS, &forge::certs(choices, peer(), me()))),
            11 => self.send(variable(command::AUTH_CHALLENGE, &challenge(choices))),
            12 => self.send(choices.bytes(255).to_vec()),
            13 => {
                let (command, body) = (choices.byte(), choices.bytes(255));
                let variable_len = command::is_variable(command);
                self.send(if variable_len { variable(command, body) } else { fixed(command, body) });
            }
            14 => self.deliver(),
            _ => {
                self.deliver();
                self.is_steady = false;
                match choices.byte() {
                    0 => self.exports = !self.exports,
                    days => self.now += Duration::from_secs(86_400) * days.into() / 16,
                }
            }
        }
    }

    fn send(&mut self, cell: Vec<u8>) {
        self.sent.extend_from_slice(&cell);
        self.last = cell;
    }

    /// The honest peer's next cell, after the peer received all bytes of the tested link.
    fn honest_cell(&mut self) -> Option<Vec<u8>> {
        if self.coming.is_empty() {
            self.deliver();
        }
        self.coming.pop_front()
    }

    fn deliver(&mut self) {
        while self.delivered < self.sent.len() && !self.over {
            let end = self.sent.len().min(self.delivered + CHUNK);
            let chunk = &self.sent[self.delivered..end];
            let credentials = &me().credentials;
            let result =
                self.link.on_bytes(self.now, chunk, credentials, &export(self.exports), &mut seeded_rng(5));
            self.delivered = end;
            self.over = !matches!(result, Ok(None));
            assert_eq!(self.link.is_over(), self.over, "the link accepts no bytes after its end");
            if result.is_ok() {
                let [held, to_say] = self.link.held();
                assert!(
                    held <= MAX_BUFFERED && to_say <= MAX_REPLY,
                    "the link buffers {held} and {to_say} B"
                );
                assert!(self.delivered <= MAX_TOTAL + MAX_BUFFERED, "the link stops an endless handshake");
            }
            self.outcome = handshake_result(result);
            self.receive();
        }
    }

    fn receive(&mut self) {
        let bytes = self.link.poll_output();
        let Some(honest) = &mut self.honest else { return };
        let credentials = &peer().credentials;
        let result = if bytes.is_empty() {
            Ok(None)
        } else {
            honest.on_bytes(now(), &bytes, credentials, &export(true), &mut seeded_rng(6))
        };
        let sent = honest.poll_output();
        self.honest_sent.extend_from_slice(&sent);
        if !matches!(result, Ok(None)) {
            self.honest = None;
        }
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let is_first = rest.len() == sent.len() && self.honest_sent.len() == sent.len();
            let ids = if is_first { IdLen::Two } else { IdLen::Four };
            let Front::Cell(_, len) = front(rest, ids) else {
                panic!("the honest peer sends complete cells")
            };
            let (cell, more) = rest.split_at(len);
            self.coming.push_back(cell.to_vec());
            rest = more;
        }
    }

    /// Checks that the same bytes give the same result if the link receives them all at once.
    fn check_whole(&self) {
        if !self.is_steady {
            return;
        }
        let credentials = &me().credentials;
        let whole = &self.sent[..self.delivered];
        let mut link = link(self.setting);
        let result = link.on_bytes(self.now, whole, credentials, &export(true), &mut seeded_rng(5));
        assert_eq!(
            handshake_result(result),
            self.outcome,
            "the same bytes in other pieces give the same result"
        );
    }

    /// Checks that a peer that was accepted as a relay has the relay's keys.
    fn check_identity(&self) {
        let Ok(Some(Peer::Relay(identity))) = self.outcome else { return };
        if identity != peer().identity() {
            assert_eq!(identity.ed25519, forge::forger().identity(), "no other party has the relay's keys");
            assert!(
                responds(self.setting) || self.setting & 8 == 0,
                "the link accepts only the expected relay"
            );
            return;
        }
        if responds(self.setting) {
            let honest = &self.honest_sent;
            let end = end_of_authenticate(honest).expect("an honest peer has sent AUTHENTICATE");
            // The cell may contain ignored bytes after the signature. The cell's length field comes before the
            // signature.
            let differs = honest[..end].iter().zip(&self.sent).filter(|(one, other)| one != other).count();
            assert!(differs <= 2 && self.sent.len() >= end, "the accepted bytes differ from the signed ones");
        }
    }
}

/// Offset of the end of the AUTHENTICATE cell in the bytes that an initiator sent.
fn end_of_authenticate(sent: &[u8]) -> Option<usize> {
    let (mut at, mut ids) = (0, IdLen::Two);
    while let Front::Cell(frame, len) = front(&sent[at..], ids) {
        (at, ids) = (at + len, IdLen::Four);
        if frame.command == command::AUTHENTICATE {
            return Some(at);
        }
    }
    None
}

fn handshake_result(result: Result<Option<Established>, LinkFailure>) -> HandshakeResult {
    if let Err(failure) = &result {
        assert!(!failure.to_string().is_empty(), "a failure has a reason");
    }
    Ok(result?.map(|established| established.peer))
}

fn fixed(command: u8, body: &[u8]) -> Vec<u8> {
    let mut cell = Vec::new();
    push_fixed(&mut cell, command, body);
    cell
}

fn variable(command: u8, body: &[u8]) -> Vec<u8> {
    let mut cell = Vec::new();
    push_variable(&mut cell, IdLen::Four, command, body);
    cell
}

fn changed(mut cell: Vec<u8>, choices: &mut Choices<'_>) -> Vec<u8> {
    match choices.below(4) {
        0 => cell.truncate(choices.u16().into()),
        1 => cell.extend_from_slice(choices.bytes(255)),
        many => {
            for _ in 1..many {
                let place = usize::from(choices.u16()) % cell.len();
                cell[place] ^= choices.byte();
            }
        }
    }
    cell
}

fn netinfo(choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.flag() {
        return Netinfo { time: choices.u16().into(), yours: Some(OURS), mine: vec![THEIRS] }.write();
    }
    let mut body = vec![0; 4];
    for number in 0..choices.below(40) {
        if number == 1 {
            body.push(choices.byte());
        }
        let kind = *choices.of(&[4, 6, 0, 5]).expect("the list is not empty");
        let len = *choices.of(&[4, 16, 0, 255]).expect("the list is not empty");
        body.extend_from_slice(&[kind, len]);
        body.resize(body.len() + usize::from(len), choices.byte());
    }
    body.truncate(509);
    body
}

fn challenge(choices: &mut Choices<'_>) -> Vec<u8> {
    let methods = choices.below(8) as u16;
    let mut body = vec![7; 32];
    body.extend_from_slice(&methods.to_be_bytes());
    (0..methods).for_each(|_| body.extend_from_slice(&[0, choices.byte() % 5]));
    body.extend_from_slice(choices.bytes(255));
    body
}
