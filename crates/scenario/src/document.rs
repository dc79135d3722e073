//! A scenario file with all its variants.

use crate::build;
use crate::changes::changes;
use crate::deploy::deployments;
use crate::error::{Mistake, Places, ScenarioError, listed};
use crate::estimate::{Estimate, estimate};
use crate::model::{Head, Scenario, Variant};
use crate::network_file::{self, NetworkFile};
use crate::overrides;
use crate::print;
use crate::resolve::{Resolved, resolve};
use crate::schema;
use crate::tree::{self, Node, Table, Value};
use penstock_units::Seed;

/// A scenario file with all its variants, checked.
///
/// Overrides go file < network file < variant < `--set`. A scenario without variants has one, `default`.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    network: Option<String>,
    sets: Vec<String>,
    variants: Vec<Variant>,
    versions: Vec<Version>,
}

/// A point of a grid: what it is called, and what it sets over `--set`, as `key=value`.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Empty for the one point of a file that is not swept.
    pub name: String,
    /// Later ones go over earlier ones.
    pub sets: Vec<String>,
}

impl Point {
    /// What a variant is called at this point; `alone` if there is no other one there.
    fn of(&self, variant: &Variant, alone: bool) -> Variant {
        let called = |own: &str| match (self.name.is_empty(), alone) {
            (true, _) => own.to_owned(),
            (false, true) => self.name.clone(),
            (false, false) => format!("{own}, {}", self.name),
        };
        Variant { name: called(&variant.name), label: called(&variant.label) }
    }
}

/// One variant of a document.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) resolved: Resolved,
    pub(crate) scenario: Scenario,
    /// What the variant sets: dotted keys and values as TOML.
    pub(crate) overrides: Vec<(String, String)>,
}

impl Document {
    /// Reads the text of a scenario and checks all its variants.
    ///
    /// `name` is what messages call the file; `sets` are `key=value`, where the value is TOML, or
    /// plain words that cannot be mistaken for it.
    pub fn parse(text: &str, name: &str, sets: &[String]) -> Result<Document, ScenarioError> {
        Document::sweep(text, name, sets, &[], &[Point::default()])
    }

    /// Reads a scenario at each point of a grid: its variants are those of the file at each of them.
    ///
    /// `only` are the variants that take part, all if it is empty: what a point sets may have no place
    /// in the others. A variant is called `variant, point`, and `point` where one takes part.
    pub fn sweep(
        text: &str,
        name: &str,
        sets: &[String],
        only: &[String],
        points: &[Point],
    ) -> Result<Document, ScenarioError> {
        Document::in_network(text, name, None, sets, only, points)
    }

    /// Reads a scenario as [`sweep`](Self::sweep) does, whose relays and `[network]` may be those of a network file.
    pub fn in_network(
        text: &str,
        name: &str,
        network: Option<NetworkFile<'_>>,
        sets: &[String],
        only: &[String],
        points: &[Point],
    ) -> Result<Document, ScenarioError> {
        let (mut names, mut said) = (Vec::new(), sets.to_vec());
        Document::read((text, name), network, (sets.len(), only), points, &mut names, &mut said)
            .map_err(|mistake| {
                let network = network.map_or("", |network| network.name);
                Places { file: name, network, variants: &names, said: &said, sets: sets.len() }.error(mistake)
            })?
            .ok_or_else(|| {
                let known = listed(names.iter().map(String::as_str));
                let wrong = only.iter().find(|each| !names.contains(each));
                let wrong = wrong.expect("variants that are all there leave one that takes part");
                ScenarioError::of_caller(name, format!("there is no variant {wrong:?}; there are {known}"))
            })
    }

    /// Nothing, if one of `only` is not there. `said` begins with the `--set`s; each point's follow in its turn.
    fn read(
        (text, name): (&str, &str),
        network: Option<NetworkFile<'_>>,
        (sets, only): (usize, &[String]),
        points: &[Point],
        names: &mut Vec<String>,
        said: &mut Vec<String>,
    ) -> Result<Option<Document>, Mistake> {
        let mut file = tree::parse(text)?;
        if let Some(network) = network {
            network_file::lay(&mut file, network_file::read(network.text)?);
        }
        let mut entries = variants(file.remove("variants"))?;
        names.extend(entries.iter().map(|entry| entry.variant.name.clone()));
        if !only.iter().all(|each| names.contains(each)) {
            return Ok(None);
        }
        entries.retain(|entry| only.is_empty() || only.contains(&entry.variant.name));
        let mut document = Document {
            name: name.to_owned(),
            network: network.map(|network| network.name.to_owned()),
            sets: said.clone(),
            variants: Vec::new(),
            versions: Vec::new(),
        };
        for point in points {
            said.truncate(sets);
            said.extend_from_slice(&point.sets);
            let sets_overlay = overrides::of_sets(said)?;
            overrides::check_names(&file, &sets_overlay)?;
            for Entry { variant, set, index } in &entries {
                let overlay = overrides::of_variant(set, *index)?;
                overrides::check_names(&file, &overlay)?;
                let mut root = file.clone();
                overrides::merge(&mut root, &overlay);
                overrides::merge(&mut root, &sets_overlay);
                let resolved = resolve(&root)?;
                let variant = point.of(variant, entries.len() == 1);
                let mut scenario = build::scenario(&resolved.full, variant.clone())?;
                scenario.deployments = deployments(&root, &resolved, &scenario.relays)?;
                scenario.changes = changes(&root, &resolved, &scenario)?;
                let leaves = overrides::leaves(&overlay).into_iter();
                let overrides = leaves.map(|(key, node)| (key, print::value(node))).collect();
                document.variants.push(variant);
                document.versions.push(Version { resolved, scenario, overrides });
            }
        }
        Ok(Some(document))
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What messages call the network file that goes over it, if one does.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// What the scenario stands for.
    pub fn head(&self) -> &Head {
        &self.versions[0].scenario.head
    }

    /// The variants in the order of the file.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The seeds, the same for all variants.
    pub fn seeds(&self) -> Vec<u64> {
        build::seeds(&self.versions[0].resolved.full)
    }

    /// The seeds of networks, the same for all variants; none if each seed draws a network of its own.
    pub fn networks(&self) -> Vec<u64> {
        build::networks(&self.versions[0].resolved.full)
    }

    /// One variant, ready to be run.
    pub fn scenario(&self, variant: &str) -> Result<&Scenario, ScenarioError> {
        Ok(&self.version(variant)?.scenario)
    }

    /// About how much work a run of one variant is: the first one.
    pub fn estimate(&self, variant: &str) -> Result<Estimate, ScenarioError> {
        Ok(estimate(self.scenario(variant)?, self.first_network()))
    }

    /// The network of the first run.
    pub(crate) fn first_network(&self) -> Seed {
        Seed(self.networks().into_iter().chain(self.seeds()).next().unwrap_or(1))
    }

    /// One variant as TOML with every default filled in; it reads back to the same scenario.
    pub fn resolved_toml(&self, variant: &str) -> Result<String, ScenarioError> {
        Ok(print::file(&self.version(variant)?.resolved.written))
    }

    /// A stable hash of what the scenario does, as 16 hexadecimal digits.
    ///
    /// 64-bit FNV-1a over each variant's name and [resolved TOML](Self::resolved_toml), in the order
    /// of the file. Seeds, networks and the head `[scenario]` stay out: a directory may get more seeds
    /// later, and a better title changes no result.
    pub fn fingerprint(&self) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |text: &str| {
            // The zero keeps the end of one text apart from the beginning of the next.
            for byte in text.bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for (variant, version) in self.variants.iter().zip(&self.versions) {
            let mut root = version.resolved.written.clone();
            root.remove("scenario");
            if let Some(Node { value: Value::Table(run), .. }) = root.get_mut("run") {
                run.remove("seeds");
                run.remove("networks");
            }
            add(&variant.name);
            add(&print::file(&root));
        }
        format!("{hash:016x}")
    }

    pub(crate) fn sets(&self) -> &[String] {
        &self.sets
    }

    pub(crate) fn versions(&self) -> &[Version] {
        &self.versions
    }

    fn version(&self, variant: &str) -> Result<&Version, ScenarioError> {
        let index = self.variants.iter().position(|known| known.name == variant).ok_or_else(|| {
            let known = listed(self.variants.iter().map(|known| known.name.as_str()));
            ScenarioError::of_caller(
                &self.name,
                format!("there is no variant {variant:?}; there are {known}"),
            )
        })?;
        Ok(&self.versions[index])
    }
}

/// A variant and what it sets, before anything is merged.
struct Entry {
    variant: Variant,
    set: Table,
    /// Its place in the file, from 0.
    index: usize,
}

fn variants(node: Option<Node>) -> Result<Vec<Entry>, Mistake> {
    let only = || Entry {
        variant: Variant { name: "default".to_owned(), label: "default".to_owned() },
        set: Table::new(),
        index: 0,
    };
    let Some(node) = node else { return Ok(vec![only()]) };
    let form = crate::form::Form::Sections(&schema::VARIANTS);
    let checked = form.check(&node, "variants", &Table::new())?;
    let Value::List(list) = checked.value else { unreachable!("the form checked that it is a list") };
    let mut entries: Vec<Entry> = Vec::new();
    for (index, node) in list.into_iter().enumerate() {
        let Value::Table(mut table) = node.value else { unreachable!("the form checked that it is a table") };
        let mut take = |key: &str| table.remove(key).expect("the form filled it in");
        let (name, label, set) = (take("name"), take("label"), take("set"));
        let own = |node: &Node| node.as_text().expect("the form checked that it is a string").to_owned();
        let variant = Variant { name: own(&name), label: own(&label) };
        if entries.iter().any(|entry| entry.variant.name == variant.name) {
            let message =
                format!("the variant {:?} is there twice; every variant needs its own name", variant.name);
            return Err(Mistake::new(name.at, format!("variants.{index}.name"), message));
        }
        let Value::Table(set) = set.value else { unreachable!("the form checked that it is a table") };
        entries.push(Entry { variant, set, index });
    }
    match entries.is_empty() {
        true => {
            Err(Mistake::new(node.at, "variants", "the list is empty; leave it out, or write [[variants]]"))
        }
        false => Ok(entries),
    }
}
