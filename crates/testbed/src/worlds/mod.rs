//! Runs scenarios on live relays, and in the simulator for comparison.
//!
//! The layers are, in order: [`draws`] (random choices of a client), [`server`], [`link`], [`circuits`] and [`client`] (the
//! ends of circuits), [`relay`] (a live relay and its records), [`testbed`] (all nodes on a [`Site`](crate::site::Site)),
//! [`row`] (the output), [`options`] (the command line).

pub mod circuits;
pub mod client;
pub mod draws;
pub mod link;
pub mod options;
pub mod relay;
pub mod row;
pub mod server;
pub mod testbed;
