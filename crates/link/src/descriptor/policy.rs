//! Exit policies.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The addresses that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// All addresses: `*`.
    All,
    /// All IPv4 addresses: `*4`.
    AllV4,
    /// All IPv6 addresses: `*6`.
    AllV6,
    /// A network: address and prefix length [bit].
    Network(IpAddr, u8),
}

/// A rule of an exit policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether the rule accepts or rejects.
    pub accept: bool,
    /// Addresses that the rule matches.
    pub addresses: Addresses,
    /// Ports that the rule matches.
    pub ports: RangeInclusive<u16>,
}

/// A malformed rule. The message shows the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no exit rule; write accept or reject, an address, a network or *, a colon, and ports, such as \"accept *:443\" or \"reject 192.0.2.0/24:1-1024\""
)]
pub struct BadRule(String);

/// Private networks. An exit rejects them by default.
/// Source: C tor `private_nets`.
const PRIVATE: [(IpAddr, u8); 12] = [
    (v4(0, 0, 0, 0), 8),
    (v4(169, 254, 0, 0), 16),
    (v4(127, 0, 0, 0), 8),
    (v4(192, 168, 0, 0), 16),
    (v4(10, 0, 0, 0), 8),
    (v4(172, 16, 0, 0), 12),
    (v6(0), 8),
    (v6(0xfc00), 7),
    (v6(0xfe80), 10),
    (v6(0xfec0), 10),
    (v6(0xff00), 8),
    (v6(0), 127),
];

/// Address and prefix length [bit] of each private network.
pub fn private_networks() -> impl Iterator<Item = (IpAddr, u8)> {
    PRIVATE.into_iter()
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(first: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0))
}

impl Addresses {
    fn contains(self, address: IpAddr) -> bool {
        match self {
            Addresses::All => true,
            Addresses::AllV4 => address.is_ipv4(),
            Addresses::AllV6 => address.is_ipv6(),
            Addresses::Network(network, bits) => match (network, address) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    shared(network.to_bits().into(), address.to_bits().into(), 32, bits)
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    shared(network.to_bits(), address.to_bits(), 128, bits)
                }
                _ => false,
            },
        }
    }

    fn may_be_v4(self) -> bool {
        match self {
            Addresses::AllV6 => false,
            Addresses::Network(network, _) => network.is_ipv4(),
            Addresses::All | Addresses::AllV4 => true,
        }
    }
}

/// Whether the first `bits` bits of two addresses are equal. Addresses have `len` bits.
fn shared(a: u128, b: u128, len: u8, bits: u8) -> bool {
    bits == 0 || (a ^ b) >> (len - bits.min(len)) == 0
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addresses::All => f.write_str("*"),
            Addresses::AllV4 => f.write_str("*4"),
            Addresses::AllV6 => f.write_str("*6"),
            Addresses::Network(IpAddr::V4(address), 32) => write!(f, "{address}"),
            Addresses::Network(IpAddr::V4(network), bits) => write!(f, "{network}/{bits}"),
            Addresses::Network(IpAddr::V6(address), 128) => write!(f, "[{address}]"),
            Addresses::Network(IpAddr::V6(network), bits) => write!(f, "[{network}]/{bits}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:", if self.accept { "accept" } else { "reject" }, self.addresses)?;
        match (*self.ports.start(), *self.ports.end()) {
            (0 | 1, u16::MAX) => f.write_str("*"),
            (port, end) if port == end => write!(f, "{port}"),
            (start, end) => write!(f, "{start}-{end}"),
        }
    }
}

/// The keywords `accept6` and `reject6` apply only to IPv6.
/// Source: C tor's manual, `ExitPolicy`; dir-spec, "Exit policies".
impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(line: &str) -> Result<Self, BadRule> {
        parse_rule(line).ok_or_else(|| BadRule(line.to_owned()))
    }
}

fn parse_rule(line: &str) -> Option<Rule> {
    let (verb, pattern) = line.trim().split_once(|space: char| space.is_ascii_whitespace())?;
    let (accept, six) = match verb {
        "accept" => (true, false),
        "reject" => (false, false),
        "accept6" => (true, true),
        "reject6" => (false, true),
        _ => return None,
    };
    let pattern = pattern.trim();
    // A rule without ports applies to all ports. An IPv6 address with a port has brackets.
    let (address, ports) = match pattern.rfind(':').filter(|colon| !pattern[*colon..].contains(']')) {
        Some(colon) => (&pattern[..colon], &pattern[colon + 1..]),
        None => (pattern, "*"),
    };
    let addresses = match address {
        "*" if six => Addresses::AllV6,
        "*" => Addresses::All,
        "*4" => Addresses::AllV4,
        "*6" => Addresses::AllV6,
        network => parse_network(network)?,
    };
    if six && addresses.may_be_v4() {
        return None;
    }
    Some(Rule { accept, addresses, ports: parse_ports(ports)? })
}

fn parse_network(text: &str) -> Option<Addresses> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address = match address.strip_prefix('[').and_then(|address| address.strip_suffix(']')) {
        Some(v6) => IpAddr::V6(v6.parse().ok()?),
        None => IpAddr::V4(address.parse().ok()?),
    };
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(all), |bits| bits.parse().ok().filter(|bits| *bits <= all))?;
    Some(Addresses::Network(address, bits))
}

fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "*" {
        return Some(1..=u16::MAX);
    }
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    let (start, end) = (start.parse().ok()?, end.parse().ok()?);
    (start <= end && end > 0).then_some(start..=end)
}

/// How an exit policy treats private addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Private {
    /// Always reject private addresses.
    #[default]
    Rejected,
    /// Apply the rules to private addresses, for test networks.
    AsRules,
}

/// An exit policy. The first matching rule decides. If no rule matches, the exit rejects the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitPolicy {
    rules: Vec<Rule>,
    private: Private,
    own: Vec<IpAddr>,
}

/// Whether an address belongs to a private network (C tor `tor_addr_is_internal()`).
pub fn is_private(address: IpAddr) -> bool {
    // An IPv4-mapped IPv6 address is in [::]/8.
    PRIVATE.iter().any(|(network, bits)| Addresses::Network(*network, *bits).contains(address))
}

impl ExitPolicy {
    /// A policy with these rules. The relay's `own` addresses count as private.
    pub fn new(rules: Vec<Rule>, private: Private, own: Vec<IpAddr>) -> Self {
        ExitPolicy { rules, private, own }
    }

    /// Whether the policy allows a stream to `port` at `address`.
    ///
    /// Source: C tor `compare_tor_addr_to_addr_policy()`. C tor also rejects private addresses by default
    /// (`ExitPolicyRejectPrivate`).
    pub fn allows(&self, address: IpAddr, port: u16) -> bool {
        if port == 0 || (self.private == Private::Rejected && self.is_private(address)) {
            return false;
        }
        // Linux connects to ::ffff:192.0.2.1 over IPv4, so the rules for IPv4 hold.
        let address = address.to_canonical();
        let rule =
            self.rules.iter().find(|rule| rule.addresses.contains(address) && rule.ports.contains(&port));
        rule.is_some_and(|rule| rule.accept)
    }

    fn is_private(&self, address: IpAddr) -> bool {
        is_private(address) || self.own.contains(&address)
    }

    /// Whether the policy rejects every stream.
    pub fn rejects_all(&self) -> bool {
        !self.rules.iter().any(|rule| rule.accept)
    }

    /// The policy lines of a server descriptor. They cover IPv4 only.
    ///
    /// Source: dir-spec, "accept" and "reject"; C tor `router_dump_exit_policy_to_string()`.
    pub(super) fn lines(&self) -> String {
        if self.rejects_all() {
            return "reject *:*\n".to_owned();
        }
        let mut text = String::new();
        if self.private == Private::Rejected {
            let v4 = PRIVATE.iter().filter(|(network, _)| network.is_ipv4());
            let own = self.own.iter().filter(|address| address.is_ipv4());
            let own = own.map(|address| (*address, 32));
            for (network, bits) in v4.copied().chain(own) {
                let rule =
                    Rule { accept: false, addresses: Addresses::Network(network, bits), ports: 1..=u16::MAX };
                text.push_str(&format!("{rule}\n"));
            }
        }
        for rule in self.rules.iter().filter(|rule| rule.addresses.may_be_v4()) {
            let addresses = if rule.addresses == Addresses::AllV4 { Addresses::All } else { rule.addresses };
            text.push_str(&format!("{}\n", Rule { addresses, ..rule.clone() }));
        }
        text.push_str("reject *:*\n");
        text
    }

    /// The IPv6 summary of a server descriptor: ports that the policy accepts for most addresses. `None` if there are
    /// none.
    ///
    /// Source: dir-spec, "ipv6-policy".
    /// Deviation: this function considers only rules for all IPv6 addresses. C tor's `policy_summarize()` also counts
    /// the rejected addresses of each port.
    pub(super) fn v6_summary(&self) -> Option<String> {
        let wide = |rule: &&Rule| match rule.addresses {
            Addresses::All | Addresses::AllV6 => true,
            Addresses::Network(network, bits) => network.is_ipv6() && bits == 0,
            Addresses::AllV4 => false,
        };
        let rules: Vec<_> = self.rules.iter().filter(wide).collect();
        let open =
            |port: u16| rules.iter().find(|rule| rule.ports.contains(&port)).is_some_and(|rule| rule.accept);
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for port in (1..=u16::MAX).filter(|port| open(*port)) {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == port => *last = *last.start()..=port,
                _ => ranges.push(port..=port),
            }
        }
        let print = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start}-{end}"),
        };
        let list: Vec<String> = ranges.iter().map(print).collect();
        (!list.is_empty()).then(|| format!("accept {}", list.join(",")))
    }
}

/// Writes one rule per line.
impl fmt::Display for ExitPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(lines: &[&str], private: Private) -> ExitPolicy {
        let rules = lines.iter().map(|line| line.parse().unwrap()).collect();
        ExitPolicy::new(rules, private, vec!["198.51.100.7".parse().unwrap()])
    }

    fn allows(policy: &ExitPolicy, address: &str, port: u16) -> bool {
        policy.allows(address.parse().unwrap(), port)
    }

    #[test]
    fn an_exit_policy_without_rules_rejects_all() {
        let policy = ExitPolicy::default();
        assert!(
            policy.rejects_all() && !allows(&policy, "192.0.2.1", 80) && !allows(&policy, "2001:db8::1", 443)
        );
        assert_eq!((policy.lines(), policy.v6_summary()), ("reject *:*\n".to_owned(), None));
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let policy = policy(
            &["reject 192.0.2.0/24:*", "accept *:80-81", "reject *6:443", "accept *:443"],
            Private::Rejected,
        );
        for (address, port, expected) in [
            ("192.0.2.255", 80, false),
            ("192.0.3.0", 80, true),
            ("192.0.3.0", 82, false),
            ("192.0.3.0", 443, true),
            ("2001:db8::1", 443, false),
            ("2001:db8::1", 81, true),
            ("192.0.3.0", 0, false),
        ] {
            assert_eq!(allows(&policy, address, port), expected, "{address} {port}");
        }
    }

    #[test]
    fn ipv4_rules_hold_for_ipv4_mapped_addresses() {
        let policy = policy(&["reject 192.0.2.0/24:*", "accept *:*"], Private::AsRules);
        assert!(!allows(&policy, "::ffff:192.0.2.1", 80) && allows(&policy, "::ffff:192.0.3.1", 80));
    }

    #[test]
    fn private_addresses_need_an_option_and_a_rule() {
        let [closed, open] =
            [Private::Rejected, Private::AsRules].map(|private| policy(&["accept *:*"], private));
        for address in [
            "10.1.2.3",
            "127.0.0.1",
            "169.254.169.254",
            "172.31.255.255",
            "192.168.0.1",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:192.0.2.1",
            "198.51.100.7",
        ] {
            assert!(!allows(&closed, address, 80), "{address}");
            assert!(allows(&open, address, 80), "{address}");
        }
        for address in ["172.32.0.0", "11.0.0.0", "9.255.255.255", "2001:db8::1", "198.51.100.8"] {
            assert!(allows(&closed, address, 80), "{address}");
        }
    }

    #[test]
    fn an_invalid_rule_is_rejected_with_a_correct_form() {
        for line in [
            "",
            "accept",
            "allow *:80",
            "accept *:0",
            "accept *:80-79",
            "accept *:70000",
            "accept 1.2.3:80",
            "accept 1.2.3.4/33:80",
            "accept [::1/128:80",
            "accept [::]/129:1",
            "accept6 1.2.3.4:80",
            "accept *:80 please",
            "reject6 *4:80",
        ] {
            let error = line.parse::<Rule>().expect_err(line).to_string();
            assert!(error.contains("accept *:443"), "{error}");
        }
    }

    #[test]
    fn a_descriptor_has_the_rules_of_ipv4_and_a_summary_of_ipv6() {
        let policy = policy(
            &["reject [2001:db8::]/32:*", "accept *4:22", "accept *:80", "accept *:443"],
            Private::Rejected,
        );
        let lines = policy.lines();
        assert!(lines.starts_with("reject 0.0.0.0/8:*\nreject 169.254.0.0/16:*\n"));
        assert!(
            lines.ends_with("reject 198.51.100.7:*\naccept *:22\naccept *:80\naccept *:443\nreject *:*\n"),
            "{lines}"
        );
        assert_eq!(policy.v6_summary().as_deref(), Some("accept 80,443"));
    }

    proptest! {
        #[test]
        fn a_printed_rule_parses_to_the_same_rule(
            accept: bool, octets: [u8; 16], bits in 0u8..=128, v4: bool, ports in (1u16.., 1u16..), all in 0u8..4,
        ) {
            let network = if v4 {
                Addresses::Network(IpAddr::from(*octets.first_chunk::<4>().unwrap()), bits / 4)
            } else {
                Addresses::Network(octets.into(), bits)
            };
            let addresses = [Addresses::All, Addresses::AllV4, Addresses::AllV6, network][usize::from(all)];
            let ports = ports.0.min(ports.1)..=ports.0.max(ports.1);
            let rule = Rule { accept, addresses, ports };
            prop_assert_eq!(rule.to_string().parse(), Ok(rule));
        }

        #[test]
        fn no_rule_causes_a_panic(line in ".{0,60}", address: [u8; 16], port: u16) {
            if let Ok(rule) = line.parse::<Rule>() {
                ExitPolicy::new(vec![rule], Private::AsRules, Vec::new()).allows(address.into(), port);
            }
        }
    }
}
