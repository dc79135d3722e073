//! Why there is no link.

use crate::certs::CertsError;
use std::fmt;

/// Why a handshake failed; the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkFailure {
    /// The peer does not begin with VERSIONS.
    NotTor,
    /// The peer speaks no version of the link protocol that is spoken here.
    NoCommonVersion,
    /// The peer offers no way to authenticate.
    NoCommonMethod,
    /// A cell of this command has no place there.
    Unexpected(u8),
    /// A cell of this command makes no sense.
    Malformed(u8),
    /// A cell, or all of them, are longer than any handshake is.
    TooMuch,
    /// The peer's certificates prove nothing.
    Certs(CertsError),
    /// The peer is another relay than the one that was meant.
    WrongIdentity,
    /// The peer does not have the keys of the relay that it says it is.
    BadAuthentication,
    /// TLS cannot say what both its ends know.
    NoExporter,
}

impl LinkFailure {
    /// The failure as a label of a metric.
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

impl fmt::Display for LinkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkFailure::NotTor => write!(f, "the peer does not speak Tor's link protocol"),
            LinkFailure::NoCommonVersion => {
                write!(f, "the peer speaks neither version 4 nor 5 of the link protocol")
            }
            LinkFailure::NoCommonMethod => {
                write!(f, "the peer offers no method of authentication that is known here")
            }
            LinkFailure::Unexpected(command) => {
                write!(f, "a cell of command {command} has no place in the link's handshake there")
            }
            LinkFailure::Malformed(command) => write!(f, "the peer's cell of command {command} is malformed"),
            LinkFailure::TooMuch => write!(f, "the peer says more than a link's handshake may hold"),
            LinkFailure::Certs(error) => error.fmt(f),
            LinkFailure::WrongIdentity => write!(f, "the peer is another relay than the one that was meant"),
            LinkFailure::BadAuthentication => {
                write!(f, "the peer does not prove to be the relay that it says it is")
            }
            LinkFailure::NoExporter => write!(f, "TLS has nothing to bind the peer's authentication to"),
        }
    }
}

impl std::error::Error for LinkFailure {}
