use crate::wire::{Malformed, Reader};
use std::net::{IpAddr, Ipv6Addr};

/// The destination that a client requests from an exit or a directory cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// BEGIN: a host name or an address.
    Host {
        /// Host name, or an address without brackets.
        host: String,
        /// Port; never zero.
        port: u16,
        /// Address families that the client accepts.
        flags: BeginFlags,
    },
    /// BEGIN_DIR: the directory cache of the relay.
    Directory,
    /// RESOLVE: a DNS lookup without a connection, of a host name or of an address as an `in-addr.arpa` name.
    Resolve(String),
    /// A malformed destination. The relay ends only the stream, with
    /// [`EndReason::PROTOCOL`](super::EndReason::PROTOCOL).
    Malformed,
}

/// Address families that a client accepts. Source: tor-spec, "Opening streams".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeginFlags(pub u32);

impl BeginFlags {
    /// The client accepts IPv6.
    pub fn ipv6_okay(self) -> bool {
        self.0 & 1 != 0
    }
    /// The client does not accept IPv4.
    pub fn ipv4_not_okay(self) -> bool {
        self.0 & 2 != 0
    }
    /// The client prefers IPv6.
    pub fn ipv6_preferred(self) -> bool {
        self.0 & 4 != 0
    }
}

/// Longest host name [B] (RFC 1035 §2.3.4, without the final dot).
const MAX_NAME: usize = 253;

impl Target {
    pub(super) fn read_begin(data: &[u8]) -> Self {
        parse_begin(data).unwrap_or(Target::Malformed)
    }

    /// Accepts a name without a final NUL, as C tor does.
    pub(super) fn read_resolve(data: &[u8]) -> Self {
        let name = data.split(|byte| *byte == 0).next().unwrap_or_default();
        text(name).map_or(Target::Malformed, Target::Resolve)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        match self {
            Target::Host { host, port, flags } => {
                let host = if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]") } else { host.clone() };
                let mut data = format!("{host}:{port}\0").into_bytes();
                if *flags != BeginFlags::default() {
                    data.extend_from_slice(&flags.0.to_be_bytes());
                }
                data
            }
            Target::Directory => Vec::new(),
            Target::Resolve(name) => format!("{name}\0").into_bytes(),
            Target::Malformed => panic!("this node sends no malformed target"),
        }
    }
}

/// The bytes as text; `None` if they are not printable ASCII or too long.
fn text(bytes: &[u8]) -> Option<String> {
    let fits = (1..=MAX_NAME).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    fits.then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
}

fn parse_begin(data: &[u8]) -> Result<Target, Malformed> {
    let end = data.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
    let (address, rest) = data.split_at(end);
    // Old clients send no flags, or fewer than four bytes of flags.
    let flags = BeginFlags(Reader::new(&rest[1..]).u32().unwrap_or(0));
    let colon = address.iter().rposition(|byte| *byte == b':').ok_or(Malformed)?;
    let port = text(&address[colon + 1..]).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = port.and_then(|port| port.parse().ok()).filter(|port| *port != 0).ok_or(Malformed)?;
    let host = &address[..colon];
    let host = match host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")) {
        Some(bracketed) => {
            text(bracketed).filter(|host| host.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()))
        }
        None => text(host).filter(|host| !host.contains([':', '[', ']'])),
    };
    Ok(Target::Host { host: host.ok_or(Malformed)?, port, flags })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(host: &str, port: u16, flags: u32) -> Target {
        Target::Host { host: host.into(), port, flags: BeginFlags(flags) }
    }

    #[test]
    fn names_and_addresses_of_both_families_are_parsed() {
        assert_eq!(Target::read_begin(b"127.0.0.1:7003\0"), host("127.0.0.1", 7003, 0));
        assert_eq!(Target::read_begin(b"www.xkcd.com:443\0\0\0\0\x03"), host("www.xkcd.com", 443, 3));
        assert_eq!(Target::read_begin(b"[2001:db8::1]:22\0"), host("2001:db8::1", 22, 0));
        assert_eq!(Target::read_resolve(b"example.com\0"), Target::Resolve("example.com".into()));
        assert_eq!(Target::read_resolve(b"example.com"), Target::Resolve("example.com".into()));
    }

    #[test]
    fn a_malformed_target_affects_only_its_stream() {
        for data in [
            "",
            "\0",
            "a:1",
            ":1\0",
            "a:0\0",
            "a:65536\0",
            "a:+1\0",
            "a\0",
            "a:b:1\0",
            "[a]:1\0",
            "[::]\0",
            "a b:1\0",
            "\u{fc}:1\0",
        ] {
            assert_eq!(Target::read_begin(data.as_bytes()), Target::Malformed, "{data:?}");
        }
        assert_eq!(Target::read_resolve(b""), Target::Malformed);
    }

    proptest! {
        #[test]
        fn a_written_target_parses_to_the_same_target(name in "[a-z0-9.-]{1,60}", port in 1u16.., flags in 0u32..8) {
            for target in [host(&name, port, flags), host("2001:db8::2", port, flags)] {
                prop_assert_eq!(Target::read_begin(&target.write()), target);
            }
        }

        #[test]
        fn no_bytes_cause_a_panic(data in proptest::collection::vec(any::<u8>(), 0..498)) {
            Target::read_begin(&data);
            Target::read_resolve(&data);
        }
    }
}
