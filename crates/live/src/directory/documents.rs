//! The verified documents of the directory cache.
//!
//! The torrc names the authorities. The authorities certify the keys that sign consensuses. A consensus has the digests
//! of all other documents. The cache checks signatures and digests, so any server may send a document.

use super::authorities::{Authority, AuthorityCert, Fingerprint};
use super::consensus::{Consensus, Flavour};
use super::failure::Failure;
use super::{between, items};
use digest::Digest;
use penstock_network::document::{base64, split};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tor_llcrypto::d::{Sha1, Sha256};

/// The cache keeps a document this long after a consensus last listed it. Clients may still use an old consensus (C
/// tor: `TOLERATE_MICRODESC_AGE`, a week).
const KEEP: Duration = Duration::from_secs(7 * 86_400);
/// Maximum number of documents of each kind [1]. The public network has about ten thousand relays.
const MOST: usize = 65_536;

/// All documents of the cache.
#[derive(Clone, Debug)]
pub struct Documents {
    pub(super) authorities: Arc<[Authority]>,
    /// The flavors of consensuses that the cache keeps, with the documents that they list.
    flavours: &'static [Flavour],
    pub(super) certs: Vec<AuthorityCert>,
    consensuses: [Option<Arc<Consensus>>; 2],
    microdescriptors: Kept<32>,
    descriptors: Kept<20>,
    owners: BTreeMap<Fingerprint, [u8; 20]>,
    pub(super) own: Option<OwnDescriptor>,
}

#[derive(Clone, Debug)]
pub(super) struct OwnDescriptor {
    identity: Fingerprint,
    pub(super) digest: [u8; 20],
    text: Arc<str>,
}

/// Documents, keyed by digest. Each has the time at which a new consensus last listed it.
#[derive(Clone, Debug)]
struct Kept<const N: usize>(BTreeMap<[u8; N], (SystemTime, Arc<str>)>);

impl<const N: usize> Kept<N> {
    /// Handles a new consensus with the digests `named`. Drops documents that no consensus has listed for a week.
    fn name(&mut self, now: SystemTime, named: impl Iterator<Item = [u8; N]>) {
        for digest in named {
            if let Some((last, _)) = self.0.get_mut(&digest) {
                *last = now;
            }
        }
        self.0.retain(|_, (last, _)| between(*last, now) < KEEP);
    }

    fn missing<'a>(
        &'a self,
        named: impl Iterator<Item = [u8; N]> + 'a,
    ) -> impl Iterator<Item = [u8; N]> + 'a {
        let room = MOST.saturating_sub(self.0.len());
        named.filter(|digest| !self.0.contains_key(digest)).take(room)
    }

    fn get(&self, digest: &[u8; N]) -> Option<Arc<str>> {
        self.0.get(digest).map(|(_, text)| text.clone())
    }
}

impl Documents {
    /// An empty cache for the network of these authorities.
    pub fn new(authorities: Vec<Authority>) -> Self {
        Documents {
            authorities: authorities.into(),
            flavours: &Flavour::ALL,
            certs: Vec::new(),
            consensuses: [None, None],
            microdescriptors: Kept(BTreeMap::new()),
            descriptors: Kept(BTreeMap::new()),
            owners: BTreeMap::new(),
            own: None,
        }
    }

    /// An empty cache of a client, which needs no server descriptors.
    pub fn of_client(authorities: Vec<Authority>) -> Self {
        Documents { flavours: &[Flavour::Microdescriptors], ..Documents::new(authorities) }
    }

    /// Whether the cache keeps consensuses of this flavor.
    pub(super) fn keeps(&self, flavour: Flavour) -> bool {
        self.flavours.contains(&flavour)
    }

    /// The number of microdescriptors [1].
    pub(crate) fn microdescriptors(&self) -> usize {
        self.microdescriptors.0.len()
    }

    /// The current consensus of a flavor. It may have expired.
    pub fn consensus(&self, flavour: Flavour) -> Option<&Arc<Consensus>> {
        self.consensuses[flavour as usize].as_ref()
    }

    /// Stores certificates of known authorities. Keeps the newest certificate of each key.
    pub fn take_certs(&mut self, now: SystemTime, text: &str) {
        for cert in AuthorityCert::read_all(text) {
            let is_known = self.authorities.iter().any(|known| known.v3ident == cert.identity);
            let is_same =
                |other: &AuthorityCert| (other.identity, other.signing) == (cert.identity, cert.signing);
            let is_newer =
                !self.certs.iter().any(|other| is_same(other) && other.published >= cert.published);
            if is_known && is_newer && now < cert.expires {
                self.certs.retain(|other| !is_same(other));
                self.certs.push(cert);
            }
        }
        // The certificates of recently expired keys remain, because they may still verify the current consensus.
        self.certs.retain(|cert| between(cert.expires, now) < KEEP);
    }

    /// Whether some authority has no certificate that is valid at `now`.
    pub fn lacks_certs(&self, now: SystemTime) -> bool {
        let is_its =
            |known: &Authority, cert: &AuthorityCert| cert.identity == known.v3ident && now < cert.expires;
        self.authorities.iter().any(|known| !self.certs.iter().any(|cert| is_its(known, cert)))
    }

    /// Whether the cache has all consensuses that it keeps, and all documents that they list.
    pub fn is_complete(&self) -> bool {
        self.flavours.iter().all(|flavour| self.consensus(*flavour).is_some())
            && self.missing_microdescriptors().next().is_none()
            && self.missing_descriptors().next().is_none()
    }

    /// Whether this exit refuses streams to an address and port of a relay or authority. Otherwise a client could
    /// attack the network through the exit.
    ///
    /// Source: C tor `nodelist_reentry_contains()`, and the consensus parameter `allow-network-reentry`.
    /// Deviation: an authority's OR port is refused only if the consensus lists the authority.
    pub fn refuses_reentry(&self, to: SocketAddr) -> bool {
        let Some(consensus) = self.consensus(Flavour::Plain) else { return false };
        // Linux connects to ::ffff:192.0.2.1 over IPv4.
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let is_authority = self.authorities.iter().any(|authority| authority.dir_port == to);
        let is_allowed = || consensus.params.get("allow-network-reentry", 0, 0..=1) == 1;
        (is_authority || consensus.or_ports.contains(&to)) && !is_allowed()
    }

    /// Whether the consensus lists the relay with this identity; `None` without a consensus.
    pub fn names(&self, identity: &Fingerprint) -> Option<bool> {
        self.consensus(Flavour::Plain).map(|_| self.owners.contains_key(identity))
    }

    /// The ed25519 identity of the relay with this RSA identity, from the descriptor that the consensus lists.
    pub fn ed25519_of(&self, identity: &Fingerprint) -> Option<[u8; 32]> {
        let descriptor = self.descriptors.get(self.owners.get(identity)?)?;
        let mut items = items(&descriptor).map_while(Result::ok);
        let item = items.find(|item| item.keyword() == b"master-key-ed25519")?;
        base64(item.argument(0).ok()?).ok()
    }

    /// Stores a consensus that is newer than the current one, not expired, and signed by most authorities.
    ///
    /// # Errors
    ///
    /// The reason why the cache refuses the consensus.
    pub fn take_consensus(&mut self, now: SystemTime, consensus: Consensus) -> Result<(), Failure> {
        consensus.check(&self.authorities, &self.certs)?;
        let slot = &mut self.consensuses[consensus.flavour as usize];
        let is_newer = slot.as_ref().is_none_or(|has| has.valid_after < consensus.valid_after);
        if !is_newer || consensus.valid_until <= now {
            return Err(Failure::Old);
        }
        match consensus.flavour {
            Flavour::Microdescriptors => {
                self.microdescriptors.name(now, consensus.microdescriptors.iter().copied());
            }
            Flavour::Plain => {
                self.descriptors.name(now, consensus.descriptors.iter().map(|(digest, _)| *digest));
                self.owners =
                    consensus.descriptors.iter().map(|(digest, identity)| (*identity, *digest)).collect();
            }
        }
        *slot = Some(Arc::new(consensus));
        Ok(())
    }

    pub(super) fn missing_microdescriptors(&self) -> impl Iterator<Item = [u8; 32]> + '_ {
        let consensus = self.consensus(Flavour::Microdescriptors).into_iter();
        self.microdescriptors
            .missing(consensus.flat_map(|consensus| consensus.microdescriptors.iter().copied()))
    }

    pub(super) fn missing_descriptors(&self) -> impl Iterator<Item = [u8; 20]> + '_ {
        let consensus = self.consensus(Flavour::Plain).into_iter();
        self.descriptors
            .missing(consensus.flat_map(|consensus| consensus.descriptors.iter().map(|(digest, _)| *digest)))
    }

    /// All certificates of authorities.
    pub fn certs(&self) -> &[AuthorityCert] {
        &self.certs
    }

    /// Stores missing microdescriptors, identified by their digests. Returns the number of stored documents.
    pub fn take_microdescriptors(&mut self, now: SystemTime, text: &str) -> usize {
        let missing: std::collections::BTreeSet<_> = self.missing_microdescriptors().collect();
        let each = split(text, "onion-key").into_iter().map(|text| (Sha256::digest(text).into(), text));
        let wanted: Vec<_> = each.filter(|(digest, _)| missing.contains(digest)).collect();
        let count = wanted.len();
        self.microdescriptors.0.extend(wanted.into_iter().map(|(digest, text)| (digest, (now, text.into()))));
        count
    }

    /// Stores missing server descriptors, identified by their digests. Returns the number of stored documents.
    pub fn take_descriptors(&mut self, now: SystemTime, text: &str) -> usize {
        let missing: std::collections::BTreeSet<_> = self.missing_descriptors().collect();
        let each = split(text, "router").into_iter().filter_map(|text| Some((digest_of(text)?, text)));
        let wanted: Vec<_> = each.filter(|(digest, _)| missing.contains(digest)).collect();
        let count = wanted.len();
        self.descriptors.0.extend(wanted.into_iter().map(|(digest, text)| (digest, (now, text.into()))));
        count
    }

    /// Sets this relay's own descriptor.
    pub fn set_own(&mut self, identity: Fingerprint, text: &Arc<str>) {
        let digest = digest_of(text).expect("our descriptors are signed");
        self.own = Some(OwnDescriptor { identity, digest, text: text.clone() });
    }

    /// This relay's own descriptor.
    pub fn own(&self) -> Option<Arc<str>> {
        self.own.as_ref().map(|own| own.text.clone())
    }

    pub(crate) fn microdescriptor(&self, digest: &[u8; 32]) -> Option<Arc<str>> {
        self.microdescriptors.get(digest)
    }

    pub(super) fn descriptor(&self, digest: &[u8; 20]) -> Option<Arc<str>> {
        let own = self.own.as_ref().filter(|own| own.digest == *digest);
        own.map(|own| own.text.clone()).or_else(|| self.descriptors.get(digest))
    }

    pub(super) fn descriptor_of(&self, identity: &Fingerprint) -> Option<Arc<str>> {
        let own = self.own.as_ref().filter(|own| own.identity == *identity);
        own.map(|own| own.text.clone()).or_else(|| self.descriptors.get(self.owners.get(identity)?))
    }

    pub(super) fn all_descriptors(&self) -> Vec<Arc<str>> {
        self.owners.values().filter_map(|digest| self.descriptors.get(digest)).collect()
    }
}

/// The digest of a server descriptor: SHA-1 of the text that the RSA signature covers.
fn digest_of(text: &str) -> Option<[u8; 20]> {
    const END: &str = "\nrouter-signature\n";
    let end = text.find(END)? + END.len();
    Some(Sha1::digest(&text[..end]).into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::directory::samples;
    use penstock_network::document::hex;

    /// All sample documents.
    pub(in crate::directory) fn full() -> Documents {
        let (mut documents, now) = (Documents::new(samples::authorities()), samples::at(1));
        documents.take_certs(now, samples::CERTIFICATES);
        for text in [samples::PLAIN, samples::MICRO] {
            documents.take_consensus(now, Consensus::read(text).unwrap()).unwrap();
        }
        assert_eq!(documents.take_microdescriptors(now, samples::MICRODESCRIPTORS), 5);
        assert_eq!(documents.take_descriptors(now, samples::DESCRIPTORS), 5);
        documents
    }

    #[test]
    fn documents_that_the_consensus_lists_are_stored() {
        let documents = full();
        assert!(!documents.lacks_certs(samples::at(1)) && documents.is_complete());
        let exit = hex("54554C6BD37631CF31FC314BDB6461825E1EC577").unwrap();
        assert_eq!((documents.names(&exit), documents.names(&[0; 20])), (Some(true), Some(false)));
        assert_eq!(
            (documents.missing_microdescriptors().count(), documents.missing_descriptors().count()),
            (0, 0)
        );
        let all: String = documents.all_descriptors().concat();
        assert_eq!(all.len(), samples::DESCRIPTORS.len());
    }

    #[test]
    fn exit_streams_to_relays_and_authorities_are_refused() {
        let documents = full();
        let authority = documents.authorities[0].dir_port;
        for (to, refused) in [
            ("127.0.0.1:17030", true),
            ("127.0.0.1:17020", true),
            ("127.0.0.1:17031", false),
            ("127.0.0.2:17030", false),
        ] {
            let to: SocketAddr = to.parse().unwrap();
            assert_eq!(documents.refuses_reentry(to), refused, "{to}");
            let std::net::IpAddr::V4(v4) = to.ip() else { continue };
            let mapped = SocketAddr::new(v4.to_ipv6_mapped().into(), to.port());
            assert_eq!(documents.refuses_reentry(mapped), refused, "{mapped}");
        }
        assert!(documents.refuses_reentry(authority));
        let unknown = Documents::new(samples::authorities());
        assert!(!unknown.refuses_reentry("127.0.0.1:17030".parse().unwrap()), "no consensus yet");
    }

    #[test]
    fn listed_relays_have_the_ed25519_identity_of_their_descriptor() {
        let documents = full();
        let rsa = hex("54554C6BD37631CF31FC314BDB6461825E1EC577").unwrap();
        let ed25519 = base64("zwM6zri3Sv+JxbQWK7pN6VOnE7Z4T62blkYbSTfzPzo").unwrap();
        assert_eq!(documents.ed25519_of(&rsa), Some(ed25519));
        assert_eq!(documents.ed25519_of(&[0; 20]), None);
    }

    #[test]
    fn documents_that_no_consensus_lists_are_refused() {
        let mut documents = Documents::new(samples::authorities());
        let now = samples::at(1);
        assert_eq!((documents.is_complete(), documents.names(&[0; 20])), (false, None));
        assert_eq!(documents.take_microdescriptors(now, samples::MICRODESCRIPTORS), 0);
        documents.take_certs(now, samples::CERTIFICATES);
        documents.take_consensus(now, Consensus::read(samples::MICRO).unwrap()).unwrap();
        let changed = samples::MICRODESCRIPTORS.replacen("ntor-onion-key ", "ntor-onion-key  ", 1);
        assert_eq!(documents.take_microdescriptors(now, &changed), 4);
        assert_eq!(documents.missing_microdescriptors().count(), 1);
    }

    #[test]
    fn an_expired_or_old_consensus_is_refused() {
        let mut documents = Documents::new(samples::authorities());
        let consensus = Consensus::read(samples::PLAIN).unwrap();
        let now = samples::at(1);
        assert_eq!(documents.take_consensus(now, consensus.clone()), Err(Failure::Unsigned(0, 2)));
        documents.take_certs(now, samples::CERTIFICATES);
        assert_eq!(documents.take_consensus(samples::at(20), consensus.clone()), Err(Failure::Old));
        assert_eq!(documents.take_consensus(now, consensus.clone()), Ok(()));
        assert_eq!(documents.take_consensus(now, consensus), Err(Failure::Old));
    }

    #[test]
    fn unknown_and_expired_certificates_are_refused() {
        let mut documents = Documents::new(samples::authorities()[..1].to_vec());
        documents.take_certs(samples::at(1), samples::CERTIFICATES);
        assert_eq!((documents.certs.len(), documents.lacks_certs(samples::at(1))), (1, false));
        let later = samples::at(0) + Duration::from_secs(400 * 86_400);
        assert!(documents.lacks_certs(later));
        documents.take_certs(later, samples::CERTIFICATES);
        assert_eq!(documents.certs.len(), 0);
    }

    #[test]
    fn documents_expire_a_week_after_the_last_consensus_with_them() {
        let mut kept = Kept(BTreeMap::from([
            ([1; 20], (samples::at(0), "a".into())),
            ([2; 20], (samples::at(0), "b".into())),
        ]));
        kept.name(samples::at(0) + KEEP - Duration::from_secs(1), [[1; 20]].into_iter());
        assert_eq!(kept.0.len(), 2);
        kept.name(samples::at(0) + KEEP, [[1; 20]].into_iter());
        assert_eq!((kept.0.len(), kept.get(&[1; 20]).is_some()), (1, true));
    }
}
