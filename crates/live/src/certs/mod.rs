//! How the two nodes of a link prove who they are: the bodies of CERTS, AUTH_CHALLENGE, AUTHENTICATE and NETINFO.
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
pub(crate) mod kind {
    pub(crate) const RSA_ID: u8 = 2;
    pub(crate) const ID_V_SIGNING: u8 = 4;
    pub(crate) const SIGNING_V_TLS: u8 = 5;
    pub(crate) const SIGNING_V_AUTH: u8 = 6;
    pub(crate) const RSA_V_ID: u8 = 7;
}
