//! Two nodes in network namespaces, with a link in each direction.

use crate::Error;
use crate::clock::Clock;
use crate::error::machine;
use crate::forward::{Report, Wire, forward};
use crate::link::{Link, LinkConfig};
use crate::namespace::{Namespace, ip, isolate, sysctl};
use crate::tun::{MTU, Tun, drops};
use penstock_units::{Duration, Seed};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

const CABLE: &str = "cable0";
/// Queue length of a device [packet]. The queue is long enough that it never overflows before the loop reads the
/// packets.
const CABLE_QUEUE: usize = 20_000;

/// Two nodes with a running link.
#[derive(Debug)]
pub struct Pair {
    /// Clock of the run.
    pub clock: Clock,
    nodes: [Namespace; 2],
    stop: Arc<AtomicBool>,
    forwarder: JoinHandle<std::io::Result<Report>>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Parted {
    /// Result of the link.
    pub report: Report,
    /// Packets that the devices dropped before the loop read them [packet]. A valid run has 0.
    pub unseen: u64,
}

impl Pair {
    /// Creates both nodes and connects them with `link`. `seed` seeds the losses, which are independent in each
    /// direction. `settings` are values of `/proc/sys/net/ipv4` for both nodes. The process must have only the
    /// calling thread. This thread is in node 0 afterwards. Returns an error if the machine does not allow this.
    pub fn join(
        link: LinkConfig,
        seed: Seed,
        settings: &[(&str, &str)],
        spin: Duration,
    ) -> Result<Pair, Error> {
        isolate()?;
        let (first, first_cable) = node(0, settings)?;
        let (second, second_cable) = node(1, settings)?;
        let clock = Clock::start();
        let wires = [(0, 1, "0/loss"), (1, 0, "1/loss")].map(|(from, to, name)| Wire {
            from,
            to,
            link: Link::new(link, seed.stream(name)),
        });
        let cables = [first_cable, second_cable];
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let forwarder = spawn(move || forward(clock, &cables, wires.into(), spin, &ended));
        first.enter();
        Ok(Pair { clock, nodes: [first, second], stop, forwarder })
    }

    /// Moves the calling thread to `node`. Sockets that it creates later belong to this node.
    pub fn enter(&self, node: usize) {
        self.nodes[node].enter();
    }

    /// IPv4 address of `node`.
    pub fn address(&self, node: usize) -> Ipv4Addr {
        address(node)
    }

    /// Stops the link.
    pub fn part(self) -> Result<Parted, Error> {
        let mut unseen = 0;
        for node in &self.nodes {
            node.enter();
            unseen += drops(CABLE)?;
        }
        self.stop.store(true, Ordering::Relaxed);
        let report = self.forwarder.join().expect("what went wrong was said by the thread");
        let report = report.map_err(|error| machine!("packets could not be forwarded: {error}"))?;
        Ok(Parted { report, unseen })
    }
}

/// Creates a node: a network namespace, which the calling thread enters, and its device.
fn node(place: usize, settings: &[(&str, &str)]) -> Result<(Namespace, Tun), Error> {
    let namespace = Namespace::create()?;
    let cable = Tun::open(CABLE)?;
    for (name, value) in settings {
        sysctl(name, value)?;
    }
    ip(&format!("link set {CABLE} mtu {MTU} txqueuelen {CABLE_QUEUE} up"))?;
    ip(&format!("addr add {}/24 dev {CABLE}", address(place)))?;
    Ok((namespace, cable))
}

fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 1 + node as u8)
}
