//! A scenario file with all its variants.

use crate::build;
use crate::changes::changes;
use crate::error::{Mistake, Places, ScenarioError, listed};
use crate::model::{Head, Scenario, Variant};
use crate::overrides;
use crate::print;
use crate::resolve::{Resolved, resolve};
use crate::schema;
use crate::tree::{self, Node, Table, Value};

/// A scenario file with all its variants, checked.
///
/// Overrides go file < variant < `--set`. A scenario without variants has one, `default`.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    sets: Vec<String>,
    variants: Vec<Variant>,
    versions: Vec<Version>,
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
        let mut names = Vec::new();
        Document::read(text, name, sets, &mut names)
            .map_err(|mistake| Places { file: name, variants: &names, sets }.error(mistake))
    }

    fn read(text: &str, name: &str, sets: &[String], names: &mut Vec<String>) -> Result<Document, Mistake> {
        let mut file = tree::parse(text)?;
        let entries = variants(file.remove("variants"))?;
        names.extend(entries.iter().map(|entry| entry.variant.name.clone()));
        let sets_overlay = overrides::of_sets(sets)?;
        overrides::check_names(&file, &sets_overlay)?;
        let mut document = Document {
            name: name.to_owned(),
            sets: sets.to_vec(),
            variants: entries.iter().map(|entry| entry.variant.clone()).collect(),
            versions: Vec::new(),
        };
        for (index, Entry { variant, set }) in entries.into_iter().enumerate() {
            let overlay = overrides::of_variant(&set, index)?;
            overrides::check_names(&file, &overlay)?;
            let mut root = file.clone();
            overrides::merge(&mut root, &overlay);
            overrides::merge(&mut root, &sets_overlay);
            let resolved = resolve(&root)?;
            let mut scenario = build::scenario(&resolved.full, variant)?;
            scenario.changes = changes(&root, &resolved, &scenario)?;
            let leaves = overrides::leaves(&overlay).into_iter();
            let overrides = leaves.map(|(key, node)| (key, print::value(node))).collect();
            document.versions.push(Version { resolved, scenario, overrides });
        }
        Ok(document)
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        &self.name
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

    /// One variant, ready to be run.
    pub fn scenario(&self, variant: &str) -> Result<&Scenario, ScenarioError> {
        Ok(&self.version(variant)?.scenario)
    }

    /// One variant as TOML with every default filled in; it reads back to the same scenario.
    pub fn resolved_toml(&self, variant: &str) -> Result<String, ScenarioError> {
        Ok(print::file(&self.version(variant)?.resolved.written))
    }

    /// A stable hash of what the scenario does, as 16 hexadecimal digits.
    ///
    /// 64-bit FNV-1a over each variant's name and [resolved TOML](Self::resolved_toml), in the order
    /// of the file. Seeds and the head `[scenario]` stay out: a directory may get more seeds later,
    /// and a better title changes no result.
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
}

fn variants(node: Option<Node>) -> Result<Vec<Entry>, Mistake> {
    let only = || Entry {
        variant: Variant { name: "default".to_owned(), label: "default".to_owned() },
        set: Table::new(),
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
        entries.push(Entry { variant, set });
    }
    match entries.is_empty() {
        true => {
            Err(Mistake::new(node.at, "variants", "the list is empty; leave it out, or write [[variants]]"))
        }
        false => Ok(entries),
    }
}
