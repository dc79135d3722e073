//! The committed corpus and random inputs break no invariant. The corpus still reaches each state
//! that it covers.

use penstock_fuzzing::{
    Datagram, Reached, cells, consensus, credits, datagrams, directory, handshake, relay, socks, torrc,
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

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
