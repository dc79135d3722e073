//! What can happen to a host.

use crate::net::{Packet, SockRef};

/// A timer of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// A TCP timer of this generation of the connection.
    Tcp(SockRef, u32),
    /// The interface has sent some of what it had.
    NicDrained,
    /// The relay asked to be called.
    Relay,
    /// The processor is free.
    Cpu,
    /// A pause is over, or a hold, or a client's patience: of this session, and this generation of its life.
    Client(u32, u32),
    /// A client's side of a stream has rested: of this session, and this generation of its life.
    ClientScript(u32, u32),
    /// A server's side of a stream has rested, on this generation of the connection.
    ServerScript(SockRef, u32),
}

/// The next thing that happens to a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A packet is in its kernel.
    Delivered(Packet),
    /// A timer is due.
    Timer(Timer),
}
