//! Target `onion_service`: the messages that an introduction point reads.

use super::choices::Choices;
use digest::Digest;
use penstock_link::cell::{EstablishIntro, LimitRequest, introduced_key};
use std::sync::LazyLock;
use tor_llcrypto::d::Sha3_256;
use tor_llcrypto::pk::ed25519::Keypair;

/// The nonce of the circuit.
const NONCE: [u8; 20] = [5; 20];

/// The kind of message in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// A valid ESTABLISH_INTRO. Whether it contains a limit of introductions.
    Service(bool),
    /// An INTRODUCE1 that names a service.
    Client,
    /// Malformed.
    Malformed,
}

/// Reads any bytes as an INTRODUCE1 or ESTABLISH_INTRO. The first byte selects the message and whether the bytes get a
/// valid MAC and signature.
///
/// # Panics
///
/// If bytes without a valid MAC and signature are accepted, or if bytes after an INTRODUCE1's header change its key.
pub fn onion_service(input: &[u8]) -> Meeting {
    let mut choices = Choices::new(input);
    match choices.byte() % 4 {
        0 => client(choices.rest()),
        1 => {
            assert!(EstablishIntro::read(choices.rest(), &NONCE).is_err(), "only the target signs");
            Meeting::Malformed
        }
        damage => service(&mut choices, damage == 3),
    }
}

fn client(body: &[u8]) -> Meeting {
    let Ok(key) = introduced_key(body) else { return Meeting::Malformed };
    assert_eq!(introduced_key(&[body, &[0]].concat()), Ok(key), "the encrypted part is not read");
    Meeting::Client
}

/// An ESTABLISH_INTRO with these extensions, signed, and then perhaps damaged.
fn service(choices: &mut Choices<'_>, is_damaged: bool) -> Meeting {
    static SERVICE: LazyLock<Keypair> = LazyLock::new(|| Keypair::from_bytes(&[7; 32]));
    let (place, change) = (usize::from(choices.u16()), choices.byte());
    let key = SERVICE.verifying_key().to_bytes();
    let mut body = [&[2, 0, 32], &key[..], choices.rest()].concat();
    let mac = Sha3_256::new().chain_update(20u64.to_be_bytes()).chain_update(NONCE).chain_update(&body);
    body.extend_from_slice(&mac.finalize());
    let signature = SERVICE.sign(&[b"Tor establish-intro cell v1", &body[..]].concat());
    body.extend_from_slice(&[&[0, 64], &signature.to_bytes()[..]].concat());
    let sound = EstablishIntro::read(&body, &NONCE);
    if is_damaged {
        let place = place % body.len();
        body[place] ^= change;
        let accepted = EstablishIntro::read(&body, &NONCE).is_ok();
        assert!(change == 0 || !accepted, "byte {place} is signed");
    }
    match sound {
        Ok(asked) => {
            assert_eq!(asked.key, key);
            Meeting::Service(asked.limit != LimitRequest::Consensus)
        }
        Err(_) => Meeting::Malformed,
    }
}
