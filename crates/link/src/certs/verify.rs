//! Who the other node of a link is.

use super::kind;
use crate::wire::{Malformed, Reader};
use digest::Digest;
use std::fmt;
use std::time::SystemTime;
use tor_cert::rsa::RsaCrosscert;
use tor_cert::{CertType, CertifiedKey, Ed25519Cert};
use tor_checkable::{ExternallySigned, SelfSigned, TimeBound};
use tor_llcrypto::d::Sha256;
use tor_llcrypto::pk::ed25519::Ed25519Identity;
use tor_llcrypto::util::x509_extract_rsa_subject_kludge;

/// The two identities of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// SHA-1 of its RSA identity key.
    pub rsa: [u8; 20],
    /// Its ed25519 identity key.
    pub ed25519: [u8; 32],
}

/// Which key of the link the certificates are to vouch for.
#[derive(Clone, Copy, Debug)]
pub enum LinkKey {
    /// A responder's: the certificate that TLS showed, by its SHA-256.
    Tls([u8; 32]),
    /// An initiator's, which signs AUTHENTICATE.
    Authentication,
}

/// What certificates prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whose they are.
    pub identity: Identity,
    /// SHA-256 of the RSA identity key, as AUTHENTICATE has it.
    pub rsa_sha256: [u8; 32],
    /// The key that signs AUTHENTICATE; a responder has none.
    pub authentication: Option<[u8; 32]>,
}

/// Why certificates prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertsError {
    /// The cell, or a certificate in it, makes no sense.
    Malformed,
    /// One that must be there is not.
    Missing(u8),
    /// One is there twice.
    Doubled(u8),
    /// One is signed by nobody, or by somebody else.
    BadSignature(u8),
    /// One is of another time.
    Expired(u8),
    /// One is of another key than the one in use, or of another kind than it says.
    WrongSubject(u8),
}

impl fmt::Display for CertsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertsError::Malformed => write!(f, "the peer's certificates are malformed"),
            CertsError::Missing(kind) => write!(f, "the peer's certificate of kind {kind} is missing"),
            CertsError::Doubled(kind) => write!(f, "the peer has two certificates of kind {kind}"),
            CertsError::BadSignature(kind) => {
                write!(f, "the peer's certificate of kind {kind} is badly signed")
            }
            CertsError::Expired(kind) => {
                write!(f, "the peer's certificate of kind {kind} is of another time")
            }
            CertsError::WrongSubject(kind) => {
                write!(f, "the peer's certificate of kind {kind} is of another key")
            }
        }
    }
}

impl std::error::Error for CertsError {}

impl From<Malformed> for CertsError {
    fn from(_: Malformed) -> Self {
        CertsError::Malformed
    }
}

/// Certificates of a CERTS cell by their kinds; those of kinds that nobody asks for are passed over.
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

    /// An ed25519 certificate that is good at `now`: signed by `signer`, or by the key that it names itself.
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

/// Checks the body of a CERTS cell against the key of the link that it is to vouch for.
///
/// Source: tor-spec, "CERTS cells" ("Validating the certificates", Ed25519); C tor `or_handshake_certs_ed25519_ok()`.
/// Deviation: the self-signature of the RSA identity's X.509 certificate is not checked: the key in it is believed for
/// what it signs, the certificate of kind 7, and named by its digest.
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
                CertifiedKey::X509Sha256Digest(digest) if *digest == shown => None,
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
