//! The network namespace and the address of a process.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A place for processes of a test network: the test's own loopback interface, or a network namespace.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) address: Ipv4Addr,
    enter: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Place {
    /// The loopback interface of the calling thread's namespace.
    pub(crate) fn loopback() -> Self {
        Place { address: Ipv4Addr::LOCALHOST, enter: None }
    }

    /// A namespace with this address. `enter` moves the calling thread into the namespace.
    pub(crate) fn namespace(address: Ipv4Addr, enter: impl Fn() + Send + Sync + 'static) -> Self {
        Place { address, enter: Some(Arc::new(enter)) }
    }

    /// Moves the calling thread to this place, for its next sockets and child processes.
    pub(crate) fn enter(&self) {
        if let Some(enter) = &self.enter {
            enter();
        }
    }

    /// Calls `action` in a thread at this place.
    pub(crate) fn run<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        let at_place = || {
            self.enter();
            action()
        };
        std::thread::scope(|scope| scope.spawn(at_place).join().expect("the thread's panic is printed"))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}
