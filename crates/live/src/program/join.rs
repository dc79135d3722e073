use super::{Program, policy};
use crate::directory::{Authority, DirectoryEvent, Flavour, RetryPolicy};
use crate::node::Membership;
use crate::torrc::Options;
use crate::{Error, atomic};
use penstock_core::edge_control::EdgeControlConfig;
use penstock_core::hop_control::HopControlConfig;
use penstock_link::descriptor::Description;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::SystemTime;

/// The file with the observed bandwidth.
const BANDWIDTH: &str = "bandwidth-history";
/// Maximum size of the file [B].
const MAX_SIZE: u64 = 1 << 20;

/// Supported protocol versions: with congestion control, then without. C tor's authorities keep unknown protocols such as
/// `N23` in the consensus.
const PROTOCOLS: [&str; 2] = [
    "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSIntro=4-5 HSRend=1-2 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-4",
    "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1 HSIntro=4-5 HSRend=1-2 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-3",
];

/// The content of the descriptor. `port` is the port on which the relay listens.
pub(super) fn description(
    options: &Options,
    address: IpAddr,
    port: u16,
    started: SystemTime,
) -> Result<Description, Error> {
    let IpAddr::V4(v4) = address else {
        return Err(Error::operator("Address: a relay that publishes needs an IPv4 address"));
    };
    let has_windows = !matches!(options.relay.edge_control, EdgeControlConfig::Vegas(_));
    let mut protocols = PROTOCOLS[usize::from(has_windows)].to_owned();
    if matches!(options.relay.hop_control, HopControlConfig::N23(_)) {
        protocols = protocols.replace(" Relay=", " N23=1 Relay=");
    }
    if options.relay.conflux.is_some() {
        protocols.insert_str(0, "Conflux=1 ");
    }
    let [rate, burst] = options.advertised_bandwidth;
    Ok(Description {
        nickname: options.nickname.clone(),
        address: v4,
        or_port: if options.advertised_port == 0 { port } else { options.advertised_port },
        ipv6: None,
        platform: Some(format!("Penstock {} on Linux", env!("CARGO_PKG_VERSION"))),
        protocols,
        started,
        bandwidth: [rate, burst, 0],
        contact: options.contact.clone(),
        family: options.family.clone(),
        directory: options.dir_cache,
        policy: policy(options, address),
    })
}

/// Settings for the network of the relay. `None` if the torrc names no authority with an identity key for votes.
pub(super) fn membership(options: &Options, description: Option<Description>) -> Option<Membership> {
    let authority = |said: &crate::torrc::Authority| {
        let nickname = said.nickname.clone().unwrap_or_else(|| said.dir.to_string());
        Some(Authority { nickname, v3ident: said.v3_identity?, dir_port: said.dir.into() })
    };
    let authorities: Vec<Authority> = options.authorities.iter().filter_map(authority).collect();
    if authorities.is_empty() {
        return None;
    }
    let retry = if options.testing { RetryPolicy::TESTING } else { RetryPolicy::default() };
    Some(Membership {
        authorities,
        description,
        publish: options.publish,
        overrides: options.overrides,
        retry,
        bandwidth_history: options.listen.and_then(|_| read_history(&options.data_directory)),
    })
}

/// The observed bandwidth of the last run. Without one, that of a C tor whose folder this is.
fn read_history(folder: &Path) -> Option<String> {
    [BANDWIDTH, "state"].into_iter().find_map(|name| {
        let mut text = String::new();
        atomic::open(&folder.join(name)).ok()?.take(MAX_SIZE).read_to_string(&mut text).ok()?;
        Some(text)
    })
}

impl Program {
    /// Saves the observed bandwidth for the next run.
    pub(super) fn save_bandwidth(&self) {
        let Some(history) = self.node.bandwidth_history() else { return };
        if let Err((path, error)) =
            atomic::update(&self.options.data_directory.join(BANDWIDTH), history.as_bytes())
        {
            log::warn!("{}: {error}; the observed bandwidth is lost at a restart", path.display());
        }
    }

    pub(super) fn log_directory_events(&mut self) {
        while let Some(note) = self.node.poll_directory_event() {
            match note {
                // Both flavours arrive together.
                DirectoryEvent::Consensus(Flavour::Plain, _) => log::debug!("{note}"),
                DirectoryEvent::Published(_) | DirectoryEvent::Consensus(..) => log::info!("{note}"),
                DirectoryEvent::NotPublished(..) | DirectoryEvent::ClockIsOff(_) => log::warn!("{note}"),
                DirectoryEvent::NotFetched(..) => log::debug!("{note}"),
            }
        }
    }

    /// Publishes a new descriptor with the changes of a reloaded torrc.
    pub(super) fn update_description(&mut self) {
        if self.options.listen.is_none() {
            return;
        }
        let said = self.node.listens_at().map_err(Error::System);
        let said = said.and_then(|at| description(&self.options, self.address, at.port(), self.started));
        let described = said.and_then(|said| self.node.describe(said).map_err(Error::operator));
        if let Err(failure) = described {
            log::error!("the descriptor was not updated: {}", failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The protocol versions in the descriptor of a relay with this option.
    fn protocols(name: &str, value: &str) -> String {
        let authority = "a 127.0.0.1:7000 BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A";
        let options =
            [("DataDirectory", "/d"), ("ORPort", "9001"), ("DirAuthority", authority), (name, value)];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = Options::load(None, &options).unwrap();
        description(&options, [192, 0, 2, 1].into(), 9001, SystemTime::UNIX_EPOCH).unwrap().protocols
    }

    #[test]
    fn the_descriptor_lists_only_protocols_that_the_torrc_enables() {
        let [all, windows] = PROTOCOLS;
        assert_eq!(protocols("Nickname", "a"), format!("Conflux=1 {all}"));
        assert_eq!(protocols("ConfluxEnabled", "0"), all);
        assert_eq!(protocols("Penstock", "edge_control = 'windows'"), windows);
        let n23 = protocols("Penstock", "hop_control = 'n23'");
        assert!(n23.starts_with("Conflux=1 ") && n23.contains(" N23=1 "), "{n23}");
    }
}
