use crate::build;
use crate::changes::changes;
use crate::deployments::deployments;
use crate::error::{ConfigError, Error, Sources, listed};
use crate::estimate::{Estimate, estimate};
use crate::ineffective::{self, Unused, WrittenKey};
use crate::layers::{self, Entry, NetworkFile, NewKind, Warnings, layered, read_file};
use crate::lookahead;
use crate::model::{Head, Latency, Scenario, Variant};
use crate::sections::{self, Sections};
use crate::tree::{Node, Table, Value};
use penstock_units::Seed;

/// A scenario file with all its variants, checked. Overrides apply in this order: file, network file, variant,
/// `--set`. The last one wins. A file without `[[variants]]` has one variant, `default`.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    network: Option<String>,
    sets: Vec<String>,
    variants: Vec<Variant>,
    versions: Vec<Version>,
    warnings: Vec<String>,
}

/// One point of a parameter sweep: its name, and the overrides that it adds to the file.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Name of the point; empty if the file is not swept.
    pub name: String,
    /// Overrides as `key=value`. If two overrides set the same key, the later one wins.
    pub sets: Vec<String>,
}

impl Point {
    /// The variant's name and label at this point of the sweep. `alone` says whether the file has no other variant.
    fn of(&self, variant: &Variant, alone: bool) -> Variant {
        let called = |own: &str| match (self.name.is_empty(), alone) {
            (true, _) => own.to_owned(),
            (false, true) => self.name.clone(),
            (false, false) => format!("{own}, {}", self.name),
        };
        Variant { name: called(&variant.name), label: called(&variant.label) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) sections: Sections,
    pub(crate) scenario: Scenario,
    /// The overrides of the variant: a dotted key and a value in TOML each.
    pub(crate) overrides: Vec<(String, String)>,
    /// The algorithms that an override replaces, with the values of their other keys.
    pub(crate) kinds: Vec<NewKind>,
}

impl Document {
    /// Parses the text of a scenario file and checks all variants. `name` is the path of the file. Messages show it,
    /// and `[scenario] include` reads files from its folder. Each item of `sets` is `key=value`. The value is TOML,
    /// or a string without quotes.
    pub fn parse(text: &str, name: &str, sets: &[String]) -> Result<Document, Error> {
        Document::in_network(text, name, None, sets, &[], &[Point::default()])
    }

    /// Reads a scenario file, and replaces its relays and its `[network]` by those of a network file. The document has
    /// the variants of the file at each point of a grid.
    ///
    /// `only` selects the variants of the file; if it is empty, all. A selection helps if other variants lack the keys
    /// of a point. A variant of the document is named `variant, point`, or `point` if only one variant is selected.
    pub fn in_network(
        text: &str,
        name: &str,
        network: Option<NetworkFile<'_>>,
        sets: &[String],
        only: &[String],
        points: &[Point],
    ) -> Result<Document, Error> {
        let mut sources = Sources {
            files: vec![name.to_owned()],
            overrides: sets.to_vec(),
            sets: sets.len(),
            ..Sources::default()
        };
        let mut warnings = Warnings::new();
        let file = read_file(text, network, &mut sources, &mut warnings);
        let (file, mut entries) = file.map_err(|error| sources.error(error))?;
        if let Some(unknown) = only.iter().find(|name| !sources.variants.contains(name)) {
            return Err(unknown_variant(name, unknown, &sources.variants));
        }
        entries.retain(|entry| only.is_empty() || only.contains(&entry.variant.name));
        let mut document = Document {
            name: name.to_owned(),
            network: network.map(|network| network.name.to_owned()),
            sets: sets.to_vec(),
            variants: Vec::new(),
            versions: Vec::new(),
            warnings: Vec::new(),
        };
        let mut unused = Unused::default();
        for point in points {
            sources.overrides.truncate(sets.len());
            sources.overrides.extend_from_slice(&point.sets);
            let mut keys = Vec::new();
            let added = document.add(&file, &entries, point, &sources, &mut warnings, &mut keys);
            added.map_err(|error| sources.error(error))?;
            unused.add(&sources, keys);
            for (at, message) in warnings.drain(..) {
                let warning = sources.sentence(at, &message);
                if !document.warnings.contains(&warning) {
                    document.warnings.push(warning);
                }
            }
        }
        document.warnings.extend(unused.warnings());
        Ok(document)
    }

    fn add(
        &mut self,
        file: &Table,
        entries: &[Entry],
        point: &Point,
        sources: &Sources,
        warnings: &mut Warnings,
        keys: &mut Vec<WrittenKey>,
    ) -> Result<(), ConfigError> {
        let sets = layers::of_sets(file, &sources.overrides, warnings)?;
        for entry in entries {
            let (merged, overlay) = layered(file, entry, &sets, warnings)?;
            let sections = sections::read(&merged.whole, &merged.own)?;
            let variant = point.of(&entry.variant, entries.len() == 1);
            let mut scenario = build::scenario(&sections, variant.clone())?;
            scenario.deployments = deployments(&sections, &scenario.relays)?;
            scenario.changes = changes(merged, &sections, &scenario)?;
            keys.extend(ineffective::check(&sections, &scenario));
            warnings.extend(lookahead::check(&sections, &scenario));
            let leaves = layers::leaves(&overlay).into_iter();
            let overrides = leaves.map(|(key, node)| (key, node.value.print())).collect();
            let kinds = layers::new_kinds(file, &[&overlay, &sets], &sections.resolved);
            self.variants.push(variant);
            self.versions.push(Version { sections, scenario, overrides, kinds });
        }
        Ok(())
    }

    /// Reads only the section `[scenario]` of a file, which is much faster than to check all variants. The arguments are
    /// those of [`Document::parse`].
    pub fn head_of(text: &str, name: &str) -> Result<Head, Error> {
        let mut sources = Sources { files: vec![name.to_owned()], ..Sources::default() };
        let file = read_file(text, None, &mut sources, &mut Warnings::new());
        let head = file.and_then(|(file, _)| sections::head(&file));
        head.map_err(|error| sources.error(error))
    }

    /// Path of the file, as messages show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the network file in messages, if there is a network file.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// Warnings about old keys, which the next release will refuse, and about keys without effect in every variant.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The section `[scenario]`: title, paper and figures.
    pub fn head(&self) -> &Head {
        &self.versions[0].scenario.head
    }

    /// The variants, in the order of the file.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The seeds of runs. Every variant runs with each of these seeds.
    pub fn seeds(&self) -> Vec<u64> {
        self.versions[0].sections.run.keys.seeds.clone()
    }

    /// The seeds of networks, the same for all variants. The list is empty if each run samples its network from its own
    /// seed.
    pub fn networks(&self) -> Vec<u64> {
        self.versions[0].sections.run.keys.networks.clone().unwrap_or_default()
    }

    /// The source of the places of the first variant: the name of the environment that generates them, or otherwise the
    /// file that lists them. `None` if the network has no places.
    pub fn places(&self) -> Option<(bool, &str)> {
        let Latency::Places(_, environment) = &self.versions[0].scenario.network.latency else { return None };
        let file = || self.network.as_deref().unwrap_or(&self.name);
        Some((environment.is_some(), environment.map_or_else(file, |environment| environment.name)))
    }

    /// The scenario of one variant, ready to run.
    pub fn scenario(&self, variant: &str) -> Result<&Scenario, Error> {
        Ok(&self.version(variant)?.scenario)
    }

    /// The approximate work of the first run of a variant.
    pub fn estimate(&self, variant: &str) -> Result<Estimate, Error> {
        Ok(estimate(self.scenario(variant)?, self.first_network()))
    }

    /// The seed from which the first run samples its network.
    pub(crate) fn first_network(&self) -> Seed {
        Seed(self.networks().into_iter().chain(self.seeds()).next().unwrap_or(1))
    }

    /// One variant as TOML with every default filled in. Parsing this text gives the same scenario.
    pub fn resolved_toml(&self, variant: &str) -> Result<String, Error> {
        Ok(sections::print(&self.version(variant)?.sections.resolved))
    }

    /// A stable hash of everything that affects results, as 16 hexadecimal digits. This is the 64-bit FNV-1a hash over
    /// the names and the [resolved TOML](Self::resolved_toml) of all variants, in the order of the file. Seeds,
    /// networks and `[scenario]` do not enter the hash. The hash therefore stays the same if seeds are added or the
    /// title changes.
    pub fn fingerprint(&self) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |text: &str| {
            // A zero byte separates two texts.
            for byte in text.bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for (variant, version) in self.variants.iter().zip(&self.versions) {
            let mut root = version.sections.resolved.clone();
            root.remove("scenario");
            if let Some(Node { value: Value::Table(run), .. }) = root.get_mut("run") {
                run.remove("seeds");
                run.remove("networks");
            }
            add(&variant.name);
            add(&sections::print(&root));
        }
        format!("{hash:016x}")
    }

    pub(crate) fn sets(&self) -> &[String] {
        &self.sets
    }

    pub(crate) fn versions(&self) -> &[Version] {
        &self.versions
    }

    fn version(&self, variant: &str) -> Result<&Version, Error> {
        let index = self.variants.iter().position(|known| known.name == variant).ok_or_else(|| {
            let known: Vec<_> = self.variants.iter().map(|variant| variant.name.clone()).collect();
            unknown_variant(&self.name, variant, &known)
        })?;
        Ok(&self.versions[index])
    }
}

fn unknown_variant(file: &str, variant: &str, known: &[String]) -> Error {
    let known = listed(known.iter().map(String::as_str));
    Error::UnknownVariant { file: file.to_owned(), variant: variant.to_owned(), known }
}
