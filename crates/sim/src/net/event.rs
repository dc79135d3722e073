use super::packet::Packet;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// A TCP timer of the socket in this slot; ignored if the connection's generation has changed.
    Tcp(u32, u32),
    /// The interface has sent some packets from its queue, so waiting sockets may send again.
    NicDrained,
    Relay,
    Cpu,
    /// The end of a pause, hold or timeout of this session; ignored if the session's generation has changed.
    Client(u32, u32),
    /// The client's next test circuit, or the end of the time in which it measures a slow circuit.
    BuildTimes,
    /// The end of a pause in the client's script of this session; ignored if the session's generation has changed.
    ClientScript(u32, u32),
    /// The end of a pause in the server's script; ignored if the connection's generation has changed.
    ServerScript(u32, u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Delivered(Packet),
    Timer(Timer),
}
