//! Keys and layers of circuits: [`tor1`] for what travels, and the handshakes that agree on its keys, which [`answer`]
//! puts together as a relay does.

mod answer;
pub mod extensions;
pub mod fast;
mod keystream;
pub mod ntor;
pub mod ntor_v3;
pub mod tor1;

#[cfg(test)]
mod tests;

pub use answer::{Answered, Identities, OnionKey, answer};
pub use keystream::KeyStream;

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// It is one that nobody here speaks.
    UnknownHandshake,
    /// It makes no sense.
    Malformed,
    /// It is for another relay, or for an onion key that is no longer or not yet there.
    WrongKey,
    /// Whoever sent it does not have the keys that it names, or somebody changed it on the way.
    Forged,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refused::UnknownHandshake => "the circuit's handshake is one that nobody here speaks",
            Refused::Malformed => "the circuit's handshake is malformed",
            Refused::WrongKey => "the circuit's handshake is for another relay or another onion key",
            Refused::Forged => "the circuit's handshake is forged",
        })
    }
}

impl std::error::Error for Refused {}

impl From<crate::wire::Malformed> for Refused {
    fn from(_: crate::wire::Malformed) -> Self {
        Refused::Malformed
    }
}
