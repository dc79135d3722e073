//! The onion proxy: decisions of a client. Applications connect to it with SOCKS.
//!
//! These modules have no sockets. `node::proxy` calls them, and connects them with the event loop and the relay core.
//!
//! ```text
//! application -> socks -> isolation -> circuits -> path -> guards, network -> core
//! ```
//!
//! | module | content |
//! |---|---|
//! | `socks` | the SOCKS handshake, requests and replies |
//! | `isolation` | which streams may share a circuit |
//! | `circuits` | the circuits of the client: reuse, circuits in advance, timeouts |
//! | `path` | the choice of exit and middle relay |
//! | `guards` | the persistent sample of guards |
//! | `network`, `ports`, `nodes` | the relays of the consensus, their exit ports, lists of relays in the torrc |
//! | `state` | the state file |
//!
//! The core learns the timeout for building circuits (`penstock_core::build_times`).
//!
//! Source: path-spec; guard-spec; socks-extensions.

pub(crate) mod circuits;
pub(crate) mod guards;
pub(crate) mod isolation;
pub(crate) mod network;
pub(crate) mod nodes;
pub(crate) mod path;
pub(crate) mod ports;
pub(crate) mod socks;
pub(crate) mod state;

use penstock_units::Duration;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use circuits::CircuitLimits;
pub use isolation::IsolationFlags;
pub use nodes::{NodeSet, PathRules};
pub use socks::handshake;

/// A port for applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocksPort {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// The streams that may share a circuit.
    pub isolation: IsolationFlags,
}

/// Settings of the onion proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Ports for applications.
    pub ports: Vec<SocksPort>,
    /// Constraints on the relays of circuits.
    pub rules: PathRules,
    /// Times and limits of circuits.
    pub limits: CircuitLimits,
    /// An application's request fails after this time without a stream (`SocksTimeout`).
    pub socks_timeout: Duration,
    /// The fixed timeout for building circuits; `None` learns the timeout (`CircuitBuildTimeout`,
    /// `LearnCircuitBuildTimeout`).
    pub build_timeout: Option<Duration>,
    /// Whether applications may connect to private addresses through an exit (the opposite of
    /// `ClientRejectInternalAddresses`).
    pub internal_addresses: bool,
    /// File for guards and build times; `None` keeps them in memory.
    pub state_file: Option<PathBuf>,
}

impl ProxyConfig {
    /// C tor's defaults, without a state file.
    pub fn new(ports: Vec<SocksPort>) -> Self {
        ProxyConfig {
            ports,
            rules: PathRules::default(),
            limits: CircuitLimits::default(),
            socks_timeout: Duration::from_secs(120),
            build_timeout: None,
            internal_addresses: false,
            state_file: None,
        }
    }
}
