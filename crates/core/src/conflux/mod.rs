//! Conflux: how do the cells of one client's streams travel over several circuits?
//!
//! The client builds several circuits (legs) with different guards and middles to the same exit, and links them to a
//! [`ConfluxSet`]. The set numbers the cells of its streams. The sender chooses a leg for each cell
//! ([`Algorithm`]), and the receiver restores the order. Each leg keeps its own congestion control and its own SENDMEs.
//!
//! The client sends LINK on each leg. The exit puts circuits with the same [`Nonce`] into one set and answers with
//! LINKED. The client confirms with LINKED_ACK. Each end measures the round trip of this handshake.
//!
//! Source: proposal 329; C tor 0.4.9 `conflux.c`, `conflux_pool.c`, `conflux_cell.c`, `conflux_params.c`.

mod set;

pub use set::{Algorithm, ConfluxSet, Removed};

/// Identifies a set of linked circuits. The client chooses it at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub [u8; 32]);

/// The content of LINK and LINKED, version 1.
///
/// Source: C tor `conflux.trunnel`, `trn_cell_conflux_link_payload_v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The set that the circuit joins.
    pub nonce: Nonce,
    /// The number of the last cell that the sender has sent on any leg; 0 before the first one.
    pub last_sent: u64,
    /// The number of the last cell that the sender has delivered; 0 before the first one.
    pub last_received: u64,
    /// The UX that the sender desires. It decides the [`Algorithm`] of the receiver.
    pub desired_ux: DesiredUx,
}

/// Which properties one end of a set wishes for the cells that it receives.
///
/// Source: C tor `conflux.trunnel`, `CONFLUX_UX_*`; torrc `ConfluxClientUX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DesiredUx {
    /// The sender decides.
    NoOpinion = 0,
    /// Low delay.
    MinLatency = 1,
    /// Low delay, and few cells in the receiver's reorder queue.
    LowMemLatency = 2,
    /// High throughput, with many cells in the receiver's reorder queue. The default of clients.
    #[default]
    HighThroughput = 3,
    /// High throughput, and few cells in the receiver's reorder queue.
    LowMemThroughput = 4,
}

impl DesiredUx {
    /// All wishes, in the order of their numbers.
    pub const ALL: [DesiredUx; 5] = [
        DesiredUx::NoOpinion,
        DesiredUx::MinLatency,
        DesiredUx::LowMemLatency,
        DesiredUx::HighThroughput,
        DesiredUx::LowMemThroughput,
    ];

    /// The algorithm of the end that receives this value.
    ///
    /// Source: C tor `conflux_choose_algorithm()`.
    pub fn algorithm(self) -> Algorithm {
        match self {
            DesiredUx::NoOpinion | DesiredUx::HighThroughput => Algorithm::LowRtt,
            DesiredUx::MinLatency | DesiredUx::LowMemLatency | DesiredUx::LowMemThroughput => {
                Algorithm::MinRtt
            }
        }
    }
}

/// The Conflux settings of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfluxConfig {
    /// The desired UX in this client's LINK. An exit always sends [`DesiredUx::MinLatency`] (C tor `DEFAULT_EXIT_UX`).
    pub client_ux: DesiredUx,
    /// The number of legs of this client's sets [1] (C tor `cfx_num_legs_set`). With 0, the onion proxy begins no set.
    pub legs: u8,
    /// Whether the node links further circuits (C tor `cfx_enabled`). Linked circuits stay linked.
    pub active: bool,
}

impl ConfluxConfig {
    /// The values of C tor 0.4.9.
    pub const TOR_0_4_9: ConfluxConfig =
        ConfluxConfig { client_ux: DesiredUx::HighThroughput, legs: 2, active: true };
}

/// The maximum number of legs of a set [1]. Source: C tor `cfx_max_legs_set`.
pub const MAX_LEGS: usize = 8;
