//! Authentication of the two nodes of a link, with the cells CERTS, AUTH_CHALLENGE, AUTHENTICATE and NETINFO.
//!
//! Source: tor-spec, "Negotiating and initializing channels"; cert-spec.

mod authenticate;
mod credentials;
mod netinfo;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

pub use authenticate::{AUTH0003, Binding, Challenge, EXPORTER_LABEL, make, method_is_offered, verify};
pub use credentials::Credentials;
pub use netinfo::Netinfo;
pub use verify::{CertsError, Identity, LinkKey, Verified, verify_certs};

/// Kinds of certificates in a CERTS cell.
pub mod kind {
    /// RSA identity, as an X.509 certificate.
    pub const RSA_ID: u8 = 2;
    /// The ed25519 identity signs the signing key.
    pub const ID_V_SIGNING: u8 = 4;
    /// The signing key signs the digest of the TLS certificate.
    pub const SIGNING_V_TLS: u8 = 5;
    /// The signing key signs the key that signs AUTHENTICATE.
    pub const SIGNING_V_AUTH: u8 = 6;
    /// The RSA identity signs the ed25519 identity.
    pub const RSA_V_ID: u8 = 7;
}
