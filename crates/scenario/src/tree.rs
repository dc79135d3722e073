//! A scenario as a tree whose every value knows where it was written.

use crate::error::Mistake;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nowhere: it is a default.
    Default,
    /// On this line of the file, from 1.
    Line(u32),
    /// On this line of the network file.
    Network(u32),
    /// In this variant's `set`.
    Variant { line: u32, index: u32 },
    /// In this `--set`, from 0.
    Set(u32),
}

/// A value and where its key was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Origin,
}

/// Keys in their order, so that what is derived from a table repeats.
pub(crate) type Table = BTreeMap<String, Node>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    /// TOML has dates; no key takes one.
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

    /// The value as it would be written, with what it is: `10 is an integer`.
    pub(crate) fn is_what(&self) -> String {
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

    /// Whether somebody wrote it: it is no default.
    pub(crate) fn is_written(&self) -> bool {
        self.at != Origin::Default
    }

    /// Marks the whole subtree as written elsewhere.
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

/// Reads a whole file.
pub(crate) fn parse(text: &str) -> Result<Table, Mistake> {
    let lines = Lines::new(text);
    let parsed = DeTable::parse(text).map_err(|error| {
        let at = lines.origin(error.span().map_or(0, |span| span.start));
        let message = error.message().trim().replace('\n', ", ");
        Mistake::new(at, "", format!("this is not TOML: {message}"))
    })?;
    table(parsed.get_ref(), &lines, "")
}

/// Reads one value; `None` if it is not TOML.
pub(crate) fn parse_value(text: &str) -> Option<Node> {
    let parsed = DeValue::parse(text).ok()?;
    node(&parsed, Origin::Default, &Lines::new(text), "").ok()
}

fn table(table: &DeTable<'_>, lines: &Lines, path: &str) -> Result<Table, Mistake> {
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let at = lines.origin(key.span().start);
        let path = join(path, key.get_ref());
        Ok((key.get_ref().to_string(), node(value, at, lines, &path)?))
    };
    table.iter().map(entry).collect()
}

fn node(value: &Spanned<DeValue<'_>>, at: Origin, lines: &Lines, path: &str) -> Result<Node, Mistake> {
    let beyond = |what: &str| Mistake::new(at, path, format!("{what} is too large a number"));
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(digits) => Value::Integer(
            i64::from_str_radix(digits.as_str(), digits.radix()).map_err(|_| beyond(digits.as_str()))?,
        ),
        DeValue::Float(digits) => Value::Float(digits.as_str().parse().map_err(|_| beyond(digits.as_str()))?),
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

/// The dotted path of `key` in `path`.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Where the lines of a text begin [B].
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Lines(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::Line(self.0.partition_point(|start| *start <= offset) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_the_line_of_its_key() {
        let root =
            parse("# a comment\n[run]\nseeds = [\n  1,\n  2,\n]\n\n[relays.entry]\nlink = \"x\"\n").unwrap();
        let run = root["run"].table().unwrap();
        assert_eq!((root["run"].at, run["seeds"].at), (Origin::Line(2), Origin::Line(3)));
        let Value::List(seeds) = &run["seeds"].value else { panic!() };
        assert_eq!((seeds[0].at, seeds[1].at), (Origin::Line(4), Origin::Line(5)));
        let entry = &root["relays"].table().unwrap()["entry"];
        assert_eq!((entry.at, entry.table().unwrap()["link"].at), (Origin::Line(8), Origin::Line(9)));
    }
}
