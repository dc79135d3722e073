//! Forged certificates: signed certificates with wrong content, and correct certificates of an unknown relay.

use super::choices::Choices;
use super::test_relays::{TestRelay, now, seeded_rng};
use penstock_link::certs::kind;
use penstock_link::keys::new_ed25519;
use penstock_link::wire::Reader;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use tor_cert::rsa::EncodedRsaCrosscert;
use tor_cert::x509::create_legacy_rsa_id_cert;
use tor_cert::{CertType, CertifiedKey, Ed25519Cert, EncodedCert};
use tor_llcrypto::pk::ed25519::{Ed25519Identity, ExpandedKeypair};

pub(super) struct Forger([ExpandedKeypair; 3]);

pub(super) fn forger() -> &'static Forger {
    static FORGER: OnceLock<Forger> = OnceLock::new();
    FORGER.get_or_init(|| {
        let mut rng = seeded_rng(9);
        Forger([(); 3].map(|()| new_ed25519(&mut rng)))
    })
}

impl Forger {
    pub(super) fn identity(&self) -> [u8; 32] {
        self.0[0].public().to_bytes()
    }
}

/// The body of a CERTS cell. It has certificates of `peer`, of `me`, and of the forger.
pub(super) fn certs(choices: &mut Choices<'_>, peer: &TestRelay, me: &TestRelay) -> Vec<u8> {
    let lists = [
        peer.credentials.responder_certs(),
        peer.credentials.initiator_certs(),
        me.credentials.responder_certs(),
        me.credentials.initiator_certs(),
    ];
    let lists = lists.map(read);
    // The required certificates, except randomly omitted ones, and some other certificates.
    let must = *choices.of(&[[2, 4, 5, 7], [2, 4, 6, 7]]).expect("the list is not empty");
    let omitted = choices.byte();
    let mut list = Vec::new();
    for (place, kind) in must.into_iter().enumerate() {
        if omitted >> place & 1 == 0 {
            list.push((kind, one(choices, &lists, kind, peer)));
        }
    }
    for _ in 0..choices.below(4) {
        let kind = choices.byte();
        list.push((kind, one(choices, &lists, kind, peer)));
    }
    let mut body = vec![list.len() as u8];
    for (kind, cert) in list {
        body.push(kind);
        body.extend_from_slice(&(cert.len() as u16).to_be_bytes());
        body.extend_from_slice(&cert);
    }
    body
}

fn read(body: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut reader = Reader::new(body);
    let count = reader.u8().unwrap_or(0);
    let mut one = || {
        Some((reader.u8().ok()?, reader.u16().ok()?))
            .and_then(|(kind, len)| Some((kind, reader.take(len.into()).ok()?.to_vec())))
    };
    (0..count).map_while(|_| one()).collect()
}

/// A certificate in place of a certificate of kind `like`. It can be correct, forged or damaged.
fn one(choices: &mut Choices<'_>, lists: &[Vec<(u8, Vec<u8>)>; 4], like: u8, peer: &TestRelay) -> Vec<u8> {
    match choices.below(8) {
        // A correct certificate of one of the lists.
        whose @ 0..4 => {
            let own = lists[whose].iter().find(|(kind, _)| *kind == like);
            own.map_or_else(Vec::new, |(_, cert)| cert.clone())
        }
        // A correct certificate of the forger.
        4 => forged(like, peer, now() + Duration::from_secs(86_400)),
        5 => malformed(choices, peer),
        6 => {
            let mut cert = lists[0]
                .iter()
                .find(|(kind, _)| *kind == like)
                .map_or_else(Vec::new, |(_, cert)| cert.clone());
            if !cert.is_empty() {
                let place = usize::from(choices.u16()) % cert.len();
                cert[place] ^= choices.byte();
            }
            cert
        }
        _ => choices.bytes(255).to_vec(),
    }
}

/// A certificate from the forger's own correct chain. It proves only the forger's identity.
fn forged(like: u8, peer: &TestRelay, until: SystemTime) -> Vec<u8> {
    let [master, signing, auth] = &forger().0;
    let identity = |key: &ExpandedKeypair| Ed25519Identity::from(key.public());
    let of = |kind, by: &ExpandedKeypair, subject: CertifiedKey| {
        let cert = Ed25519Cert::builder()
            .cert_type(kind)
            .expiration(until)
            .signing_key(identity(by))
            .cert_key(subject)
            .encode_and_sign(by);
        cert.map_or_else(|_| Vec::new(), |cert| cert.encoded().to_vec())
    };
    match like {
        kind::ID_V_SIGNING => of(CertType::IDENTITY_V_SIGNING, master, identity(signing).into()),
        kind::SIGNING_V_TLS => {
            let displayed = CertifiedKey::X509Sha256Digest(peer.credentials.tls_sha256());
            of(CertType::SIGNING_V_TLS_CERT, signing, displayed)
        }
        kind::SIGNING_V_AUTH => of(CertType::SIGNING_V_LINK_AUTH, signing, identity(auth).into()),
        kind::RSA_V_ID => {
            let cross = EncodedRsaCrosscert::encode_and_sign(&peer.keys.rsa, &identity(master), until);
            cross.map_or_else(|_| Vec::new(), |cert| cert.encoded().to_vec())
        }
        kind::RSA_ID => {
            let cert = create_legacy_rsa_id_cert(&mut seeded_rng(8), now(), "www.ccc.org", &peer.keys.rsa);
            cert.unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn malformed(choices: &mut Choices<'_>, peer: &TestRelay) -> Vec<u8> {
    let keys = &forger().0;
    let by = &keys[choices.below(3)];
    let subject = match choices.below(4) {
        0 => CertifiedKey::X509Sha256Digest(peer.credentials.tls_sha256()),
        1 => CertifiedKey::RsaSha256Digest([choices.byte(); 32]),
        2 => CertifiedKey::X509Sha256Digest([choices.byte(); 32]),
        _ => CertifiedKey::Ed25519(Ed25519Identity::from(keys[choices.below(3)].public())),
    };
    let hours = Duration::from_secs(3600) * u32::from(choices.u16());
    let mut cert = Ed25519Cert::builder();
    cert.cert_type(CertType::from(choices.byte() % 10)).cert_key(subject);
    cert.expiration(now() - Duration::from_secs(86_400 * 30) + hours);
    if choices.flag() {
        cert.signing_key(Ed25519Identity::from(by.public()));
    }
    cert.encode_and_sign(by).map_or_else(|_| Vec::new(), |cert| cert.encoded().to_vec())
}
