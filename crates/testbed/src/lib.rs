//! Emulated links between real kernels on one machine. The kernel's TCP is the reference, so this crate has no model
//! of TCP.
//!
//! The layers for one link are, in order:
//!
//! - [`error`], [`clock`], [`lateness`]: errors, real time, and its accuracy
//! - [`link`]: one direction of a link, without I/O
//! - [`namespace`], [`tun`]: network namespaces, and their network device
//! - [`forward`], [`pair`]: forwarding of packets, and two nodes with a link in each direction
//! - [`diag`], [`socket`]: the kernel's state of a socket, and sockets of experiments
//! - [`tcp`], [`sndbuf`], [`limits`]: experiments
//! - [`options`], [`row`]: the command line and the output
//! - [`veth`]: a virtual Ethernet link, for measurements of relays
//!
//! The layers for many hosts are [`star`] (their network, without I/O), [`hub`] (forwarding of packets), [`flow`]
//! (departure times), [`site`] (the hosts), and [`plan`] (the network of a scenario). With the feature `relays`,
//! `worlds` runs scenarios on live relays and in the simulator.

pub mod clock;
pub mod diag;
pub mod error;
pub mod flow;
pub mod forward;
pub mod hub;
pub mod lateness;
pub mod limits;
pub mod link;
pub mod namespace;
pub mod options;
pub mod pair;
pub mod plan;
pub mod row;
pub mod site;
pub mod sndbuf;
pub mod socket;
pub mod star;
pub mod tcp;
pub mod tun;
pub mod veth;
#[cfg(feature = "relays")]
pub mod worlds;

pub use error::Error;
