//! Directory authorities. A relay needs an acknowledgement before it uses those of the public network.

use super::values::digest;
use super::{ValueError, invalid};
use std::net::{SocketAddrV4, SocketAddrV6};

/// A directory authority.
///
/// Source: C tor's manual, `DirAuthority`; C tor `parse_dir_authority_line()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Nickname, if the line has one.
    pub nickname: Option<String>,
    /// Address of the directory port.
    pub dir: SocketAddrV4,
    /// Number of the ORPort, at the same address.
    pub or_port: Option<u16>,
    /// Address of the IPv6 ORPort.
    pub ipv6: Option<SocketAddrV6>,
    /// SHA-1 of the identity key for votes. Without it, the authority's signatures do not count.
    pub v3_identity: Option<[u8; 20]>,
    /// SHA-1 of the authority's RSA identity as a relay.
    pub identity: [u8; 20],
}

impl Authority {
    pub(super) fn parse(text: &str) -> Result<Self, ValueError> {
        let mut words = text.split_whitespace().peekable();
        let legal = |word: &&str| super::values::nickname(word).is_ok() && !word.contains('=');
        let digits = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
        let nickname = words.next_if(legal).map(str::to_owned);
        let (mut or_port, mut ipv6, mut v3_identity) = (None, None, None);
        while let Some(flag) = words.next_if(|word| !digits(word)) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            let wrong = || invalid!("{value:?} is no {name} of a directory authority");
            match &name.to_ascii_lowercase()[..] {
                "orport" => or_port = Some(value.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
                "v3ident" => v3_identity = Some(digest(value)?),
                "ipv6" => ipv6 = Some(value.parse().map_err(|_| wrong())?),
                // These flags have no meaning for a relay.
                "weight" | "hs" | "no-hs" | "no-v2" | "upload" | "download" | "vote" => {}
                "bridge" => {
                    return Err("bridge authorities are not supported; remove the line".into());
                }
                _ => {
                    return Err(invalid!(
                        "{flag:?} is no flag of a directory authority; write orport=, v3ident=, ipv6= or weight="
                    ));
                }
            }
        }
        let dir = words.next().ok_or("an IPv4 address, a colon and a port must follow the flags")?;
        let dir: SocketAddrV4 =
            dir.parse().ok().filter(|dir: &SocketAddrV4| dir.port() > 0).ok_or_else(|| {
                invalid!("{dir:?} must be an IPv4 address, a colon and the port at which it speaks HTTP")
            })?;
        let fingerprint: String = words.collect();
        Ok(Authority { nickname, dir, or_port, ipv6, v3_identity, identity: digest(&fingerprint)? })
    }

    /// Whether this is an authority of the public network.
    pub fn is_public(&self) -> bool {
        public_authorities().iter().any(|public| {
            public.identity == self.identity
                || (self.v3_identity.is_some() && public.v3_identity == self.v3_identity)
        })
    }
}

/// The directory authorities of the public Tor network.
///
/// Source: C tor 0.4.9.11 `auth_dirs.inc`, without the authority for bridges.
pub fn public_authorities() -> Vec<Authority> {
    PUBLIC.lines().map(|line| Authority::parse(line).expect("the test reads them all")).collect()
}

const PUBLIC: &str = "\
moria1 orport=9201 v3ident=F533C81CEF0BC0267857C99B2F471ADF249FA232 128.31.0.39:9231 1A25C6358DB91342AA51720A5038B72742732498
tor26 orport=443 v3ident=2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C 217.196.147.77:80 FAA4BCA4A6AC0FB4CA2F8AD5A11D9E122BA894F6
dizum orport=443 v3ident=E8A9C45EDE6D711294FADF8E7951F4DE6CA56B58 45.66.35.11:80 7EA6EAD6FD83083C538F44038BBFA077587DD755
gabelmoo orport=443 v3ident=ED03BB616EB2F60BEC80151114BB25CEF515B226 131.188.40.189:80 F2044413DAC2E02E3D6BCF4735A19BCA1DE97281
dannenberg orport=443 v3ident=0232AF901C31A04EE9848595AF9BB7620D4C5B2E 193.23.244.244:80 7BE683E65D48141321C5ED92F075C55364AC7123
maatuska orport=80 v3ident=49015F787433103580E3B66A1707A00E60F2D15B 171.25.193.9:443 BD6A829255CB08E66FBE7D3748363586E46B3810
longclaw orport=443 v3ident=23D15D965BC35114467363C165C4F724B64B4F66 199.58.81.140:80 74A910646BCEEFBCD2E874FC1DC997430F968145
bastet orport=443 v3ident=27102BC123E7AF1D4741AE047E160C91ADC76B21 204.13.164.118:80 24E2F139121D4394C54B5BCC368B3B411857C413
faravahar orport=443 v3ident=70849B868D606BAECFB6128C5E3D782029AA394F 216.218.219.41:80 E3E42D35F801C9D5AB23584E0025D56FE2B33396";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_network_has_nine_authorities() {
        let authorities = public_authorities();
        assert_eq!(authorities.len(), 9);
        assert!(authorities.iter().all(|authority| authority.is_public() && authority.v3_identity.is_some()));
    }

    #[test]
    fn an_authority_line_of_c_tor_is_parsed() {
        let text = "test000a orport=5000 no-v2 v3ident=15DA1DF6EBE1B4B1DA1B2CA7E6FC0F1C3B8F1D54 weight=1.0 \
                    ipv6=[::1]:5000 127.0.0.1:7000 BCB3 8A1C 4D5F 0B1B 2F1B B9B5 9D5D 0D7E 5B1C 3F2A";
        let authority = Authority::parse(text).unwrap();
        assert_eq!(authority.nickname.as_deref(), Some("test000a"));
        assert_eq!((authority.dir.port(), authority.or_port), (7000, Some(5000)));
        assert_eq!(authority.identity[..2], [0xbc, 0xb3]);
        assert!(!authority.is_public());
        let nameless = Authority::parse("127.0.0.1:7000 BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A").unwrap();
        assert_eq!((nameless.nickname, nameless.v3_identity), (None, None));
    }

    #[test]
    fn errors_in_an_authority_line_are_reported() {
        for (text, why) in [
            ("", "an IPv4 address, a colon and a port must follow"),
            ("a orport=0 127.0.0.1:1 00", "\"0\" is no orport"),
            ("a orport=1 127.0.0.1 00", "\"127.0.0.1\" must be an IPv4 address"),
            ("a 127.0.0.1:1 00", "\"00\" must be 40 hexadecimal digits"),
            ("a what=ever 127.0.0.1:1 00", "is no flag of a directory authority"),
            ("a v3ident=12 127.0.0.1:1 00", "\"12\" must be 40 hexadecimal digits"),
            ("a bridge 127.0.0.1:1 00", "bridge authorities"),
        ] {
            let error = Authority::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
