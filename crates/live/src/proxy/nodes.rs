//! Lists of relays in the torrc, such as `EntryNodes`.

use super::network::Router;
use crate::directory::Fingerprint;
use penstock_network::document::hex;

/// A list of relays, by fingerprint or nickname.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    identities: Vec<Fingerprint>,
    names: Vec<String>,
}

impl NodeSet {
    /// Parses a list such as `$0123…89AB, relay1`.
    ///
    /// Source: C tor's manual, `EntryNodes`.
    /// Deviation: a nickname is accepted, for experiments. Country codes and address patterns are not supported.
    ///
    /// # Errors
    ///
    /// The first entry that is neither.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut set = NodeSet::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let digits = word.strip_prefix('$').unwrap_or(word);
            // C tor also writes $FINGERPRINT~nickname.
            let digits = digits.split(['~', '=']).next().unwrap_or_default();
            let is_name =
                (1..=19).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
            match hex(digits) {
                Ok(identity) => set.identities.push(identity),
                Err(_) if is_name => set.names.push(word.to_owned()),
                Err(_) => return Err(word.to_owned()),
            }
        }
        Ok(set)
    }

    /// Adds the entries of another list.
    pub fn extend(&mut self, other: NodeSet) {
        self.identities.extend(other.identities);
        self.names.extend(other.names);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.identities.is_empty() && self.names.is_empty()
    }

    pub(crate) fn contains(&self, router: &Router) -> bool {
        self.identities.contains(&router.rsa())
            || self.names.iter().any(|name| name.eq_ignore_ascii_case(&router.nickname))
    }
}

/// Constraints on the relays of circuits.
///
/// Source: C tor's manual, `EntryNodes`, `MiddleNodes`, `ExitNodes`, `ExcludeNodes`, `ExcludeExitNodes`,
/// `EnforceDistinctSubnets`.
/// Deviation: excluded relays are never used, as if `StrictNodes` were 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// Guards; an empty list allows all guards.
    pub entry: NodeSet,
    /// Middle relays; an empty list allows all relays.
    pub middle: NodeSet,
    /// Exits; an empty list allows all exits.
    pub exit: NodeSet,
    /// Relays that no circuit uses.
    pub exclude: NodeSet,
    /// Relays that are never exits.
    pub exclude_exit: NodeSet,
    /// Whether the relays of a circuit must be in different /16 networks.
    pub distinct_subnets: bool,
}

impl Default for PathRules {
    fn default() -> Self {
        let none = NodeSet::default;
        PathRules {
            entry: none(),
            middle: none(),
            exit: none(),
            exclude: none(),
            exclude_exit: none(),
            distinct_subnets: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::network::tests::router;
    use super::*;

    #[test]
    fn a_list_has_fingerprints_and_names() {
        let fingerprint = "01".repeat(20);
        let set = NodeSet::read(&format!("${fingerprint}~relay1, relay2 ,")).unwrap();
        let [one, two, three] = [1, 2, 3].map(|number| router(number, 1, "", ""));
        assert_eq!([&one, &two, &three].map(|router| set.contains(router)), [true, true, false]);
        assert!(NodeSet::read("").unwrap().is_empty());
        for text in ["{de}", "10.0.0.0/8", "a b", "$01"] {
            assert_eq!(NodeSet::read(text), Err(text.to_owned()));
        }
    }
}
