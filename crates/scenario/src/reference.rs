//! Data of the reference pages: algorithms, workloads, presets, and all keys of scenario files.

use crate::model::{Costs, Dumbbell};
use crate::presets::{self, PRESETS};
use crate::sections::SECTIONS;
use crate::sections::elsewhere;
use crate::sections::hop_control::AdaptKeys;
use crate::sections::network::PairKeys;
use crate::sections::places::{EdgeKeys, PlaceKeys};
use crate::sections::run::StopKeys;
use crate::sections::workloads::{MarkovKeys, TgenKeys};
use penstock_core::build_times::BuildTimeParameters;

pub use crate::keys::{AlgorithmInfo, PartnerInfo};
pub use crate::sections::SectionInfo;
pub use crate::values::Parameter;

/// An activity of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadKind {
    /// Key of `[workloads.NAME]` that selects the activity.
    pub key: &'static str,
    /// The activity, in one line.
    pub meaning: &'static str,
}

/// A preset: a version of Tor, or the clients of a paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// The meaning of the preset, in one line.
    pub meaning: &'static str,
    /// Keys that the preset sets, with TOML values, in alphabetical order.
    pub values: Vec<(String, String)>,
}

/// Every implementation of every trait, in the order of `list algorithms`.
pub fn algorithms() -> Vec<AlgorithmInfo> {
    elsewhere::algorithms()
}

/// All activities of clients.
pub fn workload_kinds() -> Vec<WorkloadKind> {
    vec![
        WorkloadKind {
            key: "size",
            meaning: "downloads in a closed loop: request, first byte, last byte, pause, again",
        },
        WorkloadKind {
            key: "tgen",
            meaning: "streams begin and packets leave by tgen's Markov models, independent of the network",
        },
        WorkloadKind { key: "hold", meaning: "circuits without data: open, close, pause, again" },
    ]
}

/// The presets of workloads.
pub fn workload_presets() -> Vec<Preset> {
    presets::WORKLOADS.iter().map(preset).collect()
}

/// The presets of relays and clients.
pub fn presets() -> Vec<Preset> {
    PRESETS.iter().map(preset).collect()
}

fn preset(preset: &presets::Preset) -> Preset {
    let table = preset.table().unwrap_or_default();
    let values = table.into_iter().map(|(key, node)| (key, node.value.print())).collect();
    Preset { name: preset.name, meaning: preset.meaning, values }
}

/// All keys of a scenario file, by section.
pub fn sections() -> Vec<SectionInfo> {
    let tables = [
        SectionInfo::of::<StopKeys>(),
        SectionInfo::of::<Costs>(),
        SectionInfo::of::<BuildTimeParameters>(),
        SectionInfo::of::<Dumbbell>(),
        SectionInfo::of::<PairKeys>(),
        SectionInfo::of::<PlaceKeys>(),
        SectionInfo::of::<EdgeKeys>(),
        SectionInfo::of::<TgenKeys>(),
        SectionInfo::of::<MarkovKeys>(),
        SectionInfo::of::<AdaptKeys>(),
    ];
    SECTIONS.iter().map(|(_, section)| section()).chain(tables).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_source() {
        let all = algorithms();
        assert!(all.iter().all(|info| !info.source.is_empty() && !info.meaning.is_empty()));
        let windows = all.iter().find(|info| info.kind == "windows").unwrap();
        assert_eq!((windows.trait_name, windows.key), ("EdgeControl", "edge_control"));
        let window = &windows.parameters[0];
        assert_eq!((window.key, window.default.as_str(), window.unit), ("circuit_window", "1000", "cell"));
        assert_eq!(window.value_type, "a whole number [cell] from 100 to 1000");
    }

    #[test]
    fn every_key_has_a_meaning_and_a_value_type() {
        for section in sections() {
            for parameter in section.parameters {
                let Parameter { key, value_type, meaning, .. } = parameter;
                assert!(!value_type.is_empty() && !meaning.is_empty(), "{} {key}", section.title);
            }
        }
    }
}
