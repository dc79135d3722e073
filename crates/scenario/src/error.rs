//! One sentence for each mistake: the file, the line, the key, and what would be right.

use crate::tree::Origin;
use std::fmt;

/// What is wrong with a scenario, as one sentence.
///
/// ```text
/// scenarios/x.toml:14: relays.middle.link: "0 KiB/s" is no rate: it is zero; a rate must be at least "1 B/s"
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    place: String,
    line: Option<u32>,
    key: String,
    message: String,
}

impl ScenarioError {
    /// The line of the scenario, from 1; `None` for a mistake on the command line.
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// The dotted key, such as `relays.middle.link`; empty if the mistake has none.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong and what would be right, without the place and the key.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A mistake of the caller, in no particular line.
    pub(crate) fn of_caller(file: &str, message: String) -> Self {
        ScenarioError { place: file.to_owned(), line: None, key: String::new(), message }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// A mistake before anyone knows what the file and the variants are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) at: Origin,
    pub(crate) key: String,
    pub(crate) message: String,
}

impl Mistake {
    pub(crate) fn new(at: Origin, key: impl Into<String>, message: impl Into<String>) -> Self {
        Mistake { at, key: key.into(), message: message.into() }
    }
}

/// What a mistake's origin is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) file: &'a str,
    /// What goes over the file first; empty if nothing does.
    pub(crate) network: &'a str,
    pub(crate) variants: &'a [String],
    /// What goes over the file and its variants, as `key=value`: first the `--set`s, then a point's `--param`s.
    pub(crate) said: &'a [String],
    /// How many of them are `--set`s.
    pub(crate) sets: usize,
}

impl Places<'_> {
    pub(crate) fn error(&self, mistake: Mistake) -> ScenarioError {
        let Mistake { at, key, message } = mistake;
        let file = self.file;
        let (place, line) = match at {
            Origin::Default => (file.to_owned(), None),
            Origin::Line(line) => (format!("{file}:{line}"), Some(line)),
            Origin::Network(line) => (format!("{}:{line}", self.network), Some(line)),
            Origin::Variant { line, index } => {
                let name = self.variants.get(index as usize).map_or("", String::as_str);
                (format!("{file}:{line}: variant {name:?}"), Some(line))
            }
            Origin::Set(index) => {
                let option = if (index as usize) < self.sets { "--set" } else { "--param" };
                (format!("{option} {}", self.said.get(index as usize).map_or("", String::as_str)), None)
            }
        };
        ScenarioError { place, line, key, message }
    }
}

/// `a`, `b`, `c`, for what is allowed; `nothing` if there is none.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// As [`listed`], cut after a dozen: a network has thousands of relays.
pub(crate) fn listed_briefly<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0..=12 => listed(names),
        many => format!("{} and {} more", names[..12].join(", "), many - 12),
    }
}
