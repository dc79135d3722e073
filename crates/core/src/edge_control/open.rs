//! Circuits without end-to-end windows: only hop credits limit the cells in flight.

use super::windows::{CIRCUIT, STREAM, STREAM_BUFFERED_TOO_MUCH};
use super::{Backlog, EdgeControl, Signals, StreamControl, StreamFeedback};
use crate::error::Violation;
use penstock_units::{Bytes, Cells, Instant};

/// Whether end-to-end windows apply to circuits that have credits at each hop.
///
/// A circuit has no windows only if each hop of the path has credits and both ends have this setting. The setting
/// covers both circuit and stream windows.
///
/// Source: DefenestraTor §5.1 ("we disabled Tor's window-based flow control, so that exit routers ignored SENDMEs they
/// received from clients").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ends {
    /// End-to-end windows apply.
    #[default]
    Enforced,
    /// This end sends SENDMEs and ignores received ones.
    Ignored,
    /// This end sends no SENDMEs and ignores received ones.
    Suppressed,
}

#[derive(Clone, Copy, Debug)]
struct Habit {
    /// The end sends one SENDME for this many delivered cells [cell]; 0 sends none.
    every: u32,
    delivered: u32,
}

impl Habit {
    fn new(ends: Ends, every: u32) -> Self {
        Habit { every: if ends == Ends::Suppressed { 0 } else { every }, delivered: 0 }
    }

    fn on_deliver(&mut self) {
        self.delivered = self.delivered.saturating_add(1);
    }

    fn take_sendme(&mut self) -> bool {
        let due = self.every > 0 && self.delivered >= self.every;
        self.delivered -= if due { self.every } else { 0 };
        due
    }
}

/// One end of a circuit without end-to-end windows.
#[derive(Debug)]
pub struct OpenCircuit(Habit);

impl OpenCircuit {
    /// The end of a new circuit.
    pub fn new(ends: Ends) -> Self {
        OpenCircuit(Habit::new(ends, CIRCUIT.increment))
    }
}

impl EdgeControl for OpenCircuit {
    fn package_window(&self) -> Cells {
        Cells::new(u64::MAX)
    }
    fn on_package(&mut self, _now: Instant, _signals: Signals) -> bool {
        false
    }
    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        self.0.on_deliver();
        Ok(self.0.take_sendme())
    }
    fn on_sendme(&mut self, _now: Instant, _signals: Signals) -> Result<(), Violation> {
        Ok(())
    }
    fn obeys_windows(&self) -> bool {
        false
    }
    fn window(&self) -> Cells {
        Cells::new(u64::MAX)
    }
}

/// One end of a stream on a circuit without end-to-end windows.
#[derive(Debug)]
pub struct OpenStream {
    habit: Habit,
    buffered: Cells,
}

impl OpenStream {
    /// The end of a new stream.
    pub fn new(ends: Ends) -> Self {
        OpenStream { habit: Habit::new(ends, STREAM.increment), buffered: Cells::ZERO }
    }
}

impl StreamControl for OpenStream {
    fn package_window(&self) -> Cells {
        Cells::new(u64::MAX)
    }
    fn on_package(&mut self, _now: Instant, _bytes: Bytes) {}
    fn on_deliver(&mut self, _now: Instant, backlog: Backlog) -> Result<(), Violation> {
        self.buffered = backlog.cells;
        self.habit.on_deliver();
        Ok(())
    }
    fn on_drain(&mut self, _now: Instant, _drained: Bytes, backlog: Backlog) {
        self.buffered = backlog.cells;
    }
    fn take_feedback(&mut self) -> Option<StreamFeedback> {
        let is_due = self.buffered.get() <= STREAM_BUFFERED_TOO_MUCH && self.habit.take_sendme();
        is_due.then_some(StreamFeedback::Sendme)
    }
    fn on_feedback(&mut self, _now: Instant, feedback: StreamFeedback) -> Result<(), Violation> {
        match feedback {
            StreamFeedback::Sendme => Ok(()),
            StreamFeedback::Xoff | StreamFeedback::Xon(_) => Err(Violation::UnexpectedFlowControl),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Instant = Instant::ZERO;

    #[test]
    fn an_open_end_sends_sendmes_like_fixed_windows_or_none() {
        let is_due = |ends| {
            let (mut circuit, mut stream) = (OpenCircuit::new(ends), OpenStream::new(ends));
            let circuit = (1..=250).filter(|_| circuit.on_deliver(T).unwrap()).collect::<Vec<_>>();
            let mut deliver = || {
                stream.on_deliver(T, Backlog::default()).unwrap();
                stream.take_feedback().is_some()
            };
            (circuit, (1..=120).filter(|_| deliver()).collect::<Vec<_>>())
        };
        assert_eq!(is_due(Ends::Ignored), (vec![100, 200], vec![50, 100]));
        assert_eq!(is_due(Ends::Suppressed), (vec![], vec![]));
    }

    #[test]
    fn sendmes_change_nothing_and_xoffs_are_violations() {
        let mut circuit = OpenCircuit::new(Ends::Ignored);
        (0..50).for_each(|_| circuit.on_sendme(T, Signals::default()).unwrap());
        assert_eq!(circuit.package_window(), Cells::new(u64::MAX));
        let mut stream = OpenStream::new(Ends::Ignored);
        (0..50).for_each(|_| stream.on_feedback(T, StreamFeedback::Sendme).unwrap());
        assert_eq!(stream.on_feedback(T, StreamFeedback::Xoff), Err(Violation::UnexpectedFlowControl));
    }
}
