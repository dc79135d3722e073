//! Replaces keys and certificates before they expire.

use super::Node;
use crate::keys::{self, KeyError};
use crate::tls::TlsConfigs;
use penstock_link::certs::Credentials;
use penstock_link::keys::{OnionDue, Rotation};
use penstock_units::{Duration, Instant};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Interval between two checks.
const INTERVAL: Duration = Duration::from_secs(60);

/// Names in the TLS certificate. They are arbitrary.
const NAMES: [&str; 2] = ["www.example.com", "www.example.net"];

/// Time of the next check, and new credentials that a thread generates.
#[derive(Debug)]
pub(super) struct Renewal {
    next: Instant,
    /// Lifetime of onion keys.
    pub(super) rotation: Rotation,
    coming: Option<Receiver<Credentials>>,
}

impl Renewal {
    pub(super) fn new(now: Instant) -> Self {
        Renewal { next: now + INTERVAL, rotation: Rotation::default(), coming: None }
    }
}

/// The credentials that a node starts with.
pub(super) fn first(keys: &penstock_link::keys::Keys, clock: crate::clock::Clock) -> Arc<Credentials> {
    Arc::new(Credentials::new(keys, &mut rand::rng(), clock.date(), NAMES))
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
        let signing_changed = self.renew_keys().unwrap_or_else(|error| {
            log::warn!("the keys were not replaced: {error}");
            false
        });
        let date = self.clock.date();
        if (signing_changed || !self.credentials.is_good(date)) && self.renewal.coming.is_none() {
            let (made, coming) = channel();
            let (keys, wake) = (self.keys.clone(), self.wake.caller());
            let make = move || {
                let _ = made.send(Credentials::new(&keys, &mut rand::rng(), date, NAMES));
                // The thread drops the keys before it wakes the node, so that the node can change them again.
                drop(keys);
                wake();
            };
            if thread::Builder::new().name("credentials".into()).spawn(make).is_ok() {
                self.renewal.coming = Some(coming);
            }
        }
    }

    /// Replaces keys that are due. Returns whether the signing key changed. Keys without a folder are for tests, and
    /// are never replaced.
    fn renew_keys(&mut self) -> Result<bool, KeyError> {
        let date = self.clock.date();
        // While the thread that generates certificates holds the keys, they cannot be replaced.
        let (Some(folder), Some(keys)) = (&self.keys_folder, Arc::get_mut(&mut self.keys)) else {
            return Ok(false);
        };
        match keys.onion_due(self.renewal.rotation, date) {
            OnionDue::Wait(_) => {}
            OnionDue::ForgetOld => keys::forget_old_onion(keys, folder)?,
            OnionDue::Rotate => keys::rotate_onion(keys, folder, &mut self.rng, date)?,
        }
        self.identities = Arc::new(keys.identities());
        let good = keys.signing_is_good(date);
        if !good {
            keys::renew_signing(keys, folder, &mut self.rng, date)?;
        }
        Ok(!good)
    }
}
