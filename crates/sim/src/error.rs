//! Errors of the simulator.

/// Why a run has no result, or why a record cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller cancelled the run with [`Control::cancel`](crate::Control::cancel).
    #[error("the run was cancelled")]
    Cancelled,
    /// The record contains a client that is not in the scenario.
    #[error("it has downloads of the client {client:?}, which the scenario does not have")]
    UnknownClient {
        /// The client's name.
        client: String,
    },
    /// The record contains a workload that this client does not have in the scenario.
    #[error("it has downloads of the workload {workload:?}, which the client {client:?} does not have")]
    UnknownWorkload {
        /// The client's name.
        client: String,
        /// The workload's name.
        workload: String,
    },
    /// The record contains a circuit through a relay that is not in the scenario.
    #[error(
        "it has a circuit of the client {client:?} through the relay {relay:?}, which the scenario does not have"
    )]
    UnknownRelay {
        /// The client's name.
        client: String,
        /// The relay's name.
        relay: String,
    },
    /// The record contains downloads of a client that does not use Tor in the scenario.
    #[error("the client {client:?} has no Tor; only downloads over circuits can be replayed")]
    ClientWithoutTor {
        /// The client's name.
        client: String,
    },
    /// The record contains downloads of a workload. In the scenario, this workload only holds circuits open.
    #[error("it has downloads of the workload {workload:?}, which only holds circuits")]
    WorkloadWithoutDownloads {
        /// The workload's name.
        workload: String,
    },
}
