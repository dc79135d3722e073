//! Many hosts in network namespaces, connected by the emulated network of a [`Star`].
//!
//! The kernel of a host has the queue before the host's sending link. A token bucket (`tc qdisc tbf`) limits its rate.
//! Packets in this queue count as unsent data of their socket, so TCP Small Queues works as with a real interface. With
//! only a TUN device, a packet would count as sent immediately. The [`Star`] then computes the exact time of each
//! packet.

use crate::Error;
use crate::clock::Clock;
use crate::error::machine;
use crate::hub::{HubReport, address, serve};
use crate::namespace::{Namespace, ip, isolate, sysctl, tc};
use crate::star::{Access, Edges, Star};
use crate::tun::{MTU, Tun, drops};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

const CABLE: &str = "cable0";
/// Capacity of the kernel's queue, the default of Linux [packet] (`txqueuelen`).
const QUEUE_PACKETS: usize = 1000;
/// Queue length of a device [packet].
const CABLE_QUEUE: usize = 1000;
/// Burst of the token bucket [packet]. With a burst of one packet, the rate would fall whenever a kernel timer is late.
const BURST_PACKETS: usize = 2;

/// Hosts with a running network.
#[derive(Debug)]
pub struct Site {
    /// Clock of the run.
    pub clock: Clock,
    hosts: Vec<Namespace>,
    stop: Arc<AtomicBool>,
    hub: JoinHandle<std::io::Result<HubReport>>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Closed {
    /// Result of the network.
    pub report: HubReport,
    /// Packets that the hosts' queues or devices dropped [packet]. A valid run has 0.
    pub unseen: u64,
}

impl Site {
    /// Creates and connects all hosts. `settings` are values of `/proc/sys/net/ipv4` for every host.
    /// `initial_window` is the congestion window of new connections [segment]; `None` keeps the kernel's.
    ///
    /// The process must have only the calling thread. This thread is in the last host afterwards. Returns an error if
    /// the machine does not allow this.
    pub fn open(
        hosts: &[Access],
        edges: Edges,
        settings: &[(&str, &str)],
        initial_window: Option<u32>,
    ) -> Result<Site, Error> {
        isolate()?;
        let (mut places, mut cables) = (Vec::new(), Vec::new());
        for (number, access) in hosts.iter().enumerate() {
            let (place, cable) = host(number, access, settings)?;
            if let Some(segments) = initial_window {
                ip(&route(number, segments))?;
            }
            places.push(place);
            cables.push(cable);
        }
        let (clock, star) = (Clock::start(), Star::new(hosts, edges));
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let hub = Builder::new().name("hub".to_owned());
        let hub =
            hub.spawn(move || serve(clock, &cables, star, &ended)).map_err(|error| machine!("{error}"))?;
        Ok(Site { clock, hosts: places, stop, hub })
    }

    /// Moves the calling thread to a host. Sockets that it creates later belong to this host.
    pub fn enter(&self, host: usize) {
        self.hosts[host].enter();
    }

    /// IPv4 address of a host.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        address(host)
    }

    /// Stops the network.
    pub fn close(self) -> Result<Closed, Error> {
        let mut unseen = 0;
        for host in &self.hosts {
            host.enter();
            unseen += drops(CABLE)? + queue_drops(&tc(&format!("-s qdisc show dev {CABLE}"))?)?;
        }
        self.stop.store(true, Ordering::Relaxed);
        let report = self.hub.join().expect("what went wrong was said by the thread");
        let report = report.map_err(|error| machine!("packets could not be moved: {error}"))?;
        Ok(Closed { report, unseen })
    }
}

/// Creates a host: a network namespace, which the calling thread enters, and its device.
fn host(number: usize, access: &Access, settings: &[(&str, &str)]) -> Result<(Namespace, Tun), Error> {
    let namespace = Namespace::create()?;
    let cable = Tun::open(CABLE)?;
    for (name, value) in settings {
        sysctl(name, value)?;
    }
    ip(&format!("link set {CABLE} mtu {MTU} txqueuelen {CABLE_QUEUE} up"))?;
    ip(&format!("addr add {}/16 dev {CABLE}", address(number)))?;
    let (bits, burst) = (access.up.bytes_per_sec() * 8, BURST_PACKETS * MTU);
    let queue = QUEUE_PACKETS * MTU;
    tc(&format!("qdisc add dev {CABLE} root tbf rate {bits}bit burst {burst} limit {queue}"))
        .map_err(|error| machine!("{error}; this needs the kernel's token bucket, sch_tbf"))?;
    Ok((namespace, cable))
}

/// The arguments of `ip` for a route to all hosts, whose new connections begin with a window of `segments`.
fn route(number: usize, segments: u32) -> String {
    let (own, network) = (address(number), address(0));
    let [one, two, ..] = network.octets();
    format!(
        "route change {one}.{two}.0.0/16 dev {CABLE} proto kernel scope link src {own} initcwnd {segments}"
    )
}

/// Number of packets that a queue dropped, from the output of `tc -s` [packet].
fn queue_drops(said: &str) -> Result<u64, Error> {
    let mut words = said.split([' ', ',', '(', '\n']).skip_while(|word| *word != "dropped");
    let drops = words.nth(1).and_then(|number| number.parse().ok());
    drops.ok_or_else(|| machine!("the output of tc has no number of dropped packets: {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_has_the_initial_window() {
        let of_host = route(2, 3);
        let network = Ipv4Addr::from_bits(address(2).to_bits() & 0xffff_0000);
        assert!(of_host.starts_with(&format!("route change {network}/16 dev cable0 ")), "{of_host}");
        assert!(of_host.ends_with(&format!(" src {} initcwnd 3", address(2))), "{of_host}");
    }

    #[test]
    fn dropped_packets_are_parsed_from_the_output_of_tc() {
        let output = "qdisc tbf 8001: root refcnt 2 rate 4Mbit burst 3000b lat 2.9s \n Sent 0 bytes 0 pkt (dropped 17, \
                    overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n";
        assert_eq!(queue_drops(output), Ok(17));
        assert!(queue_drops("qdisc noqueue").is_err());
    }
}
