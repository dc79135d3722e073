//! Answers circuit handshakes of any type, as a relay.

use super::tor1::Layer;
use super::{Refused, extensions, fast, ntor, ntor_v3};
use crate::cell::{Handshake, HandshakeKind};
use penstock_core::edge_control::Negotiation;
use rand_core::CryptoRng;
use std::fmt;
use tor_llcrypto::pk::curve25519::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// Onion key of a relay, for ntor and ntor-v3.
#[derive(Clone)]
pub struct OnionKey {
    /// Secret key.
    pub secret: StaticSecret,
    /// Public key, which is in the server descriptor.
    pub public: PublicKey,
}

impl OnionKey {
    /// Generates a key and clamps it as in RFC 7748 section 5. C tor rejects key files with unclamped keys.
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

/// The identities and onion keys that a relay needs for circuit handshakes.
#[derive(Clone, Debug)]
pub struct Identities {
    /// SHA-1 of the RSA identity key.
    pub rsa: [u8; 20],
    /// Ed25519 identity key.
    pub ed25519: [u8; 32],
    /// Onion keys: the current key, then the previous key for clients with an old descriptor.
    pub onion: Vec<OnionKey>,
}

/// A handshake that the relay accepted: the reply, and the state of the new circuit.
#[derive(Debug)]
pub struct Answered {
    /// Reply to the client.
    pub reply: Handshake,
    /// Encryption layer of this relay on the new circuit.
    pub layer: Layer,
    /// Result of the congestion control negotiation.
    pub negotiation: Negotiation,
}

/// Answers a handshake message of a client. `agree` receives the client's request for congestion control, and returns
/// the relay's answer.
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
