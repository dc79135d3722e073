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

/// The interval between two checks.
const INTERVAL: Duration = Duration::from_secs(60);

/// The names in the TLS certificate, which have no meaning.
const NAMES: [&str; 2] = ["www.example.com", "www.example.net"];

/// The time of the next check, and credentials in preparation.
#[derive(Debug)]
pub(super) struct Renewal {
    next: Instant,
    /// The lifetime of onion keys.
    pub(super) rotation: Rotation,
    coming: Option<Receiver<Credentials>>,
}

impl Renewal {
    pub(super) fn new(now: Instant) -> Self {
        Renewal { next: now + INTERVAL, rotation: Rotation::default(), coming: None }
    }
}

/// The first credentials of a node.
pub(super) fn first(keys: &penstock_link::keys::Keys, clock: crate::clock::Clock) -> Arc<Credentials> {
    Arc::new(Credentials::new(keys, &mut rand::rng(), clock.date(), NAMES))
}

impl Node {
    /// Replaces expired keys and certificates. Handshakes in progress keep their credentials.
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
                // Drops the keys before the node wakes, so that the node can change them again.
                drop(keys);
                wake();
            };
            if thread::Builder::new().name("credentials".into()).spawn(make).is_ok() {
                self.renewal.coming = Some(coming);
            }
        }
    }

    /// Replaces keys; returns whether the signing key changed. Keys without a folder are for tests and are not
    /// replaced.
    fn renew_keys(&mut self) -> Result<bool, KeyError> {
        let date = self.clock.date();
        // While the thread that makes certificates holds the keys, nothing is replaced.
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
