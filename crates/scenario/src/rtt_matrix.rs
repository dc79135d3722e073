//! Round-trip times between countries, from the key `network.rtt_matrix`.

use penstock_network::{Country, geo};
use penstock_units::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Round-trip times between countries, and within a country. The matrix is never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct RttMatrix {
    /// Round-trip time for each pair of country codes. The codes of a pair are in alphabetical order.
    between: BTreeMap<[&'static str; 2], Duration>,
    /// Countries of the matrix that have Tor users, with the number of users.
    users: Vec<(&'static str, u32)>,
}

/// Parses a pair such as `DE-US`. Returns the codes in alphabetical order, or the text that is not a country code.
pub(crate) fn pair(text: &str) -> Result<[&'static str; 2], &str> {
    let (one, other) = text.split_once('-').ok_or(text)?;
    let code = |text| Country::of(text).map(|country| country.code).ok_or(text);
    let mut pair = [code(one)?, code(other)?];
    pair.sort_unstable();
    Ok(pair)
}

impl RttMatrix {
    pub(crate) fn new(between: BTreeMap<[&'static str; 2], Duration>) -> Self {
        let countries: BTreeSet<&str> = between.keys().flatten().copied().collect();
        let users = geo::USERS.iter().copied().filter(|(code, _)| countries.contains(code)).collect();
        RttMatrix { between, users }
    }

    /// Countries for nodes without a `country`, with their numbers of Tor users; may be empty.
    pub(crate) fn users(&self) -> &[(&'static str, u32)] {
        &self.users
    }

    /// Round-trip time between two countries. The parser refuses scenarios that need a missing pair.
    pub(crate) fn between(&self, one: &Country, other: &Country) -> Duration {
        let pair = if one.code <= other.code { [one.code, other.code] } else { [other.code, one.code] };
        self.between.get(&pair).copied().unwrap_or_else(|| self.typical())
    }

    pub(crate) fn shortest(&self) -> Duration {
        self.between.values().min().copied().unwrap_or_default()
    }

    pub(crate) fn typical(&self) -> Duration {
        let mut all: Vec<Duration> = self.between.values().copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// The pairs of these countries that the matrix lacks. Each text has the number of nodes that may need the pair.
    pub(crate) fn missing(&self, countries: &BTreeMap<&'static str, usize>) -> Vec<String> {
        let pairs = countries.iter().enumerate().flat_map(|(place, (one, count))| {
            countries.keys().skip(place).map(move |other| (*one, *other, *count))
        });
        pairs
            .filter(|(one, other, count)| one != other || *count > 1)
            .filter(|(one, other, _)| !self.between.contains_key(&[*one, *other]))
            .map(|(one, other, _)| format!("{one}-{other}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_one_name_in_either_order() {
        assert_eq!(pair("US-DE"), Ok(["DE", "US"]));
        assert_eq!(pair("DE-DE"), Ok(["DE", "DE"]));
        assert_eq!(pair("DEU-US"), Err("DEU"));
        assert_eq!(pair("DE"), Err("DE"));
        assert_eq!(pair("DE-US-FR"), Err("US-FR"));
    }

    #[test]
    fn two_nodes_in_one_country_need_a_round_trip_within_it() {
        let trip = |pair| (pair, Duration::from_millis(10));
        let matrix = RttMatrix::new(BTreeMap::from([trip(["DE", "US"]), trip(["DE", "DE"])]));
        let missing = |nodes: &[(&'static str, usize)]| matrix.missing(&nodes.iter().copied().collect());
        assert!(missing(&[("DE", 5), ("US", 1)]).is_empty());
        assert_eq!(missing(&[("DE", 5), ("US", 2)]), ["US-US"]);
        assert_eq!(missing(&[("DE", 5), ("FR", 1), ("US", 1)]), ["DE-FR", "FR-US"]);
        assert_eq!(matrix.users(), [("US", 3474), ("DE", 2418)]);
    }
}
