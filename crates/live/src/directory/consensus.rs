//! The consensus: the relays of the network, and the network parameters.
//!
//! Source: dir-spec, "Consensus documents"; "Microdescriptor consensus" for the flavor with microdescriptors.

use super::authorities::{Authority, AuthorityCert, Fingerprint};
use super::failure::Failure;
use super::items;
use super::params::Params;
use digest::Digest;
use penstock_network::document::{Item, Malformed, base64, hex};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use tor_llcrypto::d::{Sha1, Sha256};

/// The flavor of a consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavour {
    /// A consensus with digests of server descriptors.
    Plain,
    /// A consensus with digests of microdescriptors, for clients.
    Microdescriptors,
}

impl Flavour {
    /// Both flavors.
    pub const ALL: [Flavour; 2] = [Flavour::Plain, Flavour::Microdescriptors];

    pub(super) fn path(self) -> &'static str {
        match self {
            Flavour::Plain => "/tor/status-vote/current/consensus",
            Flavour::Microdescriptors => "/tor/status-vote/current/consensus-microdesc",
        }
    }
}

/// A consensus.
#[derive(Clone, Debug)]
pub struct Consensus {
    /// Text of the document.
    pub text: Arc<str>,
    /// Flavor.
    pub flavour: Flavour,
    /// Start of validity.
    pub valid_after: SystemTime,
    /// Time from which a newer consensus is expected.
    pub fresh_until: SystemTime,
    /// End of validity.
    pub valid_until: SystemTime,
    /// Consensus parameters.
    pub params: Params,
    /// Digests of server descriptors, each with the RSA identity of the relay.
    pub(super) descriptors: Vec<([u8; 20], Fingerprint)>,
    pub(super) microdescriptors: Vec<[u8; 32]>,
    /// The addresses and OR ports of all relays, in the plain flavor only.
    pub(super) or_ports: BTreeSet<SocketAddr>,
    signatures: Vec<Signature>,
    digests: ([u8; 20], [u8; 32]),
}

#[derive(Clone, Debug)]
struct Signature {
    is_sha256: bool,
    identity: Fingerprint,
    signing: Fingerprint,
    bytes: Vec<u8>,
}

impl Consensus {
    /// Parses a consensus. The signatures are not verified.
    pub fn read(text: &str) -> Result<Consensus, Malformed> {
        let first = items(text).next().ok_or(Malformed)??;
        let flavour = match first.arguments()? {
            "3" => Flavour::Plain,
            "3 microdesc" => Flavour::Microdescriptors,
            _ => return Err(Malformed),
        };
        if first.keyword() != b"network-status-version" {
            return Err(Malformed);
        }
        let mut reading = Reading::of(flavour);
        for item in items(text) {
            reading.take(&item?)?;
        }
        reading.finish(text)
    }

    /// The authorities that the signatures name. The signatures may be unverified.
    pub fn signers(&self) -> impl Iterator<Item = Fingerprint> {
        self.signatures.iter().map(|signature| signature.identity)
    }

    /// Verifies that more than half of the authorities signed the consensus with certified keys.
    ///
    /// Source: C tor `networkstatus_check_consensus_signature()`.
    pub fn check(&self, authorities: &[Authority], certs: &[AuthorityCert]) -> Result<(), Failure> {
        let is_good = |signature: &&Signature| {
            let is_its = |cert: &&AuthorityCert| {
                (cert.identity, cert.signing) == (signature.identity, signature.signing)
            };
            // A signature counts only if the certificate was valid when the consensus became valid.
            let cert = certs.iter().find(is_its).filter(|cert| cert.expires >= self.valid_after);
            let digest: &[u8] = if signature.is_sha256 { &self.digests.1 } else { &self.digests.0 };
            authorities.iter().any(|known| known.v3ident == signature.identity)
                && cert.is_some_and(|cert| cert.key.verify(digest, &signature.bytes).is_ok())
        };
        let good: BTreeSet<_> =
            self.signatures.iter().filter(is_good).map(|signature| signature.identity).collect();
        let needed = authorities.len() / 2 + 1;
        if good.len() >= needed { Ok(()) } else { Err(Failure::Unsigned(good.len(), needed)) }
    }
}

struct Reading {
    flavour: Flavour,
    times: [Option<SystemTime>; 3],
    is_consensus: bool,
    params: Params,
    descriptors: Vec<([u8; 20], Fingerprint)>,
    microdescriptors: Vec<[u8; 32]>,
    or_ports: BTreeSet<SocketAddr>,
    signatures: Vec<Signature>,
    /// Length of the signed text [B].
    signed: Option<usize>,
}

impl Reading {
    fn of(flavour: Flavour) -> Self {
        Reading {
            flavour,
            times: [None; 3],
            is_consensus: false,
            params: Params::default(),
            descriptors: Vec::new(),
            microdescriptors: Vec::new(),
            or_ports: BTreeSet::new(),
            signatures: Vec::new(),
            signed: None,
        }
    }

    fn take(&mut self, item: &Item<'_>) -> Result<(), Malformed> {
        // Only signatures may follow the first signature, because other lines would not be signed.
        if self.signed.is_some() && item.keyword() != b"directory-signature" {
            return Err(Malformed);
        }
        match item.keyword() {
            b"network-status-version" if item.at != 0 => return Err(Malformed),
            b"vote-status" => self.is_consensus = item.arguments()? == "consensus",
            b"valid-after" => self.times[0] = Some(item.time()?),
            b"fresh-until" => self.times[1] = Some(item.time()?),
            b"valid-until" => self.times[2] = Some(item.time()?),
            b"params" => self.params = Params::read(item.arguments()?)?,
            b"r" if self.flavour == Flavour::Plain => {
                self.descriptors.push((base64(item.argument(2)?)?, base64(item.argument(1)?)?));
                let address = item.argument(5)?.parse().map_err(|_| Malformed)?;
                let port = item.argument(6)?.parse().map_err(|_| Malformed)?;
                self.or_ports.insert(SocketAddr::new(address, port));
            }
            b"a" if self.flavour == Flavour::Plain => {
                self.or_ports.insert(item.argument(0)?.parse().map_err(|_| Malformed)?);
            }
            b"m" if self.flavour == Flavour::Microdescriptors => {
                self.microdescriptors.push(base64(item.argument(0)?)?);
            }
            b"directory-signature" => {
                self.signed.get_or_insert(item.at + "directory-signature ".len());
                self.signatures.push(Signature::read(item)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self, text: &str) -> Result<Consensus, Malformed> {
        let [Some(valid_after), Some(fresh_until), Some(valid_until)] = self.times else {
            return Err(Malformed);
        };
        let signed = &text[..self.signed.ok_or(Malformed)?];
        if !self.is_consensus || valid_after >= fresh_until || fresh_until > valid_until {
            return Err(Malformed);
        }
        Ok(Consensus {
            text: text.into(),
            flavour: self.flavour,
            valid_after,
            fresh_until,
            valid_until,
            params: self.params,
            descriptors: self.descriptors,
            microdescriptors: self.microdescriptors,
            or_ports: self.or_ports,
            signatures: self.signatures,
            digests: (Sha1::digest(signed).into(), Sha256::digest(signed).into()),
        })
    }
}

impl Signature {
    fn read(item: &Item<'_>) -> Result<Signature, Malformed> {
        let (is_sha256, identity, signing) = match item.words()?[..] {
            [identity, signing] | ["sha1", identity, signing] => (false, identity, signing),
            ["sha256", identity, signing] => (true, identity, signing),
            _ => return Err(Malformed),
        };
        let bytes = item.object("SIGNATURE")?;
        Ok(Signature { is_sha256, identity: hex(identity)?, signing: hex(signing)?, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::samples;
    use std::time::Duration;

    fn certs() -> Vec<AuthorityCert> {
        AuthorityCert::read_all(samples::CERTIFICATES)
    }

    #[test]
    fn both_flavors_of_c_tor_are_parsed_and_verified() {
        let plain = Consensus::read(samples::PLAIN).unwrap();
        let micro = Consensus::read(samples::MICRO).unwrap();
        for consensus in [&plain, &micro] {
            assert_eq!(consensus.check(&samples::authorities(), &certs()), Ok(()));
            assert_eq!(consensus.fresh_until, consensus.valid_after + Duration::from_secs(10));
            assert_eq!(consensus.signers().count(), 3);
        }
        assert_eq!((plain.flavour, micro.flavour), (Flavour::Plain, Flavour::Microdescriptors));
        assert_eq!((plain.descriptors.len(), micro.microdescriptors.len()), (5, 5));
        assert_eq!((plain.or_ports.len(), micro.or_ports.len()), (5, 0));
    }

    #[test]
    fn more_than_half_of_the_known_authorities_must_have_signed() {
        let consensus = Consensus::read(samples::PLAIN).unwrap();
        let (authorities, certs) = (samples::authorities(), certs());
        assert_eq!(consensus.check(&authorities, &certs[..2]), Ok(()));
        assert_eq!(consensus.check(&authorities, &certs[..1]), Err(Failure::Unsigned(1, 2)));
        // Signatures of unknown authorities do not count.
        let mut others = authorities.clone();
        others[0].v3ident = [0; 20];
        others[1].v3ident = [1; 20];
        assert_eq!(consensus.check(&others, &certs), Err(Failure::Unsigned(1, 2)));
        // A repeated signature counts once.
        let again = &samples::PLAIN[samples::PLAIN.find("directory-signature").unwrap()..];
        let first = again[1..].find("directory-signature").unwrap() + 1;
        let twice = samples::PLAIN.replace(again, &again[..first].repeat(2));
        assert_eq!(
            Consensus::read(&twice).unwrap().check(&authorities, &certs),
            Err(Failure::Unsigned(1, 2))
        );
    }

    #[test]
    fn changed_signed_text_is_refused() {
        let (authorities, certs) = (samples::authorities(), certs());
        let signed = samples::MICRO.find("directory-signature").unwrap();
        for at in (0..signed).step_by(13) {
            let mut changed = samples::MICRO.as_bytes().to_vec();
            changed[at] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            let read = Consensus::read(&changed);
            assert!(read.is_err() || read.unwrap().check(&authorities, &certs).is_err(), "byte {at}");
        }
    }

    #[test]
    fn text_after_the_signatures_is_refused() {
        let text = format!("{}params cc_alg=0\n", samples::PLAIN);
        assert_eq!(Consensus::read(&text).err(), Some(Malformed));
    }

    #[test]
    fn a_truncated_consensus_is_refused() {
        // A consensus with one signature less is still well-formed.
        let end = samples::PLAIN.find("directory-signature").unwrap();
        for len in (0..end).step_by(11) {
            assert!(Consensus::read(&samples::PLAIN[..len]).is_err(), "{len} B");
        }
    }
}
