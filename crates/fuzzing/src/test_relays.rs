//! Relays with the same keys in every run.

use penstock_link::certs::{Credentials, Identity};
use penstock_link::crypto::{Identities, OnionKey};
use penstock_link::keys::Keys;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// The time in all fuzz targets.
pub(super) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000)
}

pub(super) fn seeded_rng(number: u64) -> StdRng {
    StdRng::seed_from_u64(number)
}

#[derive(Debug)]
pub(super) struct TestRelay {
    pub(super) keys: Keys,
    pub(super) credentials: Credentials,
}

impl TestRelay {
    pub(super) fn identity(&self) -> Identity {
        Identity { rsa: self.keys.rsa_identity(), ed25519: self.keys.ed25519_identity() }
    }
}

/// Keys for circuit handshakes. Generating an RSA key takes long, so the RSA identity is arbitrary bytes.
pub(super) fn identities() -> &'static Identities {
    static IDENTITIES: OnceLock<Identities> = OnceLock::new();
    IDENTITIES.get_or_init(|| {
        let mut rng = seeded_rng(0);
        let onion = [(); 2].map(|()| OnionKey::generate(&mut rng)).to_vec();
        Identities { rsa: [1; 20], ed25519: [2; 32], onion }
    })
}

pub(super) fn test_relays() -> &'static [TestRelay; 2] {
    static PEOPLE: OnceLock<[TestRelay; 2]> = OnceLock::new();
    PEOPLE.get_or_init(|| {
        [1, 2].map(|number| {
            let mut rng = seeded_rng(number);
            let keys = Keys::generate(&mut rng, now());
            let credentials = Credentials::new(&keys, &mut rng, now(), ["www.aaa.com", "www.bbb.net"]);
            TestRelay { keys, credentials }
        })
    })
}
