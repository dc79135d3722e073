//! Directory documents of a small C tor network. `samples/README.md` describes the network.

use penstock_live::directory::Authority;
use penstock_network::document::hex;
use std::time::{Duration, SystemTime};

/// Key certificates of the three authorities.
pub const CERTIFICATES: &str = include_str!("samples/certificates");
/// Consensus with digests of server descriptors.
pub const PLAIN: &str = include_str!("samples/consensus");
/// Consensus with digests of microdescriptors.
pub const MICRO: &str = include_str!("samples/consensus-microdesc");
/// All microdescriptors.
pub const MICRODESCRIPTORS: &str = include_str!("samples/microdescriptors");
/// All server descriptors.
pub const DESCRIPTORS: &str = include_str!("samples/descriptors");

/// The authorities of the sample network.
pub fn authorities() -> Vec<Authority> {
    let identities = [
        "0B09811CFD07A5889D56CABF8536096F665D2D76",
        "3B985D2E3AC835F1A7325AB9D35198337A5A0766",
        "AD8C0D291157755D9862C60BE77E6C9216947339",
    ];
    let authority = |(number, identity): (u16, &&str)| Authority {
        nickname: format!("auth{number}"),
        v3ident: hex(identity).unwrap(),
        dir_port: ([127, 0, 0, 1], 17_001 + 10 * number).into(),
    };
    (0..).zip(&identities).map(authority).collect()
}

/// The time `seconds` [s] after the consensus's valid-after time. The consensus is fresh for ten seconds.
pub fn at(seconds: u64) -> SystemTime {
    humantime::parse_rfc3339("2026-11-22T09:21:20Z").unwrap() + Duration::from_secs(seconds)
}
