//! What a relay shows on its links.

use super::kind;
use crate::keys::{Keys, new_ed25519};
use rand_core::CryptoRng;
use std::fmt;
use std::time::{Duration, SystemTime};
use tor_cert::rsa::EncodedRsaCrosscert;
use tor_cert::x509::{TlsKeyAndCert, create_legacy_rsa_id_cert};
use tor_cert::{CertType, CertifiedKey, Ed25519Cert, EncodedCert};
use tor_llcrypto::pk::ed25519::{Ed25519Identity, ExpandedKeypair};
use zeroize::Zeroizing;

/// Certificates of a link's keys are good for so long (C tor: 2 days, and TLS certificates change earlier).
const LIFETIME: Duration = Duration::from_secs(2 * 86_400);
/// They are made anew so long before their end.
const SLOP: Duration = Duration::from_secs(43_200);
/// The cross-certificate of the two identities (C tor `RSA_ED_CROSSCERT_LIFETIME`).
const CROSSCERT_LIFETIME: Duration = Duration::from_secs(183 * 86_400);

/// A relay's certificates for its links, with the keys of TLS and of authentication. They are made in memory, and made
/// anew when they [are no longer good](Self::is_good).
pub struct Credentials {
    tls: TlsKeyAndCert,
    /// Signs AUTHENTICATE.
    pub(super) auth: ExpandedKeypair,
    responder: Vec<u8>,
    initiator: Vec<u8>,
    rsa_sha256: [u8; 32],
    ed25519: [u8; 32],
    good_until: SystemTime,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("good_until", &self.good_until).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Makes new ones at `now`; it takes a second or so, for the RSA key of TLS. `names` are the names in the TLS
    /// certificate, which say nothing: its issuer and its subject.
    pub fn new(keys: &Keys, rng: &mut impl CryptoRng, now: SystemTime, names: [&str; 2]) -> Self {
        const FITS: &str = "the certificate is of keys and names that have a form";
        // The key of TLS is RSA: C tor closes a connection whose certificate has another.
        let tls = TlsKeyAndCert::create(rng, now, names[0], names[1]).expect(FITS);
        let id = create_legacy_rsa_id_cert(rng, now, names[0], keys.rsa()).expect(FITS);
        let master = Ed25519Identity::from(keys.ed25519_identity());
        let cross =
            EncodedRsaCrosscert::encode_and_sign(keys.rsa(), &master, now + CROSSCERT_LIFETIME).expect(FITS);
        let auth = new_ed25519(rng);
        let by_signing = |kind, subject| {
            let cert = Ed25519Cert::builder()
                .cert_type(kind)
                .expiration(now + LIFETIME)
                .signing_key(Ed25519Identity::from(keys.signing().public()))
                .cert_key(subject)
                .encode_and_sign(keys.signing());
            cert.expect(FITS).encoded().to_vec()
        };
        let link = CertifiedKey::X509Sha256Digest(*tls.link_cert_sha256());
        let link = by_signing(CertType::SIGNING_V_TLS_CERT, link);
        let authenticates =
            by_signing(CertType::SIGNING_V_LINK_AUTH, Ed25519Identity::from(auth.public()).into());
        let body = |last: (u8, &[u8])| {
            body(&[
                (kind::RSA_ID, &id),
                (kind::RSA_V_ID, cross.encoded()),
                (kind::ID_V_SIGNING, keys.signing_cert()),
                last,
            ])
        };
        Credentials {
            responder: body((kind::SIGNING_V_TLS, &link)),
            initiator: body((kind::SIGNING_V_AUTH, &authenticates)),
            rsa_sha256: keys.rsa_identity_sha256(),
            ed25519: keys.ed25519_identity(),
            good_until: (now + LIFETIME).min(tls.expiration()).min(keys.signing_expires()),
            tls,
            auth,
        }
    }

    /// SHA-256 of the relay's RSA identity key.
    pub(crate) fn rsa_sha256(&self) -> [u8; 32] {
        self.rsa_sha256
    }

    /// The relay's ed25519 identity.
    pub(crate) fn ed25519(&self) -> [u8; 32] {
        self.ed25519
    }

    /// Whether they are good for another half a day.
    pub fn is_good(&self, now: SystemTime) -> bool {
        now + SLOP < self.good_until
    }

    /// The certificate that TLS shows, in DER.
    pub fn tls_certificate(&self) -> &[u8] {
        self.tls.certificates_der()[0]
    }

    /// Its key, in PKCS #8 DER.
    pub fn tls_key(&self) -> Zeroizing<Vec<u8>> {
        self.tls.private_key_pkcs8_der().expect("a key that exists has a form")
    }

    /// SHA-256 of the certificate that TLS shows.
    pub fn tls_sha256(&self) -> [u8; 32] {
        *self.tls.link_cert_sha256()
    }

    /// The body of the CERTS cell of the node that was connected to.
    pub fn responder_certs(&self) -> &[u8] {
        &self.responder
    }

    /// The body of the CERTS cell of the node that connected.
    pub fn initiator_certs(&self) -> &[u8] {
        &self.initiator
    }
}

/// A CERTS cell's body.
pub(super) fn body(certs: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = vec![certs.len() as u8];
    for (kind, cert) in certs {
        body.push(*kind);
        body.extend_from_slice(&u16::try_from(cert.len()).expect("a certificate is short").to_be_bytes());
        body.extend_from_slice(cert);
    }
    body
}
