//! A virtual Ethernet link of Linux. It has a real MTU, but no delay and no rate limit.

use crate::Error;
use crate::namespace::{Namespace, ip};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

const PORT: &str = "veth0";

/// Creates an interface in each namespace, connects both, and returns their addresses. The calling thread is in the
/// second namespace afterwards. The link does not split TCP segments larger than the MTU, as with segmentation offload
/// in a network card.
pub fn join(nodes: [&Namespace; 2], mtu: u32) -> Result<[Ipv4Addr; 2], Error> {
    let addresses = [1, 2].map(|host| Ipv4Addr::new(10, 78, 0, host));
    let other = format!("/proc/{}/fd/{}", std::process::id(), nodes[1].file().as_raw_fd());
    nodes[0].enter();
    ip(&format!("link add {PORT} type veth peer name {PORT} netns {other}"))?;
    for (node, address) in nodes.into_iter().zip(addresses) {
        node.enter();
        ip(&format!("link set {PORT} mtu {mtu} up"))?;
        ip(&format!("addr add {address}/24 dev {PORT}"))?;
    }
    Ok(addresses)
}
