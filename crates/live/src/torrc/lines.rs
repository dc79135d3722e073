//! The syntax of a torrc: comments, quotes, continued lines, `%include`.
//!
//! Source: C tor's manual, "The configuration file format"; C tor `parse_config_line_from_str_verbose()`,
//! `config_process_include()`.

use super::TorrcError;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum nesting of `%include` (C tor: `MAX_INCLUDE_RECURSION_LEVEL`).
const DEEPEST: u32 = 31;

/// The place of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file and a line, from 1.
    File(Arc<Path>, u32),
    /// The command line.
    CommandLine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path, line) => write!(f, "{}:{line}", path.display()),
            Place::CommandLine => write!(f, "command line"),
        }
    }
}

/// How an option changes earlier values of the same option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// `Option`: sets a value. On the command line, it replaces the values in the torrc file.
    Set,
    /// `+Option`: adds a value.
    Append,
    /// `/Option`: removes all values.
    Clear,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) place: Place,
    pub(super) mode: Mode,
}

impl Line {
    pub(super) fn new(written: &str, value: String, place: Place) -> Self {
        let (mode, name) = match (written.strip_prefix('+'), written.strip_prefix('/')) {
            (Some(name), _) => (Mode::Append, name),
            (_, Some(name)) => (Mode::Clear, name),
            _ => (Mode::Set, written),
        };
        Line { name: name.to_owned(), value, place, mode }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Reads all options of a file and of its included files, in their order.
pub(super) fn read_file(path: &Path, into: &mut Vec<Line>) -> Result<(), TorrcError> {
    read(path, None, 0, into)
}

fn read(path: &Path, from: Option<&Place>, depth: u32, into: &mut Vec<Line>) -> Result<(), TorrcError> {
    let text = fs::read_to_string(path).map_err(|error| match from {
        None => TorrcError::of_file(path, error.to_string()),
        Some(place) => TorrcError::new(place, "%include", format!("{}: {error}", path.display())),
    })?;
    parse(&text, path, depth, into)
}

pub(super) fn parse(text: &str, path: &Path, depth: u32, into: &mut Vec<Line>) -> Result<(), TorrcError> {
    let path: Arc<Path> = path.into();
    let mut text = Text { rest: text, line: 1 };
    while let Some((line, name)) = text.name() {
        let place = Place::File(path.clone(), line);
        let value = text.value().map_err(|why| TorrcError::new(&place, name, why))?;
        if name.eq_ignore_ascii_case("%include") {
            if depth == DEEPEST {
                let why = format!("%include is nested {DEEPEST} levels deep; does a file include itself?");
                return Err(TorrcError::new(&place, name, why));
            }
            include(&value, &place, depth + 1, into)?;
        } else {
            into.push(Line::new(name, value, place));
        }
    }
    Ok(())
}

/// Includes a file, all files of a folder, or all files that match a pattern.
fn include(pattern: &str, place: &Place, depth: u32, into: &mut Vec<Line>) -> Result<(), TorrcError> {
    let wrong = |why: String| TorrcError::new(place, "%include", why);
    if pattern.is_empty() {
        return Err(wrong("a file, a folder or a pattern must follow".into()));
    }
    let found = if pattern.contains(['*', '?']) {
        let hidden = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
        let paths =
            glob::glob_with(pattern, hidden).map_err(|error| wrong(format!("{pattern:?}: {error}")))?;
        paths.collect::<Result<Vec<PathBuf>, _>>().map_err(|error| wrong(error.to_string()))?
    } else {
        vec![PathBuf::from(pattern)]
    };
    for path in found {
        if path.is_dir() {
            for file in files(&path).map_err(|error| wrong(format!("{}: {error}", path.display())))? {
                read(&file, Some(place), depth, into)?;
            }
        } else {
            read(&path, Some(place), depth, into)?;
        }
    }
    Ok(())
}

/// The files of a folder, sorted by name. Hidden files and subfolders are left out.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

struct Text<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Text<'a> {
    /// Reads the name of the next option. Returns the line and the name.
    fn name(&mut self) -> Option<(u32, &'a str)> {
        loop {
            self.skip(self.rest.len() - self.rest.trim_start().len());
            if !self.rest.starts_with('#') {
                break;
            }
            self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
        let end = self.rest.find(|it: char| it.is_whitespace() || it == '#').unwrap_or(self.rest.len());
        let line = self.line;
        let name = self.skip(end);
        (!name.is_empty()).then_some((line, name))
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.matches('\n').count() as u32;
        self.rest = rest;
        skipped
    }

    fn value(&mut self) -> Result<String, &'static str> {
        self.skip(self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len());
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let (mut value, mut continued) = (String::new(), false);
        loop {
            let physical = self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            self.skip(self.rest.len().min(1));
            let said = physical.split('#').next().unwrap_or_default();
            let comment = said.len() < physical.len();
            let said = said.trim_end_matches('\r');
            match said.strip_suffix('\\').filter(|_| !comment) {
                Some(said) => value.push_str(said),
                None => {
                    value.push_str(said);
                    // A comment between continued lines does not end the option.
                    if !(continued && comment) || self.rest.is_empty() {
                        return Ok(value.trim().to_owned());
                    }
                }
            }
            continued = true;
        }
    }

    fn quoted(&mut self) -> Result<String, &'static str> {
        let mut bytes = Vec::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        let end = loop {
            match chars.next() {
                None | Some((_, '\n')) => return Err("the quotes are not closed"),
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => {
                    let escaped = chars.next().map(|(_, escaped)| escaped);
                    let number = |radix, most, first: Option<char>, chars: &mut std::iter::Peekable<_>| {
                        number(radix, most, first, chars)
                    };
                    bytes.push(match escaped {
                        Some('n') => b'\n',
                        Some('t') => b'\t',
                        Some('r') => b'\r',
                        Some(quote @ ('"' | '\'' | '\\')) => quote as u8,
                        Some('x') => {
                            number(16, 2, None, &mut chars).ok_or("\\x needs two hexadecimal digits")?
                        }
                        Some(digit @ '0'..='7') => number(8, 3, Some(digit), &mut chars)
                            .ok_or("\\ and octal digits are at most \\377")?,
                        _ => {
                            return Err(
                                "after \\ in quotes there must be n, t, r, \", ', \\, x or octal digits",
                            );
                        }
                    });
                }
                Some((_, other)) => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        };
        self.skip(end);
        let after = self.skip(self.rest.find('\n').unwrap_or(self.rest.len())).trim();
        if !after.is_empty() && !after.starts_with('#') {
            return Err("nothing may follow the quotes");
        }
        String::from_utf8(bytes).map_err(|_| "the quotes hold no UTF-8")
    }
}

/// Parses a byte: exactly `most` hexadecimal digits, or up to `most` octal digits.
fn number(
    radix: u32,
    most: usize,
    first: Option<char>,
    chars: &mut std::iter::Peekable<impl Iterator<Item = (usize, char)>>,
) -> Option<u8> {
    let mut digits: String = first.into_iter().collect();
    while digits.len() < most
        && let Some((_, digit)) = chars.next_if(|(_, next)| next.is_digit(radix))
    {
        digits.push(digit);
    }
    (radix == 8 || digits.len() == most).then(|| u8::from_str_radix(&digits, radix).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Result<Vec<(String, String, u32)>, TorrcError> {
        let mut lines = Vec::new();
        parse(text, Path::new("torrc"), 0, &mut lines)?;
        let at = |place: Place| if let Place::File(_, line) = place { line } else { 0 };
        Ok(lines.into_iter().map(|line| (line.name, line.value, at(line.place))).collect())
    }

    fn one(text: &str) -> (String, u32) {
        let (_, value, line) = of(text).unwrap().remove(0);
        (value, line)
    }

    #[test]
    fn comments_and_blank_lines_are_ignored() {
        let lines = of("# one\n\n  \t# two\nORPort 9001 # three\n\nNickname#four\n").unwrap();
        assert_eq!(lines, [("ORPort".into(), "9001".into(), 4), ("Nickname".into(), String::new(), 6)]);
    }

    #[test]
    fn a_backslash_at_the_end_continues_the_line() {
        assert_eq!(
            one("\nExitPolicy accept *:80,\\\n  accept *:443\nx"),
            ("accept *:80,  accept *:443".into(), 2)
        );
        // A comment between continued lines does not end them. A comment on the first line ends the option.
        assert_eq!(one("A b,\\\n# comment \\\n c\nd"), ("b, c".into(), 1));
        assert_eq!(of("A b # c \\\nD e").unwrap().len(), 2);
        assert_eq!(one("A b\\\n# comment"), ("b".into(), 1));
    }

    #[test]
    fn quoted_values_have_c_escapes() {
        assert_eq!(one("A \"b # \\\"c\\\" \\x41\\102\\n\\\\\" # d\n").0, "b # \"c\" AB\n\\");
        for (text, why) in [
            ("A \"b", "the quotes are not closed"),
            ("A \"b\nc\"", "the quotes are not closed"),
            ("A \"b\" c", "nothing may follow the quotes"),
            ("A \"\\q\"", "after \\ in quotes there must be n, t, r, \", ', \\, x or octal digits"),
            ("A \"\\x4\"", "\\x needs two hexadecimal digits"),
            ("A \"\\777\"", "\\ and octal digits are at most \\377"),
            ("A \"\\xff\"", "the quotes hold no UTF-8"),
        ] {
            assert_eq!(of(text).unwrap_err().to_string(), format!("torrc:1: A: {why}"));
        }
    }

    #[test]
    fn included_files_are_read_in_the_order_of_their_names() {
        let folder = crate::torrc::tests::Scratch::new("include");
        let write = |name: &str, text: &str| fs::write(folder.0.join(name), text).unwrap();
        fs::create_dir(folder.0.join("inner")).unwrap();
        for (name, text) in [("b", "B 2"), ("a", "A 1"), (".hidden", "H 1"), ("inner/c.conf", "C 3")] {
            write(name, text);
        }
        let path = folder.0.display();
        let lines = of(&format!("%include {path}/inner/*.conf\nZ 1\n%include \"{path}\"")).unwrap();
        assert_eq!(lines.iter().map(|line| &line.0[..]).collect::<String>(), "CZAB");
        write("a", &format!("%include {path}/a"));
        assert!(of(&format!("%include {path}/a")).unwrap_err().to_string().contains("31 levels deep"));
        let missing = of("\n%include /nowhere/at/all").unwrap_err().to_string();
        assert!(missing.starts_with("torrc:2: %include: /nowhere/at/all: "), "{missing}");
        assert_eq!(of("%include /nowhere/*").unwrap(), []);
    }

    proptest! {
        #[test]
        fn the_parser_never_panics(text in "([a-z%+/#\\\\\" \t\n\r]|\\\\\n|\\PC){0,60}") {
            prop_assume!(!text.contains("%include"));
            let _ = of(&text);
        }
    }
}
