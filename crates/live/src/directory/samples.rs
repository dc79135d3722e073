//! Sample documents of a C tor network.

use super::authorities::Authority;
pub(crate) use penstock_fuzzing::samples::*;

/// The authorities of the sample network, converted to this test build's type `Authority`. The crate with the samples
/// uses the type of a build without tests.
pub(crate) fn authorities() -> Vec<Authority> {
    let known = penstock_fuzzing::samples::authorities().into_iter();
    known.map(|it| Authority { nickname: it.nickname, v3ident: it.v3ident, dir_port: it.dir_port }).collect()
}
