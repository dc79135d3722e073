//! Fixed SENDME windows, as in stock Tor.

use super::{Backlog, EdgeControl, Ends, Signals, StreamControl, StreamFeedback};
use crate::error::Violation;
use penstock_units::{Bytes, Cells, Instant};

/// The sizes of fixed SENDME windows [cell].
///
/// Source: tor-spec §7.4; DefenestraTor §3.1. C tor `CIRCWINDOW_START`, `CIRCWINDOW_INCREMENT`, `STREAMWINDOW_START`,
/// `STREAMWINDOW_INCREMENT`; the consensus parameter is `circwindow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowsConfig {
    /// Initial window of a circuit [cell]. Stock Tor uses 1000; the minimum that interoperates is 100 (50 KiB).
    pub circuit_window: u32,
    /// Initial window of a stream [cell]; `None` if only the circuit has a window. Both ends must agree about `None`:
    /// such an end sends no stream SENDMEs, and ignores received ones.
    pub stream_window: Option<u32>,
    /// Whether this end sends the first SENDME one cell late, as clients before 0.2.1.20 did.
    pub sendme_bug_101: bool,
    /// The lead: how many cells this end acknowledges before they arrive [cell]; 0 is a correct receiver. A larger
    /// value models a selfish receiver that wants a larger window. The first SENDME is on time. Each later SENDME
    /// acknowledges twice the cells that arrived since the previous SENDME, until the lead is reached. The sender
    /// cannot detect early SENDMEs if it has already sent the acknowledged cells.
    ///
    /// Source: DefenestraTor §4.1, footnote 5, which only says that this attack is possible. A constant lead would
    /// shorten all round trips equally. Eq. 1 only compares round trips, so the lead must grow.
    pub early_sendmes: u32,
    /// Whether the windows apply to circuits with hop control at every hop. Such a circuit has no windows only if both
    /// ends agree.
    pub ends: Ends,
}

impl Default for WindowsConfig {
    fn default() -> Self {
        WindowsConfig::STOCK
    }
}

impl WindowsConfig {
    /// The window sizes of stock Tor.
    pub const STOCK: WindowsConfig = WindowsConfig {
        circuit_window: CIRCUIT.start,
        stream_window: Some(STREAM.start),
        sendme_bug_101: false,
        early_sendmes: 0,
        ends: Ends::Enforced,
    };
    /// The allowed range of `circuit_window` (C tor `circwindow`) [cell].
    pub const CIRCUIT_RANGE: (u32, u32) = (CIRCUIT.increment, CIRCUIT.start);
    /// The allowed range of `stream_window` [cell].
    pub const STREAM_RANGE: (u32, u32) = (STREAM.increment, STREAM.start);
    /// The allowed range of `early_sendmes` [cell].
    pub const EARLY_RANGE: (u32, u32) = (0, CIRCUIT.start - CIRCUIT.increment);
}

/// The window constants of circuits or of streams [cell].
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) start: u32,
    pub(super) increment: u32,
}

pub(super) const CIRCUIT: Layer = Layer { start: 1000, increment: 100 };
pub(super) const STREAM: Layer = Layer { start: 500, increment: 50 };

/// The receiving end of a window: counts the cells that may still arrive, and decides when a SENDME is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliverWindow {
    layer: &'static Layer,
    left: u32,
    bug_101: bool,
    /// The maximum number of cells that are acknowledged before their arrival [cell].
    early: u32,
    /// The current number of cells that are acknowledged before their arrival [cell].
    ahead: u32,
}

impl DeliverWindow {
    fn new(layer: &'static Layer, bug_101: bool, early: u32) -> Self {
        DeliverWindow { layer, left: layer.start, bug_101, early, ahead: 0 }
    }

    pub(super) fn circuit(config: WindowsConfig) -> Self {
        DeliverWindow::new(&CIRCUIT, config.sendme_bug_101, config.early_sendmes)
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        self.left = self.left.checked_sub(1).ok_or(Violation::WindowExceeded)?;
        Ok(())
    }

    pub(super) fn on_deliver(&mut self) -> Result<bool, Violation> {
        self.deliver()?;
        Ok(self.take_sendme())
    }

    /// Whether a SENDME is due. The 101 bug tests "<" instead of "≤", so the first SENDME is one cell late.
    fn sendme_due(&self) -> bool {
        let due = self.layer.start - self.layer.increment + self.ahead;
        if self.bug_101 { self.left < due } else { self.left <= due }
    }

    fn take_sendme(&mut self) -> bool {
        let due = self.sendme_due();
        if due {
            self.left += self.layer.increment;
            self.ahead = (self.ahead + self.layer.increment / 2).min(self.early);
        }
        due
    }
}

#[derive(Clone, Copy, Debug)]
struct PackageWindow {
    layer: &'static Layer,
    initial: u32,
    left: u32,
}

impl PackageWindow {
    fn new(layer: &'static Layer, initial: u32) -> Self {
        PackageWindow { layer, initial, left: initial }
    }

    fn on_package(&mut self) {
        self.left = self.left.checked_sub(1).expect("the edge packages only while the window is above zero");
    }

    fn on_sendme(&mut self) -> Result<(), Violation> {
        let window = self.left + self.layer.increment;
        // This SENDME acknowledges cells that were never sent. It would increase the window beyond its initial size.
        if window > self.layer.start {
            return Err(Violation::UnexpectedSendme);
        }
        self.left = window;
        Ok(())
    }
}

/// The circuit window at one end: 1000 cells, and one SENDME for each 100 cells.
///
/// Source: tor-spec §7.4; DefenestraTor §3.1 and §4.1 (50 KiB windows). C tor `sendme.c`:
/// `sendme_note_circuit_data_packaged()`, `sendme_circuit_consider_sending()`. Deviation: none.
#[derive(Debug)]
pub struct CircuitWindow {
    package: PackageWindow,
    packaged: u32,
    deliver: DeliverWindow,
}

impl CircuitWindow {
    /// The package and deliver windows of one end of a new circuit.
    pub fn new(config: WindowsConfig) -> Self {
        CircuitWindow {
            package: PackageWindow::new(&CIRCUIT, config.circuit_window),
            packaged: 0,
            deliver: DeliverWindow::circuit(config),
        }
    }
}

impl EdgeControl for CircuitWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.package.left.into())
    }
    fn on_package(&mut self, _now: Instant, _signals: Signals) -> bool {
        self.package.on_package();
        self.packaged = (self.packaged + 1) % CIRCUIT.increment;
        self.packaged == 0
    }
    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        self.deliver.on_deliver()
    }
    fn on_sendme(&mut self, _now: Instant, _signals: Signals) -> Result<(), Violation> {
        self.package.on_sendme()
    }
    fn window(&self) -> Cells {
        Cells::new(self.package.initial.into())
    }
}

/// The stream window at one end: 500 cells, and one SENDME for each 50 cells.
///
/// Source: tor-spec §7.4. C tor `sendme_connection_edge_consider_sending()`, which sends no SENDME while more than ten
/// cells wait for the application. Deviation: none.
#[derive(Debug)]
pub struct StreamWindow {
    package: PackageWindow,
    deliver: DeliverWindow,
    buffered: Cells,
}

/// No stream SENDME is sent while more cells than this wait for the application [cell], as in C tor.
pub(super) const STREAM_BUFFERED_TOO_MUCH: u64 = 10;

impl StreamWindow {
    /// The package and deliver windows of one end of a new stream, with an initial window of `cells` [cell].
    pub fn new(config: WindowsConfig, cells: u32) -> Self {
        StreamWindow {
            package: PackageWindow::new(&STREAM, cells),
            deliver: DeliverWindow::new(&STREAM, config.sendme_bug_101, 0),
            buffered: Cells::ZERO,
        }
    }
}

impl StreamControl for StreamWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.package.left.into())
    }
    fn on_package(&mut self, _now: Instant, _bytes: Bytes) {
        self.package.on_package();
    }
    fn on_deliver(&mut self, _now: Instant, backlog: Backlog) -> Result<(), Violation> {
        self.buffered = backlog.cells;
        self.deliver.deliver()
    }
    fn on_drain(&mut self, _now: Instant, _drained: Bytes, backlog: Backlog) {
        self.buffered = backlog.cells;
    }
    fn take_feedback(&mut self) -> Option<StreamFeedback> {
        let due = self.buffered.get() <= STREAM_BUFFERED_TOO_MUCH && self.deliver.take_sendme();
        due.then_some(StreamFeedback::Sendme)
    }
    fn on_feedback(&mut self, _now: Instant, feedback: StreamFeedback) -> Result<(), Violation> {
        match feedback {
            StreamFeedback::Sendme => self.package.on_sendme(),
            StreamFeedback::Xoff | StreamFeedback::Xon(_) => Err(Violation::UnexpectedFlowControl),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T: Instant = Instant::ZERO;

    fn window(circuit_window: u32, sendme_bug_101: bool) -> CircuitWindow {
        CircuitWindow::new(WindowsConfig { circuit_window, sendme_bug_101, ..WindowsConfig::default() })
    }

    /// Sends up to `cells` cells from one end to the other and returns how many the window allowed.
    fn transfer(sender: &mut CircuitWindow, receiver: &mut CircuitWindow, cells: u32) -> u32 {
        for sent in 0..cells {
            if sender.package_window() == Cells::ZERO {
                return sent;
            }
            sender.on_package(T, Signals::default());
            if receiver.on_deliver(T).unwrap() {
                sender.on_sendme(T, Signals::default()).unwrap();
            }
        }
        cells
    }

    /// G-11: with the bug, a window of 100 stalls after exactly 100 cells. A window of 101 does not
    /// stall.
    #[test]
    fn a_window_of_100_deadlocks_with_the_101_bug() {
        assert_eq!(transfer(&mut window(100, false), &mut window(1000, true), 5000), 100);
        assert_eq!(transfer(&mut window(101, false), &mut window(1000, true), 5000), 5000);
        assert_eq!(transfer(&mut window(100, false), &mut window(1000, false), 5000), 5000);
    }

    #[test]
    fn the_bug_delays_only_the_first_sendme() {
        let mut receiver = window(1000, true);
        let due: Vec<u32> = (1..=401).filter(|_| receiver.on_deliver(T).unwrap()).collect();
        assert_eq!(due, [101, 201, 301, 401]);
        let mut stream =
            StreamWindow::new(WindowsConfig { sendme_bug_101: true, ..WindowsConfig::default() }, 500);
        let due: Vec<u32> = (1..=151)
            .filter(|_| {
                stream.on_deliver(T, Backlog::default()).unwrap();
                stream.take_feedback().is_some()
            })
            .collect();
        assert_eq!(due, [51, 101, 151]);
    }

    #[test]
    fn a_selfish_receiver_acknowledges_twice_as_fast_until_it_reaches_its_lead() {
        for (early_sendmes, expected) in [
            (0, [100, 200, 300, 400, 500]),
            (30, [100, 170, 270, 370, 470]),
            (120, [100, 150, 200, 280, 380]),
        ] {
            let config = WindowsConfig { early_sendmes, ..WindowsConfig::default() };
            let mut receiver = CircuitWindow::new(config);
            let due: Vec<u32> = (1..=500).filter(|_| receiver.on_deliver(T).unwrap()).take(5).collect();
            assert_eq!(due, expected, "{early_sendmes}");
        }
    }

    #[test]
    fn every_100th_cell_is_acknowledged() {
        let mut sender = window(550, false);
        let acknowledged: Vec<u32> = (1..=550).filter(|_| sender.on_package(T, Signals::default())).collect();
        assert_eq!(acknowledged, [100, 200, 300, 400, 500]);
    }

    #[test]
    fn an_unexpected_sendme_is_a_violation() {
        assert_eq!(window(1000, false).on_sendme(T, Signals::default()), Err(Violation::UnexpectedSendme));
    }

    #[test]
    fn a_peer_that_ignores_the_window_is_a_violation() {
        let mut receiver = DeliverWindow::circuit(WindowsConfig::default());
        for _ in 0..1000 {
            receiver.deliver().unwrap();
        }
        assert_eq!(receiver.deliver(), Err(Violation::WindowExceeded));
    }

    #[test]
    fn a_stream_sendme_waits_for_the_application() {
        let mut stream = StreamWindow::new(WindowsConfig::default(), 500);
        let backlog = |cells| Backlog { cells: Cells::new(cells), bytes: Bytes::new(498 * cells) };
        for cells in 1..=50 {
            stream.on_deliver(T, backlog(cells)).unwrap();
        }
        assert_eq!(stream.take_feedback(), None);
        stream.on_drain(T, Bytes::new(39 * 498), backlog(11));
        assert_eq!(stream.take_feedback(), None);
        stream.on_drain(T, Bytes::new(498), backlog(10));
        assert_eq!(stream.take_feedback(), Some(StreamFeedback::Sendme));
        assert_eq!(stream.take_feedback(), None);
    }

    #[test]
    fn a_stream_with_windows_rejects_an_xoff() {
        let mut stream = StreamWindow::new(WindowsConfig::default(), 500);
        for feedback in [StreamFeedback::Xoff, StreamFeedback::Xon(None)] {
            assert_eq!(stream.on_feedback(T, feedback), Err(Violation::UnexpectedFlowControl));
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Package,
        Deliver,
        Sendme,
    }

    proptest! {
        /// G-10, G-11: windows stay in range, unacknowledged cells never exceed the window, and the
        /// receiver sends a SENDME for each hundred cells.
        #[test]
        fn windows_keep_their_bounds(
            initial in 101u32..=1000,
            bug in any::<bool>(),
            operations in proptest::collection::vec(
                prop_oneof![Just(Operation::Package), Just(Operation::Deliver), Just(Operation::Sendme)], 0..6000),
        ) {
            let (mut sender, mut receiver) = (window(initial, false), window(1000, bug));
            let (mut sent, mut received, mut emitted, mut acknowledged) = (0u32, 0u32, 0u32, 0u32);
            for operation in operations {
                match operation {
                    Operation::Package if sender.package_window() > Cells::ZERO => {
                        sender.on_package(T, Signals::default());
                        sent += 1;
                    }
                    Operation::Deliver if received < sent => {
                        received += 1;
                        emitted += u32::from(receiver.on_deliver(T).unwrap());
                    }
                    Operation::Sendme if acknowledged < emitted => {
                        acknowledged += 1;
                        sender.on_sendme(T, Signals::default()).unwrap();
                    }
                    _ => {}
                }
                prop_assert!(sender.package_window().get() <= 1000);
                prop_assert!(sent - acknowledged * 100 <= initial);
                let due = if bug { received.saturating_sub(1) / 100 } else { received / 100 };
                prop_assert_eq!(emitted, due);
            }
        }
    }
}
