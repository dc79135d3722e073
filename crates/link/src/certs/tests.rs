//! Tests of certificates and authentication at both ends, and of forgeries.

use super::credentials::body;
use super::*;
use crate::keys::{Keys, SIGNING_LIFETIME};
use crate::wire::{Malformed, Reader};
use proptest::prelude::*;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000)
}

/// Two relays. Their keys take seconds to generate.
pub(crate) fn relays() -> &'static [(Keys, Credentials); 2] {
    static RELAYS: OnceLock<[(Keys, Credentials); 2]> = OnceLock::new();
    RELAYS.get_or_init(|| {
        [0, 1].map(|_| {
            let keys = Keys::generate(&mut rand::rng(), now());
            let credentials =
                Credentials::new(&keys, &mut rand::rng(), now(), ["www.aaa.com", "www.bbb.net"]);
            (keys, credentials)
        })
    })
}

fn of(keys: &Keys) -> Identity {
    Identity { rsa: keys.rsa_identity(), ed25519: keys.ed25519_identity() }
}

#[test]
fn the_certificates_of_a_responder_prove_its_identity() {
    let (keys, credentials) = &relays()[0];
    let verified =
        verify_certs(credentials.responder_certs(), LinkKey::Tls(credentials.tls_sha256()), now()).unwrap();
    assert_eq!((verified.identity, verified.authentication), (of(keys), None));
    assert_eq!(verified.rsa_sha256, keys.rsa_identity_sha256());
    let other = LinkKey::Tls(relays()[1].1.tls_sha256());
    assert_eq!(verify_certs(credentials.responder_certs(), other, now()), Err(CertsError::WrongSubject(5)));
}

#[test]
fn the_certificates_of_an_initiator_prove_its_identity() {
    let (keys, credentials) = &relays()[0];
    let verified = verify_certs(credentials.initiator_certs(), LinkKey::Authentication, now()).unwrap();
    assert_eq!(verified.identity, of(keys));
    assert!(verified.authentication.is_some());
    let responder = credentials.responder_certs();
    assert_eq!(verify_certs(responder, LinkKey::Authentication, now()), Err(CertsError::Missing(6)));
}

#[test]
fn certificates_are_valid_for_their_time() {
    let (_, credentials) = &relays()[0];
    let at = |now| verify_certs(credentials.responder_certs(), LinkKey::Tls(credentials.tls_sha256()), now);
    assert!(at(now() + Duration::from_secs(86_400)).is_ok(), "a clock that is a day ahead");
    assert!(at(now() - Duration::from_secs(86_400)).is_ok(), "a clock that is a day behind");
    assert_eq!(at(now() + Duration::from_secs(3 * 86_400)), Err(CertsError::Expired(5)));
    assert_eq!(at(now() + 2 * SIGNING_LIFETIME), Err(CertsError::Expired(4)));
    assert!(credentials.is_good(now()) && !credentials.is_good(now() + Duration::from_secs(2 * 86_400)));
}

/// The certificates of a CERTS body.
fn list(certs: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut reader = Reader::new(certs);
    let count = reader.u8().unwrap();
    (0..count)
        .map(|_| {
            let (kind, len) = (reader.u8().unwrap(), reader.u16().unwrap());
            (kind, reader.take(len.into()).unwrap().to_vec())
        })
        .collect()
}

fn body_of(certs: &[(u8, Vec<u8>)]) -> Vec<u8> {
    body(&certs.iter().map(|(kind, cert)| (*kind, &cert[..])).collect::<Vec<_>>())
}

#[test]
fn each_required_certificate_must_occur_once_and_belong_to_the_relay() {
    let [(_, one), (_, two)] = relays();
    let (mine, theirs) = (list(one.responder_certs()), list(two.responder_certs()));
    let check =
        |certs: &[(u8, Vec<u8>)]| verify_certs(&body_of(certs), LinkKey::Tls(one.tls_sha256()), now());
    assert!(check(&mine).is_ok());
    for place in 0..mine.len() {
        let kind = mine[place].0;
        let mut missing = mine.clone();
        missing.remove(place);
        assert_eq!(check(&missing), Err(CertsError::Missing(kind)));
        let mut doubled = mine.clone();
        doubled.push(mine[place].clone());
        assert_eq!(check(&doubled), Err(CertsError::Doubled(kind)));
        let mut stolen = mine.clone();
        stolen[place] = theirs[place].clone();
        assert!(check(&stolen).is_err(), "kind {kind}");
    }
    let mut more = mine.clone();
    more.extend([(1, vec![1, 2]), (99, vec![]), (99, vec![])]);
    assert!(check(&more).is_ok(), "additional certificates are ignored");
}

#[test]
fn a_certificate_with_a_changed_bit_proves_nothing() {
    let (keys, credentials) = &relays()[0];
    let certs = list(credentials.responder_certs());
    for (place, (kind, cert)) in certs.iter().enumerate() {
        for byte in 0..cert.len() {
            let mut changed = certs.clone();
            changed[place].1[byte] ^= 1;
            let verified = verify_certs(&body_of(&changed), LinkKey::Tls(credentials.tls_sha256()), now());
            // Only the key of the X.509 certificate counts. Names, dates and the self-signature have no meaning.
            match verified {
                Ok(verified) => {
                    assert!(*kind == 2 && verified.identity == of(keys), "kind {kind}, byte {byte}")
                }
                Err(_) => continue,
            }
        }
    }
}

/// The first relay's proof for the second relay.
fn binding() -> Binding {
    let [(one, _), (two, credentials)] = relays();
    Binding {
        rsa: [one.rsa_identity_sha256(), two.rsa_identity_sha256()],
        ed25519: [one.ed25519_identity(), two.ed25519_identity()],
        responder_log: [1; 32],
        initiator_log: [2; 32],
        certificate: credentials.tls_sha256(),
        tls_secret: [3; 32],
    }
}

#[test]
fn an_initiator_proves_its_identity() {
    let (_, credentials) = &relays()[0];
    let verified = verify_certs(credentials.initiator_certs(), LinkKey::Authentication, now()).unwrap();
    let cell = make(credentials, &mut rand::rng(), &binding());
    assert_eq!(verify(&cell, &verified, &binding()), Ok(()));
    let others = Binding { tls_secret: [4; 32], ..binding() };
    assert_eq!(verify(&cell, &verified, &others), Err(Malformed), "the proof of another connection");
    let others = Binding { initiator_log: [4; 32], ..binding() };
    assert_eq!(verify(&cell, &verified, &others), Err(Malformed), "the proof of another handshake");
    for byte in 0..cell.len() {
        let mut changed = cell.clone();
        changed[byte] ^= 1;
        assert_eq!(verify(&changed, &verified, &binding()), Err(Malformed), "byte {byte}");
        assert_eq!(verify(&cell[..byte], &verified, &binding()), Err(Malformed), "truncated at {byte}");
    }
    let other = verify_certs(relays()[1].1.initiator_certs(), LinkKey::Authentication, now()).unwrap();
    assert_eq!(verify(&cell, &other, &binding()), Err(Malformed), "signed by another relay");
}

#[test]
fn a_challenge_offers_exactly_one_method() {
    let challenge = Challenge::new(&mut rand::rng()).body();
    assert_eq!(method_is_offered(&challenge), Ok(true));
    assert_eq!(method_is_offered(&[&[0; 32][..], &[0, 2, 0, 1, 0, 3]].concat()), Ok(true));
    assert_eq!(method_is_offered(&[&[0; 32][..], &[0, 1, 0, 1]].concat()), Ok(false));
    assert_eq!(method_is_offered(&[0; 33]), Err(Malformed));
    assert_eq!(method_is_offered(&[&[0; 32][..], &[0, 2, 0, 3]].concat()), Err(Malformed));
}

proptest! {
    #[test]
    fn no_bytes_make_verification_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = verify_certs(&bytes, LinkKey::Tls([0; 32]), now());
        let _ = verify_certs(&bytes, LinkKey::Authentication, now());
        let _ = method_is_offered(&bytes);
        let verified = Verified {
            identity: Identity { rsa: [0; 20], ed25519: [0; 32] }, rsa_sha256: [0; 32], authentication: Some([1; 32]),
        };
        let _ = verify(&bytes, &verified, &binding());
    }

    #[test]
    fn a_truncated_or_changed_cell_causes_at_most_an_error(cut: proptest::sample::Index, byte: u8) {
        let credentials = &relays()[0].1;
        let mut certs = credentials.responder_certs().to_vec();
        let at = cut.index(certs.len());
        certs[at] = byte;
        let _ = verify_certs(&certs, LinkKey::Tls(credentials.tls_sha256()), now());
        prop_assert!(verify_certs(&certs[..at], LinkKey::Tls(credentials.tls_sha256()), now()).is_err());
    }
}
