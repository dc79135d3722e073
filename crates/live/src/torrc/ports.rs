//! Ports to listen on, and source addresses of outgoing connections.

use super::TorrcError;
use super::reader::Reader;
use super::values::{self, Port};
use super::{ValueError, invalid};
use penstock_link::descriptor::{ExitPolicy, Private, Rule};
use std::net::{IpAddr, SocketAddr};

/// Source addresses of outgoing connections, for IPv4 and IPv6. `None` lets the system choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// Source addresses of connections to relays: IPv4, IPv6.
    pub relays: [Option<IpAddr>; 2],
    /// Source addresses of exit streams: IPv4, IPv6.
    pub streams: [Option<IpAddr>; 2],
}

/// Settings of the metrics server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Clients that may read the metrics; `None` is only clients on this machine.
    pub policy: Option<ExitPolicy>,
}

/// The address and port to listen on, and the port in the descriptor.
///
/// Deviation: there is only one port to listen on, while C tor has one for each line. Without an address, the relay
/// listens on IPv4 only.
/// `None`: there is no port. This is an error if the port is `needed`.
pub(super) fn or_port(read: &mut Reader, needed: bool) -> Result<Option<(SocketAddr, u16)>, TorrcError> {
    let ports = read.all("ORPort", OrPort::parse)?;
    let ports: Vec<_> = ports.into_iter().filter(|(port, _)| !port.is_off).collect();
    let mut listening = ports.iter().filter(|(port, _)| port.listen);
    let Some((first, place)) = listening.next() else {
        if !needed && ports.is_empty() {
            return Ok(None);
        }
        let why = "a relay needs a listening port, such as ORPort 9001, and a client a SocksPort";
        return Err(TorrcError::new(&read.end(), "ORPort", why));
    };
    let mut advertised = ports.iter().filter(|(port, _)| port.advertise).map(|(port, _)| port.port.port);
    let advertised = advertised.next().ok_or_else(|| {
        TorrcError::new(place, "ORPort", "no ORPort is advertised; remove NoAdvertise from one of them")
    })?;
    for (_, place) in listening {
        read.warn(place, "ORPort", "only the first ORPort is used; this one has no effect here");
    }
    Ok(Some((first.port.at(), advertised)))
}

#[derive(Clone, Copy, Debug)]
struct OrPort {
    port: Port,
    listen: bool,
    advertise: bool,
    is_off: bool,
}

impl OrPort {
    fn parse(text: &str) -> Result<Self, ValueError> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let port = Port::parse(first)?;
        let mut parsed = OrPort { port, listen: true, advertise: true, is_off: first == "0" };
        for flag in words {
            match &flag.to_ascii_lowercase()[..] {
                "noadvertise" => parsed.advertise = false,
                "nolisten" => parsed.listen = false,
                // These flags have no effect.
                "ipv4only" if parsed.port.at().is_ipv4() => {}
                "ipv6only" if parsed.port.at().is_ipv6() => {}
                _ => {
                    return Err(invalid!(
                        "{flag:?} is no supported flag; write NoAdvertise, NoListen, or the IPv4Only or IPv6Only of the address"
                    ));
                }
            }
        }
        if !parsed.listen && !parsed.advertise {
            return Err("NoListen and NoAdvertise disable the port; write only one of them".into());
        }
        Ok(parsed)
    }
}

pub(super) fn outbound(read: &mut Reader) -> Result<Outbound, TorrcError> {
    let mut outbound = Outbound::default();
    for (name, relays, streams) in [
        ("OutboundBindAddress", true, true),
        ("OutboundBindAddressOR", true, false),
        ("OutboundBindAddressExit", false, true),
    ] {
        for (address, _) in read.all(name, values::address)? {
            let family = usize::from(address.is_ipv6());
            if relays {
                outbound.relays[family] = Some(address);
            }
            if streams {
                outbound.streams[family] = Some(address);
            }
        }
    }
    Ok(outbound)
}

/// Reads the settings of the metrics server.
/// Deviation: without `MetricsPortPolicy`, clients on this machine may read the metrics. C tor then answers no client.
pub(super) fn metrics(read: &mut Reader) -> Result<Option<Metrics>, TorrcError> {
    let port = read.one("MetricsPort", |text| {
        let mut words = text.split_whitespace();
        let port = Port::parse(words.next().unwrap_or_default())?;
        match words.next() {
            None => Ok(port),
            Some(format) if format.eq_ignore_ascii_case("prometheus") => Ok(port),
            Some(format) => Err(invalid!("{format:?} is no format; write prometheus")),
        }
    })?;
    let rules = read.all("MetricsPortPolicy", values::rules)?;
    let rules: Vec<Rule> = rules.into_iter().flat_map(|(rules, _)| rules).collect();
    // The ports of the rules have no meaning.
    let rules: Vec<Rule> = rules.into_iter().map(|rule| Rule { ports: 1..=u16::MAX, ..rule }).collect();
    let policy = (!rules.is_empty()).then(|| ExitPolicy::new(rules, Private::AsRules, Vec::new()));
    let loopback = IpAddr::from([127, 0, 0, 1]);
    Ok(port
        .map(|port| Metrics { listen: SocketAddr::new(port.address.unwrap_or(loopback), port.port), policy }))
}
