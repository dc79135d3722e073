//! The relays of a simulation, imported from a consensus and server descriptors.
//!
//! Deviation: without a descriptor the capacity of a relay is unknown. The link rate is then equal to the consensus
//! weight [kB/s]. The weight of a measured relay is about its capacity (dir-spec section 3.4.1, the "w" line).

use crate::consensus::Consensus;
use crate::descriptors::{Descriptors, MOST};
use crate::error::Error;
use crate::relay::{Class, Position, Relay};

/// An imported relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The relay's nickname, which its operator chooses. It need not be unique.
    pub nickname: String,
    /// The class, which says whether Tor's clients use the relay as a guard and as an exit.
    pub class: Class,
    /// The consensus weight [B/s].
    pub weight: u64,
    /// The rate of the access link in each direction [B/s].
    pub link: u64,
    /// The rate [B/s] and burst [B] of the relay's token buckets; `None` for a relay without a server descriptor.
    pub bandwidth: Option<[u64; 2]>,
    /// The other relays of its family, as indices of the usable relays.
    pub family: Vec<u32>,
}

/// The usable relays of a consensus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The usable relays, in the order of the document.
    pub relays: Vec<Member>,
    /// The number of unusable relays. A usable relay is Fast, Running and Valid, and its weight and rate are not zero.
    pub unused: usize,
    /// The number of relays without a server descriptor, if there are some.
    pub undescribed: usize,
}

impl Imported {
    /// Combines a consensus with descriptors, which have [connected](Descriptors::connect) its families. The name of the
    /// consensus in error messages is `file`.
    pub fn new(
        consensus: &Consensus,
        descriptors: Option<&Descriptors>,
        file: &str,
    ) -> Result<Imported, Error> {
        let descriptors = descriptors.filter(|descriptors| descriptors.has_bandwidths());
        let mut imported = Imported::default();
        // For each relay of the consensus, its index among the usable ones.
        let mut places: Vec<Option<u32>> = Vec::with_capacity(consensus.relays.len());
        for (relay, line) in consensus.relays.iter().zip(&consensus.lines) {
            let weight = u64::from(relay.weight) * 1000;
            if weight > MOST {
                let message = format!(
                    "the weight {} of {} is too large; the maximum is {} kB/s",
                    relay.weight,
                    relay.name,
                    MOST / 1000
                );
                return Err(Error::in_line(file, *line, message));
            }
            let (fingerprint, nickname) = relay.identity();
            let descriptor = descriptors.and_then(|descriptors| descriptors.get(fingerprint));
            let rate = descriptor.map_or(weight, |descriptor| descriptor.rate);
            if !relay.may_be(Position::Middle) || weight == 0 || rate == 0 {
                imported.unused += 1;
                places.push(None);
                continue;
            }
            places.push(Some(imported.relays.len() as u32));
            imported.undescribed += usize::from(descriptors.is_some() && descriptor.is_none());
            let observed = descriptor.map_or(0, |descriptor| descriptor.observed);
            imported.relays.push(Member {
                nickname: nickname.to_owned(),
                class: class(relay),
                weight,
                link: if observed > 0 { observed } else { weight },
                bandwidth: descriptor.map(|found| [found.rate, found.burst.max(found.rate)]),
                family: relay.family.to_vec(),
            });
        }
        for member in &mut imported.relays {
            member.family = member.family.iter().filter_map(|other| places[*other as usize]).collect();
        }
        if imported.relays.is_empty() {
            return Err(Error::of(file, "no relay is Fast, Running and Valid and has a weight above 0"));
        }
        Ok(imported)
    }
}

/// The relay's class in path selection. A guard must be Stable. An exit must accept port 443 and be no bad exit.
fn class(relay: &Relay) -> Class {
    Class::of(relay.may_be(Position::Guard), relay.flags.exit && relay.may_be(Position::Exit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: &str = "Exit Fast Guard Running Stable Valid";

    fn consensus(relays: &[(&str, &str)]) -> String {
        let entries: String = relays
            .iter()
            .enumerate()
            .map(|(place, (flags, weight))| {
                let letter = char::from(b'A' + place as u8);
                let identity = format!("AAA{letter}{}A", "b".repeat(22));
                format!("r alpha {identity} 2030-01-01 00:00:00 10.{place}.0.1 9001 0\ns {flags}\nw Bandwidth={weight}\n")
            })
            .collect();
        format!(
            "network-status-version 3 microdesc\nvote-status consensus\nvalid-after 2030-01-01 00:00:00\n{entries}\
             directory-footer\ndirectory-signature sha256 0 0\n"
        )
    }

    fn imported(relays: &[(&str, &str)]) -> Result<Imported, Error> {
        Imported::new(&Consensus::parse(consensus(relays).as_bytes(), "doc").unwrap(), None, "doc")
    }

    fn descriptors(fingerprint: &str, bandwidth: &str) -> Descriptors {
        let mut descriptors = Descriptors::default();
        let text = format!(
            "router x 10.0.0.1 1 0 0\npublished 2030-01-01 00:00:00\nfingerprint {fingerprint}\nbandwidth {bandwidth}\nrouter-signature\n"
        );
        descriptors.read(text.as_bytes(), "descriptors").unwrap();
        descriptors
    }

    #[test]
    fn relays_that_no_client_selects_are_omitted() {
        let relays = [
            (ALL, "5"),
            ("Running Valid", "5"),
            (ALL, "0"),
            ("Fast Guard Running Valid", "7"),
            ("BadExit Exit Fast Running Valid", "9"),
        ];
        let found = imported(&relays).unwrap();
        let of = |class, weight| Member {
            nickname: "alpha".to_owned(),
            class,
            weight,
            link: weight,
            bandwidth: None,
            family: Vec::new(),
        };
        // An unstable guard does not count as a guard, and a bad exit does not count as an exit.
        assert_eq!(found.relays, [of(Class::Both, 5000), of(Class::Plain, 7000), of(Class::Plain, 9000)]);
        assert_eq!((found.unused, found.undescribed), (2, 0));
    }

    #[test]
    fn a_descriptor_sets_the_link_and_the_bandwidth_of_a_relay() {
        let text = consensus(&[(ALL, "5"), (ALL, "6")]);
        let consensus = Consensus::parse(text.as_bytes(), "doc").unwrap();
        let of = |bandwidth: &str| {
            let fingerprint = &consensus.relays[0].name[1..41];
            Imported::new(&consensus, Some(&descriptors(fingerprint, bandwidth)), "doc").unwrap()
        };
        let found = of("3000 1000 2500");
        assert_eq!((found.relays[0].link, found.relays[0].bandwidth), (2500, Some([3000, 3000])));
        assert_eq!((found.relays[1].link, found.relays[1].bandwidth), (6000, None));
        assert_eq!((found.unused, found.undescribed), (0, 1));
        assert_eq!(of("3000 9000 0").relays[0].link, 5000, "no observation yet");
        assert_eq!(of("0 0 0").unused, 1);
    }

    #[test]
    fn impossible_weights_and_empty_networks_are_rejected() {
        let error = |relays: &[(&str, &str)]| imported(relays).unwrap_err().to_string();
        assert!(error(&[(ALL, "1"), (ALL, "4294967295")]).starts_with("doc:7: the weight 4294967295 of $"));
        assert!(error(&[("Valid", "1")]).starts_with("doc: no relay is Fast, Running and Valid"));
    }

    proptest! {
        #[test]
        fn a_damaged_document_gives_relays_or_an_error(
            at in 0usize..2000, what in prop::collection::vec(any::<u8>(), 0..6), cut in 0usize..40,
        ) {
            let mut text = consensus(&[(ALL, "5"), ("Fast Running Valid", "70"), (ALL, "900")]).into_bytes();
            let from = at % text.len();
            let to = (from + cut).min(text.len());
            text.splice(from..to, what);
            let found = Consensus::parse(&text, "doc").and_then(|consensus| Imported::new(&consensus, None, "doc"));
            match found {
                Ok(imported) => prop_assert!(imported.relays.iter().all(|relay| relay.link > 0 && relay.weight <= MOST)),
                Err(error) => {
                    let error = error.to_string();
                    prop_assert!(error.starts_with("doc:") && !error.contains('\n'), "{}", error);
                }
            }
        }
    }
}
