//! Types of option values. Each error message shows the correct form.

use super::{ValueError, invalid};
use penstock_link::descriptor::{Addresses, Rule, private_networks};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Maximum of byte counts and rates in C tor [B].
pub(super) const MOST_BYTES: u64 = i32::MAX as u64;

pub(super) fn flag(text: &str) -> Result<bool, ValueError> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(invalid!("{text:?} must be 0 or 1")),
    }
}

/// Parses `0`, `1` or `auto`; `None` is `auto`.
pub(super) fn auto_flag(text: &str) -> Result<Option<bool>, ValueError> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    flag(text).map(Some).map_err(|_| invalid!("{text:?} must be 0, 1 or auto"))
}

pub(super) fn whole(text: &str) -> Result<u32, ValueError> {
    text.parse().map_err(|_| invalid!("{text:?} must be a whole number"))
}

fn measure(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, ValueError> {
    let wrong = || invalid!("{text:?} must be a number and a unit, such as {example:?}");
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    Ok(number * factor)
}

/// Parses a number of bytes, such as `20 MBytes` or `600 KBits`. Units are powers of two. Without a unit, the number
/// is in bytes.
/// Source: C tor's manual, `BandwidthRate`; C tor `memory_units`.
pub(super) fn bytes(text: &str) -> Result<u64, ValueError> {
    let mut units =
        vec![("".to_owned(), 1.0), ("b".into(), 1.0), ("byte".into(), 1.0), ("bytes".into(), 1.0)];
    units.push(("m".into(), 1024_f64.powi(2)));
    for (power, short, long) in [(1, "k", "kilo"), (2, "m", "mega"), (3, "g", "giga"), (4, "t", "tera")] {
        let bytes = 1024_f64.powi(power);
        let of_bytes = [format!("{short}b"), format!("{short}byte"), format!("{short}bytes")];
        let long_bytes = [format!("{long}byte"), format!("{long}bytes")];
        let bits =
            [format!("{short}bit"), format!("{short}bits"), format!("{long}bit"), format!("{long}bits")];
        units.extend(of_bytes.into_iter().chain(long_bytes).map(|unit| (unit, bytes)));
        units.extend(bits.map(|unit| (unit, bytes / 8.0)));
    }
    let units: Vec<_> = units.iter().map(|(name, factor)| (&name[..], *factor)).collect();
    Ok(measure(text, &units, "20 MBytes")? as u64)
}

/// Parses a rate [B/s] or a burst [B].
pub(super) fn bandwidth(text: &str) -> Result<u64, ValueError> {
    let bytes = bytes(text)?;
    if bytes > MOST_BYTES {
        return Err(invalid!("{text:?} is too much; it must be at most {MOST_BYTES} bytes"));
    }
    Ok(bytes)
}

const SECONDS: &[(&str, f64)] = &[
    ("", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("minute", 60.0),
    ("minutes", 60.0),
    ("hour", 3600.0),
    ("hours", 3600.0),
    ("day", 86_400.0),
    ("days", 86_400.0),
    ("week", 604_800.0),
    ("weeks", 604_800.0),
];

/// Parses a time with a unit, such as `30 seconds` or `6 hours`.
pub(super) fn seconds(text: &str) -> Result<Duration, ValueError> {
    let seconds = measure(text, SECONDS, "30 seconds")?;
    // C tor also drops fractions of a second.
    Ok(Duration::from_secs(seconds as u64))
}

/// Parses a time such as `10 msec`, with limits [ms].
pub(super) fn milliseconds(text: &str, least: u64, most: u64) -> Result<Duration, ValueError> {
    let mut units = vec![("", 1.0), ("msec", 1.0), ("millisecond", 1.0), ("milliseconds", 1.0)];
    units.extend(SECONDS.iter().filter(|(name, _)| !name.is_empty()).map(|(name, s)| (*name, s * 1000.0)));
    let millis = measure(text, &units, "10 msec")? as u64;
    if !(least..=most).contains(&millis) {
        return Err(invalid!("{text:?} is out of range; it must be {least} to {most} msec"));
    }
    Ok(Duration::from_millis(millis))
}

pub(super) fn nickname(text: &str) -> Result<String, ValueError> {
    let legal = (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if legal { Ok(text.to_owned()) } else { Err(invalid!("{text:?} must be 1 to 19 letters and digits")) }
}

pub(super) fn printable(text: &str) -> Result<String, ValueError> {
    if text.chars().any(char::is_control) {
        return Err("it must be one line of printable characters".into());
    }
    Ok(text.to_owned())
}

/// Parses an IP address. IPv6 addresses may have brackets.
pub(super) fn address(text: &str) -> Result<IpAddr, ValueError> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| invalid!("{text:?} must be an IP address"))
}

/// A port with or without an address: `9001`, `192.0.2.1:9001`, `[2001:db8::1]:9001`, `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) address: Option<IpAddr>,
    /// Port number; 0 lets the system choose.
    pub(super) port: u16,
}

impl Port {
    pub(super) fn parse(text: &str) -> Result<Self, ValueError> {
        let wrong = || invalid!("{text:?} must be a port, auto, or an address, a colon and a port");
        let port = |port: &str| {
            if port.eq_ignore_ascii_case("auto") { Ok(0) } else { port.parse().map_err(|_| wrong()) }
        };
        match text.rsplit_once(':') {
            None => Ok(Port { address: None, port: port(text)? }),
            Some((at, number)) => {
                // With a port, an IPv6 address has brackets.
                let at: IpAddr = match at.strip_prefix('[').and_then(|at| at.strip_suffix(']')) {
                    Some(v6) => IpAddr::V6(v6.parse().map_err(|_| wrong())?),
                    None => IpAddr::V4(at.parse().map_err(|_| wrong())?),
                };
                Ok(Port { address: Some(at), port: port(number)? })
            }
        }
    }

    /// Address and port. The default address is all IPv4 addresses.
    pub(super) fn at(self) -> SocketAddr {
        SocketAddr::new(self.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), self.port)
    }
}

pub(super) fn digest(text: &str) -> Result<[u8; 20], ValueError> {
    penstock_network::document::hex(text).map_err(|_| invalid!("{text:?} must be 40 hexadecimal digits"))
}

/// Parses rules of an exit policy, separated by commas. `private` stands for all private networks.
/// Source: C tor's manual, `ExitPolicy`.
/// Deviation: `private` does not include the relay's own address. `ExitPolicyRejectPrivate` rejects that address.
pub(super) fn rules(text: &str) -> Result<Vec<Rule>, ValueError> {
    let mut rules = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let words: Vec<&str> = part.splitn(2, char::is_whitespace).collect();
        let private =
            words.get(1).map(|pattern| pattern.trim()).and_then(|pattern| pattern.strip_prefix("private"));
        match private {
            Some(ports) => {
                let all: Rule = format!("{} *{ports}", words[0]).parse().map_err(|_| wrong_rule(part))?;
                rules.extend(private_networks().map(|(network, bits)| Rule {
                    addresses: Addresses::Network(network, bits),
                    ..all.clone()
                }));
            }
            None => rules
                .push(part.parse().map_err(|error: penstock_link::descriptor::BadRule| invalid!("{error}"))?),
        }
    }
    Ok(rules)
}

fn wrong_rule(part: &str) -> ValueError {
    part.parse::<Rule>().map_or_else(|error| invalid!("{error}"), |_| invalid!("{part:?} is no rule"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_units_of_c_tor() {
        for (text, expected) in [
            ("75", 75),
            ("75 KBytes", 76_800),
            ("600 kbits", 76_800),
            ("1 MB", 1 << 20),
            ("1m", 1 << 20),
            ("0.5 megabyte", 1 << 19),
            ("1 GByte", 1 << 30),
            ("8 terabits", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "KB", "1 KiB", "-1", "1 2", "1.2.3 MB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_the_units_of_c_tor() {
        assert_eq!(seconds("2 minutes"), Ok(Duration::from_secs(120)));
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(milliseconds("5", 0, 100), Ok(Duration::from_millis(5)));
        assert_eq!(milliseconds("1 second", 1, 1000), Ok(Duration::from_secs(1)));
        assert!(milliseconds("101 msec", 0, 100).unwrap_err().to_string().contains("0 to 100 msec"));
        assert!(seconds("5 msec").is_err());
    }

    #[test]
    fn ports_may_have_an_address() {
        assert_eq!(Port::parse("9001").unwrap().at(), "0.0.0.0:9001".parse().unwrap());
        assert_eq!(Port::parse("192.0.2.1:auto").unwrap().at(), "192.0.2.1:0".parse().unwrap());
        assert_eq!(Port::parse("[2001:db8::1]:443").unwrap().at(), "[2001:db8::1]:443".parse().unwrap());
        for text in ["", "65536", "2001:db8::1:443", "here:9001", "9001x"] {
            assert!(Port::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn private_stands_for_all_private_networks() {
        let rules = rules("accept 127.0.0.1:80, reject private:1-1024,accept *:*").unwrap();
        assert_eq!(rules.len(), 2 + private_networks().count());
        assert!(rules[1..rules.len() - 1].iter().all(|rule| !rule.accept && rule.ports == (1..=1024)));
        assert!(super::rules("reject privates:*").is_err() && super::rules("allow *:*").is_err());
    }
}
