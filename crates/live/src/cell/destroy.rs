//! Why a circuit is gone.

/// The reason in a DESTROY and a TRUNCATED.
///
/// Source: tor-spec, "Tearing down circuits".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestroyReason(pub u8);

impl DestroyReason {
    /// None is given.
    pub const NONE: DestroyReason = DestroyReason(0);
    /// The peer broke the protocol.
    pub const PROTOCOL: DestroyReason = DestroyReason(1);
    /// Something is wrong here.
    pub const INTERNAL: DestroyReason = DestroyReason(2);
    /// The client asked for it.
    pub const REQUESTED: DestroyReason = DestroyReason(3);
    /// The relay hibernates.
    pub const HIBERNATING: DestroyReason = DestroyReason(4);
    /// The relay lacks memory, sockets or circuits.
    pub const RESOURCE_LIMIT: DestroyReason = DestroyReason(5);
    /// The next relay cannot be reached.
    pub const CONNECT_FAILED: DestroyReason = DestroyReason(6);
    /// The next relay is another one.
    pub const IDENTITY: DestroyReason = DestroyReason(7);
    /// The channel closed.
    pub const CHANNEL_CLOSED: DestroyReason = DestroyReason(8);
    /// The circuit is too old.
    pub const FINISHED: DestroyReason = DestroyReason(9);
    /// It took too long.
    pub const TIMEOUT: DestroyReason = DestroyReason(10);
    /// Another relay closed it.
    pub const DESTROYED: DestroyReason = DestroyReason(11);
}
