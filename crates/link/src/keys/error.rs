//! What can be wrong with keys on a disk.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why keys cannot be used; a sentence that says what would be right.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or written.
    Io(PathBuf, io::Error),
    /// Others than its owner may read the file or folder.
    Exposed(PathBuf, u32),
    /// The file is something else than its name says.
    Malformed(PathBuf, &'static str),
    /// One of the two identities is there, the other is not; authorities know them together.
    HalfIdentity(PathBuf),
    /// The file is there already.
    Exists(PathBuf),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            KeyError::Exposed(path, mode) => {
                let right = if path.is_dir() { "700" } else { "600" };
                write!(f, "{} can be read by others (mode {mode:o}); chmod {right} it", path.display())
            }
            KeyError::Malformed(path, what) => write!(f, "{} is not {what}", path.display()),
            KeyError::HalfIdentity(path) => write!(
                f,
                "{} is missing beside the relay's other identity key: restore it, or remove both to become another relay",
                path.display()
            ),
            KeyError::Exists(path) => write!(f, "{} is there already and is not overwritten", path.display()),
        }
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let KeyError::Io(_, error) = self { Some(error) } else { None }
    }
}
