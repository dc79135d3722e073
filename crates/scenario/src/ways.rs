//! Round trips by country pair, as `network.ways` has them.

use penstock_network::{Country, geo};
use penstock_units::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Round trips between countries, and within one.
#[derive(Clone, Debug, PartialEq)]
pub struct Ways {
    /// By the codes of both, in the order of the alphabet.
    between: BTreeMap<[&'static str; 2], Duration>,
    /// Those among them that have users of Tor, and how many.
    users: Vec<(&'static str, u32)>,
}

/// The codes of a pair such as `DE-US`, in the order of the alphabet; otherwise what is no country.
pub(crate) fn pair(text: &str) -> Result<[&'static str; 2], &str> {
    let (one, other) = text.split_once('-').ok_or(text)?;
    let code = |text| Country::of(text).map(|country| country.code).ok_or(text);
    let mut pair = [code(one)?, code(other)?];
    pair.sort_unstable();
    Ok(pair)
}

impl Ways {
    /// Of at least one pair.
    pub(crate) fn new(between: BTreeMap<[&'static str; 2], Duration>) -> Self {
        let countries: BTreeSet<&str> = between.keys().flatten().copied().collect();
        let users = geo::USERS.iter().copied().filter(|(code, _)| countries.contains(code)).collect();
        Ways { between, users }
    }

    /// Where nodes are whose country is not said: as Tor's users are, in those countries that have a way.
    pub(crate) fn users(&self) -> &[(&'static str, u32)] {
        &self.users
    }

    /// The round trip between nodes in two countries.
    pub(crate) fn between(&self, one: &Country, other: &Country) -> Duration {
        let pair = if one.code <= other.code { [one.code, other.code] } else { [other.code, one.code] };
        *self.between.get(&pair).expect("a scenario was refused whose nodes need a way that is not there")
    }

    /// The shortest of all.
    pub(crate) fn shortest(&self) -> Duration {
        *self.between.values().min().expect("there is one at least")
    }

    /// The median of all pairs.
    pub(crate) fn typical(&self) -> Duration {
        let mut all: Vec<Duration> = self.between.values().copied().collect();
        all.sort_unstable();
        all[all.len() / 2]
    }

    /// The pairs that are not there, of countries in which there may be one node, or several.
    pub(crate) fn lacks(&self, countries: &BTreeMap<&'static str, usize>) -> Vec<String> {
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
    fn a_pair_has_one_name_whatever_its_order() {
        assert_eq!(pair("US-DE"), Ok(["DE", "US"]));
        assert_eq!(pair("DE-DE"), Ok(["DE", "DE"]));
        assert_eq!(pair("DEU-US"), Err("DEU"));
        assert_eq!(pair("DE"), Err("DE"));
        assert_eq!(pair("DE-US-FR"), Err("US-FR"));
    }

    #[test]
    fn a_way_within_a_country_is_needed_by_two() {
        let way = |pair| (pair, Duration::from_millis(10));
        let ways = Ways::new(BTreeMap::from([way(["DE", "US"]), way(["DE", "DE"])]));
        let lacks = |nodes: &[(&'static str, usize)]| ways.lacks(&nodes.iter().copied().collect());
        assert!(lacks(&[("DE", 5), ("US", 1)]).is_empty());
        assert_eq!(lacks(&[("DE", 5), ("US", 2)]), ["US-US"]);
        assert_eq!(lacks(&[("DE", 5), ("FR", 1), ("US", 1)]), ["DE-FR", "FR-US"]);
        assert_eq!(ways.users(), [("US", 3474), ("DE", 2418)]);
    }
}
