//! Reads server descriptors, which contain the bandwidth of each relay.
//!
//! A document contains many descriptors, as in a Tor client's `cached-descriptors` or in an archive. If a relay has
//! several descriptors, the reader uses the latest. If their times are equal, it uses the first. Signatures are not
//! checked. Source: dir-spec section 2.1.1.

use crate::consensus::{LineError, once, time};
use crate::document::{Item, hex, items, to_hex};
use crate::error::{Error, quoted};
use std::collections::BTreeMap;

/// The bandwidth that a relay's descriptor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// The rate that the relay's operator allows (torrc BandwidthRate) [B/s].
    pub rate: u64,
    /// The bucket depth that the relay's operator allows (torrc BandwidthBurst) [B].
    pub burst: u64,
    /// The highest rate that the relay sustained for ten seconds in the last days, in its slower direction [B/s].
    pub observed: u64,
}

/// The highest rate that the reader accepts [B/s]. Real relays are far slower.
pub(crate) const MOST: u64 = 1 << 40;

/// The descriptors of one or several documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Descriptors {
    /// Publication time and bandwidth of each relay. The key is the fingerprint as 40 upper-case hexadecimal digits.
    found: BTreeMap<String, (String, Bandwidth)>,
}

#[derive(Default)]
struct Entry {
    line: u32,
    nickname: String,
    published: Option<String>,
    fingerprint: Option<String>,
    bandwidth: Option<Bandwidth>,
}

impl Descriptors {
    /// Adds the descriptors of a document. Its name in error messages is `file`.
    pub fn read(&mut self, text: &[u8], file: &str) -> Result<(), Error> {
        let mut entry: Option<Entry> = None;
        let mut any = false;
        let mut items = items(text);
        let mut is_cut = false;
        for item in items.by_ref() {
            is_cut = item.is_cut();
            let is_skipped =
                item.keyword().starts_with(b"-----") || item.text.is_empty() || item.text[0] == b'@';
            if !is_skipped {
                any |=
                    self.item(&item, &mut entry).map_err(|error| Error::in_line(file, item.line, error.0))?;
            }
        }
        let last = items.lines().max(1);
        match entry {
            Some(Entry { line, nickname, .. }) => {
                let message = format!(
                    "it is cut short: the descriptor of {nickname} of line {line} ends here without its router-signature"
                );
                Err(Error::in_line(file, last, message))
            }
            None if is_cut => {
                let message = "it is cut short: it ends inside of what -----BEGIN opened";
                Err(Error::in_line(file, last, message))
            }
            None if !any => {
                Err(Error::in_line(file, 1, "it has no server descriptor, which begins with router"))
            }
            None => Ok(()),
        }
    }

    /// Reads an item. Returns whether the descriptor ends with this item.
    fn item(&mut self, item: &Item<'_>, entry: &mut Option<Entry>) -> Result<bool, LineError> {
        if item.text.ends_with(b"\r") {
            return Err("the line ends in CR LF; lines of a descriptor end in LF alone".into());
        }
        // Until 2012 some keywords had the prefix "opt".
        let item = &item.without_prefix(b"opt ");
        let keyword = item.keyword();
        if keyword == b"router" {
            if let Some(Entry { line, nickname, .. }) = entry {
                let open = format!("the descriptor of {nickname} of line {line}");
                return Err(format!("{open} has no router-signature, and another begins here").into());
            }
            let [nickname, _, _, _, _, ..] = item.words()?[..] else {
                return Err("a router line has a nickname, an address and three ports".into());
            };
            let nickname = quoted(nickname.as_bytes());
            *entry = Some(Entry { line: item.line, nickname, ..Entry::default() });
            return Ok(false);
        }
        let Some(begun) = entry else {
            let begins = quoted(item.text);
            return Err(format!("it begins with {begins}, and a server descriptor with router").into());
        };
        match keyword {
            b"published" => once(&mut begun.published, time(item)?, "published")?,
            b"fingerprint" => {
                once(&mut begun.fingerprint, fingerprint(&item.words()?)?, "fingerprint")?;
            }
            b"bandwidth" => once(&mut begun.bandwidth, bandwidth(&item.words()?)?, "bandwidth")?,
            b"router-signature" => {
                let Entry { line, nickname, published, fingerprint, bandwidth } =
                    entry.take().expect("it has begun");
                let lacks = |what: &str| {
                    format!("the descriptor of {nickname} of line {line} ends here without its {what} line")
                };
                let published = published.ok_or_else(|| lacks("published"))?;
                let fingerprint = fingerprint.ok_or_else(|| lacks("fingerprint"))?;
                let bandwidth = bandwidth.ok_or_else(|| lacks("bandwidth"))?;
                let earlier = self.found.get(&fingerprint);
                if earlier.is_none_or(|(earlier, _)| *earlier < published) {
                    self.found.insert(fingerprint, (published, bandwidth));
                }
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// The bandwidth of the relay with this fingerprint, given as 40 upper-case hexadecimal digits.
    pub fn get(&self, fingerprint: &str) -> Option<Bandwidth> {
        self.found.get(fingerprint).map(|(_, bandwidth)| *bandwidth)
    }
}

fn fingerprint(words: &[&str]) -> Result<String, LineError> {
    let said = || quoted(words.join(" ").as_bytes());
    let bytes = hex::<20>(&words.concat());
    let bytes = bytes.map_err(|_| format!("the fingerprint is {}; it has 40 hexadecimal digits", said()))?;
    Ok(to_hex(&bytes))
}

fn bandwidth(words: &[&str]) -> Result<Bandwidth, LineError> {
    let number = |word: &str| word.parse::<u64>().ok().filter(|number| *number <= MOST);
    let numbers: Option<Vec<u64>> = words.iter().take(3).map(|word| number(word)).collect();
    match numbers.as_deref() {
        Some([rate, burst, observed]) => Ok(Bandwidth { rate: *rate, burst: *burst, observed: *observed }),
        _ => {
            let said = quoted(words.join(" ").as_bytes());
            let right = format!("it is rate, burst and what was observed, three numbers from 0 to {MOST}");
            Err(format!("the bandwidth is {said}; {right}").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn descriptor(digit: char, published: &str, bandwidth: &str) -> String {
        let group = digit.to_string().repeat(4);
        format!(
            "@type server-descriptor 1.0\nrouter relay{digit} 10.0.0.1 9001 0 0\nplatform Tor 0.4.9.1 on Linux\n\
             published {published}\nopt fingerprint {}\nuptime 5\nbandwidth {bandwidth}\nonion-key\n\
             -----BEGIN RSA PUBLIC KEY-----\nrouter x\n-----END RSA PUBLIC KEY-----\nreject *:*\n\
             router-signature\n-----BEGIN SIGNATURE-----\nbandwidth\n-----END SIGNATURE-----\n",
            [group.as_str(); 10].join(" ")
        )
    }

    fn document() -> String {
        [
            descriptor('A', "2030-01-02 00:00:00", "1000 2000 500"),
            descriptor('b', "2030-01-01 00:00:00", "7 8 9 10"),
            descriptor('A', "2030-01-01 00:00:00", "1 1 1"),
        ]
        .concat()
    }

    fn read(text: impl AsRef<[u8]>) -> Result<Descriptors, Error> {
        let mut descriptors = Descriptors::default();
        descriptors.read(text.as_ref(), "doc").map(|()| descriptors)
    }

    #[test]
    fn the_latest_descriptor_of_a_relay_counts() {
        let found = read(document()).unwrap();
        let bandwidth = |rate, burst, observed| Some(Bandwidth { rate, burst, observed });
        assert_eq!(found.get(&"A".repeat(40)), bandwidth(1000, 2000, 500));
        assert_eq!(found.get(&"B".repeat(40)), bandwidth(7, 8, 9));
        assert_eq!(found.get(&"C".repeat(40)), None);
    }

    #[test]
    fn an_error_names_its_line_and_a_correct_form() {
        let error = |from: &str, to: &str| {
            assert!(document().contains(from), "{from:?}");
            read(document().replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, sentence) in [
            ("1000 2000 500", "1000 2000", "doc:7: the bandwidth is \"1000 2000\"; it is rate, burst"),
            ("1000 2000 500", "-1 2000 500", "doc:7: the bandwidth is"),
            ("1000 2000 500", "1000 2000 1099511627777", "doc:7: the bandwidth is"),
            (
                "bandwidth 1000 2000 500\n",
                "",
                "doc:12: the descriptor of \"relayA\" of line 2 ends here without its bandwidth",
            ),
            ("AAAA AAAA", "AAAA AAA", "doc:5: the fingerprint is"),
            ("published 2030-01-02", "published 2030-1-2", "doc:4: published is \"2030-1-2"),
            ("uptime 5", "published 2030-01-02 00:00:00", "doc:6: there is a second published line"),
            (
                "router-signature",
                "router-signatur",
                "doc:18: the descriptor of \"relayA\" of line 2 has no router-signature",
            ),
            ("router relayA", "bridge relayA", "doc:2: it begins with \"bridge relayA"),
            ("router relayA 10.0.0.1", "router", "doc:2: a router line has"),
        ] {
            let error = error(from, to);
            assert!(error.starts_with(sentence), "{error}");
        }
        assert!(read("").unwrap_err().to_string().starts_with("doc:1: it has no server descriptor"));
        let cut = &document()[..250];
        assert!(read(cut).unwrap_err().to_string().contains("it is cut short"));
    }

    proptest! {
        #[test]
        fn damaged_documents_are_parsed_or_rejected_in_one_line(
            at in 0usize..2000, what in prop::collection::vec(any::<u8>(), 0..6), cut in 0usize..40,
        ) {
            let mut text = document().into_bytes();
            let from = at % text.len();
            let to = (from + cut).min(text.len());
            text.splice(from..to, what);
            if let Err(error) = read(text) {
                let error = error.to_string();
                prop_assert!(error.starts_with("doc:") && !error.contains('\n'), "{}", error);
            }
        }
    }
}
