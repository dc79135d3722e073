//! Kernel queueing time: how long bytes of a program's TCP sockets wait between the program and the network interface.
//!
//! Source: KIST paper, section 4.1 (libkqtime). A library is loaded into the program before libc, so that it can report a
//! few writes and reads ([`mark`]). Each report has 16 bytes of the data. The process of this crate captures the packets of
//! all interfaces ([`capture`]) and looks for these bytes ([`matching`]). The wait is the time between the two.
//!
//! - Outbound: from the call that gives the bytes to the kernel until a packet with them leaves through an interface.
//! - Inbound: from the packet's arrival until the call that reads its bytes.
//!
//! Deviation: libkqtime gives up after 2 s, and reads tags out of packets for the inbound direction. Here a packet and a
//! report wait 60 s for each other, so that long waits are not left out, and both directions take tags from the program's
//! buffers.

pub mod capture;
pub mod error;
pub mod mark;
pub mod matching;
pub mod options;
pub mod report;
pub mod run;

pub use error::Error;
