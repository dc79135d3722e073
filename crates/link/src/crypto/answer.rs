//! The relay's answer to a CREATE.

use super::tor1::Layer;
use super::{Refused, extensions, fast, ntor, ntor_v3};
use crate::cell::{Handshake, HandshakeKind};
use penstock_core::edge_control::Negotiation;
use rand_core::CryptoRng;
use std::fmt;
use tor_llcrypto::pk::curve25519::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// A relay's onion key for ntor and ntor-v3.
#[derive(Clone)]
pub struct OnionKey {
    /// The secret half.
    pub secret: StaticSecret,
    /// The public half, which is in the descriptor.
    pub public: PublicKey,
}

impl OnionKey {
    /// Makes a key with the fixed bits of RFC 7748 section 5; C tor rejects files with other keys.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *secret);
        secret[0] &= 248;
        secret[31] = secret[31] & 127 | 64;
        OnionKey::from(StaticSecret::from(*secret))
    }
}

impl From<StaticSecret> for OnionKey {
    fn from(secret: StaticSecret) -> Self {
        OnionKey { public: PublicKey::from(&secret), secret }
    }
}

impl fmt::Debug for OnionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnionKey({:?})", self.public)
    }
}

/// The identities and onion keys with which a relay answers.
#[derive(Clone, Debug)]
pub struct Identities {
    /// SHA-1 of its RSA identity key.
    pub rsa: [u8; 20],
    /// Its ed25519 identity key.
    pub ed25519: [u8; 32],
    /// Its onion keys: the present one, and the previous one for clients with an old descriptor.
    pub onion: Vec<OnionKey>,
}

/// An answered handshake, for the core's `on_handshake`.
#[derive(Debug)]
pub struct Answered {
    /// The reply.
    pub reply: Handshake,
    /// The relay's layer of the new circuit.
    pub layer: Layer,
    /// The result of the congestion control negotiation.
    pub negotiation: Negotiation,
}

/// Answers a CREATE. `agree` turns the client's request for congestion control into the relay's answer.
///
/// Source: C tor `onion_skin_server_handshake()`.
pub fn answer(
    rng: &mut impl CryptoRng,
    handshake: &Handshake,
    as_whom: &Identities,
    agree: impl FnOnce(Negotiation) -> Negotiation,
) -> Result<Answered, Refused> {
    let mut negotiation = Negotiation::Nothing;
    let message = &handshake.data[..];
    let (data, keys) = match handshake.kind {
        HandshakeKind::Fast => {
            let (reply, keys) = fast::answer(rng, message)?;
            (reply.to_vec(), keys)
        }
        HandshakeKind::Ntor => ntor::answer(rng, message, &as_whom.rsa, &as_whom.onion)?,
        HandshakeKind::NtorV3 => ntor_v3::answer(rng, message, &as_whom.ed25519, &as_whom.onion, |said| {
            negotiation = agree(extensions::asked(said).ok()?);
            Some(extensions::write(negotiation))
        })?,
        HandshakeKind::Other(_) => return Err(Refused::UnknownHandshake),
        HandshakeKind::Malformed => return Err(Refused::Malformed),
    };
    let mut secret = [0; 16];
    rng.fill_bytes(&mut secret);
    let reply = Handshake { kind: handshake.kind, data };
    Ok(Answered { reply, layer: Layer::relay(&keys, &secret), negotiation })
}
