//! Certificates that a relay presents on its links.

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

/// Lifetime of certificates for link keys (C tor uses 2 days, and renews TLS certificates earlier).
const LIFETIME: Duration = Duration::from_secs(2 * 86_400);
/// The relay renews its certificates this long before they expire.
const SLOP: Duration = Duration::from_secs(43_200);
/// Lifetime of the cross-certificate between the two identities (C tor `RSA_ED_CROSSCERT_LIFETIME`).
const CROSSCERT_LIFETIME: Duration = Duration::from_secs(183 * 86_400);

/// Link certificates of a relay, with the TLS key and the authentication key. The relay never stores them on disk, and
/// renews them before they [expire](Self::is_good).
pub struct Credentials {
    tls: TlsKeyAndCert,
    /// Key that signs AUTHENTICATE.
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
    /// Creates new credentials at `now`. Generating the RSA key for TLS takes about a second. `names` are the issuer
    /// and the subject of the TLS certificate. They are arbitrary text.
    pub fn new(keys: &Keys, rng: &mut impl CryptoRng, now: SystemTime, names: [impl AsRef<str>; 2]) -> Self {
        const FITS: &str = "the certificate is of keys and names that have a form";
        // C tor closes a connection with any TLS key other than RSA.
        let tls = TlsKeyAndCert::create(rng, now, names[0].as_ref(), names[1].as_ref()).expect(FITS);
        let id = create_legacy_rsa_id_cert(rng, now, names[0].as_ref(), &keys.rsa).expect(FITS);
        let master = Ed25519Identity::from(keys.ed25519_identity());
        let cross =
            EncodedRsaCrosscert::encode_and_sign(&keys.rsa, &master, now + CROSSCERT_LIFETIME).expect(FITS);
        let auth = new_ed25519(rng);
        let by_signing = |kind, subject| {
            let cert = Ed25519Cert::builder()
                .cert_type(kind)
                .expiration(now + LIFETIME)
                .signing_key(Ed25519Identity::from(keys.signing.key.public()))
                .cert_key(subject)
                .encode_and_sign(&keys.signing.key);
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
                (kind::ID_V_SIGNING, &keys.signing.cert),
                last,
            ])
        };
        Credentials {
            responder: body((kind::SIGNING_V_TLS, &link)),
            initiator: body((kind::SIGNING_V_AUTH, &authenticates)),
            rsa_sha256: keys.rsa_identity_sha256(),
            ed25519: keys.ed25519_identity(),
            good_until: (now + LIFETIME).min(tls.expiration()).min(keys.signing.expires),
            tls,
            auth,
        }
    }

    pub(crate) fn rsa_sha256(&self) -> [u8; 32] {
        self.rsa_sha256
    }

    pub(crate) fn ed25519(&self) -> [u8; 32] {
        self.ed25519
    }

    /// Whether all certificates are valid for at least another 12 hours.
    pub fn is_good(&self, now: SystemTime) -> bool {
        now + SLOP < self.good_until
    }

    /// The TLS certificate, in DER.
    pub fn tls_certificate(&self) -> &[u8] {
        self.tls.certificates_der()[0]
    }

    /// The TLS key, in PKCS #8 DER.
    pub fn tls_key(&self) -> Zeroizing<Vec<u8>> {
        self.tls.private_key_pkcs8_der().expect("a key that exists has a form")
    }

    /// SHA-256 of the TLS certificate.
    pub fn tls_sha256(&self) -> [u8; 32] {
        *self.tls.link_cert_sha256()
    }

    /// The CERTS cell body that the relay sends as responder.
    pub fn responder_certs(&self) -> &[u8] {
        &self.responder
    }

    /// The CERTS cell body that the relay sends as initiator.
    pub fn initiator_certs(&self) -> &[u8] {
        &self.initiator
    }
}

/// Builds a CERTS cell body from certificates and their kinds.
pub(super) fn body(certs: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = vec![certs.len() as u8];
    for (kind, cert) in certs {
        body.push(*kind);
        body.extend_from_slice(&u16::try_from(cert.len()).expect("a certificate is short").to_be_bytes());
        body.extend_from_slice(cert);
    }
    body
}
