//! The committed corpus and random inputs break no invariant. The corpus still reaches each state
//! that it covers.

use penstock_fuzzing::{
    Datagram, Meeting, Reached, cells, consensus, credits, datagrams, directory, handshake, onion_service,
    relay, socks, torrc,
};
use penstock_link::certs::CertsError;
use penstock_link::handshake::{LinkFailure, Peer};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

/// The inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn the_corpus_completes_handshakes_and_covers_all_failures() {
    let outcomes: Vec<_> = corpus("handshake").iter().map(|input| handshake(input)).collect();
    let peers: Vec<_> = outcomes.iter().flatten().flatten().collect();
    assert!(peers.iter().any(|peer| **peer == Peer::Client), "a client");
    assert!(peers.iter().any(|peer| matches!(peer, Peer::Relay(_))), "a relay");
    let failures: Vec<LinkFailure> = outcomes.iter().filter_map(|outcome| outcome.err()).collect();
    for failure in [
        LinkFailure::NotTor,
        LinkFailure::NoCommonVersion,
        LinkFailure::NoCommonMethod,
        LinkFailure::TooMuch,
        LinkFailure::WrongIdentity,
        LinkFailure::BadAuthentication,
        LinkFailure::NoExporter,
        LinkFailure::Certs(CertsError::Malformed),
    ] {
        assert!(failures.contains(&failure), "{failure:?}");
    }
    let kinds = |is_it: fn(&CertsError) -> bool| {
        failures.iter().any(|failure| matches!(failure, LinkFailure::Certs(error) if is_it(error)))
    };
    assert!(kinds(|error| matches!(error, CertsError::Missing(_))));
    assert!(kinds(|error| matches!(error, CertsError::Doubled(_))));
    assert!(kinds(|error| matches!(error, CertsError::BadSignature(_))));
    assert!(kinds(|error| matches!(error, CertsError::Expired(_))));
    assert!(kinds(|error| matches!(error, CertsError::WrongSubject(_))));
    assert!(failures.iter().any(|failure| matches!(failure, LinkFailure::Unexpected(_))));
    assert!(failures.iter().any(|failure| matches!(failure, LinkFailure::Malformed(_))));
}

#[test]
fn the_corpus_builds_circuits_and_covers_all_violations() {
    let reached: Vec<_> = corpus("relay").iter().map(|input| relay(input)).collect();
    let most = |count: fn(&Reached) -> u64| reached.iter().map(count).max().unwrap_or(0);
    let counts = [
        most(|reached| reached.circuits.into()),
        most(|reached| reached.extended.into()),
        most(|reached| reached.forwarded[0].into()),
        most(|reached| reached.forwarded[1].into()),
        most(|reached| reached.streams.into()),
        most(|reached| reached.sendmes.into()),
        most(|reached| reached.flow[0]),
        most(|reached| reached.flow[1]),
        most(|reached| reached.data[1]),
        most(|reached| reached.oom_closed),
        most(|reached| reached.linked),
        most(|reached| reached.reordering),
        most(|reached| reached.joined.into()),
    ];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let violations: BTreeSet<&str> =
        reached.iter().flat_map(|reached| &reached.violations).map(|violation| &violation[..]).collect();
    for violation in [
        "BadSequence",
        "BufferExceeded",
        "ForgedSendme",
        "QueueExceeded",
        "TooManyStreams",
        "UnexpectedCell",
        "UnexpectedEarlyCell",
        "UnexpectedFlowControl",
        "UnexpectedLink",
        "UnexpectedSendme",
        "Unrecognised",
        "WindowExceeded",
    ] {
        assert!(violations.contains(violation), "{violation}: {violations:?}");
    }
}

#[test]
fn the_corpus_has_cells_messages_and_handshakes() {
    let parsed = corpus("cells")
        .iter()
        .map(|input| cells(input))
        .fold([0; 3], |sum, more| [sum[0] + more[0], sum[1] + more[1], sum[2] + more[2]]);
    assert!(parsed.iter().all(|count| *count > 0), "{parsed:?}");
}

#[test]
fn the_corpus_fills_a_directory_cache_and_requests_documents() {
    let inputs = corpus("directory");
    let served = inputs.iter().map(|input| directory(input));
    let [taken, found] = served.fold([0; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]]);
    assert!(taken > 0 && found > 0, "the cache accepted {taken} documents and returned {found}");
}

#[test]
fn the_corpus_has_valid_and_invalid_options() {
    let taken: BTreeSet<bool> = corpus("torrc").iter().map(|input| torrc(input)).collect();
    assert_eq!(taken.len(), 2);
}

#[test]
fn the_corpus_has_each_kind_of_datagram() {
    let found: Vec<_> = corpus("datagrams").iter().map(|input| datagrams(input)).collect();
    for kind in [
        Datagram::Control,
        Datagram::Hello,
        Datagram::Feedback(4),
        Datagram::Cells,
        Datagram::Packets(true),
        Datagram::Packets(false),
        Datagram::Malformed,
    ] {
        assert!(found.contains(&kind), "{kind:?}");
    }
}

#[test]
fn the_corpus_has_valid_and_invalid_socks_requests() {
    let taken: BTreeSet<bool> = corpus("socks").iter().map(|input| socks(input)).collect();
    assert_eq!(taken.len(), 2);
}

#[test]
fn the_corpus_has_messages_of_services_and_clients() {
    let found: Vec<_> = corpus("onion_service").iter().map(|input| onion_service(input)).collect();
    for kind in [Meeting::Service(true), Meeting::Service(false), Meeting::Client, Meeting::Malformed] {
        assert!(found.contains(&kind), "{kind:?}");
    }
}

#[test]
fn the_corpus_has_announcements_credits_and_violations() {
    let reached = corpus("credits")
        .iter()
        .map(|input| credits(input))
        .fold([0; 3], |sum, more| [sum[0] + more[0], sum[1] + more[1], sum[2] + more[2]]);
    assert!(reached.iter().all(|count| *count > 0), "{reached:?}");
}

#[test]
fn the_corpus_has_valid_and_invalid_consensuses() {
    let outcomes: Vec<_> = corpus("consensus").iter().map(|input| consensus(input)).collect();
    let read = outcomes.iter().flatten();
    assert!(read.clone().any(|[relays, given]| *relays > 3 && *given > 3), "{outcomes:?}");
    assert!(read.clone().any(|[_, given]| *given == 0) && outcomes.contains(&None), "{outcomes:?}");
}

/// The input of a step that sends a message of linked circuits on the circuit with this number.
fn linking_message(number: u8, what: u8, content: u8) -> Vec<u8> {
    vec![3, number, 21, 0, what, content, 0]
}

/// The input of steps that build circuits with congestion control and link them. For each circuit: which of two sets
/// it joins, and whether the client confirms.
fn linked(legs: &[(bool, bool)]) -> Vec<u8> {
    let leg = |(number, (second, confirms)): (u8, &(bool, bool))| {
        let link = linking_message(number, if *second { 10 } else { 2 }, 3);
        let confirm = if *confirms { vec![3, number, 21, 0, 0, 0] } else { Vec::new() };
        // A scheduler with an interval sends the answer of the handshake after some time.
        [vec![1, 6, 0, number + 1], vec![25, 18], link, confirm].concat()
    };
    (0..).zip(legs).flat_map(leg).collect()
}

/// A step of the relay target on a linked circuit, or an event that concerns it.
fn linked_step() -> impl Strategy<Value = Vec<u8>> {
    let circuit = || 0u8..4;
    prop_oneof![
        6 => (circuit(), 0u8..4).prop_map(|(at, relative)| linking_message(at, 1, relative)),
        3 => (circuit(), 1u8..4).prop_map(|(at, stream)| vec![3, at, 0, stream, 0, 0, 0]),
        8 => (circuit(), 1u8..4, any::<u8>()).prop_map(|(at, stream, times)| vec![3, at, 4, stream, 4, times]),
        2 => (circuit(), 1u8..4).prop_map(|(at, stream)| vec![3, at, 8, stream, 1, 6, 0]),
        4 => circuit().prop_map(|at| vec![3, at, 10, 0]),
        4 => (0u8..4, any::<u8>(), any::<u8>()).prop_map(|(at, what, amount)| vec![16, at, what, amount]),
        2 => any::<u8>().prop_map(|time| vec![25, time]),
        1 => (0u8..4).prop_map(|stream| vec![18, stream, 6]),
        1 => (circuit(), any::<u8>(), 0u8..6).prop_map(|(at, what, ux)| linking_message(at, what, ux)),
        1 => (1u8..9).prop_map(|id| vec![1, 6, 0, id]),
        1 => circuit().prop_map(|at| vec![30, at, 0]),
        1 => any::<u8>().prop_map(|really| vec![31, 0, really]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn linked_circuits_break_no_invariant(
        kind: u8,
        scheduler: u8,
        edge in 4u8..8,
        flags: u8,
        legs in prop::collection::vec((prop::bool::weighted(0.2), any::<bool>()), 1..5),
        steps in prop::collection::vec(linked_step(), 5..150),
    ) {
        relay(&[vec![kind, scheduler, edge, flags], linked(&legs), steps.concat()].concat());
    }

    #[test]
    fn random_inputs_break_no_invariant(input in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = handshake(&input);
        relay(&input);
        cells(&input);
        directory(&input);
        torrc(&input);
        socks(&input);
        credits(&input);
        datagrams(&input);
    }
}
