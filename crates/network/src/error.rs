//! Errors of this crate. Each message names either the file and the line, or the network.

use crate::relay::Position;

/// The error for a mistake in a document, or for a network in which no circuit can be built.
///
/// ```text
/// consensus.txt:46: the weight "lots" is not a number from 0 to 4294967295
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of a document is wrong.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The document's name.
        file: String,
        /// The line, counted from 1.
        line: u32,
        /// The error in the line, and the allowed values.
        message: String,
    },
    /// The document as a whole is unusable.
    #[error("{file}: {message}")]
    Document {
        /// The document's name.
        file: String,
        /// The error in the document.
        message: String,
    },
    /// A position weight is missing.
    #[error("{key} is missing")]
    MissingWeight {
        /// The key of the weight, such as `Wgg`.
        key: &'static str,
    },
    /// A position weight is negative or above the scale.
    #[error("{key}={value} is not from 0 to {scale}")]
    WeightOutOfRange {
        /// The key of the weight, such as `Wgg`.
        key: &'static str,
        /// The value in the document.
        value: i64,
        /// The largest allowed value.
        scale: u32,
    },
    /// No relay can have this position.
    #[error("{network}: no relay can be {}", needs(.position))]
    NoRelay {
        /// The network's name.
        network: String,
        /// The position that no relay can have.
        position: Position,
    },
    /// In many successive attempts, path selection found no three compatible relays.
    #[error(
        "{network}: {attempts} circuits in a row found no three relays of which no two are of one network (/16) or family"
    )]
    NoCircuit {
        /// The network's name.
        network: String,
        /// The number of failed attempts.
        attempts: u32,
    },
}

impl Error {
    pub(crate) fn in_line(file: &str, line: u32, message: impl Into<String>) -> Self {
        Error::Line { file: file.to_owned(), line, message: message.into() }
    }

    pub(crate) fn of(file: &str, message: impl Into<String>) -> Self {
        Error::Document { file: file.to_owned(), message: message.into() }
    }
}

fn needs(position: &Position) -> &'static str {
    match position {
        Position::Guard => {
            "a guard: a guard needs the flags Guard, Fast, Stable, Running and Valid, and a weight"
        }
        Position::Middle => "a middle: a middle needs the flags Fast, Running and Valid",
        Position::Exit => {
            "an exit: an exit needs the flags Fast, Running and Valid, no flag BadExit, and a policy that accepts port 443"
        }
    }
}

/// Bytes of a document in quotation marks, at most 40 characters after escaping.
pub(crate) fn quoted(text: &[u8]) -> String {
    const MAX: usize = 40;
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * MAX)]);
    let mut shown = String::new();
    for char in text.chars() {
        let escaped = char.escape_debug();
        if shown.chars().count() + escaped.len() > MAX {
            return format!("\"{shown}\" and so on");
        }
        shown.extend(escaped);
    }
    format!("\"{shown}\"")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn quoted_text_has_at_most_forty_characters_after_escaping() {
        assert_eq!(quoted(b"two words"), "\"two words\"");
        assert_eq!(quoted(&[b'a'; 40]), format!("\"{}\"", "a".repeat(40)));
        assert_eq!(quoted(&[b'a'; 41]), format!("\"{}\" and so on", "a".repeat(40)));
        assert_eq!(quoted(&[0x15; 100]), format!("\"{}\" and so on", "\\u{15}".repeat(6)));
        assert_eq!(quoted(&[0xff; 500]), format!("\"{}\" and so on", "\u{fffd}".repeat(40)));
    }
}
