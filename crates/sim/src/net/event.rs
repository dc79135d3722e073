//! Packets and timers of a host.

use super::packet::{Packet, SockRef};

/// A timer of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// A TCP timer of this generation of the connection.
    Tcp(SockRef, u32),
    /// The interface has sent some of its queue.
    NicDrained,
    /// The relay's next timer.
    Relay,
    /// The processor is free.
    Cpu,
    /// The end of a pause, a hold or a timeout of this session, if its generation is unchanged.
    Client(u32, u32),
    /// The end of a pause of the client's script in this session, if its generation is unchanged.
    ClientScript(u32, u32),
    /// The end of a pause of the server's script, on this generation of the connection.
    ServerScript(SockRef, u32),
}

/// The next event of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A packet has reached its kernel.
    Delivered(Packet),
    /// A timer has fired.
    Timer(Timer),
}
