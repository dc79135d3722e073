//! Keys and certificates that end are replaced while a node runs.

use super::Node;
use crate::tls::TlsConfigs;
use penstock_link::certs::Credentials;
use penstock_link::keys::{KeyError, OnionDue, Rotation};
use penstock_units::{Duration, Instant};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// How often a node looks.
const INTERVAL: Duration = Duration::from_secs(60);

/// The names in the certificate that TLS shows say nothing.
const NAMES: [&str; 2] = ["www.example.com", "www.example.net"];

/// When to look again, and what is being made.
#[derive(Debug)]
pub(super) struct Renewal {
    next: Instant,
    /// How long onion keys live.
    pub(super) rotation: Rotation,
    coming: Option<Receiver<Credentials>>,
}

impl Renewal {
    pub(super) fn new(now: Instant) -> Self {
        Renewal { next: now + INTERVAL, rotation: Rotation::default(), coming: None }
    }
}

/// Credentials of a node that begins.
pub(super) fn first(keys: &penstock_link::keys::Keys, clock: crate::clock::Clock) -> Arc<Credentials> {
    Arc::new(Credentials::new(keys, &mut rand::rng(), clock.date(), NAMES))
}

impl Node {
    /// Replaces what is due. Links whose handshakes have begun go on with what they began with.
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
            log::warn!("the node goes on with the keys that it has: {error}");
            false
        });
        let date = self.clock.date();
        if (signing_changed || !self.credentials.is_good(date)) && self.renewal.coming.is_none() {
            let (made, coming) = channel();
            let (keys, wake) = (self.keys.clone(), self.wake.caller());
            let make = move || {
                let _ = made.send(Credentials::new(&keys, &mut rand::rng(), date, NAMES));
                // Whoever can be asked for these again later.
                drop(keys);
                wake();
            };
            if thread::Builder::new().name("credentials".into()).spawn(make).is_ok() {
                self.renewal.coming = Some(coming);
            }
        }
    }

    /// Whether the signing key changed. Keys that are on no disk are for tests, and do not live so long.
    fn renew_keys(&mut self) -> Result<bool, KeyError> {
        let date = self.clock.date();
        // A thread that makes certificates has the keys for a second now and then.
        let (Some(folder), Some(keys)) = (&self.keys_folder, Arc::get_mut(&mut self.keys)) else {
            return Ok(false);
        };
        match keys.onion_due(self.renewal.rotation, date) {
            OnionDue::Wait(_) => {}
            OnionDue::ForgetOld => keys.forget_old_onion(folder)?,
            OnionDue::Rotate => keys.rotate_onion(folder, &mut self.rng, date)?,
        }
        self.identities = Arc::new(keys.identities());
        let good = keys.signing_is_good(date);
        if !good {
            keys.renew_signing(folder, &mut self.rng, date)?;
        }
        Ok(!good)
    }
}
