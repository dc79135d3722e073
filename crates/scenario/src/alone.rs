//! One relay by itself, for worlds that have no scenario: a relay on real sockets is set up by the same keys.

use crate::build::View;
use crate::error::{Mistake, listed};
use crate::model::Phase;
use crate::overrides::merge;
use crate::presets;
use crate::resolve::resolve;
use crate::schema;
use crate::tor::{self, Consensus};
use crate::tree::{Node, Origin, Table, Value, parse};
use penstock_core::RelayConfig;
use std::fmt;

/// Keys of `[relay]` that say what a simulated host is, or what a run draws by its seed.
const OF_THE_SIMULATOR: [&str; 2] = ["cpu", "refill_phase"];

/// What a file must have beside its relays.
const AROUND: &str = "[scenario]\ntitle = 'one relay'\n[run]\nduration = '1 s'\n";

/// What is wrong with a relay's keys: which of the lines, which key, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayMistake {
    /// The line that it is in, from 0; `None` if it is in none of them.
    pub line: Option<usize>,
    /// The dotted key, such as `scheduler.interval`; empty if it has none.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for RelayMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.key, self.message)
        }
    }
}

impl std::error::Error for RelayMistake {}

impl RelayMistake {
    fn of(mistake: Mistake) -> Self {
        let line = if let Origin::Set(line) = mistake.at { Some(line as usize) } else { None };
        let key = mistake.key.strip_prefix("relay.").unwrap_or(&mistake.key).to_owned();
        RelayMistake { line, key, message: mistake.message }
    }
}

/// A relay of these lines, each `KEY = VALUE` as under `[relay]` of a scenario, over the newest preset, or over the one
/// that a line names. Buckets are refilled on the whole interval.
///
/// # Errors
///
/// A line that is no TOML, a key or value that there is not, a key that two lines set, algorithms that do not go together.
///
/// ```
/// let config = penstock_scenario::relay_config(&["circuit_policy = { kind = 'ewma', half_life = '10 s' }"]).unwrap();
/// assert!(config.authenticated_sendmes);
/// let mistake = penstock_scenario::relay_config(&["scheduler = 'kist'", "refill = 'soon'"]).unwrap_err();
/// assert_eq!((mistake.line, &mistake.key[..]), (Some(1), "refill"));
/// ```
pub fn relay_config(lines: &[&str]) -> Result<RelayConfig, RelayMistake> {
    read(lines).map_err(RelayMistake::of)
}

fn read(lines: &[&str]) -> Result<RelayConfig, Mistake> {
    let newest = presets::NAMES.last().expect("there are presets");
    let mut given = Table::from([(presets::KEY.to_owned(), Node::text(*newest, Origin::Default))]);
    for (index, line) in lines.iter().enumerate() {
        let at = Origin::Set(index as u32);
        let table = parse(line).map_err(|mistake| Mistake { at, ..mistake })?;
        let table: Table = table.into_iter().map(|(key, node)| (key, node.moved(&|_| at))).collect();
        for (key, node) in &table {
            check_name(key, node)?;
            // What names a kind, or is no table, takes nothing of what was there.
            let afresh = node.table().is_none_or(|table| table.contains_key("kind"));
            if afresh && given.get(key).is_some_and(Node::is_written) {
                let message = "this key is set by another line already; leave one of the two";
                return Err(Mistake::new(at, key, message));
            }
        }
        merge(&mut given, &table);
    }
    let relay = Node { value: Value::Table(given), at: Origin::Default };
    let mut root = parse(AROUND).expect("it is TOML");
    root.insert("relay".to_owned(), relay);
    let full = resolve(&root)?.full;
    let (config, phase) = tor::config(View::section(&full, "relay"), Consensus { n23: false })?;
    debug_assert!(phase == Phase::Random, "no line may say anything else");
    Ok(config)
}

fn check_name(key: &str, node: &Node) -> Result<(), Mistake> {
    let known = || schema::TOR.iter().map(|key| key.name).filter(|name| !OF_THE_SIMULATOR.contains(name));
    if known().any(|name| name == key) {
        return Ok(());
    }
    Err(Mistake::new(node.at, key, format!("this key is unknown; a relay takes {}", listed(known()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::circuit_policy::CircuitPolicyConfig;
    use penstock_core::edge_control::EdgeControlConfig;
    use penstock_core::scheduler::SchedulerConfig;
    use penstock_units::Duration;

    #[test]
    fn a_relay_without_lines_is_todays_tor() {
        let config = relay_config(&[]).unwrap();
        assert!(matches!(config.scheduler, SchedulerConfig::KistDeployed(_)));
        assert!(matches!(config.edge_control, EdgeControlConfig::Vegas(_)));
        assert!(matches!(config.circuit_policy, CircuitPolicyConfig::EwmaTick(_)));
        assert_eq!(config.refill.unblock, Some(Duration::from_millis(100)));
    }

    #[test]
    fn lines_go_over_the_preset_that_one_of_them_names() {
        let config = relay_config(&[
            "circuit_policy.half_life = '5 s'",
            "preset = 'tor-0.2.3'",
            "scheduler.kind = 'global'",
        ])
        .unwrap();
        assert!(matches!(config.scheduler, SchedulerConfig::Global(_)));
        let CircuitPolicyConfig::EwmaHeap(ewma) = config.circuit_policy else { panic!("{config:?}") };
        assert_eq!(ewma.half_life, Duration::from_secs(5));
    }

    #[test]
    fn every_mistake_has_its_line_and_its_key() {
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
            let mistake = relay_config(lines).unwrap_err();
            assert_eq!((mistake.line, &mistake.key[..]), (line, key), "{mistake}");
        }
    }
}
