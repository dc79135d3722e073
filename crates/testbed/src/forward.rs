//! The loop that forwards packets between devices, each through its link.

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

/// A link between two devices, in one direction.
#[derive(Debug)]
pub struct Wire {
    /// The sending device, as a place in the list.
    pub from: usize,
    /// The receiving device.
    pub to: usize,
    /// The link.
    pub link: Link<Packet>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The delay from a packet's due time to its delivery to the kernel.
    pub lateness: Lateness,
    /// The packet counts of each wire.
    pub counts: Vec<Counts>,
}

/// The longest interval between two checks of `stop`.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Packets read from one device before the others are served [packet].
const BATCH: usize = 64;

/// Forwards until `stop`. It waits busily during the last `spin` before a packet is due.
pub fn forward(
    clock: Clock,
    cables: &[Tun],
    mut wires: Vec<Wire>,
    spin: Duration,
    stop: &AtomicBool,
) -> io::Result<Report> {
    // By default Linux delays wake-ups of threads by up to 50 us.
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
                // A kernel also sends other packets than IPv4 when an interface comes up.
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

/// Waits for readable devices, for at most `pause`.
pub(crate) fn readable(cables: &[Tun], pause: Duration) -> io::Result<Vec<usize>> {
    let mut fds: Vec<_> = cables.iter().map(|cable| PollFd::new(cable.as_fd(), PollFlags::POLLIN)).collect();
    match ppoll(&mut fds, Some(pause.into()), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok((0..cables.len()).filter(|cable| fds[*cable].any() == Some(true)).collect())
}
