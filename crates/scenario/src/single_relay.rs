//! Configuration of one relay without a scenario file, for live relays. The keys are those of `[relay]`.

use crate::error::{ConfigError, Error, Origin, listed};
use crate::keys::{Read, Section};
use crate::layers::{Merged, Warnings, merge, rename_tor};
use crate::presets;
use crate::sections;
use crate::sections::relays::RelaysKeys;
use crate::sections::tor::{OfClient, TorKeys};
use crate::tree::{Node, Table, parse};
use penstock_core::RelayConfig;

/// Keys of `[relay]` that only a simulated relay has.
const OF_THE_SIMULATOR: [&str; 2] = ["cpu", "refill_phase"];

/// The text that turns the settings of one relay into a complete scenario file.
const AROUND: &str = "[scenario]\ntitle = 'one relay'\n[run]\nduration = '1 s'\n[relays.one]\n";

/// The configuration of one relay.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// Configuration of the core.
    pub config: RelayConfig,
    /// Warnings about lines that the next release will refuse, each with the index of its line.
    pub warnings: Vec<(usize, String)>,
}

/// Parses lines `KEY = VALUE` with keys of `[relay]`.
///
/// Other keys have the values of the newest preset without Conflux, or of the preset that a line names. Token buckets are refilled at
/// multiples of the refill interval.
///
/// # Errors
///
/// A line is not TOML, a key or value is unknown, two lines set the same key, or algorithms do not work together.
///
/// ```
/// let line = "circuit_policy = { kind = 'ewma', half_life = '10 s' }";
/// assert!(penstock_scenario::relay_config(&[line]).unwrap().config.authenticated_sendmes);
/// let error = penstock_scenario::relay_config(&["scheduler = 'kist'", "refill = 'soon'"]).unwrap_err();
/// assert_eq!((error.index(), error.key()), (Some(1), "refill"));
/// ```
pub fn relay_config(lines: &[&str]) -> Result<RelaySettings, Error> {
    let mut warnings = Warnings::new();
    let config = read(lines, &mut warnings).map_err(|error| {
        let line = if let Origin::Set(line) = error.at { Some(line) } else { None };
        let key = ["relays.one.", "relay."].iter().find_map(|prefix| error.key.strip_prefix(prefix));
        let key = key.unwrap_or(&error.key).to_owned();
        Error::Relay { line, key, message: error.message }
    })?;
    let warning = |(at, message)| if let Origin::Set(line) = at { Some((line, message)) } else { None };
    Ok(RelaySettings { config, warnings: warnings.into_iter().filter_map(warning).collect() })
}

fn read(lines: &[&str], warnings: &mut Warnings) -> Result<RelayConfig, ConfigError> {
    let mut relay =
        Table::from([("preset".to_owned(), Node::text(presets::OF_LIVE_RELAYS, Origin::Default))]);
    for (index, line) in lines.iter().enumerate() {
        let at = Origin::Set(index);
        let table = parse(line, 0).map_err(|error| ConfigError { at, ..error })?;
        let mut table: Table = table.into_iter().map(|(key, node)| (key, node.moved(&|_| at))).collect();
        rename_tor(&mut table, "", warnings)?;
        for (key, node) in &table {
            check_name(key, node)?;
            // A value that is not a table, or names a kind, would replace the value of the other line.
            let replaces = node.table().is_none_or(|table| table.contains_key("kind"));
            if replaces && relay.get(key).is_some_and(Node::is_written) {
                let message = "this key is set by another line already; leave one of the two";
                return Err(ConfigError::new(at, key, message));
            }
        }
        merge(&mut relay, &table);
    }
    let mut root = parse(AROUND, 0)?;
    root.insert("relay".to_owned(), Node::of_table(relay, Origin::Default));
    let merged = Merged::new(root)?;
    let sections = sections::read(&merged.whole, &merged.own)?;
    let relay: &Read<RelaysKeys> = &sections.relays["one"];
    Ok(relay.keys.tor.config(relay, OfClient::default(), false)?.0)
}

fn check_name(key: &str, node: &Node) -> Result<(), ConfigError> {
    let is_known = |name: &str| TorKeys::has(name) && !OF_THE_SIMULATOR.contains(&name);
    if is_known(key) {
        return Ok(());
    }
    let keys = TorKeys::parameters();
    let known = listed(keys.iter().map(|key| key.key).filter(|name| is_known(name)));
    Err(ConfigError::new(node.at, key, format!("this key is unknown; a relay takes {known}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::circuit_policy::CircuitPolicyConfig;
    use penstock_core::edge_control::EdgeControlConfig;
    use penstock_core::scheduler::SchedulerConfig;
    use penstock_units::Duration;

    #[test]
    fn a_relay_without_lines_has_the_newest_tor_preset() {
        let config = relay_config(&[]).unwrap().config;
        assert!(matches!(config.scheduler, SchedulerConfig::KistDeployed(_)));
        assert!(matches!(config.edge_control, EdgeControlConfig::Vegas(_)));
        assert!(matches!(config.circuit_policy, CircuitPolicyConfig::EwmaTick(_)));
        assert_eq!(config.refill.unblock, Some(Duration::from_millis(100)));
    }

    #[test]
    fn lines_override_the_preset_that_a_line_names() {
        let config = relay_config(&[
            "circuit_policy.half_life = '5 s'",
            "preset = 'tor-0.2.3'",
            "scheduler.kind = 'global'",
        ])
        .unwrap()
        .config;
        assert!(matches!(config.scheduler, SchedulerConfig::Global(_)));
        let CircuitPolicyConfig::EwmaHeap(ewma) = config.circuit_policy else { panic!("{config:?}") };
        assert_eq!(ewma.half_life, Duration::from_secs(5));
    }

    #[test]
    fn every_error_has_its_line_and_its_key() {
        for (lines, line, key) in [
            (&["refill = '1 s'", "refil = '1 s'"][..], Some(1), "refil"),
            (&["refill ="], Some(0), ""),
            (&["refill = '1 s'", "refill = '2 s'"], Some(1), "refill"),
            (&["scheduler.interval = '2 ms'", "scheduler = { kind = 'global' }"], Some(1), "scheduler"),
            (&["cpu = 'none'"], Some(0), "cpu"),
            (&["link = '1 MiB/s'"], Some(0), "link"),
            (&["scheduler = { kind = 'kist', intervall = '2 ms' }"], Some(0), "scheduler.intervall"),
            (&["throttle = 'bit-splitting'"], Some(0), "throttle.kind"),
        ] {
            let error = relay_config(lines).unwrap_err();
            assert_eq!((error.index(), error.key()), (line, key), "{error}");
        }
    }

    #[test]
    fn an_old_key_works_and_gives_a_warning() {
        let relay = relay_config(&["refill = '1 s'", "circuit_queue_most = 3000"]).unwrap();
        assert_eq!(relay.config.limits.max_circuit_queue, 3000);
        let [(1, warning)] = &relay.warnings[..] else { panic!("{:?}", relay.warnings) };
        assert!(
            warning.starts_with("circuit_queue_most: ") && warning.contains("max_circuit_queue"),
            "{warning}"
        );
    }
}
