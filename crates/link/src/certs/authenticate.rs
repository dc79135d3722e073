//! AUTH_CHALLENGE and AUTHENTICATE: the initiator of a link proves that it is a relay.
//!
//! Source: tor-spec, "AUTHENTICATE cells", method Ed25519-SHA256-RFC5705; C tor
//! `connection_or_compute_authenticate_cell_body()`.

use super::credentials::Credentials;
use super::verify::Verified;
use crate::wire::{Malformed, Reader};
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use tor_llcrypto::pk::ed25519::{PublicKey, Signature};

/// Number of the only supported authentication method.
pub const AUTH0003: u16 = 3;
/// Label for the TLS exporter. The exporter's context is the SHA-256 of the initiator's RSA identity key.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER FOR TOR TLS CLIENT BINDING AUTH0003";

/// Total length of the signed fields [B]: name, identities, logs, certificate, TLS secret and random bytes.
const SIGNED: usize = 8 + 8 * 32 + 24;
/// Length of the signed fields without the random bytes [B]. Both nodes can compute these fields.
const KNOWN: usize = SIGNED - 24;

/// An AUTH_CHALLENGE.
#[derive(Clone, Copy, Debug)]
pub struct Challenge([u8; 32]);

impl Challenge {
    /// A random challenge.
    pub fn new(rng: &mut impl CryptoRng) -> Self {
        let mut challenge = [0; 32];
        rng.fill_bytes(&mut challenge);
        Challenge(challenge)
    }

    /// The cell body, which offers [`AUTH0003`].
    pub fn body(&self) -> Vec<u8> {
        [&self.0[..], &1u16.to_be_bytes(), &AUTH0003.to_be_bytes()].concat()
    }
}

/// Whether an AUTH_CHALLENGE offers [`AUTH0003`].
pub fn method_is_offered(challenge: &[u8]) -> Result<bool, Malformed> {
    let mut reader = Reader::new(challenge);
    reader.take(32)?;
    let methods = (0..reader.u16()?).map(|_| reader.u16()).collect::<Result<Vec<_>, _>>()?;
    Ok(methods.contains(&AUTH0003))
}

/// The values that the initiator signs in AUTHENTICATE.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// SHA-256 of the RSA identity keys of initiator and responder.
    pub rsa: [[u8; 32]; 2],
    /// Ed25519 identities of initiator and responder.
    pub ed25519: [[u8; 32]; 2],
    /// SHA-256 of all bytes from the responder, up to and including AUTH_CHALLENGE.
    pub responder_log: [u8; 32],
    /// SHA-256 of all bytes that the initiator sent before AUTHENTICATE.
    pub initiator_log: [u8; 32],
    /// SHA-256 of the responder's TLS certificate.
    pub certificate: [u8; 32],
    /// Secret that TLS exports under [`EXPORTER_LABEL`].
    pub tls_secret: [u8; 32],
}

impl Binding {
    fn known(&self) -> [u8; KNOWN] {
        let parts = [
            &b"AUTH0003"[..],
            &self.rsa[0],
            &self.rsa[1],
            &self.ed25519[0],
            &self.ed25519[1],
            &self.responder_log,
            &self.initiator_log,
            &self.certificate,
            &self.tls_secret,
        ];
        let mut known = Vec::with_capacity(KNOWN);
        parts.iter().for_each(|part| known.extend_from_slice(part));
        known.try_into().expect("the parts have that length together")
    }
}

/// Builds the body of an AUTHENTICATE cell.
pub fn make(credentials: &Credentials, rng: &mut impl CryptoRng, binding: &Binding) -> Vec<u8> {
    let mut signed = [0; SIGNED];
    signed[..KNOWN].copy_from_slice(&binding.known());
    rng.fill_bytes(&mut signed[KNOWN..]);
    let signature = credentials.auth.sign(&signed).to_bytes();
    let len = (SIGNED + signature.len()) as u16;
    [&AUTH0003.to_be_bytes()[..], &len.to_be_bytes(), &signed, &signature].concat()
}

/// Verifies the AUTHENTICATE cell of an initiator. `verified` has the initiator's certificates.
pub fn verify(body: &[u8], verified: &Verified, binding: &Binding) -> Result<(), Malformed> {
    let mut reader = Reader::new(body);
    if reader.u16()? != AUTH0003 {
        return Err(Malformed);
    }
    let len = reader.u16()?;
    let mut reader = Reader::new(reader.take(len.into())?);
    let signed = reader.take(SIGNED)?;
    let signature = Signature::from_bytes(&reader.array()?);
    let key = PublicKey::from_bytes(&verified.authentication.ok_or(Malformed)?).map_err(|_| Malformed)?;
    let known = bool::from(signed[..KNOWN].ct_eq(&binding.known()));
    if known && reader.is_empty() && key.verify(signed, &signature).is_ok() { Ok(()) } else { Err(Malformed) }
}
