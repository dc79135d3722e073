//! What a relay has to do with directories: it tells the authorities of itself, and keeps their documents for others.
//!
//! Rooms: `authorities` are who they are and their certificates, `consensus` what they agree on, `params` how all are to
//! behave; `documents` keeps what was verified, `serve` answers requests from it, `http` is how both are asked; `cache`
//! says what is to be fetched and handed over when, `publication` when the relay has news, with what it was seen to
//! carry (`bandwidth`); `worker` is the thread that does it.
//!
//! Source: dir-spec.

mod authorities;
mod bandwidth;
mod cache;
mod consensus;
mod documents;
mod failure;
mod http;
mod params;
mod publication;
mod serve;
mod text;
mod worker;

#[cfg(test)]
mod samples;

pub use authorities::{Authority, AuthorityCert, Fingerprint};
pub use cache::{DirectoryEvent, RetryPolicy};
pub use consensus::{Consensus, Flavour};
pub use documents::Documents;
pub use failure::Failure;
pub use http::Answer;
pub use params::{CongestionAlgorithm, OperatorOverrides, Params};
pub use publication::Publication;
pub use serve::Question;
pub use worker::Directory;
