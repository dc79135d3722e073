//! The sample documents of a C tor network, and its authorities.

use super::authorities::Authority;
pub(super) use penstock_fuzzing::samples::*;

/// The authorities of the sample network.
///
/// The crate with the samples is built against this crate without `cfg(test)`, so its `Authority` is another type.
pub(super) fn authorities() -> Vec<Authority> {
    let known = penstock_fuzzing::samples::authorities().into_iter();
    known.map(|it| Authority { nickname: it.nickname, v3ident: it.v3ident, dir_port: it.dir_port }).collect()
}
