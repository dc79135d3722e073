//! Which algorithms go together, and why others do not: what the parser refuses, what `list algorithms` says of partners,
//! and every combination that there is.
//!
//! The rules themselves stand with each kind in `schema`.

use crate::build::View;
use crate::error::Mistake;
use crate::form::Form;
use crate::print;
use crate::schema::{ALGORITHMS, Algorithm, Fallback, Key, Kind, Partner, RELAY, Verdict};
use crate::tree::parse_value;

/// Something that one algorithm cannot do, or does in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartnerInfo {
    /// A key of the same node.
    pub key: &'static str,
    /// What that key must not be; if it chooses an algorithm, its kind.
    pub not: &'static str,
    /// Whether a scenario with both is refused; if not it runs, but one of them has no effect.
    pub refused: bool,
    /// Why, as it continues the algorithm's name.
    pub why: &'static str,
}

/// One value of a key of `[relay]` and `[client]` that changes what runs, and not only by how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The key, such as `hop_control`.
    pub key: &'static str,
    /// Its kind, such as `marut`; of a key that chooses no algorithm, its value.
    pub kind: &'static str,
    /// The parameters that are not as they are by default, each with its value in TOML.
    pub parameters: Vec<(String, String)>,
    /// Whether it has parameters at all, beside its kind.
    is_table: bool,
}

impl Choice {
    /// The value in TOML, with `more` parameters where the kind has those.
    pub fn toml(&self, more: &[(&str, &str)]) -> String {
        if !self.is_table {
            return format!("{:?}", self.kind);
        }
        let own = self.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let others = more.iter().copied().filter(|(key, _)| {
            kind(self.key, self.kind).keys.iter().any(|known| known.name == *key)
                && self.parameters.iter().all(|(own, _)| own != key)
        });
        let pairs = own.chain(others).map(|(key, value)| format!(", {key} = {value}"));
        format!("{{ kind = {:?}{} }}", self.kind, pairs.collect::<String>())
    }
}

/// All choices of each key that has some, in the order of the reference: kinds, and of each kind the modes, one at a time.
///
/// A mode is a word that a parameter may be instead of its default. Numbers, sizes, rates and flags are no modes.
pub fn choices() -> Vec<Vec<Choice>> {
    let of_key = |key: &'static Key| match &key.form {
        Form::Algorithm(algorithm) => {
            Some(algorithm.kinds.iter().flat_map(|kind| modes(key.name, kind)).collect())
        }
        Form::Choice(words) => {
            let plain = |word: &&'static str| Choice {
                key: key.name,
                kind: word,
                parameters: Vec::new(),
                is_table: false,
            };
            Some(words.iter().map(plain).collect())
        }
        _ => None,
    };
    RELAY.keys().filter_map(of_key).collect()
}

fn modes(key: &'static str, kind: &'static Kind) -> Vec<Choice> {
    let one = |parameters| Choice { key, kind: kind.name, parameters, is_table: true };
    let mut modes = vec![one(Vec::new())];
    for parameter in kind.keys {
        let values = words(parameter).into_iter();
        modes.extend(values.map(|value| one(vec![(parameter.name.to_owned(), value)])));
    }
    modes
}

/// What a parameter may be in words, in TOML, without its default.
fn words(parameter: &Key) -> Vec<String> {
    let default = match parameter.fallback {
        Fallback::Value(default) => parse_value(default).map(|node| print::value(&node)),
        Fallback::Required | Fallback::Like(_) => None,
    };
    let quoted = |word: &&str| format!("{word:?}");
    let all: Vec<String> = match &parameter.form {
        Form::Choice(words) => words.iter().map(quoted).collect(),
        Form::Or(word, Form::Section(section)) => {
            let inner = |key: &'static Key| {
                let words = if let Form::Choice(words) = key.form { words } else { &[] };
                words.iter().map(|word| format!("{{ {} = {word:?} }}", key.name))
            };
            [quoted(word)].into_iter().chain(section.keys().flat_map(inner)).collect()
        }
        Form::Or(word, _) => vec![quoted(word)],
        _ => Vec::new(),
    };
    all.into_iter().filter(|word| Some(word) != default.as_ref()).collect()
}

/// Why no node can have all of `together`, each a key with its kind or value; `None` if one can.
///
/// Keys that are not among them do not matter, so a combination may be built choice by choice.
pub fn refusal(together: &[(&str, &str)]) -> Option<String> {
    let value = |key: &str| together.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
    let clash = |(key, name): &(&str, &str)| {
        let partner = clash(key, name, value)?;
        Some(format!("{name:?} {}", partner.why))
    };
    together.iter().find_map(clash)
}

/// Refuses the algorithm `name` of `key`, whose own table is `own`, beside what else the node says.
pub(crate) fn refuse(node: View<'_>, key: &str, own: View<'_>, name: &str) -> Result<(), Mistake> {
    let value = |key: &str| {
        if key == "bandwidth_rate" && node.has_drawn_buckets() {
            return None;
        }
        let value = node.table.get(key)?;
        value.as_text().or_else(|| value.table()?.get("kind")?.as_text())
    };
    match clash(key, name, value) {
        None => Ok(()),
        Some(partner) => Err(own.wrong("kind", format!("{name:?} {}", partner.why))),
    }
}

/// What refuses this kind, if the other keys have these values.
fn clash<'a>(key: &str, name: &str, value: impl Fn(&str) -> Option<&'a str>) -> Option<&'static Partner> {
    let algorithm = algorithm(key)?;
    let kind = algorithm.kinds.iter().find(|kind| kind.name == name)?;
    let refuses =
        |partner: &&Partner| partner.verdict == Verdict::Refused && value(partner.key) == Some(partner.not);
    kind.partners.iter().find(refuses)
}

fn algorithm(key: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|(name, _)| *name == key).map(|(_, algorithm)| *algorithm)
}

fn kind(key: &str, name: &str) -> &'static Kind {
    let kinds = algorithm(key).map_or(&[][..], |algorithm| algorithm.kinds);
    kinds.iter().find(|kind| kind.name == name).expect("a choice is one of the schema's")
}

/// What is said of a kind's partners.
pub(crate) fn info(partners: &'static [Partner]) -> Vec<PartnerInfo> {
    let one = |partner: &Partner| {
        let Partner { key, not, verdict, why } = *partner;
        PartnerInfo { key, not, refused: verdict == Verdict::Refused, why }
    };
    partners.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_keys_and_values_that_there_are() {
        for kind in ALGORITHMS.iter().flat_map(|(_, algorithm)| algorithm.kinds) {
            for Partner { key, not, .. } in kind.partners {
                let key =
                    RELAY.keys().find(|known| known.name == *key).expect("a rule names a key of a node");
                let is_one = match &key.form {
                    Form::Choice(words) => words.contains(not),
                    Form::Algorithm(algorithm) => algorithm.kinds.iter().any(|kind| kind.name == *not),
                    Form::Or(word, _) => word == not,
                    _ => false,
                };
                assert!(is_one, "{} may not be {not:?} for {}", key.name, kind.name);
            }
        }
    }

    #[test]
    fn a_window_of_a_hop_goes_with_datagrams_only() {
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
    fn what_is_in_vain_is_not_refused() {
        assert_eq!(refusal(&[("scheduler", "kist"), ("transport", "datagram")]), None);
        assert_eq!(info(kind("scheduler", "kist").partners).len(), 1);
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
        assert_eq!(all.len(), ALGORITHMS.len() + 1);
    }

    #[test]
    fn parameters_go_to_the_kinds_that_have_them() {
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
