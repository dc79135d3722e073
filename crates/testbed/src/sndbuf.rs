//! Experiment `sndbuf`, which measures how Linux tunes the send buffer of a socket. The application either writes
//! whenever the socket is writable, as a Tor relay does, or writes at a rate below the path's capacity.

use crate::Error;
use crate::diag::Diag;
use crate::error::broken;
use crate::link::LinkConfig;
use crate::pair::Pair;
use crate::row::{LinkRow, SndbufRow, sndbuf_sample};
use crate::socket::{Congestion, OWN_BUFFERS, dial_eager};
use crate::tcp::{PORT, Receiver};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use penstock_units::{DataRate, Duration, Instant, Seed};
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::spawn;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Link, the same in both directions.
    pub link: LinkConfig,
    /// Rate of the application's writes [B/s]; `None` if it writes whenever the socket is writable.
    pub writes: Option<DataRate>,
    /// Duration of the run.
    pub seconds: Duration,
    /// Interval between samples.
    pub every: Duration,
    /// The time for which the loop spins before each packet is due.
    pub spin: Duration,
}

/// Maximum size of one write, as in Tor [B].
const QUANTUM: usize = 16 << 10;
/// Interval between writes, if the application has a rate.
const TICK: Duration = Duration::from_millis(10);

/// Runs the experiment. The process must have only the calling thread, and can run only one experiment.
pub fn run(experiment: &Experiment) -> Result<SndbufRow, Error> {
    let pair = Pair::join(experiment.link, Seed(1), &OWN_BUFFERS, experiment.spin)?;
    let receiver = Receiver::listen(&pair, u64::MAX)?;
    let diag = Diag::new().map_err(|error| broken!("sock_diag is refused here: {error}"))?;
    let start = pair.clock.now();
    let socket = dial_eager(SocketAddrV4::new(pair.address(1), PORT))?;
    let stop = Arc::new(AtomicBool::new(false));
    let application = {
        let writer = Writer {
            socket: socket.try_clone().map_err(|error| broken!("{error}"))?,
            clock: pair.clock,
            start,
            stop: Arc::clone(&stop),
        };
        let rate = experiment.writes;
        spawn(move || match rate {
            Some(rate) => writer.paced(rate),
            None => writer.greedy(),
        })
    };
    let (mut samples, mut tick) = (Vec::new(), start);
    while tick <= start + experiment.seconds {
        pair.clock.sleep_until(tick);
        let now = pair.clock.now();
        samples.extend(diag.info(&socket).map(|info| sndbuf_sample(now, start, &info)));
        tick += experiment.every;
    }
    let bytes = receiver.bytes();
    stop.store(true, Ordering::Relaxed);
    let _ = socket.shutdown(Shutdown::Both);
    application
        .join()
        .expect("what went wrong was said by the thread")
        .map_err(|error| broken!("the flow broke off: {error}"))?;
    let reference = (Congestion::Cubic, None);
    Ok(SndbufRow {
        link: LinkRow::new("sndbuf", reference, &experiment.link, bytes, &pair.part()?)?,
        writes_bytes_per_s: experiment.writes.map(DataRate::bytes_per_sec),
        samples,
    })
}

struct Writer {
    socket: TcpStream,
    clock: crate::clock::Clock,
    start: Instant,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn greedy(mut self) -> std::io::Result<()> {
        let block = [0; QUANTUM];
        while self.wait()? {
            self.write(&block)?;
        }
        Ok(())
    }

    /// At each tick, writes the bytes that `rate` allows since the last tick.
    fn paced(mut self, rate: DataRate) -> std::io::Result<()> {
        let block = vec![0; 1 << 20];
        let (mut written, mut tick) = (0, self.start);
        while self.wait()? {
            let due = rate.bytes_in(self.clock.now() - self.start).get() - written;
            written += self.write(&block[..due.min(block.len() as u64) as usize])? as u64;
            tick += TICK;
            self.clock.sleep_until(tick);
        }
        Ok(())
    }

    /// Waits until the socket is writable. Returns false at the end of the run.
    fn wait(&self) -> std::io::Result<bool> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
            if poll(&mut fds, PollTimeout::from(100u8))? > 0 {
                return Ok(!self.stop.load(Ordering::Relaxed));
            }
        }
    }

    fn write(&mut self, block: &[u8]) -> std::io::Result<usize> {
        match self.socket.write(block) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            // The socket was shut down at the end of the run.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.stop.load(Ordering::Relaxed) => Ok(0),
            result => result,
        }
    }
}
