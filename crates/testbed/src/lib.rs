//! Emulated links between real kernels on one machine.
//!
//! Layers, in order: [`link`] (one direction of a link, without I/O), [`clock`] and [`lateness`] (real time, and how
//! well it was kept), [`namespace`] and [`tun`] (a place with a network of its own, and the cable that leaves it),
//! [`forward`] (the loop that moves packets between cables), [`pair`] (two nodes and a link each way), [`diag`] and
//! [`socket`] (what Linux says of a TCP socket, and sockets as the experiments need them), [`tcp`], [`sndbuf`]
//! and [`limits`] (experiments), [`options`] (the command line), [`row`] (what is printed). [`veth`] is a link of Linux's
//! own, for who measures relays.
//!
//! Beside them, many hosts: [`star`] (their network, without I/O), [`hub`] (the loop that moves their packets), [`flow`] (when bytes left), [`site`]
//! (the hosts), [`plan`] (what a scenario asks for), and with the feature `relays` `worlds` (scenarios on live relays and in
//! the simulator).
//!
//! The kernel's TCP is the referee here: nothing in this crate models it.

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
