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
mod worker;

#[cfg(test)]
mod samples;

use penstock_network::document::{Item, Malformed};
use std::time::{Duration, SystemTime};

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

/// The items of a document, up to the first one that is malformed.
fn items(text: &str) -> impl Iterator<Item = Result<Item<'_>, Malformed>> {
    let mut is_over = false;
    let items = penstock_network::document::items(text.as_bytes()).map(Item::strict);
    items.take_while(move |item| !std::mem::replace(&mut is_over, item.is_err()))
}

/// The time from `earlier` to `later`; zero if `later` is before `earlier`.
fn between(earlier: SystemTime, later: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}
