//! Directory functions of a relay. The relay publishes its descriptor, fetches documents of the authorities, and
//! serves them.
//!
//! `authorities`, `consensus` and `params` parse certificates, the consensus and its parameters. `documents` keeps
//! verified documents, and `serve` answers requests. `http` is the protocol in both directions. `cache` schedules
//! downloads and uploads. `publication` decides when to publish a new descriptor, and `bandwidth` measures the observed
//! bandwidth for it. `worker` is the thread for directory requests.
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
pub(crate) mod samples;

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

/// The items of a document, up to the first malformed one.
fn items(text: &str) -> impl Iterator<Item = Result<Item<'_>, Malformed>> {
    let mut is_over = false;
    let items = penstock_network::document::items(text.as_bytes()).map(Item::strict);
    items.take_while(move |item| !std::mem::replace(&mut is_over, item.is_err()))
}

/// The time from `earlier` to `later`; zero if `later` is before `earlier`.
fn between(earlier: SystemTime, later: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}
