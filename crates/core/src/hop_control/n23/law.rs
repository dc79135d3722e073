use super::super::HopSignals;
use super::{ExponentialConfig, Kung94Config, MAX_N3, MIN_N3};
use penstock_units::Duration;

/// How N3 adapts: the interval, the congestion signal and the control law.
///
/// Source: DefenestraTor §4.2: periodically, by the delay in the connection's output buffer, from 100 to 500 cells. The
/// paper prints no formula. Penstock's formulas are in [`ExponentialConfig`] and [`Kung94Config`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptConfig {
    /// Time between adjustments [ns].
    pub interval: Duration,
    /// True: the delay ends when the kernel has sent the cell. False: it ends when the kernel has taken the cell from
    /// the output buffer.
    pub kernel: bool,
    /// How N3 follows the congestion signal.
    pub law: LawConfig,
}

impl Default for AdaptConfig {
    fn default() -> Self {
        let law = LawConfig::Exponential(ExponentialConfig::default());
        AdaptConfig { interval: Duration::from_millis(100), kernel: false, law }
    }
}

/// A control law of N3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LawConfig {
    /// N3 falls by a factor that depends on the delay, and grows by a step.
    Exponential(ExponentialConfig),
    /// Circuits share a pool in proportion to the cells that they moved recently.
    Kung94(Kung94Config),
}

/// The control law of one direction of a circuit; `None` keeps N3 constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law(Option<LawConfig>);

impl Law {
    pub(super) fn new(adapt: Option<AdaptConfig>) -> Self {
        Law(adapt.map(|adapt| adapt.law))
    }

    /// The new N3 after a period in which the circuit moved `moved` cells [cell].
    pub(super) fn adjust(&self, n3: u64, moved: u64, signals: &HopSignals) -> u64 {
        let wanted = match &self.0 {
            None => return n3,
            Some(LawConfig::Exponential(config)) => config.adjust(n3, signals.link.delay),
            Some(LawConfig::Kung94(config)) => config.adjust(n3, moved, signals.link),
        };
        wanted.clamp(MIN_N3.into(), MAX_N3.into())
    }

    /// Whether N3 still changes when there is no traffic.
    pub(super) fn recovers(&self, n3: u64) -> bool {
        matches!(self.0, Some(LawConfig::Exponential(config)) if config.step > 0) && n3 < MAX_N3.into()
    }
}
