//! Options of the relay core. The parser converts options of C tor to keys of the section `[relay]` of a scenario.
//! `Penstock` lines already have these keys.

use super::reader::{Reader, key_of};
use super::values::{self, bandwidth};
use super::{LEAST_RATE, ONE_GBYTE, Place, TorrcError};
use super::{ValueError, invalid};
use crate::directory::{OperatorOverrides, Params};
use penstock_core::RelayConfig;
use penstock_core::conflux::{ConfluxConfig, DesiredUx};
use penstock_core::edge_control::EdgeControlConfig;
use penstock_core::hop_control::HopControlConfig;
use penstock_core::scheduler::SchedulerConfig;
use penstock_scenario::relay_config;

/// A line for the scenario parser, with the name and the place of its torrc option.
struct Setting {
    line: String,
    option: &'static str,
    place: Place,
}

/// Reads the core's settings, the descriptor's rate [B/s] and burst [B], and the settings that override the consensus.
pub(super) fn config(read: &mut Reader) -> Result<(RelayConfig, [u64; 2], OperatorOverrides), TorrcError> {
    let mut settings = Vec::new();
    let advertised = rates(read, &mut settings)?;
    clients(read, &mut settings)?;
    let refill = read.placed("TokenBucketRefillInterval", |text| values::milliseconds(text, 1, 1000))?;
    if let Some((interval, place)) = refill {
        let line = format!("refill_unblock = '{} ms'", interval.as_millis());
        settings.push(Setting { line, option: "TokenBucketRefillInterval", place });
    }
    if let Some((Some(half_life), place)) = read.placed("CircuitPriorityHalflife", half_life)? {
        let line = format!("circuit_policy.half_life = '{half_life} ms'");
        settings.push(Setting { line, option: "CircuitPriorityHalflife", place });
    }
    let says_interval = scheduler(read, &mut settings)?;
    let factor = read.placed("KISTSockBufSizeFactor", factor)?;
    // The remaining `Penstock` lines are settings of the core.
    for key in super::PROGRAM_KEYS {
        read.penstock(key, |_| Ok(()))?;
    }
    let rest = read.penstock_rest().into_iter();
    settings.extend(rest.map(|(line, place)| Setting { line, option: "Penstock", place }));

    let lines: Vec<&str> = settings.iter().map(|setting| &setting.line[..]).collect();
    let relay = relay_config(&lines).map_err(|error| {
        let setting = error.index().and_then(|line| settings.get(line));
        let (place, option) = setting.map_or((read.end(), "Penstock"), |it| (it.place.clone(), it.option));
        TorrcError::new(&place, option, error)
    })?;
    for (line, warning) in &relay.warnings {
        read.warn(&settings[*line].place, settings[*line].option, warning);
    }
    let mut config = relay.config;
    if let (SchedulerConfig::KistDeployed(kist), Some((factor, _))) = (&mut config.scheduler, &factor) {
        kist.factor = *factor;
    } else if let Some((_, place)) = factor {
        read.warn(
            &place,
            "KISTSockBufSizeFactor",
            "the scheduler is not C tor's KIST, so this has no effect",
        );
    }
    warn_of_rounds(read, &config, &settings);
    refuse(&config, &settings)?;
    let says_conflux = conflux(read, &mut config, &settings)?;
    config.limits.memory = Some(super::memory::limit(read)?);
    let mut overrides = overrides(&settings);
    overrides.run_interval |= says_interval;
    overrides.conflux = says_conflux;
    Ok((config, advertised, overrides))
}

/// BackTap and Marut measure how long the next node keeps a cell. They take the wait for a round as a queue.
fn warn_of_rounds(read: &mut Reader, config: &RelayConfig, settings: &[Setting]) {
    let has_rounds = !matches!(config.scheduler, SchedulerConfig::Vanilla(_) | SchedulerConfig::Custom(_));
    let measures = matches!(config.hop_control, HopControlConfig::BackTap(_) | HopControlConfig::Marut(_));
    let setting = settings.iter().find(|setting| key_of(&setting.line) == "hop_control");
    if let Some(setting) = setting.filter(|_| has_rounds && measures) {
        let warning = "links without datagrams slow circuits down, because the scheduler writes them in rounds, which \
                       look like queues; add Penstock scheduler = { kind = 'vanilla', outbuf_low = '1 KiB', outbuf_high \
                       = '1 KiB' }";
        read.warn(&setting.place, setting.option, warning);
    }
}

fn overrides(settings: &[Setting]) -> OperatorOverrides {
    let says = |key| settings.iter().any(|setting| ["preset", key].contains(&key_of(&setting.line)));
    let names_scheduler =
        |setting: &Setting| setting.option == "Penstock" && key_of(&setting.line) == "scheduler";
    OperatorOverrides {
        half_life: says("circuit_policy"),
        run_interval: says("preset") || settings.iter().any(names_scheduler),
        edge_control: says("edge_control"),
        throttle: says("throttle"),
        conflux: false,
    }
}

/// Reads `ConfluxEnabled` and `ConfluxClientUX`. Without `ConfluxEnabled`, a `Penstock` line decides. Without both, nodes
/// with congestion control have Conflux, and the consensus can disable it. Returns whether the torrc decides.
///
/// Source: C tor `conflux_is_enabled()`, `options_validate_cb()`.
fn conflux(read: &mut Reader, config: &mut RelayConfig, settings: &[Setting]) -> Result<bool, TorrcError> {
    let said = read.placed("ConfluxEnabled", values::auto_flag)?;
    let client_ux = read.one("ConfluxClientUX", client_ux)?.unwrap_or_default();
    let has_vegas = matches!(config.edge_control, EdgeControlConfig::Vegas(_));
    if let Some((Some(true), place)) = &said
        && !has_vegas
    {
        let why =
            "linked circuits need congestion control, which edge_control disables, so this has no effect";
        read.warn(place, "ConfluxEnabled", why);
    }
    let has = |key| settings.iter().any(|setting| key_of(&setting.line) == key);
    let decided = match said {
        Some((said, _)) => said,
        None if has("conflux") => Some(config.conflux.is_some()),
        // A preset without Conflux disables it.
        None => Some(false).filter(|_| has("preset") && config.conflux.is_none()),
    };
    let linking = ConfluxConfig { client_ux, ..ConfluxConfig::TOR_0_4_9 };
    config.conflux = (has_vegas && decided != Some(false)).then_some(linking);
    Ok(decided.is_some())
}

fn client_ux(text: &str) -> Result<DesiredUx, ValueError> {
    match text {
        "throughput" => Ok(DesiredUx::HighThroughput),
        "latency" => Ok(DesiredUx::MinLatency),
        "throughput_lowmem" => Ok(DesiredUx::LowMemThroughput),
        "latency_lowmem" => Ok(DesiredUx::LowMemLatency),
        _ => Err(invalid!("{text:?} must be throughput, latency, throughput_lowmem or latency_lowmem")),
    }
}

/// Refuses settings that live relays do not support.
fn refuse(config: &RelayConfig, settings: &[Setting]) -> Result<(), TorrcError> {
    let wrong = |key: &str, why: &str| {
        let is_it = |line| key_of(line) == key || (key == "ecn_threshold" && key_of(line) == "mark_above");
        let is_preset = |setting: &&Setting| key_of(&setting.line) == "preset";
        let setting = settings.iter().find(|setting| is_it(&setting.line));
        let setting = setting.or_else(|| settings.iter().find(is_preset));
        let place = setting.map_or(Place::CommandLine, |setting| setting.place.clone());
        Err(TorrcError::new(&place, "Penstock", format!("{key}: {why}")))
    };
    if matches!(config.hop_control, HopControlConfig::Custom { .. }) {
        return wrong("hop_control", "live relays support only built-in kinds; write one of them");
    }
    if config.ecn_threshold.is_some() {
        return wrong("ecn_threshold", "cells of the real network cannot be marked; remove it");
    }
    if matches!(config.edge_control, EdgeControlConfig::Dctcp(_)) {
        return wrong("edge_control", "\"dctcp\" needs marks, which cells of the real network do not have");
    }
    Ok(())
}

/// Reads `BandwidthRate` and `RelayBandwidthRate` with their bursts. The smaller values apply.
/// Source: C tor `get_effective_bwrate()`, `options_validate_relay_bandwidth()`, `router_get_advertised_bandwidth()`.
/// Deviation: both limits share one pair of buckets, because all traffic of this relay is relayed. If neither is set,
/// the bandwidth is unlimited. C tor's default is 1 GByte.
fn rates(read: &mut Reader, settings: &mut Vec<Setting>) -> Result<[u64; 2], TorrcError> {
    let own_rate = read.placed("BandwidthRate", bandwidth)?;
    let own_burst = read.placed("BandwidthBurst", bandwidth)?;
    let relay_rate = read.placed("RelayBandwidthRate", bandwidth)?.filter(|(rate, _)| *rate > 0);
    let relay_burst = read.placed("RelayBandwidthBurst", bandwidth)?.filter(|(burst, _)| *burst > 0);
    // If only one of rate and burst is set, the other has the same value.
    let (relay_rate, relay_burst) = (relay_rate.clone().or(relay_burst.clone()), relay_burst.or(relay_rate));
    for (option, rate) in [("BandwidthRate", &own_rate), ("RelayBandwidthRate", &relay_rate)] {
        if let Some((rate, place)) = rate
            && *rate < LEAST_RATE
        {
            let why = format!(
                "{rate} bytes per second are too few; a relay needs at least 75 KBytes ({LEAST_RATE})"
            );
            return Err(TorrcError::new(place, option, why));
        }
    }
    for (option, rate, burst) in
        [("BandwidthBurst", &own_rate, &own_burst), ("RelayBandwidthBurst", &relay_rate, &relay_burst)]
    {
        let rate = rate.as_ref().map(|(rate, _)| *rate);
        if let Some((burst, place)) = burst
            && *burst < rate.unwrap_or(0)
        {
            let why =
                format!("{burst} bytes are less than the rate; it must be at least {}", rate.unwrap_or(0));
            return Err(TorrcError::new(place, option, why));
        }
    }
    let least = |one: Option<(u64, Place)>, other: Option<(u64, Place)>| {
        one.into_iter().chain(other).min_by_key(|(bytes, _)| *bytes)
    };
    let option = if relay_rate.is_some() { "RelayBandwidthRate" } else { "BandwidthRate" };
    let (rate, burst) = (least(own_rate, relay_rate), least(own_burst, relay_burst));
    let limit = read.one("MaxAdvertisedBandwidth", bandwidth)?.unwrap_or(values::MOST_BYTES);
    let shown = rate.as_ref().map_or(ONE_GBYTE, |(rate, _)| *rate).min(limit);
    let depth = burst.as_ref().map_or(ONE_GBYTE, |(burst, _)| *burst);
    match rate {
        Some((rate, place)) => {
            settings.push(Setting {
                line: format!("bandwidth_rate = '{rate} B/s'"),
                option,
                place: place.clone(),
            });
            settings.push(Setting {
                line: format!("bandwidth_burst = '{} B'", depth.max(rate)),
                option,
                place,
            });
        }
        None => {
            if let Some((_, place)) = burst {
                read.warn(&place, "BandwidthBurst", "there is no BandwidthRate, so this has no effect here");
            }
        }
    }
    Ok([shown, depth.max(shown)])
}

/// Reads `PerConnBWRate` and `PerConnBWBurst`. If only one is set, the other is 1 GByte.
/// Source: C tor `connection_or_update_token_buckets_helper()`.
fn clients(read: &mut Reader, settings: &mut Vec<Setting>) -> Result<(), TorrcError> {
    let rate = read.placed("PerConnBWRate", bandwidth)?.filter(|(rate, _)| *rate > 0);
    let burst = read.placed("PerConnBWBurst", bandwidth)?.filter(|(burst, _)| *burst > 0);
    let Some((_, place)) = burst.clone().or(rate.clone()) else { return Ok(()) };
    let [rate, burst] = [rate, burst].map(|given| given.map_or(ONE_GBYTE, |(bytes, _)| bytes));
    if burst < rate / 10 {
        let why = format!("{burst} bytes are less than one refill; it must be at least {}", rate / 10);
        return Err(TorrcError::new(&place, "PerConnBWBurst", why));
    }
    let line = format!("throttle = {{ kind = 'static', rate = '{rate} B/s', burst = '{burst} B' }}");
    settings.push(Setting { line, option: "PerConnBWRate", place });
    Ok(())
}

/// Parses a time [s] and returns it [ms]. The value `-1` means the default.
fn half_life(text: &str) -> Result<Option<u64>, ValueError> {
    let wrong = || invalid!("{text:?} must be -1, or 1 to 2147483647 seconds");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds == -1.0 {
        return Ok(None);
    }
    if (1.0..=2_147_483_647.0).contains(&seconds) {
        Ok(Some((seconds * 1000.0) as u64))
    } else {
        Err(wrong())
    }
}

fn factor(text: &str) -> Result<f64, ValueError> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
    factor.ok_or_else(|| invalid!("{text:?} must be a number that is not negative"))
}

/// Reads the first supported scheduler. Returns whether the torrc sets the scheduler's interval.
fn scheduler(read: &mut Reader, settings: &mut Vec<Setting>) -> Result<bool, TorrcError> {
    let chosen = read.placed("Schedulers", |text| {
        let names = text.split([',', ' ', '\t']).filter(|name| !name.is_empty());
        let names: Result<Vec<_>, ValueError> = names
            .map(|name| match &name.to_ascii_lowercase()[..] {
                "kist" => Ok("kist-deployed"),
                "kistlite" => Ok("kist-lite"),
                "vanilla" => Ok("vanilla"),
                _ => Err(invalid!("{name:?} is no scheduler of C tor; write KIST, KISTLite or Vanilla")),
            })
            .collect();
        names?.first().copied().ok_or_else(|| "write KIST, KISTLite or Vanilla".into())
    })?;
    let interval = read.placed("KISTSchedRunInterval", |text| values::milliseconds(text, 0, 100))?;
    let interval = interval.filter(|(interval, _)| !interval.is_zero());
    let says_interval = interval.is_some();
    match (chosen, interval) {
        (Some(("vanilla", place)), interval) => {
            if let Some((_, place)) = interval {
                read.warn(&place, "KISTSchedRunInterval", "the scheduler is Vanilla, so this has no effect");
            }
            settings.push(Setting { line: "scheduler.kind = 'vanilla'".into(), option: "Schedulers", place });
        }
        (Some((kind, place)), interval) => {
            // The default interval is the default of the consensus parameter, as in C tor.
            let interval = interval.map_or(Params::default().kist_interval(), |(interval, _)| interval);
            let millis = interval.as_millis();
            let line = format!("scheduler = {{ kind = '{kind}', interval = '{millis} ms' }}");
            settings.push(Setting { line, option: "Schedulers", place });
        }
        (None, Some((interval, place))) => {
            let line = format!("scheduler.interval = '{} ms'", interval.as_millis());
            settings.push(Setting { line, option: "KISTSchedRunInterval", place });
        }
        (None, None) => {}
    }
    Ok(says_interval)
}
