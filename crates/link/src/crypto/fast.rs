//! CREATE_FAST: a key exchange without public keys, for the first hop over an authenticated link.
//!
//! Source: tor-spec, "CREATE_FAST/CREATED_FAST cells" and "KDF-TOR".

use super::Refused;
use super::tor1::{KEY_MATERIAL, KeyMaterial, NONCE};
use digest::Digest;
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use tor_llcrypto::d::Sha1;
use zeroize::Zeroizing;

/// Length of the random bytes of each node [B].
const HALF: usize = 20;

/// Answers a client's `message`. Returns the reply and the keys.
pub fn answer(rng: &mut impl CryptoRng, message: &[u8]) -> Result<([u8; 2 * HALF], KeyMaterial), Refused> {
    let theirs: [u8; HALF] = message.try_into().map_err(|_| Refused::Malformed)?;
    let mut ours = [0; HALF];
    rng.fill_bytes(&mut ours);
    Ok(derive(&theirs, ours))
}

/// A client's handshake that waits for the relay's reply.
#[derive(Clone)]
pub struct Client(Zeroizing<[u8; HALF]>);

impl Client {
    /// Starts a handshake. The caller then sends [`message`](Self::message).
    pub fn start(rng: &mut impl CryptoRng) -> Self {
        let mut ours = Zeroizing::new([0; HALF]);
        rng.fill_bytes(&mut *ours);
        Client(ours)
    }

    /// The message for the relay.
    pub fn message(&self) -> [u8; HALF] {
        *self.0
    }

    /// Checks the relay's reply and returns the keys.
    pub fn finish(&self, answer: &[u8]) -> Result<KeyMaterial, Refused> {
        let theirs: [u8; HALF] =
            answer.get(..HALF).ok_or(Refused::Malformed)?.try_into().expect("it has that length");
        let (expected, keys) = derive(&self.0, theirs);
        if bool::from(expected[..].ct_eq(answer)) { Ok(keys) } else { Err(Refused::Forged) }
    }
}

/// Computes the relay's reply and the keys. The reply proves that the relay has the keys.
fn derive(client: &[u8; HALF], relay: [u8; HALF]) -> ([u8; 2 * HALF], KeyMaterial) {
    let mut stream = Zeroizing::new(Vec::with_capacity(100));
    for n in 0..5 {
        stream.extend_from_slice(
            &Sha1::new().chain_update(client).chain_update(relay).chain_update([n]).finalize(),
        );
    }
    let mut answer = [0; 2 * HALF];
    answer[..HALF].copy_from_slice(&relay);
    answer[HALF..].copy_from_slice(&stream[..HALF]);
    let mut keys = Zeroizing::new([0; KEY_MATERIAL]);
    let (rest, nonce) = keys.split_at_mut(KEY_MATERIAL - NONCE);
    rest.copy_from_slice(&stream[HALF..HALF + rest.len()]);
    nonce.copy_from_slice(&stream[..HALF]);
    (answer, keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_same_keys() {
        let mut rng = rand::rng();
        let client = Client::start(&mut rng);
        let (reply, keys) = answer(&mut rng, &client.message()).unwrap();
        assert_eq!(client.finish(&reply), Ok(keys));
    }

    #[test]
    fn a_changed_or_truncated_answer_is_rejected() {
        let mut rng = rand::rng();
        let client = Client::start(&mut rng);
        let (reply, _) = answer(&mut rng, &client.message()).unwrap();
        for place in 0..reply.len() {
            let mut changed = reply;
            changed[place] ^= 1;
            assert_eq!(client.finish(&changed), Err(Refused::Forged));
            assert!(client.finish(&reply[..place]).is_err());
        }
        assert_eq!(answer(&mut rng, &[0; 19]), Err(Refused::Malformed));
    }

    /// The first 100 bytes of KDF-TOR of "Tor" start with these bytes; from tor-proto 0.47 (`testvec_kdf_tor`).
    #[test]
    fn the_keys_match_the_test_vector_of_kdf_tor() {
        let digest: [u8; 20] = Sha1::new().chain_update("Tor").chain_update([0]).finalize().into();
        assert_eq!(digest[..8], [0x77, 0x6c, 0x62, 0x14, 0xfc, 0x64, 0x7a, 0xaa]);
    }
}
