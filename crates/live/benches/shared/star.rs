//! An emulated network in which all pairs of hosts have the same round-trip time.

use penstock_testbed::Error;
use penstock_testbed::namespace::ip;
use penstock_testbed::site::Site;
use penstock_testbed::star::{Access, Edge, Edges};
use penstock_units::Duration;
use std::fs;

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

/// The bytes that the interfaces of this thread's namespace have sent [B], without the loopback interface.
pub(crate) fn sent_bytes() -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/dev").expect("Linux has this file");
    let rows = table.lines().filter_map(|line| line.trim().split_once(':')).filter(|(name, _)| *name != "lo");
    rows.filter_map(|(_, counts)| counts.split_whitespace().nth(8)?.parse::<u64>().ok()).sum()
}
