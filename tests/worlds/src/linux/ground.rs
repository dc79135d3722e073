//! Locations of nodes: two network namespaces joined by a veth pair, or one loopback.

use penstock_testbed::Error;
use penstock_testbed::namespace::{Namespace, ip};
use std::net::{IpAddr, Ipv4Addr};

/// One or two locations.
#[derive(Debug)]
pub enum Ground {
    /// All nodes on 127.0.0.1.
    Loopback,
    /// Nodes alternate between two namespaces, so that every hop crosses the veth pair.
    Namespaces([Namespace; 2]),
}

impl Ground {
    /// Creates the second namespace and the pair. It requires root in its own user and network namespaces. On failure
    /// the caller remains in its namespace.
    pub fn namespaces() -> Result<Ground, Error> {
        let first = Namespace::here()?;
        let ground = Ground::Namespaces([first, Namespace::create()?]);
        let made = (|| {
            ip("link add veth1 type veth peer name veth0")?;
            ip(&format!("link set veth0 netns {}", std::process::id()))?;
            for node in [1, 0] {
                ground.enter(node);
                ip(&format!("addr add {}/24 dev veth{node}", address(node)))?;
                ip(&format!("link set veth{node} up"))?;
            }
            Ok(())
        })();
        ground.enter(0);
        made.map(|()| ground)
    }

    /// Later sockets of the calling thread are in the namespace of `node`.
    pub fn enter(&self, node: usize) {
        if let Ground::Namespaces(spaces) = self {
            spaces[node % 2].enter();
        }
    }

    /// The address of `node`.
    pub fn address(&self, node: usize) -> IpAddr {
        match self {
            Ground::Loopback => Ipv4Addr::LOCALHOST.into(),
            Ground::Namespaces(_) => address(node).into(),
        }
    }
}

fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 1 + (node % 2) as u8)
}
