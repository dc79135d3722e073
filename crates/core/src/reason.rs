//! The reasons for which streams and circuits end, with Tor's numbers.

/// The number with which Tor names the reason why a stream ended.
/// Source: tor-spec, "Closing streams".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndReason(pub u8);

impl EndReason {
    /// No other reason fits.
    pub const MISC: EndReason = EndReason(1);
    /// The name has no address.
    pub const RESOLVE_FAILED: EndReason = EndReason(2);
    /// The server refused the connection.
    pub const CONNECT_REFUSED: EndReason = EndReason(3);
    /// The relay's exit policy forbids the target.
    pub const EXIT_POLICY: EndReason = EndReason(4);
    /// The stream's circuit closes.
    pub const DESTROY: EndReason = EndReason(5);
    /// The server closed the connection normally.
    pub const DONE: EndReason = EndReason(6);
    /// The server did not answer.
    pub const TIMEOUT: EndReason = EndReason(7);
    /// There is no route to the server.
    pub const NO_ROUTE: EndReason = EndReason(8);
    /// The relay hibernates.
    pub const HIBERNATING: EndReason = EndReason(9);
    /// The relay had an internal error.
    pub const INTERNAL: EndReason = EndReason(10);
    /// The relay lacks sockets or memory.
    pub const RESOURCE_LIMIT: EndReason = EndReason(11);
    /// The server reset the connection.
    pub const CONNECTION_RESET: EndReason = EndReason(12);
    /// The client violated the protocol.
    pub const PROTOCOL: EndReason = EndReason(13);
    /// The relay is not a directory.
    pub const NOT_DIRECTORY: EndReason = EndReason(14);
}

/// The number in a DESTROY or TRUNCATED that names the reason why a circuit lost hops or closed.
///
/// Source: tor-spec, "Tearing down circuits".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DestroyReason(pub u8);

impl DestroyReason {
    /// The sender gives no reason.
    pub const NONE: DestroyReason = DestroyReason(0);
    /// The peer violated the protocol.
    pub const PROTOCOL: DestroyReason = DestroyReason(1);
    /// The relay had an internal error.
    pub const INTERNAL: DestroyReason = DestroyReason(2);
    /// The client closed the circuit.
    pub const REQUESTED: DestroyReason = DestroyReason(3);
    /// The relay hibernates.
    pub const HIBERNATING: DestroyReason = DestroyReason(4);
    /// The relay lacks memory, sockets or circuits.
    pub const RESOURCE_LIMIT: DestroyReason = DestroyReason(5);
    /// The next relay cannot be reached.
    pub const CONNECT_FAILED: DestroyReason = DestroyReason(6);
    /// The next relay has an unexpected identity.
    pub const IDENTITY: DestroyReason = DestroyReason(7);
    /// The channel closed.
    pub const CHANNEL_CLOSED: DestroyReason = DestroyReason(8);
    /// The circuit is too old.
    pub const FINISHED: DestroyReason = DestroyReason(9);
    /// A timeout expired.
    pub const TIMEOUT: DestroyReason = DestroyReason(10);
    /// Another relay closed the circuit.
    pub const DESTROYED: DestroyReason = DestroyReason(11);
}
