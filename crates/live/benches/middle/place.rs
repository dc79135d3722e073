//! Places of the relay and the load: processors and network namespaces.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use penstock_testbed::Error;
use penstock_testbed::namespace::{Namespace, ip, sysctl};
use penstock_testbed::veth;
use std::net::Ipv4Addr;
use std::process::{Child, Command};

/// The namespaces and processors of the relay and the load, and the network between them.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) mtu: u32,
    pub(crate) load: Namespace,
    pub(crate) relay: Namespace,
    pub(crate) load_at: Ipv4Addr,
    pub(crate) relay_at: Ipv4Addr,
    /// The load's processor, then the relay's.
    processors: [usize; 2],
}

impl Place {
    pub(crate) fn loopback(processors: [usize; 2]) -> Result<Self, Error> {
        let relay = Namespace::create()?;
        ready()?;
        let (load_at, relay_at) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
        let load = Namespace::here()?;
        Ok(Place { name: "loopback", mtu: 65_536, load, relay, load_at, relay_at, processors })
    }

    /// Two network namespaces with a virtual Ethernet between them, which segments and merges packets like a network
    /// card.
    pub(crate) fn veth(processors: [usize; 2]) -> Result<Self, Error> {
        let mtu = 1500;
        let [load, relay] = [(); 2].map(|()| Namespace::create().and_then(|it| ready().map(|()| it)));
        let (load, relay) = (load?, relay?);
        let [load_at, relay_at] = veth::join([&load, &relay], mtu)?;
        Ok(Place { name: "veth", mtu, load, relay, load_at, relay_at, processors })
    }

    /// Starts a program in the relay's namespace, on the relay's processor.
    pub(crate) fn start(&self, command: &mut Command) -> Child {
        std::thread::scope(|scope| {
            let start = || {
                self.relay.enter();
                pin(self.processors[1]);
                command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
            };
            scope.spawn(start).join().expect("the thread's panic is printed")
        })
    }

    /// Moves the calling thread to the load's namespace and processor.
    pub(crate) fn enter(&self) {
        self.load.enter();
        pin(self.processors[0]);
    }
}

/// Prepares a network namespace. New connections must not use TCP metrics of earlier connections.
fn ready() -> Result<(), Error> {
    ip("link set lo up")?;
    sysctl("tcp_no_metrics_save", "1")
}

/// The first and the last processor that this process may use: one for the load, one for the relay.
pub(crate) fn processors() -> [usize; 2] {
    let all = sched_getaffinity(Pid::from_raw(0)).expect("Linux reports the processors");
    let mut all = (0..CpuSet::count()).filter(|processor| all.is_set(*processor).unwrap_or(false));
    let first = all.next().expect("the process has a processor");
    [first, all.next_back().unwrap_or(first)]
}

fn pin(processor: usize) {
    let mut one = CpuSet::new();
    one.set(processor).expect("the processor exists");
    sched_setaffinity(Pid::from_raw(0), &one).expect("the process may use the processor");
}
