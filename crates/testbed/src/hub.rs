//! Forwards packets between the devices of many hosts over a [`Star`].

use crate::clock::Clock;
use crate::flow::{Departures, Flow, Segment};
use crate::forward::readable;
use crate::lateness::Lateness;
use crate::star::{PacketCounts, Star};
use crate::tun::{Packet, Tun};
use nix::sys::prctl::set_timerslack;
use penstock_units::{Bytes, Duration};
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of packets to read from one device before the next device [packet].
const BATCH: usize = 16;
/// Number of hosts that share the first three bytes of their addresses [1].
const BLOCK: usize = 250;

/// The result of a run.
#[derive(Debug)]
pub struct HubReport {
    /// Lateness of packets: the time from the planned arrival at the kernel to the real one.
    pub lateness: Lateness,
    /// Longest wait of a packet in the emulated queue of a sending link. Packets should wait in the kernel's queue
    /// instead.
    pub longest_wait: Duration,
    /// Packet counts of each host [packet].
    pub packet_counts: Vec<PacketCounts>,
    /// Departure times of bytes, for each direction of each TCP connection.
    pub flows: BTreeMap<Flow, Departures>,
}

/// IPv4 address of a host.
pub fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, (host / BLOCK) as u8, 1 + (host % BLOCK) as u8)
}

/// The host with the packet's destination address, if it is one of `hosts`.
fn host_of(packet: &[u8], hosts: usize) -> Option<usize> {
    let [10, 77, block, place] = *packet.get(16..20)? else { return None };
    let host = usize::from(block) * BLOCK + usize::from(place).checked_sub(1)?;
    (usize::from(place) <= BLOCK && host < hosts && packet[0] >> 4 == 4).then_some(host)
}

/// Forwards packets until `stop` is set.
pub fn serve(
    clock: Clock,
    cables: &[Tun],
    mut star: Star<Packet>,
    stop: &AtomicBool,
) -> io::Result<HubReport> {
    // By default, Linux delays the wake-up of a thread by up to 50 us.
    set_timerslack(1)?;
    let mut lateness = Lateness::default();
    let mut longest_wait = Duration::ZERO;
    let mut flows: BTreeMap<Flow, Departures> = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        while let Some((due, to, packet)) = star.poll(clock.now()) {
            cables[to].write(&packet)?;
            lateness.add(clock.now().since(due));
        }
        let pause = star.poll_timeout().map_or(MAX_PAUSE, |wake| wake.since(clock.now()).min(MAX_PAUSE));
        for from in readable(cables, pause)? {
            for _ in 0..BATCH {
                let Some(packet) = cables[from].read()? else { break };
                let Some(to) = host_of(&packet, cables.len()) else { continue };
                let now = clock.now();
                longest_wait = longest_wait.max(star.waits(now, from));
                let segment = Segment::of(&packet);
                let left = star.offer(now, from, to, Bytes::new(packet.len() as u64), packet);
                if let Some(segment) = segment {
                    flows.entry(segment.flow).or_default().add(&segment, left);
                }
            }
        }
    }
    Ok(HubReport { lateness, longest_wait, packet_counts: star.packet_counts().to_vec(), flows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(to: Ipv4Addr) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&to.octets());
        packet
    }

    #[test]
    fn each_host_has_its_own_address() {
        for host in [0, 1, 249, 250, 251, 999] {
            assert_eq!(host_of(&packet(address(host)), 1000), Some(host));
        }
        assert_eq!(address(250), Ipv4Addr::new(10, 77, 1, 1));
    }

    #[test]
    fn packets_to_unknown_addresses_are_ignored() {
        for to in [[10, 77, 0, 0], [10, 77, 0, 4], [10, 77, 0, 255], [10, 78, 0, 1], [224, 0, 0, 22]] {
            assert_eq!(host_of(&packet(Ipv4Addr::from(to)), 3), None, "{to:?}");
        }
        let mut newer = packet(address(0));
        newer[0] = 0x60;
        assert_eq!((host_of(&newer, 3), host_of(&newer[..19], 3)), (None, None));
    }
}
