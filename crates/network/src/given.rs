//! Relays as a simulation needs them, of documents that somebody has.
//!
//! Deviation: without a descriptor nothing says what a relay can carry; its link is then its consensus weight, which for
//! measured relays is about that (dir-spec section 3.4.1, the "w" line, in kilobytes a second).

use crate::consensus::Consensus;
use crate::descriptors::{Descriptors, MOST};
use crate::error::Error;
use crate::relay::{Class, Position, Relay};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What its operator called it; others may be called so, too.
    pub nickname: String,
    /// Whether it may be a guard, and an exit, for Tor's clients.
    pub class: Class,
    /// Consensus weight [B/s].
    pub weight: u64,
    /// Its access link, each direction [B/s].
    pub link: u64,
    /// Rate [B/s] and burst [B] of its buckets, if that is known.
    pub bandwidth: Option<[u64; 2]>,
}

/// The relays of a consensus that carry something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// In the order of the document.
    pub relays: Vec<Member>,
    /// So many were left out, since clients never draw them: not Fast, Running and Valid, or of no weight or rate.
    pub unused: usize,
    /// So many have no descriptor among those that were given.
    pub undescribed: usize,
}

impl Given {
    /// Those of a consensus, with what descriptors say of them; `file` is what errors call the consensus.
    pub fn new(consensus: &Consensus, descriptors: Option<&Descriptors>, file: &str) -> Result<Given, Error> {
        let (mut given, mut is_described) = (Given::default(), false);
        for (relay, line) in consensus.relays.iter().zip(&consensus.lines) {
            let weight = u64::from(relay.weight) * 1000;
            if weight > MOST {
                let message = format!(
                    "the weight {} of {} is absurd; it is at most {} kB/s",
                    relay.weight,
                    relay.name,
                    MOST / 1000
                );
                return Err(Error::in_line(file, *line, message));
            }
            let (fingerprint, nickname) =
                relay.name[1..].split_once('~').expect("a consensus names relays so");
            let says = descriptors.and_then(|descriptors| descriptors.get(fingerprint));
            is_described |= says.is_some();
            let rate = says.map_or(weight, |says| says.rate);
            if !relay.may_be(Position::Middle) || weight == 0 || rate == 0 {
                given.unused += 1;
                continue;
            }
            given.undescribed += usize::from(descriptors.is_some() && says.is_none());
            let observed = says.map_or(0, |says| says.observed);
            given.relays.push(Member {
                nickname: nickname.to_owned(),
                class: class(relay),
                weight,
                link: if observed > 0 { observed } else { weight },
                bandwidth: says.map(|says| [says.rate, says.burst.max(says.rate)]),
            });
        }
        if descriptors.is_some() && !is_described {
            return Err(Error::of(
                file,
                "none of its relays has one of the descriptors; they must be of the same days",
            ));
        }
        if given.relays.is_empty() {
            return Err(Error::of(file, "no relay is Fast, Running and Valid and has a weight above 0"));
        }
        Ok(given)
    }
}

/// Its class as paths use it: a guard must be stable, an exit must let connections out.
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

    fn given(relays: &[(&str, &str)]) -> Result<Given, Error> {
        Given::new(&Consensus::parse(consensus(relays).as_bytes(), "doc").unwrap(), None, "doc")
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
    fn relays_that_no_client_draws_are_left_out() {
        let relays = [
            (ALL, "5"),
            ("Running Valid", "5"),
            (ALL, "0"),
            ("Fast Guard Running Valid", "7"),
            ("BadExit Exit Fast Running Valid", "9"),
        ];
        let found = given(&relays).unwrap();
        let of = |class, weight| Member {
            nickname: "alpha".to_owned(),
            class,
            weight,
            link: weight,
            bandwidth: None,
        };
        // A guard that is not stable is none, and a bad exit neither.
        assert_eq!(found.relays, [of(Class::Both, 5000), of(Class::Plain, 7000), of(Class::Plain, 9000)]);
        assert_eq!((found.unused, found.undescribed), (2, 0));
    }

    #[test]
    fn a_descriptor_sets_a_relay_s_link_and_bandwidth() {
        let text = consensus(&[(ALL, "5"), (ALL, "6")]);
        let consensus = Consensus::parse(text.as_bytes(), "doc").unwrap();
        let of = |bandwidth: &str| {
            let fingerprint = &consensus.relays[0].name[1..41];
            Given::new(&consensus, Some(&descriptors(fingerprint, bandwidth)), "doc").unwrap()
        };
        let found = of("3000 1000 2500");
        assert_eq!((found.relays[0].link, found.relays[0].bandwidth), (2500, Some([3000, 3000])));
        assert_eq!((found.relays[1].link, found.relays[1].bandwidth), (6000, None));
        assert_eq!((found.unused, found.undescribed), (0, 1));
        assert_eq!(of("3000 9000 0").relays[0].link, 5000, "nothing was observed yet");
        assert_eq!(of("0 0 0").unused, 1);
        let strangers =
            Given::new(&consensus, Some(&descriptors(&"E".repeat(40), "1 1 1")), "doc").unwrap_err();
        assert!(strangers.to_string().starts_with("doc: none of its relays has one of the descriptors"));
    }

    #[test]
    fn impossible_weights_and_empty_networks_are_refused() {
        let said = |relays: &[(&str, &str)]| given(relays).unwrap_err().to_string();
        assert!(said(&[(ALL, "1"), (ALL, "4294967295")]).starts_with("doc:7: the weight 4294967295 of $"));
        assert!(said(&[("Valid", "1")]).starts_with("doc: no relay is Fast, Running and Valid"));
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
            let found = Consensus::parse(&text, "doc").and_then(|consensus| Given::new(&consensus, None, "doc"));
            match found {
                Ok(given) => prop_assert!(given.relays.iter().all(|relay| relay.link > 0 && relay.weight <= MOST)),
                Err(error) => {
                    let said = error.to_string();
                    prop_assert!(said.starts_with("doc:") && !said.contains('\n'), "{}", said);
                }
            }
        }
    }
}
