//! The keys of a relay, in memory.
//!
//! A relay has an RSA identity and an ed25519 identity. Authorities expect both identities to stay together. The
//! ed25519 identity certifies a signing key. After a change of the ntor onion key, the relay keeps the previous key for
//! some time. The RSA onion key is obsolete, but authorities refuse a descriptor without it. [`certs`](crate::certs)
//! generates the keys of links.

mod rotation;

use crate::crypto::{Identities, OnionKey};
use digest::Digest;
use rand_core::CryptoRng;
use std::fmt;
use std::time::SystemTime;
use tor_cert::{CertType, Ed25519Cert, EncodedCert};
use tor_checkable::{SelfSigned, TimeBound};
use tor_llcrypto::d::Sha256;
use tor_llcrypto::pk::ed25519::{Ed25519Identity, ExpandedKeypair, Keypair};
use tor_llcrypto::pk::rsa;

pub use rotation::{OnionDue, Rotation, SIGNING_LIFETIME, SIGNING_SLOP};

/// All long-term keys of a relay.
pub struct Keys {
    /// RSA identity key.
    pub rsa: rsa::KeyPair,
    /// Ed25519 identity key.
    pub master: ExpandedKeypair,
    /// Signing key with its certificate.
    pub signing: SigningKey,
    /// Current onion key.
    pub onion: OnionKey,
    /// Previous onion key, for clients with an old descriptor.
    pub old_onion: Option<OnionKey>,
    /// Time at which the current onion key was generated.
    pub onion_made: SystemTime,
    /// RSA onion key, which is obsolete.
    pub tap: rsa::KeyPair,
}

/// A signing key with its certificate by the ed25519 identity.
pub struct SigningKey {
    /// Key pair.
    pub key: ExpandedKeypair,
    /// Certificate, of type 4.
    pub cert: Vec<u8>,
    /// Time at which the certificate expires.
    pub expires: SystemTime,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys of {}", self.fingerprint())
    }
}

/// Generates an ed25519 key in the expanded form, which C tor also stores.
pub fn new_ed25519(rng: &mut impl CryptoRng) -> ExpandedKeypair {
    ExpandedKeypair::from(&Keypair::generate(rng))
}

/// Generates an RSA key of 1024 bits.
pub fn new_rsa(rng: &mut impl CryptoRng) -> rsa::KeyPair {
    rsa::KeyPair::generate(rng).expect("1024 bits and 65537 are values that RSA has")
}

impl SigningKey {
    /// Generates a key at `now`, with a certificate by `master`.
    pub fn new(rng: &mut impl CryptoRng, now: SystemTime, master: &ExpandedKeypair) -> Self {
        let key = new_ed25519(rng);
        let cert = Ed25519Cert::builder()
            .cert_type(CertType::IDENTITY_V_SIGNING)
            .expiration(now + SIGNING_LIFETIME)
            .signing_key(Ed25519Identity::from(master.public()))
            .cert_key(Ed25519Identity::from(key.public()).into())
            .encode_and_sign(master)
            .expect("every field of the certificate is set");
        SigningKey { key, cert: cert.encoded().to_vec(), expires: now + SIGNING_LIFETIME }
    }

    /// Combines a key and its certificate. Returns `None` if `cert` is not a certificate of `key` by `master`.
    pub fn certified(key: ExpandedKeypair, cert: &[u8], master: &ExpandedKeypair) -> Option<Self> {
        let checked = Ed25519Cert::decode(cert).ok()?;
        let checked = checked.should_be_signed_with(&Ed25519Identity::from(master.public())).ok()?;
        let checked = checked.check_signature().ok()?.dangerously_assume_timely();
        let is_subject = checked.subject_key().as_ed25519() == Some(&Ed25519Identity::from(key.public()));
        let fits = is_subject && checked.cert_type() == CertType::IDENTITY_V_SIGNING;
        fits.then(|| SigningKey { key, expires: checked.expiry(), cert: cert.to_vec() })
    }

    /// Whether the certificate remains valid for [`SIGNING_SLOP`] or longer.
    pub fn is_good(&self, now: SystemTime) -> bool {
        now + SIGNING_SLOP < self.expires
    }
}

impl Keys {
    /// Generates all keys, in memory only.
    pub fn generate(rng: &mut impl CryptoRng, now: SystemTime) -> Self {
        let master = new_ed25519(rng);
        Keys {
            rsa: new_rsa(rng),
            signing: SigningKey::new(rng, now, &master),
            master,
            onion: OnionKey::generate(rng),
            old_onion: None,
            onion_made: now,
            tap: new_rsa(rng),
        }
    }

    /// The change of the onion keys that is due at `now`, or the time of the next one.
    pub fn onion_due(&self, rotation: Rotation, now: SystemTime) -> OnionDue {
        rotation.due(now, self.onion_made, self.old_onion.is_some())
    }

    /// Whether the signing key remains valid for [`SIGNING_SLOP`] or longer.
    pub fn signing_is_good(&self, now: SystemTime) -> bool {
        self.signing.is_good(now)
    }

    /// Identities and onion keys for circuit handshakes.
    pub fn identities(&self) -> Identities {
        let onion = [Some(&self.onion), self.old_onion.as_ref()];
        Identities {
            rsa: self.rsa_identity(),
            ed25519: self.ed25519_identity(),
            onion: onion.into_iter().flatten().cloned().collect(),
        }
    }

    /// SHA-1 of the RSA identity key.
    pub fn rsa_identity(&self) -> [u8; 20] {
        self.rsa.to_public_key().to_rsa_identity().to_bytes()
    }

    /// SHA-256 of the RSA identity key, for AUTHENTICATE.
    pub fn rsa_identity_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.rsa.to_public_key().to_der()).into()
    }

    /// The ed25519 identity key.
    pub fn ed25519_identity(&self) -> [u8; 32] {
        self.master.public().to_bytes()
    }

    /// The RSA identity in hexadecimal digits. Operators identify their relay by this text.
    pub fn fingerprint(&self) -> String {
        self.rsa.to_public_key().to_rsa_identity().as_hex_upper()
    }
}
