//! Encryption layers of relay cells: AES-128 in counter mode, and a running SHA-1 over all messages in one direction.
//!
//! Source: tor-spec, "Routing relay cells" and "Relay cells"; proposal 289 for the tag in a SENDME.

use super::KeyStream;
use crate::cell::BODY_LEN;
use cipher::{KeyIvInit, StreamCipher};
use digest::Digest;
use std::fmt;
use subtle::ConstantTimeEq;
use tor_llcrypto::cipher::aes::Aes128Ctr;
use tor_llcrypto::d::Sha1;
use zeroize::Zeroizing;

/// Length of the keys that a circuit handshake yields: two digest seeds, two AES keys and the nonce [B].
pub const KEY_MATERIAL: usize = 72 + NONCE;
/// Length of the nonce `KH` [B].
pub const NONCE: usize = 20;

/// Keys of one hop. The memory is wiped on drop.
pub type KeyMaterial = Zeroizing<[u8; KEY_MATERIAL]>;

/// Byte ranges of header fields in a relay message.
mod field {
    use std::ops::Range;
    pub(super) const RECOGNIZED: Range<usize> = 1..3;
    pub(super) const DIGEST: Range<usize> = 5..9;
    pub(super) const LENGTH: Range<usize> = 9..11;
}
/// Length of a relay message header [B].
const HEADER: usize = 11;
/// Zero bytes between the data and the random padding [B] (proposal 289).
const ZEROS: usize = 4;

/// Running digest after a message. Both ends of a hop know it, so a SENDME carries it as proof of receipt. Tags are
/// compared in constant time, so that timing does not reveal the expected tag.
#[derive(Clone, Copy, Debug)]
pub struct Tag(pub [u8; 20]);

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Tag {}

/// The encryption layer between a client and one relay of a circuit.
pub struct Layer(Box<Ends>);

struct Ends {
    outgoing: Half,
    incoming: Half,
    /// Generates the random padding of cells. Without this padding, a client could guess the tag of a cell that it
    /// did not receive. Forwarded cells need no padding.
    padding: Aes128Ctr,
    /// The nonce `KH`. It binds an onion service's ESTABLISH_INTRO to the circuit.
    nonce: [u8; NONCE],
    /// Number of RELAY_EARLY cells that have arrived [cell].
    early: u8,
}

struct Half {
    cipher: KeyStream,
    digest: Sha1,
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Layer")
    }
}

impl Layer {
    /// The relay's side of a layer. `secret` must be random, because it seeds the padding.
    pub fn relay(keys: &KeyMaterial, secret: &[u8; 16]) -> Self {
        let [forward, backward] = halves(keys);
        Layer::new(backward, forward, keys, secret)
    }

    /// The client's side of a layer.
    pub fn client(keys: &KeyMaterial, secret: &[u8; 16]) -> Self {
        let [forward, backward] = halves(keys);
        Layer::new(forward, backward, keys, secret)
    }

    fn new(outgoing: Half, incoming: Half, keys: &KeyMaterial, secret: &[u8; 16]) -> Self {
        let nonce = *keys.last_chunk().expect("the keys end with the nonce");
        Layer(Box::new(Ends { outgoing, incoming, padding: padding(secret), nonce, early: 0 }))
    }

    /// The nonce `KH` of the handshake.
    pub fn nonce(&self) -> &[u8; NONCE] {
        &self.0.nonce
    }

    /// Adds the digest and the padding to a message, then encrypts it. Returns the message's tag.
    pub(crate) fn seal(&mut self, body: &mut [u8; BODY_LEN]) -> Tag {
        let ends = &mut *self.0;
        let length = u16::from_be_bytes([body[field::LENGTH.start], body[field::LENGTH.start + 1]]);
        let unused = (HEADER + usize::from(length) + ZEROS).min(BODY_LEN);
        ends.padding.apply_keystream(&mut body[unused..]);
        body[field::RECOGNIZED].fill(0);
        body[field::DIGEST].fill(0);
        let half = &mut ends.outgoing;
        half.digest.update(&body[..]);
        let tag: [u8; 20] = half.digest.clone().finalize().into();
        body[field::DIGEST].copy_from_slice(&tag[..4]);
        half.cipher.apply(body);
        Tag(tag)
    }

    /// Encrypts a cell that this node forwards.
    pub(crate) fn wrap(&mut self, body: &mut [u8; BODY_LEN]) {
        self.0.outgoing.cipher.apply(body);
    }

    /// Decrypts a cell. If the message is for this node, returns its tag.
    pub(crate) fn peel(&mut self, body: &mut [u8; BODY_LEN]) -> Option<Tag> {
        let half = &mut self.0.incoming;
        half.cipher.apply(body);
        if body[field::RECOGNIZED] != [0, 0] {
            return None;
        }
        let mut said = [0; 4];
        said.copy_from_slice(&body[field::DIGEST]);
        body[field::DIGEST].fill(0);
        let digest = half.digest.clone().chain_update(&body[..]);
        let tag: [u8; 20] = digest.clone().finalize().into();
        if tag[..4].ct_eq(&said).into() {
            half.digest = digest;
            return Some(Tag(tag));
        }
        body[field::DIGEST].copy_from_slice(&said);
        None
    }

    /// Counts a RELAY_EARLY cell. Returns the number of such cells so far [cell].
    pub(crate) fn count_early(&mut self) -> u8 {
        self.0.early = self.0.early.saturating_add(1);
        self.0.early
    }
}

fn padding(secret: &[u8; 16]) -> Aes128Ctr {
    Aes128Ctr::new(secret.into(), &Default::default())
}

/// Splits the keys into the forward half and the backward half.
fn halves(keys: &KeyMaterial) -> [Half; 2] {
    let part = |at: usize, len: usize| &keys[at..at + len];
    [0, 1].map(|n| {
        let key = part(40 + 16 * n, 16).try_into().expect("it was cut to sixteen bytes");
        Half { cipher: KeyStream::new(key), digest: Sha1::new_with_prefix(part(20 * n, 20)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "oracles")]
    use proptest::prelude::*;

    fn pair(seed: u8) -> (Layer, Layer) {
        let keys = Zeroizing::new(std::array::from_fn(|n| n as u8 ^ seed));
        (Layer::client(&keys, &[1; 16]), Layer::relay(&keys, &[2; 16]))
    }

    fn message(data: &[u8]) -> [u8; BODY_LEN] {
        let mut body = [0; BODY_LEN];
        body[0] = 2;
        body[9..11].copy_from_slice(&(data.len() as u16).to_be_bytes());
        body[11..11 + data.len()].copy_from_slice(data);
        body
    }

    #[test]
    fn a_circuit_without_cells_is_small() {
        // Three keystreams and two digests. A used keystream has 1 KiB more.
        let size = size_of::<Ends>();
        assert!(size < 1500, "{size} B");
    }

    #[test]
    fn only_the_last_hop_decrypts_a_cell_of_the_client_and_has_its_tag() {
        let mut path = [1, 2, 3].map(pair);
        for n in 0..20 {
            let data = vec![n; usize::from(n) * 20];
            let mut body = message(&data);
            let (last, nearer) = path.split_last_mut().unwrap();
            let tag = last.0.seal(&mut body);
            nearer.iter_mut().rev().for_each(|(client, _)| client.wrap(&mut body));
            assert_eq!(path[0].1.peel(&mut body), None);
            assert_eq!(path[1].1.peel(&mut body), None);
            assert_eq!(path[2].1.peel(&mut body), Some(tag));
            assert_eq!(body[11..11 + data.len()], data);
        }
    }

    #[test]
    fn the_client_recognises_which_hop_sent_a_cell() {
        let mut path = [1, 2, 3].map(pair);
        for speaker in [2, 1, 2, 0] {
            let mut body = message(b"hello");
            let tag = path[speaker].1.seal(&mut body);
            path[..speaker].iter_mut().rev().for_each(|(_, relay)| relay.wrap(&mut body));
            let recognised = path
                .iter_mut()
                .enumerate()
                .find_map(|(hop, (client, _))| Some((hop, client.peel(&mut body)?)));
            assert_eq!(recognised, Some((speaker, tag)));
        }
    }

    #[test]
    fn cells_after_a_lost_cell_cannot_be_decrypted() {
        let (mut client, mut relay) = pair(9);
        client.seal(&mut message(b"lost"));
        let mut body = message(b"next");
        client.seal(&mut body);
        assert_eq!(relay.peel(&mut body), None);
    }

    #[test]
    fn the_padding_of_each_cell_is_different() {
        let (mut client, mut relay) = pair(9);
        let mut read = || {
            let mut body = message(b"one");
            client.seal(&mut body);
            relay.peel(&mut body).expect("the cell is decrypted");
            assert_eq!(body[14..18], [0; 4]);
            body[18..].to_vec()
        };
        let first = read();
        assert_ne!(first, read());
        assert!(first.iter().any(|byte| *byte != 0));
    }

    #[cfg(feature = "oracles")]
    proptest! {
        /// Arti's layers give the same bytes, for messages in any order.
        #[test]
        fn arti_gives_the_same_bytes(
            keys in any::<[u8; 32]>(),
            messages in proptest::collection::vec((any::<bool>(), any::<u8>(), 0usize..=498), 1..20),
        ) {
            use tor_proto::bench_utils::{
                ClientLayer, CryptInit, InboundClientLayer, InboundRelayLayer, OutboundClientLayer,
                OutboundRelayLayer, RelayCellBody, RelayLayer, tor1,
            };
            type Pair = tor1::CryptStatePair<tor_llcrypto::cipher::aes::Aes128Ctr, Sha1>;
            let command = tor_cell::chancell::ChanCmd::RELAY;
            let mut seed = [0; 92];
            seed.iter_mut().zip(keys.iter().cycle()).enumerate().for_each(|(n, (byte, key))| *byte = key ^ n as u8);
            let ours = Zeroizing::new(seed);
            let (mut client, mut relay) = (Layer::client(&ours, &[5; 16]), Layer::relay(&ours, &[6; 16]));
            let (mut their_out, mut their_in, _) = Pair::initialize(&seed).unwrap().split_relay_layer();
            let (mut client_out, mut client_in, _) = Pair::initialize(&seed).unwrap().split_client_layer();
            for (forward, byte, len) in messages {
                let mut body = message(&vec![byte; len]);
                // Each side decrypts the messages of the other side, with the same tags.
                let sealed = if forward { client.seal(&mut body) } else { relay.seal(&mut body) };
                let mut theirs: RelayCellBody = Box::new(body).into();
                let tag = if forward {
                    their_out.decrypt_outbound(command, &mut theirs)
                } else {
                    client_in.decrypt_inbound(command, &mut theirs)
                };
                prop_assert_eq!(tag, Some(tor_cell::relaycell::msg::SendmeTag::from(sealed.0)));
                let mut copy: RelayCellBody = Box::new(message(&vec![byte; len])).into();
                let tag = if forward {
                    client_out.originate_for(command, &mut copy)
                } else {
                    their_in.originate(command, &mut copy)
                };
                let mut copy = *Box::<[u8; BODY_LEN]>::from(copy);
                let read = if forward { relay.peel(&mut copy) } else { client.peel(&mut copy) };
                prop_assert_eq!(read.map(|tag| tor_cell::relaycell::msg::SendmeTag::from(tag.0)), Some(tag));
            }
        }
    }
}
