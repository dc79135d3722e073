//! Reads server descriptors, which contain the bandwidth and the family of each relay, and microdescriptors, which
//! contain its family.
//!
//! A document contains many descriptors, as in a Tor client's `cached-descriptors` and `cached-microdescs`, or in an
//! archive. If a relay has several server descriptors, the reader uses the latest. If their times are equal, it uses the
//! first. A consensus with microdescriptors names the digest of each one. Signatures are not checked.
//! Source: dir-spec sections 2.1.1 and 3.3.
//! Deviation: a certificate of a family key for another relay is ignored. C tor rejects such a descriptor.
//! Deviation: for families, C tor uses the server descriptor that the consensus names, which is not always the latest.

use crate::consensus::{Consensus, LineError, once, time};
use crate::document::{Item, base64, hex, items, to_hex};
use crate::error::{Error, quoted};
use crate::families::{self, Certificate, Declaration, Rules};
use crate::relay::{MAX_FAMILY, Relay};
use sha2::{Digest as _, Sha256};
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
    /// The server descriptor of each relay. The key is the fingerprint as 40 upper-case hexadecimal digits.
    found: BTreeMap<String, Server>,
    /// The family of each microdescriptor, by its digest.
    micro: BTreeMap<[u8; 32], Declaration>,
}

/// The parts of a server descriptor that Penstock needs.
#[derive(Clone, Debug, PartialEq)]
struct Server {
    published: String,
    bandwidth: Bandwidth,
    family: Declaration,
}

#[derive(Default)]
struct Entry {
    line: u32,
    nickname: String,
    published: Option<String>,
    fingerprint: Option<String>,
    bandwidth: Option<Bandwidth>,
    family: Declaration,
    /// The Ed25519 identity.
    identity: Option<[u8; 32]>,
    certificates: Vec<Certificate>,
}

impl Descriptors {
    /// Adds the descriptors of a document, of either kind. Its name in error messages is `file`.
    pub fn read(&mut self, text: &[u8], file: &str) -> Result<(), Error> {
        if items(text).find(|item| !is_skipped(item)).is_some_and(|item| item.keyword() == b"onion-key") {
            return self.read_micro(text, file);
        }
        let mut entry: Option<Entry> = None;
        let mut any = false;
        let mut items = items(text);
        let mut is_cut = false;
        for item in items.by_ref() {
            is_cut = item.is_cut();
            if !is_skipped(&item) {
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
                let message = "it is cut short: an object at its end has no -----END";
                Err(Error::in_line(file, last, message))
            }
            None if !any => {
                Err(Error::in_line(file, 1, "it has no descriptor, which begins with router or onion-key"))
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
            b"family" => begun.family.name(&item.words()?)?,
            b"master-key-ed25519" => {
                let key = item.argument(0).and_then(base64);
                let key = key.map_err(|_| "master-key-ed25519 needs a key of 32 bytes in base64")?;
                once(&mut begun.identity, key, "master-key-ed25519")?;
            }
            b"family-cert" => {
                let certificate = item.object("FAMILY CERT").ok();
                let certificate = certificate.and_then(|bytes| Certificate::read(&bytes));
                begun.certificates.push(certificate.ok_or(
                    "family-cert has no certificate of a family; it needs a FAMILY CERT with its key",
                )?);
            }
            b"router-signature" => {
                let Entry {
                    line,
                    nickname,
                    published,
                    fingerprint,
                    bandwidth,
                    mut family,
                    identity,
                    certificates,
                } = entry.take().expect("it has begun");
                let lacks = |what: &str| {
                    format!("the descriptor of {nickname} of line {line} ends here without its {what} line")
                };
                let published = published.ok_or_else(|| lacks("published"))?;
                let fingerprint = fingerprint.ok_or_else(|| lacks("fingerprint"))?;
                let bandwidth = bandwidth.ok_or_else(|| lacks("bandwidth"))?;
                for Certificate { id, .. } in certificates.iter().filter(|it| Some(it.relay) == identity) {
                    family.certify(&[id])?;
                }
                let earlier = self.found.get(&fingerprint);
                if earlier.is_none_or(|earlier| earlier.published < published) {
                    self.found.insert(fingerprint, Server { published, bandwidth, family });
                }
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// The bandwidth of the relay with this fingerprint, given as 40 upper-case hexadecimal digits.
    pub fn get(&self, fingerprint: &str) -> Option<Bandwidth> {
        self.found.get(fingerprint).map(|server| server.bandwidth)
    }

    /// Whether there is a server descriptor, and so a bandwidth.
    pub fn has_bandwidths(&self) -> bool {
        !self.found.is_empty()
    }

    /// Sets the families of a consensus' relays. Returns the number of relays with a descriptor. The name of the
    /// consensus in error messages is `file`.
    ///
    /// If a relay has descriptors of both kinds, its microdescriptor counts. Fails if no relay has a descriptor, and if a
    /// family has more than [`MAX_FAMILY`] other relays. The consensus parameters `use-family-lists` and
    /// `use-family-ids` have an effect.
    pub fn connect(&self, consensus: &mut Consensus, file: &str) -> Result<usize, Error> {
        let of = |(relay, digest): (&Relay, &Option<[u8; 32]>)| {
            let micro = digest.as_ref().and_then(|digest| self.micro.get(digest));
            micro.or_else(|| self.found.get(relay.identity().0).map(|server| &server.family))
        };
        let declared: Vec<_> = consensus.relays.iter().zip(&consensus.digests).map(of).collect();
        let described = declared.iter().flatten().count();
        if described == 0 {
            return Err(Error::of(
                file,
                "none of its relays has one of the descriptors; use descriptors of the same days",
            ));
        }
        let rules = Rules::of(&consensus.params);
        families::connect(&mut consensus.relays, &declared, rules).map_err(|place| {
            let name = &consensus.relays[place].name;
            Error::of(
                file,
                format!(
                    "the family of {name} has more than {MAX_FAMILY} other relays; leave out its descriptor"
                ),
            )
        })?;
        Ok(described)
    }

    /// Adds the microdescriptors of a document. The digest covers a descriptor from its first line to the line before the
    /// next descriptor or annotation.
    fn read_micro(&mut self, text: &[u8], file: &str) -> Result<(), Error> {
        let mut begun: Option<(usize, Declaration)> = None;
        let mut end = |begun: Option<(usize, Declaration)>, to: usize| {
            if let Some((from, family)) = begun {
                self.micro.insert(Sha256::digest(&text[from..to]).into(), family);
            }
        };
        let mut items = items(text);
        for item in items.by_ref() {
            let wrong = |error: LineError| Error::in_line(file, item.line, error.0);
            if item.is_cut() {
                return Err(wrong("it is cut short: the object after this line has no -----END".into()));
            }
            let is_first = item.keyword() == b"onion-key";
            if is_first || item.text.starts_with(b"@") {
                end(begun.take(), item.at);
            }
            if is_first {
                begun = Some((item.at, Declaration::default()));
                continue;
            }
            let keyword = item.keyword();
            if !matches!(keyword, b"family" | b"family-ids") {
                continue;
            }
            let Some((_, family)) = &mut begun else {
                return Err(wrong("it belongs to a microdescriptor, which begins with onion-key".into()));
            };
            let words = item.words().map_err(|error| wrong(error.into()))?;
            let read = if keyword == b"family" { family.name(&words) } else { family.certify(&words) };
            read.map_err(|error| wrong(error.into()))?;
        }
        if !text.ends_with(b"\n") {
            return Err(Error::in_line(file, items.lines(), "it is cut short: it ends inside of this line"));
        }
        end(begun, text.len());
        Ok(())
    }
}

/// Whether an item is a signature, an empty line or an annotation of an archive.
fn is_skipped(item: &Item<'_>) -> bool {
    item.keyword().starts_with(b"-----") || item.text.is_empty() || item.text[0] == b'@'
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
    use crate::document::to_base64;
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

    /// A consensus with relays of the fingerprints AA...A, BB...B and CC...C, and these digests.
    fn consensus(digests: &[[u8; 32]]) -> Consensus {
        let entry = |(place, digest): (usize, &[u8; 32])| {
            let identity = to_base64(&[0xaa + 0x11 * place as u8; 20]);
            let digest = to_base64(digest);
            format!(
                "r relay{place} {identity} 2030-01-01 00:00:00 10.{place}.0.1 9001 0\nm {digest}\ns Fast\nw Bandwidth=1\n"
            )
        };
        let entries: String = digests.iter().enumerate().map(entry).collect();
        let text = format!(
            "network-status-version 3 microdesc\nvote-status consensus\nvalid-after 2030-01-01 00:00:00\n{entries}\
             directory-footer\ndirectory-signature sha256 0 0\n"
        );
        Consensus::parse(text.as_bytes(), "consensus").unwrap()
    }

    fn families(consensus: &Consensus) -> Vec<&[u32]> {
        consensus.relays.iter().map(|relay| &relay.family[..]).collect()
    }

    #[test]
    fn the_latest_descriptor_sets_the_family_of_a_relay() {
        let with = |digit, day: u8, family: &str| {
            let text = descriptor(digit, &format!("2030-01-0{day} 00:00:00"), "1 1 1");
            text.replace("uptime 5\n", &format!("family {family}\n"))
        };
        let [a, b] = ["A", "B"].map(|digit| format!("${}", digit.repeat(40)));
        let mut consensus = consensus(&[[0; 32]; 3]);
        let mut connect = |documents: &[String]| {
            let described = read(documents.concat()).unwrap().connect(&mut consensus, "consensus");
            (described, families(&consensus).iter().map(|family| family.to_vec()).collect::<Vec<_>>())
        };
        let (early, late) = (with('A', 1, &b), with('A', 2, "relay1"));
        let other = with('B', 1, &format!("{a}=relay0 relay2"));
        let mutual = vec![vec![1], vec![0], vec![]];
        assert_eq!(connect(&[early.clone(), other.clone()]), (Ok(2), mutual.clone()));
        assert_eq!(connect(&[early.clone(), late, other.clone()]), (Ok(2), mutual));
        assert_eq!(connect(&[early, with('A', 3, "relay2"), other]), (Ok(2), vec![vec![]; 3]));
        let (none, _) = connect(&[descriptor('D', "2030-01-01 00:00:00", "1 1 1")]);
        assert!(
            none.unwrap_err()
                .to_string()
                .starts_with("consensus: none of its relays has one of the descriptors")
        );
    }

    #[test]
    fn a_microdescriptor_belongs_to_the_relay_with_its_digest() {
        let key = "-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----\n";
        let [a, b] = ["A", "B"].map(|digit| format!("${}", digit.repeat(40)));
        let one = format!("onion-key\n{key}ntor-onion-key x\nfamily {b}\nid ed25519 x\n");
        let two = format!("onion-key\nntor-onion-key x\nfamily {a} {b}\nfamily-ids ed25519:x\n");
        let three = "onion-key\nfamily-ids ed25519:y ed25519:x\n";
        let text =
            format!("@last-listed 2030-01-01 00:00:00\n{one}@last-listed 2030-01-02 00:00:00\n{two}{three}");
        let digests = [&one[..], &two, three].map(|text| Sha256::digest(text).into());
        let mut known = consensus(&digests);
        let found = read(&text).unwrap();
        assert_eq!(found.connect(&mut known, "consensus"), Ok(3));
        assert_eq!(families(&known), [&[1][..], &[0, 2], &[1]]);
        assert!(!found.has_bandwidths() && read(document()).unwrap().has_bandwidths());
        let mut other = consensus(&[digests[0], [1; 32], [2; 32]]);
        assert_eq!(found.connect(&mut other, "consensus"), Ok(1));
        assert_eq!(families(&other), [&[][..]; 3]);
        for (text, sentence) in [
            (&text[..text.len() - 1], "doc:15: it is cut short"),
            (&text[..70], "doc:2: it is cut short: the object after this line has no -----END"),
            ("onion-key\n@x\nfamily a\n", "doc:3: it belongs to a microdescriptor"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
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
            (
                "uptime 5\n",
                "family-cert\n-----BEGIN FAMILY CERT-----\nAAAA\n-----END FAMILY CERT-----\n",
                "doc:6: family-cert has no certificate of a family",
            ),
            ("router relayA", "bridge relayA", "doc:2: it begins with \"bridge relayA"),
            ("router relayA 10.0.0.1", "router", "doc:2: a router line has"),
        ] {
            let error = error(from, to);
            assert!(error.starts_with(sentence), "{error}");
        }
        assert!(read("").unwrap_err().to_string().starts_with("doc:1: it has no descriptor"));
        let cut = &document()[..250];
        assert!(read(cut).unwrap_err().to_string().contains("it is cut short"));
    }

    #[test]
    fn a_copied_certificate_has_no_effect() {
        let certificate = |key: u8| {
            let bytes =
                [&[1, 0x0c][..], &[0; 4], &[1], &[key; 32], &[1, 0, 32, 4, 1], &[3; 32], &[0; 64]].concat();
            let text =
                pem_rfc7468::encode_string("FAMILY CERT", pem_rfc7468::LineEnding::LF, &bytes).unwrap();
            format!("family-cert\n{text}")
        };
        let with = |digit, own: u8, certified: u8| {
            let key = to_base64(&[own; 32]);
            let lines = format!("{}master-key-ed25519 {key}\n", certificate(certified));
            descriptor(digit, "2030-01-01 00:00:00", "1 1 1").replace("uptime 5\n", &lines)
        };
        let families = |third: String| {
            let mut consensus = consensus(&[[0; 32]; 3]);
            let text = [with('A', 1, 1), with('B', 2, 2), third].concat();
            read(text).unwrap().connect(&mut consensus, "consensus").unwrap();
            families(&consensus).iter().map(|family| family.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(families(with('C', 3, 3)), [vec![1, 2], vec![0, 2], vec![0, 1]]);
        assert_eq!(families(with('C', 3, 1)), [vec![1], vec![0], vec![]]);
        let without = with('C', 3, 3).replace("master-key-ed25519", "other");
        assert_eq!(families(without), [vec![1], vec![0], vec![]]);
    }

    #[test]
    fn a_family_of_too_many_relays_names_the_consensus() {
        let mut large = consensus(&[[7; 32]]);
        large.relays = (0..2 + MAX_FAMILY).map(|_| large.relays[0].clone()).collect();
        large.digests = vec![Some(Sha256::digest("onion-key\nfamily-ids one\n").into()); large.relays.len()];
        let error =
            read("onion-key\nfamily-ids one\n").unwrap().connect(&mut large, "consensus").unwrap_err();
        let right = "~relay0 has more than 4096 other relays; leave out its descriptor";
        assert!(error.to_string().starts_with("consensus: the family of $AAAA"), "{error}");
        assert!(error.to_string().ends_with(right), "{error}");
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
