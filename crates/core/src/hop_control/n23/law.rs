//! How N3 follows congestion: one law or another, or none.

use super::super::HopSignals;
use super::{ExponentialConfig, Kung94Config, MAX_N3, MIN_N3};
use penstock_units::Duration;

/// How often N3 is adjusted, by what, and how.
///
/// Source: DefenestraTor §4.2: periodically, by the delay in the connection's output buffer, from 100 to 500 cells.
/// The paper prints no formula; those of the laws are ours, see [`ExponentialConfig`] and [`Kung94Config`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptConfig {
    /// Time between adjustments [ns].
    pub interval: Duration,
    /// Delays count until the kernel has sent a cell, instead of until it took it.
    pub kernel: bool,
    /// What is done.
    pub law: LawConfig,
}

impl Default for AdaptConfig {
    fn default() -> Self {
        let law = LawConfig::Exponential(ExponentialConfig::default());
        AdaptConfig { interval: Duration::from_millis(100), kernel: false, law }
    }
}

/// One of the laws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LawConfig {
    /// Falls by a factor that the delay decides, grows by a step.
    Exponential(ExponentialConfig),
    /// Shares a pool by what each circuit used of late.
    Kung94(Kung94Config),
}

/// The law of one circuit and direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law(Option<LawConfig>);

impl Law {
    pub(super) fn new(adapt: Option<AdaptConfig>) -> Self {
        Law(adapt.map(|adapt| adapt.law))
    }

    /// N3 after a period in which the circuit moved so many cells [cell].
    pub(super) fn adjust(&self, n3: u64, moved: u64, signals: &HopSignals) -> u64 {
        let wanted = match &self.0 {
            None => return n3,
            Some(LawConfig::Exponential(config)) => config.adjust(n3, signals.link.delay),
            Some(LawConfig::Kung94(config)) => config.adjust(n3, moved, signals.link),
        };
        wanted.clamp(MIN_N3.into(), MAX_N3.into())
    }

    /// Whether N3 goes on changing while nothing happens.
    pub(super) fn recovers(&self, n3: u64) -> bool {
        matches!(self.0, Some(LawConfig::Exponential(config)) if config.step > 0) && n3 < MAX_N3.into()
    }
}
