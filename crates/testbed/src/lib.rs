//! Emulated links between real kernels on one machine.
//!
//! Layers, in order: [`error`], [`link`] (one direction of a link, without I/O), [`clock`] and [`lateness`] (real time,
//! and its accuracy), [`namespace`] and [`tun`] (a network namespace, and the device that leaves it), [`forward`] (the
//! loop that forwards packets between devices), [`pair`] (two nodes and a link in each direction), [`diag`] and
//! [`socket`] (the kernel's state of a TCP socket, and the sockets of experiments), [`tcp`], [`sndbuf`] and [`limits`]
//! (experiments), [`options`] (the command line), [`row`] (the output). [`veth`] is a virtual Ethernet link for
//! measurements of relays.
//!
//! For many hosts there are [`star`] (their network, without I/O), [`hub`] (the loop that forwards their packets),
//! [`flow`] (departure times), [`site`] (the hosts), [`plan`] (the network of a scenario), and with the feature
//! `relays` `worlds` (scenarios on live relays and in the simulator).
//!
//! The TCP of the kernel is the reference here: this crate has no model of it.

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
