use super::packet::{Packet, SockRef};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// A TCP timer of the connection with this generation.
    Tcp(SockRef, u32),
    /// The interface has sent some packets of its queue.
    NicDrained,
    Relay,
    Cpu,
    /// The end of a session's pause, hold or timeout; valid if the session has the same generation.
    Client(u32, u32),
    /// The end of a pause in the client's script of a session; valid if the session has the same generation.
    ClientScript(u32, u32),
    /// The end of a pause in the server's script; valid if the connection has the same generation.
    ServerScript(SockRef, u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Delivered(Packet),
    Timer(Timer),
}
