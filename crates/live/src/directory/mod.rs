//! Directory functions of a relay: it publishes its descriptor, and fetches and serves the documents of the
//! authorities.
//!
//! Modules: `authorities` has the authorities and their certificates, `consensus` the consensus, and `params` its
//! parameters. `documents` keeps verified documents, and `serve` answers requests from them. `http` is the protocol of
//! both directions. `cache` schedules downloads and uploads. `publication` decides when to publish a new descriptor,
//! with the observed bandwidth of `bandwidth`. `worker` is the thread that does the requests.
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
