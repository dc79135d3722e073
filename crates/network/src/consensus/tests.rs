//! Tests the reader with generated documents, both complete and damaged.

use super::*;
use crate::relay::{Class, Position};
use crate::select::Selector;
use penstock_units::Seed;
use proptest::prelude::*;

const WEIGHTS: &str = "bandwidth-weights Wbd=0 Wbe=0 Wbg=4194 Wbm=10000 Wdb=10000 Web=10000 Wed=10000 Wee=10000 Weg=10000 \
                       Wem=10000 Wgb=10000 Wgd=0 Wgg=5806 Wgm=5806 Wmb=10000 Wmd=0 Wme=0 Wmg=4194 Wmm=10000\n";

/// The nickname, the fourth letter of the identity, the address, the flags, the weight and the policy of each relay.
const RELAYS: [(&str, char, &str, &str, u32, &str); 5] = [
    ("alpha", 'A', "10.1.0.1", "Fast Guard Running Stable V2Dir Valid", 900, "reject 1-65535"),
    ("beta", 'B', "10.2.0.1", "Exit Fast Running Valid", 300, "accept 80,443"),
    ("gamma", 'C', "10.3.0.1", "Exit Fast Guard Running Stable Valid", 200, "reject 25,119,135-139,445"),
    ("delta", 'D', "10.4.0.1", "Fast Running Valid", 100, "accept 20-23,444-65535"),
    ("alpha", 'E', "10.5.0.1", "BadExit Exit Running Valid", 40, "accept 443"),
];

fn identity(letter: char) -> String {
    format!("AAA{letter}{}A", "b".repeat(22))
}

fn relay(
    flavor: &str,
    (nickname, letter, address, flags, weight, policy): (&str, char, &str, &str, u32, &str),
) -> String {
    let identity = identity(letter);
    let (digest, policy) = match flavor {
        "ns" => (format!(" {}", identity.to_lowercase()), format!("p {policy}\n")),
        _ => (String::new(), String::new()),
    };
    format!(
        "r {nickname} {identity}{digest} 2030-01-01 00:00:00 {address} 9001 0\nm {}\ns {flags}\nv Tor 0.4.9.1\n\
         pr Link=1-5\nw Bandwidth={weight} Unmeasured=1\n{policy}",
        "x".repeat(42) + "A"
    )
}

fn document(flavor: &str, weights: &str) -> String {
    let version = if flavor == "ns" { "3" } else { "3 microdesc" };
    let relays = RELAYS.map(|each| relay(flavor, each)).concat();
    format!(
        "@type network-status-consensus-3 1.0\nnetwork-status-version {version}\nvote-status consensus\n\
         consensus-method 33\nvalid-after 2030-01-01 00:00:00\nfresh-until 2030-01-01 01:00:00\nparams cc_alg=2 UseOptimisticData=1\n\
         dir-source somebody {0} 127.0.0.1 127.0.0.1 80 443\ncontact \u{fc}\nvote-digest {0}\n{relays}directory-footer\n\
         {weights}directory-signature {0} {0}\n-----BEGIN SIGNATURE-----\nr w s\n-----END SIGNATURE-----\n",
        "0".repeat(40)
    )
}

fn parsed(text: &str) -> Consensus {
    Consensus::parse(text.as_bytes(), "doc").unwrap()
}

fn error_of(text: impl AsRef<[u8]>) -> String {
    Consensus::parse(text.as_ref(), "doc").unwrap_err().to_string()
}

#[test]
fn both_flavors_have_the_same_relays() {
    for flavor in ["ns", "microdesc"] {
        let consensus = parsed(&document(flavor, WEIGHTS));
        assert_eq!(consensus.flavor, flavor);
        assert_eq!(consensus.valid_after, "2030-01-01 00:00:00");
        assert_eq!(consensus.params.get("cc_alg"), Some(&2));
        assert_eq!(consensus.origin, Origin::Document);
        assert_eq!(consensus.weights.share(Position::Guard, Class::Guard), 0.5806);
        let [alpha, beta, gamma, delta, epsilon] = &consensus.relays[..] else { panic!("five relays") };
        assert_eq!(alpha.weight, 900);
        assert_eq!(alpha.address, Some(Ipv4Addr::new(10, 1, 0, 1)));
        assert!(alpha.flags.guard && alpha.flags.stable && !alpha.flags.exit && !alpha.exits);
        assert!(beta.exits && gamma.exits && !delta.exits);
        assert!(epsilon.flags.bad_exit && !epsilon.flags.fast);
        let names: Vec<&str> = consensus.relays.iter().map(|relay| relay.name.as_str()).collect();
        assert!(names[0].ends_with("~alpha") && names[4].ends_with("~alpha") && names[0] != names[4]);
    }
}

#[test]
fn a_relay_name_has_the_identity_in_hexadecimal() {
    assert!(parsed(&document("ns", "")).relays[0].name.starts_with("$0000"));
}

#[test]
fn a_policy_accepts_listed_ports_or_ports_that_it_does_not_reject() {
    let accepts = |policy: &str| accepts(&policy.split(' ').collect::<Vec<_>>(), 443);
    for (policy, yes) in [
        ("accept 443", true),
        ("accept 80", false),
        ("accept 1-442,444-65535", false),
        ("accept 80,400-500", true),
        ("reject 1-65535", false),
        ("reject 25,445", true),
    ] {
        assert_eq!(accepts(policy), Ok(yes), "{policy}");
    }
    for policy in [
        "accept",
        "accept ",
        "accept 0",
        "accept 5-4",
        "accept 70000",
        "accept a",
        "deny 80",
        "accept 80 443",
    ] {
        assert!(accepts(policy).is_err(), "{policy}");
    }
}

#[test]
fn missing_weights_are_computed_as_authorities_do() {
    // G = 900, E = 300, D = 200, M = 100 + 40: exits are scarce.
    let consensus = parsed(&document("ns", ""));
    assert_eq!(consensus.origin, Origin::Computed);
    assert_eq!(consensus.weights, PositionWeights::computed(&consensus.relays, 10_000).unwrap());
    let alone = document("ns", "").replace("Exit Fast Guard", "Exit Fast");
    let consensus = parsed(&alone);
    assert_eq!((consensus.origin, consensus.weights), (Origin::Even, PositionWeights::even()));
}

#[test]
fn errors_are_one_sentence_with_their_line() {
    let whole = document("ns", WEIGHTS);
    let changed = |right: &str, wrong: &str| {
        assert!(whole.contains(right), "{right}");
        error_of(whole.replacen(right, wrong, 1))
    };
    let second = relay("ns", RELAYS[0]);
    for (sentence, expected) in [
        (error_of(""), "doc:1: it begins with \"\""),
        (
            error_of("<html>\n"),
            "doc:1: it begins with \"<html>\", and a consensus with network-status-version",
        ),
        (error_of(b"\xfd7zXZ\x00\x00\x04\xe6"), "doc:1: it begins with "),
        (error_of("@type x\n"), "doc:1: it is empty"),
        (error_of(whole.replace('\n', "\r\n")), "doc:2: the line ends in CR LF"),
        (changed("version 3\n", "version 4\n"), "doc:2: the version is \"4\""),
        (changed("vote-status consensus", "vote-status vote"), "doc:3: vote-status is \"vote\""),
        (
            changed("vote-status consensus\n", ""),
            "doc:45: the list of relays ends here, without a line \"vote-status consensus\" before them",
        ),
        (changed("valid-after 2030-01-01 00:00:00", "valid-after soon"), "doc:5: valid-after is \"soon\""),
        (
            changed("valid-after 2030-01-01 00:00:00\n", ""),
            "doc:45: the list of relays ends here, without a line valid-after before them",
        ),
        (changed("cc_alg=2", "cc_alg"), "doc:7: \"cc_alg\" is not key=value"),
        (
            changed("cc_alg=2", "cc_alg=two"),
            "doc:7: \"cc_alg=two\" must end in a whole number of at most 18 digits",
        ),
        (changed("cc_alg=2", "UseOptimisticData=2"), "doc:7: \"UseOptimisticData\" is there twice"),
        (changed("cc_alg=2", "bwweightscale=0"), "doc:7: the parameter bwweightscale is 0"),
        (
            changed(" 10.1.0.1 9001 0", ""),
            "doc:11: an r line of 6 words is cut short; it has 9 in this consensus",
        ),
        (changed("10.1.0.1", "10.1.0"), "doc:11: \"10.1.0\" is not an IPv4 address"),
        (changed("r alpha", "r al\u{e9}"), "doc:11: \"al\u{e9}\" is not a nickname"),
        (changed(&identity('A'), "AAAA"), "doc:11: \"AAAA\" is not an identity"),
        (changed(&identity('B'), &identity('A')), "doc:18: relay $0000"),
        (changed("r beta", &format!("{second}r beta")), "doc:18: relay $0000"),
        (changed("s Fast Guard Running Stable V2Dir Valid\n", ""), "doc:17: relay $0000"),
        (changed("w Bandwidth=900 Unmeasured=1\n", ""), "doc:17: relay $0000"),
        (
            changed("w Bandwidth=900", "w Unmeasured=1"),
            "doc:16: a w line without Bandwidth= and a number behind it",
        ),
        (changed("=900", "=-1"), "doc:16: the weight \"-1\" is not a number from 0 to 4294967295"),
        (
            changed("=900", "=99999999999999999999"),
            "doc:16: the weight \"99999999999999999999\" is not a number",
        ),
        (changed("w Bandwidth=900", "w Bandwidth=1\nw Bandwidth=900"), "doc:17: there is a second w line"),
        (changed("accept 80,443", "accept 80,"), "doc:24: \"\" is neither a port"),
        (changed("r alpha", "s Fast\nr alpha"), "doc:11: a line \"s\" belongs to a relay"),
        (changed("Wgd=0 ", ""), "doc:47: Wgd is missing"),
        (changed("Wgd=0", "Wgd=10001"), "doc:47: Wgd=10001 is not from 0 to 10000"),
        (changed("directory-footer\n", ""), "doc:46: bandwidth-weights stands before directory-footer"),
        (changed("r alpha", "network-status-version 3\nr alpha"), "doc:11: a second document begins here"),
        (error_of(&whole[..whole.find("directory-footer").unwrap()]), "doc:45: it is cut short"),
        (error_of(&whole[..whole.find("directory-signature").unwrap()]), "doc:47: it is cut short"),
        (
            error_of(
                whole
                    .as_bytes()
                    .iter()
                    .map(|byte| if *byte == b'F' { 0xff } else { *byte })
                    .collect::<Vec<_>>(),
            ),
            "doc:13: the line is not text",
        ),
    ] {
        assert!(sentence.contains(expected), "{sentence}\ninstead of {expected}");
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
    }
}

#[test]
fn the_period_of_a_consensus_is_in_its_first_lines() {
    let whole = document("ns", WEIGHTS);
    let head = &whole[..whole.find("r beta").unwrap()];
    for text in [&whole, head] {
        assert_eq!(Consensus::period(text.as_bytes(), "doc"), Ok(1_893_456_000..1_893_459_600));
    }
    let error = |from: &str, to: &str| {
        assert!(head.contains(from), "{from}");
        Consensus::period(head.replacen(from, to, 1).as_bytes(), "doc").unwrap_err().to_string()
    };
    for (from, to, sentence) in [
        ("fresh-until 2030-01-01 01:00:00\n", "", "doc: it has no line fresh-until before its relays"),
        ("valid-after 2030-01-01 00:00:00\n", "", "doc: it has no line valid-after before its relays"),
        ("01:00:00", "00:00:00", "doc: its fresh-until is not after its valid-after"),
        (
            "fresh-until 2030-01-01",
            "fresh-until 2030-01-09",
            "doc: its fresh-until is more than a week after",
        ),
        ("01:00:00", "1:00", "doc:6: fresh-until is \"2030-01-01 1:00\""),
        (
            "@type network-status-consensus-3 1.0\nnetwork-status-version",
            "router",
            "doc:1: it begins with \"router 3\"",
        ),
    ] {
        let error = error(from, to);
        assert!(error.starts_with(sentence), "{error}");
    }
    assert!(Consensus::period(b"", "doc").unwrap_err().to_string().starts_with("doc:1: it begins with \"\""));
}

#[test]
fn a_document_without_relays_is_rejected() {
    let whole = document("ns", "");
    let [from, to] = ["r alpha", "directory-footer"].map(|word| whole.find(word).unwrap());
    assert_eq!(
        error_of(format!("{}{}", &whole[..from], &whole[to..])),
        "doc:11: the list of relays ends here, without one of them"
    );
}

/// A way to damage a document.
#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Set(usize, u8),
    Drop(usize, usize),
    Repeat(usize, usize),
    Insert(usize, String),
}

impl Damage {
    fn apply(&self, text: &mut Vec<u8>) {
        let place = |at: &usize| at % (text.len() + 1);
        match self {
            Damage::Cut(at) => text.truncate(place(at)),
            Damage::Set(at, byte) => {
                let at = place(at);
                if at < text.len() {
                    text[at] = *byte;
                }
            }
            Damage::Drop(at, count) => {
                let at = place(at);
                text.drain(at..(at + count).min(text.len()));
            }
            Damage::Repeat(at, count) => {
                let at = place(at);
                let end = (at + count).min(text.len());
                text.extend_from_within(at..end);
                text[at..].rotate_right(end - at);
            }
            Damage::Insert(at, what) => {
                let at = place(at);
                text.splice(at..at, what.bytes());
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let (at, count) = (0..5000usize, 0..400usize);
    prop_oneof![
        at.clone().prop_map(Damage::Cut),
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at.clone(), count.clone()).prop_map(|(at, count)| Damage::Drop(at, count)),
        (at.clone(), count).prop_map(|(at, count)| Damage::Repeat(at, count)),
        (at, r"(\n)?(r|s|w|p|params|bandwidth-weights|=|-|99999999999| |\r)(\n)?")
            .prop_map(|(at, what)| Damage::Insert(at, what)),
    ]
}

proptest! {
    /// A damaged document is parsed or rejected with one sentence. Paths can be sampled from a
    /// parsed document.
    #[test]
    fn a_damaged_document_is_parsed_or_rejected(
        flavor in prop_oneof![Just("ns"), Just("microdesc")],
        weights in prop_oneof![Just(WEIGHTS), Just("")],
        damages in prop::collection::vec(damage(), 1..6),
    ) {
        let mut text = document(flavor, weights).into_bytes();
        damages.iter().for_each(|damage| damage.apply(&mut text));
        match Consensus::parse(&text, "doc") {
            Ok(consensus) => {
                let names: usize = consensus.relays.iter().map(|relay| relay.name.len()).sum();
                prop_assert!(names <= 4 * text.len());
                prop_assert!(consensus.relays.iter().all(|relay| relay.name.len() <= 61));
                if let Ok(selector) = Selector::new(&consensus.relays, &consensus.weights, "doc") {
                    let mut rng = Seed(1).stream("paths");
                    for _ in 0..20 {
                        if let Some([guard, middle, exit]) = selector.draw(&mut rng, &[]) {
                            prop_assert!(guard != middle && middle != exit && guard != exit);
                        }
                    }
                }
            }
            Err(error) => {
                let sentence = error.to_string();
                prop_assert_eq!(sentence.lines().count(), 1);
                prop_assert!(sentence.starts_with("doc") && sentence.len() < 300, "{}", sentence);
            }
        }
    }
}
