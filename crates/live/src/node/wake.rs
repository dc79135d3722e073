//! Wakes the node from other threads: eventfd(2).

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Wake(Arc<EventFd>);

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Wake(Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)))
    }

    /// Returns a function with which another thread wakes the node.
    pub(super) fn caller(&self) -> impl Fn() + Clone + Send + use<> {
        let event = self.0.clone();
        move || {
            // If the counter is full, the node is already awake.
            let _ = event.write(1);
        }
    }

    /// Lets the next call of a caller wake the node again.
    pub(super) fn reset(&self) {
        // An error means that the eventfd was not set.
        let _ = self.0.read();
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
