//! XON/XOFF: stream flow control on circuits with congestion control.

use super::vegas::rtt::n_count_ewma;
use super::{Backlog, StreamControl, StreamFeedback};
use crate::cell::MAX_PAYLOAD;
use crate::error::Violation;
use penstock_units::{Bytes, Cells, DataRate, Duration, Instant};
use std::num::NonZeroU32;

/// Parameters of XON and XOFF. Source: proposal 324 §6.5; C tor `flow_control_new_consensus_params()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XonXoffConfig {
    /// An XOFF is due while the data of more than this many cells waits for the application [cell] (consensus
    /// `cc_xoff_client`, `cc_xoff_exit`). Both ends of a circuit should use the same value.
    pub xoff: u32,
    /// The grace period. When an XOFF has been due for this time, it is sent at the next cell's arrival.
    pub grace: Duration,
    /// The number of cells in one measurement of the drain rate [cell] (`cc_xon_rate`).
    pub xon_rate: u32,
    /// If the drain rate changes by more than this, the edge sends another XON [%]; at most 99 (`cc_xon_change_pct`).
    pub xon_change_pct: u32,
    /// The number of drain-rate measurements in the average [1] (`cc_xon_ewma_cnt`).
    pub xon_ewma_cnt: u32,
}

impl XonXoffConfig {
    /// The values of C tor 0.4.9.
    pub const TOR_0_4_9: XonXoffConfig = XonXoffConfig {
        xoff: 500,
        grace: Duration::from_millis(5),
        xon_rate: 500,
        xon_change_pct: 25,
        xon_ewma_cnt: 2,
    };

    /// The values of C tor 0.4.7, which has no grace period.
    pub const TOR_0_4_7: XonXoffConfig = XonXoffConfig { grace: Duration::ZERO, ..XonXoffConfig::TOR_0_4_9 };

    /// The XOFF limit [B]. Source: C tor counts 488 B for a cell (`RELAY_PAYLOAD_SIZE_MIN`).
    fn xoff_bytes(&self) -> u64 {
        u64::from(self.xoff) * LEAST_PAYLOAD
    }

    /// The size of one measurement of the drain rate [B]. Source: C tor counts 498 B for a cell
    /// (`RELAY_PAYLOAD_SIZE_MAX`).
    fn xon_rate_bytes(&self) -> u64 {
        u64::from(self.xon_rate) * u64::from(MAX_PAYLOAD)
    }
}

const LEAST_PAYLOAD: u64 = 488;

/// If more data than this waits, the application probably reads nothing [B]. Each arriving cell then updates the drain
/// rate (C tor `MAX_EXPECTED_CELL_BURST`, 32 cells).
const BURST: u64 = 32 * LEAST_PAYLOAD;

/// The maximum rate in an XON of C tor [kB/s].
const MOST_RATE: u64 = i32::MAX as u64;

/// The flow control of one stream, at both ends of the stream.
///
/// Source: proposal 324 §4; C tor 0.4.9 `congestion_control_flow.c`.
///
/// Deviation: C tor logs an unexpected XOFF or XON and mostly ignores it. Penstock closes the circuit, as tor-proto
/// does (`xon_xoff/state.rs`). Penstock also has tor-proto's limits on the frequency of XON and XOFF, but at both ends.
///
/// Deviation: an XON before the first XOFF is unexpected, because C tor's delivering end never sends one.
#[derive(Debug)]
pub struct XonXoff {
    config: XonXoffConfig,
    gate: Gate,
    drain: Drain,
    owes_xoff: bool,
    /// The rate of an XON that waits to be sent. If an XOFF also waits, it is sent first.
    owes_xon: Option<Option<NonZeroU32>>,
}

impl XonXoff {
    /// The flow control of a new stream.
    pub fn new(config: XonXoffConfig) -> Self {
        XonXoff { config, gate: Gate::default(), drain: Drain::default(), owes_xoff: false, owes_xon: None }
    }
}

impl StreamControl for XonXoff {
    fn package_window(&self) -> Cells {
        if self.gate.stopped { Cells::ZERO } else { Cells::new(u64::MAX) }
    }
    fn rate(&self) -> Option<DataRate> {
        self.gate.rate
    }
    fn on_package(&mut self, _now: Instant, bytes: Bytes) {
        self.gate.sent += bytes.get();
    }
    fn on_deliver(&mut self, now: Instant, backlog: Backlog) -> Result<(), Violation> {
        let waiting = backlog.bytes.get();
        self.owes_xoff |= self.drain.is_stuck(&self.config, now, waiting);
        if waiting > BURST {
            self.on_drain(now, Bytes::ZERO, backlog);
        }
        Ok(())
    }
    fn on_drain(&mut self, now: Instant, drained: Bytes, backlog: Backlog) {
        let xon = self.drain.on_drain(&self.config, now, drained.get(), backlog.bytes.get());
        self.owes_xon = xon.or(self.owes_xon);
    }
    fn take_feedback(&mut self) -> Option<StreamFeedback> {
        if std::mem::take(&mut self.owes_xoff) {
            return Some(StreamFeedback::Xoff);
        }
        self.owes_xon.take().map(StreamFeedback::Xon)
    }
    fn on_feedback(&mut self, _now: Instant, feedback: StreamFeedback) -> Result<(), Violation> {
        match feedback {
            StreamFeedback::Sendme => Err(Violation::UnexpectedFlowControl),
            StreamFeedback::Xoff => self.gate.stop(&self.config),
            StreamFeedback::Xon(rate) => self.gate.go(&self.config, rate),
        }
    }
}

/// The packaging end: whether the stream may send, and at what rate.
#[derive(Debug, Default)]
struct Gate {
    stopped: bool,
    rate: Option<DataRate>,
    /// Total bytes packaged [B].
    sent: u64,
    xoffs: u64,
    xons: u64,
}

impl Gate {
    /// Handles an XOFF. Source: C tor `circuit_process_stream_xoff()`; the frequency limit is tor-proto's.
    fn stop(&mut self, config: &XonXoffConfig) -> Result<(), Violation> {
        self.xoffs += 1;
        if self.stopped || self.sent < self.xoffs * (config.xoff_bytes() / 2) {
            return Err(Violation::UnexpectedFlowControl);
        }
        self.stopped = true;
        Ok(())
    }

    /// Handles an XON. Source: C tor `circuit_process_stream_xon()`; the frequency limit is tor-proto's.
    fn go(&mut self, config: &XonXoffConfig, rate: Option<NonZeroU32>) -> Result<(), Violation> {
        self.xons += 1;
        let for_each = config.xoff_bytes().min(config.xon_rate_bytes()) / 2;
        if self.xoffs == 0 || self.sent < self.xons * for_each {
            return Err(Violation::UnexpectedFlowControl);
        }
        self.stopped = false;
        let bytes = rate.map_or(0, |rate| u64::from(rate.get()) * 1000);
        self.rate = if bytes > MOST_RATE { None } else { DataRate::new(bytes) };
        Ok(())
    }
}

/// The delivering end: the data that waits for the application, and the rate at which the application reads.
#[derive(Debug, Default)]
struct Drain {
    xoff_sent: bool,
    /// When the waiting data began to exceed the XOFF limit.
    too_much_since: Option<Instant>,
    /// When the current measurement of the drain rate began. `None` if no data waits.
    since: Option<Instant>,
    /// Bytes that the application read [B]. A new measurement starts this count at zero.
    drained: u64,
    /// Bytes that the application read in the previous measurement [B]; 0 before the first measurement.
    before: u64,
    /// The average drain rate [kB/s]; 0 means unknown.
    rate: u64,
    /// The rate in the last XON [kB/s].
    advertised: u64,
}

impl Drain {
    /// Handles a received cell. `waiting` includes this cell's data [B]. Returns true if an XOFF must be sent.
    /// Source: C tor `flow_control_decide_xoff()`.
    fn is_stuck(&mut self, config: &XonXoffConfig, now: Instant, waiting: u64) -> bool {
        if waiting <= config.xoff_bytes() {
            self.too_much_since = None;
            return false;
        }
        if self.xoff_sent {
            return false;
        }
        let since = *self.too_much_since.get_or_insert(now);
        if config.grace > Duration::ZERO && now.since(since) <= config.grace {
            return false;
        }
        self.too_much_since = None;
        self.xoff_sent = true;
        // An XOFF is needed, so the rate that the last XON advertised was too high.
        self.rate = 0;
        true
    }

    /// Handles `drained` bytes that the application took; `waiting` bytes remain [B]. Returns the rate of a due XON.
    /// Source: C tor `flow_control_decide_xon()`, which divides the bytes of the previous measurement by the duration
    /// of the current one.
    /// Deviation: counts are not halved to prevent an overflow, because they cannot overflow.
    fn on_drain(
        &mut self,
        config: &XonXoffConfig,
        now: Instant,
        drained: u64,
        waiting: u64,
    ) -> Option<Option<NonZeroU32>> {
        self.drained += drained;
        if self.since.is_none() && waiting > 0 {
            self.since = Some(now);
            self.drained = 0;
        }
        if let Some(since) = self.since
            && self.drained > config.xon_rate_bytes()
        {
            self.measure(config, now.since(since));
        }
        let due = if self.xoff_sent { waiting == 0 } else { self.rate_has_changed(config) };
        if due {
            self.advertised = self.rate;
            self.xoff_sent = false;
        }
        let answer = NonZeroU32::new(u32::try_from(self.rate).expect("it is at most 2^31"));
        if waiting == 0 {
            self.since = None;
            // The application read all data, so its real rate is unknown; it may be twice as fast.
            if self.drained >= config.xon_rate_bytes() && self.advertised > 0 {
                self.rate = (2 * self.rate).min(MOST_RATE);
                self.before = std::mem::take(&mut self.drained);
            }
        }
        due.then_some(answer)
    }

    /// Ends a measurement that lasted `span`, and updates the average drain rate. Source: C tor `compute_drain_rate()`.
    fn measure(&mut self, config: &XonXoffConfig, span: Duration) {
        let before = if self.before == 0 { self.drained } else { self.before };
        self.before = self.drained;
        let Ok(micros @ 1..) = u64::try_from(span.as_micros()) else { return };
        let rate = if before > MOST_RATE / 1000 { MOST_RATE } else { (before * 1000 / micros).max(1) };
        self.rate = n_count_ewma(rate, self.rate, config.xon_ewma_cnt.into());
        self.drained = 0;
        self.since = None;
    }

    /// Whether the drain rate differs enough from the advertised rate for another XON. Source: C tor
    /// `stream_drain_rate_changed()`.
    fn rate_has_changed(&self, config: &XonXoffConfig) -> bool {
        let percent = |pct: u64| pct * self.advertised / 100;
        let change = u64::from(config.xon_change_pct);
        self.advertised > 0 && (self.rate > percent(100 + change) || self.rate < percent(100 - change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONFIG: XonXoffConfig = XonXoffConfig::TOR_0_4_9;
    const XOFF: u64 = 500 * 488;
    const XON_RATE: u64 = 500 * 498;

    fn backlog(bytes: u64) -> Backlog {
        Backlog { cells: Cells::new(bytes.div_ceil(498)), bytes: Bytes::new(bytes) }
    }

    fn deliver(stream: &mut XonXoff, millis: u64, waiting: u64) -> Option<StreamFeedback> {
        stream.on_deliver(Instant::from_millis(millis), backlog(waiting)).unwrap();
        stream.take_feedback()
    }

    fn drain(stream: &mut XonXoff, millis: u64, drained: u64, waiting: u64) -> Option<StreamFeedback> {
        stream.on_drain(Instant::from_millis(millis), Bytes::new(drained), backlog(waiting));
        stream.take_feedback()
    }

    fn xon(rate: u32) -> Option<StreamFeedback> {
        Some(StreamFeedback::Xon(NonZeroU32::new(rate)))
    }

    #[test]
    fn an_xoff_is_sent_after_five_milliseconds_above_500_cells() {
        let mut stream = XonXoff::new(CONFIG);
        assert_eq!(deliver(&mut stream, 0, XOFF), None);
        assert_eq!(deliver(&mut stream, 1, XOFF + 1), None, "the grace period begins");
        assert_eq!(deliver(&mut stream, 6, XOFF + 1), None, "the grace period lasts five milliseconds");
        assert_eq!(deliver(&mut stream, 7, XOFF + 1), Some(StreamFeedback::Xoff));
        assert_eq!(deliver(&mut stream, 20, 2 * XOFF), None, "an XOFF is sent once");
    }

    #[test]
    fn a_backlog_that_shrinks_within_the_grace_period_causes_no_xoff() {
        let mut stream = XonXoff::new(CONFIG);
        assert_eq!(deliver(&mut stream, 1, XOFF + 1), None);
        assert_eq!(deliver(&mut stream, 4, XOFF), None);
        assert_eq!(deliver(&mut stream, 7, XOFF + 1), None, "a new grace period begins");
    }

    #[test]
    fn without_a_grace_period_the_first_excess_cell_causes_an_xoff() {
        let mut stream = XonXoff::new(XonXoffConfig::TOR_0_4_7);
        assert_eq!(deliver(&mut stream, 0, XOFF), None);
        assert_eq!(deliver(&mut stream, 0, XOFF + 1), Some(StreamFeedback::Xoff));
    }

    /// A stream that sent an XOFF. At 10 ms, `waiting` bytes are still unread.
    fn stopped(waiting: u64) -> XonXoff {
        let mut stream = XonXoff::new(CONFIG);
        assert_eq!(deliver(&mut stream, 0, waiting), None);
        assert_eq!(deliver(&mut stream, 10, waiting), Some(StreamFeedback::Xoff));
        stream
    }

    #[test]
    fn an_xon_is_sent_when_the_backlog_is_empty_with_the_rate_if_it_is_known() {
        let mut stream = stopped(XOFF + 1);
        assert_eq!(drain(&mut stream, 500, XOFF, 1), None);
        assert_eq!(drain(&mut stream, 501, 1, 0), xon(0), "too few bytes were drained to measure the rate");

        let mut stream = stopped(300_000);
        assert_eq!(drain(&mut stream, 1000, XON_RATE + 1, 50_999), None);
        // The first cell arrived at 0 ms: 249,001 B in one second.
        assert_eq!(drain(&mut stream, 1001, 50_999, 0), xon(249));
    }

    #[test]
    fn an_xoff_precedes_the_xon_that_follows_immediately() {
        let mut stream = XonXoff::new(XonXoffConfig::TOR_0_4_7);
        stream.on_deliver(Instant::ZERO, backlog(XOFF + 1)).unwrap();
        stream.on_drain(Instant::ZERO, Bytes::new(XOFF + 1), backlog(0));
        assert_eq!(stream.take_feedback(), Some(StreamFeedback::Xoff));
        assert_eq!(stream.take_feedback(), xon(0));
        assert_eq!(stream.take_feedback(), None);
    }

    #[test]
    fn another_xon_is_sent_when_the_rate_changes_by_a_quarter() {
        let mut stream = stopped(300_000);
        assert_eq!(drain(&mut stream, 1000, 250_000, 50_000), None);
        assert_eq!(drain(&mut stream, 1001, 50_000, 0), xon(250));
        // A new measurement begins at 2 s. It divides the drained bytes by the elapsed time and
        // averages the result 2:1.
        assert_eq!(drain(&mut stream, 2000, 0, 300_000), None);
        assert_eq!(drain(&mut stream, 2800, 250_000, 50_000), None, "(2 * 312 + 250) / 3 = 291 is 16 % more");
        assert_eq!(drain(&mut stream, 3000, 0, 300_000), None);
        assert_eq!(drain(&mut stream, 3500, 250_000, 50_000), xon(430), "(2 * 500 + 291) / 3");
        assert_eq!(drain(&mut stream, 4000, 0, 300_000), None);
        assert_eq!(drain(&mut stream, 6500, 250_000, 50_000), xon(210), "(2 * 100 + 430) / 3");
    }

    #[test]
    fn an_application_without_backlog_gets_twice_its_rate() {
        let mut stream = stopped(300_000);
        assert_eq!(drain(&mut stream, 1000, 250_000, 50_000), None);
        assert_eq!(drain(&mut stream, 1001, 50_000, 0), xon(250));
        assert_eq!(drain(&mut stream, 2000, XON_RATE, 0), None);
        assert_eq!(drain(&mut stream, 2001, 498, 0), xon(500));
    }

    #[test]
    fn the_sender_stops_resumes_and_keeps_the_rate() {
        let mut stream = XonXoff::new(CONFIG);
        stream.on_package(Instant::ZERO, Bytes::new(2 * XOFF));
        assert!(stream.package_window() > Cells::ZERO);
        stream.on_feedback(Instant::ZERO, StreamFeedback::Xoff).unwrap();
        assert_eq!(stream.package_window(), Cells::ZERO);
        stream.on_feedback(Instant::ZERO, xon(250).unwrap()).unwrap();
        assert!(stream.package_window() > Cells::ZERO);
        assert_eq!(stream.rate(), DataRate::new(250_000));
        stream.on_feedback(Instant::ZERO, xon(0).unwrap()).unwrap();
        assert_eq!(stream.rate(), None);
        stream.on_feedback(Instant::ZERO, xon(2_147_484).unwrap()).unwrap();
        assert_eq!(stream.rate(), None, "a rate above the maximum bucket of C tor is no limit");
    }

    #[test]
    fn messages_that_no_honest_end_sends_are_violations() {
        let unexpected = Err(Violation::UnexpectedFlowControl);
        let sent = |bytes| {
            let mut stream = XonXoff::new(CONFIG);
            stream.on_package(Instant::ZERO, Bytes::new(bytes));
            stream
        };
        let xon = xon(0).unwrap();
        assert_eq!(sent(1 << 30).on_feedback(Instant::ZERO, StreamFeedback::Sendme), unexpected);
        assert_eq!(sent(1 << 30).on_feedback(Instant::ZERO, xon), unexpected, "an XON before any XOFF");
        assert_eq!(sent(XOFF / 2 - 1).on_feedback(Instant::ZERO, StreamFeedback::Xoff), unexpected);
        let mut twice = sent(1 << 30);
        twice.on_feedback(Instant::ZERO, StreamFeedback::Xoff).unwrap();
        assert_eq!(twice.on_feedback(Instant::ZERO, StreamFeedback::Xoff), unexpected);
        let mut flood = sent(XOFF);
        flood.on_feedback(Instant::ZERO, StreamFeedback::Xoff).unwrap();
        assert_eq!(flood.on_feedback(Instant::ZERO, xon), Ok(()));
        assert_eq!(flood.on_feedback(Instant::ZERO, xon), Ok(()));
        assert_eq!(flood.on_feedback(Instant::ZERO, xon), unexpected, "the data causes at most two XONs");
    }

    proptest! {
        /// Two honest ends never report a violation, for any reads of the application and any message delays. The
        /// unread data never exceeds the XOFF limit plus the data that the sender could send before the XOFF arrived.
        #[test]
        fn honest_ends_report_no_violation(
            reads in proptest::collection::vec((0u64..400_000, 1u64..400), 1..300),
            delay in 0u64..200,
            per_milli in 1u64..4000,
        ) {
            let (mut sender, mut receiver) = (XonXoff::new(CONFIG), XonXoff::new(CONFIG));
            let mut feedback = std::collections::VecDeque::new();
            let (mut waiting, mut now) = (0u64, 0u64);
            for (most, pause) in reads {
                for _ in 0..pause {
                    now += 1;
                    while feedback.front().is_some_and(|(due, _)| *due <= now) {
                        let (_, message) = feedback.pop_front().unwrap();
                        sender.on_feedback(Instant::from_millis(now), message).unwrap();
                    }
                    if sender.package_window() > Cells::ZERO {
                        sender.on_package(Instant::from_millis(now), Bytes::new(per_milli));
                        waiting += per_milli;
                        feedback.extend(deliver(&mut receiver, now, waiting).map(|message| (now + delay, message)));
                    }
                    prop_assert!(waiting <= XOFF + (delay + 8) * per_milli);
                }
                let drained = waiting.min(most);
                waiting -= drained;
                let due = drain(&mut receiver, now, drained, waiting);
                feedback.extend(due.map(|message| (now + delay, message)));
            }
        }
    }
}
