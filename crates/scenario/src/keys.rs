//! Macros that declare the keys of a section, and functions that read a table by these declarations.
//!
//! `section!` declares a struct. Each field is a key. The comment of the field is the text on the reference page. The
//! type of the field is the Rust type. After `=` follow the value type and the default. `keys!` does the same for a
//! struct of the core. `sections!` makes one section from several groups of keys, which other sections can share. The
//! type `(A, B)` also joins two groups. `algorithm!` declares an enum of kinds, each with its own keys.

use crate::error::{ConfigError, Origin, UNKNOWN_KEY, instead, listed};
use crate::tree::{Node, Table, Value, join};
use crate::values::{Parameter, Site, ValueType};
use std::marker::PhantomData;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Default {
    /// No default: the key is required.
    Required,
    /// This value, in TOML. Strings need no quotes.
    Is(&'static str),
    /// The value of another key. The key is in the same table, or has its section in front, such as `network.rtt`.
    As(&'static str),
}

pub(crate) trait Section: Sized {
    /// The title in scenario files, such as `[run]` or `[relays.NAME]`.
    const TITLE: &'static str;
    fn has(key: &str) -> bool;
    fn parameters() -> Vec<Parameter>;
    fn read(reader: &mut Reader<'_>) -> Result<Self, ConfigError>;
}

pub(crate) struct Reader<'a> {
    table: &'a Table,
    site: Site<'a>,
    /// The keys that were read so far, in canonical form.
    shown: Table,
}

impl Reader<'_> {
    pub(crate) fn get<V: ValueType>(
        &mut self,
        name: &'static str,
        value_type: &V,
        default: Default,
    ) -> Result<V::Value, ConfigError> {
        let path = join(self.site.path, name);
        let fallback = match default {
            _ if self.table.contains_key(name) => None,
            Default::Required => None,
            Default::Is(text) => Some(Node::of_default(text)),
            Default::As(other) => self.other(other),
        };
        let Some(node) = self.table.get(name).or(fallback.as_ref()) else {
            let message = format!("this key is missing; it must be {}", value_type.describe());
            return Err(ConfigError::new(self.site.at, path, message));
        };
        let site = Site { at: node.at, path: &path, ..self.site };
        let (value, shown) = value_type.read(node, &site)?;
        self.shown.insert(name.to_owned(), Node { value: shown, at: node.at });
        Ok(value)
    }

    fn other(&self, key: &str) -> Option<Node> {
        let node = match key.split_once('.') {
            None => self.shown.get(key)?,
            Some((section, key)) => self.site.sections.get(section)?.table()?.get(key)?,
        };
        Some(Node { value: node.value.clone(), at: Origin::Default })
    }
}

/// A section after parsing: its keys and its place in the file.
#[derive(Clone, Debug)]
pub(crate) struct Read<S> {
    pub(crate) keys: S,
    /// All keys in canonical form, including defaults.
    pub(crate) shown: Table,
    pub(crate) path: String,
    pub(crate) at: Origin,
    /// The keys that the file sets.
    pub(crate) written: Table,
}

impl<S: Section> Read<S> {
    pub(crate) fn new(table: Table, site: &Site<'_>) -> Result<Self, ConfigError> {
        let (keys, shown) = read(&table, site)?;
        Ok(Read { keys, shown, path: site.path.to_owned(), at: site.at, written: table })
    }

    /// Whether a key of this section, and not of a table in it, has its default.
    pub(crate) fn has_default(&self, key: &str) -> bool {
        let parameters = S::parameters();
        let default =
            parameters.iter().find(|parameter| parameter.key == key).map(|found| &found.default[..]);
        let text = default.and_then(|text| match text.strip_prefix("as ") {
            Some(other) => self.print(other),
            None => Some(Node::of_default(text).value.print()),
        });
        text.is_some() && text == self.print(key)
    }
}

impl<S> Read<S> {
    /// An error with the place of `key`. The key can be inside a table, such as `throttle.burst`.
    pub(crate) fn wrong(&self, key: &str, message: impl Into<String>) -> ConfigError {
        let mut at = self.at;
        let mut table = Some(&self.written);
        for name in key.split('.') {
            let node = table.and_then(|table| table.get(name));
            at = node.map_or(at, |node| node.at);
            table = node.and_then(Node::table);
        }
        ConfigError::new(at, join(&self.path, key), message)
    }

    pub(crate) fn sets(&self, key: &str) -> bool {
        let mut names = key.split('.');
        let first = names.next().and_then(|name| self.written.get(name));
        let node = names.fold(first, |node, name| node?.table()?.get(name));
        node.is_some_and(Node::is_written)
    }

    /// The value of `key` in canonical form, as TOML.
    pub(crate) fn print(&self, key: &str) -> Option<String> {
        let mut names = key.split('.');
        let first = names.next().and_then(|name| self.shown.get(name));
        let node = names.fold(first, |node, name| node?.table()?.get(name));
        node.map(|node| node.value.print())
    }

    /// The error for a low limit above its high limit. It names the key that the file sets.
    pub(crate) fn upside_down(&self, low: &str, high: &str) -> ConfigError {
        let show = |key| self.print(key).unwrap_or_default();
        let [low_name, high_name] = [low, high].map(|key| key.rsplit('.').next().unwrap_or(key));
        let message = format!(
            "{low_name} is {} and {high_name} is {}; the low mark must be below the high one",
            show(low),
            show(high)
        );
        self.wrong(if self.sets(low) { low } else { high }, message)
    }
}

/// Reads `table` as the section `S`. Returns the typed keys, and all keys in canonical form.
fn read<S: Section>(table: &Table, site: &Site<'_>) -> Result<(S, Table), ConfigError> {
    if let Some((name, node)) = table.iter().find(|(name, _)| !S::has(name)) {
        let known = S::parameters();
        let remedy = instead(name, &format!("{} takes", S::TITLE), known.iter().map(|key| key.key));
        let message = format!("{UNKNOWN_KEY}; {remedy}");
        return Err(ConfigError::new(node.at, join(site.path, name), message));
    }
    let mut reader = Reader { table, site: *site, shown: Table::new() };
    let keys = S::read(&mut reader)?;
    Ok((keys, reader.shown))
}

/// Calls `read` with a reader of an empty table, so that every key has its default.
pub(crate) fn with_defaults<T>(
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let (table, sections) = (Table::new(), Table::new());
    let site = Site { at: Origin::Default, path: "", sections: &sections };
    read(&mut Reader { table: &table, site, shown: Table::new() })
}

/// The defaults of a section's keys in canonical form. Empty if a key is required.
pub(crate) fn defaults<S: Section>() -> Table {
    let site = Site { at: Origin::Default, path: "", sections: &Table::new() };
    read::<S>(&Table::new(), &site).map(|(_, shown)| shown).unwrap_or_default()
}

pub(crate) fn parameter<V: ValueType>(
    key: &'static str,
    value_type: &V,
    default: Default,
    meaning: &'static str,
) -> Parameter {
    Parameter {
        key,
        default: match default {
            Default::Required => String::new(),
            Default::Is(text) => value_type.print_default(text),
            Default::As(other) => format!("as {other}"),
        },
        unit: value_type.unit(),
        value_type: value_type.describe(),
        meaning: meaning.trim(),
        keys: value_type.parameters(),
        words: value_type.words(),
    }
}

/// Declares the keys of a struct, each as `KEY = VALUE TYPE, DEFAULT;`. The comment of a key is its meaning. `..REST`
/// gives the values of all other fields.
macro_rules! keys {
    ($name:ident($title:literal) {
        $($(#[doc = $meaning:literal])+ $key:ident = $value_type:expr, $default:expr;)*
        $(..$rest:expr)?
    }) => {
        impl $crate::keys::Section for $name {
            const TITLE: &'static str = $title;

            fn has(key: &str) -> bool {
                [$(stringify!($key)),*].contains(&key)
            }

            fn parameters() -> Vec<$crate::values::Parameter> {
                #[allow(unused_imports, reason = "a section may have no keys, or only one sort of defaults")]
                use $crate::keys::Default::{As, Is, Required};
                vec![$($crate::keys::parameter(
                    stringify!($key), &$value_type, $default, concat!($($meaning),+))),*]
            }

            #[allow(unused_variables, reason = "a section may have no keys")]
            fn read(reader: &mut $crate::keys::Reader<'_>) -> Result<Self, $crate::error::ConfigError> {
                #[allow(unused_imports, reason = "a section may have no keys, or only one sort of defaults")]
                use $crate::keys::Default::{As, Is, Required};
                Ok($name { $($key: reader.get(stringify!($key), &$value_type, $default)?,)* $(..$rest)? })
            }
        }
    };
}
pub(crate) use keys;

/// Declares a struct and its keys: `KEY: TYPE = VALUE TYPE, DEFAULT;`.
macro_rules! section {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident($title:literal) {
        $($(#[doc = $meaning:literal])+ $key:ident: $type:ty = $value_type:expr, $default:expr;)*
    }) => {
        $(#[$attribute])*
        #[allow(dead_code, reason = "some keys are only the default of others")]
        $visible struct $name {
            $($(#[doc = $meaning])+ $visible $key: $type,)*
        }

        $crate::keys::keys! { $name($title) { $($(#[doc = $meaning])+ $key = $value_type, $default;)* } }
    };
}
pub(crate) use section;

macro_rules! sections {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident($title:literal) {
        $($group:ident: $type:ty,)+
    }) => {
        $(#[$attribute])*
        #[allow(dead_code, reason = "some keys are only the default of others")]
        $visible struct $name {
            $($visible $group: $type,)+
        }

        impl $crate::keys::Section for $name {
            const TITLE: &'static str = $title;

            fn has(key: &str) -> bool {
                $(<$type as $crate::keys::Section>::has(key))||+
            }

            fn parameters() -> Vec<$crate::values::Parameter> {
                [$(<$type as $crate::keys::Section>::parameters()),+].concat()
            }

            fn read(reader: &mut $crate::keys::Reader<'_>) -> Result<Self, $crate::error::ConfigError> {
                Ok($name { $($group: <$type as $crate::keys::Section>::read(reader)?,)+ })
            }
        }
    };
}
pub(crate) use sections;

/// The keys of two sections in one table.
impl<A: Section, B: Section> Section for (A, B) {
    const TITLE: &'static str = A::TITLE;

    fn has(key: &str) -> bool {
        A::has(key) || B::has(key)
    }

    fn parameters() -> Vec<Parameter> {
        [A::parameters(), B::parameters()].concat()
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ConfigError> {
        Ok((A::read(reader)?, B::read(reader)?))
    }
}

impl<S: Section> Section for Box<S> {
    const TITLE: &'static str = S::TITLE;

    fn has(key: &str) -> bool {
        S::has(key)
    }

    fn parameters() -> Vec<Parameter> {
        S::parameters()
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ConfigError> {
        S::read(reader).map(Box::new)
    }
}

/// A table with the keys of `S`.
pub(crate) struct InTable<S>(PhantomData<S>);

/// Value type: a list of tables with the keys of `S`.
pub(crate) struct InList<S>(PhantomData<S>);

pub(crate) const fn in_table<S>() -> InTable<S> {
    InTable(PhantomData)
}

pub(crate) const fn in_list<S>() -> InList<S> {
    InList(PhantomData)
}

impl<S: Section> ValueType for InTable<S> {
    type Value = S;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(S, Value), ConfigError> {
        let (keys, shown) = read(node.table().ok_or_else(|| self.mismatch(node, site))?, site)?;
        Ok((keys, Value::Table(shown)))
    }

    fn describe(&self) -> String {
        format!("a table with {}", listed(S::parameters().iter().map(|key| key.key)))
    }

    fn parameters(&self) -> Vec<Parameter> {
        S::parameters()
    }
}

impl<S: Section> ValueType for InList<S> {
    type Value = Vec<Read<S>>;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Vec<Read<S>>, Value), ConfigError> {
        if node.table().is_some() {
            let (path, message) = (site.path, "this is one table, but it must be a list of tables");
            let remedy = match site.at {
                Origin::File { variant: None, .. } => {
                    format!("write [[{path}]] in double brackets before each")
                }
                _ => format!("an override replaces the whole list, like {path} = [{{ ... }}, {{ ... }}]"),
            };
            return Err(site.wrong(format!("{message}; {remedy}")));
        }
        let Value::List(list) = &node.value else { return Err(self.mismatch(node, site)) };
        let mut each = Vec::new();
        for (index, node) in list.iter().enumerate() {
            let path = join(site.path, &index.to_string());
            let site = Site { at: node.at, path: &path, ..*site };
            let table = node.table().ok_or_else(|| in_table::<S>().mismatch(node, &site))?;
            each.push(Read::<S>::new(table.clone(), &site)?);
        }
        let shown = each.iter().map(|entry| Node::of_table(entry.shown.clone(), entry.at)).collect();
        Ok((each, Value::List(shown)))
    }

    fn describe(&self) -> String {
        format!("a list of tables with {}", listed(S::parameters().iter().map(|key| key.key)))
    }
}

/// Another setting of the same node that does not work together with an algorithm, or has no effect with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartnerInfo {
    /// Key of the other setting. It belongs to the same node as the algorithm.
    pub key: &'static str,
    /// Value of the other setting. If the key selects an algorithm, this is the algorithm's name.
    pub not: &'static str,
    /// Whether the parser refuses a scenario with both. If not, the scenario runs, and one of the two has no effect.
    pub refused: bool,
    /// The reason, as a text that follows the algorithm's name.
    pub why: &'static str,
}

/// One implementation of a trait of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmInfo {
    /// Name of the trait, such as `EdgeControl`.
    pub trait_name: &'static str,
    /// Key of a relay or client that selects the implementation, such as `edge_control`.
    pub key: &'static str,
    /// Value of that key for this implementation, such as `windows`.
    pub kind: &'static str,
    /// The effect of the algorithm, in one line.
    pub meaning: &'static str,
    /// Parameters of the algorithm. A scenario sets them beside `kind`.
    pub parameters: Vec<Parameter>,
    /// Paper, specification or program that describes the algorithm.
    pub source: &'static str,
    /// Other settings of the node that do not work with this algorithm.
    pub partners: &'static [PartnerInfo],
}

/// All implementations of one trait of the core: the built-in ones, of which the first one is the default, and plug-ins.
pub(crate) trait Algorithm: Sized {
    /// The names of the built-in ones.
    const KINDS: &'static [&'static str];
    /// All names.
    fn names() -> Vec<&'static str>;
    fn kinds() -> Vec<AlgorithmInfo>;
    fn has(kind: &str, key: &str) -> bool;
    /// Name of the kind, and the settings that do not work with it.
    fn kind(&self) -> (&'static str, &'static [PartnerInfo]);
    /// Reads the keys of `kind`; `None` if this kind does not exist.
    fn read(kind: &str, reader: &mut Reader<'_>) -> Result<Option<Self>, ConfigError>;
}

/// Declares the implementations of a trait: `Variant("kind"): KEYS, SOURCE, PARTNERS;`. The reference pages print the
/// variant's comment. `KEY: CONFIG` are the key that selects one of them, and the core's type that they become.
macro_rules! algorithm {
    ($(#[$attribute:meta])* $visible:vis enum $name:ident($trait_name:literal, $key:ident: $config:ty) {
        $($(#[doc = $meaning:literal])+ $variant:ident($kind:literal): $keys:ty, $source:literal, $partners:expr;)+
    }) => {
        $(#[$attribute])*
        $visible enum $name {
            $($(#[doc = $meaning])+ $variant($keys),)+
            /// An algorithm of a crate outside this workspace.
            Plugin($crate::plugin::Chosen<$config>),
        }

        impl $crate::plugin::Pluggable for $config {
            const KEY: &'static str = stringify!($key);

            fn built_in() -> &'static [&'static str] {
                <$name as $crate::keys::Algorithm>::KINDS
            }

            fn of(plugins: &$crate::plugin::Plugins) -> &Vec<$crate::plugin::Plugin<Self>> {
                &plugins.$key
            }

            fn of_mut(plugins: &mut $crate::plugin::Plugins) -> &mut Vec<$crate::plugin::Plugin<Self>> {
                &mut plugins.$key
            }
        }

        impl $crate::keys::Algorithm for $name {
            const KINDS: &'static [&'static str] = &[$($kind),+];

            fn names() -> Vec<&'static str> {
                let plugins = $crate::plugin::of::<$config>().iter().map(|plugin| plugin.kind());
                Self::KINDS.iter().copied().chain(plugins).collect()
            }

            fn kinds() -> Vec<$crate::keys::AlgorithmInfo> {
                let info = |kind, meaning, parameters, source, partners| $crate::keys::AlgorithmInfo {
                    trait_name: $trait_name,
                    key: stringify!($key),
                    kind,
                    meaning,
                    parameters,
                    source,
                    partners,
                };
                let plugins = $crate::plugin::of::<$config>().iter().map(|plugin| {
                    info(plugin.kind(), plugin.meaning(), plugin.parameters(), plugin.source(), &[])
                });
                [$(info(
                    $kind,
                    concat!($($meaning),+).trim(),
                    <$keys as $crate::keys::Section>::parameters(),
                    $source,
                    $partners,
                )),+].into_iter().chain(plugins).collect()
            }

            fn kind(&self) -> (&'static str, &'static [$crate::keys::PartnerInfo]) {
                match self {
                    $($name::$variant(_) => ($kind, $partners),)+
                    $name::Plugin(chosen) => (chosen.kind(), &[]),
                }
            }

            fn has(kind: &str, key: &str) -> bool {
                match kind {
                    $($kind => <$keys as $crate::keys::Section>::has(key),)+
                    _ => $crate::plugin::find::<$config>(kind).is_some_and(|plugin| plugin.has(key)),
                }
            }

            fn read(
                kind: &str,
                reader: &mut $crate::keys::Reader<'_>,
            ) -> Result<Option<Self>, $crate::error::ConfigError> {
                match kind {
                    $($kind => <$keys as $crate::keys::Section>::read(reader).map($name::$variant).map(Some),)+
                    _ => {
                        let plugin = $crate::plugin::find::<$config>(kind);
                        plugin.map(|plugin| plugin.read(reader).map($name::Plugin)).transpose()
                    }
                }
            }
        }
    };
}
pub(crate) use algorithm;

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct NoKeys("") {}
}

/// Value type: `{ kind = "...", ... }`, or only the name of the kind.
pub(crate) struct KindOf<A>(PhantomData<A>);

pub(crate) const fn kind_of<A>() -> KindOf<A> {
    KindOf(PhantomData)
}

impl<A: Algorithm> KindOf<A> {
    fn wrong(site: &Site<'_>, at: Origin, why: &str) -> ConfigError {
        let message = format!("{why}; the kind must be one of {}", listed(A::names()));
        ConfigError::new(at, join(site.path, "kind"), message)
    }

    /// The message for a key that the kind `name` does not have.
    fn stray(name: &str, key: &str) -> String {
        let others: Vec<String> =
            A::names().iter().filter(|kind| A::has(kind, key)).map(|kind| format!("{kind:?}")).collect();
        if !others.is_empty() {
            return format!("the kind {name:?} does not take this key; set kind = {}", others.join(" or "));
        }
        let kinds = A::kinds().into_iter().filter(|kind| kind.kind == name);
        let known = kinds.flat_map(|kind| kind.parameters).map(|key| key.key);
        let known: Vec<_> = ["kind"].into_iter().chain(known).collect();
        format!("{UNKNOWN_KEY}; {}", instead(key, &format!("the kind {name:?} takes"), known))
    }
}

impl<A: Algorithm> ValueType for KindOf<A> {
    type Value = A;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(A, Value), ConfigError> {
        let empty = Table::new();
        let (name, at, table) = match &node.value {
            Value::Text(name) => (name.as_str(), node.at, &empty),
            Value::Table(table) => match table.get("kind").map(|kind| (kind, kind.as_text())) {
                Some((kind, Some(name))) => (name, kind.at, table),
                Some((kind, None)) => return Err(Self::wrong(site, kind.at, &kind.with_type())),
                None => (A::KINDS[0], node.at, table),
            },
            _ => {
                let error = Self::wrong(site, node.at, &node.with_type());
                return Err(ConfigError { key: site.path.to_owned(), ..error });
            }
        };
        let unknown = || Self::wrong(site, at, &format!("{name:?} is unknown"));
        let stray = table.iter().find(|(key, _)| *key != "kind" && !A::has(name, key));
        if let (true, Some((key, node))) = (A::names().contains(&name), stray) {
            let message = Self::stray(name, key);
            return Err(ConfigError::new(node.at, join(site.path, key), message));
        }
        let mut reader = Reader { table, site: Site { at: node.at, ..*site }, shown: Table::new() };
        let value = A::read(name, &mut reader)?.ok_or_else(unknown)?;
        reader.shown.insert("kind".to_owned(), Node::text(name, at));
        Ok((value, Value::Table(reader.shown)))
    }

    fn describe(&self) -> String {
        format!("a table with a kind of {}", listed(A::names()))
    }

    fn print_default(&self, _: &str) -> String {
        format!("{{ kind = {:?} }}", A::KINDS[0])
    }
}
