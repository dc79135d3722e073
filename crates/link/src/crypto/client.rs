//! Circuit handshakes of a client: ntor, or ntor-v3 if the client requests congestion control.

use super::tor1::Layer;
use super::{Refused, extensions, ntor, ntor_v3};
use crate::cell::{Handshake, HandshakeKind};
use penstock_core::edge_control::Negotiation;
use rand_core::CryptoRng;
use std::fmt;
use tor_llcrypto::pk::curve25519::PublicKey;

/// The keys of a relay that a client needs for a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayKeys {
    /// SHA-1 of the RSA identity key.
    pub rsa: [u8; 20],
    /// Ed25519 identity key.
    pub ed25519: [u8; 32],
    /// Onion key for ntor.
    pub onion: [u8; 32],
}

/// A handshake that waits for the relay's reply.
pub struct ClientHandshake(Kind);

enum Kind {
    Ntor(ntor::Client),
    NtorV3(ntor_v3::Client),
}

impl fmt::Debug for ClientHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientHandshake")
    }
}

impl ClientHandshake {
    /// Starts a handshake with a relay. Returns the message for the relay. The handshake contains the request `ask`, and
    /// is ntor if there is none.
    ///
    /// Source: C tor `onion_skin_create()`.
    /// Deviation: without a request, C tor also uses ntor-v3 with relays that support it.
    pub fn start(rng: &mut impl CryptoRng, relay: &RelayKeys, ask: Negotiation) -> (Self, Handshake) {
        let onion = PublicKey::from(relay.onion);
        if ask != Negotiation::Nothing {
            let client = ntor_v3::Client::start(rng, relay.ed25519, onion, &extensions::write(ask));
            let message = Handshake { kind: HandshakeKind::NtorV3, data: client.message().to_vec() };
            (ClientHandshake(Kind::NtorV3(client)), message)
        } else {
            let client = ntor::Client::start(rng, relay.rsa, onion);
            let message = Handshake { kind: HandshakeKind::Ntor, data: client.message() };
            (ClientHandshake(Kind::Ntor(client)), message)
        }
    }

    /// Checks the relay's reply. Returns the client's layer for this relay, and the relay's answer to the request.
    ///
    /// # Errors
    ///
    /// If the reply is malformed, or is not from the relay with these keys.
    pub fn finish(
        self,
        rng: &mut impl CryptoRng,
        reply: &Handshake,
    ) -> Result<(Layer, Negotiation), Refused> {
        let (keys, answer) = match self.0 {
            Kind::Ntor(client) => (client.finish(&reply.data)?, Negotiation::Nothing),
            Kind::NtorV3(client) => {
                let (said, keys) = client.finish(&reply.data)?;
                (keys, extensions::granted(&said)?)
            }
        };
        let mut secret = [0; 16];
        rng.fill_bytes(&mut secret);
        Ok((Layer::client(&keys, &secret), answer))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Identities, OnionKey, answer};
    use super::*;
    use penstock_core::edge_control::Congestion;
    use std::num::NonZeroU8;

    #[test]
    fn a_relay_answers_both_kinds_of_handshake() {
        let mut rng = rand::rng();
        let key = OnionKey::generate(&mut rng);
        let keys = RelayKeys { rsa: [1; 20], ed25519: [2; 32], onion: *key.public.as_bytes() };
        let relay = Identities { rsa: keys.rsa, ed25519: keys.ed25519, onion: vec![key] };
        let granted = Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(31).unwrap());
        for (ask, expected) in
            [(Negotiation::Nothing, Negotiation::Nothing), (Negotiation::Asked(Congestion::Vegas), granted)]
        {
            let (client, message) = ClientHandshake::start(&mut rng, &keys, ask);
            let answered = answer(&mut rng, &message, &relay, |asked| {
                assert_eq!(asked, ask);
                granted
            });
            let (_, said) = client.finish(&mut rng, &answered.unwrap().reply).unwrap();
            assert_eq!(said, expected);
            let (client, _) = ClientHandshake::start(&mut rng, &keys, ask);
            let forged = Handshake { kind: HandshakeKind::Ntor, data: vec![7; 70] };
            assert!(client.finish(&mut rng, &forged).is_err());
        }
    }
}
