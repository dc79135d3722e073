//! Scenarios on live relays, and in the simulator for comparison.
//!
//! Layers, in order: [`draws`] (the random choices of a client, as in the simulator), [`server`], [`link`] and
//! [`client`] (the two ends), [`relay`] (a live relay and its records), [`testbed`] (all of them on a
//! [`Site`](crate::site::Site)), [`row`] (the output for both worlds), [`options`] (the command line).

pub mod client;
pub mod draws;
pub mod link;
pub mod options;
pub mod relay;
pub mod row;
pub mod server;
pub mod testbed;
