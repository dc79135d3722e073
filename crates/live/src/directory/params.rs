//! Consensus parameters.
//!
//! Source: dir-spec, "Consensus parameters"; the ranges of values are those of C tor.

use penstock_core::Parameters;
use penstock_core::throttle::{Aggregate, ClientBuckets, StaticRateConfig, ThrottleConfig};
use penstock_link::cell::IntroLimit;
use penstock_link::keys::Rotation;
use penstock_network::document::{Malformed, pair};
use penstock_units::{Bytes, DataRate, Duration};
use std::collections::BTreeMap;
use std::num::NonZeroU8;

/// Consensus parameters by name. A missing parameter has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(BTreeMap<String, i32>);

/// Settings in the torrc that override the consensus. True means that the torrc sets the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorOverrides {
    /// Half-life of EWMA (C tor: `CircuitPriorityHalflife`).
    pub half_life: bool,
    /// Interval between two runs of KIST (C tor: `KISTSchedRunInterval`).
    pub run_interval: bool,
    /// SENDME windows and congestion control.
    pub edge_control: bool,
    /// Rate limit of client connections (C tor: `PerConnBWRate`).
    pub throttle: bool,
    /// Linked circuits (C tor: `ConfluxEnabled`).
    pub conflux: bool,
}

/// Congestion control algorithm of circuits (proposal 324).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionAlgorithm {
    /// Value 0: SENDME windows.
    Windows,
    /// Value 2: Vegas.
    Vegas,
}

impl Params {
    /// Parses `name=value` pairs. If a name occurs twice, the last value counts.
    pub fn read(arguments: &str) -> Result<Params, Malformed> {
        let value = |text: &str| {
            let (name, value) = pair(text).map_err(|_| Malformed)?;
            Ok((name.to_owned(), i32::try_from(value).map_err(|_| Malformed)?))
        };
        arguments.split_ascii_whitespace().map(value).collect::<Result<_, _>>().map(Params)
    }

    /// The value of a parameter, limited to `range`.
    ///
    /// Source: C tor `networkstatus_get_param()`.
    pub fn get(&self, name: &str, default: i32, range: std::ops::RangeInclusive<i32>) -> i32 {
        self.0.get(name).map_or(default, |value| *value.clamp(range.start(), range.end()))
    }

    /// The half-life of EWMA.
    pub fn half_life(&self) -> Duration {
        let millis = self.get("CircuitPriorityHalflifeMsec", 30_000, 1..=i32::MAX);
        Duration::from_millis(millis.unsigned_abs().into())
    }

    /// The interval between two scheduling rounds of KIST.
    ///
    /// Source: C tor 0.4.9.11, `KIST_SCHED_RUN_INTERVAL_DEFAULT`, `_MIN` and `_MAX`.
    pub fn kist_interval(&self) -> Duration {
        Duration::from_millis(self.get("KISTSchedRunInterval", 2, 2..=100).unsigned_abs().into())
    }

    /// The initial package window of a circuit [cell].
    pub fn circuit_window(&self) -> u32 {
        self.get("circwindow", 1000, 100..=1000).unsigned_abs()
    }

    /// The congestion control algorithm that exits grant on request.
    pub fn congestion(&self) -> CongestionAlgorithm {
        match self.get("cc_alg", 2, 0..=2) {
            2 => CongestionAlgorithm::Vegas,
            _ => CongestionAlgorithm::Windows,
        }
    }

    /// The number of cells per SENDME with congestion control [cell].
    pub fn sendme_cells(&self) -> u8 {
        self.get("cc_sendme_inc", 31, 1..=254) as u8
    }

    /// Whether relays with N23 use it (DefenestraTor §6.3). C tor does not know this parameter.
    pub fn n23(&self) -> bool {
        self.get("n23", 1, 0..=1) == 1
    }

    /// Whether nodes with Conflux link circuits. Source: C tor `conflux_params_new_consensus()`.
    pub fn conflux(&self) -> bool {
        self.get("cfx_enabled", 1, 0..=1) == 1
    }

    /// The limit on the introductions of an onion service that asks for none.
    ///
    /// Source: param-spec, "Denial-of-service parameters"; C tor `hs_dos.c`.
    pub fn introduction_limit(&self) -> Option<IntroLimit> {
        let value = |name, default| self.get(name, default, 0..=i32::MAX).unsigned_abs();
        let rate = value("HiddenServiceEnableIntroDoSRatePerSec", 25);
        let burst = value("HiddenServiceEnableIntroDoSBurstPerSec", 200);
        let is_enabled = self.get("HiddenServiceEnableIntroDoSDefense", 0, 0..=1) == 1;
        is_enabled.then_some(IntroLimit { rate, burst })
    }

    /// The number of legs of a client's sets of linked circuits [1]. Source: C tor `conflux_params_new_consensus()`.
    pub fn conflux_legs(&self) -> u8 {
        self.get("cfx_num_legs_set", 2, 0..=255) as u8
    }

    /// Rate [B/s] and burst [B] of client connections, if the consensus limits them.
    pub fn connection_bandwidth(&self) -> Option<[u32; 2]> {
        let rate = self.get("perconnbwrate", 0, 0..=i32::MAX).unsigned_abs();
        let burst = self.get("perconnbwburst", 0, 0..=i32::MAX).unsigned_abs();
        (rate > 0).then_some([rate, burst.max(rate)])
    }

    /// The throttle of client connections, for the core.
    pub fn throttle(&self) -> (ThrottleConfig, ClientBuckets) {
        let Some([rate, burst]) = self.connection_bandwidth() else { return Default::default() };
        let rate = DataRate::new(rate.into()).expect("it is above zero");
        let buckets = ClientBuckets { burst: Bytes::new(burst.into()), aggregate: Aggregate::Connection };
        (ThrottleConfig::Static(StaticRateConfig { rate }), buckets)
    }

    /// The parameters for the core, without those that the operator fixes.
    pub fn core(&self, overrides: OperatorOverrides) -> Parameters {
        let edge_control = !overrides.edge_control;
        Parameters {
            half_life: (!overrides.half_life).then(|| self.half_life()),
            run_interval: (!overrides.run_interval).then(|| self.kist_interval()),
            circuit_window: edge_control.then(|| self.circuit_window()),
            grants_vegas: edge_control.then(|| self.congestion() == CongestionAlgorithm::Vegas),
            sendme_inc: NonZeroU8::new(self.sendme_cells()).filter(|_| edge_control),
            n23: Some(self.n23()),
            conflux: (!overrides.conflux).then(|| self.conflux()),
            conflux_legs: Some(self.conflux_legs()),
        }
    }

    /// The lifetime of onion keys.
    pub fn onion_keys(&self) -> Rotation {
        let lifetime = self.get("onion-key-rotation-days", 28, 1..=90).unsigned_abs();
        Rotation::of_days(lifetime, self.get("onion-key-grace-period-days", 7, 1..=90).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parameters_have_their_default() {
        let params = Params::default();
        assert_eq!(params.half_life(), Duration::from_secs(30));
        assert_eq!(params.kist_interval(), Duration::from_millis(2));
        assert_eq!((params.circuit_window(), params.sendme_cells()), (1000, 31));
        assert_eq!((params.congestion(), params.connection_bandwidth()), (CongestionAlgorithm::Vegas, None));
        assert_eq!(params.onion_keys(), Rotation::default());
    }

    #[test]
    fn values_are_limited_to_their_range() {
        let params = Params::read(
            "CircuitPriorityHalflifeMsec=-5 KISTSchedRunInterval=1000 circwindow=5 cc_alg=0 cc_sendme_inc=1000 \
             perconnbwrate=7 x=1",
        );
        let params = params.unwrap();
        assert_eq!(params.half_life(), Duration::from_millis(1));
        assert_eq!(params.kist_interval(), Duration::from_millis(100));
        assert_eq!((params.circuit_window(), params.sendme_cells()), (100, 254));
        assert_eq!(params.congestion(), CongestionAlgorithm::Windows);
        assert_eq!(params.connection_bandwidth(), Some([7, 7]));
    }

    #[test]
    fn settings_of_the_operator_stay() {
        let params = Params::read(
            "KISTSchedRunInterval=5 circwindow=500 cc_alg=0 cc_sendme_inc=40 cfx_num_legs_set=3",
        )
        .unwrap();
        let all = Parameters {
            half_life: Some(Duration::from_secs(30)),
            run_interval: Some(Duration::from_millis(5)),
            circuit_window: Some(500),
            grants_vegas: Some(false),
            sendme_inc: NonZeroU8::new(40),
            n23: Some(true),
            conflux: Some(true),
            conflux_legs: Some(3),
        };
        assert_eq!(params.core(OperatorOverrides::default()), all);
        let overrides = OperatorOverrides { half_life: true, ..OperatorOverrides::default() };
        assert_eq!(params.core(overrides), Parameters { half_life: None, ..all });
        let overrides = OperatorOverrides { run_interval: true, ..OperatorOverrides::default() };
        assert_eq!(params.core(overrides), Parameters { run_interval: None, ..all });
        let overrides = OperatorOverrides {
            half_life: true,
            run_interval: true,
            edge_control: true,
            throttle: true,
            conflux: true,
        };
        let both = Parameters { n23: Some(true), conflux_legs: Some(3), ..Parameters::default() };
        assert_eq!(params.core(overrides), both);
        // The operator cannot override the network's decision, because all nodes of a circuit need the same one.
        let off = Params::read("n23=0 cfx_enabled=0").unwrap();
        assert_eq!(off.core(overrides), Parameters { n23: Some(false), conflux_legs: Some(2), ..both });
        assert_eq!(off.core(OperatorOverrides::default()).conflux, Some(false));
    }

    #[test]
    fn a_value_that_is_not_a_number_is_malformed() {
        for text in ["a", "a=", "a=b", "a=1 b", "a=2147483648"] {
            assert_eq!(Params::read(text), Err(Malformed), "{text}");
        }
        assert_eq!(Params::read(""), Ok(Params::default()));
    }
}
