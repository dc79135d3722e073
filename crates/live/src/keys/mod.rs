//! The keys of a relay in files. Names, formats and permissions are those of C tor.

mod error;
mod folder;

#[cfg(test)]
mod tests;

use folder::{Folder, Tag, rsa_pem};
use penstock_link::crypto::OnionKey;
use penstock_link::keys::{Keys, SigningKey, new_ed25519, new_rsa};
use rand::CryptoRng;
use std::path::Path;
use std::time::SystemTime;
use tor_llcrypto::pk::curve25519::StaticSecret;
use tor_llcrypto::pk::ed25519::ExpandedKeypair;

pub use error::KeyError;

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

    pub(super) const ALL: [&str; 9] =
        [RSA_IDENTITY, MASTER, MASTER_PUBLIC, SIGNING, SIGNING_CERT, ONION, ONION_OLD, TAP, TAP_OLD];
}

const MASTER_TAG: Tag = Tag("ed25519v1-secret: type0");
const MASTER_PUBLIC_TAG: Tag = Tag("ed25519v1-public: type0");
const SIGNING_TAG: Tag = Tag("ed25519v1-secret: type4");
const SIGNING_CERT_TAG: Tag = Tag("ed25519v1-cert: type4");
const ONION_TAG: Tag = Tag("c25519v1: onion");

/// Opens a folder. Creates a missing folder with access for its owner only.
///
/// # Errors
///
/// If the folder cannot be created, or other users can read it.
pub fn open_folder(path: &Path) -> Result<(), KeyError> {
    Folder::open(path).map(drop)
}

/// Loads the keys in `folder`. Creates missing keys. Renews the signing key if its certificate expires soon.
///
/// # Errors
///
/// If a file cannot be read or written, is malformed, or can be read by other users.
pub fn load_or_create(folder: &Path, rng: &mut impl CryptoRng, now: SystemTime) -> Result<Keys, KeyError> {
    let folder = Folder::open(folder)?;
    let (rsa, master) = identity(&folder, rng)?;
    check_public(&folder, &master)?;
    let signing = match load_signing(&folder, &master)?.filter(|signing| signing.is_good(now)) {
        Some(signing) => signing,
        None => new_signing(&folder, rng, now, &master)?,
    };
    if !folder.has(name::ONION) {
        folder.create(&[(name::ONION, &onion_file(&OnionKey::generate(rng)))])?;
    }
    if !folder.has(name::TAP) {
        folder.create(&[(name::TAP, rsa_pem(&new_rsa(rng)).as_bytes())])?;
    }
    // A killed process may have left copies of keys.
    for file in name::ALL {
        folder.remove_temporary(file)?;
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

/// The identity keys. If both are missing, creates a new pair.
fn identity(
    folder: &Folder,
    rng: &mut impl CryptoRng,
) -> Result<(tor_llcrypto::pk::rsa::KeyPair, ExpandedKeypair), KeyError> {
    let names = [name::RSA_IDENTITY, name::MASTER];
    let there = names.map(|name| folder.has(name));
    if there == [false; 2] {
        let (rsa, master) = (new_rsa(rng), new_ed25519(rng));
        let master_file = MASTER_TAG.file(&master.to_secret_key_bytes());
        folder.create(&[(name::RSA_IDENTITY, rsa_pem(&rsa).as_bytes()), (name::MASTER, &master_file)])?;
        return Ok((rsa, master));
    }
    for (name, there) in names.into_iter().zip(there) {
        // Both files were written, but the program crashed before the second file had its final name.
        if !there && !folder.finish(name)? {
            return Err(KeyError::HalfIdentity(folder.path(name)));
        }
    }
    Ok((folder.read_rsa(name::RSA_IDENTITY)?, folder.read_ed25519(name::MASTER, MASTER_TAG)?))
}

/// Creates new onion keys in `folder`. The current keys become the previous keys. A full disk changes nothing.
///
/// # Errors
///
/// If a file cannot be written. The keys in memory are then as before, and the next call tries again.
pub fn rotate_onion(
    keys: &mut Keys,
    folder: &Path,
    rng: &mut impl CryptoRng,
    now: SystemTime,
) -> Result<(), KeyError> {
    let folder = Folder::open(folder)?;
    let (onion, tap) = (OnionKey::generate(rng), new_rsa(rng));
    // The current keys come from memory, because clients still use them after a rotation that failed halfway.
    folder.replace(&[
        (name::ONION_OLD, &onion_file(&keys.onion)),
        (name::ONION, &onion_file(&onion)),
        (name::TAP_OLD, rsa_pem(&keys.tap).as_bytes()),
        (name::TAP, rsa_pem(&tap).as_bytes()),
    ])?;
    keys.old_onion = Some(std::mem::replace(&mut keys.onion, onion));
    (keys.tap, keys.onion_made) = (tap, now);
    Ok(())
}

/// Deletes the previous onion keys.
pub fn forget_old_onion(keys: &mut Keys, folder: &Path) -> Result<(), KeyError> {
    let folder = Folder::open(folder)?;
    folder.remove(name::ONION_OLD)?;
    folder.remove(name::TAP_OLD)?;
    keys.old_onion = None;
    Ok(())
}

/// Replaces the signing key in `folder` by a new one.
pub fn renew_signing(
    keys: &mut Keys,
    folder: &Path,
    rng: &mut impl CryptoRng,
    now: SystemTime,
) -> Result<(), KeyError> {
    keys.signing = new_signing(&Folder::open(folder)?, rng, now, &keys.master)?;
    Ok(())
}

/// Checks the file with the public ed25519 identity, which operators read. Writes it if it is missing.
fn check_public(folder: &Folder, master: &ExpandedKeypair) -> Result<(), KeyError> {
    let public = master.public().to_bytes();
    if !folder.has(name::MASTER_PUBLIC) {
        return folder.create(&[(name::MASTER_PUBLIC, &MASTER_PUBLIC_TAG.file(&public))]);
    }
    let said = folder.read_tagged(name::MASTER_PUBLIC, MASTER_PUBLIC_TAG, 32)?;
    if said[..] == public {
        Ok(())
    } else {
        Err(folder.malformed(name::MASTER_PUBLIC, "the public half of ed25519_master_id_secret_key"))
    }
}

/// Loads the signing key and its certificate, if both exist. The certificate must belong to the key.
fn load_signing(folder: &Folder, master: &ExpandedKeypair) -> Result<Option<SigningKey>, KeyError> {
    if !folder.has(name::SIGNING) || !folder.has(name::SIGNING_CERT) {
        return Ok(None);
    }
    let key = folder.read_ed25519(name::SIGNING, SIGNING_TAG)?;
    let cert = folder.read_tagged(name::SIGNING_CERT, SIGNING_CERT_TAG, 0)?;
    let fail =
        || folder.malformed(name::SIGNING_CERT, "the master key's certificate of ed25519_signing_secret_key");
    SigningKey::certified(key, &cert, master).map(Some).ok_or_else(fail)
}

fn new_signing(
    folder: &Folder,
    rng: &mut impl CryptoRng,
    now: SystemTime,
    master: &ExpandedKeypair,
) -> Result<SigningKey, KeyError> {
    let signing = SigningKey::new(rng, now, master);
    // If a crash leaves no certificate, the next start creates a new key.
    folder.replace_pair(
        (name::SIGNING, &SIGNING_TAG.file(&signing.key.to_secret_key_bytes())),
        (name::SIGNING_CERT, &SIGNING_CERT_TAG.file(&signing.cert)),
    )?;
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
