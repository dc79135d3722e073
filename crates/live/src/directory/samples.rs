//! Documents of a network of C tor that was there for a minute; `samples/README.md` says which.

use super::authorities::Authority;
use super::text::hex;
use std::time::{Duration, SystemTime};

pub(super) const CERTIFICATES: &str = include_str!("samples/certificates");
pub(super) const PLAIN: &str = include_str!("samples/consensus");
pub(super) const MICRO: &str = include_str!("samples/consensus-microdesc");
pub(super) const MICRODESCRIPTORS: &str = include_str!("samples/microdescriptors");
pub(super) const DESCRIPTORS: &str = include_str!("samples/descriptors");

/// Its authorities, by the ports that they had.
pub(super) fn authorities() -> Vec<Authority> {
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

/// While its consensus was fresh: ten seconds after 09:21:20, so many seconds later.
pub(super) fn at(seconds: u64) -> SystemTime {
    humantime::parse_rfc3339("2026-11-22T09:21:20Z").unwrap() + Duration::from_secs(seconds)
}
