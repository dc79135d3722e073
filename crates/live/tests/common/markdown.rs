//! Generated blocks of Markdown files.

#![allow(dead_code, reason = "some programs only print their tables")]

use std::fs;

/// Writes a table to the file in the environment variable `MARKDOWN`, in place of the block with this name. The file
/// contains the first and the last line of the block. Without the variable, this does nothing.
pub(crate) fn write_block(name: &str, table: &str) {
    let Ok(path) = std::env::var("MARKDOWN") else { return };
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let text = with_block(&text, name, table).unwrap_or_else(|| panic!("{path} has no block {name:?}"));
    fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// The text with this table in the block. `None` if the text has no such block.
fn with_block(text: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- begin generated: {name} -->\n"), "<!-- end generated -->");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", table.trim()))
}

#[test]
fn a_block_is_replaced_and_the_rest_stays() {
    let page = |table: &str| {
        format!(
            "a\n\n<!-- begin generated: make x -->\n{table}<!-- end generated -->\n\nb\n<!-- end generated -->\n"
        )
    };
    assert_eq!(with_block(&page("old\n"), "make x", "| new |\n"), Some(page("\n| new |\n\n")));
    assert_eq!(with_block(&page("old\n"), "make y", "| new |\n"), None);
}
