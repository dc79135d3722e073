/// The reason why a document was not received or not accepted, as a sentence for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The server cannot be reached, or answers too slowly.
    #[error("the directory cannot be reached: {0}")]
    Unreachable(String),
    /// The connection ended in the middle of a document.
    #[error("the directory's answer is cut short")]
    Short,
    /// The answer is not HTTP, or it is compressed.
    #[error("the directory's answer is not HTTP, or is compressed")]
    NotHttp,
    /// The server refused the request, with this status and reason.
    #[error("the directory answered {0} {1:?}")]
    Refused(u16, String),
    /// The document violates its format.
    #[error("the directory's document is malformed")]
    Malformed,
    /// Too few known authorities signed the consensus: the number of signatures, and the required number.
    #[error("the consensus has {0} valid signatures of known authorities, and needs {1}")]
    Unsigned(usize, usize),
    /// The consensus has expired, or is not newer than the current one.
    #[error("the consensus is expired, or not newer than the present one")]
    Old,
}

impl From<penstock_network::document::Malformed> for Failure {
    fn from(_: penstock_network::document::Malformed) -> Self {
        Failure::Malformed
    }
}
