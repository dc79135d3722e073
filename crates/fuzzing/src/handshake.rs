//! Target `handshake`: the link handshake against a hostile peer. The peer changes, drops, repeats and reorders cells
//! of an honest peer, forges certificates, and sends arbitrary bytes in arbitrary pieces.

use super::choices::Choices;
use super::forge;
use super::people::{Person, chance, now, people};
use penstock_link::cell::{Front, IdLen, command, front, push_fixed, push_variable};
use penstock_link::certs::Netinfo;
use penstock_link::handshake::{Established, Expected, Link, LinkFailure, MAX_TOTAL, Peer};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

/// Result of a handshake: `Ok(None)` before its end, the peer, or a failure.
pub type Shaken = Result<Option<Peer>, LinkFailure>;

/// Maximum number of bytes in one call to the link, as from TLS [B].
const CHUNK: usize = 16 * 1024;
/// Maximum size of an incomplete cell: the longest padding and its header [B].
const MOST_HELD: usize = 64 * 1024 + 7;
/// Maximum number of bytes that the link sends in response to one call, mostly certificates [B].
const MOST_SAID: usize = 8 * 1024;

const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Sends any bytes to one side of a handshake.
///
/// # Panics
///
/// If the link uses too much memory, accepts bytes after its end, or depends on how the bytes are split. Also if the
/// link accepts a peer as a relay although the peer lacks the relay's keys.
pub fn handshake(input: &[u8]) -> Shaken {
    let mut choices = Choices::new(input);
    let mut rig = Rig::new(choices.byte());
    while !choices.is_over() && !rig.is_over() {
        rig.step(&mut choices);
    }
    rig.deliver();
    rig.check_whole();
    rig.check_identity();
    rig.outcome
}

struct Rig {
    setting: u8,
    link: Link,
    /// The honest peer. It receives the bytes that the tested link sends.
    honest: Option<Link>,
    coming: VecDeque<Vec<u8>>,
    honest_said: Vec<u8>,
    /// The bytes for the tested link, and the number of bytes already delivered.
    said: Vec<u8>,
    delivered: usize,
    last: Vec<u8>,
    now: SystemTime,
    exports: bool,
    /// Whether time and TLS did not change. Then the same bytes must give the same result.
    is_steady: bool,
    outcome: Shaken,
    over: bool,
}

/// The relay with the tested link.
fn me() -> &'static Person {
    &people()[0]
}

fn peer() -> &'static Person {
    &people()[1]
}

/// A TLS exporter that returns a fixed function of its context, or nothing.
fn export(exports: bool) -> impl Fn(&[u8; 32]) -> Option<[u8; 32]> {
    move |context| exports.then(|| context.map(|byte| byte ^ 0x5A))
}

/// The tested link. `setting` selects its side.
fn link(setting: u8) -> Link {
    let identity = peer().identity();
    let expected = Expected {
        rsa: (setting & 4 != 0).then_some(identity.rsa),
        ed25519: (setting & 8 != 0).then_some(identity.ed25519),
    };
    let certificate = peer().credentials.tls_sha256();
    match setting & 3 {
        0 | 3 => Link::respond(&mut chance(3), THEIRS, vec![OURS]),
        1 => Link::connect(expected, certificate, THEIRS, vec![OURS]),
        _ => Link::connect_as_client(expected, certificate, THEIRS),
    }
}

fn responds(setting: u8) -> bool {
    matches!(setting & 3, 0 | 3)
}

impl Rig {
    fn new(setting: u8) -> Self {
        let certificate = me().credentials.tls_sha256();
        let honest = match setting & 3 {
            0 => Link::connect(Expected::default(), certificate, OURS, vec![THEIRS]),
            3 => Link::connect_as_client(Expected::default(), certificate, OURS),
            _ => Link::respond(&mut chance(4), OURS, vec![THEIRS]),
        };
        let mut rig = Rig {
            setting,
            link: link(setting),
            honest: Some(honest),
            coming: VecDeque::new(),
            honest_said: Vec::new(),
            said: Vec::new(),
            delivered: 0,
            last: Vec::new(),
            now: now(),
            exports: true,
            is_steady: true,
            outcome: Ok(None),
            over: false,
        };
        rig.hear();
        rig
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0..=3 => {
                if let Some(cell) = self.honest_cell() {
                    self.say(cell);
                }
            }
            4 => {
                if let Some(cell) = self.honest_cell() {
                    self.say(changed(cell, choices));
                }
            }
            5 => drop(self.honest_cell()),
            6 => self.say(self.last.clone()),
            7 if choices.flag() => self.say(fixed(command::PADDING, &[])),
            7 => self.say(variable(command::VPADDING, &vec![0; choices.u16().into()])),
            8 => {
                let mut cell = Vec::new();
                push_variable(&mut cell, IdLen::Two, command::VERSIONS, choices.bytes(255));
                self.say(cell);
            }
            9 => self.say(fixed(command::NETINFO, &netinfo(choices))),
            10 => self.say(variable(command::CERTS, &forge::certs(choices, peer(), me()))),
            11 => self.say(variable(command::AUTH_CHALLENGE, &challenge(choices))),
            12 => self.say(choices.bytes(255).to_vec()),
            13 => {
                let (command, body) = (choices.byte(), choices.bytes(255));
                let variable_len = command::is_variable(command);
                self.say(if variable_len { variable(command, body) } else { fixed(command, body) });
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

    fn say(&mut self, cell: Vec<u8>) {
        self.said.extend_from_slice(&cell);
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
        while self.delivered < self.said.len() && !self.over {
            let end = self.said.len().min(self.delivered + CHUNK);
            let chunk = &self.said[self.delivered..end];
            let credentials = &me().credentials;
            let result =
                self.link.on_bytes(self.now, chunk, credentials, &export(self.exports), &mut chance(5));
            self.delivered = end;
            self.over = !matches!(result, Ok(None));
            assert_eq!(self.link.is_over(), self.over, "nothing is taken after the end");
            if result.is_ok() {
                let [held, to_say] = self.link.held();
                assert!(held <= MOST_HELD && to_say <= MOST_SAID, "it holds {held} and {to_say} B");
                assert!(self.delivered <= MAX_TOTAL + MOST_HELD, "nobody goes on for ever");
            }
            self.outcome = shaken(result);
            self.hear();
        }
    }

    fn hear(&mut self) {
        let heard = self.link.poll_output();
        let Some(honest) = &mut self.honest else { return };
        let credentials = &peer().credentials;
        let result = if heard.is_empty() {
            Ok(None)
        } else {
            honest.on_bytes(now(), &heard, credentials, &export(true), &mut chance(6))
        };
        let said = honest.poll_output();
        self.honest_said.extend_from_slice(&said);
        if !matches!(result, Ok(None)) {
            self.honest = None;
        }
        let mut rest = &said[..];
        while !rest.is_empty() {
            let is_first = rest.len() == said.len() && self.honest_said.len() == said.len();
            let ids = if is_first { IdLen::Two } else { IdLen::Four };
            let Front::Cell(_, len) = front(rest, ids) else { panic!("whoever is honest says whole cells") };
            let (cell, more) = rest.split_at(len);
            self.coming.push_back(cell.to_vec());
            rest = more;
        }
    }

    /// Checks that the same bytes give the same result in one piece.
    fn check_whole(&self) {
        if !self.is_steady {
            return;
        }
        let credentials = &me().credentials;
        let whole = &self.said[..self.delivered];
        let mut link = link(self.setting);
        let result = link.on_bytes(self.now, whole, credentials, &export(true), &mut chance(5));
        assert_eq!(shaken(result), self.outcome, "the same bytes in other pieces");
    }

    /// Checks that a peer that was accepted as a relay has the relay's keys.
    fn check_identity(&self) {
        let Ok(Some(Peer::Relay(identity))) = self.outcome else { return };
        if identity != peer().identity() {
            assert_eq!(identity.ed25519, forge::forger().identity(), "nobody else has keys");
            assert!(responds(self.setting) || self.setting & 8 == 0, "another one was meant");
            return;
        }
        if responds(self.setting) {
            let honest = &self.honest_said;
            let end = end_of_authenticate(honest).expect("an honest peer has said who it is");
            // The cell may contain ignored bytes after the signature. The cell's length field comes before the
            // signature.
            let differs = honest[..end].iter().zip(&self.said).filter(|(one, other)| one != other).count();
            assert!(differs <= 2 && self.said.len() >= end, "what was signed is not what was said");
        }
    }
}

/// Offset of the end of AUTHENTICATE in the bytes of an initiator.
fn end_of_authenticate(said: &[u8]) -> Option<usize> {
    let (mut at, mut ids) = (0, IdLen::Two);
    while let Front::Cell(frame, len) = front(&said[at..], ids) {
        (at, ids) = (at + len, IdLen::Four);
        if frame.command == command::AUTHENTICATE {
            return Some(at);
        }
    }
    None
}

fn shaken(result: Result<Option<Established>, LinkFailure>) -> Shaken {
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
        let kind = *choices.of(&[4, 6, 0, 5]).expect("there are some");
        let len = *choices.of(&[4, 16, 0, 255]).expect("there are some");
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
