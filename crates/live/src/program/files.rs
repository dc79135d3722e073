//! Files in the data folder: the lock, the fingerprints, the process id.
//!
//! Source: C tor `try_locking()`, `router_write_fingerprint()`, `write_pidfile()`.

use crate::Error;
use crate::{atomic, keys};
use nix::fcntl::{Flock, FlockArg};
use penstock_link::keys::Keys;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: Flock<File>,
}

impl DataDirectory {
    /// Opens and locks the folder. Creates a missing folder.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        keys::open_folder(path).map_err(|error| Error::operator(format!("DataDirectory: {error}")))?;
        let lock = path.join("lock");
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600).custom_flags(nix::libc::O_NONBLOCK);
        let file =
            options.open(&lock).and_then(atomic::regular).map_err(|error| Error::file(&lock, error))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Error::operator(format!(
                "DataDirectory: {} is used by another relay that is running",
                path.display()
            ))
        })?;
        Ok(DataDirectory { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn fingerprints(&self, nickname: &str, keys: &Keys) -> Result<(), Error> {
        for (name, identity) in [("fingerprint", keys.fingerprint()), ("fingerprint-ed25519", ed25519(keys))]
        {
            let path = self.path.join(name);
            let line = format!("{nickname} {identity}\n");
            atomic::update(&path, line.as_bytes()).map_err(|(path, error)| Error::file(&path, error))?;
        }
        Ok(())
    }
}

pub(super) fn ed25519(keys: &Keys) -> String {
    penstock_network::document::to_base64(&keys.ed25519_identity())
}

/// The file with the process id. Dropping this value deletes the file.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    pub(super) fn write(path: &Path) -> Result<Self, Error> {
        fs::write(path, format!("{}\n", std::process::id())).map_err(|error| Error::file(path, error))?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
