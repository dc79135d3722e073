//! The thread for directory requests. Circuits never wait for it.
//!
//! Each request has its own connection and its own short-lived thread. At the same time, there are at most five
//! downloads, and at most one upload to each authority.

use super::authorities::Fingerprint;
use super::between;
use super::cache::{DirectoryCache, DirectoryEvent, Job, RetryPolicy};
use super::documents::Documents;
use super::failure::Failure;
use super::http::Answer;
use crate::clock::Clock;
use rand::SeedableRng as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum time to sleep. After a change of the system's date, the thread notices due tasks within this time.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Maximum number of queued events [1]. Later events are dropped.
const MAX_EVENTS: usize = 256;

enum Order {
    /// A request to upload the descriptor to all authorities.
    Publish(Fingerprint, Arc<str>),
    /// The answer to a directory request.
    Answered(Job, Result<Answer, Failure>),
    Stop,
}

/// The handle of the thread. Dropping it stops the thread.
#[derive(Debug)]
pub struct Directory {
    orders: Sender<Order>,
    documents: Arc<Mutex<Arc<Documents>>>,
    events: Receiver<DirectoryEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Directory {
    /// Starts the thread, which fetches the documents of the network of `documents`.
    ///
    /// # Errors
    ///
    /// If the system allows no more threads.
    pub fn start(documents: Documents, retry: RetryPolicy, clock: Clock) -> io::Result<Self> {
        let (orders, todo) = channel();
        let (sender, events) = sync_channel(MAX_EVENTS);
        let shelf = Arc::new(Mutex::new(Arc::new(documents.clone())));
        let (answers, shown) = (orders.clone(), shelf.clone());
        let rng = rand::rngs::StdRng::from_rng(&mut rand::rng());
        let cache = DirectoryCache::new(documents, retry, rng, clock.date());
        let work = move || work(cache, clock, &todo, &answers, &shown, &sender);
        let thread = std::thread::Builder::new().name("directory".into()).spawn(work)?;
        Ok(Directory { orders, documents: shelf, events, thread: Some(thread) })
    }

    /// The current documents.
    pub fn documents(&self) -> Arc<Documents> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uploads the descriptor to all authorities.
    pub fn publish(&self, identity: Fingerprint, descriptor: Arc<str>) {
        self.orders.send(Order::Publish(identity, descriptor)).expect("the thread is there as long as this");
    }

    /// The next event for the log.
    pub fn poll_directory_event(&self) -> Option<DirectoryEvent> {
        self.events.try_recv().ok()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The thread may have ended already.
        let _ = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(
    mut cache: DirectoryCache,
    clock: Clock,
    todo: &Receiver<Order>,
    answers: &Sender<Order>,
    shown: &Mutex<Arc<Documents>>,
    sender: &SyncSender<DirectoryEvent>,
) {
    loop {
        while let Some(job) = cache.poll(clock.date()) {
            begin(job, clock, answers);
        }
        let now = clock.date();
        let wait = cache.poll_timeout(now).map_or(MAX_WAIT, |due| between(now, due).min(MAX_WAIT));
        match todo.recv_timeout(wait) {
            Ok(Order::Publish(identity, descriptor)) => cache.publish(clock.date(), identity, descriptor),
            Ok(Order::Answered(job, answer)) => cache.on_answer(clock.date(), &job, answer),
            Err(RecvTimeoutError::Timeout) => continue,
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(cache.documents().clone());
        // Events are dropped if the log reads them too slowly.
        cache.take_events().into_iter().for_each(|note| drop(sender.try_send(note)));
    }
}

fn begin(job: Job, clock: Clock, answers: &Sender<Order>) {
    let to_thread = answers.clone();
    let asked = job.clone();
    let ask = move || {
        let answer = ask(asked.to, &asked.request, clock);
        // The directory thread may have ended already.
        let _ = to_thread.send(Order::Answered(asked, answer));
    };
    if let Err(error) = std::thread::Builder::new().name("request".into()).spawn(ask) {
        let _ = answers.send(Order::Answered(job, Err(unreachable(&error))));
    }
}

fn unreachable(error: &io::Error) -> Failure {
    Failure::Unreachable(error.to_string())
}

fn ask(to: SocketAddr, request: &[u8], clock: Clock) -> Result<Answer, Failure> {
    let bytes = exchange(to, request, clock).map_err(|error| unreachable(&error))?;
    Answer::read(bytes)
}

fn exchange(to: SocketAddr, request: &[u8], clock: Clock) -> io::Result<Vec<u8>> {
    let until = clock.now() + REQUEST_TIMEOUT;
    let mut socket = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    socket.write_all(request)?;
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 65_536]);
    loop {
        let left = until.since(clock.now());
        if left.is_zero() || bytes.len() > Answer::MOST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut chunk) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::consensus::Flavour;
    use crate::directory::samples;
    use std::net::TcpListener;

    /// A directory that answers every request with an invalid document.
    fn refusing() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let _ = socket.read(&mut [0; 1024]);
                let _ = socket.write_all(b"HTTP/1.0 200 OK\r\n\r\nnothing\n");
            }
        });
        address
    }

    #[test]
    fn refused_documents_are_logged_and_requested_again() {
        let mut authority = samples::authorities().remove(0);
        authority.dir_port = refusing();
        let retry = RetryPolicy { min_delay: Duration::from_millis(1), max_delay: Duration::from_millis(2) };
        let directory = Directory::start(Documents::new(vec![authority]), retry, Clock::start()).unwrap();
        directory.publish([0; 20], "router me\nrouter-signature\n".into());
        let mut events = Vec::new();
        for _ in 0..10_000 {
            events.extend(directory.poll_directory_event());
            let published = events.iter().any(|note| matches!(note, DirectoryEvent::Published(_)));
            let failed = events
                .iter()
                .filter(|note| matches!(note, DirectoryEvent::NotFetched(_, Failure::Malformed)));
            if published && failed.count() > 4 {
                assert!(directory.documents().consensus(Flavour::Plain).is_none());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{events:?}");
    }

    #[test]
    fn a_closed_port_is_unreachable() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(matches!(ask(gone, b"", Clock::start()), Err(Failure::Unreachable(_))));
    }
}
