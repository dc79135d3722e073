//! Comparison of descriptors with Arti's parser.

use super::*;
use crate::certs::tests::{now, relays};
use proptest::prelude::*;
use tor_checkable::{SelfSigned, TimeBound};
use tor_netdoc::doc::routerdesc::RouterDesc;

fn description() -> Description {
    Description {
        nickname: "penstock".into(),
        address: [192, 0, 2, 1].into(),
        or_port: 9001,
        ipv6: Some("[2001:db8::1]:9001".parse().unwrap()),
        platform: None,
        protocols: "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-4"
            .into(),
        started: now() - Duration::from_secs(100),
        bandwidth: [1_000_000, 2_000_000, 500_000],
        contact: Some("nobody <nobody@example.org>".into()),
        family: vec![format!("${}", relays()[1].0.fingerprint())],
        directory: true,
        policy: ExitPolicy::new(vec!["accept *:443".parse().unwrap()], Private::Rejected, Vec::new()),
    }
}

fn read(text: &str) -> RouterDesc {
    let unchecked = RouterDesc::parse(text).expect("the text is a descriptor");
    unchecked
        .check_signature()
        .expect("the signature is valid")
        .if_valid_at(&now())
        .expect("the descriptor is valid now")
}

#[test]
fn arti_parses_a_descriptor_and_accepts_its_signatures() {
    let keys = &relays()[0].0;
    let text = description().write(keys, now()).unwrap();
    let read = read(&text);
    assert_eq!(read.rsa_identity().to_bytes(), keys.rsa_identity());
    assert_eq!(read.ed_identity().as_bytes(), keys.ed25519_identity());
    assert_eq!(read.ntor_onion_key().as_bytes(), keys.onion.public.as_bytes());
    assert_eq!(read.published(), now());
    let ports: Vec<_> = read.or_ports().collect();
    assert_eq!(ports, ["192.0.2.1:9001".parse().unwrap(), "[2001:db8::1]:9001".parse().unwrap()]);
    assert!(text.contains("\naccept *:443\nreject *:*\nipv6-policy accept 443\n"));
    assert!(text.contains("\nuptime 100\nbandwidth 1000000 2000000 500000\n"));
}

#[test]
fn a_minimal_descriptor_is_valid() {
    let least = Description {
        ipv6: None,
        contact: None,
        family: Vec::new(),
        directory: false,
        policy: ExitPolicy::default(),
        ..description()
    };
    let text = least.write(&relays()[0].0, now()).unwrap();
    read(&text);
    assert!(text.contains("\nreject *:*\nrouter-sig-ed25519 "));
}

#[test]
fn a_descriptor_needs_the_signature_of_its_relay() {
    let text = description().write(&relays()[0].0, now()).unwrap();
    let changed = text.replace("bandwidth 1000000", "bandwidth 9000000");
    assert!(RouterDesc::parse(&changed).is_ok_and(|unchecked| unchecked.check_signature().is_err()));
}

#[test]
fn text_that_could_begin_a_new_line_is_rejected() {
    let keys = &relays()[0].0;
    let sign = |change: fn(&mut Description)| {
        let mut description = description();
        change(&mut description);
        description.write(keys, now())
    };
    assert_eq!(sign(|it| it.contact = Some("a\nreject *:*".into())), Err(BadDescription::Text("contact")));
    assert_eq!(sign(|it| it.platform = Some("a\r".into())), Err(BadDescription::Text("platform")));
    assert_eq!(sign(|it| it.family = vec!["a b".into()]), Err(BadDescription::Text("family")));
    assert_eq!(sign(|it| it.bandwidth = [2, 1, 0]), Err(BadDescription::Bandwidth));
    for name in ["", "a b", "abcdefghijklmnopqrst", "näme", "a_b"] {
        let mut description = description();
        description.nickname = name.into();
        assert_eq!(description.write(keys, now()), Err(BadDescription::Nickname(name.into())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn arti_parses_any_valid_description(
        nickname in "[a-zA-Z0-9]{1,19}", address: [u8; 4], or_port in 1u16.., rate in 0u64..1 << 31, contact in "[ -~]{1,80}"
    ) {
        let original = Description {
            nickname: nickname.clone(), address: address.into(), or_port, bandwidth: [rate; 3], contact: Some(contact), ..description()
        };
        let read = read(&original.write(&relays()[0].0, now()).unwrap());
        prop_assert_eq!(read.or_ports().next(), Some(std::net::SocketAddr::new(address.into(), or_port)));
    }
}
