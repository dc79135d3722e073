//! Why a document did not come, or was not taken.

use std::fmt;

/// One sentence for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody is there, or it takes too long.
    Unreachable(String),
    /// The connection broke off in the middle of a document.
    Short,
    /// The answer is none in HTTP, or compressed.
    NotHttp,
    /// The server said no: status and reason.
    Refused(u16, String),
    /// The document says something else than its place allows.
    Malformed,
    /// Too few of the authorities that we know signed the consensus: so many, and so many are needed.
    Unsigned(usize, usize),
    /// The consensus is older than the one that we have, or over.
    Old,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreachable(why) => write!(f, "the directory cannot be reached: {why}"),
            Failure::Short => f.write_str("the directory broke off in the middle of its answer"),
            Failure::NotHttp => f.write_str("the directory's answer is not HTTP, or compressed"),
            Failure::Refused(status, reason) => write!(f, "the directory said {status} {reason:?}"),
            Failure::Malformed => f.write_str("the directory's document is malformed"),
            Failure::Unsigned(signed, needed) => {
                write!(
                    f,
                    "the consensus has good signatures of {signed} known authorities, and needs {needed}"
                )
            }
            Failure::Old => f.write_str("the consensus is older than the one that is there, or over"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<penstock_network::document::Malformed> for Failure {
    fn from(_: penstock_network::document::Malformed) -> Self {
        Failure::Malformed
    }
}
