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

    /// Parses a default or an override. Text that is not TOML becomes a string, so `10 s` needs no quotes.
    pub(crate) fn of_default(text: &str) -> Node {
        parse_value(text).unwrap_or_else(|| Node::text(text, Origin::Default))
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
    let parsed = toml::de::DeTable::parse(text).map_err(|error| {
        let at = lines.origin(error.span().map_or(0, |span| span.start));
        let message = error.message().trim().replace('\n', ", ");
        ConfigError::new(at, "", format!("this is not TOML: {message}"))
    })?;
    table(parsed.get_ref(), &lines, "")
}

/// Parses one value; `None` if the text is not TOML.
pub(crate) fn parse_value(text: &str) -> Option<Node> {
    let parsed = DeValue::parse(text).ok()?;
    let node = node(&parsed, Origin::Default, &Lines::new(text, 0), "").ok()?;
    Some(node.moved(&|_| Origin::Default))
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
    let beyond = |digits: &str| ConfigError::new(at, path, format!("{digits} is too large a number"));
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

/// Converts a `set` with dotted keys to nested tables.
pub(crate) fn undotted(set: &Table) -> Result<Table, ConfigError> {
    let mut overlay = Table::new();
    for (path, node) in set {
        insert(&mut overlay, path, path, node.clone(), true)?;
    }
    Ok(overlay)
}

/// Inserts `node` at the dotted `path`. With `once`, an existing value is an error.
pub(crate) fn insert(
    table: &mut Table,
    path: &str,
    whole: &str,
    node: Node,
    once: bool,
) -> Result<(), ConfigError> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    if head.is_empty() {
        return Err(ConfigError::new(
            node.at,
            whole,
            "this is no key; a key is a path with dots, like relays.middle.link",
        ));
    }
    let node = match rest {
        None => node,
        Some(rest) => {
            let at = node.at;
            let mut inner = Table::new();
            insert(&mut inner, rest, whole, node, once)?;
            Node::of_table(inner, at)
        }
    };
    match table.get_mut(head) {
        None => {
            table.insert(head.to_owned(), node);
        }
        Some(below) => join_nodes(below, node, whole, once)?,
    }
    Ok(())
}

/// Merges two overrides of the same level. Tables merge key by key. Any other value replaces the earlier one.
fn join_nodes(below: &mut Node, above: Node, whole: &str, once: bool) -> Result<(), ConfigError> {
    let at = above.at;
    let old = std::mem::replace(&mut below.value, Value::Date);
    let (mut lower, upper) = match (old, above.value) {
        (Value::Table(lower), Value::Table(upper)) => (lower, upper),
        // A word stands for a table with only this `kind`.
        (Value::Table(lower), Value::Text(kind)) => {
            (lower, Table::from([("kind".to_owned(), Node::text(kind, at))]))
        }
        (Value::Text(kind), Value::Table(upper)) => {
            (Table::from([("kind".to_owned(), Node::text(kind, below.at))]), upper)
        }
        _ if once => return Err(ConfigError::new(at, whole, "the key is set twice here")),
        (_, value) => {
            *below = Node { value, at };
            return Ok(());
        }
    };
    for (key, node) in upper {
        match lower.get_mut(&key) {
            None => {
                lower.insert(key, node);
            }
            Some(below) => join_nodes(below, node, whole, once)?,
        }
    }
    below.value = Value::Table(lower);
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
}
