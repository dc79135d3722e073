use super::{Answer, Instance, method};
use penstock_core::Violation;
use penstock_core::edge_control::{EdgeControl, Signals};
use penstock_units::{Cells, Duration, Instant};
use pyo3::prelude::*;

/// The core's `Signals` for the methods of a Python class: measurements of one end of a circuit.
#[pyclass(frozen, get_all, name = "Signals", module = "penstock._core")]
pub(crate) struct PySignals {
    queue: u64,
    outbuf: u64,
    blocked: bool,
    marked: u8,
}

impl From<Signals> for PySignals {
    fn from(signals: Signals) -> Self {
        let Signals { queue, outbuf, blocked, marked } = signals;
        PySignals { queue: queue.get(), outbuf: outbuf.get(), blocked, marked }
    }
}

/// A Python class that controls one end of a circuit.
#[derive(Debug)]
pub(super) struct Prototype {
    instance: Instance,
    has_on_mark: bool,
    has_take_marks: bool,
    has_obeys_windows: bool,
    has_rtt: bool,
    has_smoothed_rtt: bool,
}

impl Prototype {
    pub(super) fn new(instance: Instance) -> Self {
        Prototype {
            has_on_mark: instance.overrides("on_mark"),
            has_take_marks: instance.overrides("take_marks"),
            has_obeys_windows: instance.overrides("obeys_windows"),
            has_rtt: instance.overrides("rtt"),
            has_smoothed_rtt: instance.overrides("smoothed_rtt"),
            instance,
        }
    }
}

/// A number of cells; None is no limit.
fn cells(value: &Bound<'_, PyAny>) -> Option<Cells> {
    value.extract::<Option<u64>>().ok().map(|cells| Cells::new(cells.unwrap_or(u64::MAX)))
}

/// A time in nanoseconds, or None.
fn time(value: &Bound<'_, PyAny>) -> Option<Option<Duration>> {
    value.extract::<Option<u64>>().ok().map(|time| time.map(Duration::from_nanos))
}

fn truth(value: &Bound<'_, PyAny>) -> Option<bool> {
    value.extract().ok()
}

const CELLS: &str = "a whole number of cells, or None for no limit";
const TIME: &str = "a whole number of nanoseconds, or None";
const TRUTH: &str = "True or False";

impl EdgeControl for Prototype {
    fn package_window(&self) -> Cells {
        self.instance.call(method!("package_window"), (), CELLS, cells).unwrap_or(Cells::ZERO)
    }
    fn on_package(&mut self, now: Instant, signals: Signals) -> bool {
        let arguments = (now.as_nanos(), PySignals::from(signals));
        self.instance.call(method!("on_package"), arguments, TRUTH, truth).unwrap_or(false)
    }
    fn on_deliver(&mut self, now: Instant) -> Result<bool, Violation> {
        match self.instance.call(method!("on_deliver"), (now.as_nanos(),), TRUTH, truth) {
            Answer::Value(due) => Ok(due),
            Answer::Violation => Err(Violation::WindowExceeded),
            Answer::None => Ok(false),
        }
    }
    fn on_mark(&mut self) {
        if self.has_on_mark {
            self.instance.tell(method!("on_mark"), ());
        }
    }
    fn take_marks(&mut self) -> u8 {
        let read = |value: &Bound<'_, PyAny>| value.extract().ok();
        if !self.has_take_marks {
            return 0;
        }
        self.instance.call(method!("take_marks"), (), "a whole number up to 255", read).unwrap_or(0)
    }
    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation> {
        match self.instance.tell(method!("on_sendme"), (now.as_nanos(), PySignals::from(signals))) {
            Answer::Violation => Err(Violation::UnexpectedSendme),
            Answer::Value(()) | Answer::None => Ok(()),
        }
    }
    fn obeys_windows(&self) -> bool {
        !self.has_obeys_windows
            || self.instance.call(method!("obeys_windows"), (), TRUTH, truth).unwrap_or(true)
    }
    fn window(&self) -> Cells {
        self.instance.call(method!("window"), (), CELLS, cells).unwrap_or(Cells::ZERO)
    }
    fn rtt(&self) -> Option<Duration> {
        if !self.has_rtt {
            return None;
        }
        self.instance.call(method!("rtt"), (), TIME, time).unwrap_or(None)
    }
    fn smoothed_rtt(&self) -> Option<Duration> {
        if !self.has_smoothed_rtt {
            return self.rtt();
        }
        self.instance.call(method!("smoothed_rtt"), (), TIME, time).unwrap_or(None)
    }
}
