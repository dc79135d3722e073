//! Signals. A handler sets a flag, and writes a byte to a pipe that wakes the node.

use nix::libc::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals that arrived since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) end: bool,
    pub(super) interrupt: bool,
    pub(super) reload: bool,
    pub(super) report: bool,
}

#[derive(Debug)]
pub(super) struct Signals {
    pub(super) pipe: UnixStream,
    flags: [Arc<AtomicBool>; 4],
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let (pipe, end) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let flags: [Arc<AtomicBool>; 4] = Default::default();
        for (signal, flag) in [SIGTERM, SIGINT, SIGHUP, SIGUSR1].into_iter().zip(&flags) {
            // The flag is set before the byte is written.
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
        }
        Ok(Signals { pipe, flags })
    }

    pub(super) fn take(&mut self) -> Asked {
        let mut bytes = [0; 64];
        while self.pipe.read(&mut bytes).is_ok_and(|read| read > 0) {}
        let [end, interrupt, reload, report] =
            self.flags.each_ref().map(|flag| flag.swap(false, Ordering::Relaxed));
        Asked { end, interrupt, reload, report }
    }
}
