//! The command `world`. It runs a scenario once, either in the simulator or in the testbed.

use super::row::{Emulation, WorldRow};
use super::testbed;
use crate::Error;
use crate::error::usage;
use crate::options::word;
use penstock_record::{RunKey, Tables};
use penstock_scenario::{Document, NetworkFile, Point, Scenario};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use strum::{Display, EnumString, VariantNames};

/// Arguments of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    scenario: String,
    world: World,
    variant: Option<String>,
    seed: u64,
    sets: Vec<String>,
    network: Option<String>,
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
enum World {
    Sim,
    Testbed,
}

impl Ask {
    /// Parses the arguments after `world`.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Ask, Error> {
        let mut arguments = arguments.into_iter();
        let scenario = arguments.next().filter(|first| !first.starts_with("--"));
        let scenario =
            scenario.ok_or_else(|| usage!("name a scenario's file first: world SCENARIO [OPTION]..."))?;
        let mut ask = Ask {
            scenario,
            world: World::Testbed,
            variant: None,
            seed: 1,
            sets: Vec::new(),
            network: None,
            out: None,
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| usage!("{option} needs a value"))?;
            match option.as_str() {
                "--world" => ask.world = word("--world", &value)?,
                "--variant" => ask.variant = Some(value),
                "--seed" => {
                    let wrong = |_| usage!("--seed is {value:?}: write a whole number");
                    ask.seed = value.parse().map_err(wrong)?;
                }
                "--set" => ask.sets.push(value),
                "--network" => ask.network = Some(value),
                "--out" => ask.out = Some(value.into()),
                _ => {
                    return Err(usage!(
                        "{option:?} is not an option: write --world, --variant, --seed, --set, --network or --out"
                    ));
                }
            }
        }
        Ok(ask)
    }
}

/// Runs the scenario, and returns the output. In the testbed, the process must have only the calling thread.
pub fn run(ask: &Ask) -> Result<WorldRow, Error> {
    let read = |name: &String| fs::read_to_string(name).map_err(|error| usage!("{name}: {error}"));
    let text = read(&ask.scenario)?;
    let network = ask.network.as_ref().map(|name| Ok::<_, Error>((read(name)?, name))).transpose()?;
    let network = network.as_ref().map(|(text, name)| NetworkFile { name, text });
    let document = Document::in_network(&text, &ask.scenario, network, &ask.sets, &[], &[Point::default()]);
    let document = document.map_err(|error| usage!("{error}"))?;
    let first = || document.variants()[0].name.clone();
    let variant = ask.variant.clone().unwrap_or_else(first);
    let scenario = document.scenario(&variant).map_err(|error| usage!("{error}"))?;
    let mut row = WorldRow {
        world: ask.world.to_string(),
        scenario: ask.scenario.clone(),
        variant,
        seed: ask.seed,
        by: format!("penstock {}", env!("CARGO_PKG_VERSION")),
        sets: ask.sets.clone(),
        downloads: BTreeMap::new(),
        cells: BTreeMap::new(),
        written_bytes: BTreeMap::new(),
        relay_cells: BTreeMap::new(),
        seconds: scenario.run.duration.as_secs_f64(),
        packets: 0,
        written_cells: 0,
        emulation: None,
    };
    if let Some(folder) = &ask.out {
        fs::create_dir_all(folder).map_err(|error| usage!("{}: {error}", folder.display()))?;
    }
    let tables = match ask.world {
        World::Sim => simulated(scenario, ask.seed, &mut row)?,
        World::Testbed => measured(scenario, ask.seed, &mut row)?,
    };
    row.fill(&tables, scenario.run.warmup.as_secs_f64());
    if let Some(folder) = &ask.out {
        write(&tables, folder, &RunKey::new(row.variant.clone(), ask.seed))?;
    }
    Ok(row)
}

fn simulated(scenario: &Scenario, seed: u64, row: &mut WorldRow) -> Result<Tables, Error> {
    let outcome = penstock_sim::run(scenario, seed, &penstock_sim::Control::default());
    let outcome = outcome.map_err(|error| usage!("{error}"))?;
    (row.seconds, row.packets) = (outcome.stats.sim_seconds, outcome.stats.packets);
    Ok(outcome.tables)
}

fn measured(scenario: &Scenario, seed: u64, row: &mut WorldRow) -> Result<Tables, Error> {
    let outcome = testbed::run(scenario, seed)?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    row.by = format!("{}, Linux {}", row.by, release.trim());
    let emulation = Emulation {
        late_p99_s: outcome.lateness.quantile(0.99).as_secs_f64(),
        late_max_s: outcome.lateness.max().as_secs_f64(),
        longest_wait_s: outcome.longest_wait.as_secs_f64(),
        dropped: outcome.dropped,
        unseen: outcome.unseen,
        broken: outcome.broken,
        void: None,
    };
    row.emulation = Some(emulation.assessed());
    row.packets = outcome.packets;
    Ok(outcome.tables)
}

fn write(tables: &Tables, folder: &Path, key: &RunKey) -> Result<(), Error> {
    tables.write(folder, key).map_err(|error| usage!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Ask, Error> {
        Ask::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn the_arguments_of_a_run_are_parsed() {
        let ask = parse("a.toml --world sim --variant kist --seed 3 --set x=1 --set y=2 --out o").unwrap();
        assert_eq!((ask.world, ask.variant.as_deref(), ask.seed), (World::Sim, Some("kist"), 3));
        assert_eq!(ask.sets, ["x=1", "y=2"]);
        assert_eq!(parse("a.toml").unwrap().world, World::Testbed);
    }

    #[test]
    fn errors_name_a_correct_form() {
        for (line, expected) in [
            ("--seed 1", "name a scenario"),
            ("a.toml --seed", "needs a value"),
            ("a.toml --seed x", "a whole number"),
            ("a.toml --world live", "sim or testbed"),
            ("a.toml --speed 1", "is not an option"),
        ] {
            assert!(parse(line).unwrap_err().to_string().contains(expected), "{line}");
        }
    }
}
