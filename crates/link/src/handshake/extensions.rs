//! Abilities that C tor does not know. Two Penstock nodes announce them to each other in a VPADDING cell, immediately
//! before NETINFO.
//!
//! ```text
//! body of the VPADDING cell:  "penstock"  records
//! record:                     kind (1 byte)  length (1 byte)  content
//! ```
//!
//! | kind | content |
//! |---|---|
//! | 1 | hop control on a link between two relays |
//! | 2 | hop control on a link with a client at one end |
//! | 3 | circuit cells in datagrams; no content |
//!
//! A receiver skips records of unknown kinds and offers of unknown algorithms, so later versions can add both. The
//! responder announces everything that it offers. The initiator then announces only what both nodes offer, so both
//! nodes reach the same agreement.
//!
//! C tor ignores VPADDING cells during and after the link handshake. AUTHENTICATE does not sign this cell: C tor computes
//! the digest of an initiator at AUTH_CHALLENGE, and the digest of a responder at AUTHENTICATE. TLS protects the cell.
//! Source: C tor `channel_tls_handle_var_cell()`, `channel_tls_process_auth_challenge_cell()`,
//! `channel_tls_process_authenticate_cell()`.

use crate::wire::{Malformed, Reader};
use penstock_core::hop_control::HopOffer;

/// The first bytes of the body. Other VPADDING cells are padding.
const MAGIC: &[u8; 8] = b"penstock";
/// Maximum length of a body with announcements [B]. Longer VPADDING cells are padding.
pub(super) const MAX_LEN: usize = 512;

const HOP_WITH_RELAY: u8 = 1;
const HOP_WITH_CLIENT: u8 = 2;
const DATAGRAMS: u8 = 3;

const CREDITS: u8 = 1;
const BACKTAP: u8 = 2;
const MARUT_HOP: u8 = 3;
const MARUT_PATH: u8 = 4;
const CUSTOM: u8 = 255;

/// The abilities that a node announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Hop control on a link between two relays.
    pub with_relay: Option<HopOffer>,
    /// Hop control on a link with a client at one end.
    pub with_client: Option<HopOffer>,
    /// Circuit cells in datagrams.
    pub datagrams: bool,
}

impl Extensions {
    /// The offer of hop control on one link. `with_client`: one end of the link is a client.
    pub fn hop_control(&self, with_client: bool) -> Option<HopOffer> {
        if with_client { self.with_client } else { self.with_relay }
    }

    /// The part of the announcement for one kind of link.
    pub(super) fn for_link(self, with_client: bool) -> Extensions {
        Extensions {
            with_relay: self.with_relay.filter(|_| !with_client),
            with_client: self.with_client.filter(|_| with_client),
            ..self
        }
    }

    /// The part of this node's announcement that fits to the peer's announcement.
    pub(super) fn in_common(&self, theirs: &Extensions) -> Extensions {
        let fits = |ours: Option<HopOffer>, theirs| ours.filter(|_| HopOffer::agree(ours, theirs).is_some());
        Extensions {
            with_relay: fits(self.with_relay, theirs.with_relay),
            with_client: fits(self.with_client, theirs.with_client),
            datagrams: self.datagrams && theirs.datagrams,
        }
    }

    /// The body of the VPADDING cell; `None` if the node announces nothing, and then sends no cell.
    pub fn write(&self) -> Option<Vec<u8>> {
        if *self == Extensions::default() {
            return None;
        }
        let mut body = MAGIC.to_vec();
        for (kind, offer) in [(HOP_WITH_RELAY, self.with_relay), (HOP_WITH_CLIENT, self.with_client)] {
            let Some(offer) = offer else { continue };
            let content = write_offer(offer);
            body.extend_from_slice(&[kind, content.len() as u8]);
            body.extend_from_slice(&content);
        }
        if self.datagrams {
            body.extend_from_slice(&[DATAGRAMS, 0]);
        }
        Some(body)
    }

    /// Parses the body of a VPADDING cell. Returns `None` for padding.
    ///
    /// # Errors
    ///
    /// If the body begins with the magic bytes, but a record is malformed or occurs twice.
    pub fn read(body: &[u8]) -> Result<Option<Extensions>, Malformed> {
        let Some(records) = body.strip_prefix(MAGIC).filter(|_| body.len() <= MAX_LEN) else {
            return Ok(None);
        };
        let (mut reader, mut extensions) = (Reader::new(records), Extensions::default());
        while !reader.is_empty() {
            let (kind, len) = (reader.u8()?, reader.u8()?);
            let content = reader.take(len.into())?;
            let place = match kind {
                HOP_WITH_RELAY => &mut extensions.with_relay,
                HOP_WITH_CLIENT => &mut extensions.with_client,
                DATAGRAMS if !std::mem::replace(&mut extensions.datagrams, true) => continue,
                DATAGRAMS => return Err(Malformed),
                _ => continue,
            };
            let Some(offer) = read_offer(content)? else { continue };
            if place.replace(offer).is_some() {
                return Err(Malformed);
            }
        }
        Ok(Some(extensions))
    }
}

fn write_offer(offer: HopOffer) -> Vec<u8> {
    match offer {
        HopOffer::Credits { start, most } => {
            [&[CREDITS][..], &start.to_be_bytes(), &most.to_be_bytes()].concat()
        }
        HopOffer::BackTap => vec![BACKTAP],
        HopOffer::Marut { path } => vec![if path { MARUT_PATH } else { MARUT_HOP }],
        HopOffer::Custom(number) => [&[CUSTOM][..], &number.to_be_bytes()].concat(),
    }
}

/// Parses an offer of hop control. Returns `None` for an unknown algorithm. An offer of a known algorithm with missing
/// or additional bytes is malformed.
fn read_offer(content: &[u8]) -> Result<Option<HopOffer>, Malformed> {
    let mut reader = Reader::new(content);
    let offer = match reader.u8()? {
        CREDITS => HopOffer::Credits { start: reader.u32()?, most: reader.u32()? },
        BACKTAP => HopOffer::BackTap,
        MARUT_HOP => HopOffer::Marut { path: false },
        MARUT_PATH => HopOffer::Marut { path: true },
        CUSTOM => HopOffer::Custom(reader.u32()?),
        _ => return Ok(None),
    };
    if reader.is_empty() { Ok(Some(offer)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_offer() -> impl Strategy<Value = Option<HopOffer>> {
        prop_oneof![
            Just(None),
            any::<(u32, u32)>().prop_map(|(start, most)| Some(HopOffer::Credits { start, most })),
            Just(Some(HopOffer::BackTap)),
            any::<bool>().prop_map(|path| Some(HopOffer::Marut { path })),
            any::<u32>().prop_map(|number| Some(HopOffer::Custom(number))),
        ]
    }

    #[test]
    fn records_of_unknown_kinds_are_skipped() {
        let body = [&MAGIC[..], &[77, 3, 1, 2, 3, HOP_WITH_CLIENT, 1, BACKTAP, 78, 0]].concat();
        let expected = Extensions { with_client: Some(HopOffer::BackTap), ..Extensions::default() };
        assert_eq!(Extensions::read(&body), Ok(Some(expected)));
    }

    #[test]
    fn offers_of_unknown_algorithms_are_skipped() {
        let newer = [HOP_WITH_RELAY, 3, 9, 1, 2];
        let body = [&MAGIC[..], &newer, &[HOP_WITH_CLIENT, 1, BACKTAP]].concat();
        let expected = Extensions { with_client: Some(HopOffer::BackTap), ..Extensions::default() };
        assert_eq!(Extensions::read(&body), Ok(Some(expected)));
        let body = [&MAGIC[..], &newer, &[HOP_WITH_RELAY, 1, BACKTAP]].concat();
        let expected = Extensions { with_relay: Some(HopOffer::BackTap), ..Extensions::default() };
        assert_eq!(
            Extensions::read(&body),
            Ok(Some(expected)),
            "a newer node may also offer a known algorithm"
        );
    }

    #[test]
    fn malformed_and_repeated_records_are_rejected() {
        let relay = [HOP_WITH_RELAY, 1, BACKTAP];
        for records in [
            &[HOP_WITH_RELAY][..],
            &[HOP_WITH_RELAY, 2, BACKTAP],
            &[HOP_WITH_RELAY, 0],
            &[HOP_WITH_RELAY, 2, BACKTAP, 0],
            &[HOP_WITH_CLIENT, 8, CREDITS, 0, 0, 0, 1, 0, 0, 0],
            &[relay, relay].concat(),
            &[DATAGRAMS, 0, DATAGRAMS, 0],
        ] {
            assert_eq!(Extensions::read(&[&MAGIC[..], records].concat()), Err(Malformed), "{records:?}");
        }
    }

    #[test]
    fn other_padding_is_no_announcement() {
        for body in [&b""[..], b"penstoc", b"Penstock", &[0; 600]] {
            assert_eq!(Extensions::read(body), Ok(None));
        }
        assert_eq!(Extensions::read(&[&MAGIC[..], &[0; MAX_LEN]].concat()), Ok(None), "it is too long");
        assert_eq!(Extensions::default().write(), None);
    }

    proptest! {
        #[test]
        fn a_written_announcement_parses_to_the_same(
            with_relay in any_offer(), with_client in any_offer(), datagrams: bool
        ) {
            let extensions = Extensions { with_relay, with_client, datagrams };
            let body = extensions.write();
            prop_assert_eq!(body.is_none(), extensions == Extensions::default());
            if let Some(body) = body {
                prop_assert!(body.len() <= MAX_LEN);
                prop_assert_eq!(Extensions::read(&body), Ok(Some(extensions)));
            }
        }

        #[test]
        fn both_nodes_reach_the_same_agreement(ours in any_offer(), theirs in any_offer()) {
            let [responder, initiator] = [ours, theirs].map(|with_relay| Extensions { with_relay, ..Extensions::default() });
            let said = initiator.in_common(&responder);
            let at_initiator = HopOffer::agree(said.with_relay, responder.with_relay);
            let at_responder = HopOffer::agree(responder.with_relay, said.with_relay);
            prop_assert_eq!(at_initiator.is_some(), at_responder.is_some());
        }

        #[test]
        fn no_bytes_cause_a_panic(records in proptest::collection::vec(any::<u8>(), 0..520)) {
            let _ = Extensions::read(&[&MAGIC[..], &records].concat());
        }
    }
}
