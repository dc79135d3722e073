//! Names the section or the algorithm to which a misplaced key belongs.

use super::SECTIONS;
use super::edge_control::EdgeControl;
use super::hop_control::HopControl;
use super::schedulers::{ChannelMap, CircuitPolicy, Scheduler};
use super::throttle::Throttle;
use crate::error::{ConfigError, UNKNOWN_KEY};
use crate::keys::{Algorithm, AlgorithmInfo};

/// The longest list of places in a message.
const MOST_PLACES: usize = 4;

/// Every implementation of every trait, in the order of `list algorithms`.
pub(crate) fn algorithms() -> Vec<AlgorithmInfo> {
    [
        CircuitPolicy::kinds(),
        Scheduler::kinds(),
        EdgeControl::kinds(),
        HopControl::kinds(),
        Throttle::kinds(),
        ChannelMap::kinds(),
    ]
    .concat()
}

/// Replaces the remedy for an unknown key, if a key with this name exists in another place.
pub(super) fn explain(error: ConfigError) -> ConfigError {
    if !error.message.starts_with(UNKNOWN_KEY) {
        return error;
    }
    let name = error.key.rsplit('.').next().unwrap_or(&error.key);
    let places = places(name);
    if places.is_empty() {
        return error;
    }
    let more = if places.len() > MOST_PLACES { " and others" } else { "" };
    let shown = &places[..places.len().min(MOST_PLACES)];
    let list = match shown {
        [rest @ .., last] if !rest.is_empty() && more.is_empty() => format!("{} or {last}", rest.join(", ")),
        all => all.join(", "),
    };
    let message = format!("{UNKNOWN_KEY} here; {name} belongs to {list}{more}");
    ConfigError { message, ..error }
}

/// Where a key of this name exists: the algorithms by their keys, then the sections.
fn places(name: &str) -> Vec<String> {
    let mut kinds: Vec<(&str, Vec<String>)> = Vec::new();
    for algorithm in algorithms().iter().filter(|each| each.parameters.iter().any(|key| key.key == name)) {
        let kind = format!("{:?}", algorithm.kind);
        match kinds.iter_mut().find(|(key, _)| *key == algorithm.key) {
            Some((_, kinds)) => kinds.push(kind),
            None => kinds.push((algorithm.key, vec![kind])),
        }
    }
    let of_algorithms = kinds.into_iter().map(|(key, kinds)| format!("{key} = {}", kinds.join("/")));
    let sections = SECTIONS.iter().map(|(_, info)| info());
    let of_sections = sections.filter(|each| each.parameters.iter().any(|key| key.key == name));
    of_algorithms.chain(of_sections.map(|each| each.title.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Origin;

    fn explained(key: &str) -> String {
        explain(ConfigError::new(Origin::Default, key, format!("{UNKNOWN_KEY}; did you mean x?"))).message
    }

    #[test]
    fn a_misplaced_key_is_told_where_it_belongs() {
        let windows = explained("relay.scheduler.circuit_window");
        let kinds = "edge_control = \"windows\"/\"vegas\"/\"dctcp\"/\"timely\"";
        assert_eq!(windows, format!("this key is unknown here; circuit_window belongs to {kinds}"));
        let half_life = explained("relay.half_life");
        let kinds = "circuit_policy = \"ewma\"/\"ewma-connection\" or throttle = \"flagging\"/\"threshold\"";
        assert_eq!(half_life, format!("this key is unknown here; half_life belongs to {kinds}"));
        assert!(explained("relay.think_time").ends_with("belongs to [server] or [servers.NAME]"));
        assert!(
            explained("network.bandwidth_rate")
                .ends_with("[relay], [relays.NAME], [client] or [clients.NAME]")
        );
        assert!(explained("run.link").ends_with(" and others"));
    }

    #[test]
    fn a_key_that_exists_nowhere_keeps_its_remedy() {
        assert_eq!(explained("relay.nonsense"), "this key is unknown; did you mean x?");
        let other = ConfigError::new(Origin::Default, "run.seeds", "the list is empty");
        assert_eq!(explain(other.clone()), other);
    }
}
