//! Messages between a relay and the clients and services whose circuits meet at this relay: an introduction point or a
//! rendezvous point.
//!
//! Source: rend-spec-v3, "The introduction protocol" and "The rendezvous protocol". Only version 3 exists here.

use crate::wire::{Malformed, Reader};
use digest::Digest;
use penstock_core::cell::MAX_PAYLOAD;
use std::fmt;
use subtle::ConstantTimeEq;
use tor_llcrypto::d::Sha3_256;
use tor_llcrypto::pk::ed25519::{PublicKey, Signature};

/// The type of an authentication key that is an ed25519 key.
const ED25519: u8 = 2;
/// The extension of ESTABLISH_INTRO that limits introductions (proposal 305).
const DOS_PARAMS: u8 = 1;
const SIGNATURE_PREFIX: &[u8] = b"Tor establish-intro cell v1";
/// Length of the field for an obsolete key in INTRODUCE1 [B]. It is zero.
const LEGACY_KEY: usize = 20;

/// The value with which a client's rendezvous circuit is found.
pub type RendezvousCookie = [u8; 20];

/// The commands of these messages.
///
/// Source: tor-spec, "Relay cells".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OnionServiceCommand {
    /// A service asks this relay to be its introduction point.
    EstablishIntro = 32,
    /// A client asks this relay to be its rendezvous point.
    EstablishRendezvous = 33,
    /// A client sends a message for a service to its introduction point.
    Introduce1 = 34,
    /// The introduction point passes the message on to the service.
    Introduce2 = 35,
    /// A service asks the rendezvous point to join its circuit with the client's.
    Rendezvous1 = 36,
    /// The rendezvous point passes the service's handshake on to the client.
    Rendezvous2 = 37,
    /// Answers ESTABLISH_INTRO.
    IntroEstablished = 38,
    /// Answers ESTABLISH_RENDEZVOUS.
    RendezvousEstablished = 39,
    /// Answers INTRODUCE1.
    IntroduceAck = 40,
}

impl OnionServiceCommand {
    /// All commands.
    pub const ALL: [OnionServiceCommand; 9] = [
        OnionServiceCommand::EstablishIntro,
        OnionServiceCommand::EstablishRendezvous,
        OnionServiceCommand::Introduce1,
        OnionServiceCommand::Introduce2,
        OnionServiceCommand::Rendezvous1,
        OnionServiceCommand::Rendezvous2,
        OnionServiceCommand::IntroEstablished,
        OnionServiceCommand::RendezvousEstablished,
        OnionServiceCommand::IntroduceAck,
    ];

    /// The command with this number; `None` if it is of no onion service's protocol.
    pub fn of(number: u8) -> Option<Self> {
        OnionServiceCommand::ALL.into_iter().find(|command| *command as u8 == number)
    }
}

/// A message of an onion service's protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct OnionService {
    /// The command of the message.
    pub command: OnionServiceCommand,
    body: Box<[u8]>,
}

/// Logs show only the length of the body.
impl fmt::Debug for OnionService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} B)", self.command, self.body.len())
    }
}

/// The result of an INTRODUCE1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum IntroduceStatus {
    /// The service got the message.
    Success = 0,
    /// This relay is no introduction point of the service.
    UnknownService = 1,
    /// The message is malformed.
    Malformed = 2,
    /// The service cannot get the message now.
    CannotRelay = 3,
}

impl OnionService {
    /// A message with this body.
    ///
    /// # Panics
    ///
    /// If the body does not fit into a cell.
    pub fn new(command: OnionServiceCommand, body: &[u8]) -> Self {
        assert!(body.len() <= MAX_PAYLOAD.into(), "a body has {} B", body.len());
        OnionService { command, body: body.into() }
    }

    /// The body of the message.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The message with another command.
    #[must_use]
    pub fn with_command(self, command: OnionServiceCommand) -> Self {
        OnionService { command, ..self }
    }

    /// An INTRO_ESTABLISHED without extensions.
    pub fn intro_established() -> Self {
        OnionService::new(OnionServiceCommand::IntroEstablished, &[0])
    }

    /// An INTRODUCE_ACK without extensions.
    pub fn introduce_ack(status: IntroduceStatus) -> Self {
        let [high, low] = (status as u16).to_be_bytes();
        OnionService::new(OnionServiceCommand::IntroduceAck, &[high, low, 0])
    }
}

/// The limit of a service on its introductions (proposal 305).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntroLimit {
    /// Introductions in a second [1].
    pub rate: u32,
    /// Introductions at once [1].
    pub burst: u32,
}

/// The request of a service about the limit on its introductions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitRequest {
    /// The consensus decides.
    #[default]
    Consensus,
    /// No limit.
    Unlimited,
    /// This limit.
    Limit(IntroLimit),
}

impl LimitRequest {
    /// The limit that applies if the consensus has the limit `consensus`.
    pub fn limit(self, consensus: Option<IntroLimit>) -> Option<IntroLimit> {
        match self {
            LimitRequest::Consensus => consensus,
            LimitRequest::Unlimited => None,
            LimitRequest::Limit(limit) => Some(limit),
        }
    }
}

/// An ESTABLISH_INTRO of version 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstablishIntro {
    /// The key by which clients name the service at this introduction point.
    pub key: [u8; 32],
    /// The service's request about the limit of introductions.
    pub limit: LimitRequest,
}

impl EstablishIntro {
    /// Reads the body of an ESTABLISH_INTRO, and checks its MAC with the `nonce` of the circuit, and its signature.
    ///
    /// Source: C tor `verify_establish_intro_cell()`.
    pub fn read(body: &[u8], nonce: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let so_far = |reader: &Reader<'_>| &body[..body.len() - reader.len()];
        let key = auth_key(&mut reader)?;
        let mut limit = LimitRequest::default();
        for _ in 0..reader.u8()? {
            let (kind, len) = (reader.u8()?, reader.u8()?);
            let field = reader.take(len.into())?;
            if kind == DOS_PARAMS {
                limit = requested_limit(field).unwrap_or(limit);
            }
        }
        let expected = mac(nonce, so_far(&reader));
        let authentic = expected.ct_eq(&reader.array::<32>()?);
        let signed = [SIGNATURE_PREFIX, so_far(&reader)].concat();
        if reader.u16()? != 64 {
            return Err(Malformed);
        }
        let signature = Signature::from(reader.array::<64>()?);
        let public = PublicKey::from_bytes(&key).map_err(|_| Malformed)?;
        let is_signed = public.verify(&signed, &signature).is_ok();
        if bool::from(authentic) && is_signed { Ok(EstablishIntro { key, limit }) } else { Err(Malformed) }
    }
}

/// Reads an ed25519 authentication key.
fn auth_key(reader: &mut Reader<'_>) -> Result<[u8; 32], Malformed> {
    let (kind, len) = (reader.u8()?, reader.u16()?);
    if (kind, len) == (ED25519, 32) { reader.array() } else { Err(Malformed) }
}

/// Reads the extension that limits introductions. `None` for a malformed extension or one with an unknown parameter,
/// because the relay ignores such an extension. Invalid values remove the limit.
///
/// Source: C tor `handle_establish_intro_cell_dos_extension()`, `validate_cell_dos_extension_parameters()`.
fn requested_limit(field: &[u8]) -> Option<LimitRequest> {
    let mut reader = Reader::new(field);
    let (mut rate, mut burst) = (0, 0);
    for _ in 0..reader.u8().ok()? {
        let (kind, value) = (reader.u8().ok()?, u64::from_be_bytes(reader.array().ok()?));
        match kind {
            1 => rate = value,
            2 => burst = value,
            _ => return None,
        }
    }
    let valid = |value: u64| u32::try_from(value).ok().filter(|value| (1..=i32::MAX as u32).contains(value));
    let limit = valid(rate).zip(valid(burst)).filter(|(rate, burst)| burst >= rate);
    Some(match limit {
        Some((rate, burst)) => LimitRequest::Limit(IntroLimit { rate, burst }),
        None => LimitRequest::Unlimited,
    })
}

/// Source: rend-spec-v3, "Cryptographic building blocks" (MAC).
fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let length = (key.len() as u64).to_be_bytes();
    Sha3_256::new().chain_update(length).chain_update(key).chain_update(message).finalize().into()
}

/// The key of the service to which an INTRODUCE1 is addressed.
///
/// Source: C tor `validate_introduce1_parsed_cell()`.
pub fn introduced_key(body: &[u8]) -> Result<[u8; 32], Malformed> {
    let mut reader = Reader::new(body);
    if reader.array()? != [0; LEGACY_KEY] {
        return Err(Malformed);
    }
    let key = auth_key(&mut reader)?;
    for _ in 0..reader.u8()? {
        let (_, len) = (reader.u8()?, reader.u8()?);
        reader.take(len.into())?;
    }
    if reader.is_empty() { Err(Malformed) } else { Ok(key) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tor_llcrypto::pk::ed25519::Keypair;

    const CIRCUIT: [u8; 20] = [5; 20];

    fn keypair() -> Keypair {
        Keypair::from_bytes(&[7; 32])
    }

    /// An ESTABLISH_INTRO with these extensions.
    fn establish(extensions: &[(u8, &[u8])], nonce: &[u8]) -> Vec<u8> {
        let keys = keypair();
        let mut body =
            [&[ED25519, 0, 32], &keys.verifying_key().to_bytes()[..], &[extensions.len() as u8]].concat();
        for (kind, field) in extensions {
            body.extend_from_slice(&[&[*kind, field.len() as u8], *field].concat());
        }
        body.extend_from_slice(&mac(nonce, &body));
        let signature = keys.sign(&[SIGNATURE_PREFIX, &body].concat());
        [&body[..], &[0, 64], &signature.to_bytes()].concat()
    }

    /// The extension with a limit.
    fn limit(rate: u64, burst: u64) -> Vec<u8> {
        [&[2, 1][..], &rate.to_be_bytes(), &[2], &burst.to_be_bytes()].concat()
    }

    #[test]
    fn a_signed_message_for_this_circuit_is_accepted() {
        let body = establish(&[], &CIRCUIT);
        let key = keypair().verifying_key().to_bytes();
        assert_eq!(
            EstablishIntro::read(&body, &CIRCUIT),
            Ok(EstablishIntro { key, limit: LimitRequest::Consensus })
        );
        assert_eq!(EstablishIntro::read(&body, &[6; 20]), Err(Malformed), "it is of another circuit");
    }

    #[test]
    fn changed_and_truncated_messages_are_rejected() {
        let body = establish(&[(9, b"unknown"), (DOS_PARAMS, &limit(1, 2))], &CIRCUIT);
        assert!(EstablishIntro::read(&body, &CIRCUIT).is_ok());
        for place in 0..body.len() {
            let mut changed = body.clone();
            changed[place] ^= 1;
            assert_eq!(EstablishIntro::read(&changed, &CIRCUIT), Err(Malformed), "byte {place}");
            assert_eq!(EstablishIntro::read(&body[..place], &CIRCUIT), Err(Malformed), "{place} B");
        }
    }

    #[test]
    fn the_limit_is_as_in_c_tor() {
        let of = |field: &[u8]| {
            EstablishIntro::read(&establish(&[(DOS_PARAMS, field)], &CIRCUIT), &CIRCUIT).unwrap().limit
        };
        assert_eq!(of(&limit(25, 200)), LimitRequest::Limit(IntroLimit { rate: 25, burst: 200 }));
        assert_eq!(of(&limit(200, 200)), LimitRequest::Limit(IntroLimit { rate: 200, burst: 200 }));
        for (rate, burst) in [(0, 0), (0, 5), (5, 0), (6, 5), (1, 1 << 31), (u64::MAX, u64::MAX)] {
            assert_eq!(of(&limit(rate, burst)), LimitRequest::Unlimited, "{rate}, {burst}");
        }
        assert_eq!(of(&[0]), LimitRequest::Unlimited, "without parameters");
        assert_eq!(of(&[1, 3, 0, 0, 0, 0, 0, 0, 0, 1]), LimitRequest::Consensus, "an unknown parameter");
        assert_eq!(of(&limit(1, 2)[..12]), LimitRequest::Consensus, "truncated");
        assert_eq!(of(&[]), LimitRequest::Consensus);
    }

    #[test]
    fn an_introduce1_names_its_service() {
        let body =
            |legacy: u8, kind: u8, rest: &[u8]| [&[legacy; 20][..], &[kind, 0, 32], &[3; 32], rest].concat();
        assert_eq!(introduced_key(&body(0, ED25519, &[0, 1])), Ok([3; 32]));
        assert_eq!(introduced_key(&body(0, ED25519, &[1, 8, 2, 1, 1, 9])), Ok([3; 32]), "with an extension");
        for bad in [
            body(1, ED25519, &[0, 1]),
            body(0, 1, &[0, 1]),
            body(0, ED25519, &[0]),
            body(0, ED25519, &[1, 8, 3, 1, 1]),
            body(0, ED25519, &[]),
            Vec::new(),
        ] {
            assert_eq!(introduced_key(&bad), Err(Malformed));
        }
    }

    #[test]
    fn messages_keep_their_body() {
        for command in OnionServiceCommand::ALL {
            let message = OnionService::new(command, &[1, 2, 3]);
            assert_eq!(OnionServiceCommand::of(command as u8), Some(command));
            let written =
                super::super::write(None, &super::super::RelayMessage::OnionService(message.clone()));
            let read = super::super::read(&written);
            assert_eq!(read, Ok((None, super::super::RelayMessage::OnionService(message))));
        }
        assert_eq!(OnionService::introduce_ack(IntroduceStatus::CannotRelay).body(), [0, 3, 0]);
        assert_eq!(OnionServiceCommand::of(41), None);
    }
}
