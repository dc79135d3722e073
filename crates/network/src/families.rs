//! Families: relays of one operator, which clients never use on one circuit.
//!
//! Two relays are of one family if each of them declares the other, or if both have certificates of one family key.
//!
//! Source: dir-spec section 2.1.1 ("family", "family-cert") and 3.3 ("family-ids"); C tor `nodes_in_same_family()`,
//! `nodefamily_from_members()`; proposal 321; cert-spec section 2.
//! Deviation: signatures and expiry times of family certificates are not checked.

use crate::document::{hex, to_base64};
use crate::relay::Relay;
use std::collections::BTreeMap;

/// The type of a certificate with which a family key signs the identity of a relay.
const FAMILY_V_IDENTITY: u8 = 0x0c;
/// The type of the extension with the key that signed the certificate.
const SIGNED_WITH: u8 = 0x04;

/// The family that one relay declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// The identities of the relays that the relay names.
    identities: Vec<[u8; 20]>,
    /// The nicknames that the relay names, in lower case.
    nicknames: Vec<String>,
    /// The families that certify the relay, such as `ed25519:` and a key in base64.
    ids: Vec<String>,
}

impl Declaration {
    /// Reads the words of a `family` line: `$FINGERPRINT`, `$FINGERPRINT=nickname`, `$FINGERPRINT~nickname` or a
    /// nickname. Other words are ignored, as in C tor. The nickname after a fingerprint has no effect.
    pub(crate) fn name(&mut self, words: &[&str]) {
        for word in words {
            let is_nickname = |text: &str| {
                (1..=19).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
            };
            let digits = word.strip_prefix('$').unwrap_or(word);
            if is_nickname(word) {
                self.nicknames.push(word.to_ascii_lowercase());
            } else if let Some((digits, rest)) = digits.split_at_checked(40)
                && let Ok(identity) = hex(digits)
                && (rest.is_empty() || rest.strip_prefix(['=', '~']).is_some_and(is_nickname))
            {
                self.identities.push(identity);
            }
        }
    }

    /// Reads the words of a `family-ids` line.
    pub(crate) fn certify(&mut self, ids: &[&str]) {
        self.ids.extend(ids.iter().map(|id| (*id).to_owned()));
    }

    /// Reads a family certificate. `None` if it is malformed.
    pub(crate) fn certify_with(&mut self, certificate: &[u8]) -> Option<()> {
        // The version, the type, the expiry time, the type of the certified key, this key, and the number of extensions.
        let (head, mut rest) = certificate.split_at_checked(40)?;
        if head[..2] != [1, FAMILY_V_IDENTITY] {
            return None;
        }
        for _ in 0..head[39] {
            let [high, low, kind, _, after @ ..] = rest else { return None };
            let (data, next) = after.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
            if *kind == SIGNED_WITH && data.len() == 32 {
                self.ids.push(format!("ed25519:{}", to_base64(data)));
                return Some(());
            }
            rest = next;
        }
        None
    }
}

/// Sets the families of all relays of a consensus. `declared` has the declaration of each relay.
pub(crate) fn connect(relays: &mut [Relay], declared: &[Option<&Declaration>]) {
    let mut by_identity: BTreeMap<[u8; 20], u32> = BTreeMap::new();
    let mut by_nickname: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (place, relay) in (0u32..).zip(relays.iter()) {
        let (identity, nickname) = relay.identity();
        by_identity.extend(hex(identity).map(|identity| (identity, place)));
        by_nickname.entry(nickname.to_ascii_lowercase()).or_default().push(place);
    }
    let mut by_id: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut named: Vec<Vec<u32>> = Vec::with_capacity(relays.len());
    let none = Declaration::default();
    for (place, declaration) in (0u32..).zip(declared) {
        let Declaration { identities, nicknames, ids } = declaration.unwrap_or(&none);
        ids.iter().for_each(|id| by_id.entry(id).or_default().push(place));
        let nicknamed = nicknames.iter().filter_map(|name| by_nickname.get(name)).flatten();
        let mut all: Vec<u32> = identities
            .iter()
            .filter_map(|identity| by_identity.get(identity))
            .chain(nicknamed)
            .copied()
            .collect();
        all.sort_unstable();
        named.push(all);
    }
    for (place, (relay, declaration)) in (0u32..).zip(relays.iter_mut().zip(declared)) {
        let certified =
            declaration.iter().flat_map(|own| &own.ids).filter_map(|id| by_id.get(&id[..])).flatten();
        let names_back = |other: &u32| named[*other as usize].binary_search(&place).is_ok();
        let mutual = named[place as usize].iter().copied().filter(names_back);
        relay.family = mutual.chain(certified.copied()).filter(|other| *other != place).collect();
        relay.family.sort_unstable();
        relay.family.dedup();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::document::to_hex;
    use crate::relay::Flags;
    use std::collections::BTreeSet;

    fn relays(nicknames: &[&str]) -> Vec<Relay> {
        let relay = |(place, nickname): (usize, &&str)| Relay {
            name: format!("${}~{nickname}", to_hex(&[place as u8; 20])),
            weight: 1,
            flags: Flags::default(),
            address: None,
            family: Vec::new(),
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
            declaration.name(&line.split(' ').collect::<Vec<_>>());
            declaration
        };
        let declared: Vec<Declaration> = lines.iter().map(declare).collect();
        let mut relays = relays(nicknames);
        connect(&mut relays, &declared.iter().map(Some).collect::<Vec<_>>());
        relays.into_iter().map(|relay| relay.family).collect()
    }

    #[test]
    fn relays_are_kin_only_if_each_declares_the_other() {
        let names = ["a", "b", "c"];
        assert_eq!(families(&names, &["$1", "$0", "$0 $1"]), [vec![1], vec![0], vec![]]);
        assert_eq!(families(&names, &["$1 $2", "", ""]), vec![Vec::new(); 3]);
        // Mutual declarations of a and b, and of b and c, do not make a and c kin.
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
        relays[0].family = vec![1];
        connect(&mut relays, &[None, None]);
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
            declared[usize::from(one)].name(&[&format!("${}", to_hex(&[other; 20]))]);
        }
        connect(relays, &declared.iter().map(Some).collect::<Vec<_>>());
    }

    fn certificate(kind: u8, extension: u8, key: u8) -> Vec<u8> {
        let head = [&[1, kind][..], &[0; 4], &[1], &[9; 32], &[2]].concat();
        let other = [&[0, 1, 7, 0, 42][..], &[0, 32, extension, 1], &[key; 32], &[0; 64]].concat();
        [head, other].concat()
    }

    #[test]
    fn certificates_of_one_key_make_a_family() {
        let mut declared = [const { Declaration { identities: vec![], nicknames: vec![], ids: vec![] } }; 4];
        for (declaration, key) in declared.iter_mut().zip([5, 5, 6]) {
            declaration.certify_with(&certificate(FAMILY_V_IDENTITY, SIGNED_WITH, key)).unwrap();
        }
        // A microdescriptor has the same identity in a line family-ids.
        declared[3].certify(&["wrong", &format!("ed25519:{}", to_base64(&[6; 32]))]);
        let mut relays = relays(&["a", "b", "c", "d"]);
        connect(&mut relays, &declared.each_ref().map(Some));
        let families: Vec<_> = relays.iter().map(|relay| &relay.family[..]).collect();
        assert_eq!(families, [&[1], &[0], &[3], &[2]]);
    }

    #[test]
    fn a_malformed_certificate_is_no_family() {
        let whole = certificate(FAMILY_V_IDENTITY, SIGNED_WITH, 5);
        let read = |bytes: &[u8]| Declaration::default().certify_with(bytes);
        assert!(read(&whole).is_some());
        assert!(read(&certificate(4, SIGNED_WITH, 5)).is_none());
        assert!(read(&certificate(FAMILY_V_IDENTITY, 5, 5)).is_none());
        assert!((0..81).all(|length| read(&whole[..length.min(whole.len())]).is_none() || length >= 81));
    }
}
