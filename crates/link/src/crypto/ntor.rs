//! ntor: a key exchange that authenticates the relay by its identity and its onion key.
//!
//! Source: tor-spec, "The ntor handshake".

use super::tor1::{KEY_MATERIAL, KeyMaterial};
use super::{OnionKey, Refused};
use crate::wire::Reader;
use digest::Mac;
use hkdf::Hkdf;
use hmac::Hmac;
use rand_core::CryptoRng;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use tor_llcrypto::pk::curve25519::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

const PROTOID: &str = "ntor-curve25519-sha256-1";

/// Length of the relay's reply [B].
pub const ANSWER_LEN: usize = 64;

/// Answers a client's `message`. Returns the reply and the keys.
pub fn answer(
    rng: &mut impl CryptoRng,
    message: &[u8],
    identity: &[u8; 20],
    keys: &[OnionKey],
) -> Result<(Vec<u8>, KeyMaterial), Refused> {
    answer_with(StaticSecret::random_from_rng(rng), message, identity, keys)
}

fn answer_with(
    ephemeral: StaticSecret,
    message: &[u8],
    identity: &[u8; 20],
    keys: &[OnionKey],
) -> Result<(Vec<u8>, KeyMaterial), Refused> {
    let mut reader = Reader::new(message);
    let (wanted_identity, wanted_key): ([u8; 20], [u8; 32]) = (reader.array()?, reader.array()?);
    let client: PublicKey = reader.array::<32>()?.into();
    if !reader.is_empty() {
        return Err(Refused::Malformed);
    }
    let key = keys.iter().find(|key| bool::from(key.public.as_bytes().ct_eq(&wanted_key)));
    let key = key.filter(|_| bool::from(wanted_identity.ct_eq(identity))).ok_or(Refused::WrongKey)?;
    let ephemeral_public = PublicKey::from(&ephemeral);
    let (xy, xb) = (ephemeral.diffie_hellman(&client), key.secret.diffie_hellman(&client));
    if !(xy.was_contributory() & xb.was_contributory()) {
        return Err(Refused::Forged);
    }
    let shared = [xy.as_bytes(), xb.as_bytes()];
    let (auth, keys) = finish(shared, identity, &key.public, &client, &ephemeral_public);
    Ok(([&ephemeral_public.as_bytes()[..], &auth].concat(), keys))
}

/// A client's handshake that waits for the relay's reply.
pub struct Client {
    identity: [u8; 20],
    onion_key: PublicKey,
    secret: StaticSecret,
}

impl Client {
    /// Starts a handshake with the relay that has this identity and onion key.
    pub fn start(rng: &mut impl CryptoRng, identity: [u8; 20], onion_key: PublicKey) -> Self {
        Client { identity, onion_key, secret: StaticSecret::random_from_rng(rng) }
    }

    /// The message for the relay.
    pub fn message(&self) -> Vec<u8> {
        let public = PublicKey::from(&self.secret);
        [&self.identity[..], self.onion_key.as_bytes(), public.as_bytes()].concat()
    }

    /// Checks the relay's reply and returns the keys.
    pub fn finish(&self, answer: &[u8]) -> Result<KeyMaterial, Refused> {
        let mut reader = Reader::new(answer);
        let relay: PublicKey = reader.array::<32>()?.into();
        let said: [u8; 32] = reader.array()?;
        let (yx, bx) = (self.secret.diffie_hellman(&relay), self.secret.diffie_hellman(&self.onion_key));
        let shared = [yx.as_bytes(), bx.as_bytes()];
        let public = PublicKey::from(&self.secret);
        let (auth, keys) = finish(shared, &self.identity, &self.onion_key, &public, &relay);
        let good = auth.ct_eq(&said)
            & u8::from(yx.was_contributory() & bx.was_contributory() & reader.is_empty()).into();
        if bool::from(good) { Ok(keys) } else { Err(Refused::Forged) }
    }
}

fn finish(
    [xy, xb]: [&[u8; 32]; 2],
    identity: &[u8; 20],
    onion_key: &PublicKey,
    client: &PublicKey,
    relay: &PublicKey,
) -> ([u8; 32], KeyMaterial) {
    let (b, x, y) = (onion_key.as_bytes(), client.as_bytes(), relay.as_bytes());
    let secret_input = Zeroizing::new([&xy[..], xb, identity, b, x, y, PROTOID.as_bytes()].concat());
    let verify = Zeroizing::new(tweaked(":verify", &secret_input));
    let auth = tweaked(":mac", &[&verify[..], identity, b, y, x, PROTOID.as_bytes(), b"Server"].concat());
    let kdf = Hkdf::<Sha256>::new(Some(format!("{PROTOID}:key_extract").as_bytes()), &secret_input);
    let mut keys = Zeroizing::new([0; KEY_MATERIAL]);
    kdf.expand(format!("{PROTOID}:key_expand").as_bytes(), &mut *keys).expect("HKDF gives up to 8160 bytes");
    (auth, keys)
}

fn tweaked(tweak: &str, data: &[u8]) -> [u8; 32] {
    let mac = <Hmac<Sha256> as Mac>::new_from_slice(format!("{PROTOID}{tweak}").as_bytes());
    mac.expect("HMAC takes a key of any length").chain_update(data).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;

    fn secret(text: &str) -> StaticSecret {
        StaticSecret::from(<[u8; 32]>::try_from(hex(text)).unwrap())
    }

    /// From tor-proto 0.47 (`ntor::testvec`), which took it from C tor's reference implementation.
    #[test]
    fn the_handshake_matches_the_reference_vector() {
        let key = OnionKey::from(secret("4820544f4c4420594f5520444f474954204b454550532048415050454e494e47"));
        let identity: [u8; 20] = hex("69546f6c64596f7541626f75745374616972732e").try_into().unwrap();
        let client = Client {
            identity,
            onion_key: key.public,
            secret: secret("706f6461792069207075742e2e2e2e2e2e2e2e4a454c4c59206f6e2074686973"),
        };
        let message = client.message();
        assert_eq!(
            message,
            hex(
                "69546f6c64596f7541626f75745374616972732eccbc8541904d18af08753eae967874749e6149f873de937f57f8fd903a21c471\
                 e65dfdbef8b2635837fe2cebc086a8096eae3213e6830dc407516083d412b078"
            )
        );
        let ephemeral = secret("70686520737175697272656c2e2e2e2e2e2e2e2e686173206869732067616d65");
        let (reply, keys) = answer_with(ephemeral, &message, &identity, &[key]).unwrap();
        assert_eq!(
            reply,
            hex(
                "390480a14362761d6aec1fea840f6e9e928fb2adb7b25c670be1045e35133a371cbdf68b89923e1f85e8e18ee6e805ea333fe484\
                 9c790ffd2670bd80fec95cc8"
            )
        );
        assert_eq!(
            keys[..72],
            hex(
                "0c62dee7f48893370d0ef896758d35729867beef1a5121df80e00f79ed349af39b51cae125719182f19d932a667dae1afbf2e336\
                 e6910e7822223e763afad0a13342157969dc6b79"
            )[..]
        );
        assert_eq!(client.finish(&reply), Ok(keys));
    }

    #[test]
    fn each_onion_key_of_the_relay_answers_and_no_other_key() {
        let mut rng = rand::rng();
        let keys: Vec<_> = (0..3).map(|_| OnionKey::generate(&mut rng)).collect();
        for (n, key) in keys.iter().enumerate() {
            let client = Client::start(&mut rng, [7; 20], key.public);
            let (reply, material) = answer(&mut rng, &client.message(), &[7; 20], &keys).unwrap();
            assert_eq!(client.finish(&reply), Ok(material));
            let others: Vec<_> =
                keys.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, key)| key.clone()).collect();
            assert_eq!(
                answer(&mut rng, &client.message(), &[7; 20], &others).unwrap_err(),
                Refused::WrongKey
            );
            assert_eq!(answer(&mut rng, &client.message(), &[8; 20], &keys).unwrap_err(), Refused::WrongKey);
        }
    }

    #[test]
    fn changed_and_truncated_messages_are_rejected() {
        let mut rng = rand::rng();
        let key = OnionKey::generate(&mut rng);
        let client = Client::start(&mut rng, [7; 20], key.public);
        let (reply, _) = answer(&mut rng, &client.message(), &[7; 20], std::slice::from_ref(&key)).unwrap();
        for place in 0..reply.len() {
            let mut changed = reply.clone();
            changed[place] ^= 1;
            assert_eq!(client.finish(&changed), Err(Refused::Forged), "byte {place}");
        }
        for len in 0..84 {
            let cut = &client.message()[..len];
            assert_eq!(
                answer(&mut rng, cut, &[7; 20], std::slice::from_ref(&key)).unwrap_err(),
                Refused::Malformed
            );
        }
        assert!(client.finish(&[&reply[..], &[0]].concat()).is_err());
        let zero = [&[7; 20], &key.public.as_bytes()[..], &[0; 32]].concat();
        assert_eq!(
            answer(&mut rng, &zero, &[7; 20], &[key]).unwrap_err(),
            Refused::Forged,
            "a key of small order"
        );
    }
}
