//! The line format of directory documents: keywords, their arguments, and objects in PEM.
//!
//! Consensuses, server descriptors, microdescriptors and authority certificates share this format. The simulator's
//! network files and the live relay's directory cache use this module.
//! Source: dir-spec, "Document meta-format".

use data_encoding::{BASE64_NOPAD, HEXUPPER, HEXUPPER_PERMISSIVE};
use std::time::SystemTime;

/// The error for a document, or a piece of a document, that violates the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the document is malformed")]
pub struct Malformed;

/// One item of a document: a keyword line, and the object that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The number of the keyword line, counted from 1.
    pub line: u32,
    /// The offset of the keyword line in the document [B].
    pub at: usize,
    /// The keyword line without its line end.
    pub text: &'a [u8],
    /// The object, including its BEGIN and END lines; empty if the item has no object.
    object: &'a [u8],
    is_cut: bool,
    is_ended: bool,
}

impl<'a> Item<'a> {
    /// The keyword.
    pub fn keyword(&self) -> &'a [u8] {
        let text = self.text.trim_ascii_end();
        &text[..text.iter().position(|byte| *byte == b' ').unwrap_or(text.len())]
    }

    /// The text after the keyword.
    pub fn arguments(&self) -> Result<&'a str, Malformed> {
        let text = str::from_utf8(self.text).map_err(|_| Malformed)?.trim_end();
        Ok(text.split_once(' ').map_or("", |(_, arguments)| arguments))
    }

    /// The arguments as separate words.
    pub fn words(&self) -> Result<Vec<&'a str>, Malformed> {
        Ok(self.arguments()?.split_ascii_whitespace().collect())
    }

    /// The argument at index `place`, counted from 0.
    pub fn argument(&self, place: usize) -> Result<&'a str, Malformed> {
        self.arguments()?.split_ascii_whitespace().nth(place).ok_or(Malformed)
    }

    /// The decoded bytes of the object, whose label must be `name`.
    pub fn object(&self, name: &str) -> Result<Vec<u8>, Malformed> {
        match pem_rfc7468::decode_vec(self.object) {
            Ok((label, bytes)) if label == name => Ok(bytes),
            Ok(_) | Err(_) => Err(Malformed),
        }
    }

    /// Whether the item's object has no END line.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The item, after `prefix` was removed from the start of its keyword.
    pub fn without_prefix(&self, prefix: &[u8]) -> Self {
        Item { text: self.text.strip_prefix(prefix).unwrap_or(self.text), ..*self }
    }

    /// Returns the item if it has a keyword and neither the line nor the object is cut off.
    pub fn strict(self) -> Result<Self, Malformed> {
        let has_keyword = !matches!(self.keyword().first(), None | Some(b'-'));
        if has_keyword && self.is_ended && !self.is_cut { Ok(self) } else { Err(Malformed) }
    }

    /// The date and time in the first two arguments, such as `2022-11-19 10:00:00`.
    pub fn time(&self) -> Result<SystemTime, Malformed> {
        let (date, time) = (self.argument(0)?, self.argument(1)?);
        if date.len() != 10 || time.len() != 8 {
            return Err(Malformed);
        }
        humantime::parse_rfc3339(&format!("{date}T{time}Z")).map_err(|_| Malformed)
    }
}

/// The items of a document, in order. If a document is cut off, the items before the cut are still returned; see
/// [`Item::strict`].
pub fn items(document: &[u8]) -> Items<'_> {
    Items { document, at: 0, lines: 0 }
}

/// An iterator over the items of a document.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    document: &'a [u8],
    at: usize,
    lines: u32,
}

impl<'a> Items<'a> {
    /// The number of lines read so far.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    fn peek(&self) -> &'a [u8] {
        let rest = &self.document[self.at..];
        &rest[..rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1)]
    }

    fn take(&mut self) -> &'a [u8] {
        let line = self.peek();
        self.at += line.len();
        self.lines += 1;
        line
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        if at == self.document.len() {
            return None;
        }
        let taken = self.take();
        let (line, text) = (self.lines, taken.strip_suffix(b"\n").unwrap_or(taken));
        let object = self.at;
        let mut is_cut = self.peek().starts_with(b"-----BEGIN ");
        while is_cut && self.at < self.document.len() {
            is_cut = !self.take().starts_with(b"-----END ");
        }
        let (whole, object) = (&self.document[at..self.at], &self.document[object..self.at]);
        Some(Item { line, at, text, object, is_cut, is_ended: whole.ends_with(b"\n") })
    }
}

/// Splits `text` into documents that each begin with a line with `keyword`. Text before the first such line is dropped.
pub fn split<'a>(text: &'a str, keyword: &str) -> Vec<&'a str> {
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

/// Parses `key=value` with a whole number as value.
pub fn pair(word: &str) -> Result<(&str, i64), BadPair> {
    let (key, value) = word.split_once('=').ok_or(BadPair::NoPair)?;
    Ok((key, value.parse().map_err(|_| BadPair::NoNumber)?))
}

/// Why a word is not a valid `key=value` pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPair {
    /// The word has no `=`.
    NoPair,
    /// The text after the `=` is no whole number.
    NoNumber,
}

/// Decodes `N` bytes from base64 without padding.
pub fn base64<const N: usize>(text: &str) -> Result<[u8; N], Malformed> {
    BASE64_NOPAD.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed)
}

/// Encodes bytes in base64 without padding.
pub fn to_base64(bytes: &[u8]) -> String {
    BASE64_NOPAD.encode(bytes)
}

/// Decodes `N` bytes from hexadecimal digits of either case.
pub fn hex<const N: usize>(text: &str) -> Result<[u8; N], Malformed> {
    let bytes = HEXUPPER_PERMISSIVE.decode(text.as_bytes()).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed)
}

/// Encodes bytes in upper-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    HEXUPPER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_their_objects_are_parsed_in_order() {
        let text = b"a 1 2\nb\n-----BEGIN X-----\nAQID\n-----END X-----\nc  d \n";
        let read: Vec<Item<'_>> = items(text).map(|item| item.strict().unwrap()).collect();
        assert_eq!(read.iter().map(Item::keyword).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!((read[0].argument(1), read[0].argument(2)), (Ok("2"), Err(Malformed)));
        assert_eq!(read[1].object("X"), Ok(vec![1, 2, 3]));
        assert_eq!((read[1].object("Y"), read[2].at, read[2].line), (Err(Malformed), 47, 6));
    }

    #[test]
    fn a_truncated_document_is_malformed() {
        for text in ["a", "a\n-----BEGIN X-----\nAQID\n", "\n", "-----END X-----\n"] {
            assert!(items(text.as_bytes()).any(|item| item.strict().is_err()), "{text:?}");
        }
    }

    #[test]
    fn times_have_seconds_and_no_fraction() {
        let time = |text: &str| items(text.as_bytes()).next().unwrap().time().is_ok();
        assert!(time("published 2030-01-02 00:00:00\n") && time("published 2030-01-02 00:00:00 x\n"));
        for bad in ["soon", "2030-1-2 00:00:00", "2030-01-02", "2030-01-02 00:00:00.5", "2030-13-02 00:00:00"]
        {
            assert!(!time(&format!("published {bad}\n")), "{bad}");
        }
    }

    #[test]
    fn documents_are_split_at_their_first_keyword() {
        assert_eq!(split("x\nkey 1\ny\nkeys\nkey\nz\n", "key"), ["key 1\ny\nkeys\n", "key\nz\n"]);
        assert_eq!(split("", "key"), [""; 0]);
    }

    #[test]
    fn an_identity_has_one_encoding() {
        // 000102..13 in base64.
        let bytes: [u8; 20] = std::array::from_fn(|place| place as u8);
        assert_eq!(base64("AAECAwQFBgcICQoLDA0ODxAREhM"), Ok(bytes));
        for bad in ["AAECAwQFBgcICQoLDA0ODxAREhN", "AAECAwQFBgcICQoLDA0ODxAREh=", "AAEC"] {
            assert_eq!(base64::<20>(bad), Err(Malformed), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "(a|b -|\n|-----BEGIN X-----|-----END X-----|AQID|\u{e4}){0,30}") {
            prop_assert!(items(text.as_bytes()).count() <= text.len());
        }

        #[test]
        fn encoded_identities_can_be_decoded(bytes in any::<[u8; 20]>()) {
            prop_assert_eq!(hex(&to_hex(&bytes)), Ok(bytes));
            prop_assert_eq!(base64(&to_base64(&bytes)), Ok(bytes));
        }
    }
}
