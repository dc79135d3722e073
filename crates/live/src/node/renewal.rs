//! Replaces keys and certificates before they expire.

use super::Node;
use crate::keys::{self, KeyError};
use crate::tls::{self, TlsConfigs};
use penstock_link::certs::Credentials;
use penstock_link::keys::{Keys, OnionDue, Rotation};
use penstock_units::{Duration, Instant};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::SystemTime;

const INTERVAL: Duration = Duration::from_secs(60);

/// State of key renewal: the time of the next check, and credentials that a thread is generating.
#[derive(Debug)]
pub(super) struct Renewal {
    next: Instant,
    pub(super) rotation: Rotation,
    coming: Option<Receiver<Credentials>>,
}

impl Renewal {
    pub(super) fn new(now: Instant) -> Self {
        Renewal { next: now, rotation: Rotation::default(), coming: None }
    }
}

/// Random names of issuer and subject for the TLS certificate. With fixed names, an observer of TLS handshakes could
/// recognise Penstock relays.
///
/// Source: C tor `tor_tls_context_init_certificates()`.
fn names() -> [String; 2] {
    [".com", ".net"].map(|suffix| tls::random_host_name(8..=20, suffix))
}

/// The credentials that a node starts with.
pub(super) fn first(keys: &Keys, clock: crate::clock::Clock) -> Arc<Credentials> {
    Arc::new(Credentials::new(keys, &mut rand::rng(), clock.date(), names()))
}

impl Node {
    /// Replaces keys and certificates that are due. Handshakes in progress keep their credentials.
    pub(super) fn renew(&mut self, now: Instant) {
        if let Some(made) = self.renewal.coming.as_ref().and_then(|coming| coming.try_recv().ok()) {
            self.tls = TlsConfigs::new(&made);
            self.credentials = Arc::new(made);
            self.renewal.coming = None;
        }
        if now < self.renewal.next {
            return;
        }
        self.renewal.next = now + INTERVAL;
        let signing_changed = self.renew_keys();
        let date = self.clock.date();
        if (signing_changed || !self.credentials.is_good(date)) && self.renewal.coming.is_none() {
            let (made, coming) = channel();
            let (keys, wake) = (self.keys.clone(), self.wake.caller());
            let make = move || {
                let _ = made.send(Credentials::new(&keys, &mut rand::rng(), date, names()));
                // The thread drops the keys before it wakes the node, so that the node can change them again.
                drop(keys);
                wake();
            };
            if thread::Builder::new().name("credentials".into()).spawn(make).is_ok() {
                self.renewal.coming = Some(coming);
            }
        }
    }

    /// Replaces keys that are due. Returns whether the signing key changed. Without a key folder, as in tests, it
    /// replaces none. A failure is logged and retried at the next check.
    fn renew_keys(&mut self) -> bool {
        let date = self.clock.date();
        // While the thread that generates certificates holds the keys, they cannot be replaced.
        let (Some(folder), Some(keys)) = (&self.keys_folder, Arc::get_mut(&mut self.keys)) else {
            return false;
        };
        let due = keys.onion_due(self.renewal.rotation, date);
        let (onion_changed, signing_changed) = replace_keys(keys, folder, due, &mut self.rng, date);
        if onion_changed {
            self.identities = Arc::new(keys.identities());
        }
        signing_changed
    }
}

/// Replaces the keys that are due. Returns whether the onion keys and the signing key changed. If one replacement
/// fails, the other one still happens.
fn replace_keys(
    keys: &mut Keys,
    folder: &Path,
    due: OnionDue,
    rng: &mut impl rand::CryptoRng,
    date: SystemTime,
) -> (bool, bool) {
    let onion = match due {
        OnionDue::Wait(_) => None,
        OnionDue::ForgetOld => Some(keys::forget_old_onion(keys, folder)),
        OnionDue::Rotate => Some(keys::rotate_onion(keys, folder, rng, date)),
    };
    let signing = (!keys.signing_is_good(date)).then(|| keys::renew_signing(keys, folder, rng, date));
    let changed = |kind: &str, outcome: Option<Result<(), KeyError>>| match outcome {
        Some(Err(error)) => {
            log::warn!("the {kind} was not replaced, and the relay tries again in a minute: {error}");
            false
        }
        outcome => outcome.is_some(),
    };
    (changed("onion key", onion), changed("signing key", signing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_link::keys::SIGNING_LIFETIME;
    use std::fs;

    #[test]
    fn certificates_have_new_names_each_time() {
        let all: std::collections::BTreeSet<[String; 2]> = (0..50).map(|_| names()).collect();
        assert_eq!(all.len(), 50);
        for [issuer, subject] in all {
            for (name, suffix) in [(issuer, ".com"), (subject, ".net")] {
                let label = name.strip_prefix("www.").and_then(|rest| rest.strip_suffix(suffix)).unwrap();
                let is_base32 = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
                assert!((8..=20).contains(&label.len()) && label.bytes().all(is_base32), "{name}");
            }
        }
    }

    #[test]
    fn a_signing_key_is_renewed_although_the_onion_key_cannot_be_replaced() {
        let folder = std::env::temp_dir().join(format!("penstock-renewal-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let (mut rng, now) = (rand::rng(), crate::clock::Clock::start().date());
        let mut keys = keys::load_or_create(&folder, &mut rng, now).unwrap();
        let obstacle = folder.join("secret_onion_key_ntor.old");
        fs::create_dir(&obstacle).unwrap();
        let (later, onion) = (now + SIGNING_LIFETIME, keys.onion.public);
        assert_eq!(replace_keys(&mut keys, &folder, OnionDue::Rotate, &mut rng, later), (false, true));
        assert!(keys.signing_is_good(later) && keys.onion.public == onion);
        // The next check succeeds without a restart.
        fs::remove_dir(&obstacle).unwrap();
        assert_eq!(replace_keys(&mut keys, &folder, OnionDue::Rotate, &mut rng, later), (true, false));
        assert_ne!(keys.onion.public, onion);
        fs::remove_dir_all(&folder).unwrap();
    }
}
