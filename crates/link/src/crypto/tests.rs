//! Tests of a relay's answers and of the keys that result.

use super::tor1::Layer;
use super::*;
use crate::cell::{Handshake, HandshakeKind, LiveCell};
use penstock_core::edge_control::{Congestion, Negotiation};
use penstock_core::{Cell, CircId, Message};
use std::num::{NonZeroU8, NonZeroU32};

/// Decodes hexadecimal digits; skips other characters.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn relay() -> Identities {
    let mut rng = rand::rng();
    Identities {
        rsa: [1; 20],
        ed25519: [2; 32],
        onion: vec![OnionKey::generate(&mut rng), OnionKey::generate(&mut rng)],
    }
}

const ASKED: Negotiation = Negotiation::Asked(Congestion::Vegas);
const AGREED: Negotiation = Negotiation::Agreed(Congestion::Vegas, NonZeroU8::new(31).unwrap());

#[test]
fn after_each_handshake_both_ends_decrypt_each_other() {
    let (mut rng, relay) = (rand::rng(), relay());
    for kind in [HandshakeKind::Fast, HandshakeKind::Ntor, HandshakeKind::NtorV3] {
        let onion = relay.onion[1].public;
        let (fast, ntor) = (fast::Client::start(&mut rng), ntor::Client::start(&mut rng, [1; 20], onion));
        let v3 = ntor_v3::Client::start(&mut rng, [2; 32], onion, &extensions::write(ASKED));
        let data = match kind {
            HandshakeKind::Fast => fast.message().to_vec(),
            HandshakeKind::Ntor => ntor.message(),
            _ => v3.message().to_vec(),
        };
        let mut asked = None;
        let answered = answer(&mut rng, &Handshake { kind, data }, &relay, |asks| {
            asked = Some(asks);
            AGREED
        })
        .unwrap();
        let reply = &answered.reply.data;
        let keys = match kind {
            HandshakeKind::Fast => fast.finish(reply).unwrap(),
            HandshakeKind::Ntor => ntor.finish(reply).unwrap(),
            _ => {
                let (reply_extensions, keys) = v3.finish(reply).unwrap();
                assert_eq!((asked, extensions::granted(&reply_extensions)), (Some(ASKED), Ok(AGREED)));
                assert_eq!(answered.negotiation, AGREED);
                keys
            }
        };
        let (mut client, mut end) = (Layer::client(&keys, &[0; 16]), answered.layer);
        let mut cell = LiveCell::relay(CircId(NonZeroU32::MIN), None, Message::Xoff);
        let tag = cell.seal(&mut client);
        assert_eq!(cell.peel(&mut end), Some(tag));
        assert!(matches!(cell.into_message(), Some((None, Message::Xoff))));
    }
}

#[test]
fn an_unknown_handshake_is_rejected() {
    let (mut rng, relay) = (rand::rng(), relay());
    for (kind, refused) in [
        (HandshakeKind::Other(0), Refused::UnknownHandshake),
        (HandshakeKind::Other(4), Refused::UnknownHandshake),
        (HandshakeKind::Malformed, Refused::Malformed),
        (HandshakeKind::Fast, Refused::Malformed),
        (HandshakeKind::Ntor, Refused::Malformed),
        (HandshakeKind::NtorV3, Refused::Malformed),
    ] {
        let handshake = Handshake { kind, data: vec![0; 7] };
        assert_eq!(answer(&mut rng, &handshake, &relay, |_| AGREED).unwrap_err(), refused);
    }
}

#[test]
fn malformed_extensions_are_rejected() {
    let (mut rng, relay) = (rand::rng(), relay());
    let client = ntor_v3::Client::start(&mut rng, [2; 32], relay.onion[0].public, &[3, 1]);
    let handshake = Handshake { kind: HandshakeKind::NtorV3, data: client.message().to_vec() };
    assert_eq!(answer(&mut rng, &handshake, &relay, |_| AGREED).unwrap_err(), Refused::Malformed);
}
