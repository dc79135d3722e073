//! One end of a TCP connection, as Linux has it, without a clock, an event queue or a payload.
//!
//! An [`Endpoint`] is a state machine in the sans-IO manner: segments and the application go in
//! with `now`, segments come out of [`Endpoint::poll_transmit`], and [`Endpoint::poll_timeout`]
//! says when to call [`Endpoint::on_timer`]. After every call that takes `&mut self`, the driver
//! drains `poll_transmit` until it returns `None`. Each call does work bounded by the segments
//! it acknowledges, marks or sends.
//!
//! Sequence numbers are `u64` offsets into the stream and never wrap. Byte 0 is the first byte of
//! data: SYN is a flag outside the count (a SYN has `seq` 0 and its SYN-ACK `ack` 0), and FIN
//! takes one number after the last byte, so that the scoreboard treats it as any other segment.
//!
//! Files, one idea each: [`config`] (what a host is set to: the profiles), [`segment`] (what travels),
//! `endpoint` (handshake and close, and which half a call belongs to), `send` (windows, timers and what may
//! leave), `small_queue` (what waits at the interface), `scoreboard` (the retransmission queue, its SACK
//! marks, and what they and time give up), `recovery` (Open, Disorder, Recovery, Loss), `rtt` (round trips and
//! the RTO), [`congestion`] (Reno, CUBIC and HyStart), `receive` (reassembly, ACKs and windows), `buffers`
//! (auto-tuning of both sides).
//!
//! Deviation: no ECN, urgent data, keep-alives, simultaneous open, TIME_WAIT (a finished endpoint still answers
//! a repeated FIN), F-RTO, DSACK, forward retransmission, SACK reneging, SACK compression, pacing or window
//! scaling's rounding; segments leave one by one, without segmentation offload; a buffer's truesize is
//! converted to payload at a fixed rate, not counted packet by packet; time is exact to the nanosecond where
//! Linux counts jiffies.

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

pub use config::{Buffer, Congestion, Kernel, LossDetection, Offload, TcpConfig};
pub use endpoint::{Endpoint, Info};
pub use recovery::CaState;
pub use segment::{Flags, HEADER_BYTES, Segment, Train};
