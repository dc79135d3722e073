//! Why a document did not come, or was not taken.

/// One sentence for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Nobody is there, or it takes too long.
    #[error("the directory cannot be reached: {0}")]
    Unreachable(String),
    /// The connection broke off in the middle of a document.
    #[error("the directory's answer is cut short")]
    Short,
    /// The answer is none in HTTP, or compressed.
    #[error("the directory's answer is not HTTP, or is compressed")]
    NotHttp,
    /// The server said no: status and reason.
    #[error("the directory answered {0} {1:?}")]
    Refused(u16, String),
    /// The document says something else than its place allows.
    #[error("the directory's document is malformed")]
    Malformed,
    /// Too few of the authorities that we know signed the consensus: so many, and so many are needed.
    #[error("the consensus has {0} valid signatures of known authorities, and needs {1}")]
    Unsigned(usize, usize),
    /// The consensus is older than the one that we have, or over.
    #[error("the consensus is expired, or not newer than the present one")]
    Old,
}

impl From<penstock_network::document::Malformed> for Failure {
    fn from(_: penstock_network::document::Malformed) -> Self {
        Failure::Malformed
    }
}
