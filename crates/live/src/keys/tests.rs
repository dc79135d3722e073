//! Tests of key files.

use super::*;
use penstock_link::keys::{OnionDue, Rotation, SIGNING_LIFETIME, SIGNING_SLOP};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// A folder that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("penstock-keys-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Scratch(path)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000)
}

fn load(folder: &Scratch, now: SystemTime) -> Result<Keys, KeyError> {
    load_or_create(&folder.0, &mut rand::rng(), now)
}

#[test]
fn keys_that_are_made_are_there_the_next_time_and_nobody_elses() {
    let folder = Scratch::new("again");
    let first = load(&folder, now()).unwrap();
    let second = load(&folder, now()).unwrap();
    assert_eq!(first.fingerprint(), second.fingerprint());
    assert_eq!(first.ed25519_identity(), second.ed25519_identity());
    assert_eq!(&first.signing.cert, &second.signing.cert);
    assert_eq!(first.onion.public, second.onion.public);
    assert_eq!(first.tap.to_public_key(), second.tap.to_public_key());
    assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 7);
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

#[test]
fn what_others_may_read_is_refused() {
    let folder = Scratch::new("exposed");
    load(&folder, now()).unwrap();
    folder.mode(name::MASTER, 0o640);
    let message = load(&folder, now()).unwrap_err().to_string();
    assert!(
        message.contains("ed25519_master_id_secret_key can be read by others (mode 640); chmod 600 it"),
        "{message}"
    );
    folder.mode(name::MASTER, 0o600);
    folder.mode("", 0o750);
    assert!(matches!(load(&folder, now()), Err(KeyError::Exposed(..))));
}

#[test]
fn half_an_identity_is_not_completed() {
    for (gone, other) in [(name::RSA_IDENTITY, name::MASTER), (name::MASTER, name::RSA_IDENTITY)] {
        let folder = Scratch::new("half");
        load(&folder, now()).unwrap();
        let kept = fs::read(folder.0.join(other)).unwrap();
        fs::remove_file(folder.0.join(gone)).unwrap();
        assert!(matches!(load(&folder, now()), Err(KeyError::HalfIdentity(path)) if path.ends_with(gone)));
        assert_eq!(fs::read(folder.0.join(other)).unwrap(), kept);
    }
}

#[test]
fn a_file_that_is_damaged_is_named_and_left_alone() {
    let folder = Scratch::new("damaged");
    load(&folder, now()).unwrap();
    for file in [
        name::RSA_IDENTITY,
        name::MASTER,
        name::MASTER_PUBLIC,
        name::SIGNING,
        name::SIGNING_CERT,
        name::ONION,
        name::TAP,
    ] {
        let path = folder.0.join(file);
        let good = fs::read(&path).unwrap();
        for bad in [Vec::new(), good[..good.len() - 1].to_vec(), {
            let mut bad = good.clone();
            bad[40] ^= 1;
            bad
        }] {
            // The last character of a PEM file is the end of its line, and a changed digit may still be a key.
            if (file == name::RSA_IDENTITY || file == name::TAP) && !bad.is_empty() {
                continue;
            }
            fs::write(&path, &bad).unwrap();
            match load(&folder, now()) {
                Err(KeyError::Malformed(named, _)) => {
                    let cause = named == path
                        || named.ends_with(name::MASTER_PUBLIC)
                        || named.ends_with(name::SIGNING_CERT);
                    assert!(cause, "{file}: {named:?}");
                }
                other => panic!("{file}: {other:?}"),
            }
            assert_eq!(fs::read(&path).unwrap(), bad);
        }
        fs::write(&path, &good).unwrap();
    }
    load(&folder, now()).unwrap();
}

#[test]
fn nothing_is_overwritten_that_is_not_meant_to_change() {
    let folder = Scratch::new("exists");
    load(&folder, now()).unwrap();
    let files = Folder::open(&folder.0).unwrap();
    let before = files.read(name::MASTER).unwrap();
    assert!(matches!(files.create(name::MASTER, b"other"), Err(KeyError::Exists(_))));
    assert_eq!(files.read(name::MASTER).unwrap(), before);
}

#[test]
fn onion_keys_rotate_and_the_old_one_is_answered_until_it_is_forgotten() {
    let folder = Scratch::new("rotate");
    let mut keys = load(&folder, now()).unwrap();
    let first = keys.onion.public;
    rotate_onion(&mut keys, &folder.0, &mut rand::rng(), now()).unwrap();
    let second = keys.onion.public;
    assert_ne!(first, second);
    let known = |keys: &Keys| keys.identities().onion.iter().map(|key| key.public).collect::<Vec<_>>();
    assert_eq!(known(&keys), [second, first]);
    assert_eq!(known(&load(&folder, now()).unwrap()), [second, first]);
    forget_old_onion(&mut keys, &folder.0).unwrap();
    assert_eq!(known(&keys), [second]);
    assert_eq!(known(&load(&folder, now()).unwrap()), [second]);
    assert_eq!(
        keys.onion_due(Rotation::default(), now() + Duration::from_secs(28 * 86_400)),
        OnionDue::Rotate
    );
}

#[test]
fn a_signing_key_is_renewed_before_its_certificate_ends() {
    let folder = Scratch::new("signing");
    let first = load(&folder, now()).unwrap();
    // Certificates end at whole hours.
    let later = now() + SIGNING_LIFETIME - SIGNING_SLOP + Duration::from_secs(3600);
    assert!(!first.signing_is_good(later));
    assert_eq!(load(&folder, later - 2 * SIGNING_SLOP).unwrap().signing.cert, first.signing.cert);
    let second = load(&folder, later).unwrap();
    assert_ne!(second.signing.cert, first.signing.cert);
    assert_eq!(second.ed25519_identity(), first.ed25519_identity());
}

#[test]
fn a_file_that_c_tor_wrote_ends_with_a_nul() {
    let folder = Scratch::new("nul");
    let first = load(&folder, now()).unwrap();
    let path = folder.0.join(name::RSA_IDENTITY);
    let mut content = fs::read(&path).unwrap();
    content.push(0);
    fs::write(&path, content).unwrap();
    assert_eq!(load(&folder, now()).unwrap().fingerprint(), first.fingerprint());
}
