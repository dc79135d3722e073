//! Directory documents as lines: keywords, what follows them, and objects in base64.
//!
//! Source: dir-spec, "Document meta-format".

use penstock_link::pem;
use penstock_link::wire::Malformed;
use std::time::{Duration, SystemTime};

/// One item of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) keyword: &'a str,
    /// What follows on its line.
    pub(super) arguments: &'a str,
    /// With its lines BEGIN and END; nothing if there is none.
    pub(super) object: &'a str,
    /// Where it begins in the document [B].
    pub(super) at: usize,
}

impl<'a> Item<'a> {
    /// An argument by its place.
    pub(super) fn argument(&self, place: usize) -> Result<&'a str, Malformed> {
        self.arguments.split_ascii_whitespace().nth(place).ok_or(Malformed)
    }

    /// What the object called `name` holds.
    pub(super) fn object(&self, name: &str) -> Result<Vec<u8>, Malformed> {
        Ok(pem::read(name, self.object)?.to_vec())
    }

    /// A date and a time, the arguments of this line.
    pub(super) fn time(&self) -> Result<SystemTime, Malformed> {
        let text = format!("{}T{}Z", self.argument(0)?, self.argument(1)?);
        humantime::parse_rfc3339(&text).map_err(|_| Malformed)
    }
}

/// The items of a document, in order.
pub(super) fn items(document: &str) -> Items<'_> {
    Items { document, at: 0 }
}

/// Those that are left of a document.
#[derive(Clone, Debug)]
pub(super) struct Items<'a> {
    document: &'a str,
    at: usize,
}

impl<'a> Items<'a> {
    /// The next line, with its end; without end it is none.
    fn line(&self, at: usize) -> Option<&'a str> {
        let rest = &self.document[at..];
        rest.find('\n').map(|end| &rest[..=end])
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let begin = self.at;
        if begin == self.document.len() {
            return None;
        }
        let read = (|| {
            let line = self.line(begin).ok_or(Malformed)?;
            let (keyword, arguments) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
            if keyword.is_empty() || keyword.starts_with('-') {
                return Err(Malformed);
            }
            let object = begin + line.len();
            let mut end = object;
            if self.line(end).is_some_and(|line| line.starts_with("-----BEGIN ")) {
                loop {
                    let line = self.line(end).ok_or(Malformed)?;
                    end += line.len();
                    if line.starts_with("-----END ") {
                        break;
                    }
                }
            }
            Ok((Item { keyword, arguments, object: &self.document[object..end], at: begin }, end))
        })();
        // What is malformed ends the document.
        self.at = read.as_ref().map_or(self.document.len(), |(_, end)| *end);
        Some(read.map(|(item, _)| item))
    }
}

/// Bytes of hexadecimal digits, of either case.
pub(super) fn hex<const N: usize>(text: &str) -> Result<[u8; N], Malformed> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(Malformed);
    }
    let value = |digit: u8| (digit as char).to_digit(16).expect("all are digits") as u8;
    Ok(std::array::from_fn(|at| value(digits[2 * at]) << 4 | value(digits[2 * at + 1])))
}

/// Hexadecimal digits in upper case, as directories write fingerprints.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// `later` - `earlier`, or nothing.
pub(super) fn between(earlier: SystemTime, later: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}

/// Where documents begin that each begin with a line with this keyword: the text is cut there. What is before the
/// first is left out.
pub(super) fn split<'a>(text: &'a str, keyword: &str) -> Vec<&'a str> {
    let begins = |line: &str| line.strip_prefix(keyword).is_some_and(|rest| rest.starts_with([' ', '\n']));
    let mut at = 0;
    let mut starts = Vec::new();
    for line in text.split_inclusive('\n') {
        if begins(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_their_objects_are_read_in_order() {
        let text = "a 1 2\nb\n-----BEGIN X-----\nAQID\n-----END X-----\nc  d \n";
        let read: Vec<Item<'_>> = items(text).collect::<Result<_, _>>().unwrap();
        assert_eq!(read.iter().map(|item| item.keyword).collect::<String>(), "abc");
        assert_eq!((read[0].argument(1), read[0].argument(2)), (Ok("2"), Err(Malformed)));
        assert_eq!(read[1].object("X"), Ok(vec![1, 2, 3]));
        assert_eq!((read[1].object("Y"), read[2].at), (Err(Malformed), 47));
    }

    #[test]
    fn what_breaks_off_is_malformed() {
        for text in ["a", "a\n-----BEGIN X-----\nAQID\n", "\n", "-----END X-----\n"] {
            assert!(items(text).any(|item| item.is_err()), "{text:?}");
        }
    }

    #[test]
    fn documents_are_cut_where_their_first_keyword_is() {
        assert_eq!(split("x\nkey 1\ny\nkeys\nkey\nz\n", "key"), ["key 1\ny\nkeys\n", "key\nz\n"]);
        assert_eq!(split("", "key"), [""; 0]);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_all_ends(text in "(a|b -|\n|-----BEGIN X-----|-----END X-----|AQID|\u{e4}){0,30}") {
            prop_assert!(items(&text).count() <= text.len());
        }

        #[test]
        fn digits_are_read_back(bytes in any::<[u8; 20]>()) {
            prop_assert_eq!(hex(&to_hex(&bytes)), Ok(bytes));
        }
    }
}
