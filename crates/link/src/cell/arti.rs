//! Compares our codec of relay messages with Arti's.

use super::*;
use penstock_core::StreamId;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use tor_cell::relaycell::{RelayCellFormat, UnparsedRelayMsg, msg};

fn stream(id: u16) -> Option<StreamId> {
    NonZeroU16::new(id).map(StreamId)
}

fn arti(stream: Option<StreamId>, message: &RelayMessage) -> Option<msg::AnyRelayMsg> {
    let body = Box::new(write(stream, message));
    let unparsed = UnparsedRelayMsg::from_singleton_body(RelayCellFormat::V0, body).ok()?;
    Some(unparsed.decode::<msg::AnyRelayMsg>().ok()?.into_msg())
}

proptest! {
    /// Arti finds the same fields in a message that our codec wrote.
    #[test]
    fn arti_reads_what_is_written(
        data in proptest::collection::vec(any::<u8>(), 1..=498), port in 1u16.., tag: [u8; 20], rate: u32, ed25519: bool
    ) {
        use msg::AnyRelayMsg as Arti;
        let Some(Arti::Data(read)) = arti(stream(1), &RelayMessage::Data(LivePayload::new(&data).unwrap())) else { panic!() };
        prop_assert_eq!(read.as_ref(), &data[..]);
        let target = Target::Host { host: "example.org".into(), port, flags: BeginFlags(1) };
        let Some(Arti::Begin(read)) = arti(stream(1), &RelayMessage::Begin(target)) else { panic!() };
        prop_assert_eq!((read.addr(), read.port()), (&b"example.org"[..], port));
        let Some(Arti::Sendme(read)) = arti(None, &RelayMessage::Sendme(Some(crate::crypto::tor1::Tag(tag)))) else { panic!() };
        prop_assert_eq!(read.into_sendme_tag(), Some(tag.into()));
        let Some(Arti::Xon(read)) = arti(stream(1), &RelayMessage::Xon(NonZeroU32::new(rate))) else { panic!() };
        prop_assert_eq!(format!("{:?}", read.kbytes_per_sec_ewma()).contains("Unlimited"), rate == 0, "{:?}", read);
        prop_assert!(rate == 0 || format!("{read:?}").contains(&rate.to_string()), "{:?}", read);
        let to = LinkSpec {
            addresses: vec![SocketAddr::new([10, 0, 0, 1].into(), port), SocketAddr::new([1; 16].into(), port)],
            rsa: tag,
            ed25519: ed25519.then_some([3; 32]),
        };
        let len = data.len().min(300);
        let handshake = Handshake { kind: HandshakeKind::NtorV3, data: data[..len].to_vec() };
        let Some(Arti::Extend2(read)) = arti(None, &RelayMessage::Extend(to, handshake)) else { panic!() };
        prop_assert_eq!(read.handshake(), &data[..len]);
        prop_assert_eq!(u16::from(read.handshake_type()), 3);
    }
}
