//! Properties of each throttle (G-43 to G-45), and the suite for all throttles.

mod all;
mod model;

use super::{
    BitSplitting, BitSplittingConfig, CELL, ClientSignals, Count, Flagging, FlaggingConfig, Threshold,
    ThresholdConfig, Throttle, ThrottleSignals, Throughput,
};
use crate::ClientKey;
use penstock_units::{Bytes, Cells, DataRate, Duration, Instant};
use proptest::prelude::*;

const BANDWIDTH: DataRate = DataRate::kib(400);

/// A refill. Entry `k` of `sent` is the number of cells that the relay sent to client `k` before
/// it.
fn refill(throttle: &mut impl Throttle, now: Instant, sent: &[u64], relays: u32) {
    let clients: Vec<_> = sent
        .iter()
        .zip(0..)
        .map(|(sent, key)| ClientSignals {
            client: ClientKey::first(key),
            sent: Cells::new(*sent),
            written: Bytes::new(sent * 512),
            read: Bytes::ZERO,
        })
        .collect();
    throttle.on_refill(now, &ThrottleSignals { clients: &clients, relays, bandwidth: Some(BANDWIDTH) });
}

fn rates(throttle: &impl Throttle, clients: usize) -> Vec<Option<u64>> {
    let rate = |key| throttle.rate(ClientKey::first(key)).map(DataRate::bytes_per_sec);
    (0..clients as u32).map(rate).collect()
}

proptest! {
    /// G-43: the clients' rates never exceed the relay's rate in total. Rates change if and only if
    /// N changes.
    #[test]
    fn the_shares_never_exceed_the_bandwidth(crowds in proptest::collection::vec((0usize..300, 0u32..20), 1..40)) {
        let mut throttle = BitSplitting::new(BitSplittingConfig::default());
        let (mut now, mut last) = (Instant::ZERO, None);
        for (clients, relays) in crowds {
            now += Duration::from_secs(1);
            refill(&mut throttle, now, &vec![7; clients], relays);
            let rate = throttle.rate(ClientKey::first(0)).map_or(0, DataRate::bytes_per_sec);
            prop_assert!(rate * clients as u64 <= BANDWIDTH.bytes_per_sec());
            prop_assert!(rates(&throttle, clients).iter().all(|other| *other == Some(rate)));
            let among = clients as u64 + u64::from(relays);
            if let Some((before, had)) = last {
                let splits = |among: u64| BANDWIDTH.bytes_per_sec().checked_div(among);
                prop_assert_eq!(splits(before) == splits(among), had == rate);
            }
            last = Some((among, rate));
        }
    }

    /// G-44: a client that gets exactly its fair share is never flagged, for any refill interval.
    #[test]
    fn a_fair_share_is_never_flagged(millis in 10u64..2000, relays in 0u32..6, half_life in 5u64..90) {
        let config = FlaggingConfig { half_life: Duration::from_secs(half_life), ..FlaggingConfig::default() };
        let mut throttle = Flagging::new(config);
        let fair = BANDWIDTH.bytes_per_sec() as f64 / f64::from(3 + relays) / CELL;
        let (share, mut now) = ((millis as f64 / 1000.0 * fair) as u64, Instant::ZERO);
        while now < Instant::from_secs(300) {
            now += Duration::from_millis(millis);
            refill(&mut throttle, now, &[share, 0, share / 2], relays);
            prop_assert_eq!(rates(&throttle, 3), [None; 3], "at {:?}", now);
        }
    }
}

/// G-44: a client that gets 1.2 times its fair share for five half-lives is flagged. The flag stays until the client's
/// count falls below P·M. M has the value of the formula.
#[test]
fn more_than_the_fair_share_is_flagged_until_the_penalty_ends() {
    let config = FlaggingConfig::default();
    let mut throttle = Flagging::new(config);
    let fair = BANDWIDTH.bytes_per_sec() as f64 / 4.0 / CELL;
    let mut now = Instant::ZERO;
    let mut flagged_at = None;
    for second in 0..150u32 {
        now += Duration::from_secs(1);
        let sent = (f64::from(second + 1) * 1.2 * fair) as u64 - (f64::from(second) * 1.2 * fair) as u64;
        refill(&mut throttle, now, &[sent, 10], 2);
        if throttle.rate(ClientKey::first(0)).is_some() {
            flagged_at.get_or_insert(second);
        }
        assert_eq!(throttle.rate(ClientKey::first(1)), None);
    }
    // 1.2 (1 - 2^(-t/H)) exceeds 1 after H log2 6.
    let after = f64::from(flagged_at.expect("the client was flagged")) / 30.0;
    assert!((after - 6f64.log2()).abs() < 0.1, "after {after} half-lives");
    assert_eq!(throttle.rate(ClientKey::first(0)), Some(config.rate));
    let stopped = now;
    while throttle.rate(ClientKey::first(0)).is_some() {
        now += Duration::from_secs(1);
        refill(&mut throttle, now, &[0, 10], 2);
    }
    let served = (now - stopped).as_secs_f64() / 30.0;
    assert!((1.0..1.4).contains(&served), "{served} half-lives from 1.17 M to M/2");
}

/// G-44: after a change of the number of connections N, M converges to B·H/(N·512·ln 2).
#[test]
fn the_fair_count_converges_to_the_value_of_the_formula() {
    for (millis, half_life) in [(10, 2), (1000, 30), (1000, 5), (16, 90)] {
        let half_life = Duration::from_secs(half_life);
        let mut throttle = Flagging::new(FlaggingConfig { half_life, ..FlaggingConfig::default() });
        let steady = |among: f64| {
            BANDWIDTH.bytes_per_sec() as f64 / among / CELL * half_life.as_secs_f64() / std::f64::consts::LN_2
        };
        refill(&mut throttle, Instant::from_millis(millis), &[0, 0], 2);
        assert!(
            (throttle.fair().expect("there are four clients") / steady(4.0) - 1.0).abs() < 1e-9,
            "M has this value immediately"
        );
        let end = Instant::from_secs(1) + half_life * 15;
        let mut now = Instant::from_millis(millis);
        while now < end {
            now += Duration::from_millis(millis);
            refill(&mut throttle, now, &[0; 8], 2);
        }
        let fair = throttle.fair().expect("there are ten clients");
        assert!((fair / steady(10.0) - 1.0).abs() < 0.01, "{fair} every {millis} ms");
    }
}

proptest! {
    /// G-45: exactly ⌊T·N⌋ clients are throttled. All other clients send less. The rate is the
    /// throughput of the slowest throttled client, or the floor.
    #[test]
    fn the_threshold_sets_the_number_of_throttled_clients(
        sent in proptest::collection::vec(0u64..2000, 0..60),
        fraction in 0.0f64..1.0,
    ) {
        let config = ThresholdConfig { fraction, throughput: Throughput::Written, ..ThresholdConfig::default() };
        let mut throttle = Threshold::new(config);
        refill(&mut throttle, Instant::from_secs(1), &vec![0; sent.len()], 3);
        prop_assert!(rates(&throttle, sent.len()).iter().all(Option::is_none), "no client is throttled before R ends");
        refill(&mut throttle, Instant::from_secs(61), &sent, 3);
        let throttled: Vec<usize> =
            (0..sent.len()).filter(|key| throttle.rate(ClientKey::first(*key as u32)).is_some()).collect();
        prop_assert_eq!(throttled.len(), (fraction * sent.len() as f64) as usize);
        if let Some(slowest) = throttled.iter().map(|key| sent[*key]).min() {
            let louder = (0..sent.len()).filter(|key| !throttled.contains(key)).map(|key| sent[key]);
            prop_assert!(louder.max().is_none_or(|loudest| loudest <= slowest));
            let rate = (slowest * 512 / 60).max(config.floor.bytes_per_sec());
            prop_assert!(throttled.iter().all(|key| rates(&throttle, sent.len())[*key] == Some(rate)));
        }
    }
}

#[test]
fn a_client_that_connects_after_the_choice_is_not_throttled_before_the_next() {
    let mut throttle = Threshold::new(ThresholdConfig { fraction: 0.5, ..ThresholdConfig::default() });
    refill(&mut throttle, Instant::from_secs(1), &[0, 0], 0);
    refill(&mut throttle, Instant::from_secs(61), &[900, 100], 0);
    assert!(throttle.rate(ClientKey::first(0)).is_some());
    throttle.on_close(ClientKey::first(0));
    assert_eq!(throttle.rate(ClientKey::first(0)), None, "the next client with this key is a new client");
    refill(&mut throttle, Instant::from_secs(62), &[900, 100], 0);
    assert_eq!(rates(&throttle, 2), [None, None]);
}

#[test]
fn a_split_among_clients_excludes_relays() {
    let mut throttle = BitSplitting::new(BitSplittingConfig { count: Count::Clients });
    refill(&mut throttle, Instant::from_secs(1), &[1, 1], 6);
    assert_eq!(rates(&throttle, 2), [Some(200 << 10); 2]);
}
