//! Circuit cryptography: encryption layers ([`tor1`]), handshakes that agree on keys, a relay's [`answer`], and the
//! client's side ([`ClientHandshake`]).

mod answer;
mod client;
pub mod extensions;
pub mod fast;
mod keystream;
pub mod ntor;
pub mod ntor_v3;
pub mod tor1;

#[cfg(test)]
mod tests;

pub use answer::{Answered, Identities, OnionKey, answer};
pub use client::{ClientHandshake, RelayKeys};
pub use keystream::KeyStream;

/// The reason why a circuit handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The handshake type is not supported.
    #[error("the circuit handshake is of an unsupported type")]
    UnknownHandshake,
    /// The handshake is malformed.
    #[error("the circuit handshake is malformed")]
    Malformed,
    /// The handshake is for another relay, or uses an expired or unknown onion key.
    #[error("the circuit handshake is for another relay or another onion key")]
    WrongKey,
    /// The sender does not have the keys that it claims, or the message was changed on its way.
    #[error("the circuit handshake is forged")]
    Forged,
}

impl From<crate::wire::Malformed> for Refused {
    fn from(_: crate::wire::Malformed) -> Self {
        Refused::Malformed
    }
}
