//! Errors of the program.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why the relay cannot run, as a sentence that also names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error that the operator can correct.
    #[error("{0}")]
    Operator(String),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Error {
    pub(crate) fn operator(why: impl std::fmt::Display) -> Self {
        Error::Operator(why.to_string())
    }

    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Error::File { path: path.to_owned(), error }
    }

    /// The exit status of the program: 2 if the operator can correct the cause, otherwise 1.
    pub fn status(&self) -> u8 {
        if matches!(self, Error::System(_)) { 1 } else { 2 }
    }
}
