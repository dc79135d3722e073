//! One end of a TCP connection, modelled on Linux, without a clock, an event queue or a payload.
//!
//! An [`Endpoint`] is a sans-IO state machine. Segments and application calls go in with `now`. Segments come out of
//! [`Endpoint::poll_transmit`], and [`Endpoint::poll_timeout`] returns the time of the next [`Endpoint::on_timer`]. The
//! work of a call is proportional to the number of segments that it acknowledges, marks or sends.
//!
//! Sequence numbers are `u64` offsets into the stream and never wrap. Byte 0 is the first byte of data. SYN has no
//! number (a SYN has `seq` 0 and its SYN-ACK `ack` 0). FIN takes one number after the last byte, so the retransmission
//! queue treats FIN like data.
//!
//! Files: [`config`] (profiles), [`segment`] (segments and trains), `endpoint` (handshake and close), `send` (windows,
//! timers and sending), `small_queue` (bytes at the interface), `scoreboard` (the retransmission queue and its SACK
//! marks), `recovery` (Open, Disorder, Recovery, Loss), `rtt` (round trips and the RTO), `congestion` (Reno, CUBIC and
//! HyStart), `receive` (reassembly, ACKs and windows), `buffers` (automatic tuning of both buffers).
//!
//! Deviation: no ECN, urgent data, keep-alives, simultaneous open, TIME_WAIT (a finished endpoint still answers a
//! repeated FIN), F-RTO, DSACK, forward retransmission, SACK reneging, SACK compression, pacing or rounding by window
//! scaling.
//! Deviation: segments leave one by one, without segmentation offload. The memory of a buffer (truesize) is converted
//! to payload at a fixed ratio; Linux counts it packet by packet. Time has a resolution of one nanosecond; Linux counts
//! jiffies.

mod buffers;
pub mod config;
mod congestion;
mod endpoint;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
pub mod segment;
mod send;
mod small_queue;
#[cfg(test)]
mod tests;

pub use config::{Buffer, Congestion, InterfaceOrder, Kernel, LossDetection, Offload, TcpConfig};
pub use endpoint::{Endpoint, Info};
pub use recovery::CaState;
pub use segment::{Flags, HEADER_BYTES, Segment, Train};
