//! ntor-v3: the ntor key exchange, with an encrypted message in each direction.
//!
//! Source: tor-spec, "The ntor-v3 handshake" (proposal 332).

use super::tor1::{KEY_MATERIAL, KeyMaterial};
use super::{OnionKey, Refused};
use crate::wire::Reader;
use cipher::{KeyIvInit, StreamCipher};
use digest::{Digest, ExtendableOutput, Update, XofReader};
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use tor_llcrypto::cipher::aes::Aes256Ctr;
use tor_llcrypto::d::{Sha3_256, Shake256, Shake256Reader};
use tor_llcrypto::pk::curve25519::{PublicKey, SharedSecret, StaticSecret};
use zeroize::Zeroizing;

const PROTOID: &str = "ntor3-curve25519-sha3_256-1";
const CIRCUITS: &[u8] = b"circuit extend";
/// Length of a key, a digest or a MAC [B].
const LEN: usize = 32;

/// The relay that a client addresses, by its ed25519 identity and onion key.
#[derive(Clone, Copy)]
struct Relay<'a> {
    identity: &'a [u8; LEN],
    key: &'a PublicKey,
}

/// Answers a client's `message`. Returns the reply and the keys. The callback `reply` gets the client's decrypted
/// message. It returns the relay's message, or `None` to refuse the handshake.
pub fn answer(
    rng: &mut impl CryptoRng,
    message: &[u8],
    identity: &[u8; LEN],
    keys: &[OnionKey],
    reply: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<(Vec<u8>, KeyMaterial), Refused> {
    let ephemeral = StaticSecret::random_from_rng(rng);
    let (answer, mut stream) = answer_with(ephemeral, message, identity, keys, CIRCUITS, reply)?;
    Ok((answer, material(&mut stream)))
}

fn answer_with(
    ephemeral: StaticSecret,
    message: &[u8],
    identity: &[u8; LEN],
    keys: &[OnionKey],
    verification: &[u8],
    reply: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<(Vec<u8>, Shake256Reader), Refused> {
    let (message, said_mac) = message.split_last_chunk::<LEN>().ok_or(Refused::Malformed)?;
    let mut reader = Reader::new(message);
    let (wanted_identity, wanted_key): ([u8; LEN], [u8; LEN]) = (reader.array()?, reader.array()?);
    let client: PublicKey = reader.array::<LEN>()?.into();
    let encrypted = reader.rest();
    let key = keys.iter().find(|key| bool::from(key.public.as_bytes().ct_eq(&wanted_key)));
    let key = key.filter(|_| bool::from(wanted_identity.ct_eq(identity))).ok_or(Refused::WrongKey)?;
    let relay = Relay { identity, key: &key.public };
    let xb = key.secret.diffie_hellman(&client);
    let (secret, mac) = first_phase(&xb, relay, &client, verification, |_| encrypted.to_vec());
    let ephemeral_public = PublicKey::from(&ephemeral);
    let xy = ephemeral.diffie_hellman(&client);
    if !bool::from(mac.ct_eq(said_mac)) || !(xy.was_contributory() & xb.was_contributory()) {
        return Err(Refused::Forged);
    }
    let reply = reply(&crypt(&secret, encrypted)).ok_or(Refused::Malformed)?;
    let last = Last::of([&xy, &xb], relay, &client, &ephemeral_public, verification);
    let encrypted = crypt(&last.secret, &reply);
    let auth = last.auth(relay, &client, &ephemeral_public, said_mac, &encrypted);
    Ok(([&ephemeral_public.as_bytes()[..], &auth, &encrypted].concat(), last.stream))
}

/// A client's handshake that waits for the relay's reply.
pub struct Client {
    identity: [u8; LEN],
    onion_key: PublicKey,
    secret: StaticSecret,
    shared: SharedSecret,
    mac: [u8; LEN],
    message: Vec<u8>,
    verification: &'static [u8],
}

impl Client {
    /// Starts a handshake with the relay that has this identity and onion key. `saying` is the message to encrypt.
    pub fn start(rng: &mut impl CryptoRng, identity: [u8; LEN], onion_key: PublicKey, saying: &[u8]) -> Self {
        Client::start_with(StaticSecret::random_from_rng(rng), identity, onion_key, saying, CIRCUITS)
    }

    fn start_with(
        secret: StaticSecret,
        identity: [u8; LEN],
        onion_key: PublicKey,
        saying: &[u8],
        verification: &'static [u8],
    ) -> Self {
        let public = PublicKey::from(&secret);
        let shared = secret.diffie_hellman(&onion_key);
        let relay = Relay { identity: &identity, key: &onion_key };
        let mut encrypted = Vec::new();
        let (_, mac) = first_phase(&shared, relay, &public, verification, |key| {
            encrypted = crypt(key, saying);
            encrypted.clone()
        });
        let message = [&identity[..], onion_key.as_bytes(), public.as_bytes(), &encrypted, &mac].concat();
        Client { identity, onion_key, secret, shared, mac, message, verification }
    }

    /// The message for the relay.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Checks the relay's reply. Returns the relay's decrypted message and the keys.
    pub fn finish(&self, answer: &[u8]) -> Result<(Vec<u8>, KeyMaterial), Refused> {
        let (said, mut stream) = self.finish_stream(answer)?;
        Ok((said, material(&mut stream)))
    }

    fn finish_stream(&self, answer: &[u8]) -> Result<(Vec<u8>, Shake256Reader), Refused> {
        let mut reader = Reader::new(answer);
        let ephemeral: PublicKey = reader.array::<LEN>()?.into();
        let said: [u8; LEN] = reader.array()?;
        let encrypted = reader.rest();
        let relay = Relay { identity: &self.identity, key: &self.onion_key };
        let public = PublicKey::from(&self.secret);
        let yx = self.secret.diffie_hellman(&ephemeral);
        let last = Last::of([&yx, &self.shared], relay, &public, &ephemeral, self.verification);
        let auth = last.auth(relay, &public, &ephemeral, &self.mac, encrypted);
        if !bool::from(auth.ct_eq(&said)) || !(yx.was_contributory() & self.shared.was_contributory()) {
            return Err(Refused::Forged);
        }
        Ok((crypt(&last.secret, encrypted), last.stream))
    }
}

/// Derives the key that encrypts the client's message, and the MAC. `encrypted` returns the ciphertext for this key.
fn first_phase(
    shared: &SharedSecret,
    relay: Relay<'_>,
    client: &PublicKey,
    verification: &[u8],
    encrypted: impl FnOnce(&[u8; LEN]) -> Vec<u8>,
) -> (Zeroizing<[u8; LEN]>, [u8; LEN]) {
    let mut kdf = Shake256::default();
    kdf.update(&tweak("kdf_phase1"));
    for part in [shared.as_bytes(), relay.identity, client.as_bytes(), relay.key.as_bytes()] {
        kdf.update(part);
    }
    kdf.update(PROTOID.as_bytes());
    kdf.update(&encapsulated(verification));
    let mut stream = kdf.finalize_xof();
    let (mut secret, mut mac_key) = (Zeroizing::new([0; LEN]), Zeroizing::new([0; LEN]));
    stream.read(&mut *secret);
    stream.read(&mut *mac_key);
    let mac = sha3(
        "msg_mac",
        [
            &Zeroizing::new(encapsulated(&mac_key[..]))[..],
            relay.identity,
            relay.key.as_bytes(),
            client.as_bytes(),
            &encrypted(&secret),
        ],
    );
    (secret, mac)
}

struct Last {
    verify: Zeroizing<[u8; LEN]>,
    secret: Zeroizing<[u8; LEN]>,
    /// Keystream for the keys of the circuit.
    stream: Shake256Reader,
}

impl Last {
    fn of(
        [xy, xb]: [&SharedSecret; 2],
        relay: Relay<'_>,
        client: &PublicKey,
        ephemeral: &PublicKey,
        verification: &[u8],
    ) -> Self {
        let input = Zeroizing::new(
            [
                &xy.as_bytes()[..],
                xb.as_bytes(),
                relay.identity,
                relay.key.as_bytes(),
                client.as_bytes(),
                ephemeral.as_bytes(),
                PROTOID.as_bytes(),
                &encapsulated(verification),
            ]
            .concat(),
        );
        let seed = Zeroizing::new(sha3("key_seed", [&input[..]]));
        let mut stream = Shake256::default().chain(tweak("kdf_final")).chain(&seed[..]).finalize_xof();
        let mut secret = Zeroizing::new([0; LEN]);
        stream.read(&mut *secret);
        Last { verify: Zeroizing::new(sha3("verify", [&input[..]])), secret, stream }
    }

    fn auth(
        &self,
        relay: Relay<'_>,
        client: &PublicKey,
        ephemeral: &PublicKey,
        mac: &[u8; LEN],
        encrypted: &[u8],
    ) -> [u8; LEN] {
        sha3(
            "auth_final",
            [
                &self.verify[..],
                relay.identity,
                relay.key.as_bytes(),
                ephemeral.as_bytes(),
                client.as_bytes(),
                mac,
                &encapsulated(encrypted),
                PROTOID.as_bytes(),
                b"Server",
            ],
        )
    }
}

fn material(stream: &mut impl XofReader) -> KeyMaterial {
    let mut keys = Zeroizing::new([0; KEY_MATERIAL]);
    stream.read(&mut *keys);
    keys
}

fn crypt(key: &[u8; LEN], data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    Aes256Ctr::new(key.into(), &Default::default()).apply_keystream(&mut data);
    data
}

fn encapsulated(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u64).to_be_bytes()[..], data].concat()
}

fn tweak(name: &str) -> Vec<u8> {
    encapsulated(format!("{PROTOID}:{name}").as_bytes())
}

fn sha3<const N: usize>(name: &str, parts: [&[u8]; N]) -> [u8; LEN] {
    let mut hash = Sha3_256::new_with_prefix(tweak(name));
    for part in parts {
        Digest::update(&mut hash, part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;

    fn array(text: &str) -> [u8; 32] {
        hex(text).try_into().unwrap()
    }

    /// From proposal 332's reference implementation, through tor-proto 0.47 (`test_ntor3_testvec`).
    #[test]
    fn the_handshake_matches_the_reference_vector() {
        let key = OnionKey::from(StaticSecret::from(array(
            "4051daa5921cfa2a1c27b08451324919538e79e788a81b38cbed097a5dff454a",
        )));
        let identity = array("9fad2af287ef942632833d21f946c6260c33fae6172b60006e86e4a6911753a2");
        let x = array("b825a3719147bcbe5fb1d0b0fcb9c09e51948048e2e3283d2ab7b45b5ef38b49").into();
        let y = array("4865a5b7689dafd978f529291c7171bc159be076b92186405d13220b80e2a053").into();
        let client = Client::start_with(x, identity, key.public, b"hello world", b"xyzzy");
        assert_eq!(
            client.message(),
            hex(
                "9fad2af287ef942632833d21f946c6260c33fae6172b60006e86e4a6911753a2f8307a2bc1870b00b828bb74dbb8fd88e632a637\
                 5ab3bcd1ae706aaa8b6cdd1d252fe9ae91264c91d4ecb8501f79d0387e34ad8ca0f7c995184f7d11d5da4f463bebd9151fd3b47c\
                 180abc9e044d53565f04d82bbb3bebed3d06cea65db8be9c72b68cd461942088502f67"
            )
        );
        let (reply, mut ours) = answer_with(y, client.message(), &identity, &[key], b"xyzzy", |extensions| {
            assert_eq!(extensions, b"hello world");
            Some(b"Hola Mundo".to_vec())
        })
        .unwrap();
        assert_eq!(
            reply,
            hex(
                "4bf4814326fdab45ad5184f5518bd7fae25dc59374062698201a50a22954246d2fc5f8773ca824542bc6cf6f57c7c29bbf4e5476\
                 461ab130c5b18ab0a91276651202c3e1e87c0d32054c"
            )
        );
        let (extensions, mut theirs) = client.finish_stream(&reply).unwrap();
        assert_eq!(extensions, b"Hola Mundo");
        let (mut a, mut b) = ([0; 48], [0; 48]);
        ours.read(&mut a);
        theirs.read(&mut b);
        assert_eq!(a, b);
        assert_eq!(
            a[..],
            hex(
                "9c19b631fd94ed86a817e01f6c80b0743a43f5faebd39cfaa8b00fa8bcc65c3bfeaa403d91acbd68a821bf6ee8504602"
            )
        );
    }

    #[test]
    fn both_ends_have_the_same_keys_and_read_the_extensions() {
        let mut rng = rand::rng();
        let key = OnionKey::generate(&mut rng);
        let client = Client::start(&mut rng, [3; 32], key.public, b"");
        let (reply, keys) = answer(&mut rng, client.message(), &[3; 32], &[key], |extensions| {
            Some([extensions, b"!"].concat())
        })
        .unwrap();
        assert_eq!(client.finish(&reply), Ok((b"!".to_vec(), keys)));
    }

    #[test]
    fn changed_and_truncated_messages_are_rejected() {
        let mut rng = rand::rng();
        let keys = [OnionKey::generate(&mut rng)];
        let client = Client::start(&mut rng, [3; 32], keys[0].public, b"some extension");
        let message = client.message().to_vec();
        let no_extensions = |_: &[u8]| Some(Vec::new());
        for place in 0..message.len() {
            let mut changed = message.clone();
            changed[place] ^= 1;
            let refused = answer(&mut rng, &changed, &[3; 32], &keys, no_extensions).unwrap_err();
            let expected = if place < 64 { Refused::WrongKey } else { Refused::Forged };
            assert_eq!(refused, expected, "byte {place}");
            assert!(answer(&mut rng, &message[..place], &[3; 32], &keys, no_extensions).is_err());
        }
        assert_eq!(answer(&mut rng, &message, &[3; 32], &keys, |_| None).unwrap_err(), Refused::Malformed);
        let (reply, _) = answer(&mut rng, &message, &[3; 32], &keys, |_| Some(vec![1, 2, 3])).unwrap();
        for place in 0..reply.len() {
            let mut changed = reply.clone();
            changed[place] ^= 1;
            assert_eq!(client.finish(&changed).unwrap_err(), Refused::Forged, "byte {place}");
            assert!(client.finish(&reply[..place]).is_err());
        }
    }
}
