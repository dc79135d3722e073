//! What there is: algorithms, workloads, presets, and every key of a scenario file.

use crate::partners::{self, PartnerInfo};
use crate::presets::{self, PRESETS};
use crate::print;
use crate::schema::{ALGORITHMS, Algorithm, Fallback, INNER_SECTIONS, Key, Kind, SECTIONS};
use crate::tree::{Node, parse_value};

/// One key of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in its table.
    pub key: &'static str,
    /// Its value in TOML if nobody sets it; `as KEY` if it follows another; empty if somebody must.
    pub default: String,
    /// The unit of its numbers; empty if it has none. Sizes, rates and durations are written with theirs.
    pub unit: &'static str,
    /// What it may be.
    pub form: String,
    /// What it means.
    pub meaning: &'static str,
    /// The keys in it, if it may be a table.
    pub keys: Vec<Parameter>,
}

/// One implementation of one of the core's traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmInfo {
    /// The trait, such as `EdgeControl`.
    pub trait_name: &'static str,
    /// The key of a relay or client that chooses it, such as `edge_control`.
    pub key: &'static str,
    /// Its name there, such as `windows`.
    pub kind: &'static str,
    /// What it does, in a line.
    pub meaning: &'static str,
    /// Its parameters, next to `kind`.
    pub parameters: Vec<Parameter>,
    /// Where it is described.
    pub source: &'static str,
    /// What of its node it does not go with; everything else it does.
    pub partners: Vec<PartnerInfo>,
}

/// Something a client can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadKind {
    /// The key of `[workloads.NAME]` that chooses it.
    pub key: &'static str,
    /// What it does, in a line.
    pub meaning: &'static str,
}

/// A version of Tor, or what a paper's clients do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it stands for, in a line.
    pub meaning: &'static str,
    /// The keys that it sets, with their values in TOML, in the order of the alphabet.
    pub values: Vec<(String, String)>,
}

/// One table of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// As it is written: `[run]`, `[relays.NAME]`.
    pub title: &'static str,
    /// Its keys.
    pub parameters: Vec<Parameter>,
}

/// Every implementation of every trait, in the order of `list algorithms`.
pub fn algorithms() -> Vec<AlgorithmInfo> {
    let info = |(key, algorithm): &(&'static str, &'static Algorithm)| {
        let (key, trait_name) = (*key, algorithm.name);
        algorithm.kinds.iter().map(move |Kind { name, meaning, source, partners, keys }| AlgorithmInfo {
            trait_name,
            key,
            kind: name,
            meaning,
            parameters: keys.iter().map(parameter).collect(),
            source,
            partners: partners::info(partners),
        })
    };
    ALGORITHMS.iter().flat_map(info).collect()
}

/// What clients can do.
pub fn workload_kinds() -> Vec<WorkloadKind> {
    vec![
        WorkloadKind {
            key: "size",
            meaning: "downloads in a closed loop: request, first byte, last byte, pause, again",
        },
        WorkloadKind {
            key: "tgen",
            meaning: "streams begin and packets leave as tgen's Markov models say, whatever becomes of them",
        },
        WorkloadKind { key: "hold", meaning: "circuits that carry nothing: open, close, pause, again" },
    ]
}

/// What the papers' clients do, as a workload's `preset` names it.
pub fn workload_presets() -> Vec<Preset> {
    presets::WORKLOADS.iter().map(preset).collect()
}

/// Versions of Tor, as a relay's or client's `preset` names them.
pub fn presets() -> Vec<Preset> {
    PRESETS.iter().map(preset).collect()
}

fn preset(preset: &presets::Preset) -> Preset {
    let values = preset.table().into_iter().map(|(key, node)| (key, print::value(&node))).collect();
    Preset { name: preset.name, meaning: preset.meaning, values }
}

/// Every key of a scenario file, section by section.
pub fn sections() -> Vec<SectionInfo> {
    let known = SECTIONS.iter().map(|(_, section)| *section).chain(INNER_SECTIONS.iter().copied());
    let info = |section: &'static crate::schema::Section| SectionInfo {
        title: section.title,
        parameters: section.keys().map(parameter).collect(),
    };
    known.map(info).collect()
}

fn parameter(key: &Key) -> Parameter {
    let default = match key.fallback {
        Fallback::Required => String::new(),
        Fallback::Like(other) => format!("as {other}"),
        Fallback::Value(default) => match &key.form {
            crate::form::Form::Algorithm(algorithm) => format!("{{ kind = {:?} }}", algorithm.kinds[0].name),
            _ => print::value(
                &parse_value(default).unwrap_or_else(|| Node::text(default, crate::tree::Origin::Default)),
            ),
        },
    };
    Parameter {
        key: key.name,
        default,
        unit: key.form.unit(),
        form: key.form.describe(),
        meaning: key.meaning,
        keys: key.form.section().into_iter().flat_map(|section| section.keys()).map(parameter).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_says_where_it_comes_from() {
        let all = algorithms();
        assert!(all.iter().all(|info| !info.source.is_empty() && !info.meaning.is_empty()));
        let windows = all.iter().find(|info| info.kind == "windows").unwrap();
        assert_eq!((windows.trait_name, windows.key), ("EdgeControl", "edge_control"));
        let window = &windows.parameters[0];
        assert_eq!((window.key, window.default.as_str(), window.unit), ("circuit_window", "1000", "cell"));
        assert_eq!(window.form, "a whole number [cell] from 100 to 1000");
    }

    #[test]
    fn every_key_has_a_meaning_and_a_form() {
        for section in sections() {
            for parameter in section.parameters {
                let Parameter { key, form, meaning, .. } = parameter;
                assert!(!form.is_empty() && !meaning.is_empty(), "{} {key}", section.title);
            }
        }
    }
}
