//! Errors: each names the file, the line, the key, and a value that would be right.

/// What is wrong with a scenario, in one sentence.
///
/// ```text
/// scenarios/x.toml:14: relays.middle.link: "0 KiB/s" is no rate: it is zero; a rate must be at least "1 B/s"
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key or a value is wrong.
    #[error("{place}: {}{message}", prefix(key))]
    Config {
        /// The file with its line, the variant, or the option of the command line.
        place: String,
        /// The line of the file, from 1; `None` for a mistake on the command line.
        line: Option<u32>,
        /// The dotted key, such as `relays.middle.link`; empty if the mistake has none.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// The caller names a variant that the file does not have.
    #[error("{file}: there is no variant {variant:?}; there are {known}")]
    UnknownVariant {
        /// What messages call the file.
        file: String,
        /// The variant that the caller named.
        variant: String,
        /// The variants of the file.
        known: String,
    },
    /// A key or a value of [`relay_config`](crate::relay_config) is wrong.
    #[error("{}{message}", prefix(key))]
    Relay {
        /// The index of the line, from 0; `None` if no single line is wrong.
        line: Option<usize>,
        /// The dotted key, such as `scheduler.interval`; empty if the mistake has none.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

impl Error {
    /// The line of the scenario, from 1, if the error has one.
    pub fn line(&self) -> Option<u32> {
        if let Error::Config { line, .. } = self { *line } else { None }
    }

    /// The index of the line of [`relay_config`](crate::relay_config), from 0, if the error has one.
    pub fn index(&self) -> Option<usize> {
        if let Error::Relay { line, .. } = self { *line } else { None }
    }

    /// The dotted key, such as `relays.middle.link`; empty if the error has none.
    pub fn key(&self) -> &str {
        match self {
            Error::Config { key, .. } | Error::Relay { key, .. } => key,
            Error::UnknownVariant { .. } => "",
        }
    }

    /// What is wrong and what would be right, without the place and the key.
    pub fn message(&self) -> &str {
        match self {
            Error::Config { message, .. } | Error::Relay { message, .. } => message,
            Error::UnknownVariant { .. } => "there is no such variant",
        }
    }
}

fn prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// Where a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nowhere: it is a default.
    Default,
    /// In a file.
    File {
        /// Index among the files of [`Sources`].
        file: usize,
        /// The line, from 1.
        line: u32,
        /// The variant whose `set` has the value.
        variant: Option<usize>,
    },
    /// In this `--set` or `--param`, from 0.
    Set(usize),
}

/// A mistake whose file and variant are still indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) at: Origin,
    pub(crate) key: String,
    pub(crate) message: String,
}

impl ConfigError {
    pub(crate) fn new(at: Origin, key: impl Into<String>, message: impl Into<String>) -> Self {
        ConfigError { at, key: key.into(), message: message.into() }
    }
}

/// The names of everything that an [`Origin`] can refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The scenario, then the files that it includes, then the network file.
    pub(crate) files: Vec<String>,
    pub(crate) variants: Vec<String>,
    /// Overrides as `key=value`: first each `--set`, then each `--param` of a point.
    pub(crate) overrides: Vec<String>,
    /// How many overrides are a `--set`.
    pub(crate) sets: usize,
}

impl Sources {
    /// The name of an origin, and its line.
    fn place(&self, at: Origin) -> (String, Option<u32>) {
        let name = |names: &[String], index: usize| names.get(index).cloned().unwrap_or_default();
        match at {
            Origin::Default => (name(&self.files, 0), None),
            Origin::File { file, line, variant } => {
                let variant = variant.map(|index| format!(": variant {:?}", name(&self.variants, index)));
                (format!("{}:{line}{}", name(&self.files, file), variant.unwrap_or_default()), Some(line))
            }
            Origin::Set(index) => {
                let option = if index < self.sets { "--set" } else { "--param" };
                (format!("{option} {}", name(&self.overrides, index)), None)
            }
        }
    }

    pub(crate) fn error(&self, error: ConfigError) -> Error {
        let (place, line) = self.place(error.at);
        Error::Config { place, line, key: error.key, message: error.message }
    }

    /// A sentence about something that is not wrong, such as an old key.
    pub(crate) fn sentence(&self, at: Origin, message: &str) -> String {
        format!("{}: {message}", self.place(at).0)
    }
}

/// `a, b, c`; `nothing` if there is no name.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// As [`listed`], but at most twelve names: a network has thousands of relays.
pub(crate) fn listed_briefly<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0..=12 => listed(names),
        many => format!("{} and {} more", names[..12].join(", "), many - 12),
    }
}
