//! Tests of key files.

use super::*;
use crate::atomic::faults::{self, Fault};
use penstock_link::keys::{OnionDue, Rotation, SIGNING_LIFETIME, SIGNING_SLOP};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A folder that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        // Two tests can ask for the same name at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("penstock-keys-{name}-{}-{count}", std::process::id()));
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
fn created_keys_are_loaded_again_and_are_private() {
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
fn files_that_others_can_read_are_refused() {
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
fn a_damaged_file_is_reported_and_not_changed() {
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
fn create_never_overwrites_a_file() {
    let folder = Scratch::new("exists");
    load(&folder, now()).unwrap();
    let files = Folder::open(&folder.0).unwrap();
    let before = files.read(name::MASTER).unwrap();
    assert!(matches!(files.create(&[(name::MASTER, b"other")]), Err(KeyError::Exists(_))));
    assert_eq!(files.read(name::MASTER).unwrap(), before);
}

#[test]
fn without_exclusive_renames_create_overwrites_no_file_either() {
    let folder = Scratch::new("old-kernel");
    faults::without_exclusive_renames(|| {
        let first = load(&folder, now()).unwrap();
        assert_eq!(load(&folder, now()).unwrap().fingerprint(), first.fingerprint());
        let files = Folder::open(&folder.0).unwrap();
        let before = files.read(name::MASTER).unwrap();
        assert!(matches!(files.create(&[(name::MASTER, b"other")]), Err(KeyError::Exists(_))));
        assert_eq!(files.read(name::MASTER).unwrap(), before);
    });
}

#[test]
fn the_previous_onion_key_works_until_it_is_deleted() {
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

/// Repeats `run` in new folders. In the first repetition, every step of the disk fails. In each further repetition, one
/// step more succeeds, until no step fails. `begin` prepares the folder, and `after` checks it with the outcome.
fn at_each_step<S, T>(
    begin: impl Fn(&Scratch) -> S,
    run: impl Fn(&Scratch, &mut S) -> T,
    after: impl Fn(&str, &Scratch, S, T),
) {
    for fault in [Fault::Full, Fault::NoRename, Fault::Killed] {
        let least = if fault == Fault::NoRename { 1 } else { 4 };
        let mut from = 0;
        loop {
            let step = format!("{fault:?}-{from}");
            let folder = Scratch::new(&step);
            let mut state = begin(&folder);
            let (outcome, failed) = faults::with(fault, from, || run(&folder, &mut state));
            after(&step, &folder, state, outcome);
            if !failed {
                assert!(from > least, "{step}: there were no steps");
                break;
            }
            from += 1;
        }
    }
}

#[test]
fn a_first_start_that_fails_anywhere_is_finished_by_the_next_one() {
    at_each_step(
        |_| (),
        |folder, ()| load(folder, now()).map(|keys| keys.fingerprint()),
        |step, folder, (), outcome| {
            // No file has two names, because some file systems have no hard links.
            for file in fs::read_dir(&folder.0).unwrap() {
                assert_eq!(file.unwrap().metadata().unwrap().nlink(), 1, "{step}");
            }
            let files = Folder::open(&folder.0).unwrap();
            let whole = files.has(name::RSA_IDENTITY) && files.has(name::MASTER);
            let before = whole.then(|| files.read(name::MASTER).unwrap());
            let keys = load(folder, now()).unwrap_or_else(|error| panic!("{step}: {error}"));
            if let Ok(fingerprint) = outcome {
                assert_eq!(keys.fingerprint(), fingerprint, "{step}");
            }
            assert!(before.is_none_or(|before| before == files.read(name::MASTER).unwrap()), "{step}");
            let again = load(folder, now()).unwrap();
            assert_eq!((again.fingerprint(), again.onion.public), (keys.fingerprint(), keys.onion.public));
            let left = fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().file_name());
            assert!(left.into_iter().all(|name| !name.to_str().unwrap().ends_with(".tmp")), "{step}");
        },
    );
}

#[test]
fn a_full_disk_at_the_first_start_leaves_no_key() {
    for from in 0..8 {
        let folder = Scratch::new("full-first");
        let (outcome, failed) = faults::with(Fault::Full, from, || load(&folder, now()));
        assert!(matches!(outcome, Err(KeyError::Io(..))) && failed, "{from}");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "{from}");
    }
}

#[test]
fn a_rotation_that_fails_anywhere_keeps_the_key_that_clients_have() {
    let known = |keys: &Keys| keys.identities().onion.iter().map(|key| key.public).collect::<Vec<_>>();
    at_each_step(
        |folder| load(folder, now()).unwrap(),
        |folder, keys| {
            let published = keys.onion.public;
            (published, rotate_onion(keys, &folder.0, &mut rand::rng(), now()).is_ok())
        },
        |step, folder, mut keys, (published, rotated)| {
            assert_eq!(keys.onion.public == published, !rotated, "{step}");
            let restarted = load(folder, now()).unwrap_or_else(|error| panic!("{step}: {error}"));
            assert!(known(&restarted).contains(&published), "{step}");
            assert!(!rotated || known(&restarted) == known(&keys), "{step}");
            // The relay goes on and tries again.
            let published = keys.onion.public;
            rotate_onion(&mut keys, &folder.0, &mut rand::rng(), now()).unwrap();
            assert_eq!(known(&keys)[1], published, "{step}");
            assert_eq!(known(&load(folder, now()).unwrap()), known(&keys), "{step}");
        },
    );
}

#[test]
fn a_rotation_recovers_after_each_failed_rename() {
    let known = |keys: &Keys| keys.identities().onion.iter().map(|key| key.public).collect::<Vec<_>>();
    let folder = Scratch::new("no-rename");
    let mut keys = load(&folder, now()).unwrap();
    let published = keys.onion.public;
    // A rotation has four renames. The keys in memory stay, also if several attempts fail.
    for from in [0, 1, 2, 3, 2, 1] {
        let rotate = || rotate_onion(&mut keys, &folder.0, &mut rand::rng(), now());
        let (outcome, _) = faults::with(Fault::NoRename, from, rotate);
        assert!(matches!(outcome, Err(KeyError::Io(..))), "{from}");
        assert_eq!(known(&keys), [published], "{from}");
        let left = fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_str().unwrap().ends_with(".tmp")), "{from}");
        assert!(known(&load(&folder, now()).unwrap()).contains(&published), "{from}");
    }
    rotate_onion(&mut keys, &folder.0, &mut rand::rng(), now()).unwrap();
    assert_eq!((keys.onion.public == published, known(&keys)[1]), (false, published));
    assert_eq!(known(&load(&folder, now()).unwrap()), known(&keys));
}

#[test]
fn a_full_disk_changes_no_onion_key() {
    let folder = Scratch::new("full-rotation");
    let mut keys = load(&folder, now()).unwrap();
    let content = |name: &str| fs::read(folder.0.join(name)).unwrap();
    let before = [content(name::ONION), content(name::TAP)];
    for from in 0.. {
        let rotate = || rotate_onion(&mut keys, &folder.0, &mut rand::rng(), now());
        let (outcome, _) = faults::with(Fault::Full, from, rotate);
        if folder.0.join(name::ONION_OLD).exists() {
            assert!(from > 8, "{outcome:?}");
            break;
        }
        assert_eq!([content(name::ONION), content(name::TAP)], before, "{from}");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 7, "{from}");
    }
}

#[test]
fn a_renewal_that_fails_anywhere_leaves_a_key_with_its_certificate_or_neither() {
    at_each_step(
        |folder| load(folder, now()).unwrap(),
        |folder, keys| {
            let before = keys.signing.cert.clone();
            let renewed =
                renew_signing(keys, &folder.0, &mut rand::rng(), now() + Duration::from_secs(86_400));
            assert_eq!(renewed.is_ok(), keys.signing.cert != before);
        },
        |step, folder, mut keys, ()| {
            let restarted = load(folder, now()).unwrap_or_else(|error| panic!("{step}: {error}"));
            assert_eq!(restarted.ed25519_identity(), keys.ed25519_identity(), "{step}");
            renew_signing(&mut keys, &folder.0, &mut rand::rng(), now()).unwrap();
            assert_eq!(load(folder, now()).unwrap().signing.cert, keys.signing.cert, "{step}");
        },
    );
}

#[test]
fn pipes_and_devices_are_refused_as_key_files() {
    let folder = Scratch::new("pipe");
    load(&folder, now()).unwrap();
    for file in [name::RSA_IDENTITY, name::MASTER, name::SIGNING, name::ONION, name::TAP] {
        let path = folder.0.join(file);
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        // Opening a pipe without a writer would wait for one.
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        let refused = load(&folder, now()).unwrap_err().to_string();
        assert!(refused.contains(file) && refused.ends_with("this is no regular file"), "{refused}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, content).unwrap();
        folder.mode(file, 0o600);
    }
    fs::remove_file(folder.0.join(name::ONION)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.0.join(name::ONION)).unwrap();
    assert!(load(&folder, now()).unwrap_err().to_string().ends_with("this is no regular file"));
}
