//! The operator's settings. The file is a torrc of C tor, with additional `Penstock` lines for settings that C tor
//! lacks.
//!
//! Modules: `lines` (the syntax), `values` (the types of values), `authority` (directory authorities), `known` (the
//! names of C tor's options), `reader` (options by name), `ports`, `log_lines`, `memory` (the memory limit),
//! `dos` (limits against denial of service), `proxy` (the onion proxy), and `relay` (the options of the core).
//!
//! The parser ignores no option silently. An option of C tor that has no effect in this program causes a warning with
//! its line. An unknown option or a value out of range is an error.
//!
//! Source: C tor's manual (0.4.9), for the meanings and ranges of options.

mod authority;
mod dos;
mod known;
mod lines;
mod log_lines;
mod memory;
mod ports;
mod proxy;
mod reader;
mod relay;
mod values;

#[cfg(test)]
pub(crate) mod tests;

use crate::directory::OperatorOverrides;
use crate::node::DosOptions;
use crate::proxy::ProxyConfig;
use lines::Line;
use log_lines::logs;
use nix::unistd::{Gid, Uid};
use penstock_core::RelayConfig;
use penstock_link::descriptor::{Addresses, ExitPolicy, Private, Rule};
use ports::{metrics, or_port, outbound};
use reader::Reader;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use authority::{Authority, public_authorities};
pub use lines::Place;
pub use log_lines::{LogTo, Sink};
pub use ports::{Metrics, Outbound};

/// An error in a torrc, as one sentence.
///
/// ```text
/// torrc:14: BandwidthRate: "10 KBytes" is too little; a relay needs at least 75 KBytes
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct TorrcError {
    place: String,
    message: String,
}

impl TorrcError {
    pub(crate) fn new(place: &Place, option: &str, why: impl fmt::Display) -> Self {
        TorrcError { place: place.to_string(), message: format!("{option}: {why}") }
    }

    pub(crate) fn of_file(path: &Path, why: impl fmt::Display) -> Self {
        TorrcError { place: path.display().to_string(), message: why.to_string() }
    }
}

/// An error in a value, without its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct ValueError(String);

impl From<&str> for ValueError {
    fn from(text: &str) -> Self {
        ValueError(text.to_owned())
    }
}

macro_rules! invalid { ($($text:tt)*) => { $crate::torrc::ValueError(format!($($text)*)) } }
use invalid;

/// Settings of the `Penstock record` lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Folder for the tables.
    pub folder: PathBuf,
    /// Interval between samples.
    pub interval: Duration,
    /// The relay traces every n-th cell, with this n [1]; `None` traces none.
    pub cells: Option<NonZeroU32>,
    /// Each sample has every n-th circuit, with this n [1]; `None` samples none.
    pub circuits: Option<NonZeroU32>,
}

/// A checked configuration.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are what a torrc says 0 or 1 of")]
pub struct Options {
    /// Nickname.
    pub nickname: String,
    /// Contact address of the operator.
    pub contact: Option<String>,
    /// Other relays of the operator, each as `$` and a fingerprint.
    pub family: Vec<String>,
    /// Address in the descriptor, if the torrc has one.
    pub address: Option<IpAddr>,
    /// Address and port to listen on for links; `None` is a client.
    pub listen: Option<SocketAddr>,
    /// Port in the descriptor; 0 is the port on which the relay listens.
    pub advertised_port: u16,
    /// Source addresses of outgoing connections.
    pub outbound: Outbound,
    /// Data folder.
    pub data_directory: PathBuf,
    /// Folder of the keys.
    pub key_directory: PathBuf,
    /// File for the process id.
    pub pid_file: Option<PathBuf>,
    /// Rules for exit streams. If no rule matches, the relay rejects the stream.
    pub exit_rules: Vec<Rule>,
    /// How the exit policy treats private addresses.
    pub private: Private,
    /// Whether the relay rejects exit streams to its machine's own addresses.
    pub reject_local: bool,
    /// Rate and burst in the descriptor [B/s, B].
    pub advertised_bandwidth: [u64; 2],
    /// Settings of the relay core.
    pub relay: RelayConfig,
    /// Settings of the core that the consensus does not change.
    pub overrides: OperatorOverrides,
    /// Directory authorities.
    pub authorities: Vec<Authority>,
    /// Whether the relay is in a test network.
    pub testing: bool,
    /// Whether the relay publishes its descriptor without a reachability test.
    pub assume_reachable: bool,
    /// Whether the relay publishes its descriptor.
    pub publish: bool,
    /// Whether the relay serves directory documents.
    pub dir_cache: bool,
    /// Logs.
    pub logs: Vec<LogTo>,
    /// Interval of the heartbeat message; `None` disables the message.
    pub heartbeat: Option<Duration>,
    /// Time for which circuits may continue after a signal to end.
    pub shutdown_wait: Duration,
    /// Number of processors for handshakes; `None` is all processors.
    pub num_cpus: Option<u32>,
    /// Metrics server, if there is one.
    pub metrics: Option<Metrics>,
    /// File with the name servers; `None` is the system's file.
    pub resolv_conf: Option<PathBuf>,
    /// Whether circuits may extend to private addresses.
    pub extend_to_private: bool,
    /// C tor's defences against denial of service.
    pub dos: DosOptions,
    /// The user that the relay becomes, if it starts as root.
    pub user: Option<User>,
    /// Whether the relay restricts its system calls and files.
    pub sandbox: bool,
    /// Whether other processes of the same user may read the relay's memory, and core dumps are allowed.
    pub allow_debugger: bool,
    /// The onion proxy, if there is a `SocksPort`.
    pub proxy: Option<ProxyConfig>,
    /// The record of the relay's state, if there is one.
    pub record: Option<Record>,
    /// One warning for each option that has no effect, or an effect different from C tor's.
    pub warnings: Vec<String>,
}

/// Keys of `Penstock` lines that do not configure the relay core.
const PROGRAM_KEYS: [&str; 5] =
    ["acknowledge", "record", "record_interval", "record_cells", "record_circuits"];

/// Value of `Penstock acknowledge` that is necessary for the public network.
const ACKNOWLEDGEMENT: &str = "this is research software";

/// Default of C tor for `BandwidthRate` and `BandwidthBurst` [B].
const ONE_GBYTE: u64 = 1 << 30;
/// Lowest bandwidth of a relay [B/s] (C tor: `RELAY_REQUIRED_MIN_BANDWIDTH`).
const LEAST_RATE: u64 = 75 * 1024;

impl Options {
    /// Reads `torrc`, if there is one, then the options of the command line as pairs of name and value.
    ///
    /// # Errors
    ///
    /// The first error in the file or on the command line.
    pub fn load(torrc: Option<&Path>, command_line: &[(String, String)]) -> Result<Self, TorrcError> {
        let mut lines = Vec::new();
        if let Some(torrc) = torrc {
            lines::read_file(torrc, &mut lines)?;
        }
        let said = command_line.iter();
        let said = said.map(|(name, value)| Line::new(name, value.clone(), Place::CommandLine)).collect();
        Options::of(Reader::new(lines, said))
    }

    fn of(mut read: Reader) -> Result<Self, TorrcError> {
        refuse(&mut read)?;
        let testing = read.one("TestingTorNetwork", values::flag)?.unwrap_or(false);
        let (relay, advertised_bandwidth, overrides) = relay::config(&mut read)?;
        let (data_directory, key_directory) = folders(&mut read)?;
        let proxy = proxy::config(&mut read, testing, &data_directory)?;
        let (listen, advertised_port) = or_port(&mut read, proxy.is_none())?.unzip();
        let (exit_rules, private, reject_local) = exit(&mut read, testing)?;
        let family = read.all("MyFamily", family)?.into_iter().flat_map(|(family, _)| family).collect();
        let authorities = authorities(&mut read)?;
        let metrics = metrics(&mut read)?;
        let nickname = read.one("Nickname", values::nickname)?.unwrap_or_else(|| "Unnamed".into());
        let contact = read.one("ContactInfo", values::printable)?;
        let address = read.one("Address", host)?;
        let outbound = outbound(&mut read)?;
        let pid_file = read.one("PidFile", path)?;
        let logs = logs(&mut read)?;
        let heartbeat = read.one("HeartbeatPeriod", heartbeat)?.unwrap_or(Duration::from_secs(6 * 3600));
        let shutdown_wait = read.one("ShutdownWaitLength", values::seconds)?;
        Ok(Options {
            nickname,
            contact,
            family,
            address,
            listen,
            advertised_port: advertised_port.unwrap_or(0),
            outbound,
            data_directory,
            key_directory,
            pid_file,
            exit_rules,
            private,
            reject_local,
            advertised_bandwidth,
            relay,
            overrides,
            authorities,
            testing,
            assume_reachable: read.one("AssumeReachable", values::flag)?.unwrap_or(testing),
            publish: read.one("PublishServerDescriptor", publish)?.unwrap_or(true),
            dir_cache: read.one("DirCache", values::flag)?.unwrap_or(true),
            logs,
            heartbeat: Some(heartbeat).filter(|period| !period.is_zero()),
            shutdown_wait: shutdown_wait.unwrap_or(Duration::from_secs(30)),
            num_cpus: read.one("NumCPUs", values::whole)?.filter(|count| *count > 0),
            metrics,
            resolv_conf: read.one("ServerDNSResolvConfFile", path)?,
            user: read.one("User", user)?,
            sandbox: read.one("Sandbox", values::flag)?.unwrap_or(true),
            allow_debugger: !read.one("DisableDebuggerAttachment", values::flag)?.unwrap_or(true),
            extend_to_private: read.one("ExtendAllowPrivateAddresses", values::flag)?.unwrap_or(testing),
            dos: dos::options(&mut read)?,
            proxy,
            record: record(&mut read)?,
            warnings: read.finish()?,
        })
    }

    /// The exit policy of a relay with the addresses `own`.
    pub fn policy(&self, own: Vec<IpAddr>, interfaces: &[IpAddr]) -> ExitPolicy {
        let mut rules = Vec::new();
        if self.reject_local {
            rules.extend(interfaces.iter().map(|address| Rule {
                accept: false,
                addresses: Addresses::Network(*address, if address.is_ipv4() { 32 } else { 128 }),
                ports: 1..=u16::MAX,
            }));
        }
        rules.extend(self.exit_rules.iter().cloned());
        ExitPolicy::new(rules, self.private, own)
    }
}

/// Checks the text of a torrc, without opening other files and without name lookups. Returns `None` if the text needs
/// one of these, because it has an `%include` or an `Address` that is a name.
///
/// # Errors
///
/// The first error in the text.
pub fn check_text(text: &str) -> Option<Result<(), TorrcError>> {
    if text.to_ascii_lowercase().contains("%include") {
        return None;
    }
    let mut lines = Vec::new();
    if let Err(error) = lines::parse(text, Path::new("torrc"), 0, &mut lines) {
        return Some(Err(error));
    }
    let mut reader = Reader::new(lines, Vec::new());
    let is_address = |text: &str| values::address(text).map(drop);
    match reader.all("Address", is_address) {
        Ok(_) => Some(Options::of(reader).map(drop)),
        Err(_) => None,
    }
}

/// Refuses options for functions that this program does not have.
fn refuse(read: &mut Reader) -> Result<(), TorrcError> {
    read.one("RunAsDaemon", |text| match values::flag(text)? {
        false => Ok(()),
        true => Err("1 is not supported: let the service manager run the relay in the background".into()),
    })?;
    // Without these functions, the relay would be public, without a limit, or write a key that must not be here.
    read.one("BridgeRelay", |text| match values::flag(text)? {
        false => Ok(()),
        true => Err("1 is not supported: this relay would be public; run bridges with C tor".into()),
    })?;
    read.one("OfflineMasterKey", |text| match values::flag(text)? {
        false => Ok(()),
        true => Err("1 is not supported: this relay needs its master key".into()),
    })?;
    read.one("AccountingMax", |text| match values::bytes(text)? {
        0 => Ok(()),
        _ => Err("limits of a period are not supported; set RelayBandwidthRate, or remove it".into()),
    })?;
    read.one("SafeLogging", |text| match text {
        "0" | "1" | "relay" => Ok(()),
        _ => Err(invalid!("{text:?} must be 0, 1 or relay")),
    })?;
    Ok(())
}

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's number.
    pub uid: Uid,
    /// The number of the user's group.
    pub gid: Gid,
}

fn user(name: &str) -> Result<User, ValueError> {
    let found = nix::unistd::User::from_name(name).map_err(|error| invalid!("{name:?}: {error}"))?;
    let found = found.ok_or_else(|| invalid!("{name:?} is no user of this machine"))?;
    Ok(User { name: found.name, uid: found.uid, gid: found.gid })
}

fn path(text: &str) -> Result<PathBuf, ValueError> {
    match text.strip_prefix("~/") {
        _ if text.is_empty() => Err("a path must follow".into()),
        Some(rest) => home().map(|home| home.join(rest)),
        None => Ok(PathBuf::from(text)),
    }
}

fn home() -> Result<PathBuf, ValueError> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from).ok_or_else(|| "HOME is not set: write the whole path".into())
}

fn folders(read: &mut Reader) -> Result<(PathBuf, PathBuf), TorrcError> {
    let data = match read.one("DataDirectory", path)? {
        Some(data) => data,
        None => home().map_err(|why| TorrcError::new(&read.end(), "DataDirectory", why))?.join(".penstock"),
    };
    let keys = read.one("KeyDirectory", path)?.unwrap_or_else(|| data.join("keys"));
    Ok((data, keys))
}

/// Parses an IP address, or looks up a name.
fn host(text: &str) -> Result<IpAddr, ValueError> {
    use std::net::ToSocketAddrs;
    if let Ok(address) = values::address(text) {
        return Ok(address);
    }
    let found = (text, 0).to_socket_addrs().map_err(|error| invalid!("{text:?}: {error}"))?;
    let addresses: Vec<IpAddr> = found.map(|found| found.ip()).collect();
    let v4 = addresses.iter().find(|address| address.is_ipv4());
    v4.or(addresses.first()).copied().ok_or_else(|| invalid!("{text:?} has no address"))
}

fn exit(read: &mut Reader, testing: bool) -> Result<(Vec<Rule>, Private, bool), TorrcError> {
    let said = read.one("ExitRelay", values::auto_flag)?.flatten();
    let v6 = read.one("IPv6Exit", values::flag)?.unwrap_or(false);
    let private = read.one("ExitPolicyRejectPrivate", values::flag)?.unwrap_or(!testing);
    let reject_local = read.one("ExitPolicyRejectLocalInterfaces", values::flag)?.unwrap_or(false);
    let lines = read.all("ExitPolicy", values::rules)?;
    let place = lines.last().map_or_else(|| read.end(), |(_, place)| place.clone());
    let written: Vec<Rule> = lines.into_iter().flat_map(|(rules, _)| rules).collect();
    let private = if private { Private::Rejected } else { Private::AsRules };
    if said == Some(false) || written.iter().all(|rule| !rule.accept) {
        if said == Some(true) {
            let why = "no exit stream is allowed without an ExitPolicy that accepts; C tor's default policy is not used here";
            read.warn(&place, "ExitRelay", why);
        }
        return Ok((Vec::new(), private, reject_local));
    }
    let is_last = |rule: &Rule| {
        rule.addresses == Addresses::All && *rule.ports.start() <= 1 && *rule.ports.end() == u16::MAX
    };
    if !written.iter().any(is_last) {
        let why = "streams without a matching rule are rejected here; C tor would apply its default policy";
        read.warn(&place, "ExitPolicy", why);
    }
    let mut rules = Vec::new();
    if !v6 {
        rules.push(Rule { accept: false, addresses: Addresses::AllV6, ports: 1..=u16::MAX });
    }
    rules.extend(written);
    Ok((rules, private, reject_local))
}

fn family(text: &str) -> Result<Vec<String>, ValueError> {
    let relays = text.split(',').map(str::trim).filter(|relay| !relay.is_empty());
    relays
        .map(|relay| {
            let fingerprint = relay.trim_start_matches('$');
            values::digest(fingerprint)?;
            Ok(format!("${}", fingerprint.to_ascii_uppercase()))
        })
        .collect()
}

fn publish(text: &str) -> Result<bool, ValueError> {
    match text {
        "0" => Ok(false),
        "1" | "v3" => Ok(true),
        _ if text.contains("bridge") => Err("bridges are not supported; write 0, 1 or v3".into()),
        _ => Err(invalid!("{text:?} must be 0, 1 or v3")),
    }
}

fn heartbeat(text: &str) -> Result<Duration, ValueError> {
    let period = values::seconds(text)?;
    let least = Duration::from_secs(30 * 60);
    if period.is_zero() || period >= least {
        Ok(period)
    } else {
        Err(invalid!("{text:?} is too short; it must be 0 or at least 30 minutes"))
    }
}

/// The directory authorities. The default is those of the public network. They need an acknowledgement.
fn authorities(read: &mut Reader) -> Result<Vec<Authority>, TorrcError> {
    let acknowledged = read.penstock("acknowledge", |value| match reader::string(value)? {
        text if text == ACKNOWLEDGEMENT => Ok(()),
        text => Err(invalid!("{text:?} is not the acknowledgement; it must be {ACKNOWLEDGEMENT:?}")),
    })?;
    let written = read.all("DirAuthority", Authority::parse)?;
    let public = written.iter().find(|(authority, _)| authority.is_public());
    let place = match public {
        Some((_, place)) => place.clone(),
        None if written.is_empty() => read.end(),
        None => return Ok(written.into_iter().map(|(authority, _)| authority).collect()),
    };
    if acknowledged.is_none() {
        let why = format!(
            "this is research software that does not join the public Tor network by default: write the authorities of a \
             test network, or write Penstock acknowledge = {ACKNOWLEDGEMENT:?}"
        );
        return Err(TorrcError::new(&place, "DirAuthority", why));
    }
    if written.is_empty() {
        return Ok(public_authorities());
    }
    Ok(written.into_iter().map(|(authority, _)| authority).collect())
}

fn record(read: &mut Reader) -> Result<Option<Record>, TorrcError> {
    let folder = read.penstock("record", |value| path(&reader::string(value)?))?;
    let interval = read.penstock("record_interval", |value| {
        let text = reader::string(value)?;
        let interval = penstock_units::parse::duration(&text).map_err(|error| invalid!("{error}"))?;
        let least = Duration::from_secs(1);
        if interval >= least {
            Ok(interval)
        } else {
            Err(invalid!("{text:?} is too short; it must be at least \"1 s\""))
        }
    })?;
    let one_in = |value: &str| {
        value
            .parse::<NonZeroU32>()
            .map_err(|_| invalid!("{value:?} must be a whole number above zero: one in so many"))
    };
    let cells = read.penstock("record_cells", one_in)?;
    let circuits = read.penstock("record_circuits", one_in)?;
    Ok(folder.map(|(folder, _)| Record {
        folder,
        interval: interval.map_or(Duration::from_secs(1), |(interval, _)| interval),
        cells: cells.map(|(cells, _)| cells),
        circuits: circuits.map(|(circuits, _)| circuits),
    }))
}
