//! The control laws of N3.

use super::super::HopSignals;
use super::{ExponentialConfig, Kung94Config, MAX_N3, MIN_N3};
use penstock_units::Duration;

/// The adjustment of N3: its interval, its signal, and its law.
///
/// Source: DefenestraTor §4.2: periodically, by the delay in the connection's output buffer, from 100 to 500 cells. The
/// paper prints no formula; those of the laws are ours, see [`ExponentialConfig`] and [`Kung94Config`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptConfig {
    /// Time between adjustments [ns].
    pub interval: Duration,
    /// Measure delays until the kernel has sent a cell, not until it took the cell.
    pub kernel: bool,
    /// The control law.
    pub law: LawConfig,
}

impl Default for AdaptConfig {
    fn default() -> Self {
        let law = LawConfig::Exponential(ExponentialConfig::default());
        AdaptConfig { interval: Duration::from_millis(100), kernel: false, law }
    }
}

/// A control law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LawConfig {
    /// N3 falls by a factor that depends on the delay, and grows by a step.
    Exponential(ExponentialConfig),
    /// Circuits share a pool in proportion to recent use.
    Kung94(Kung94Config),
}

/// The law of one circuit and direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law(Option<LawConfig>);

impl Law {
    pub(super) fn new(adapt: Option<AdaptConfig>) -> Self {
        Law(adapt.map(|adapt| adapt.law))
    }

    /// N3 after a period in which the circuit moved this many cells [cell].
    pub(super) fn adjust(&self, n3: u64, moved: u64, signals: &HopSignals) -> u64 {
        let wanted = match &self.0 {
            None => return n3,
            Some(LawConfig::Exponential(config)) => config.adjust(n3, signals.link.delay),
            Some(LawConfig::Kung94(config)) => config.adjust(n3, moved, signals.link),
        };
        wanted.clamp(MIN_N3.into(), MAX_N3.into())
    }

    /// Whether N3 still changes without traffic.
    pub(super) fn recovers(&self, n3: u64) -> bool {
        matches!(self.0, Some(LawConfig::Exponential(config)) if config.step > 0) && n3 < MAX_N3.into()
    }
}
