//! Settings of a node.

use super::DosOptions;
use crate::clock::Clock;
use crate::names::NameServers;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use penstock_core::RelayConfig;
use penstock_link::descriptor::{ExitPolicy, Private};
use penstock_units::Duration;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Time limit of a link handshake (C tor: `TLS_HANDSHAKE_TIMEOUT`).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of a node.
#[derive(Debug)]
pub struct NodeConfig {
    /// Address and port to listen on; `None` is a client, which accepts no links.
    pub listen: Option<SocketAddr>,
    /// Address in the descriptor.
    pub address: IpAddr,
    /// Settings of the relay core.
    pub relay: RelayConfig,
    /// Exit policy.
    pub policy: ExitPolicy,
    /// Name servers.
    pub name_servers: NameServers,
    /// Folder of the key files. `None` disables replacement of keys before they expire.
    pub keys_folder: Option<PathBuf>,
    /// Whether circuits may extend to private addresses, for test networks (C tor `ExtendAllowPrivateAddresses`).
    pub extend_to_private: bool,
    /// Whether circuits with one hop may have exit streams, for tests.
    pub single_hop: bool,
    /// Time limit of a link handshake.
    pub handshake_timeout: Duration,
    /// Settings of TCP sockets.
    pub tcp: SocketTcp,
    /// Maximum number of file descriptors of the process [1].
    pub descriptors: usize,
    /// C tor's defences against denial of service, as the operator set them.
    pub dos: DosOptions,
    /// Clock of the node.
    pub clock: Clock,
}

/// Settings of a node's TCP sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketTcp {
    /// Name of the kernel's congestion control; `None` is the system's default.
    pub congestion: Option<&'static str>,
    /// Whether Nagle's algorithm is off (TCP_NODELAY).
    pub nodelay: bool,
}

impl Default for SocketTcp {
    fn default() -> Self {
        SocketTcp { congestion: None, nodelay: true }
    }
}

impl SocketTcp {
    /// Applies the settings to a socket that connects or listens. Accepted sockets inherit the congestion control.
    ///
    /// # Errors
    ///
    /// If the kernel lacks the congestion control, or this process may not use it.
    pub fn apply(self, socket: &impl AsFd) -> io::Result<()> {
        if let Some(name) = self.congestion {
            setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name))?;
        }
        Ok(setsockopt(socket, sockopt::TcpNoDelay, &self.nodelay)?)
    }
}

impl NodeConfig {
    /// Settings of a client, which has no address, no exit streams and no links from others.
    pub fn client(relay: RelayConfig) -> Self {
        let policy = ExitPolicy::new(Vec::new(), Private::Rejected, Vec::new());
        let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        NodeConfig { listen: None, ..NodeConfig::new(nowhere, nowhere.ip(), relay, policy) }
    }

    /// Settings of a relay in the public network.
    pub fn new(listen: SocketAddr, address: IpAddr, relay: RelayConfig, policy: ExitPolicy) -> Self {
        NodeConfig {
            listen: Some(listen),
            address,
            relay,
            policy,
            name_servers: NameServers::System,
            keys_folder: None,
            extend_to_private: false,
            single_hop: false,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            tcp: SocketTcp::default(),
            descriptors: getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft as usize),
            dos: DosOptions::default(),
            clock: Clock::start(),
        }
    }
}
