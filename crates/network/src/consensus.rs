//! Reads relays, parameters and position weights from consensus documents of the flavours `ns` and `microdesc`.
//!
//! Source: dir-spec section 3.4.1 and 3.9 (microdesc flavour). The reader skips lines that path selection does not
//! need, and checks no signatures. Its peak memory is a few times the size of the document.

use crate::document::{self, BadPair, Item, Malformed, items};
use crate::error::{Error, quoted};
use crate::relay::{Flags, Relay};
use crate::weights::PositionWeights;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// The parts of a consensus that path selection needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Consensus {
    /// The flavour: `ns` or `microdesc`.
    pub flavor: String,
    /// The valid-after time in UTC, such as `2022-11-19 10:00:00`.
    pub valid_after: String,
    /// The fresh-until time in UTC, if the document has one.
    pub fresh_until: Option<String>,
    /// The consensus parameters by name.
    pub params: BTreeMap<String, i64>,
    /// The relays in the order of the document.
    pub relays: Vec<Relay>,
    /// For each relay, the number of the line in which it begins.
    pub lines: Vec<u32>,
    /// For each relay, the digest of its microdescriptor; `None` in the flavour `ns`.
    pub digests: Vec<Option<[u8; 32]>>,
    /// The position weight of each class of relays at each position.
    pub weights: PositionWeights,
    /// Where the position weights come from.
    pub origin: Origin,
}

/// Where position weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The document contains the weights.
    Document,
    /// The document has no weights, so they are computed as the authorities compute them.
    Computed,
    /// The document has no weights and none can be computed, so all classes have equal weights.
    Even,
}

/// The longest accepted time from valid-after to fresh-until [s]. It is an hour in the Tor network.
const LONGEST_PERIOD: u64 = 7 * 86_400;

impl Consensus {
    /// The time from valid-after to fresh-until [s since 1970], in which clients use this consensus and no later one.
    /// `text` is a document, or its beginning with all lines before the first relay. Its name in error messages is
    /// `file`.
    ///
    /// Deviation: C tor's clients download the next consensus at a random time after fresh-until, and use this one until
    /// then (`update_consensus_networkstatus_fetch_time_impl()`). TorPS has the same simplification.
    pub fn period(text: &[u8], file: &str) -> Result<Range<u64>, Error> {
        let mut reader = Reader::new(file);
        for item in items(text).take_while(|item| !matches!(item.keyword(), b"r" | b"directory-footer")) {
            reader.item(&item).map_err(|error| Error::in_line(file, item.line, error.0))?;
        }
        if reader.part == Part::Start {
            return Err(Error::in_line(
                file,
                1,
                no_consensus(text.split(|byte| *byte == b'\n').next().unwrap_or(text)).0,
            ));
        }
        let times = [("valid-after", reader.valid_after), ("fresh-until", reader.fresh_until)];
        let [Some(from), Some(until)] = times.each_ref().map(|(_, time)| time.as_deref().map(seconds)) else {
            let (lacking, _) = times.iter().find(|(_, time)| time.is_none()).expect("one is missing");
            return Err(Error::of(file, format!("it has no line {lacking} before its relays")));
        };
        if from >= until {
            return Err(Error::of(file, "its fresh-until is not after its valid-after"));
        }
        if until - from > LONGEST_PERIOD {
            return Err(Error::of(file, "its fresh-until is more than a week after its valid-after"));
        }
        Ok(from..until)
    }

    /// Reads a document. Its name in error messages is `file`.
    pub fn parse(text: &[u8], file: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::in_line(file, 1, no_consensus(text).0));
        }
        let mut reader = Reader::new(file);
        let mut items = items(text);
        for item in items.by_ref() {
            reader.number = item.line;
            reader.item(&item).map_err(|error| Error::in_line(file, item.line, error.0))?;
        }
        reader.number = items.lines();
        reader.finish()
    }
}

/// A message about an error in a line, without the line number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineError(pub(crate) String);

impl From<String> for LineError {
    fn from(text: String) -> Self {
        LineError(text)
    }
}

impl From<&str> for LineError {
    fn from(text: &str) -> Self {
        LineError(text.to_owned())
    }
}

impl From<Malformed> for LineError {
    fn from(_: Malformed) -> Self {
        LineError("the line is not text in UTF-8".to_owned())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Start,
    Header,
    Relays,
    Footer,
    /// The signatures. All lines from here on are ignored.
    Signatures,
}

struct Entry {
    line: u32,
    name: String,
    address: Ipv4Addr,
    flags: Option<Flags>,
    weight: Option<u32>,
    /// Whether the relay's policy accepts port 443; `None` if the document has no policy for it.
    policy: Option<bool>,
    digest: Option<[u8; 32]>,
}

struct Reader<'a> {
    file: &'a str,
    number: u32,
    footer: u32,
    /// The scale of position weights: a weight of this value is the fraction 1.
    scale: u32,
    part: Part,
    flavor: String,
    is_consensus: bool,
    valid_after: Option<String>,
    fresh_until: Option<String>,
    params: Option<BTreeMap<String, i64>>,
    entry: Option<Entry>,
    relays: Vec<Relay>,
    lines: Vec<u32>,
    digests: Vec<Option<[u8; 32]>>,
    /// The line number of each relay, by identity.
    seen: BTreeMap<[u8; 20], u32>,
    weights: Option<PositionWeights>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str) -> Self {
        Reader {
            file,
            number: 0,
            footer: 0,
            scale: PositionWeights::SCALE,
            part: Part::Start,
            flavor: String::new(),
            is_consensus: false,
            valid_after: None,
            fresh_until: None,
            params: None,
            entry: None,
            relays: Vec::new(),
            lines: Vec::new(),
            digests: Vec::new(),
            seen: BTreeMap::new(),
            weights: None,
        }
    }

    fn item(&mut self, item: &Item<'_>) -> Result<(), LineError> {
        let keyword = item.keyword();
        if self.part == Part::Signatures || (self.part == Part::Start && keyword.starts_with(b"@")) {
            // In archives, a line "@type ..." precedes a document.
            return Ok(());
        }
        if item.text.ends_with(b"\r") {
            return Err("the line ends in CR LF; lines of a consensus end in LF alone".into());
        }
        if self.part == Part::Start {
            if keyword != b"network-status-version" {
                return Err(no_consensus(item.text));
            }
            self.part = Part::Header;
            self.flavor = flavor(item.words()?)?;
            return Ok(());
        }
        match keyword {
            b"network-status-version" => return Err("a second document begins here".into()),
            b"vote-status" => self.vote_status(&item.words()?)?,
            b"valid-after" => {
                let time = time(item)?;
                once(&mut self.valid_after, time, "valid-after")?;
            }
            b"fresh-until" => {
                let time = time(item)?;
                once(&mut self.fresh_until, time, "fresh-until")?;
            }
            b"params" => {
                let words = item.words()?;
                let params: BTreeMap<_, _> =
                    pairs(&words)?.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                self.scale = scale(&params)?;
                once(&mut self.params, params, "params")?;
            }
            b"r" => self.begin_relay(&item.words()?)?,
            b"s" => {
                let flags = Flags::of(&item.words()?);
                once(&mut self.entry("s")?.flags, flags, "s")?;
            }
            b"w" => {
                let weight = weight(&item.words()?)?;
                once(&mut self.entry("w")?.weight, weight, "w")?;
            }
            b"m" if self.flavor == "microdesc" => {
                let digest = digest(&item.words()?)?;
                once(&mut self.entry("m")?.digest, digest, "m")?;
            }
            b"p" => {
                let policy = accepts(&item.words()?, 443)?;
                once(&mut self.entry("p")?.policy, policy, "p")?;
            }
            b"directory-footer" => {
                self.end_relay()?;
                (self.part, self.footer) = (Part::Footer, self.number);
            }
            b"bandwidth-weights" => {
                if self.part != Part::Footer {
                    return Err("bandwidth-weights stands before directory-footer".into());
                }
                let words = item.words()?;
                let values = pairs(&words)?;
                let weights = PositionWeights::of(&values, self.scale).map_err(|error| error.to_string())?;
                once(&mut self.weights, weights, "bandwidth-weights")?;
            }
            b"directory-signature" => {
                if self.part != Part::Footer {
                    return Err("a signature stands before directory-footer".into());
                }
                self.part = Part::Signatures;
            }
            _ => {}
        }
        Ok(())
    }

    fn vote_status(&mut self, words: &[&str]) -> Result<(), LineError> {
        match words {
            ["consensus"] => self.is_consensus = true,
            _ => {
                return Err(
                    format!("vote-status is {}, not consensus", quoted(words.join(" ").as_bytes())).into()
                );
            }
        }
        Ok(())
    }

    fn begin_relay(&mut self, words: &[&str]) -> Result<(), LineError> {
        if self.part > Part::Relays {
            return Err("a relay stands after directory-footer".into());
        }
        self.end_relay()?;
        self.part = Part::Relays;
        // The lines of the microdesc flavour contain no descriptor digest.
        let (nickname, identity, address) = match (words, self.flavor.as_str()) {
            ([nickname, identity, _, _, _, address, _, _, ..], "ns") => (nickname, identity, address),
            ([nickname, identity, _, _, address, _, _, ..], "microdesc") => (nickname, identity, address),
            (_, flavor) => {
                let (count, least) = (words.len() + 1, if flavor == "ns" { 9 } else { 8 });
                let short =
                    format!("an r line of {count} words is cut short; it has {least} in this consensus");
                return Err(short.into());
            }
        };
        if !(1..=19).contains(&nickname.len()) || !nickname.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let nickname = quoted(nickname.as_bytes());
            return Err(format!("{nickname} is not a nickname, which has 1 to 19 letters and digits").into());
        }
        let id = document::base64::<20>(identity).map_err(|_| {
            format!(
                "{} is not an identity, which is 20 bytes in base64, 27 characters",
                quoted(identity.as_bytes())
            )
        })?;
        let parsed = address.parse();
        let address = parsed.map_err(|_| format!("{} is not an IPv4 address", quoted(address.as_bytes())));
        let entry = Entry {
            line: self.number,
            name: format!("${}~{nickname}", document::to_hex(&id)),
            address: address?,
            flags: None,
            weight: None,
            policy: None,
            digest: None,
        };
        if let Some(line) = self.seen.insert(id, self.number) {
            return Err(format!("relay {} is in line {line} already", entry.name).into());
        }
        self.entry = Some(entry);
        Ok(())
    }

    fn entry(&mut self, keyword: &str) -> Result<&mut Entry, LineError> {
        let none = || format!("a line {keyword:?} belongs to a relay, and none has begun here").into();
        self.entry.as_mut().ok_or_else(none)
    }

    fn end_relay(&mut self) -> Result<(), LineError> {
        let Some(Entry { line, name, address, flags, weight, policy, digest }) = self.entry.take() else {
            return Ok(());
        };
        let lacks = |what: &str| format!("relay {name} of line {line} ends here without {what}");
        let flags = flags.ok_or_else(|| lacks("its flags, an s line"))?;
        let weight = weight.ok_or_else(|| lacks("its weight, a w line"))?;
        let exits = policy.unwrap_or(flags.exit);
        self.lines.push(line);
        self.digests.push(digest);
        self.relays.push(Relay {
            name,
            weight,
            flags,
            address: Some(address),
            family: Arc::default(),
            exits,
        });
        Ok(())
    }

    fn finish(self) -> Result<Consensus, Error> {
        let (file, number) = (self.file, self.number);
        let fail = |message: &str| Err(Error::in_line(file, number, message));
        match self.part {
            Part::Start => return fail("it is empty, and a consensus begins with network-status-version"),
            Part::Header | Part::Relays => {
                return fail("it is cut short: it ends here without a directory-footer");
            }
            Part::Footer => return fail("it is cut short: it ends here without a directory-signature"),
            Part::Signatures => {}
        }
        let lacks = |what| {
            Err(Error::in_line(file, self.footer, format!("the list of relays ends here, without {what}")))
        };
        if !self.is_consensus {
            return lacks("a line \"vote-status consensus\" before them");
        }
        let Some(valid_after) = self.valid_after else {
            return lacks("a line valid-after before them");
        };
        if self.relays.is_empty() {
            return lacks("one of them");
        }
        let computed =
            || PositionWeights::computed(&self.relays, self.scale).map(|weights| (weights, Origin::Computed));
        let (weights, origin) = match self.weights {
            Some(weights) => (weights, Origin::Document),
            None => computed().unwrap_or((PositionWeights::even(), Origin::Even)),
        };
        let params = self.params.unwrap_or_default();
        let Reader { flavor, fresh_until, relays, lines, digests, .. } = self;
        Ok(Consensus { flavor, valid_after, fresh_until, params, relays, lines, digests, weights, origin })
    }
}

fn no_consensus(line: &[u8]) -> LineError {
    format!("it begins with {}, and a consensus with network-status-version", quoted(line)).into()
}

pub(crate) fn once<T>(place: &mut Option<T>, value: T, keyword: &str) -> Result<(), LineError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("there is a second {keyword} line").into()),
    }
}

fn flavor(words: Vec<&str>) -> Result<String, LineError> {
    match words[..] {
        ["3"] | ["3", "ns"] => Ok("ns".to_owned()),
        ["3", "microdesc"] => Ok("microdesc".to_owned()),
        _ => {
            let said = quoted(words.join(" ").as_bytes());
            Err(format!("the version is {said}; known are 3 and 3 microdesc").into())
        }
    }
}

pub(crate) fn time(item: &Item<'_>) -> Result<String, LineError> {
    let words = item.words()?;
    match item.time() {
        Ok(_) => Ok(words[..2].join(" ")),
        Err(Malformed) => {
            let (keyword, said) = (String::from_utf8_lossy(item.keyword()), words.join(" "));
            let said = quoted(said.as_bytes());
            Err(format!("{keyword} is {said}; it is written like 2022-11-19 10:00:00").into())
        }
    }
}

/// A time in UTC that [`time`] has checked [s since 1970].
fn seconds(time: &str) -> u64 {
    let time = humantime::parse_rfc3339_weak(time).expect("the reader has checked the time");
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn pairs<'a>(words: &[&'a str]) -> Result<BTreeMap<&'a str, i64>, LineError> {
    let mut pairs = BTreeMap::new();
    for word in words {
        let said = quoted(word.as_bytes());
        let (key, value) = document::pair(word).map_err(|why| match why {
            BadPair::NoPair => format!("{said} is not key=value"),
            BadPair::NoNumber => format!("{said} must end in a whole number of at most 18 digits"),
        })?;
        if pairs.insert(key, value).is_some() {
            return Err(format!("{} is there twice", quoted(key.as_bytes())).into());
        }
    }
    Ok(pairs)
}

fn digest(words: &[&str]) -> Result<[u8; 32], LineError> {
    let word = words.first().copied().unwrap_or_default();
    let wrong =
        |_| format!("{} is not a digest, which is 32 bytes in base64", quoted(word.as_bytes())).into();
    document::base64(word).map_err(wrong)
}

/// The value of `Bandwidth=` in a w line [kB/s].
fn weight(words: &[&str]) -> Result<u32, LineError> {
    let value = words.iter().find_map(|word| word.strip_prefix("Bandwidth="));
    let value = value.ok_or_else(|| "a w line without Bandwidth= and a number behind it".to_owned())?;
    let wrong =
        || format!("the weight {} is not a number from 0 to {}", quoted(value.as_bytes()), u32::MAX).into();
    value.parse().map_err(|_| wrong())
}

fn accepts(words: &[&str], port: u16) -> Result<bool, LineError> {
    let [rule @ ("accept" | "reject"), list] = words else {
        let said = quoted(words.join(" ").as_bytes());
        return Err(format!("the policy {said} is not accept or reject with ports").into());
    };
    let mut listed = false;
    for range in list.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let bounds = (low.parse::<u16>(), high.parse::<u16>());
        let (Ok(low), Ok(high)) = bounds else {
            return Err(format!("{} is neither a port nor a range of ports", quoted(range.as_bytes())).into());
        };
        if low == 0 || low > high {
            return Err(
                format!("{} is not a range of ports from 1 to 65535", quoted(range.as_bytes())).into()
            );
        }
        listed |= (low..=high).contains(&port);
    }
    Ok(listed == (*rule == "accept"))
}

fn scale(params: &BTreeMap<String, i64>) -> Result<u32, LineError> {
    let Some(scale) = params.get("bwweightscale") else { return Ok(PositionWeights::SCALE) };
    let fits = u32::try_from(*scale).ok().filter(|scale| (1..=i32::MAX as u32).contains(scale));
    let wrong = || format!("the parameter bwweightscale is {scale}, not from 1 to {}", i32::MAX).into();
    fits.ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
