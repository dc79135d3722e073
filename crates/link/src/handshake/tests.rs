//! Tests of two honest nodes, and of one node against misbehaving peers.

use super::*;
use crate::cell::CELL_LEN;
use crate::certs::CertsError;
use crate::certs::tests::{now, relays};
use crate::keys::Keys;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::sync::OnceLock;

const LEFT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const RIGHT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// The exported secret in all tests.
fn export(context: &[u8; 32]) -> Option<[u8; 32]> {
    Some(context.map(|byte| byte ^ 0x5A))
}

fn of(keys: &Keys) -> Identity {
    Identity { rsa: keys.rsa_identity(), ed25519: keys.ed25519_identity() }
}

/// Relay 0 (left) opens a connection to relay 1 (right).
fn initiator(authenticate: bool) -> Link {
    let [_, (keys, credentials)] = relays();
    let expected = Expected { rsa: Some(keys.rsa_identity()), ed25519: Some(keys.ed25519_identity()) };
    if authenticate {
        Link::connect(expected, credentials.tls_sha256(), RIGHT, vec![LEFT])
    } else {
        Link::connect_as_client(expected, credentials.tls_sha256(), RIGHT)
    }
}

fn responder() -> Link {
    Link::respond(&mut rand::rng(), LEFT, vec![RIGHT])
}

fn left(link: &mut Link, bytes: &[u8]) -> Result<Option<Established>, LinkFailure> {
    link.on_bytes(now(), bytes, &relays()[0].1, &export, &mut rand::rng())
}

fn right(link: &mut Link, bytes: &[u8]) -> Result<Option<Established>, LinkFailure> {
    link.on_bytes(now(), bytes, &relays()[1].1, &export, &mut rand::rng())
}

#[test]
fn two_relays_authenticate_each_other() {
    let (mut a, mut b) = (initiator(true), responder());
    assert_eq!(right(&mut b, &a.poll_output()), Ok(None));
    let at_a = left(&mut a, &b.poll_output()).unwrap().expect("the responder has sent all cells");
    let at_b = right(&mut b, &a.poll_output()).unwrap().expect("the initiator has sent all cells");
    let seconds = 1_790_000_000;
    let netinfo = Netinfo { time: seconds, yours: Some(LEFT), mine: vec![RIGHT] };
    let expected = Established {
        version: 5,
        peer: Peer::Relay(of(&relays()[1].0)),
        netinfo,
        hop_control: None,
        datagrams: false,
        rest: Vec::new(),
    };
    assert_eq!(at_a, expected);
    let netinfo = Netinfo { time: seconds, yours: Some(RIGHT), mine: vec![LEFT] };
    let expected = Established {
        version: 5,
        peer: Peer::Relay(of(&relays()[0].0)),
        netinfo,
        hop_control: None,
        datagrams: false,
        rest: Vec::new(),
    };
    assert_eq!(at_b, expected);
    assert!(at_a.is_canonical(RIGHT) && at_b.is_canonical(LEFT));
    assert!(!at_a.is_canonical(LEFT), "a connection from another address is not canonical");
}

#[test]
fn a_client_stays_anonymous_and_sends_neither_time_nor_address() {
    let (mut a, mut b) = (initiator(false), responder());
    assert_eq!(right(&mut b, &a.poll_output()), Ok(None));
    left(&mut a, &b.poll_output()).unwrap().expect("the responder has sent all cells");
    let sent = a.poll_output();
    assert_eq!(sent.len(), CELL_LEN);
    let at_b = right(&mut b, &sent).unwrap().expect("the client has sent all cells");
    assert_eq!(at_b.peer, Peer::Client);
    assert_eq!((at_b.netinfo.time, &at_b.netinfo.mine[..]), (0, &[][..]));
    assert!(!at_b.is_canonical(LEFT));
}

const CREDITS: Option<HopOffer> = Some(HopOffer::Credits { start: 90, most: 500 });
const MORE: Option<HopOffer> = Some(HopOffer::Credits { start: 100, most: 510 });

/// The agreements of an initiator and a responder with these announcements.
fn agreements(ours: Extensions, theirs: Extensions, authenticate: bool) -> [Option<HopOffer>; 2] {
    let mut a = initiator(authenticate).with_extensions(ours);
    let mut b = responder().with_extensions(theirs);
    right(&mut b, &a.poll_output()).unwrap();
    let at_a = left(&mut a, &b.poll_output()).unwrap().expect("the responder has sent all cells");
    let at_b = right(&mut b, &a.poll_output()).unwrap().expect("the initiator has sent all cells");
    [at_a.hop_control, at_b.hop_control]
}

#[test]
fn both_nodes_agree_on_the_hop_control_that_both_announce() {
    let both = |offer| Extensions { with_relay: offer, with_client: offer, ..Extensions::default() };
    for authenticate in [true, false] {
        let of = |ours, theirs| agreements(ours, theirs, authenticate);
        assert_eq!(of(both(CREDITS), both(MORE)), [MORE, CREDITS], "each node learns the peer's numbers");
        for (ours, theirs) in [
            (both(CREDITS), both(None)),
            (both(None), both(CREDITS)),
            (both(CREDITS), both(Some(HopOffer::BackTap))),
        ] {
            assert_eq!(of(ours, theirs), [None, None]);
        }
    }
}

#[test]
fn links_with_clients_have_their_own_agreement() {
    let all = Extensions { with_relay: CREDITS, with_client: CREDITS, ..Extensions::default() };
    let relays = Extensions { with_client: None, ..all };
    assert_eq!(agreements(all, relays, true), [CREDITS; 2]);
    assert_eq!(agreements(all, relays, false), [None; 2]);
    assert_eq!(agreements(relays, all, false), [None; 2]);
}

#[test]
fn an_announcement_may_arrive_in_pieces() {
    let all = Extensions { with_relay: CREDITS, with_client: CREDITS, ..Extensions::default() };
    let mut a = initiator(false).with_extensions(all);
    let mut b = responder().with_extensions(all);
    for byte in a.poll_output() {
        right(&mut b, &[byte]).unwrap();
    }
    let sent = b.poll_output();
    let mut done = None;
    for byte in sent {
        done = left(&mut a, &[byte]).unwrap();
    }
    assert_eq!(done.expect("all cells arrived").hop_control, CREDITS);
}

#[test]
fn a_malformed_or_second_announcement_is_rejected_and_other_padding_ignored() {
    let answer = |padding: &[&[u8]]| {
        let mut b = responder();
        right(&mut b, &initiator(false).poll_output()).unwrap();
        let mut sent: Vec<u8> = padding.iter().flat_map(|body| variable(command::VPADDING, body)).collect();
        push_fixed(&mut sent, command::NETINFO, &Netinfo::default().write());
        right(&mut b, &sent).map(|done| done.is_some())
    };
    let said = Extensions { with_client: CREDITS, ..Extensions::default() }.write().unwrap();
    assert_eq!(answer(&[&said]), Ok(true));
    assert_eq!(answer(&[&[0; 2000], b"penstoc", &said, b""]), Ok(true));
    assert_eq!(answer(&[&said[..said.len() - 1]]), Err(LinkFailure::Malformed(command::VPADDING)));
    assert_eq!(answer(&[&said, &said]), Err(LinkFailure::Unexpected(command::VPADDING)));
}

#[test]
fn bytes_after_the_handshake_are_returned() {
    let (mut a, mut b) = (initiator(false), responder());
    right(&mut b, &a.poll_output()).unwrap();
    left(&mut a, &b.poll_output()).unwrap();
    let mut sent = a.poll_output();
    sent.extend_from_slice(&[1, 2, 3]);
    assert_eq!(right(&mut b, &sent).unwrap().unwrap().rest, [1, 2, 3]);
}

#[test]
fn a_relay_with_an_unexpected_identity_is_rejected() {
    let [(keys, _), (_, credentials)] = relays();
    for expected in [
        Expected { rsa: Some(keys.rsa_identity()), ed25519: None },
        Expected { rsa: None, ed25519: Some(keys.ed25519_identity()) },
    ] {
        let mut a = Link::connect(expected, credentials.tls_sha256(), RIGHT, vec![LEFT]);
        let mut b = responder();
        right(&mut b, &a.poll_output()).unwrap();
        assert_eq!(left(&mut a, &b.poll_output()), Err(LinkFailure::WrongIdentity));
    }
}

#[test]
fn a_relay_with_another_tls_certificate_is_rejected() {
    let mut a = Link::connect(Expected::default(), [0; 32], RIGHT, vec![LEFT]);
    let mut b = responder();
    right(&mut b, &a.poll_output()).unwrap();
    assert_eq!(left(&mut a, &b.poll_output()), Err(LinkFailure::Certs(CertsError::WrongSubject(5))));
}

#[test]
fn authentication_is_bound_to_the_connection() {
    let (mut a, mut b) = (initiator(true), responder());
    right(&mut b, &a.poll_output()).unwrap();
    left(&mut a, &b.poll_output()).unwrap();
    let sent = a.poll_output();
    let other = |_: &[u8; 32]| Some([9; 32]);
    let result = b.on_bytes(now(), &sent, &relays()[1].1, &other, &mut rand::rng());
    assert_eq!(result, Err(LinkFailure::BadAuthentication));
    // At another responder the same bytes fail, because its challenge or its log differs.
    let mut c = responder();
    right(&mut c, &initiator(true).poll_output()).unwrap();
    assert_eq!(right(&mut c, &sent), Err(LinkFailure::BadAuthentication));
    let mut d = responder();
    right(&mut d, &initiator(true).poll_output()).unwrap();
    let nothing = |_: &[u8; 32]| None;
    assert_eq!(
        d.on_bytes(now(), &sent, &relays()[1].1, &nothing, &mut rand::rng()),
        Err(LinkFailure::NoExporter)
    );
}

fn versions(list: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    let body: Vec<u8> = list.iter().flat_map(|version| version.to_be_bytes()).collect();
    push_variable(&mut out, IdLen::Two, command::VERSIONS, &body);
    out
}

fn variable(command: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_variable(&mut out, IdLen::Four, command, body);
    out
}

fn fixed(command: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_fixed(&mut out, command, body);
    out
}

fn netinfo() -> Vec<u8> {
    fixed(command::NETINFO, &Netinfo::default().write())
}

/// The result of a responder after all these bytes.
fn respond_to(sent: &[Vec<u8>]) -> Result<Option<Established>, LinkFailure> {
    right(&mut responder(), &sent.concat())
}

#[test]
fn the_highest_common_version_is_selected() {
    for (list, version) in [(&[3, 4][..], 4), (&[4, 5], 5), (&[5, 4, 3], 5), (&[5, 6, 99], 5)] {
        assert_eq!(respond_to(&[versions(list), netinfo()]).unwrap().unwrap().version, version);
    }
    for list in [&[][..], &[3], &[1, 2, 3], &[6]] {
        assert_eq!(respond_to(&[versions(list)]), Err(LinkFailure::NoCommonVersion));
    }
}

#[test]
fn a_peer_without_the_tor_protocol_is_rejected_at_its_first_bytes() {
    assert_eq!(respond_to(&[b"GET / HTTP/1.1".to_vec()]), Err(LinkFailure::NotTor));
    assert_eq!(respond_to(&[vec![0, 0, command::NETINFO]]), Err(LinkFailure::NotTor));
    assert_eq!(respond_to(&[vec![0, 0]]), Ok(None));
}

#[test]
fn cells_must_have_the_right_order_and_length() {
    let hello = versions(&[4, 5]);
    for (sent, failure) in [
        (versions(&[4, 5]), LinkFailure::Unexpected(0)),
        (fixed(command::RELAY, &[]), LinkFailure::Unexpected(command::RELAY)),
        (fixed(command::CREATE_FAST, &[]), LinkFailure::Unexpected(command::CREATE_FAST)),
        (variable(132, &[]), LinkFailure::Unexpected(132)),
        (variable(command::AUTHENTICATE, &[]), LinkFailure::Unexpected(command::AUTHENTICATE)),
        (variable(command::AUTH_CHALLENGE, &[0; 36]), LinkFailure::Unexpected(command::AUTH_CHALLENGE)),
        (variable(command::CERTS, &[0]), LinkFailure::Certs(CertsError::Missing(4))),
        (variable(command::CERTS, &[9]), LinkFailure::Certs(CertsError::Malformed)),
        (fixed(command::NETINFO, &[0, 0, 0, 0, 4, 9]), LinkFailure::Malformed(command::NETINFO)),
        (vec![0, 0, 0, 0, command::CERTS, 0x80, 0], LinkFailure::TooMuch),
        (vec![0, 0, 0, 0, command::AUTHENTICATE, 0x20, 0], LinkFailure::TooMuch),
    ] {
        let result = respond_to(&[hello.clone(), sent.clone()]);
        // A second VERSIONS cell is parsed as the start of a cell with a longer id.
        let expected = if sent == versions(&[4, 5]) { Err(LinkFailure::Unexpected(4)) } else { Err(failure) };
        assert_eq!(result, expected, "{sent:?}");
    }
    assert_eq!(respond_to(&[vec![0, 0, 7, 1, 2]]), Err(LinkFailure::TooMuch));
}

#[test]
fn unsigned_certificates_are_rejected() {
    let certs = variable(command::CERTS, relays()[0].1.initiator_certs());
    let hello = versions(&[5]);
    assert_eq!(
        respond_to(&[hello.clone(), certs.clone(), netinfo()]),
        Err(LinkFailure::Unexpected(command::NETINFO))
    );
    assert_eq!(respond_to(&[hello, certs.clone(), certs]), Err(LinkFailure::Unexpected(command::CERTS)));
}

#[test]
fn padding_is_accepted_after_versions_up_to_a_limit() {
    let padding = [fixed(command::PADDING, &[]), variable(command::VPADDING, &[1; 1000])].concat();
    assert!(respond_to(&[versions(&[5]), padding.clone(), netinfo()]).unwrap().is_some());
    let (mut link, mut total) = (responder(), 0);
    right(&mut link, &versions(&[5])).unwrap();
    let failure = loop {
        total += padding.len();
        if let Err(failure) = right(&mut link, &padding) {
            break failure;
        }
        assert!(link.inbuf.is_empty() && total <= MAX_TOTAL + padding.len());
    };
    assert_eq!(failure, LinkFailure::TooMuch);
}

#[test]
fn a_long_padding_cell_is_not_kept() {
    let long = variable(command::VPADDING, &[1; 60_000]);
    let (mut whole, mut pieces) = (responder(), responder());
    for link in [&mut whole, &mut pieces] {
        right(link, &versions(&[5])).unwrap();
    }
    right(&mut whole, &long).unwrap();
    for piece in long.chunks(1000) {
        right(&mut pieces, piece).unwrap();
        pieces.poll_output();
        assert!(pieces.memory() <= 3 * KEPT, "{} B", pieces.memory());
    }
    assert_eq!(pieces.received.digest(), whole.received.digest());
    assert!(right(&mut pieces, &netinfo()).unwrap().is_some());
}

#[test]
fn padding_before_authentication_is_signed() {
    let (mut a, mut b) = (initiator(true), responder());
    let mut hello = a.poll_output();
    right(&mut b, &hello).unwrap();
    let sent = b.poll_output();
    // A man in the middle adds a cell that the responder did not send.
    let place = versions(&[4, 5]).len();
    let padded = [&sent[..place], &variable(command::VPADDING, &[0; 9]), &sent[place..]].concat();
    left(&mut a, &padded).unwrap().expect("the initiator cannot detect it");
    hello = a.poll_output();
    assert_eq!(right(&mut b, &hello), Err(LinkFailure::BadAuthentication));
}

#[test]
fn a_responder_that_skips_a_step_is_rejected() {
    let (mut a, mut b) = (initiator(true), responder());
    right(&mut b, &a.poll_output()).unwrap();
    let hello = versions(&[5]);
    let certs = variable(command::CERTS, relays()[1].1.responder_certs());
    let challenge = variable(command::AUTH_CHALLENGE, &[&[0; 32][..], &[0, 1, 0, 3]].concat());
    let old = variable(command::AUTH_CHALLENGE, &[&[0; 32][..], &[0, 1, 0, 1]].concat());
    for (sent, failure) in [
        (vec![&hello, &netinfo()], LinkFailure::Unexpected(command::NETINFO)),
        (vec![&hello, &challenge], LinkFailure::Unexpected(command::AUTH_CHALLENGE)),
        (vec![&hello, &certs, &netinfo()], LinkFailure::Unexpected(command::NETINFO)),
        (vec![&hello, &certs, &certs], LinkFailure::Unexpected(command::CERTS)),
        (vec![&hello, &certs, &challenge, &challenge], LinkFailure::Unexpected(command::AUTH_CHALLENGE)),
        (vec![&hello, &certs, &old], LinkFailure::NoCommonMethod),
        (
            vec![&hello, &certs, &variable(command::AUTH_CHALLENGE, &[0; 9])],
            LinkFailure::Malformed(command::AUTH_CHALLENGE),
        ),
    ] {
        let sent: Vec<u8> = sent.into_iter().flatten().copied().collect();
        assert_eq!(left(&mut initiator(true), &sent), Err(failure));
    }
}

/// The reply of a relay to the responder's bytes `answer`, the same at each call.
fn conversation() -> &'static [Vec<u8>; 3] {
    static SAID: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    SAID.get_or_init(|| {
        let (mut a, mut b) = (initiator(true), responder());
        let hello = a.poll_output();
        right(&mut b, &hello).unwrap();
        let answer = b.poll_output();
        left(&mut a, &answer).unwrap();
        [hello, answer, a.poll_output()]
    })
}

#[test]
fn every_split_of_the_responders_bytes_gives_the_same_result() {
    let [_, answer, _] = conversation();
    for split in 0..=answer.len() {
        let mut a = initiator(true);
        let (head, tail) = answer.split_at(split);
        let first = left(&mut a, head).unwrap();
        let established = if split == answer.len() { first } else { left(&mut a, tail).unwrap() };
        assert!(
            established.is_some_and(|link| link.rest.is_empty() && link.version == 5),
            "split at {split}"
        );
    }
}

#[test]
fn every_split_of_the_initiators_bytes_gives_the_same_result() {
    // A new responder for each split, because the signed bytes include its challenge.
    let len = conversation()[2].len();
    for split in (0..=len).step_by(7).chain([1, 4, 5, 6, 7, 8, len - 1, len]) {
        let (mut a, mut b) = (initiator(true), responder());
        for byte in a.poll_output() {
            assert_eq!(right(&mut b, &[byte]), Ok(None));
        }
        left(&mut a, &b.poll_output()).unwrap();
        let sent = a.poll_output();
        let (head, tail) = sent.split_at(split);
        let first = right(&mut b, head).unwrap();
        let established = if split == len { first } else { right(&mut b, tail).unwrap() };
        assert_eq!(
            established.map(|link| link.peer),
            Some(Peer::Relay(of(&relays()[0].0))),
            "split at {split}"
        );
    }
}

#[test]
fn an_incomplete_handshake_waits_with_bounded_memory() {
    let [_, answer, _] = conversation();
    for len in 0..answer.len() {
        let mut a = initiator(true);
        assert_eq!(left(&mut a, &answer[..len]), Ok(None));
        assert!(a.inbuf.len() <= 20 * 1024 && a.inbuf.capacity() <= 64 * 1024);
    }
}

proptest! {
    /// Random bytes, also after a valid start, with any split. At most the link fails, and it uses
    /// little memory.
    #[test]
    fn random_bytes_fail_with_a_reason(
        good in 0usize..6000,
        garbage in proptest::collection::vec(any::<u8>(), 0..3000),
        piece in 1usize..2000,
        as_initiator: bool,
    ) {
        let [hello, answer, proof] = conversation();
        let sent = if as_initiator { answer.clone() } else { [&hello[..], proof].concat() };
        let sent = [&sent[..good.min(sent.len())], &garbage].concat();
        let mut link = if as_initiator { initiator(true) } else { responder() };
        for piece in sent.chunks(piece) {
            let result = if as_initiator { left(&mut link, piece) } else { right(&mut link, piece) };
            prop_assert!(link.inbuf.len() <= 66 * 1024);
            match result {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => break,
            }
        }
    }

    /// One byte of a valid handshake is changed. The link fails or waits, but never accepts a wrong
    /// identity.
    #[test]
    fn a_changed_byte_never_gives_a_wrong_identity(at: proptest::sample::Index, bit in 0u8..8) {
        let [_, answer, _] = conversation();
        let mut sent = answer.clone();
        let at = at.index(sent.len());
        sent[at] ^= 1 << bit;
        if let Ok(Some(established)) = left(&mut initiator(true), &sent) {
            prop_assert_eq!(established.peer, Peer::Relay(of(&relays()[1].0)));
        }
    }
}
