//! The loop that moves packets from cable to cable, each through its link.

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

/// A link between two cables, one way.
#[derive(Debug)]
pub struct Wire {
    /// Whose packets it takes: a place in the list of cables.
    pub from: usize,
    /// Where they arrive.
    pub to: usize,
    /// What happens to them between.
    pub link: Link<Packet>,
}

/// How it went.
#[derive(Debug)]
pub struct Report {
    /// From when a packet was due to when it was handed to the kernel.
    pub lateness: Lateness,
    /// What became of the packets of each wire.
    pub counts: Vec<Counts>,
}

/// How often the loop looks whether it is to stop, at least.
const PATIENCE: Duration = Duration::from_millis(100);
/// Packets read from one cable before the others get their turn [packet].
const BATCH: usize = 64;

/// Forwards until `stop`. For the last `spin` before a packet is due it waits busily instead of sleeping.
pub fn forward(
    clock: Clock,
    cables: &[Tun],
    mut wires: Vec<Wire>,
    spin: Duration,
    stop: &AtomicBool,
) -> io::Result<Report> {
    // Linux lets ordinary threads sleep 50 us too long to save wake-ups.
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
        let pause = wake.map_or(PATIENCE, |wake| wake.since(clock.now()).min(PATIENCE));
        for cable in readable(cables, pause.saturating_sub(spin))? {
            for _ in 0..BATCH {
                let Some(packet) = cables[cable].read()? else { break };
                // A kernel says more than IPv4 into an interface that comes up.
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

/// Cables that have packets, as soon as there is one; none after `pause`.
pub(crate) fn readable(cables: &[Tun], pause: Duration) -> io::Result<Vec<usize>> {
    let mut fds: Vec<_> = cables.iter().map(|cable| PollFd::new(cable.as_fd(), PollFlags::POLLIN)).collect();
    match ppoll(&mut fds, Some(pause.into()), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok((0..cables.len()).filter(|cable| fds[*cable].any() == Some(true)).collect())
}
