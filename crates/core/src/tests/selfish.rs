//! Tests a client that acknowledges cells before they arrive, and the countermeasures of its exit.

use super::cell::TestCell;
use super::util::Net;
use crate::cell::Message;
use crate::edge_control::{DynamicConfig, EdgeControlConfig, WindowsConfig};
use crate::{CircuitIndex, RelayConfig, Violation};
use penstock_units::Duration;

fn windows(circuit_window: u32, early_sendmes: u32) -> EdgeControlConfig {
    EdgeControlConfig::Windows(WindowsConfig { circuit_window, early_sendmes, ..WindowsConfig::default() })
}

fn dynamic() -> EdgeControlConfig {
    EdgeControlConfig::Dynamic(DynamicConfig::default())
}

/// One long download over three relays. Only the window limits it.
struct Download {
    net: Net,
    /// The circuit's index at the exit, node 3.
    exit: CircuitIndex,
    transfer: usize,
}

impl Download {
    fn new(edge_control: EdgeControlConfig, authenticated_sendmes: bool, early_sendmes: u32) -> Self {
        let relay = RelayConfig { edge_control, authenticated_sendmes, ..RelayConfig::default() };
        let mut net = Net::path(3, &relay);
        let edge_control = windows(1000, early_sendmes);
        net.configure(0, RelayConfig { edge_control, ..RelayConfig::default() });
        net.link.latency = Duration::from_millis(50);
        let circuit = net.build(0, &[1, 2, 3]);
        let transfer = net.transfer(0, circuit, 1 << 30, 0);
        let exit = net.circuit_at(0, circuit, 3).expect("the circuit is built");
        Download { net, exit, transfer }
    }

    /// The exit's window [cell].
    fn window(&self) -> u64 {
        self.net.nodes[3].relay.circuit_window(self.exit).expect("the circuit is open").0.get()
    }

    fn outstanding(&self) -> u64 {
        let [client, exit] = [0, 3].map(|node| self.net.nodes[node].relay.counters());
        exit.data_packaged - client.data_delivered
    }

    fn received(&self) -> u64 {
        self.net.at(self.transfer).download.received
    }

    fn closed_for(&self) -> Vec<Option<Violation>> {
        self.net.nodes[3].closed.iter().map(|(_, violation)| *violation).collect()
    }
}

/// A selfish client enlarges a dynamic window (DefenestraTor, footnote 5). The measurement of half a minute begins
/// after the start of the download.
#[test]
fn a_selfish_client_inflates_a_dynamic_window() {
    let [honest, selfish] = [0, 200].map(|early| {
        let mut download = Download::new(dynamic(), false, early);
        download.net.drive_for(Duration::from_secs(5));
        let windows = (0..250).map(|_| {
            download.net.drive_for(Duration::from_millis(100));
            download.window()
        });
        let mean = windows.sum::<u64>() / 250;
        assert_eq!(download.closed_for(), []);
        (mean, download.received())
    });
    assert!(selfish.0 * 4 > honest.0 * 5, "mean windows of {} and {} cells", selfish.0, honest.0);
    assert!(selfish.1 > 2 * honest.1, "{} and {} bytes", selfish.1, honest.1);
}

#[test]
fn with_fixed_windows_a_selfish_client_gains_only_its_early_cells() {
    let (window, lead) = (200, 100);
    let [honest, selfish] = [0, lead].map(|early| {
        let mut download = Download::new(windows(window, 0), false, early);
        let mut most = 0;
        for _ in 0..60_000 {
            download.net.step();
            most = most.max(download.outstanding());
        }
        let before = download.received();
        download.net.drive_for(Duration::from_secs(20));
        assert_eq!(download.closed_for(), []);
        assert_eq!(download.window(), window.into());
        (most, (download.received() - before) as f64)
    });
    assert_eq!([honest.0, selfish.0], [window.into(), (window + lead).into()]);
    let gain = selfish.1 / honest.1;
    assert!(gain <= 1.05 * f64::from(window + lead) / f64::from(window), "{gain}");
}

#[test]
fn acknowledging_cells_that_were_not_sent_closes_the_circuit() {
    let mut download = Download::new(dynamic(), false, 900);
    download.net.drive_for(Duration::from_secs(30));
    assert_eq!(download.closed_for(), [Some(Violation::UnexpectedSendme)]);
}

/// Proposal 289: an exit that requires digests closes the selfish client's circuit and no other circuit.
#[test]
fn authenticated_sendmes_close_the_circuit_of_a_selfish_client_and_no_other() {
    for edge_control in [dynamic(), windows(1000, 0)] {
        for (early, expected) in [(0, vec![]), (1, vec![Some(Violation::ForgedSendme)])] {
            let mut download = Download::new(edge_control.clone(), true, early);
            download.net.drive_for(Duration::from_secs(30));
            assert_eq!(download.closed_for(), expected, "{early} cells early");
        }
    }
}

/// Only a relay that requires digests rejects a SENDME without a digest. Clients before Tor 0.4.1 send no digests.
#[test]
fn a_sendme_without_a_digest_is_rejected_only_if_authentication_is_on() {
    for (authenticated, expected) in [(false, vec![]), (true, vec![Some(Violation::ForgedSendme)])] {
        let mut download = Download::new(dynamic(), authenticated, 0);
        let mut replaced = false;
        while !replaced && download.net.step() {
            let is_circuits =
                |cell: &&mut TestCell| matches!(cell.message(), Some((None, Message::Sendme { .. })));
            if let Some(cell) = download.net.in_transit(0, 1).find(is_circuits) {
                cell.replace(None, Some(Message::Sendme { proof: None, marked: 0 }));
                replaced = true;
            }
        }
        download.net.drive_for(Duration::from_millis(400));
        assert_eq!(download.closed_for(), expected);
    }
}
