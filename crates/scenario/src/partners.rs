//! Which algorithms work together. `sections` has the rules, with each algorithm.

use crate::keys::{AlgorithmInfo, Section};
use crate::sections::relays::RelayKeys;
use crate::sections::tor::{TRANSPORT, algorithms, clash};
use crate::values::Parameter;

pub use crate::keys::PartnerInfo;

/// A setting of `[relay]` or `[client]`: a key, and the algorithm or mode that it selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Key, such as `hop_control`.
    pub key: &'static str,
    /// Name of the algorithm, such as `marut`; the key's value if the key selects no algorithm.
    pub kind: &'static str,
    /// Parameters with values other than their defaults: name and TOML value.
    pub parameters: Vec<(String, String)>,
    /// Names of all parameters of the algorithm; `None` if the key selects no algorithm.
    known: Option<Vec<&'static str>>,
}

impl Choice {
    /// The value as TOML. Parameters in `more` are added if this kind has them.
    pub fn toml(&self, more: &[(&str, &str)]) -> String {
        let Some(known) = &self.known else { return format!("{:?}", self.kind) };
        let own = self.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let others = more
            .iter()
            .copied()
            .filter(|(key, _)| known.contains(key) && self.parameters.iter().all(|(own, _)| own != key));
        let pairs = own.chain(others).map(|(key, value)| format!(", {key} = {value}"));
        format!("{{ kind = {:?}{} }}", self.kind, pairs.collect::<String>())
    }
}

/// For each key with choices, all kinds and all modes of each kind, in the order of the reference pages.
///
/// A mode differs from the default in one parameter, whose value is a word. Numbers, sizes, rates and flags are not
/// modes.
pub fn choices() -> Vec<Vec<Choice>> {
    let algorithms = algorithms();
    let of_key = |key: Parameter| {
        if key.key == "transport" {
            let plain = |(word, _): &(&'static str, _)| Choice {
                key: key.key,
                kind: word,
                parameters: Vec::new(),
                known: None,
            };
            return Some(TRANSPORT.0.iter().map(plain).collect());
        }
        let kinds = algorithms.iter().find(|kinds| kinds[0].key == key.key)?;
        Some(kinds.iter().flat_map(modes).collect())
    };
    RelayKeys::parameters().into_iter().filter_map(of_key).collect()
}

/// A kind with its default parameters, and one choice for each mode.
fn modes(kind: &AlgorithmInfo) -> Vec<Choice> {
    let known: Vec<_> = kind.parameters.iter().map(|parameter| parameter.key).collect();
    let one = |parameters| Choice { key: kind.key, kind: kind.kind, parameters, known: Some(known.clone()) };
    let mut modes = vec![one(Vec::new())];
    for parameter in &kind.parameters {
        let words = parameter.words.iter().filter(|word| **word != parameter.default);
        modes.extend(words.map(|word| one(vec![(parameter.key.to_owned(), word.clone())])));
    }
    modes
}

/// The reason why no node can combine the settings in `together`; `None` if they work together. Each setting is a key
/// with its kind or value. Other keys are ignored, so a caller can build a combination step by step.
pub fn refusal(together: &[(&str, &str)]) -> Option<String> {
    let value = |key: &str| together.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
    let all: Vec<AlgorithmInfo> = algorithms().concat();
    together.iter().find_map(|(key, kind)| {
        let info = all.iter().find(|info| info.key == *key && info.kind == *kind)?;
        Some(format!("{kind:?} {}", clash(info.partners, value)?.why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_keys_and_values_that_there_are() {
        let all = algorithms().concat();
        for PartnerInfo { key, not, .. } in all.iter().flat_map(|info| info.partners) {
            let parameters = RelayKeys::parameters();
            let known =
                parameters.iter().find(|known| known.key == *key).expect("a rule names a key of a node");
            let is_kind = all.iter().any(|info| info.key == *key && info.kind == *not);
            assert!(is_kind || known.words.contains(&format!("{not:?}")), "{key} may not be {not:?}");
        }
    }

    #[test]
    fn a_window_of_a_hop_needs_datagrams() {
        let expected = "\"backtap\" is for datagrams; set transport = \"datagram\" as well";
        for together in [
            [("hop_control", "backtap"), ("transport", "tcp")],
            [("transport", "tcp"), ("hop_control", "backtap")],
        ] {
            assert_eq!(refusal(&together).as_deref(), Some(expected));
        }
        assert_eq!(refusal(&[("hop_control", "backtap"), ("transport", "datagram")]), None);
        assert_eq!(refusal(&[("hop_control", "backtap")]), None);
        assert_eq!(refusal(&[("hop_control", "n23"), ("transport", "tcp")]), None);
    }

    #[test]
    fn a_setting_without_effect_is_not_refused() {
        assert_eq!(refusal(&[("scheduler", "kist"), ("transport", "datagram")]), None);
        let all = algorithms().concat();
        assert_eq!(all.iter().find(|info| info.kind == "kist").unwrap().partners.len(), 1);
    }

    #[test]
    fn kinds_come_with_their_modes() {
        let all = choices();
        let of = |kind: &str| {
            let choices = all.iter().flatten().filter(|choice| choice.kind == kind);
            choices.map(|choice| choice.toml(&[])).collect::<Vec<_>>()
        };
        let forms = [
            "{ kind = \"ewma\" }",
            "{ kind = \"ewma\", form = \"list\" }",
            "{ kind = \"ewma\", form = \"tick\" }",
        ];
        assert_eq!(of("ewma"), forms);
        let n23 = [
            "{ kind = \"n23\" }",
            "{ kind = \"n23\", adapt = { law = \"exponential\" } }",
            "{ kind = \"n23\", adapt = { law = \"kung94\" } }",
            "{ kind = \"n23\", credit_path = \"circuit\" }",
        ];
        assert_eq!(of("n23"), n23);
        let marut = of("marut");
        for mode in ["mode = \"e2e\"", "middle = \"own\"", "occupancy = \"window\"", "interval = \"hop\""] {
            assert!(marut.iter().any(|choice| choice.contains(mode)), "{mode}: {marut:?}");
        }
        assert_eq!(of("datagram"), ["\"datagram\""]);
        assert_eq!(all.len(), algorithms().len() + 1);
    }

    #[test]
    fn a_parameter_goes_to_the_kinds_that_have_it() {
        let more = [("rate", "'1 MiB/s'"), ("form", "'tick'")];
        let all = choices();
        let toml = |kind: &str, mode: usize| {
            all.iter()
                .flatten()
                .filter(|choice| choice.kind == kind)
                .nth(mode)
                .map(|choice| choice.toml(&more))
        };
        assert_eq!(toml("static", 0).as_deref(), Some("{ kind = \"static\", rate = '1 MiB/s' }"));
        assert_eq!(toml("ewma", 1).as_deref(), Some("{ kind = \"ewma\", form = \"list\" }"));
        assert_eq!(toml("round-robin", 0).as_deref(), Some("{ kind = \"round-robin\" }"));
    }
}
