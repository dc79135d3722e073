//! Errors of key files.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why keys cannot be used. The message names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// Other users may read the file or folder.
    #[error("{path} can be read by others (mode {1:o}); chmod {right} it", path = .0.display(), right = right_mode(.0))]
    Exposed(PathBuf, u32),
    /// A file is malformed.
    #[error("{path} is not {1}", path = .0.display())]
    Malformed(PathBuf, &'static str),
    /// One of the two identity keys is missing. Authorities accept them only as a pair.
    #[error("{} is missing, but the relay's other identity key is there: restore it, or remove both for a new identity",
        .0.display())]
    HalfIdentity(PathBuf),
    /// A file already exists.
    #[error("{} exists already and is not overwritten", .0.display())]
    Exists(PathBuf),
}

fn right_mode(path: &Path) -> &'static str {
    if path.is_dir() { "700" } else { "600" }
}
