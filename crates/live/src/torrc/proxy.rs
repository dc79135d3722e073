//! Options of the onion proxy.

use super::TorrcError;
use super::ValueError;
use super::invalid;
use super::reader::Reader;
use super::values::{self, Port};
use crate::proxy::{CircuitLimits, IsolationFlags, NodeSet, PathRules, ProxyConfig, SocksPort};
use penstock_units::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

/// Reads the settings of the onion proxy; `None` without a `SocksPort`.
/// Deviation: without a `SocksPort` line, C tor listens at port 9050.
pub(super) fn config(
    read: &mut Reader,
    testing: bool,
    data_directory: &Path,
) -> Result<Option<ProxyConfig>, TorrcError> {
    let lines = read.all("SocksPort", socks_port)?;
    let ports: Vec<(SocksPort, _)> =
        lines.into_iter().filter_map(|(port, place)| Some((port?, place))).collect();
    if ports.is_empty() {
        return Ok(None);
    }
    for (port, place) in &ports {
        if !port.listen.ip().is_loopback() {
            read.warn(
                place,
                "SocksPort",
                "this port is open to other machines, and the proxy has no SocksPolicy",
            );
        }
    }
    let defaults = ProxyConfig::new(ports.into_iter().map(|(port, _)| port).collect());
    let limits = CircuitLimits::default();
    let max_pending = read.one("MaxClientCircuitsPending", pending)?.unwrap_or(limits.max_pending);
    let max_dirtiness = read.one("MaxCircuitDirtiness", |text| at_least(text, 10))?;
    let available = read.one("CircuitsAvailableTimeout", |text| at_least(text, 10))?;
    let learns = read.one("LearnCircuitBuildTimeout", values::flag)?.unwrap_or(true);
    let build_timeout = read.one("CircuitBuildTimeout", |text| at_least(text, 1))?;
    let rules = rules(read, testing)?;
    // The exclusions of this program are always strict.
    read.one("StrictNodes", values::flag)?;
    Ok(Some(ProxyConfig {
        rules,
        limits: CircuitLimits {
            max_dirtiness: max_dirtiness.unwrap_or(limits.max_dirtiness),
            available: available.unwrap_or(limits.available),
            max_pending,
        },
        socks_timeout: read.one("SocksTimeout", |text| at_least(text, 1))?.unwrap_or(defaults.socks_timeout),
        build_timeout: (!learns).then(|| build_timeout.unwrap_or(Duration::from_secs(60))),
        internal_addresses: !read.one("ClientRejectInternalAddresses", values::flag)?.unwrap_or(!testing),
        state_file: Some(data_directory.join("state")),
        ..defaults
    }))
}

fn rules(read: &mut Reader, testing: bool) -> Result<PathRules, TorrcError> {
    let mut set = |name: &str| -> Result<NodeSet, TorrcError> {
        let mut all = NodeSet::default();
        read.all(name, nodes)?.into_iter().for_each(|(set, _)| all.extend(set));
        Ok(all)
    };
    Ok(PathRules {
        entry: set("EntryNodes")?,
        middle: set("MiddleNodes")?,
        exit: set("ExitNodes")?,
        exclude: set("ExcludeNodes")?,
        exclude_exit: set("ExcludeExitNodes")?,
        distinct_subnets: read.one("EnforceDistinctSubnets", values::flag)?.unwrap_or(!testing),
    })
}

fn nodes(text: &str) -> Result<NodeSet, ValueError> {
    NodeSet::read(text).map_err(|word| {
        invalid!("{word:?} must be a fingerprint or a nickname; country codes and networks are not supported")
    })
}

fn pending(text: &str) -> Result<usize, ValueError> {
    let count = values::whole(text)? as usize;
    if (1..=1024).contains(&count) { Ok(count) } else { Err(invalid!("{text:?} must be 1 to 1024")) }
}

/// Parses a time of at least `least` seconds, and at most 30 days.
fn at_least(text: &str, least: u64) -> Result<Duration, ValueError> {
    let seconds = values::seconds(text)?.as_secs();
    if (least..=30 * 86_400).contains(&seconds) {
        Ok(Duration::from_secs(seconds))
    } else {
        Err(invalid!("{text:?} must be {least} seconds to 30 days"))
    }
}

/// Parses a port for applications with its isolation flags; `None` is no port.
///
/// Source: C tor's manual, `SocksPort`.
fn socks_port(text: &str) -> Result<Option<SocksPort>, ValueError> {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let port = Port::parse(first)?;
    let address = port.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut isolation = IsolationFlags::default();
    for flag in words {
        let lower = flag.to_ascii_lowercase();
        let (name, value) = lower.strip_prefix("no").map_or((&lower[..], true), |name| (name, false));
        let place = match name {
            "isolateclientaddr" => &mut isolation.client_address,
            "isolatesocksauth" => &mut isolation.credentials,
            "isolateclientprotocol" => &mut isolation.protocol,
            "isolatedestport" => &mut isolation.port,
            "isolatedestaddr" => &mut isolation.address,
            _ => {
                return Err(invalid!(
                    "{flag:?} is no supported flag; write IsolateClientAddr, IsolateSOCKSAuth, \
                     IsolateClientProtocol, IsolateDestPort or IsolateDestAddr, or No and one of them"
                ));
            }
        };
        *place = value;
    }
    Ok((first != "0").then(|| SocksPort { listen: SocketAddr::new(address, port.port), isolation }))
}
