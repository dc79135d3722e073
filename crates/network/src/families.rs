//! Families: relays of one operator, which clients never use on one circuit.
//!
//! Two relays are of one family if each of them declares the other, or if both have certificates of one family key.
//!
//! Source: path-spec "Determining family membership"; dir-spec section 2.1.1 ("family", "family-cert") and 3.3
//! ("family-ids"); C tor `nodes_in_same_family()`, `nodefamily_from_members()`; proposal 321; cert-spec section 2.
//! Deviation: signatures and expiry times of family certificates are not checked.
//! Deviation: larger families than [`MAX_FAMILY`] and more than [`MAX_IDS`] family keys are errors. C tor limits only
//! the size of a descriptor.

use crate::document::{hex, to_base64};
use crate::relay::{MAX_FAMILY, Relay};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of family keys of a relay [1]. A server descriptor has at most 20,000 B (C tor
/// `MAX_DESCRIPTOR_UPLOAD_SIZE`), and a certificate needs about 250 B of it.
pub(crate) const MAX_IDS: usize = 80;

/// The type of a certificate with which a family key signs the identity of a relay.
const FAMILY_V_IDENTITY: u8 = 0x0c;
/// The type of the extension with the key that signed the certificate.
const SIGNED_WITH: u8 = 0x04;

/// The family that one relay declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// The identities of the relays that the relay names.
    identities: BTreeSet<[u8; 20]>,
    /// The nicknames that the relay names, in lower case.
    nicknames: BTreeSet<String>,
    /// The families that certify the relay, such as `ed25519:` and a key in base64.
    ids: BTreeSet<String>,
}

impl Declaration {
    /// Reads the words of a `family` line: `$FINGERPRINT`, `$FINGERPRINT=nickname`, `$FINGERPRINT~nickname` or a
    /// nickname. Other words are ignored, as in C tor. The nickname after a fingerprint has no effect.
    ///
    /// Fails if the relay names too many relays.
    pub(crate) fn name(&mut self, words: &[&str]) -> Result<(), String> {
        for word in words {
            let is_nickname = |text: &str| {
                (1..=19).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
            };
            let digits = word.strip_prefix('$').unwrap_or(word);
            if is_nickname(word) {
                self.nicknames.insert(word.to_ascii_lowercase());
            } else if let Some((digits, rest)) = digits.split_at_checked(40)
                && let Ok(identity) = hex(digits)
                && (rest.is_empty() || rest.strip_prefix(['=', '~']).is_some_and(is_nickname))
            {
                self.identities.insert(identity);
            }
            if self.identities.len() + self.nicknames.len() > MAX_FAMILY {
                return Err(format!(
                    "the relay names too many relays as its family; at most {MAX_FAMILY} are allowed"
                ));
            }
        }
        Ok(())
    }

    /// Reads the words of a `family-ids` line. Fails if the relay has too many of them.
    pub(crate) fn certify(&mut self, ids: &[&str]) -> Result<(), String> {
        for id in ids {
            if !self.ids.contains(*id) {
                self.ids.insert((*id).to_owned());
            }
            if self.ids.len() > MAX_IDS {
                return Err(format!("the relay has too many family keys; at most {MAX_IDS} are allowed"));
            }
        }
        Ok(())
    }
}

/// A certificate of a family key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The Ed25519 identity of the certified relay.
    pub(crate) relay: [u8; 32],
    /// The family, as a word of a `family-ids` line.
    pub(crate) id: String,
}

impl Certificate {
    /// Reads a certificate. `None` if it is malformed.
    pub(crate) fn read(certificate: &[u8]) -> Option<Self> {
        // The version, the type, the expiry time, the type of the certified key, this key, and the number of extensions.
        let (head, mut rest) = certificate.split_at_checked(40)?;
        if head[..2] != [1, FAMILY_V_IDENTITY] {
            return None;
        }
        for _ in 0..head[39] {
            let [high, low, kind, _, after @ ..] = rest else { return None };
            let (data, next) = after.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
            if *kind == SIGNED_WITH && data.len() == 32 {
                let id = format!("ed25519:{}", to_base64(data));
                return Some(Certificate { relay: head[7..39].try_into().ok()?, id });
            }
            rest = next;
        }
        None
    }
}

/// How clients recognise families.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Two relays that name each other are of one family (parameter `use-family-lists`).
    pub(crate) lists: bool,
    /// Two relays with a common family key are of one family (parameter `use-family-ids`).
    pub(crate) ids: bool,
}

impl Rules {
    /// The rules of a consensus with these parameters. Source: param-spec, "Family-related parameters".
    pub(crate) fn of(params: &BTreeMap<String, i64>) -> Self {
        let is_on = |name: &str| params.get(name).is_none_or(|value| *value > 0);
        Rules { lists: is_on("use-family-lists"), ids: is_on("use-family-ids") }
    }
}

/// The relays that one relay names.
#[derive(Default)]
struct Named {
    /// The relays that it names by their fingerprints, as indices in increasing order.
    relays: Vec<u32>,
    /// The nicknames, as numbers in increasing order. A number stands for all relays with the nickname, so the memory of
    /// the numbers does not grow with the number of these relays.
    nicknames: Vec<u32>,
}

/// Sets the families of all relays of a consensus. `declared` has the declaration of each relay. If a family is larger
/// than [`MAX_FAMILY`], returns the index of one of its relays.
pub(crate) fn connect(
    relays: &mut [Relay],
    declared: &[Option<&Declaration>],
    rules: Rules,
) -> Result<(), usize> {
    let mut by_identity: BTreeMap<[u8; 20], u32> = BTreeMap::new();
    // The relays of each nickname, the number of each nickname, and the number of the nickname of each relay.
    let mut nicknamed: Vec<Vec<u32>> = Vec::new();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut nicknames: Vec<u32> = Vec::with_capacity(relays.len());
    for (place, relay) in (0u32..).zip(relays.iter()) {
        let (identity, nickname) = relay.identity();
        by_identity.extend(hex(identity).map(|identity| (identity, place)));
        let number = *numbers.entry(nickname.to_ascii_lowercase()).or_insert(nicknamed.len() as u32);
        nicknamed.resize(nicknamed.len().max(number as usize + 1), Vec::new());
        nicknamed[number as usize].push(place);
        nicknames.push(number);
    }
    let none = Declaration::default();
    let mut by_id: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut named: Vec<Named> = Vec::with_capacity(relays.len());
    for (place, declaration) in (0u32..).zip(declared) {
        let declaration = declaration.unwrap_or(&none);
        declaration.ids.iter().for_each(|id| by_id.entry(id).or_default().push(place));
        let mut relays: Vec<u32> =
            declaration.identities.iter().filter_map(|identity| by_identity.get(identity).copied()).collect();
        let mut nicknames: Vec<u32> =
            declaration.nicknames.iter().filter_map(|nickname| numbers.get(nickname).copied()).collect();
        relays.sort_unstable();
        nicknames.sort_unstable();
        named.push(Named { relays, nicknames });
    }
    let names = |one: u32, other: u32| {
        let Named { relays, nicknames: named } = &named[one as usize];
        relays.binary_search(&other).is_ok() || named.binary_search(&nicknames[other as usize]).is_ok()
    };
    // For each relay, the last relay in whose family it is.
    let mut last: Vec<Option<u32>> = vec![None; relays.len()];
    for (place, (relay, declaration)) in (0u32..).zip(relays.iter_mut().zip(declared)) {
        let Named { relays: by_fingerprint, nicknames: by_nickname } = &named[place as usize];
        let listed = by_fingerprint
            .iter()
            .chain(by_nickname.iter().flat_map(|number| &nicknamed[*number as usize]))
            .filter(|other| rules.lists && names(**other, place));
        let certified = declaration
            .iter()
            .flat_map(|own| &own.ids)
            .filter(|_| rules.ids)
            .flat_map(|id| by_id.get(&id[..]).into_iter().flatten());
        let mut family = Vec::new();
        for other in listed.chain(certified).copied().filter(|other| *other != place) {
            if last[other as usize].replace(place) != Some(place) {
                if family.len() == MAX_FAMILY {
                    return Err(place as usize);
                }
                family.push(other);
            }
        }
        family.sort_unstable();
        relay.family = family.into();
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::document::to_hex;
    use crate::relay::Flags;
    use std::sync::Arc;

    const ALL: Rules = Rules { lists: true, ids: true };

    fn relays(nicknames: &[&str]) -> Vec<Relay> {
        let relay = |(place, nickname): (usize, &&str)| Relay {
            name: format!("${}~{nickname}", to_hex(&[place as u8; 20])),
            weight: 1,
            flags: Flags::default(),
            address: None,
            family: Arc::default(),
            exits: true,
        };
        nicknames.iter().enumerate().map(relay).collect()
    }

    /// The families of relays with these nicknames and `family` lines. `$0` stands for the fingerprint of relay 0.
    fn families(nicknames: &[&str], lines: &[&str]) -> Vec<Vec<u32>> {
        let declare = |line: &&str| {
            let mut line = (*line).to_owned();
            for place in 0..nicknames.len() as u8 {
                line = line.replace(&format!("${place}"), &format!("${}", to_hex(&[place; 20])));
            }
            let mut declaration = Declaration::default();
            declaration.name(&line.split(' ').collect::<Vec<_>>()).unwrap();
            declaration
        };
        let declared: Vec<Declaration> = lines.iter().map(declare).collect();
        let mut relays = relays(nicknames);
        connect(&mut relays, &declared.iter().map(Some).collect::<Vec<_>>(), ALL).unwrap();
        relays.into_iter().map(|relay| relay.family.to_vec()).collect()
    }

    #[test]
    fn two_relays_are_a_family_only_if_each_declares_the_other() {
        let names = ["a", "b", "c"];
        assert_eq!(families(&names, &["$1", "$0", "$0 $1"]), [vec![1], vec![0], vec![]]);
        assert_eq!(families(&names, &["$1 $2", "", ""]), vec![Vec::new(); 3]);
        // Mutual declarations of a and b, and of b and c, do not make a and c a family.
        assert_eq!(families(&names, &["$1", "$0 $2", "$1"]), [vec![1], vec![0, 2], vec![1]]);
    }

    #[test]
    fn a_relay_is_declared_by_its_fingerprint_or_its_nickname() {
        for word in ["$1", "$1=other", "$1~b", "b", "B"] {
            assert_eq!(families(&["a", "b"], &[word, "$0"]), [vec![1], vec![0]], "{word}");
        }
        assert_eq!(families(&["a", "b"], &[&to_hex(&[1; 20]).to_lowercase(), "a"]), [vec![1], vec![0]]);
        for word in ["$b", "$1+b", "$1=", "$1=b-c", "b=$1", &to_hex(&[1; 20])[..39], ""] {
            assert_eq!(families(&["a", "b"], &[word, "$0"]), vec![Vec::new(); 2], "{word}");
        }
        // A nickname stands for all relays with this nickname.
        assert_eq!(families(&["a", "x", "x"], &["X", "a", "$0"]), [vec![1, 2], vec![0], vec![0]]);
    }

    #[test]
    fn a_relay_that_declares_itself_or_an_unknown_relay_is_alone() {
        assert_eq!(families(&["a", "b"], &["$0 a a", "$7 z"]), vec![Vec::new(); 2]);
        let mut relays = relays(&["a", "b"]);
        relays[0].family = Arc::new([1]);
        connect(&mut relays, &[None, None], ALL).unwrap();
        assert!(relays.iter().all(|relay| relay.family.is_empty()));
    }

    /// Connects relays whose numbers are their identities: all relays of a family name each other, and of each pair in
    /// `one_sided`, the first relay names the second.
    pub(crate) fn declare_each_other(
        relays: &mut [Relay],
        families: &[BTreeSet<u8>],
        one_sided: &[(u8, u8)],
    ) {
        let mut declared = vec![Declaration::default(); relays.len()];
        let pairs =
            families.iter().flat_map(|all| all.iter().flat_map(|one| all.iter().map(|other| (*one, *other))));
        for (one, other) in pairs.chain(one_sided.iter().copied()) {
            declared[usize::from(one)].name(&[&format!("${}", to_hex(&[other; 20]))]).unwrap();
        }
        connect(relays, &declared.iter().map(Some).collect::<Vec<_>>(), ALL).unwrap();
    }

    fn certificate(kind: u8, extension: u8, key: u8) -> Vec<u8> {
        let head = [&[1, kind][..], &[0; 4], &[1], &[9; 32], &[2]].concat();
        let other = [&[0, 1, 7, 0, 42][..], &[0, 32, extension, 1], &[key; 32], &[0; 64]].concat();
        [head, other].concat()
    }

    #[test]
    fn relays_with_a_common_family_key_are_a_family() {
        let read = |key| Certificate::read(&certificate(FAMILY_V_IDENTITY, SIGNED_WITH, key)).unwrap();
        assert_eq!(read(5).relay, [9; 32]);
        let mut declared = [const {
            Declaration { identities: BTreeSet::new(), nicknames: BTreeSet::new(), ids: BTreeSet::new() }
        }; 4];
        for (declaration, key) in declared.iter_mut().zip([5, 5, 6]) {
            declaration.certify(&[&read(key).id]).unwrap();
        }
        // A microdescriptor has the same word in a line family-ids.
        declared[3].certify(&["wrong", &format!("ed25519:{}", to_base64(&[6; 32]))]).unwrap();
        // The first and the third relay name each other.
        declared[0].name(&["c"]).unwrap();
        declared[2].name(&["a"]).unwrap();
        let families = |rules| {
            let mut relays = relays(&["a", "b", "c", "d"]);
            connect(&mut relays, &declared.each_ref().map(Some), rules).unwrap();
            relays.iter().map(|relay| relay.family.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(families(ALL), [vec![1, 2], vec![0], vec![0, 3], vec![2]]);
        assert_eq!(families(Rules { lists: false, ..ALL }), [vec![1], vec![0], vec![3], vec![2]]);
        assert_eq!(families(Rules { ids: false, ..ALL }), [vec![2], vec![], vec![0], vec![]]);
    }

    #[test]
    fn parameters_of_the_consensus_select_the_rules() {
        let rules = |name: &str, value| {
            let Rules { lists, ids } = Rules::of(&[(name.to_owned(), value)].into());
            [lists, ids]
        };
        assert_eq!(rules("other", 0), [true, true]);
        assert_eq!(rules("use-family-lists", 0), [false, true]);
        assert_eq!(rules("use-family-ids", 0), [true, false]);
        assert_eq!(rules("use-family-ids", 1), [true, true]);
    }

    #[test]
    fn a_malformed_certificate_is_no_family() {
        let whole = certificate(FAMILY_V_IDENTITY, SIGNED_WITH, 5);
        assert!(Certificate::read(&whole).is_some());
        assert!(Certificate::read(&certificate(4, SIGNED_WITH, 5)).is_none());
        assert!(Certificate::read(&certificate(FAMILY_V_IDENTITY, 5, 5)).is_none());
        assert!(
            (0..81)
                .all(|length| Certificate::read(&whole[..length.min(whole.len())]).is_none() || length >= 81)
        );
    }

    /// Relays of one nickname.
    fn many(count: u32) -> Vec<Relay> {
        let [model] = &relays(&["x"])[..] else { unreachable!() };
        let relay = |place: u32| {
            let identity = [&[0; 16][..], &place.to_be_bytes()].concat();
            Relay { name: format!("${}~x", to_hex(&identity)), ..model.clone() }
        };
        (0..count).map(relay).collect()
    }

    /// Hostile descriptors repeat words. The memory and the time do not grow with the square of their number.
    #[test]
    fn repeated_words_count_once() {
        let mut declaration = Declaration::default();
        declaration.certify(&vec!["one"; 100_000]).unwrap();
        declaration.name(&vec!["$0101010101010101010101010101010101010101"; 100_000]).unwrap();
        declaration.name(&vec!["x"; 100_000]).unwrap();
        assert_eq!(
            [declaration.ids.len(), declaration.identities.len(), declaration.nicknames.len()],
            [1; 3]
        );
        let mut relays = many(1000);
        connect(&mut relays, &[Some(&declaration); 1000], ALL).unwrap();
        assert!(relays.iter().all(|relay| relay.family.len() == 999 && relay.family.is_sorted()));
    }

    #[test]
    fn a_descriptor_with_too_many_words_is_an_error() {
        let words: Vec<String> = (0..=MAX_FAMILY).map(|number| format!("n{number}")).collect();
        let words: Vec<&str> = words.iter().map(|word| &word[..]).collect();
        assert_eq!(Declaration::default().name(&words[1..]), Ok(()));
        let error = Declaration::default().name(&words).unwrap_err();
        assert_eq!(error, "the relay names too many relays as its family; at most 4096 are allowed");
        assert_eq!(Declaration::default().certify(&words[..MAX_IDS]), Ok(()));
        let error = Declaration::default().certify(&words[..=MAX_IDS]).unwrap_err();
        assert_eq!(error, "the relay has too many family keys; at most 80 are allowed");
    }

    #[test]
    fn a_family_of_too_many_relays_is_an_error() {
        let by_nickname = |words: &[&str]| {
            let mut declaration = Declaration::default();
            declaration.name(words).unwrap();
            declaration
        };
        let mut by_key = Declaration::default();
        by_key.certify(&["one"]).unwrap();
        for declaration in [by_nickname(&["x"]), by_key] {
            let mut relays = many(10_000);
            assert_eq!(connect(&mut relays, &[Some(&declaration); 10_000], ALL), Err(0));
            let mut relays = many(1 + MAX_FAMILY as u32);
            assert_eq!(connect(&mut relays, &[Some(&declaration); 1 + MAX_FAMILY], ALL), Ok(()));
            assert!(relays.iter().all(|relay| relay.family.len() == MAX_FAMILY));
        }
        // One relay names 10,000 relays by their nickname, and only one of these names it back.
        let (one, back) = (by_nickname(&["x"]), by_nickname(&["$0000000000000000000000000000000000000000"]));
        let mut declared = vec![None; 10_000];
        (declared[0], declared[7]) = (Some(&one), Some(&back));
        let mut relays = many(10_000);
        connect(&mut relays, &declared, ALL).unwrap();
        assert_eq!((&relays[0].family[..], &relays[7].family[..]), (&[7][..], &[0][..]));
    }
}
