//! Errors of the parser. Each error has the file, the line, the key, and an example of a correct value.

/// An error in a scenario, as one sentence.
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
        /// Place of the error: a line of a file, a variant, or an option on the command line.
        place: String,
        /// Line in the file, from 1; `None` if the error is on the command line.
        line: Option<u32>,
        /// Dotted key, such as `relays.middle.link`; empty if the error has no key.
        key: String,
        /// The mistake, and a correct value.
        message: String,
    },
    /// The caller names a variant that the file does not have.
    #[error("{file}: there is no variant {variant:?}; there are {known}")]
    UnknownVariant {
        /// Name of the file in messages.
        file: String,
        /// Variant that the caller named.
        variant: String,
        /// Variants of the file.
        known: String,
    },
    /// A key or a value of [`relay_config`](crate::relay_config) is wrong.
    #[error("{}{message}", prefix(key))]
    Relay {
        /// Index of the line, from 0; `None` if the error is not in a single line.
        line: Option<usize>,
        /// Dotted key, such as `scheduler.interval`; empty if the error has no key.
        key: String,
        /// The mistake, and a correct value.
        message: String,
    },
}

impl Error {
    /// Line in the scenario file, from 1, if the error has a line.
    pub fn line(&self) -> Option<u32> {
        if let Error::Config { line, .. } = self { *line } else { None }
    }

    /// Index of the line that [`relay_config`](crate::relay_config) received, from 0, if the error has a line.
    pub fn index(&self) -> Option<usize> {
        if let Error::Relay { line, .. } = self { *line } else { None }
    }

    /// Dotted key, such as `relays.middle.link`; empty if the error has no key.
    pub fn key(&self) -> &str {
        match self {
            Error::Config { key, .. } | Error::Relay { key, .. } => key,
            Error::UnknownVariant { .. } => "",
        }
    }

    /// The mistake and a correct value, without the place and the key.
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

/// The source of a value: a default, a line of a file, or an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The value is a default.
    Default,
    File {
        /// Index in [`Sources::files`].
        file: usize,
        /// Line, from 1.
        line: u32,
        /// Index of the variant that sets the value.
        variant: Option<usize>,
    },
    /// Index of the `--set` or `--param` that sets the value, from 0.
    Set(usize),
}

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

/// The names that an [`Origin`] refers to by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Names of the scenario file, the included files and the network file, in this order.
    pub(crate) files: Vec<String>,
    pub(crate) variants: Vec<String>,
    /// Overrides as `key=value`: first every `--set`, then every `--param` of a point.
    pub(crate) overrides: Vec<String>,
    /// Number of overrides that come from `--set`.
    pub(crate) sets: usize,
}

impl Sources {
    /// Names the source as text: a file, a variant or an option. Also returns the line in a file.
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

    pub(crate) fn sentence(&self, at: Origin, message: &str) -> String {
        format!("{}: {message}", self.place(at).0)
    }
}

/// The names as `a, b, c`; `nothing` if there are none.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Like [`listed`], but shows at most twelve names, because a network can have thousands of relays.
pub(crate) fn listed_briefly<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0..=12 => listed(names),
        many => format!("{} and {} more", names[..12].join(", "), many - 12),
    }
}

/// The longest list of known keys in a message. A longer list is reduced to its [`NEAREST`] keys.
const SHORT_LIST: usize = 12;

/// Number of known keys that a message names if the list is long [1].
const NEAREST: usize = 4;

/// How a message about an unknown key begins.
pub(crate) const UNKNOWN_KEY: &str = "this key is unknown";

/// Options of torrc and parameters of the consensus, and the keys with the same meaning. A key in an algorithm's table
/// has the key of the algorithm before it.
const OF_TOR: [(&str, &str); 9] = [
    ("KISTSchedRunInterval", "scheduler.interval"),
    ("CircuitPriorityHalflifeMsec", "circuit_policy.half_life"),
    ("CircuitPriorityHalflife", "circuit_policy.half_life"),
    ("circwindow", "edge_control.circuit_window"),
    ("circ_max_cell_queue_size", "max_circuit_queue"),
    ("guard-n-primary-guards-to-use", "guards"),
    ("NumEntryGuards", "guards"),
    ("TokenBucketRefillInterval", "refill"),
    ("MaxCircuitDirtiness", "circuit_lifetime"),
];

/// The known key with the meaning of a name of Tor. Parameters of Vegas have the name of their key between `cc_` or
/// `cc_vegas_` and `_exit` or `_client`.
fn of_tor(written: &str, known: &[&str]) -> Option<String> {
    let vegas = written.strip_prefix("cc_").map(|name| {
        let name = name.strip_prefix("vegas_").unwrap_or(name);
        let name = name.strip_suffix("_exit").or(name.strip_suffix("_client")).unwrap_or(name);
        format!("edge_control.{name}")
    });
    let of_table = OF_TOR.iter().find(|(name, _)| name.eq_ignore_ascii_case(written));
    let key = of_table.map(|(_, key)| (*key).to_owned()).or(vegas)?;
    match key.split_once('.') {
        Some((_, last)) if known.contains(&last) => Some(last.to_owned()),
        Some((first, _)) if known.contains(&first) => Some(key),
        None if known.contains(&&key[..]) => Some(key),
        _ => None,
    }
}

/// The remedy for an unknown key, as a text after "this key is unknown; ". If one known key is spelled similarly, the
/// text asks whether the user means this key. Otherwise the text lists the known keys after `takes`, such as
/// `[run] takes`, or only the keys with the most similar names.
pub(crate) fn instead<'a>(written: &str, takes: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let distance = |name: &&str| strsim::osa_distance(&written.to_lowercase(), &name.to_lowercase());
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(key) = of_tor(written, &known) {
        return format!("it is Tor's name; write {key}");
    }
    let mut nearest = known.clone();
    // The sort is stable: of equally similar names, the first one in the file's order comes first.
    nearest.sort_by_key(distance);
    let is_similar = |name: &&str| 3 * distance(name) <= written.chars().count().max(3);
    match nearest.first().copied().filter(is_similar) {
        Some(similar) => format!("did you mean {similar}?"),
        None if known.len() <= SHORT_LIST => format!("{takes} {}", listed(known)),
        None => {
            let named = listed(nearest[..NEAREST].iter().copied());
            format!("{takes} {} keys; the most similar are {named}", known.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_key_is_suggested() {
        let known = ["bandwidth_rate", "bandwidth_burst", "refill"];
        for wrong in ["bandwith_rate", "bandwidht_rate", "Bandwidth_Rate", "bandwidthrate"] {
            assert_eq!(instead(wrong, "[relay] takes", known), "did you mean bandwidth_rate?");
        }
        let none = "[relay] takes bandwidth_rate, bandwidth_burst, refill";
        assert_eq!(instead("speed", "[relay] takes", known), none);
        assert_eq!(instead("", "[relay] takes", known), none);
        assert_eq!(instead("x", "it takes", []), "it takes nothing");
    }

    #[test]
    fn a_name_of_tor_is_translated() {
        let scheduler = ["kind", "interval"];
        assert_eq!(instead("KISTSchedRunInterval", "takes", scheduler), "it is Tor's name; write interval");
        let relay = ["scheduler", "edge_control", "max_circuit_queue"];
        let write = |name| instead(name, "takes", relay);
        assert_eq!(write("KISTSchedRunInterval"), "it is Tor's name; write scheduler.interval");
        assert_eq!(write("cc_vegas_alpha_exit"), "it is Tor's name; write edge_control.alpha");
        assert_eq!(write("circ_max_cell_queue_size"), "it is Tor's name; write max_circuit_queue");
        assert_eq!(instead("cc_sendme_inc", "takes", ["sendme_inc"]), "it is Tor's name; write sendme_inc");
        assert!(!write("NumEntryGuards").contains("Tor's"), "relays have no such key");
    }

    #[test]
    fn a_long_list_is_reduced_to_the_most_similar_keys() {
        let known: Vec<String> = ('a'..='z').map(|letter| format!("key_{letter}_of_many")).collect();
        let message = instead("of_many", "[relay] takes", known.iter().map(String::as_str));
        let nearest = "key_a_of_many, key_b_of_many, key_c_of_many, key_d_of_many";
        assert_eq!(message, format!("[relay] takes 26 keys; the most similar are {nearest}"));
    }
}
