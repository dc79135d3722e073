//! Runs the program, and measures until it ends.

use crate::Error;
use crate::capture::Capture;
use crate::mark::{FD_VARIABLE, INODE_VARIABLE, INTERVAL_VARIABLE, MARK_LEN, Mark};
use crate::matching::Matcher;
use crate::options::Options;
use crate::report::{Missing, Report};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::stat::fstat;
use nix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// The file name of the library.
const PRELOAD: &str = "libpenstock_kqtime_preload.so";
/// After the program's end, packets of its last writes may still leave [ns].
const LINGER: u64 = 500_000_000;
/// Reports that are received before the packets are looked at [1].
const BATCH: usize = 4096;
/// The size of the socket for reports [B].
const SPACE: usize = 4 << 20;
/// The program's end is checked so often [ms].
const TICK: u8 = 50;

/// The end of a measurement.
#[derive(Debug)]
pub struct Outcome {
    /// The end of the program.
    pub status: ExitStatus,
    /// The summary.
    pub summary: String,
}

/// Runs the program of `options` to its end.
///
/// # Errors
///
/// [`Error::Usage`] for a program, library or file that cannot be used, [`Error::Machine`] without the right to capture.
pub fn run(options: &Options) -> Result<Outcome, Error> {
    let library = library(options.preload.as_deref())?;
    let mut capture = Capture::open()?;
    let out = options.out.as_deref().map(create).transpose()?;
    let io = |error: io::Error| Error::Machine(format!("the measurement cannot go on: {error}"));
    let (mut reports, theirs) = channel().map_err(io)?;
    let mut table = Report::new(out, now()).map_err(io)?;
    let mut child = start(options, &library, theirs)?;
    let mut matcher = Matcher::default();
    // A full disk does not end the program. It reports the error when it ends.
    let mut failed = None;
    let mut is_open = true;
    let mut ended: Option<(ExitStatus, u64)> = None;
    loop {
        let mut fds = vec![PollFd::new(capture.as_fd(), PollFlags::POLLIN)];
        if is_open {
            fds.push(PollFd::new(reports.as_fd(), PollFlags::POLLIN));
        }
        // An interrupted call ends like one that timed out.
        let _ = poll(&mut fds, PollTimeout::from(TICK));
        drop(fds);
        // A packet is captured before the program can read it, so the packets of these reports are in the socket already.
        let (marks, is_last) = receive(&mut reports);
        is_open &= !is_last;
        let until = now();
        let mut waits = Vec::new();
        while let Some(captured) = capture.next_packet(|connection| matcher.knows(connection)) {
            if let Some(packet) = captured.packet {
                waits.extend(matcher.on_packet(packet));
            }
            if captured.time > until {
                break;
            }
        }
        waits.extend(marks.into_iter().filter_map(|mark| matcher.on_mark(mark)));
        for wait in waits {
            failed = failed.or_else(|| table.add(&wait).err());
        }
        matcher.expire(now());
        match ended {
            Some((status, since)) if now().saturating_sub(since) > LINGER => {
                let unfinished = matcher.pending() as u64;
                let missing = Missing { unfinished, unmatched: matcher.lost, dropped: capture.dropped() };
                return match failed {
                    Some(error) => Err(io(error)),
                    None => Ok(Outcome { status, summary: table.finish(&missing).map_err(io)? }),
                };
            }
            Some(_) => {}
            None => ended = child.try_wait().map_err(io)?.map(|status| (status, now())),
        }
    }
}

/// The reports that are here, at most [`BATCH`], and whether the program has closed its end.
fn receive(reports: &mut UnixStream) -> (Vec<Mark>, bool) {
    let mut marks = Vec::new();
    // The program sends whole reports, so the socket has whole ones.
    let mut bytes = [0; MARK_LEN];
    while marks.len() < BATCH {
        match reports.read(&mut bytes) {
            Ok(MARK_LEN) => marks.extend(Mark::from_bytes(&bytes)),
            Ok(_) => return (marks, true),
            Err(_) => break,
        }
    }
    (marks, false)
}

/// Real time since 1970 [ns], the clock of the kernel's time stamps.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_REALTIME).expect("Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// A socket for reports, with space for those of a moment in which this process does not run.
fn channel() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    if setsockopt(&theirs, sockopt::SndBufForce, &SPACE).is_err() {
        setsockopt(&theirs, sockopt::SndBuf, &SPACE)?;
    }
    Ok((ours, theirs))
}

fn library(given: Option<&Path>) -> Result<PathBuf, Error> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name(PRELOAD));
    let path = given.map(Path::to_owned).or_else(beside).unwrap_or_else(|| PRELOAD.into());
    path.canonicalize().map_err(|error| {
        let remedy =
            "build it with `cargo build --release -p penstock-kqtime-preload`, or name it with --preload";
        Error::Usage(format!("{}: {error}; {remedy}", path.display()))
    })
}

fn create(path: &Path) -> Result<BufWriter<File>, Error> {
    let file = File::create(path)
        .map_err(|error| Error::Usage(format!("--out {}: {error}; choose another file", path.display())))?;
    Ok(BufWriter::new(file))
}

/// Starts the program with the library and its end of the socket for reports.
fn start(options: &Options, library: &Path, reports: UnixStream) -> Result<Child, Error> {
    let machine =
        |error: &dyn std::fmt::Display| Error::Machine(format!("the program cannot be started: {error}"));
    fcntl(&reports, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| machine(&error))?;
    let inode = fstat(&reports).map_err(|error| machine(&error))?.st_ino;
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    // Ctrl-C reaches the program too. This process ends after it, with the table complete.
    #[allow(unsafe_code, reason = "nix has no safe form; to ignore a signal runs no code of ours")]
    unsafe { signal(Signal::SIGINT, SigHandler::SigIgn) }.map_err(|error| machine(&error))?;
    let (program, arguments) = options.command.split_first().expect("the command line has a program");
    let mut command = Command::new(program);
    command.args(arguments);
    command.env("LD_PRELOAD", preload);
    command.env(FD_VARIABLE, reports.as_raw_fd().to_string());
    command.env(INODE_VARIABLE, inode.to_string());
    command.env(INTERVAL_VARIABLE, options.interval.as_nanos().to_string());
    restore_interrupts(&mut command);
    command.spawn().map_err(|error| {
        Error::Usage(format!("{}: {error}; give the path of a program", Path::new(program).display()))
    })
}

/// The program handles Ctrl-C as it would alone.
fn restore_interrupts(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let restore = || {
        #[allow(unsafe_code, reason = "nix has no safe form; the default action runs no code of ours")]
        // SAFETY: signal(2) is async-signal-safe.
        unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }?;
        Ok(())
    };
    #[allow(unsafe_code, reason = "std offers no safe way between fork and exec")]
    // SAFETY: the closure calls one async-signal-safe function and allocates nothing.
    unsafe {
        command.pre_exec(restore);
    }
}
