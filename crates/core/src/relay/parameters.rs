//! What the authorities ask of all relays of a network, while they run: parameters of the consensus.

use super::Relay;
use crate::cell::Cell;
use crate::circuit_policy::CircuitPolicy;
use crate::edge_control::{EdgeControlConfig, VegasConfig, WindowsConfig};
use crate::scheduler::Scheduler;
use penstock_units::{Duration, Instant};
use std::num::NonZeroU8;
use std::sync::Arc;

/// What a relay is to do from now on; `None` leaves it as it is. What the relay's algorithms do not have they do not mind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Half-life of circuits' counts [ns] (`CircuitPriorityHalflifeMsec`).
    pub half_life: Option<Duration>,
    /// Least time between two runs of C tor's KIST and KISTLite [ns], above zero (`KISTSchedRunInterval`).
    pub run_interval: Option<Duration>,
    /// DATA cells that circuits with windows may have unacknowledged at first [cell] (`circwindow`).
    pub circuit_window: Option<u32>,
    /// Whether who asks for Vegas is granted it (`cc_alg`).
    pub grants_vegas: Option<bool>,
    /// Cells that one SENDME acknowledges with Vegas [cell] (`cc_sendme_inc`).
    pub sendme_inc: Option<NonZeroU8>,
}

impl<C: Cell> Relay<C> {
    /// Takes over what is asked. Circuits that are there keep what their ends agreed on, and the windows that they have.
    ///
    /// Source: C tor `kist_scheduler_on_new_consensus()`, `cmux_ewma_set_options()`,
    /// `congestion_control_new_consensus_params()`, `circuit_initial_package_window()`.
    pub fn apply_parameters(&mut self, now: Instant, parameters: Parameters) {
        let Parameters { half_life, run_interval, circuit_window, grants_vegas, sendme_inc } = parameters;
        if let Some(half_life) = half_life {
            self.set_half_life(now, half_life);
        }
        let config = Arc::make_mut(&mut self.node.config);
        if let Some(interval) = run_interval {
            config.scheduler.set_run_interval(interval);
            self.scheduler.set_run_interval(interval);
        }
        let (windows, vegas) = match &mut config.edge_control {
            EdgeControlConfig::Windows(windows) => (windows, None),
            EdgeControlConfig::Vegas(VegasConfig { windows, offered, sendme_inc, .. }) => {
                (windows, Some((offered, sendme_inc)))
            }
            // Of no consensus.
            EdgeControlConfig::Dynamic(_)
            | EdgeControlConfig::Dctcp(_)
            | EdgeControlConfig::Timely(_)
            | EdgeControlConfig::Custom { .. } => return,
        };
        let (least, most) = WindowsConfig::CIRCUIT_RANGE;
        windows.circuit_window =
            circuit_window.map_or(windows.circuit_window, |cells| cells.clamp(least, most));
        if let Some((offered, increment)) = vegas {
            *offered = grants_vegas.unwrap_or(*offered);
            *increment = sendme_inc.unwrap_or(*increment);
        }
    }

    /// Circuits' counts have another half-life from now on; counts stay. Policies that have none do not mind.
    pub(super) fn set_half_life(&mut self, now: Instant, half_life: Duration) {
        Arc::make_mut(&mut self.node.config).circuit_policy.set_half_life(half_life);
        for (_, channel) in &mut self.node.channels {
            channel.policy.set_half_life(now, half_life);
        }
    }
}
