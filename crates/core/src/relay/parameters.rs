use super::Relay;
use crate::cell::Cell;
use crate::circuit_policy::CircuitPolicy;
use crate::conflux::MAX_LEGS;
use crate::edge_control::{EdgeControlConfig, VegasConfig, WindowsConfig};
use crate::scheduler::Scheduler;
use penstock_units::{Duration, Instant};
use std::num::NonZeroU8;
use std::sync::Arc;

/// Consensus parameters that can change while a relay runs; `None` keeps the current value. An algorithm ignores
/// parameters that do not concern it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Half-life of the circuits' cell counts [ns] (`CircuitPriorityHalflifeMsec`).
    pub half_life: Option<Duration>,
    /// Minimum time between two runs of C tor's KIST or KISTLite [ns], above zero (`KISTSchedRunInterval`).
    pub run_interval: Option<Duration>,
    /// Initial window of a circuit with fixed windows [cell] (`circwindow`).
    pub circuit_window: Option<u32>,
    /// Whether the relay agrees to Vegas when a client requests it (`cc_alg`).
    pub grants_vegas: Option<bool>,
    /// The number of cells that one SENDME acknowledges with Vegas [cell] (`cc_sendme_inc`).
    pub sendme_inc: Option<NonZeroU8>,
    /// Whether nodes with N23 use it (DefenestraTor §6.3). A change applies to links that open later.
    pub n23: Option<bool>,
    /// Whether nodes with Conflux link circuits (`cfx_enabled`). Linked circuits stay linked.
    pub conflux: Option<bool>,
    /// The number of legs of this client's new sets [1] (`cfx_num_legs_set`).
    pub conflux_legs: Option<u8>,
}

impl<C: Cell> Relay<C> {
    /// Applies new parameters. Existing circuits keep their windows and their congestion control.
    ///
    /// Source: C tor `kist_scheduler_on_new_consensus()`, `cmux_ewma_set_options()`,
    /// `congestion_control_new_consensus_params()`, `circuit_initial_package_window()`.
    pub fn apply_parameters(&mut self, now: Instant, parameters: Parameters) {
        let Parameters { half_life, run_interval, circuit_window, grants_vegas, sendme_inc, .. } = parameters;
        if let Some(half_life) = half_life {
            self.set_half_life(now, half_life);
        }
        let config = Arc::make_mut(&mut self.parts.config);
        if let Some(interval) = run_interval {
            config.scheduler.set_run_interval(interval);
            self.scheduler.set_run_interval(interval);
        }
        if let Some(active) = parameters.n23 {
            config.hop_control.set_active(active);
        }
        if let Some(linking) = &mut config.conflux {
            linking.active = parameters.conflux.unwrap_or(linking.active);
            linking.legs = parameters.conflux_legs.unwrap_or(linking.legs).min(MAX_LEGS as u8);
        }
        let (windows, vegas) = match &mut config.edge_control {
            EdgeControlConfig::Windows(windows) => (windows, None),
            EdgeControlConfig::Vegas(VegasConfig { windows, offered, bounds, .. }) => {
                (windows, Some((offered, &mut bounds.sendme_inc)))
            }
            // The consensus has no parameters for these algorithms.
            EdgeControlConfig::Dynamic(_)
            | EdgeControlConfig::Dctcp(_)
            | EdgeControlConfig::Timely(_)
            | EdgeControlConfig::Custom { .. } => return,
        };
        let (min, max) = WindowsConfig::CIRCUIT_RANGE;
        windows.circuit_window = circuit_window.map_or(windows.circuit_window, |cells| cells.clamp(min, max));
        if let Some((offered, increment)) = vegas {
            *offered = grants_vegas.unwrap_or(*offered);
            *increment = sendme_inc.unwrap_or(*increment);
        }
    }

    pub(super) fn set_half_life(&mut self, now: Instant, half_life: Duration) {
        Arc::make_mut(&mut self.parts.config).circuit_policy.set_half_life(half_life);
        for channel in self.parts.channels.values_mut() {
            channel.policy.set_half_life(now, half_life);
        }
    }
}
