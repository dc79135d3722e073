use digest::Digest;
use tor_llcrypto::d::Sha256;

/// SHA-256 of all bytes that one side sent in a handshake, until the log is closed.
#[derive(Clone, Default)]
pub(super) struct Log {
    hash: Sha256,
    closed: bool,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

impl Log {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.hash.update(bytes);
        }
    }

    /// Stops the log. Later bytes do not change the digest.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }
}
