//! Sample documents of a C tor network.

use super::authorities::Authority;
pub(super) use penstock_fuzzing::samples::*;

/// The authorities of the sample network. The crate with the samples uses this crate without `cfg(test)`. Its type
/// `Authority` is therefore a different type.
pub(super) fn authorities() -> Vec<Authority> {
    let known = penstock_fuzzing::samples::authorities().into_iter();
    known.map(|it| Authority { nickname: it.nickname, v3ident: it.v3ident, dir_port: it.dir_port }).collect()
}
