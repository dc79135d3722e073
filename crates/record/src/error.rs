//! Errors of the output tables. Each message begins with the path of the file.

use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a table cannot be written or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused an operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file is not a valid table, or a table cannot be encoded.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The path of the file.
        path: PathBuf,
        /// The error of the Parquet library.
        source: ParquetError,
    },
    /// Another version of Penstock wrote the table, with different columns.
    #[error("{}: it has other columns than this version writes", path.display())]
    Columns {
        /// The path of the file.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Error::Io { path: path.to_owned(), source }
    }

    /// Converts an error of the Parquet library at `path`. If it wraps a file system error, returns that error.
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
