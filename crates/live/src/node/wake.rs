//! What other threads wake a node by: eventfd(2).

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Something that the node waits for, too.
#[derive(Clone, Debug)]
pub(super) struct Wake(Arc<EventFd>);

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Wake(Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)))
    }

    /// A function that wakes.
    pub(super) fn caller(&self) -> impl Fn() + Clone + Send + use<> {
        let event = self.0.clone();
        move || {
            // Full means awake.
            let _ = event.write(1);
        }
    }

    /// Takes note that it was woken.
    pub(super) fn heard(&self) {
        // Nothing there means that it was not.
        let _ = self.0.read();
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
