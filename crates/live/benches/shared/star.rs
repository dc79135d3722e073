//! An emulated network in which all pairs of hosts have the same round-trip time.

use penstock_testbed::Error;
use penstock_testbed::namespace::ip;
use penstock_testbed::site::Site;
use penstock_testbed::star::{Access, Edge, Edges};
use penstock_units::Duration;

/// Opens a network of these hosts, without loss.
pub(crate) fn open(hosts: &[Access], rtt: Duration) -> Result<Site, Error> {
    let mut edges = Edges::default();
    for from in 0..hosts.len() {
        for to in (0..hosts.len()).filter(|to| *to != from) {
            edges.between.insert((from, to), Edge { delay: rtt / 2, loss: 0.0 });
        }
    }
    let site = Site::open(hosts, edges, &[("tcp_no_metrics_save", "1")], None)?;
    for host in 0..hosts.len() {
        site.enter(host);
        ip("link set lo up")?;
    }
    Ok(site)
}
