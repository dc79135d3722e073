//! Verifies the certificates of a peer.

use super::kind;
use crate::wire::{Malformed, Reader};
use digest::Digest;
use std::time::SystemTime;
use subtle::ConstantTimeEq;
use tor_cert::rsa::RsaCrosscert;
use tor_cert::{CertType, CertifiedKey, Ed25519Cert};
use tor_checkable::{ExternallySigned, SelfSigned, TimeBound};
use tor_llcrypto::d::Sha256;
use tor_llcrypto::pk::ed25519::Ed25519Identity;
use tor_llcrypto::util::x509_extract_rsa_subject_kludge;

/// Both identities of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// SHA-1 of the RSA identity key.
    pub rsa: [u8; 20],
    /// Ed25519 identity key.
    pub ed25519: [u8; 32],
}

/// The link key that the peer's certificates must certify.
#[derive(Clone, Copy, Debug)]
pub enum LinkKey {
    /// SHA-256 of the responder's TLS certificate.
    Tls([u8; 32]),
    /// The initiator's key that signs AUTHENTICATE.
    Authentication,
}

/// A peer's identity, after its certificates were verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The peer's identity.
    pub identity: Identity,
    /// SHA-256 of the RSA identity key, for AUTHENTICATE.
    pub rsa_sha256: [u8; 32],
    /// Key that signs AUTHENTICATE; `None` for a responder.
    pub authentication: Option<[u8; 32]>,
}

/// The reason why certificates are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertsError {
    /// The cell, or a certificate in it, is malformed.
    #[error("the peer's certificates are malformed")]
    Malformed,
    /// A required certificate is missing.
    #[error("the peer's certificate of kind {0} is missing")]
    Missing(u8),
    /// A certificate occurs twice.
    #[error("the peer has two certificates of kind {0}")]
    Doubled(u8),
    /// The signature of a certificate is missing or wrong.
    #[error("the signature of the peer's certificate of kind {0} is wrong")]
    BadSignature(u8),
    /// A certificate is expired or not valid yet.
    #[error("the peer's certificate of kind {0} is not valid now")]
    Expired(u8),
    /// A certificate certifies the wrong key, or has the wrong type.
    #[error("the peer's certificate of kind {0} is for another key")]
    WrongSubject(u8),
}

impl From<Malformed> for CertsError {
    fn from(_: Malformed) -> Self {
        CertsError::Malformed
    }
}

/// The certificates of a CERTS cell, indexed by kind. Unknown kinds are dropped.
struct Certs<'a>([Option<&'a [u8]>; 8]);

impl<'a> Certs<'a> {
    fn read(body: &'a [u8]) -> Result<Self, CertsError> {
        let (mut reader, mut certs) = (Reader::new(body), [None; 8]);
        for _ in 0..reader.u8()? {
            let (kind, len) = (reader.u8()?, reader.u16()?);
            let cert = reader.take(len.into())?;
            if let Some(slot) = certs.get_mut(usize::from(kind))
                && slot.replace(cert).is_some()
            {
                return Err(CertsError::Doubled(kind));
            }
        }
        Ok(Certs(certs))
    }

    fn get(&self, kind: u8) -> Result<&'a [u8], CertsError> {
        self.0[usize::from(kind)].ok_or(CertsError::Missing(kind))
    }

    /// Verifies the ed25519 certificate of type `kind` at `now`. Without `signer`, the certificate names its signer.
    fn ed25519(
        &self,
        kind: u8,
        signer: Option<&Ed25519Identity>,
        now: SystemTime,
    ) -> Result<Ed25519Cert, CertsError> {
        let cert = Ed25519Cert::decode(self.get(kind)?).map_err(|_| CertsError::Malformed)?;
        if u8::from(cert.peek_cert_type()) != kind {
            return Err(CertsError::WrongSubject(kind));
        }
        let cert = match signer {
            Some(signer) => cert.should_be_signed_with(signer),
            None => cert.should_have_signing_key(),
        };
        let cert =
            cert.and_then(|cert| cert.check_signature()).map_err(|_| CertsError::BadSignature(kind))?;
        cert.if_valid_at(&now).map_err(|_| CertsError::Expired(kind))
    }
}

/// Verifies a CERTS cell body for a link key.
///
/// Source: tor-spec, "CERTS cells" ("Validating the certificates", Ed25519); C tor `or_handshake_certs_ed25519_ok()`.
/// Deviation: the self-signature of the RSA identity's X.509 certificate is not checked. The RSA-to-ed25519
/// cross-certificate (type 7) already proves that the peer has the RSA key.
pub fn verify_certs(body: &[u8], link: LinkKey, now: SystemTime) -> Result<Verified, CertsError> {
    let certs = Certs::read(body)?;
    let signing = certs.ed25519(kind::ID_V_SIGNING, None, now)?;
    let id = *signing.signing_key().expect("a certificate that was checked has a signer");
    let signing = *signing.subject_key().as_ed25519().ok_or(CertsError::WrongSubject(kind::ID_V_SIGNING))?;
    let rsa = certs.get(kind::RSA_ID)?;
    let rsa = x509_extract_rsa_subject_kludge(rsa).ok_or(CertsError::Malformed)?;
    if rsa.bits() != 1024 || !rsa.exponent_is(65537) {
        return Err(CertsError::WrongSubject(kind::RSA_ID));
    }
    let cross = RsaCrosscert::decode(certs.get(kind::RSA_V_ID)?).map_err(|_| CertsError::Malformed)?;
    let cross = cross.check_signature(&rsa).map_err(|_| CertsError::BadSignature(kind::RSA_V_ID))?;
    let cross = cross.if_valid_at(&now).map_err(|_| CertsError::Expired(kind::RSA_V_ID))?;
    if !cross.subject_key_matches(&id) {
        return Err(CertsError::WrongSubject(kind::RSA_V_ID));
    }
    let authentication = match link {
        LinkKey::Tls(shown) => {
            let cert = certs.ed25519(kind::SIGNING_V_TLS, Some(&signing), now)?;
            match cert.subject_key() {
                CertifiedKey::X509Sha256Digest(digest) if digest.ct_eq(&shown).into() => None,
                _ => return Err(CertsError::WrongSubject(kind::SIGNING_V_TLS)),
            }
        }
        LinkKey::Authentication => {
            let cert = certs.ed25519(kind::SIGNING_V_AUTH, Some(&signing), now)?;
            debug_assert_eq!(cert.cert_type(), CertType::SIGNING_V_LINK_AUTH);
            let subject =
                cert.subject_key().as_ed25519().ok_or(CertsError::WrongSubject(kind::SIGNING_V_AUTH))?;
            Some((*subject).into())
        }
    };
    let identity = Identity { rsa: rsa.to_rsa_identity().to_bytes(), ed25519: id.into() };
    Ok(Verified { identity, rsa_sha256: Sha256::digest(rsa.to_der()).into(), authentication })
}
