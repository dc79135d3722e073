//! Key files: their format and their permissions.
//!
//! Source: C tor `init_keys()`, `load_ed_keys()`, `crypto_write_tagged_contents_to_file()`. C tor and this relay can
//! read each other's files.

use super::error::KeyError;
use crate::atomic::{self, FileError};
use penstock_link::pem;
use rsa::pkcs1::EncodeRsaPrivateKey;
use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tor_llcrypto::pk::ed25519::ExpandedKeypair;
use tor_llcrypto::pk::rsa as tor_rsa;
use zeroize::Zeroizing;

/// Maximum size of a key file [B].
const MAX_FILE: u64 = 8192;
/// Length of the header of a tagged file [B].
const HEADER: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder. Creates a missing folder with access for its owner only.
    pub(super) fn open(path: &Path) -> Result<Self, KeyError> {
        let folder = Folder(path.to_owned());
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(KeyError::Io(path.to_owned(), error)),
        }
        private(path, &fs::metadata(path).map_err(|error| KeyError::Io(path.to_owned(), error))?)?;
        Ok(folder)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub(super) fn modified(&self, name: &str) -> Result<SystemTime, KeyError> {
        let path = self.path(name);
        fs::metadata(&path).and_then(|data| data.modified()).map_err(|error| KeyError::Io(path, error))
    }

    /// Reads a file, and checks that only its owner can access it.
    pub(super) fn read(&self, name: &str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let path = self.path(name);
        let fail = |error| KeyError::Io(path.clone(), error);
        let file = atomic::open(&path).map_err(fail)?;
        private(&path, &file.metadata().map_err(fail)?)?;
        let mut content = Zeroizing::new(Vec::with_capacity(MAX_FILE as usize));
        file.take(MAX_FILE).read_to_end(&mut content).map_err(fail)?;
        Ok(content)
    }

    /// Creates new files that only their owner can access. Other processes never see incomplete files.
    pub(super) fn create(&self, files: &[(&str, &[u8])]) -> Result<(), KeyError> {
        atomic::create(&self.places(files)).map_err(|(path, error)| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(path),
            _ => KeyError::Io(path, error),
        })
    }

    pub(super) fn replace(&self, files: &[(&str, &[u8])]) -> Result<(), KeyError> {
        atomic::replace(&self.places(files)).map_err(failed)
    }

    /// Replaces two files that belong together. After a crash, both are old, both are new, or the second is missing.
    pub(super) fn replace_pair(&self, first: (&str, &[u8]), second: (&str, &[u8])) -> Result<(), KeyError> {
        let place = |(name, content)| (self.path(name), content);
        atomic::replace_pair(place(first), place(second)).map_err(failed)
    }

    /// Completes [`Folder::create`] for a file after a crash. Returns whether it still had its temporary name.
    pub(super) fn finish(&self, name: &str) -> Result<bool, KeyError> {
        atomic::finish(&self.path(name)).map_err(failed)
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), KeyError> {
        atomic::remove(&self.path(name)).map_err(failed)
    }

    pub(super) fn remove_temporary(&self, name: &str) -> Result<(), KeyError> {
        atomic::remove(&atomic::temporary(&self.path(name))).map_err(failed)
    }

    fn places<'a>(&self, files: &[(&str, &'a [u8])]) -> Vec<(PathBuf, &'a [u8])> {
        files.iter().map(|(name, content)| (self.path(name), *content)).collect()
    }

    /// Reads a tagged file. Returns the `len` bytes after the header.
    pub(super) fn read_tagged(
        &self,
        name: &str,
        tag: Tag,
        len: usize,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let content = self.read(name)?;
        match content.split_at_checked(HEADER) {
            Some((header, body)) if header == tag.header() && (body.len() == len || len == 0) => {
                Ok(Zeroizing::new(body.to_vec()))
            }
            _ => Err(self.malformed(name, tag.0)),
        }
    }

    pub(super) fn malformed(&self, name: &str, what: &'static str) -> KeyError {
        KeyError::Malformed(self.path(name), what)
    }

    pub(super) fn read_ed25519(&self, name: &str, tag: Tag) -> Result<ExpandedKeypair, KeyError> {
        let content = self.read_tagged(name, tag, 64)?;
        let bytes: Zeroizing<[u8; 64]> =
            Zeroizing::new(content[..].try_into().expect("it was read with that length"));
        ExpandedKeypair::from_secret_key_bytes(*bytes).ok_or_else(|| self.malformed(name, tag.0))
    }

    pub(super) fn read_rsa(&self, name: &str) -> Result<tor_rsa::KeyPair, KeyError> {
        let fail = || self.malformed(name, "an RSA key of 1024 bits in PEM");
        let content = self.read(name)?;
        let text = std::str::from_utf8(&content).map_err(|_| fail())?;
        // C tor writes a NUL at the end of the file.
        let der = pem::read(RSA_PEM, text.trim_end_matches('\0')).map_err(|_| fail())?;
        let key = tor_rsa::KeyPair::from_der(&der).ok_or_else(fail)?;
        let public = key.to_public_key();
        if public.bits() == 1024 && public.exponent_is(65537) { Ok(key) } else { Err(fail()) }
    }
}

const RSA_PEM: &str = "RSA PRIVATE KEY";

pub(super) fn rsa_pem(key: &tor_rsa::KeyPair) -> Zeroizing<String> {
    let der = key.as_key().to_pkcs1_der().expect("a key that exists has a form");
    Zeroizing::new(pem::write(RSA_PEM, der.as_bytes()))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tag(pub(super) &'static str);

impl Tag {
    fn header(self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let text = format!("== {} ==", self.0);
        header[..text.len()].copy_from_slice(text.as_bytes());
        header
    }

    pub(super) fn file(self, body: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&self.header()[..], body].concat())
    }
}

fn failed((path, error): FileError) -> KeyError {
    KeyError::Io(path, error)
}

fn private(path: &Path, data: &fs::Metadata) -> Result<(), KeyError> {
    let mode = data.mode() & 0o7777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(KeyError::Exposed(path.to_owned(), mode)) }
}
