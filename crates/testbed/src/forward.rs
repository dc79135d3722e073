//! Forwards packets between devices over emulated links.

use crate::clock::Clock;
use crate::lateness::Lateness;
use crate::link::{Counts, Link};
use crate::tun::{Packet, Tun};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use penstock_units::{Bytes, Duration};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// One direction of a link between two devices.
#[derive(Debug)]
pub struct Wire {
    /// Index of the sending device.
    pub from: usize,
    /// Index of the receiving device.
    pub to: usize,
    /// The emulated link.
    pub link: Link<Packet>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// Lateness of packets: the time from the planned arrival at the kernel to the real one.
    pub lateness: Lateness,
    /// Packet counts of each wire [packet].
    pub counts: Vec<Counts>,
}

const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of packets to read from one device before the next device [packet].
const BATCH: usize = 64;

/// Forwards packets until `stop` is set. Before a packet is due, the loop spins for at most `spin`.
pub fn forward(
    clock: Clock,
    cables: &[Tun],
    mut wires: Vec<Wire>,
    spin: Duration,
    stop: &AtomicBool,
) -> io::Result<Report> {
    // By default, Linux delays the wake-up of a thread by up to 50 us.
    set_timerslack(1)?;
    let mut lateness = Lateness::default();
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        for wire in &mut wires {
            while let Some((due, packet)) = wire.link.poll(now) {
                cables[wire.to].write(&packet)?;
                lateness.add(clock.now().since(due));
            }
        }
        let wake = wires.iter().filter_map(|wire| wire.link.poll_timeout()).min();
        let pause = wake.map_or(MAX_PAUSE, |wake| wake.since(clock.now()).min(MAX_PAUSE));
        for cable in readable(cables, pause.saturating_sub(spin))? {
            for _ in 0..BATCH {
                let Some(packet) = cables[cable].read()? else { break };
                // When an interface comes up, the kernel also sends packets other than IPv4.
                if packet.first().is_none_or(|byte| byte >> 4 != 4) {
                    continue;
                }
                if let Some(wire) = wires.iter_mut().find(|wire| wire.from == cable) {
                    wire.link.offer(clock.now(), Bytes::new(packet.len() as u64), packet);
                }
            }
        }
    }
    Ok(Report { lateness, counts: wires.iter().map(|wire| wire.link.counts()).collect() })
}

/// Waits until a device or socket is readable, for at most `pause`. Returns the indices of the readable ones.
pub(crate) fn readable<F: AsFd>(files: &[F], pause: Duration) -> io::Result<Vec<usize>> {
    let mut fds: Vec<_> = files.iter().map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)).collect();
    match ppoll(&mut fds, Some(pause.into()), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok((0..files.len()).filter(|file| fds[*file].any() == Some(true)).collect())
}
