//! Experiment `tcp`, the reference for the simulator's TCP: one flow between two kernels over one link.

use crate::Error;
use crate::diag::{Diag, TcpInfo};
use crate::error::{broken, usage};
use crate::link::LinkConfig;
use crate::pair::Pair;
use crate::row::{LinkRow, Row, Sample, kernel_version, sample};
use crate::socket::{Congestion, dial};
use penstock_units::{Bytes, Duration, Instant, Seed};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use strum::{Display, EnumString, VariantNames};

/// The kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// Bytes received in a time span, after a warm-up.
    Goodput,
    /// Congestion window during a download.
    Window,
    /// Duration of a download.
    Download,
}

/// Loss recovery of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Recovery {
    /// RACK with tail loss probes (RFC 8985), the kernel's default.
    Rack,
    /// RACK without tail loss probes.
    NoProbes,
    /// Duplicate acknowledgements (RFC 6675), without RACK. Linux 6.17 removed this recovery.
    Sack,
}

impl Recovery {
    fn settings(self) -> Result<&'static [(&'static str, &'static str)], Error> {
        match self {
            Recovery::Rack => Ok(&[]),
            Recovery::NoProbes => Ok(&[("tcp_early_retrans", "0")]),
            Recovery::Sack if kernel_version()? >= (6, 17) => Err(usage!(
                "--recovery sack: Linux has no loss recovery but RACK since 6.17; write no-probes, or run an \
                     older kernel"
            )),
            Recovery::Sack => Ok(&[("tcp_early_retrans", "0"), ("tcp_recovery", "0")]),
        }
    }
}

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Kind of measurement.
    pub kind: Kind,
    /// Congestion control of the sender.
    pub congestion: Congestion,
    /// Link, the same in both directions.
    pub link: LinkConfig,
    /// Seed of the losses.
    pub repeat: u64,
    /// With `Goodput`, the time between `connect()` and the start of the measurement.
    pub warmup: Duration,
    /// With `Goodput`, duration of the measurement; otherwise the time limit.
    pub seconds: Duration,
    /// With `Window` and `Download`, size of the download [B].
    pub bytes: Bytes,
    /// Loss recovery of the sender.
    pub recovery: Recovery,
    /// The time for which the loop spins before each packet is due.
    pub spin: Duration,
}

const TICK: Duration = Duration::from_millis(10);
/// Port on which the receiver listens.
pub const PORT: u16 = 9000;
/// Linux's default buffer sizes. The maximum is large enough for two full windows on the fastest link of the
/// experiments: 12.5 MB/s, 100 ms.
const SETTINGS: [(&str, &str); 3] = [
    ("tcp_wmem", "4096 16384 6291456"),
    ("tcp_rmem", "4096 131072 6291456"),
    // A connection does not use metrics of earlier connections.
    ("tcp_no_metrics_save", "1"),
];

/// Runs the experiment. The process must have only the calling thread, and can run only one experiment.
pub fn run(experiment: &Experiment) -> Result<Row, Error> {
    let mut settings = SETTINGS.to_vec();
    settings.extend(experiment.recovery.settings()?);
    let pair = Pair::join(experiment.link, Seed(experiment.repeat), &settings, experiment.spin)?;
    let target = if experiment.kind == Kind::Goodput { u64::MAX } else { experiment.bytes.get() };
    let receiver = Receiver::listen(&pair, target)?;
    let diag = Diag::new().map_err(|error| broken!("sock_diag is refused here: {error}"))?;
    let start = pair.clock.now();
    let socket = dial(SocketAddrV4::new(pair.address(1), PORT), experiment.congestion)?;
    let sender = send(&socket, target)?;

    let mut samples = Vec::new();
    let mut counted = Counted::default();
    if experiment.kind == Kind::Goodput {
        pair.clock.sleep_until(start + experiment.warmup);
        (counted.from, counted.before) = (pair.clock.now(), receiver.bytes());
        pair.clock.sleep_until(start + experiment.warmup + experiment.seconds);
        (counted.to, counted.after) = (pair.clock.now(), receiver.bytes());
    } else {
        let finished = watch(&pair, &receiver, &diag, &socket, start, experiment.seconds, &mut samples);
        counted = Counted { from: start, to: finished.unwrap_or_else(|| pair.clock.now()), ..counted };
        counted.after = receiver.bytes();
    }
    let info = diag.info(&socket);
    let finished = receiver.finished();
    let _ = socket.shutdown(Shutdown::Both);
    sender.join().expect("what went wrong was said by the thread")?;
    row(experiment, pair, &counted, finished.map(|at| at - start), info, samples)
}

#[derive(Default)]
struct Counted {
    from: Instant,
    to: Instant,
    before: u64,
    after: u64,
}

fn row(
    experiment: &Experiment,
    pair: Pair,
    counted: &Counted,
    finished: Option<Duration>,
    info: Option<TcpInfo>,
    samples: Vec<Sample>,
) -> Result<Row, Error> {
    let Experiment { kind, congestion, link, recovery, .. } = experiment;
    let seconds = (counted.to - counted.from).as_secs_f64();
    let bytes = counted.after - counted.before;
    let changed = (*recovery != Recovery::Rack).then(|| recovery.to_string());
    Ok(Row {
        link: LinkRow::new(kind, (*congestion, changed), link, bytes, &pair.part()?)?,
        congestion: *congestion,
        repeat: experiment.repeat,
        warmup_s: if *kind == Kind::Goodput { experiment.warmup.as_secs_f64() } else { 0.0 },
        seconds,
        goodput_bytes_per_s: bytes as f64 / seconds,
        retransmits: info.map(|info| info.retransmits),
        seconds_to_finish: finished.map(|span| span.as_secs_f64()),
        hystart: congestion.hystart(),
        recovery: recovery.to_string(),
        window_limited_s: info.map(|info| info.window_limited.as_secs_f64()),
        buffer_limited_s: info.map(|info| info.buffer_limited.as_secs_f64()),
        samples: (*kind == Kind::Window).then_some(samples),
    })
}

/// Samples the socket until the last byte arrives. Returns the time of the last byte; `None` after the time limit.
fn watch(
    pair: &Pair,
    receiver: &Receiver,
    diag: &Diag,
    socket: &TcpStream,
    start: Instant,
    limit: Duration,
    samples: &mut Vec<Sample>,
) -> Option<Instant> {
    let mut tick = pair.clock.now();
    loop {
        if let Some(at) = receiver.finished() {
            return Some(at);
        }
        let now = pair.clock.now();
        if now - start > limit {
            return None;
        }
        samples.extend(diag.info(socket).map(|info| sample(now, start, &info)));
        tick += TICK;
        pair.clock.sleep_until(tick);
    }
}

/// Starts a thread that sends `target` bytes, or until the socket is shut down.
fn send(socket: &TcpStream, target: u64) -> Result<JoinHandle<Result<(), Error>>, Error> {
    let mut socket = socket.try_clone().map_err(|error| broken!("{error}"))?;
    Ok(spawn(move || {
        let block = [0; 64 << 10];
        let mut left = target;
        while left > 0 {
            match socket.write(&block[..left.min(block.len() as u64) as usize]) {
                Ok(written) => left -= written as u64,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) => return Err(broken!("the flow broke off: {error}")),
            }
        }
        Ok(())
    }))
}

/// The receiver at node 1.
#[derive(Debug)]
pub struct Receiver {
    bytes: Arc<AtomicU64>,
    /// Time of the last byte [ns]; `u64::MAX` before its arrival.
    finished: Arc<AtomicU64>,
}

impl Receiver {
    /// Listens at node 1 for one connection with `target` bytes. The calling thread is in node 0 afterwards.
    pub fn listen(pair: &Pair, target: u64) -> Result<Receiver, Error> {
        pair.enter(1);
        let listener = TcpListener::bind((pair.address(1), PORT)).map_err(|error| broken!("{error}"))?;
        pair.enter(0);
        let receiver = Receiver { bytes: Arc::default(), finished: Arc::new(AtomicU64::new(u64::MAX)) };
        let (bytes, finished, clock) =
            (Arc::clone(&receiver.bytes), Arc::clone(&receiver.finished), pair.clock);
        spawn(move || {
            let Ok((mut socket, _)) = listener.accept() else { return };
            let (mut block, mut sum) = (vec![0; 256 << 10], 0);
            // If the connection breaks, the number of received bytes shows it.
            while let Ok(read @ 1..) = socket.read(&mut block) {
                sum += read as u64;
                bytes.store(sum, Ordering::Release);
                if sum >= target {
                    finished.fetch_min(clock.now().as_nanos(), Ordering::Release);
                }
            }
        });
        Ok(receiver)
    }

    /// Number of received bytes so far [B].
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Time at which the last byte arrived.
    pub fn finished(&self) -> Option<Instant> {
        let nanos = self.finished.load(Ordering::Acquire);
        (nanos != u64::MAX).then(|| Instant::from_nanos(nanos))
    }
}
