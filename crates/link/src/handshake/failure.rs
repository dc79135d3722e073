//! Failures of the link handshake.

use crate::certs::CertsError;

/// The reason why a link handshake failed. The caller must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFailure {
    /// The peer did not start with VERSIONS.
    #[error("the peer does not speak Tor's link protocol")]
    NotTor,
    /// Both nodes support different versions of the link protocol.
    #[error("the peer supports neither version 4 nor 5 of the link protocol")]
    NoCommonVersion,
    /// Both nodes support different authentication methods.
    #[error("the peer offers no supported authentication method")]
    NoCommonMethod,
    /// A cell with this command is not allowed at this point.
    #[error("a cell of command {0} is not allowed at this point of the link handshake")]
    Unexpected(u8),
    /// A cell with this command is malformed.
    #[error("the peer's cell of command {0} is malformed")]
    Malformed(u8),
    /// A cell, or the sum of all cells, is too long.
    #[error("the peer sent more than a link handshake allows")]
    TooMuch,
    /// The peer's certificates were rejected.
    #[error(transparent)]
    Certs(CertsError),
    /// The peer is not the expected relay.
    #[error("the peer is not the expected relay")]
    WrongIdentity,
    /// AUTHENTICATE does not prove that the peer has the key of its certificates.
    #[error("the peer did not prove its identity")]
    BadAuthentication,
    /// TLS did not export a secret.
    #[error("TLS exported no secret for the authentication")]
    NoExporter,
}

impl LinkFailure {
    /// The failure, as a label of a metric.
    pub fn label(self) -> &'static str {
        match self {
            LinkFailure::NotTor => "not_tor",
            LinkFailure::NoCommonVersion => "no_common_version",
            LinkFailure::NoCommonMethod => "no_common_method",
            LinkFailure::Unexpected(_) => "unexpected_cell",
            LinkFailure::Malformed(_) => "malformed_cell",
            LinkFailure::TooMuch => "too_much",
            LinkFailure::Certs(_) => "certificates",
            LinkFailure::WrongIdentity => "wrong_identity",
            LinkFailure::BadAuthentication => "bad_authentication",
            LinkFailure::NoExporter => "no_exporter",
        }
    }
}
