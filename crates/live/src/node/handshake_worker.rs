//! The thread that answers circuit handshakes. One handshake needs as much CPU time as some hundred cells. Hosts share
//! the thread fairly, and so do the links of a host.

use super::fair_queue::FairQueue;
use super::shares::{Holder, PartPath};
use penstock_core::edge_control::Negotiation;
use penstock_link::cell::Handshake;
use penstock_link::crypto::{Answered, Identities, Refused, answer};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

/// Maximum number of queued handshakes [1]. The thread answers so many in a tenth of a second.
const MOST: usize = 1024;

struct Ask {
    handshake: Handshake,
    as_whom: Arc<Identities>,
    agree: Box<dyn FnOnce(Negotiation) -> Negotiation + Send>,
}

struct Work {
    asks: FairQueue<Holder, Ask>,
    is_over: bool,
}

struct Desk(Mutex<Work>, Condvar);

impl Desk {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.0.lock().expect("no code panics while it holds the lock")
    }

    /// Waits for the next handshake. Returns `None` when the node ends.
    fn next(&self) -> Option<(u64, Ask)> {
        let mut work = self.work();
        loop {
            if work.is_over {
                return None;
            }
            if let Some(next) = work.asks.pop() {
                return Some(next);
            }
            work = self.1.wait(work).expect("no code panics while it holds the lock");
        }
    }
}

pub(super) struct HandshakeWorker {
    desk: Arc<Desk>,
    answers: Receiver<(u64, Result<Answered, Refused>)>,
    thread: JoinHandle<()>,
}

impl fmt::Debug for HandshakeWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeWorker").finish_non_exhaustive()
    }
}

impl HandshakeWorker {
    /// Starts the thread. The thread calls `wake` after each answer.
    pub(super) fn start(wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let work = Work { asks: FairQueue::new(MOST), is_over: false };
        let desk = Arc::new(Desk(Mutex::new(work), Condvar::new()));
        let (said, answers) = channel();
        let its = desk.clone();
        let thread = thread::Builder::new().name("handshakes".into()).spawn(move || {
            let mut rng = rand::rng();
            while let Some((number, ask)) = its.next() {
                let answered = answer(&mut rng, &ask.handshake, &ask.as_whom, ask.agree);
                if said.send((number, answered)).is_err() {
                    return;
                }
                wake();
            }
        })?;
        Ok(HandshakeWorker { desk, answers, thread })
    }

    /// Queues a handshake from the link at the end of `path`. The answer will have the same number. If the queue is
    /// full, returns the number of the dropped handshake, which can be `number`.
    pub(super) fn ask(
        &self,
        number: u64,
        path: PartPath,
        handshake: Handshake,
        as_whom: Arc<Identities>,
        agree: impl FnOnce(Negotiation) -> Negotiation + Send + 'static,
    ) -> Option<u64> {
        assert!(!self.thread.is_finished(), "the thread ends with the node, or by a panic of ours");
        let dropped =
            self.desk.work().asks.push(&path, number, Ask { handshake, as_whom, agree: Box::new(agree) });
        self.desk.1.notify_one();
        dropped
    }

    /// Removes a handshake from the queue. Returns whether it was still queued. If so, no answer will arrive.
    pub(super) fn forget(&self, path: PartPath, number: u64) -> bool {
        self.desk.work().asks.forget(&path, number)
    }

    pub(super) fn answer(&self) -> Option<(u64, Result<Answered, Refused>)> {
        self.answers.try_recv().ok()
    }
}

impl Drop for HandshakeWorker {
    fn drop(&mut self) {
        self.desk.work().is_over = true;
        self.desk.1.notify_one();
    }
}
