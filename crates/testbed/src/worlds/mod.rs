//! Scenarios on live relays, and beside them in the simulator.
//!
//! Layers, in order: [`draws`] (what chance decides of a client, as in the simulator), [`server`], [`link`] and [`client`] (the
//! two ends), [`relay`] (a live relay and its records), [`testbed`] (all of them on a [`Site`](crate::site::Site)), [`row`] (what
//! is printed of a run of either world), [`options`] (the command line).

pub mod client;
pub mod draws;
pub mod link;
pub mod options;
pub mod relay;
pub mod row;
pub mod server;
pub mod testbed;
