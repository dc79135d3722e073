//! A whole path in a test: clients, relays, servers and links with latency, rate and finite
//! buffers.
//!
//! [`cell`] has the cells, [`host`] a node's kernel, `unlimited` an edge control without windows
//! and [`util`] the network. The other modules are tests: `path` (cells arrive, G-01, G-02),
//! `windows` (G-10 to G-14), `credits` (G-20 to G-25), `datagrams` (G-50 to G-54), `sharing` (G-32,
//! G-40), `selfish` (early SENDMEs), `vegas` (congestion control and XON/XOFF), `conflux` (linked circuits), `rendezvous` (joined circuits), `comparators`
//! (DCTCP and TIMELY), `schedulers` (KIST and others), `throttles`, `classes`, `violations`,
//! `idle`, `memory`, `parameters`, `seams` (custom algorithms) and `operations` (random
//! operations).

mod cell;
mod classes;
mod comparators;
mod conflux;
mod credits;
mod datagrams;
mod host;
mod idle;
mod memory;
mod operations;
mod parameters;
mod path;
mod rendezvous;
mod schedulers;
mod seams;
mod selfish;
mod sharing;
mod throttles;
mod unlimited;
mod util;
mod vegas;
mod violations;
mod windows;
