//! The tables of all rounds as CSV. `benches/live_priorities.py` makes the table and the figures of the page.

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// Adds the rows of a round to a table. They replace rows that begin with the same `key`.
pub(crate) fn add(path: &Path, head: &str, key: &str, rows: &[String]) -> io::Result<()> {
    let old = fs::read_to_string(path).unwrap_or_default();
    let key = format!("{key},");
    let mut text = format!("{head}\n");
    for row in old.lines().skip(1).filter(|row| !row.starts_with(&key)) {
        writeln!(text, "{row}").expect("a string has room");
    }
    for row in rows {
        writeln!(text, "{key}{row}").expect("a string has room");
    }
    fs::write(path, text)
}
