//! Errors of this crate. Each message begins with the path of the file.

use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};

/// A table cannot be written or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused an operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file is no valid table, or a table cannot be encoded.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The error of the Parquet library.
        source: ParquetError,
    },
    /// A table was written by another version.
    #[error("{}: it has other columns than this version writes", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Error::Io { path: path.to_owned(), source }
    }

    /// An error of the Parquet library at `path`. If a file system error is inside, that error and its file count.
    pub(crate) fn parquet(path: &Path, error: ParquetError) -> Self {
        let source = match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => return error.downcast().unwrap_or_else(|source| Error::io(path, source)),
                Err(other) => ParquetError::External(other),
            },
            other => other,
        };
        Error::Parquet { path: path.to_owned(), source }
    }
}
