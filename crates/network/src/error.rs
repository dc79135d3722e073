//! One sentence for each mistake: the file, the line, and what would be right.

use std::fmt;

/// What is wrong with a document, or with the network in it.
///
/// ```text
/// consensus.txt:46: the weight "lots" is no number from 0 to 4294967295
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    place: String,
    message: String,
}

impl Error {
    /// A mistake in a line, counted from 1.
    pub(crate) fn in_line(file: &str, line: u32, message: impl Into<String>) -> Self {
        Error { place: format!("{file}:{line}"), message: message.into() }
    }

    /// A mistake of the whole file, or of a network that is called so.
    pub(crate) fn of(file: &str, message: impl Into<String>) -> Self {
        Error { place: file.to_owned(), message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Error {}

/// What a document says, so short and plain that it fits into a sentence.
pub(crate) fn quoted(text: &[u8]) -> String {
    const MOST: usize = 40;
    let shown: String =
        String::from_utf8_lossy(&text[..text.len().min(4 * MOST)]).chars().take(MOST).collect();
    format!("{shown:?}{}", if text.len() > shown.len() { " and so on" } else { "" })
}
