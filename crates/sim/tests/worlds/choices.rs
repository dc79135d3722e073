//! Lists all combinations of algorithms, and the reasons why some choices are incompatible.
//!
//! The rules are with each kind in the schema of scenarios.

use penstock_scenario::reference::{AlgorithmInfo, Parameter, PartnerInfo};
use penstock_scenario::{algorithms, sections};

/// One value of a key of `[relay]` and `[client]` that selects an algorithm or a mode of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The key, such as `hop_control`.
    pub(crate) key: &'static str,
    /// The kind of the choice, such as `marut`, or the value of a key that selects no algorithm.
    pub(crate) kind: &'static str,
    /// The parameters that differ from their defaults, each with its value in TOML.
    pub(crate) parameters: Vec<(String, String)>,
    /// The names of all parameters of this kind; `None` for a key that selects no algorithm.
    known: Option<Vec<&'static str>>,
}

impl Choice {
    /// The value in TOML. It includes each parameter of `more` that the kind supports.
    pub(crate) fn toml(&self, more: &[(&str, &str)]) -> String {
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

/// All choices of each key that has several, in the order of the reference: kinds, and the modes of
/// each kind, one at a time.
///
/// A mode is a word that replaces the default of a parameter. Numbers, sizes, rates and flags are
/// no modes.
pub(crate) fn choices() -> Vec<Vec<Choice>> {
    let algorithms = algorithms();
    let of_key = |key: Parameter| {
        if key.key == "transport" {
            let plain = |kind| Choice { key: key.key, kind, parameters: Vec::new(), known: None };
            return Some(["tcp", "datagram"].map(plain).into());
        }
        let kinds = algorithms.iter().filter(|info| info.key == key.key);
        Some(kinds.flat_map(modes).collect()).filter(|modes: &Vec<Choice>| !modes.is_empty())
    };
    relay_keys().into_iter().filter_map(of_key).collect()
}

/// The keys of `[relay]`.
fn relay_keys() -> Vec<Parameter> {
    let relay = sections().into_iter().find(|section| section.title == "[relay]");
    relay.expect("scenarios have relays").parameters
}

/// A kind with its defaults, and the kind with each of its modes.
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

/// The reason why no node can combine `together`, a list of keys with their kind or value; `None` if the combination is
/// possible.
///
/// Other keys do not matter, so a combination can be built choice by choice.
pub(crate) fn refusal(together: &[(&str, &str)]) -> Option<String> {
    let value = |key: &str| together.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
    let all = algorithms();
    let clashes = |partner: &&PartnerInfo| partner.refused && value(partner.key) == Some(partner.not);
    together.iter().find_map(|(key, kind)| {
        let info = all.iter().find(|info| info.key == *key && info.kind == *kind)?;
        Some(format!("{kind:?} {}", info.partners.iter().find(clashes)?.why))
    })
}

#[test]
fn rules_name_existing_keys_and_values() {
    let all = algorithms();
    for PartnerInfo { key, not, .. } in all.iter().flat_map(|info| info.partners) {
        let parameters = relay_keys();
        let known = parameters.iter().find(|known| known.key == *key).expect("a rule names a key of a node");
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
fn a_setting_without_effect_is_accepted() {
    assert_eq!(refusal(&[("scheduler", "kist"), ("transport", "datagram")]), None);
    let all = algorithms();
    assert_eq!(all.iter().find(|info| info.kind == "kist").unwrap().partners.len(), 1);
}

#[test]
fn kinds_are_listed_with_their_modes() {
    let all = choices();
    let of = |kind: &str| {
        let choices = all.iter().flatten().filter(|choice| choice.kind == kind);
        choices.map(|choice| choice.toml(&[])).collect::<Vec<_>>()
    };
    let forms = [
        "{ kind = \"ewma\" }",
        "{ kind = \"ewma\", flush = \"queue\" }",
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
    assert_eq!(all.len(), 7, "six traits and the transport");
}

#[test]
fn a_parameter_applies_to_the_kinds_that_have_it() {
    let more = [("rate", "'1 MiB/s'"), ("form", "'tick'")];
    let all = choices();
    let toml = |kind: &str, mode: usize| {
        all.iter().flatten().filter(|choice| choice.kind == kind).nth(mode).map(|choice| choice.toml(&more))
    };
    assert_eq!(toml("static", 0).as_deref(), Some("{ kind = \"static\", rate = '1 MiB/s' }"));
    assert_eq!(toml("ewma", 2).as_deref(), Some("{ kind = \"ewma\", form = \"list\" }"));
    assert_eq!(toml("round-robin", 0).as_deref(), Some("{ kind = \"round-robin\" }"));
}
