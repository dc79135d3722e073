//! The keys of a relay.
//!
//! An RSA identity and an ed25519 identity, which authorities know together; a signing key that the latter certifies; onion
//! keys for ntor, the present one and for some time the one before; and an RSA onion key that nobody uses, because
//! authorities refuse descriptors without one. Keys of links are not kept: [`certs`](crate::certs) makes them.

mod disk;
mod error;
mod rotation;

#[cfg(test)]
mod tests;

use crate::crypto::{Identities, OnionKey};
use digest::Digest;
use disk::{Folder, Tag, rsa_pem};
use rand_core::CryptoRng;
use std::fmt;
use std::path::Path;
use std::time::SystemTime;
use tor_cert::{CertType, Ed25519Cert, EncodedCert};
use tor_checkable::{SelfSigned, TimeBound};
use tor_llcrypto::d::Sha256;
use tor_llcrypto::pk::curve25519::StaticSecret;
use tor_llcrypto::pk::ed25519::{Ed25519Identity, ExpandedKeypair, Keypair};
use tor_llcrypto::pk::rsa;

pub use error::KeyError;
pub use rotation::{OnionDue, Rotation, SIGNING_LIFETIME, SIGNING_SLOP};

/// Names of files in the folder `keys`.
mod name {
    pub(super) const RSA_IDENTITY: &str = "secret_id_key";
    pub(super) const MASTER: &str = "ed25519_master_id_secret_key";
    pub(super) const MASTER_PUBLIC: &str = "ed25519_master_id_public_key";
    pub(super) const SIGNING: &str = "ed25519_signing_secret_key";
    pub(super) const SIGNING_CERT: &str = "ed25519_signing_cert";
    pub(super) const ONION: &str = "secret_onion_key_ntor";
    pub(super) const ONION_OLD: &str = "secret_onion_key_ntor.old";
    pub(super) const TAP: &str = "secret_onion_key";
    pub(super) const TAP_OLD: &str = "secret_onion_key.old";
}

const MASTER_TAG: Tag = Tag("ed25519v1-secret: type0");
const MASTER_PUBLIC_TAG: Tag = Tag("ed25519v1-public: type0");
const SIGNING_TAG: Tag = Tag("ed25519v1-secret: type4");
const SIGNING_CERT_TAG: Tag = Tag("ed25519v1-cert: type4");
const ONION_TAG: Tag = Tag("c25519v1: onion");

/// All keys of a relay that outlive it.
pub struct Keys {
    rsa: rsa::KeyPair,
    master: ExpandedKeypair,
    signing: Signing,
    onion: OnionKey,
    old_onion: Option<OnionKey>,
    onion_made: SystemTime,
    tap: rsa::KeyPair,
}

/// The signing key, and the master key's word for it.
struct Signing {
    key: ExpandedKeypair,
    /// Certificate of type 4.
    cert: Vec<u8>,
    expires: SystemTime,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys of {}", self.fingerprint())
    }
}

/// Opens a folder for its owner alone, or makes it.
///
/// # Errors
///
/// If there is none and none can be made, or others can read it.
pub fn open_folder(path: &Path) -> Result<(), KeyError> {
    Folder::open(path).map(drop)
}

/// Makes an ed25519 key in the expanded form, as C tor keeps it.
pub fn new_ed25519(rng: &mut impl CryptoRng) -> ExpandedKeypair {
    ExpandedKeypair::from(&Keypair::generate(rng))
}

fn new_rsa(rng: &mut impl CryptoRng) -> rsa::KeyPair {
    rsa::KeyPair::generate(rng).expect("1024 bits and 65537 are values that RSA has")
}

impl Signing {
    fn new(rng: &mut impl CryptoRng, now: SystemTime, master: &ExpandedKeypair) -> Self {
        let key = new_ed25519(rng);
        let cert = Ed25519Cert::builder()
            .cert_type(CertType::IDENTITY_V_SIGNING)
            .expiration(now + SIGNING_LIFETIME)
            .signing_key(Ed25519Identity::from(master.public()))
            .cert_key(Ed25519Identity::from(key.public()).into())
            .encode_and_sign(master)
            .expect("every field of the certificate is set");
        Signing { key, cert: cert.encoded().to_vec(), expires: now + SIGNING_LIFETIME }
    }

    fn is_good(&self, now: SystemTime) -> bool {
        now + SIGNING_SLOP < self.expires
    }
}

impl Keys {
    /// New ones, in memory alone.
    pub fn generate(rng: &mut impl CryptoRng, now: SystemTime) -> Self {
        let master = new_ed25519(rng);
        Keys {
            rsa: new_rsa(rng),
            signing: Signing::new(rng, now, &master),
            master,
            onion: OnionKey::generate(rng),
            old_onion: None,
            onion_made: now,
            tap: new_rsa(rng),
        }
    }

    /// Those in `folder`; what is not there yet is made and written. The signing key is made anew when its certificate
    /// has less than [`SIGNING_SLOP`] left.
    pub fn load_or_create(
        folder: &Path,
        rng: &mut impl CryptoRng,
        now: SystemTime,
    ) -> Result<Self, KeyError> {
        let folder = Folder::open(folder)?;
        let (rsa, master) = match (folder.has(name::RSA_IDENTITY), folder.has(name::MASTER)) {
            (true, true) => {
                (folder.read_rsa(name::RSA_IDENTITY)?, folder.read_ed25519(name::MASTER, MASTER_TAG)?)
            }
            (true, false) => return Err(KeyError::HalfIdentity(folder.path(name::MASTER))),
            (false, true) => return Err(KeyError::HalfIdentity(folder.path(name::RSA_IDENTITY))),
            (false, false) => {
                let (rsa, master) = (new_rsa(rng), new_ed25519(rng));
                folder.create(name::RSA_IDENTITY, rsa_pem(&rsa).as_bytes())?;
                folder.create(name::MASTER, &MASTER_TAG.file(&master.to_secret_key_bytes()))?;
                (rsa, master)
            }
        };
        check_public(&folder, &master)?;
        let signing = load_signing(&folder, &master)?.filter(|signing| signing.is_good(now));
        let signing = match signing {
            Some(signing) => signing,
            None => new_signing(&folder, rng, now, &master)?,
        };
        if !folder.has(name::ONION) {
            folder.create(name::ONION, &onion_file(&OnionKey::generate(rng)))?;
        }
        if !folder.has(name::TAP) {
            folder.create(name::TAP, rsa_pem(&new_rsa(rng)).as_bytes())?;
        }
        let old = folder.has(name::ONION_OLD).then(|| load_onion(&folder, name::ONION_OLD));
        Ok(Keys {
            rsa,
            master,
            signing,
            onion: load_onion(&folder, name::ONION)?,
            old_onion: old.transpose()?,
            onion_made: folder.modified(name::ONION)?,
            tap: folder.read_rsa(name::TAP)?,
        })
    }

    /// What is to be done about onion keys at `now`.
    pub fn onion_due(&self, rotation: Rotation, now: SystemTime) -> OnionDue {
        rotation.due(now, self.onion_made, self.old_onion.is_some())
    }

    /// Makes new onion keys in `folder`; the present ones become the old ones.
    pub fn rotate_onion(
        &mut self,
        folder: &Path,
        rng: &mut impl CryptoRng,
        now: SystemTime,
    ) -> Result<(), KeyError> {
        let folder = Folder::open(folder)?;
        let (onion, tap) = (OnionKey::generate(rng), new_rsa(rng));
        folder.rename(name::ONION, name::ONION_OLD)?;
        folder.create(name::ONION, &onion_file(&onion))?;
        folder.rename(name::TAP, name::TAP_OLD)?;
        folder.create(name::TAP, rsa_pem(&tap).as_bytes())?;
        self.old_onion = Some(std::mem::replace(&mut self.onion, onion));
        (self.tap, self.onion_made) = (tap, now);
        Ok(())
    }

    /// Forgets the onion keys before the present ones.
    pub fn forget_old_onion(&mut self, folder: &Path) -> Result<(), KeyError> {
        let folder = Folder::open(folder)?;
        folder.remove(name::ONION_OLD)?;
        folder.remove(name::TAP_OLD)?;
        self.old_onion = None;
        Ok(())
    }

    /// Whether the signing key will be good for another [`SIGNING_SLOP`].
    pub fn signing_is_good(&self, now: SystemTime) -> bool {
        self.signing.is_good(now)
    }

    /// Makes a new signing key in place of the present one.
    pub fn renew_signing(
        &mut self,
        folder: &Path,
        rng: &mut impl CryptoRng,
        now: SystemTime,
    ) -> Result<(), KeyError> {
        self.signing = new_signing(&Folder::open(folder)?, rng, now, &self.master)?;
        Ok(())
    }

    /// As whom circuits' handshakes are answered.
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

    /// SHA-256 of the RSA identity key, as AUTHENTICATE has it.
    pub fn rsa_identity_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.rsa.to_public_key().to_der()).into()
    }

    /// The ed25519 identity key.
    pub fn ed25519_identity(&self) -> [u8; 32] {
        self.master.public().to_bytes()
    }

    /// The RSA identity in hexadecimal digits, as operators know their relay.
    pub fn fingerprint(&self) -> String {
        self.rsa.to_public_key().to_rsa_identity().as_hex_upper()
    }

    /// The RSA identity key.
    pub fn rsa(&self) -> &rsa::KeyPair {
        &self.rsa
    }
    pub(crate) fn signing(&self) -> &ExpandedKeypair {
        &self.signing.key
    }
    pub(crate) fn signing_cert(&self) -> &[u8] {
        &self.signing.cert
    }
    /// When the certificate of the signing key ends.
    pub fn signing_expires(&self) -> SystemTime {
        self.signing.expires
    }
    /// The present onion key.
    pub fn onion(&self) -> &OnionKey {
        &self.onion
    }
    pub(crate) fn tap(&self) -> &rsa::KeyPair {
        &self.tap
    }
}

/// The public half is there for operators and their programs; it is written if it is missing.
fn check_public(folder: &Folder, master: &ExpandedKeypair) -> Result<(), KeyError> {
    let public = master.public().to_bytes();
    if !folder.has(name::MASTER_PUBLIC) {
        return folder.create(name::MASTER_PUBLIC, &MASTER_PUBLIC_TAG.file(&public));
    }
    let said = folder.read_tagged(name::MASTER_PUBLIC, MASTER_PUBLIC_TAG, 32)?;
    if said[..] == public {
        Ok(())
    } else {
        Err(folder.malformed(name::MASTER_PUBLIC, "the public half of ed25519_master_id_secret_key"))
    }
}

/// The signing key, if key and certificate are there; what is there must fit.
fn load_signing(folder: &Folder, master: &ExpandedKeypair) -> Result<Option<Signing>, KeyError> {
    if !folder.has(name::SIGNING) || !folder.has(name::SIGNING_CERT) {
        return Ok(None);
    }
    let key = folder.read_ed25519(name::SIGNING, SIGNING_TAG)?;
    let cert = folder.read_tagged(name::SIGNING_CERT, SIGNING_CERT_TAG, 0)?;
    let fail =
        || folder.malformed(name::SIGNING_CERT, "the master key's certificate of ed25519_signing_secret_key");
    let checked = Ed25519Cert::decode(&cert).map_err(|_| fail())?;
    let checked =
        checked.should_be_signed_with(&Ed25519Identity::from(master.public())).map_err(|_| fail())?;
    let checked = checked.check_signature().map_err(|_| fail())?.dangerously_assume_timely();
    let subject = checked.subject_key().as_ed25519() == Some(&Ed25519Identity::from(key.public()));
    if !subject || checked.cert_type() != CertType::IDENTITY_V_SIGNING {
        return Err(fail());
    }
    Ok(Some(Signing { key, expires: checked.expiry(), cert: cert.to_vec() }))
}

fn new_signing(
    folder: &Folder,
    rng: &mut impl CryptoRng,
    now: SystemTime,
    master: &ExpandedKeypair,
) -> Result<Signing, KeyError> {
    let signing = Signing::new(rng, now, master);
    // A key without its certificate is made anew at the next start.
    folder.remove(name::SIGNING_CERT)?;
    folder.replace(name::SIGNING, &SIGNING_TAG.file(&signing.key.to_secret_key_bytes()))?;
    folder.replace(name::SIGNING_CERT, &SIGNING_CERT_TAG.file(&signing.cert))?;
    Ok(signing)
}

fn onion_file(key: &OnionKey) -> zeroize::Zeroizing<Vec<u8>> {
    let secret = zeroize::Zeroizing::new(key.secret.to_bytes());
    ONION_TAG.file(&zeroize::Zeroizing::new([&secret[..], key.public.as_bytes()].concat()))
}

fn load_onion(folder: &Folder, name: &str) -> Result<OnionKey, KeyError> {
    let content = folder.read_tagged(name, ONION_TAG, 64)?;
    let secret: [u8; 32] = content[..32].try_into().expect("it was cut to that length");
    let key = OnionKey::from(StaticSecret::from(secret));
    if key.public.as_bytes()[..] == content[32..] {
        Ok(key)
    } else {
        Err(folder.malformed(name, "an onion key with its public half"))
    }
}
