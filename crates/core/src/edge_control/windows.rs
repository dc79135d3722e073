//! Fixed SENDME windows, as stock Tor has them.

use super::{EdgeControl, Signals, StreamControl};
use crate::error::Violation;
use penstock_units::{Cells, Instant};

/// Sizes of the windows [cell].
///
/// Source: tor-spec §7.4; DefenestraTor §3.1. C tor `CIRCWINDOW_START`, `CIRCWINDOW_INCREMENT`,
/// `STREAMWINDOW_START`, `STREAMWINDOW_INCREMENT`; the consensus parameter is `circwindow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowsConfig {
    /// DATA cells a circuit may have unacknowledged at first: 1000 in stock Tor, 100 is the
    /// least that interoperates (50 KiB).
    pub circuit_window: u32,
    /// DATA cells that a stream may have unacknowledged at first.
    pub stream_window: u32,
    /// Answer as clients of 0.0.0 to 0.2.1.19 did: one cell too late.
    pub sendme_bug_101: bool,
}

impl Default for WindowsConfig {
    fn default() -> Self {
        WindowsConfig { circuit_window: CIRCUIT.start, stream_window: STREAM.start, sendme_bug_101: false }
    }
}

impl WindowsConfig {
    /// Least and most that `circuit_window` may be (C tor `circwindow`) [cell].
    pub const CIRCUIT_RANGE: (u32, u32) = (CIRCUIT.increment, CIRCUIT.start);
    /// Least and most that `stream_window` may be [cell].
    pub const STREAM_RANGE: (u32, u32) = (STREAM.increment, STREAM.start);
}

/// What one layer of windows is made of [cell].
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) start: u32,
    pub(super) increment: u32,
}

pub(super) const CIRCUIT: Layer = Layer { start: 1000, increment: 100 };
const STREAM: Layer = Layer { start: 500, increment: 50 };

/// The receiving end of a layer: how much may still come, and when a SENDME is owed.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliverWindow {
    layer: &'static Layer,
    left: u32,
    bug_101: bool,
}

impl DeliverWindow {
    pub(super) fn new(layer: &'static Layer, bug_101: bool) -> Self {
        DeliverWindow { layer, left: layer.start, bug_101 }
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        self.left = self.left.checked_sub(1).ok_or(Violation::WindowExceeded)?;
        Ok(())
    }

    /// A cell was delivered; true if a SENDME is owed for it.
    pub(super) fn on_deliver(&mut self) -> Result<bool, Violation> {
        self.deliver()?;
        Ok(self.take_sendme())
    }

    /// Whether a SENDME is owed. The 101 bug compares with "less than" where "at most" is right,
    /// so the first one comes a cell late and every later one on time.
    fn owes_sendme(&self) -> bool {
        let due = self.layer.start - self.layer.increment;
        if self.bug_101 { self.left < due } else { self.left <= due }
    }

    fn take_sendme(&mut self) -> bool {
        let owed = self.owes_sendme();
        if owed {
            self.left += self.layer.increment;
        }
        owed
    }
}

/// The sending end of a layer with a fixed window.
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
        // A peer that acknowledges cells we never sent inflates our window.
        if window > self.layer.start {
            return Err(Violation::UnexpectedSendme);
        }
        self.left = window;
        Ok(())
    }
}

/// The circuit window at one end: 1000 cells, one SENDME for each 100.
///
/// Source: tor-spec §7.4; DefenestraTor §3.1 and §4.1 (50 KiB windows). C tor `sendme.c`:
/// `sendme_note_circuit_data_packaged()`, `sendme_circuit_consider_sending()`.
/// Deviation: none.
#[derive(Debug)]
pub struct CircuitWindow {
    package: PackageWindow,
    deliver: DeliverWindow,
}

impl CircuitWindow {
    /// Both windows of a new circuit.
    pub fn new(config: WindowsConfig) -> Self {
        CircuitWindow {
            package: PackageWindow::new(&CIRCUIT, config.circuit_window),
            deliver: DeliverWindow::new(&CIRCUIT, config.sendme_bug_101),
        }
    }
}

impl EdgeControl for CircuitWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.package.left.into())
    }
    fn on_package(&mut self, _now: Instant, _signals: Signals) {
        self.package.on_package();
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

/// The stream window at one end: 500 cells, one SENDME for each 50.
///
/// Source: tor-spec §7.4. C tor `sendme_connection_edge_consider_sending()`, which withholds
/// the SENDME while more than ten cells wait for the application.
/// Deviation: none.
#[derive(Debug)]
pub struct StreamWindow {
    package: PackageWindow,
    deliver: DeliverWindow,
}

/// C tor withholds stream SENDMEs while more than this waits for the application [cell].
const STREAM_BUFFERED_TOO_MUCH: u64 = 10;

impl StreamWindow {
    /// Both windows of a new stream.
    pub fn new(config: WindowsConfig) -> Self {
        StreamWindow {
            package: PackageWindow::new(&STREAM, config.stream_window),
            deliver: DeliverWindow::new(&STREAM, config.sendme_bug_101),
        }
    }
}

impl StreamControl for StreamWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.package.left.into())
    }
    fn on_package(&mut self, _now: Instant) {
        self.package.on_package();
    }
    fn on_deliver(&mut self, _now: Instant) -> Result<(), Violation> {
        self.deliver.deliver()
    }
    fn take_sendme(&mut self, _now: Instant, buffered: Cells) -> bool {
        buffered.get() <= STREAM_BUFFERED_TOO_MUCH && self.deliver.take_sendme()
    }
    fn on_sendme(&mut self, _now: Instant) -> Result<(), Violation> {
        self.package.on_sendme()
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

    /// Sends up to `cells` through a pair of ends; returns how many went through.
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

    /// G-11: a window of 100 against the bug stalls at exactly 100 cells; 101 does not.
    #[test]
    fn hundred_cells_deadlock_against_the_101_bug() {
        assert_eq!(transfer(&mut window(100, false), &mut window(1000, true), 5000), 100);
        assert_eq!(transfer(&mut window(101, false), &mut window(1000, true), 5000), 5000);
        assert_eq!(transfer(&mut window(100, false), &mut window(1000, false), 5000), 5000);
    }

    #[test]
    fn the_bug_delays_only_the_first_sendme() {
        let mut receiver = window(1000, true);
        let owed: Vec<u32> = (1..=401).filter(|_| receiver.on_deliver(T).unwrap()).collect();
        assert_eq!(owed, [101, 201, 301, 401]);
        let mut stream =
            StreamWindow::new(WindowsConfig { sendme_bug_101: true, ..WindowsConfig::default() });
        let owed: Vec<u32> = (1..=151)
            .filter(|_| {
                stream.on_deliver(T).unwrap();
                stream.take_sendme(T, Cells::ZERO)
            })
            .collect();
        assert_eq!(owed, [51, 101, 151]);
    }

    #[test]
    fn a_sendme_for_nothing_is_a_violation() {
        assert_eq!(window(1000, false).on_sendme(T, Signals::default()), Err(Violation::UnexpectedSendme));
    }

    #[test]
    fn a_peer_that_ignores_the_window_is_a_violation() {
        let mut receiver = DeliverWindow::new(&CIRCUIT, false);
        for _ in 0..1000 {
            receiver.deliver().unwrap();
        }
        assert_eq!(receiver.deliver(), Err(Violation::WindowExceeded));
    }

    #[test]
    fn a_stream_sendme_waits_for_the_application() {
        let mut stream = StreamWindow::new(WindowsConfig::default());
        for _ in 0..50 {
            stream.on_deliver(T).unwrap();
        }
        assert!(!stream.take_sendme(T, Cells::new(11)));
        assert!(stream.take_sendme(T, Cells::new(10)));
        assert!(!stream.take_sendme(T, Cells::ZERO));
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Package,
        Deliver,
        Sendme,
    }

    proptest! {
        /// G-10, G-11: windows stay in range, what is unacknowledged never exceeds the window, and
        /// SENDMEs are emitted for each hundred received cells.
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
