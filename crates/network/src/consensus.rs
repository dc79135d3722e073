//! Consensus documents of the directory authorities, plain and with microdescriptors: relays, parameters, position weights.
//!
//! Source: dir-spec section 3.4.1 and 3.9 (microdesc flavour). Lines that path selection does not need are skipped,
//! signatures are not checked.
//!
//! The reader keeps relays and parameters and no more, so that it takes no more memory than a few times the document.

use crate::error::{Error, quoted};
use crate::relay::{Flags, Relay};
use crate::weights::PositionWeights;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// What a consensus says.
#[derive(Clone, Debug, PartialEq)]
pub struct Consensus {
    /// `ns`, or `microdesc`.
    pub flavor: String,
    /// UTC, `2022-11-19 10:00:00`.
    pub valid_after: String,
    /// By name.
    pub params: BTreeMap<String, i64>,
    /// In the order of the document.
    pub relays: Vec<Relay>,
    /// The line in which each of them begins.
    pub lines: Vec<u32>,
    /// How relays count at each position.
    pub weights: PositionWeights,
    /// Where those weights are from.
    pub origin: Origin,
}

/// Where position weights are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The document.
    Document,
    /// Computed as authorities do, since the document has none.
    Computed,
    /// All classes count alike, since none can be computed.
    Even,
}

impl Consensus {
    /// Read a document; `file` is what errors call it.
    pub fn parse(text: &[u8], file: &str) -> Result<Self, Error> {
        let mut reader = Reader::new(file);
        for (number, line) in lines(text) {
            reader.number = number;
            reader.line(line).map_err(|message| Error::in_line(file, number, message))?;
        }
        reader.finish()
    }
}

/// The lines of a document with their numbers; what ends in a line end has none after it.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    (1u32..).zip(text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n'))
}

/// What is wrong with a line.
pub(crate) type Mistake = String;

/// How far a document has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Nothing yet.
    Start,
    /// Before the first relay.
    Header,
    Relays,
    Footer,
    /// Nothing matters any more.
    Signatures,
}

/// A relay whose lines are being read.
struct Entry {
    line: u32,
    name: String,
    address: Ipv4Addr,
    flags: Option<Flags>,
    weight: Option<u32>,
    /// Whether its policy accepts port 443; `None` if the document does not say.
    policy: Option<bool>,
}

struct Reader<'a> {
    file: &'a str,
    number: u32,
    /// In which line the relays are over.
    footer: u32,
    /// What a weight of one is.
    scale: u32,
    part: Part,
    flavor: String,
    is_consensus: bool,
    valid_after: Option<String>,
    params: Option<BTreeMap<String, i64>>,
    entry: Option<Entry>,
    relays: Vec<Relay>,
    lines: Vec<u32>,
    /// Line of each relay, by its identity.
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
            params: None,
            entry: None,
            relays: Vec::new(),
            lines: Vec::new(),
            seen: BTreeMap::new(),
            weights: None,
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Mistake> {
        if self.part == Part::Signatures || (self.part == Part::Start && line.starts_with(b"@")) {
            // Archives put "@type ..." before a document.
            return Ok(());
        }
        if line.ends_with(b"\r") {
            return Err("the line ends in CR LF; lines of a consensus end in LF alone".to_owned());
        }
        let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let keyword = &line[..end];
        if self.part == Part::Start {
            if keyword != b"network-status-version" {
                let begins = quoted(line);
                return Err(format!("it begins with {begins}, and a consensus with network-status-version"));
            }
            self.part = Part::Header;
            self.flavor = flavor(words(line)?)?;
            return Ok(());
        }
        match keyword {
            b"network-status-version" => return Err("a second document begins here".to_owned()),
            b"vote-status" => self.vote_status(&words(line)?)?,
            b"valid-after" => {
                let time = time("valid-after", &words(line)?)?;
                once(&mut self.valid_after, time, "valid-after")?;
            }
            b"params" => {
                let params: BTreeMap<_, _> =
                    pairs(&words(line)?)?.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                self.scale = scale(&params)?;
                once(&mut self.params, params, "params")?;
            }
            b"r" => self.begin_relay(&words(line)?)?,
            b"s" => {
                let flags = flags(&words(line)?);
                once(&mut self.entry("s")?.flags, flags, "s")?;
            }
            b"w" => {
                let weight = weight(&words(line)?)?;
                once(&mut self.entry("w")?.weight, weight, "w")?;
            }
            b"p" => {
                let policy = accepts(&words(line)?, 443)?;
                once(&mut self.entry("p")?.policy, policy, "p")?;
            }
            b"directory-footer" => {
                self.end_relay()?;
                (self.part, self.footer) = (Part::Footer, self.number);
            }
            b"bandwidth-weights" => {
                if self.part != Part::Footer {
                    return Err("bandwidth-weights stands before directory-footer".to_owned());
                }
                let values = pairs(&words(line)?)?;
                let weights = PositionWeights::of(&values, self.scale).map_err(|error| error.to_string())?;
                once(&mut self.weights, weights, "bandwidth-weights")?;
            }
            b"directory-signature" => {
                if self.part != Part::Footer {
                    return Err("a signature stands before directory-footer".to_owned());
                }
                self.part = Part::Signatures;
            }
            _ => {}
        }
        Ok(())
    }

    fn vote_status(&mut self, words: &[&str]) -> Result<(), Mistake> {
        match words {
            ["consensus"] => self.is_consensus = true,
            _ => return Err(format!("vote-status is {}, not consensus", quoted(words.join(" ").as_bytes()))),
        }
        Ok(())
    }

    fn begin_relay(&mut self, words: &[&str]) -> Result<(), Mistake> {
        if self.part > Part::Relays {
            return Err("a relay stands after directory-footer".to_owned());
        }
        self.end_relay()?;
        self.part = Part::Relays;
        // The microdesc flavour has no digest of a descriptor.
        let (nickname, identity, address) = match (words, self.flavor.as_str()) {
            ([nickname, identity, _, _, _, address, _, _, ..], "ns") => (nickname, identity, address),
            ([nickname, identity, _, _, address, _, _, ..], "microdesc") => (nickname, identity, address),
            (_, flavor) => {
                let (count, least) = (words.len() + 1, if flavor == "ns" { 9 } else { 8 });
                return Err(format!(
                    "an r line of {count} words is cut short; it has {least} in this consensus"
                ));
            }
        };
        if !(1..=19).contains(&nickname.len()) || !nickname.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let nickname = quoted(nickname.as_bytes());
            return Err(format!("{nickname} is no nickname: one has 1 to 19 letters and digits"));
        }
        let id = fingerprint(identity).ok_or_else(|| {
            format!(
                "{} is no identity: one is 20 bytes in base64, 27 characters",
                quoted(identity.as_bytes())
            )
        })?;
        let parsed = address.parse();
        let address = parsed.map_err(|_| format!("{} is no IPv4 address", quoted(address.as_bytes())));
        let entry = Entry {
            line: self.number,
            name: format!("${}~{nickname}", id.map(|byte| format!("{byte:02X}")).concat()),
            address: address?,
            flags: None,
            weight: None,
            policy: None,
        };
        if let Some(line) = self.seen.insert(id, self.number) {
            return Err(format!("relay {} is in line {line} already", entry.name));
        }
        self.entry = Some(entry);
        Ok(())
    }

    /// The relay that a line is about.
    fn entry(&mut self, keyword: &str) -> Result<&mut Entry, Mistake> {
        self.entry
            .as_mut()
            .ok_or_else(|| format!("a line {keyword:?} belongs to a relay, and none has begun here"))
    }

    fn end_relay(&mut self) -> Result<(), Mistake> {
        let Some(Entry { line, name, address, flags, weight, policy }) = self.entry.take() else {
            return Ok(());
        };
        let lacks = |what: &str| format!("relay {name} of line {line} ends here without {what}");
        let flags = flags.ok_or_else(|| lacks("its flags, an s line"))?;
        let weight = weight.ok_or_else(|| lacks("its weight, a w line"))?;
        let exits = policy.unwrap_or(flags.exit);
        self.lines.push(line);
        self.relays.push(Relay { name, weight, flags, address: Some(address), family: Vec::new(), exits });
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
            Err(Error::in_line(file, self.footer, format!("the relays are over here, without {what}")))
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
        let (flavor, relays, lines) = (self.flavor, self.relays, self.lines);
        Ok(Consensus { flavor, valid_after, params, relays, lines, weights, origin })
    }
}

/// What follows the keyword.
pub(crate) fn words(line: &[u8]) -> Result<Vec<&str>, Mistake> {
    let text = str::from_utf8(line).map_err(|_| "the line is no text in UTF-8".to_owned())?;
    Ok(text.split(' ').skip(1).filter(|word| !word.is_empty()).collect())
}

pub(crate) fn once<T>(place: &mut Option<T>, value: T, keyword: &str) -> Result<(), Mistake> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("there is a second {keyword} line")),
    }
}

fn flavor(words: Vec<&str>) -> Result<String, Mistake> {
    match words[..] {
        ["3"] | ["3", "ns"] => Ok("ns".to_owned()),
        ["3", "microdesc"] => Ok("microdesc".to_owned()),
        _ => {
            Err(format!("the version is {}; known are 3 and 3 microdesc", quoted(words.join(" ").as_bytes())))
        }
    }
}

/// A line of this keyword, as it is in every document of Tor.
pub(crate) fn time(keyword: &str, words: &[&str]) -> Result<String, Mistake> {
    let text = words.join(" ");
    let like = b"0000-00-00 00:00:00";
    let fits = |(byte, like): (u8, &u8)| if *like == b'0' { byte.is_ascii_digit() } else { byte == *like };
    if text.len() == like.len() && text.bytes().zip(like).all(fits) {
        return Ok(text);
    }
    Err(format!("{keyword} is {}; it is written like 2022-11-19 10:00:00", quoted(text.as_bytes())))
}

/// Keys with whole numbers, each key once.
fn pairs<'a>(words: &[&'a str]) -> Result<BTreeMap<&'a str, i64>, Mistake> {
    let mut pairs = BTreeMap::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("{} is no key=value", quoted(word.as_bytes())));
        };
        let value = value.parse().map_err(|_| {
            format!("{} must end in a whole number of at most 18 digits", quoted(word.as_bytes()))
        })?;
        if pairs.insert(key, value).is_some() {
            return Err(format!("{} is there twice", quoted(key.as_bytes())));
        }
    }
    Ok(pairs)
}

fn flags(words: &[&str]) -> Flags {
    let has = |flag| words.contains(&flag);
    Flags {
        guard: has("Guard"),
        exit: has("Exit"),
        bad_exit: has("BadExit"),
        fast: has("Fast"),
        stable: has("Stable"),
        running: has("Running"),
        valid: has("Valid"),
    }
}

/// `Bandwidth=` of a w line [kB/s]; what else is in it does not count.
fn weight(words: &[&str]) -> Result<u32, Mistake> {
    let value = words.iter().find_map(|word| word.strip_prefix("Bandwidth="));
    let value = value.ok_or_else(|| "a w line without Bandwidth= and a number behind it".to_owned())?;
    value
        .parse()
        .map_err(|_| format!("the weight {} is no number from 0 to {}", quoted(value.as_bytes()), u32::MAX))
}

/// Whether a policy summary lets connections to `port` out.
fn accepts(words: &[&str], port: u16) -> Result<bool, Mistake> {
    let [rule @ ("accept" | "reject"), list] = words else {
        return Err(format!(
            "the policy {} is no accept or reject with ports",
            quoted(words.join(" ").as_bytes())
        ));
    };
    let mut listed = false;
    for range in list.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let bounds = (low.parse::<u16>(), high.parse::<u16>());
        let (Ok(low), Ok(high)) = bounds else {
            return Err(format!("{} is no port and no range of ports", quoted(range.as_bytes())));
        };
        if low == 0 || low > high {
            return Err(format!("{} is no range of ports from 1 to 65535", quoted(range.as_bytes())));
        }
        listed |= (low..=high).contains(&port);
    }
    Ok(listed == (*rule == "accept"))
}

/// What a weight of one is.
fn scale(params: &BTreeMap<String, i64>) -> Result<u32, Mistake> {
    let Some(scale) = params.get("bwweightscale") else { return Ok(PositionWeights::SCALE) };
    let fits = u32::try_from(*scale).ok().filter(|scale| (1..=i32::MAX as u32).contains(scale));
    fits.ok_or_else(|| format!("the parameter bwweightscale is {scale}, not from 1 to {}", i32::MAX))
}

/// 20 bytes in base64 without padding: 27 characters.
fn fingerprint(text: &str) -> Option<[u8; 20]> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if text.len() != 27 {
        return None;
    }
    let mut bits: u32 = 0;
    let mut bytes = [0; 20];
    let mut filled = 0;
    for (place, letter) in text.bytes().enumerate() {
        bits = bits << 6 | ALPHABET.iter().position(|each| *each == letter)? as u32;
        // 6, 12, 18, ... bits are there; all but the first letter of four complete a byte.
        if place % 4 != 0 {
            let left = 6 - 2 * (place % 4);
            bytes[filled] = (bits >> left) as u8;
            filled += 1;
        }
    }
    // What is left over is zero, so that one identity has one name.
    (bits & 0b11 == 0).then_some(bytes)
}

#[cfg(test)]
mod tests;
