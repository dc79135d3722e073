//! N23: each hop of a circuit limits its sender with credits.

mod credit;
mod exponential;
mod grant;
mod kung94;
mod law;

pub use exponential::ExponentialConfig;
pub use kung94::Kung94Config;
pub use law::{AdaptConfig, LawConfig};

use super::{
    CreditPath, DatagramHop, DelayConfig, Feedback, HopControl, HopOffer, HopSignals, Neighbour, Side,
    Source, Ticked,
};
use crate::error::Violation;
use crate::keys::Direction;
use credit::Credit;
use grant::Grant;
use law::Law;
use penstock_units::{Cells, Duration, Instant};

/// The minimum of an adaptive N3 [cell] (DefenestraTor §4.2).
pub const MIN_N3: u32 = 100;
/// The maximum of an adaptive N3 [cell] (DefenestraTor §4.2).
pub const MAX_N3: u32 = 500;

/// The configuration of N23. Source: DefenestraTor §4.2 and §5.1, which names N2 = 10 and N3 = 500 as typical.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct N23Config {
    /// N2, the steady buffer [cell]; at least 1. A node sends one credit for this many forwarded cells.
    pub n2: u32,
    /// N3, the excess buffer [cell]. If N3 adapts, this is its initial value.
    pub n3: u32,
    /// How N3 adapts to congestion; `None` keeps N3 constant.
    pub adapt: Option<AdaptConfig>,
    /// How credits travel to the previous hop.
    pub credit_path: CreditPath,
    /// Whether N23 also applies to hops with a client at one end.
    pub with_clients: bool,
    /// Whether the consensus enables N23 (DefenestraTor §6.3). If not, this node does not use it.
    pub active: bool,
}

impl Default for N23Config {
    fn default() -> Self {
        N23Config {
            n2: 10,
            n3: 500,
            adapt: None,
            credit_path: CreditPath::Link,
            with_clients: true,
            active: true,
        }
    }
}

impl N23Config {
    /// The maximum number of outstanding cells [cell]: N2 plus the greatest possible N3.
    pub fn most(&self) -> u32 {
        self.n2 + if self.adapt.is_some() { self.n3.max(MAX_N3) } else { self.n3 }
    }

    pub(super) fn offer(&self, with_client: bool) -> Option<HopOffer> {
        let offers = self.active && (self.with_clients || !with_client);
        offers.then(|| HopOffer::Credits { start: self.n2 + self.n3, most: self.most() })
    }

    pub(super) fn delay(&self) -> Option<DelayConfig> {
        let adapt = self.adapt.filter(|_| self.active)?;
        Some(DelayConfig { kernel: adapt.kernel })
    }
}

/// N23 at one node, for one direction of a circuit.
///
/// The credit limits how many RELAY cells a node may send to the next node. The first credit is N2 + N3. The next node
/// counts the cells that leave its circuit queue, and reports this count after each N2 cells. The credit is then N2 +
/// N3 minus the sent cells that are not reported as forwarded. Behind the first node, no queue of the circuit therefore
/// exceeds N2 + N3 cells. The first node reads its streams only while its own queue is shorter than N2 + N3.
///
/// Source: DefenestraTor §4.2 and figure 3; Kung, Blackwell, Chapman, SIGCOMM 1994.
/// Deviation: a credit contains the total number of forwarded cells, as in Kung's credit update protocol; in the
/// paper's text a credit adds to a balance. Over a reliable channel both are equal while N3 is constant.
/// Deviation: the allowance in a credit is N2 + N3, not only N3, so the sender needs no N2 of its own.
#[derive(Debug)]
pub struct N23 {
    config: N23Config,
    /// The current N3 [cell].
    n3: u64,
    law: Law,
    /// All counts of cells start at this number [cell]. It is zero except in tests of the modulo arithmetic.
    counted: u64,
    /// The next hop; `None` while it is unknown, or if it has no hop control.
    after: Option<Credit>,
    /// The previous hop; `None` while it is unknown, or if it has no hop control.
    before: Option<Grant>,
    moved: u64,
}

impl N23 {
    /// The control of one direction of a new circuit.
    pub fn new(config: N23Config) -> Self {
        N23::counting_from(config, 0)
    }

    /// Like [`new`](Self::new), but all counts start at `counted`. Both nodes of a hop must use the same number.
    pub(crate) fn counting_from(config: N23Config, counted: u64) -> Self {
        N23 {
            config,
            n3: config.n3.into(),
            law: Law::new(config.adapt),
            counted,
            after: None,
            before: None,
            moved: 0,
        }
    }

    fn allowance(&self) -> u64 {
        u64::from(self.config.n2) + self.n3
    }

    fn on_forwarded(&mut self) -> Option<Feedback> {
        let credit_due = self.before.as_mut()?.on_forwarded(self.config.n2.into());
        if credit_due { self.make_credit() } else { None }
    }

    fn make_credit(&mut self) -> Option<Feedback> {
        let allowance = self.allowance();
        let forwarded = self.before.as_mut()?.take_credit(allowance);
        Some(Feedback { direction: Direction::Forward, forwarded, allowance: allowance as u32 })
    }
}

impl DatagramHop for N23 {}

impl HopControl for N23 {
    fn on_neighbour(&mut self, neighbour: Neighbour) {
        let Some(HopOffer::Credits { start, most }) = neighbour.agreed else { return };
        match neighbour.side {
            Side::After => self.after = Some(Credit::new(self.counted, start, most)),
            // This node's own offer limits the previous hop.
            Side::Before => {
                let start = u64::from(self.config.n2) + u64::from(self.config.n3);
                self.before = Some(Grant::new(self.counted, start));
            }
        }
    }

    fn credit(&self) -> Cells {
        Cells::new(self.after.map_or(u64::MAX, |credit| credit.left()))
    }

    fn on_received(&mut self, _now: Instant) -> Result<(), Violation> {
        self.before.as_mut().map_or(Ok(()), Grant::on_received)
    }

    fn on_sent(&mut self, _now: Instant, source: Source) -> Option<Feedback> {
        self.moved += 1;
        if let Some(credit) = &mut self.after {
            credit.on_sent();
        }
        if source == Source::Before { self.on_forwarded() } else { None }
    }

    fn on_delivered(&mut self, _now: Instant) -> Option<Feedback> {
        self.moved += 1;
        self.on_forwarded()
    }

    fn on_feedback(&mut self, _now: Instant, feedback: Feedback) -> Result<(), Violation> {
        // A node without an agreement ignores credits, like unknown cells.
        self.after.as_mut().map_or(Ok(()), |credit| credit.on_feedback(feedback))
    }

    fn edge_queue_limit(&self) -> Option<Cells> {
        self.after.map(|_| Cells::new(self.allowance()))
    }

    fn credit_path(&self) -> CreditPath {
        self.config.credit_path
    }

    fn period(&self) -> Option<Duration> {
        if self.after.is_none() && self.before.is_none() {
            return None;
        }
        self.config.adapt.map(|adapt| adapt.interval)
    }

    fn on_tick(&mut self, _now: Instant, signals: HopSignals) -> Ticked {
        let moved = std::mem::take(&mut self.moved);
        self.n3 = self.law.adjust(self.n3, moved, &signals);
        let busy = moved > 0 || signals.queue > Cells::ZERO;
        // If the allowance fell by N2 or more, the previous hop gets a credit immediately, provided that it can use
        // one.
        let (allowance, n2) = (self.allowance(), u64::from(self.config.n2));
        let fell = self.before.is_some_and(|grant| grant.allowance() >= allowance + n2);
        let feedback = if busy && fell { self.make_credit() } else { None };
        Ticked { feedback, again: busy || self.law.recovers(self.n3) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LinkSignals;
    use super::*;
    use crate::keys::ChannelKey;

    const T: Instant = Instant::ZERO;

    /// The control of a middle relay that has received all cells of its credit.
    fn middle(config: N23Config) -> N23 {
        let mut control = N23::new(config);
        for side in [Side::Before, Side::After] {
            let agreed = config.offer(false);
            let (direction, channel) = (Direction::Forward, ChannelKey::first(0));
            control.on_neighbour(Neighbour { side, direction, channel, agreed });
        }
        (0..config.n2 + config.n3).for_each(|_| control.on_received(T).unwrap());
        control
    }

    fn adaptive() -> N23Config {
        let law = LawConfig::Exponential(ExponentialConfig::default());
        let adapt = Some(AdaptConfig { interval: Duration::from_millis(100), kernel: false, law });
        N23Config { adapt, ..N23Config::default() }
    }

    fn slow(queue: u64, delay: u64) -> HopSignals {
        let link = LinkSignals { delay: Duration::from_millis(delay), ..LinkSignals::default() };
        HopSignals { queue: Cells::new(queue), link }
    }

    #[test]
    fn every_n2th_forwarded_cell_sends_a_credit_and_own_cells_do_not() {
        let mut control = middle(N23Config { n2: 3, n3: 5, ..N23Config::default() });
        let mut reported =
            |source| control.on_sent(T, source).map(|credit| (credit.forwarded, credit.allowance));
        let sources = [Source::Before, Source::Here, Source::Before, Source::Before, Source::Here];
        assert_eq!(sources.map(&mut reported), [None, None, None, Some((3, 8)), None]);
        assert_eq!([Source::Before; 3].map(reported), [None, None, Some((6, 8))]);
        assert_eq!(control.credit(), Cells::ZERO, "own cells use credit, too");
    }

    #[test]
    fn a_fall_of_n3_by_n2_is_reported_immediately_and_a_smaller_fall_with_the_next_credit() {
        let mut control = middle(adaptive());
        (0..4).for_each(|_| assert_eq!(control.on_sent(T, Source::Before), None));
        // 500 e^(-2) = 67
        let credit = control.on_tick(T, slow(506, 100)).feedback.expect("N3 fell by more than N2");
        assert_eq!((credit.forwarded, credit.allowance), (4, 110));
        assert_eq!(
            control.on_tick(T, slow(506, 100)),
            Ticked { feedback: None, again: true },
            "N3 is at its minimum"
        );
        // N3 grows by one at each tick, and falls by less than N2. Both changes wait for the next
        // credit.
        (0..9).for_each(|_| assert_eq!(control.on_tick(T, slow(506, 0)).feedback, None));
        assert_eq!(control.on_tick(T, slow(506, 21)).feedback, None);
        let credits: Vec<_> = (0..10).filter_map(|_| control.on_sent(T, Source::Before)).collect();
        assert_eq!(
            credits.iter().map(|credit| (credit.forwarded, credit.allowance)).collect::<Vec<_>>(),
            [(14, 110)]
        );
    }

    #[test]
    fn a_waiting_circuit_reports_a_fall_of_n3_immediately() {
        let mut control = middle(adaptive());
        let ticked = control.on_tick(T, slow(510, 100));
        let credit = ticked.feedback.expect("N3 fell by more than N2 while cells wait for credit");
        assert_eq!((credit.forwarded, credit.allowance), (0, 110));
        assert!(ticked.again);
    }

    #[test]
    fn an_idle_circuit_sends_no_credit_until_it_is_used() {
        let mut control = middle(adaptive());
        assert_eq!(control.on_tick(T, slow(0, 100)), Ticked { feedback: None, again: true });
        (0..10).for_each(|_| _ = control.on_sent(T, Source::Before));
        let reported = control.before.map(|grant| grant.allowance());
        assert_eq!(reported, Some(110), "the next credit reports it");
        for tick in 1..=401 {
            let again = control.on_tick(T, slow(0, 0)).again;
            assert_eq!(again, tick < 400, "N3 is at its start value after forty seconds: {tick}");
        }
    }
}
