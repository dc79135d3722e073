//! TOML as a tree. Each value has the line of its key.

use crate::error::{ConfigError, Origin};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Origin,
}

/// A table with its keys in alphabetical order, so that its TOML text is always the same.
pub(crate) type Table = BTreeMap<String, Node>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    /// TOML has dates, but no key accepts a date.
    Date,
    List(Vec<Node>),
    Table(Table),
}

impl Node {
    pub(crate) fn text(text: impl Into<String>, at: Origin) -> Node {
        Node { value: Value::Text(text.into()), at }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value with its type, for error messages: `10 is an integer`.
    pub(crate) fn with_type(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("{text:?} is a string"),
            Value::Integer(number) => format!("{number} is an integer"),
            Value::Float(number) => format!("{number} is a number"),
            Value::Flag(flag) => format!("{flag} is a boolean"),
            Value::Date => "this is a date".to_owned(),
            Value::List(_) => "this is a list".to_owned(),
            Value::Table(_) => "this is a table".to_owned(),
        }
    }

    /// Whether the value comes from a file or an override, and not from a default.
    pub(crate) fn is_written(&self) -> bool {
        self.at != Origin::Default
    }

    pub(crate) fn of_table(table: Table, at: Origin) -> Node {
        Node { value: Value::Table(table), at }
    }

    /// Parses a default. Text that is not TOML becomes a string, so `10 s` needs no quotes.
    pub(crate) fn of_default(text: &str) -> Node {
        parse_value(text, "").and_then(Result::ok).unwrap_or_else(|| Node::text(text, Origin::Default))
    }

    pub(crate) fn moved(mut self, to: &impl Fn(Origin) -> Origin) -> Node {
        self.at = to(self.at);
        self.value = match self.value {
            Value::List(list) => Value::List(list.into_iter().map(|node| node.moved(to)).collect()),
            Value::Table(table) => {
                Value::Table(table.into_iter().map(|(key, node)| (key, node.moved(to))).collect())
            }
            other => other,
        };
        self
    }
}

/// Parses a whole file. `file` is its index in the list of files.
pub(crate) fn parse(text: &str, file: usize) -> Result<Table, ConfigError> {
    let lines = Lines::new(text, file);
    let parsed = DeTable::parse(text).map_err(|error| {
        let at = lines.origin(error.span().map_or(0, |span| span.start));
        let message = error.message().trim().replace('\n', ", ");
        ConfigError::new(at, "", format!("this is not TOML: {message}"))
    })?;
    table(parsed.get_ref(), &lines, "")
}

/// Parses the value of the key `path`; `None` if the text is not TOML. A number outside its range is an error.
pub(crate) fn parse_value(text: &str, path: &str) -> Option<Result<Node, ConfigError>> {
    let parsed = DeValue::parse(text).ok()?;
    let node = node(&parsed, Origin::Default, &Lines::new(text, 0), path);
    Some(node.map(|node| node.moved(&|_| Origin::Default)))
}

fn table(table: &DeTable<'_>, lines: &Lines, path: &str) -> Result<Table, ConfigError> {
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let at = lines.origin(key.span().start);
        let path = join(path, key.get_ref());
        Ok((key.get_ref().to_string(), node(value, at, lines, &path)?))
    };
    table.iter().map(entry).collect()
}

fn node(value: &Spanned<DeValue<'_>>, at: Origin, lines: &Lines, path: &str) -> Result<Node, ConfigError> {
    let beyond = |digits: &str| {
        let message =
            format!("{digits} is out of range; an integer must be from {} to {}", i64::MIN, i64::MAX);
        ConfigError::new(at, path, message)
    };
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(digits) => Value::Integer(
            i64::from_str_radix(digits.as_str(), digits.radix()).map_err(|_| beyond(digits.as_str()))?,
        ),
        DeValue::Float(digits) => {
            Value::Float(f64::from_str(digits.as_str()).map_err(|_| beyond(digits.as_str()))?)
        }
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => {
            let element =
                |value: &Spanned<DeValue<'_>>| node(value, lines.origin(value.span().start), lines, path);
            Value::List(list.iter().map(element).collect::<Result<_, _>>()?)
        }
        DeValue::Table(inner) => Value::Table(table(inner, lines, path)?),
    };
    Ok(Node { value, at })
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Offset of the first byte of each line [B].
struct Lines {
    starts: Vec<usize>,
    file: usize,
}

impl Lines {
    fn new(text: &str, file: usize) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { starts, file }
    }

    fn origin(&self, offset: usize) -> Origin {
        let line = self.starts.partition_point(|start| *start <= offset) as u32;
        Origin::File { file: self.file, line, variant: None }
    }
}

/// Keys that select an algorithm. `scheduler = "vanilla"` is short for `scheduler = { kind = "vanilla" }`.
pub(crate) const ALGORITHM_KEYS: [&str; 6] =
    ["circuit_policy", "scheduler", "edge_control", "hop_control", "throttle", "channel_map"];

/// Expands the name of an algorithm to a table with this `kind`.
pub(crate) fn expand(key: &str, node: &mut Node) {
    if ALGORITHM_KEYS.contains(&key) && node.as_text().is_some() {
        *node = Node::of_table(Table::from([("kind".to_owned(), node.clone())]), node.at);
    }
}

/// Wraps `node` in a table for each key of the dotted `path`.
pub(crate) fn nested(path: &str, node: Node) -> Result<Table, ConfigError> {
    let at = node.at;
    if path.split('.').any(str::is_empty) {
        let message = "this is not a key; a key is a path with dots, like relays.middle.link";
        return Err(ConfigError::new(at, path, message));
    }
    let (outer, last) = path.rsplit_once('.').map_or((None, path), |(outer, last)| (Some(outer), last));
    let table = Table::from([(last.to_owned(), node)]);
    outer.map_or(Ok(table.clone()), |outer| nested(outer, Node::of_table(table, at)))
}

/// Converts a `set` with dotted keys to nested tables. The order of the keys does not matter, because no two of them may
/// set the same value.
pub(crate) fn undotted(set: &Table) -> Result<Table, ConfigError> {
    let mut overlay = Table::new();
    for (path, node) in set {
        join_tables(&mut overlay, nested(path, node.clone())?, path)?;
    }
    Ok(overlay)
}

/// Joins two tables without common values. `path` is the dotted key that sets the values of `above`.
fn join_tables(below: &mut Table, above: Table, path: &str) -> Result<(), ConfigError> {
    for (key, mut node) in above {
        let Some(other) = below.get_mut(&key) else {
            below.insert(key, node);
            continue;
        };
        if node.table().is_some() != other.table().is_some() {
            expand(&key, other);
            expand(&key, &mut node);
        }
        match (&mut other.value, node.value) {
            (Value::Table(below), Value::Table(above)) => join_tables(below, above, path)?,
            _ => {
                return Err(ConfigError::new(
                    node.at,
                    path,
                    "the key is set twice here; leave one of the two out",
                ));
            }
        }
    }
    Ok(())
}

/// Prints `[title]` and the keys of a table as TOML.
pub(crate) fn print_section(out: &mut String, title: &str, table: &Table) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{gap}[{title}]");
    for (name, node) in table {
        let _ = writeln!(out, "{name} = {}", node.value.print());
    }
}

impl Value {
    pub(crate) fn print(&self) -> String {
        let print_key = |key: &str| if is_name(key, false) { key.to_owned() } else { quoted(key) };
        match self {
            Value::Text(text) => quoted(text),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Flag(flag) => flag.to_string(),
            Value::Date => "a date".to_owned(),
            Value::List(list) => {
                let values: Vec<String> = list.iter().map(|node| node.value.print()).collect();
                format!("[{}]", values.join(", "))
            }
            Value::Table(table) if table.is_empty() => "{}".to_owned(),
            Value::Table(table) => {
                let entry =
                    |(key, node): (&String, &Node)| format!("{} = {}", print_key(key), node.value.print());
                format!("{{ {} }}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Whether `name` is not empty and consists of letters, digits, `_` and `-`; also of `.` if `dots` is true.
pub(crate) fn is_name(name: &str, dots: bool) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || (dots && c == '.');
    !name.is_empty() && name.chars().all(good)
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares values without their origins.
    fn same(one: Table, other: &str) -> bool {
        let nowhere = |table: Table| Node::of_table(table, Origin::Default).moved(&|_| Origin::Default);
        nowhere(one) == nowhere(parse(other, 0).unwrap())
    }

    #[test]
    fn every_value_has_the_line_of_its_key() {
        let text = "# a comment\n[run]\nseeds = [\n  1,\n  2,\n]\n\n[relays.entry]\nlink = \"x\"\n";
        let root = parse(text, 0).unwrap();
        let line = |line| Origin::File { file: 0, line, variant: None };
        let run = root["run"].table().unwrap();
        assert_eq!((root["run"].at, run["seeds"].at), (line(2), line(3)));
        let Value::List(seeds) = &run["seeds"].value else { panic!() };
        assert_eq!((seeds[0].at, seeds[1].at), (line(4), line(5)));
        let entry = &root["relays"].table().unwrap()["entry"];
        assert_eq!((entry.at, entry.table().unwrap()["link"].at), (line(8), line(9)));
    }

    #[test]
    fn a_printed_section_can_be_parsed_again() {
        let text =
            "[run]\na = \"x \\\" \\\\ \\n \\u0001 ü\"\nb = [1, 2.5, true]\nc = { \"d.e\" = \"\", f = {} }\n";
        let print = |text: &str| {
            let mut out = String::new();
            print_section(&mut out, "run", parse(text, 0).unwrap()["run"].table().unwrap());
            out
        };
        let once = print(text);
        assert_eq!(print(&once), once);
        assert!(once.contains("b = [1, 2.5, true]") && once.contains("\"d.e\" = \"\""), "{once}");
    }

    #[test]
    fn dotted_keys_join_in_any_order_and_set_no_value_twice() {
        let joined = |text: &str| undotted(&parse(text, 0).unwrap());
        let right = "relay = { scheduler = { kind = 'kist', interval = '2 ms' }, link = 'x' }";
        for text in [
            "'relay.scheduler' = 'kist'\n'relay.scheduler.interval' = '2 ms'\n'relay.link' = 'x'",
            "'relay.link' = 'x'\nrelay.scheduler.interval = '2 ms'\n'relay.scheduler.kind' = 'kist'",
        ] {
            assert!(same(joined(text).unwrap(), right), "{text}");
        }
        for text in [
            "a.b = 1\n'a.b' = 2",
            "'network.latency' = 'even'\n'network.latency.near' = '10 ms'",
            "'relay.scheduler' = 'kist'\n'relay.scheduler.kind' = 'vanilla'",
        ] {
            let error = joined(text).unwrap_err();
            assert_eq!(error.message, "the key is set twice here; leave one of the two out", "{text}");
        }
    }
}
