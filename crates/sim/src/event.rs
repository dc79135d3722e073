//! What can happen in a simulation.

use crate::net::SockRef;
use crate::queue::Rank;

/// One event of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// A packet reaches the queue before its receiver's access link.
    Arrive(u32),
    /// A packet is in its receiver's kernel.
    Deliver(u32),
    /// A TCP timer of this generation of the connection.
    TcpTimer(SockRef, u32),
    /// A host's interface has sent half of what it had.
    NicDrained(Rank),
    /// A relay asked to be called.
    RelayTimer(Rank),
    /// A client's pause is over, or its patience; of this episode of its life.
    ClientTimer(Rank, u32),
    /// Time to write down what relays did.
    SampleRelays,
    /// Time to write down how traced circuits are.
    SampleCircuits,
}
