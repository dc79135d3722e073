//! Errors of this crate.

/// A run has no outcome, or a record cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// [`Control::cancel`](crate::Control::cancel) was called.
    #[error("the run was cancelled")]
    Cancelled,
    /// A record has a client that the scenario does not have.
    #[error("it has downloads of the client {client:?}, which the scenario does not have")]
    UnknownClient {
        /// The client's name.
        client: String,
    },
    /// A record has a workload that the client does not have in the scenario.
    #[error("it has downloads of the workload {workload:?}, which the client {client:?} does not have")]
    UnknownWorkload {
        /// The client's name.
        client: String,
        /// The workload's name.
        workload: String,
    },
    /// A record has a circuit through a relay that the scenario does not have.
    #[error(
        "it has a circuit of the client {client:?} through the relay {relay:?}, which the scenario does not have"
    )]
    UnknownRelay {
        /// The client's name.
        client: String,
        /// The relay's name.
        relay: String,
    },
    /// The client downloads without Tor in the scenario.
    #[error("the client {client:?} has no Tor; only downloads over circuits can be replayed")]
    ClientWithoutTor {
        /// The client's name.
        client: String,
    },
    /// A record has downloads of a workload that only holds circuits in the scenario.
    #[error("it has downloads of the workload {workload:?}, which only holds circuits")]
    WorkloadWithoutDownloads {
        /// The workload's name.
        workload: String,
    },
}
