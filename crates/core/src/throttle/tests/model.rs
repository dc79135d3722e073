//! The reference computes rates from a list of events, with the closed formulas of the paper.

use super::all::{Case, Seen};
use crate::ClientKey;
use crate::throttle::{
    Averages, CELL, Count, FlaggingConfig, Order, ThresholdConfig, ThrottleConfig, Throughput, Unflag,
};
use penstock_units::{DataRate, Duration, Instant};
use std::collections::BTreeMap;

/// Each client has its own number, even if it reuses the key of another one.
pub(super) type ClientId = usize;

/// The expected rates at each refill. `None` if two counts are too close to decide.
pub(super) type Expected = Vec<Option<BTreeMap<ClientId, Option<DataRate>>>>;

pub(super) fn expected(config: &ThrottleConfig, case: &Case, seen: &Seen) -> Expected {
    let each = |rate: &dyn Fn(usize) -> Option<DataRate>| {
        let all = |at: usize| case.refills[at].clients.iter().map(|client| (client.id, rate(at))).collect();
        (0..case.refills.len()).map(|at| Some(all(at))).collect()
    };
    match config {
        ThrottleConfig::None => each(&|_| None),
        ThrottleConfig::Static(config) => each(&|_| Some(config.rate)),
        ThrottleConfig::BitSplitting(config) => each(&|at| {
            let bandwidth = case.refills[at].bandwidth?.bytes_per_sec();
            DataRate::new(bandwidth.checked_div(among(case, at, config.count))?.max(1))
        }),
        ThrottleConfig::Flagging(config) => flagging(*config, case, seen),
        ThrottleConfig::Threshold(config) => threshold(*config, case),
        ThrottleConfig::Custom(_) => unreachable!("the suite has only built-in throttles"),
    }
}

fn among(case: &Case, at: usize, count: Count) -> u64 {
    let refill = &case.refills[at];
    let relays = if count == Count::All { refill.relays } else { 0 };
    refill.clients.len() as u64 + u64::from(relays)
}

/// The decayed count at `now` of one cell a second that was sent from `start` to `end` [s].
fn left(half_life: Duration, start: Instant, end: Instant, now: Instant) -> f64 {
    let at = |then: Instant| (-now.since(then).as_secs_f64() / half_life.as_secs_f64()).exp2();
    (at(end) - at(start)) * half_life.as_secs_f64() / std::f64::consts::LN_2
}

/// The count C of one client at a refill. Each cell has decayed since the time at which it was sent.
fn count(case: &Case, at: usize, id: ClientId, half_life: Duration) -> f64 {
    let now = case.refills[at].at;
    let parts = (0..=at).filter_map(|part| {
        let refill = &case.refills[part];
        let sent = refill.clients.iter().find(|client| client.id == id)?.sent as f64;
        Some(match part.checked_sub(1).map(|before| case.refills[before].at) {
            None => sent * (-now.since(refill.at).as_secs_f64() / half_life.as_secs_f64()).exp2(),
            Some(before) => {
                let span = refill.at.since(before).as_secs_f64();
                sent / span * left(half_life, before, refill.at, now)
            }
        })
    });
    parts.sum()
}

/// The fair count M at a refill. Time does not advance while the relay has no connection.
fn fair(case: &Case, at: usize, config: FlaggingConfig) -> Option<f64> {
    let split = |part: usize| {
        let bandwidth = case.refills[part].bandwidth?.bytes_per_sec() as f64;
        let among = among(case, part, config.count);
        (among > 0).then(|| bandwidth / among as f64 / CELL)
    };
    let parts: Vec<usize> = (0..=at).filter(|part| split(*part).is_some()).collect();
    let first = *parts.first()?;
    // The start and end of each part, in the time that advances.
    let (mut spans, mut clock) = (Vec::new(), Instant::ZERO);
    for part in &parts[1..] {
        let begun = clock;
        clock += case.refills[*part].at.since(case.refills[part - 1].at);
        spans.push((begun, clock, split(*part).expect("the parts have a share")));
    }
    let memory = config.half_life.as_secs_f64() / std::f64::consts::LN_2;
    let decayed = (-clock.as_secs_f64() / config.half_life.as_secs_f64()).exp2();
    let begun = split(first).expect("the parts have a share") * memory * decayed;
    let since =
        spans.iter().map(|(begun, ended, split)| split * left(config.half_life, *begun, *ended, clock));
    Some(begun + since.sum::<f64>())
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * (1.0 + one.abs())
}

/// The expected rates with flagging. If a count is near the limit, both decisions are right.
fn flagging(config: FlaggingConfig, case: &Case, seen: &Seen) -> Expected {
    let mut flagged: BTreeMap<ClientId, f64> = BTreeMap::new();
    let mut expected = Expected::new();
    for (at, refill) in case.refills.iter().enumerate() {
        let moves = refill.bandwidth.is_some() && among(case, at, config.count) > 0;
        if let Some(fair) = fair(case, at, config).filter(|_| moves) {
            for id in refill.clients.iter().map(|client| client.id) {
                let count = count(case, at, id, config.half_life);
                let limit = match (flagged.get(&id), config.unflag) {
                    (Some(then), Unflag::Frozen) => *then,
                    _ => config.penalty * fair,
                };
                let flag = if close(count, fair) || (flagged.contains_key(&id) && close(count, limit)) {
                    seen[at][&id].is_some()
                } else {
                    count > fair || (flagged.contains_key(&id) && count >= limit)
                };
                if count > fair && flag {
                    flagged.insert(id, config.penalty * fair);
                } else if !flag {
                    flagged.remove(&id);
                }
            }
        }
        let rate = |id: ClientId| flagged.contains_key(&id).then_some(config.rate);
        expected.push(Some(refill.clients.iter().map(|client| (client.id, rate(client.id))).collect()));
    }
    expected
}

fn threshold(config: ThresholdConfig, case: &Case) -> Expected {
    let (mut throttled, mut rate): (Vec<ClientId>, _) = (Vec::new(), None);
    let (mut last, mut since) = (None, 0);
    let mut expected = Expected::new();
    for (at, refill) in case.refills.iter().enumerate() {
        let elapsed = refill.at.since(*last.get_or_insert(refill.at));
        let mut told_apart = true;
        if elapsed >= config.refresh {
            let mut order: Vec<(f64, ClientKey, ClientId)> = refill
                .clients
                .iter()
                .map(|client| (count(case, at, client.id, config.half_life), client.key, client.id))
                .collect();
            order.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
            told_apart = order.windows(2).all(|pair| pair[0].0 == pair[1].0 || !close(pair[0].0, pair[1].0));
            let share = (config.fraction * order.len() as f64).floor() as usize;
            let throttled_count = if config.order == Order::Descending { share } else { order.len() - share };
            throttled = order[..throttled_count].iter().map(|(_, _, id)| *id).collect();
            if let Some(slowest) = throttled.last() {
                let parts = case.refills[since..=at].iter().flat_map(|refill| &refill.clients);
                let twice: u64 = parts
                    .filter(|client| client.id == *slowest)
                    .map(|client| match config.throughput {
                        Throughput::Mean => client.written + client.read,
                        Throughput::Written => 2 * client.written,
                    })
                    .sum();
                let had = (u128::from(twice) * 1_000_000_000 / 2 / elapsed.as_nanos()) as u64;
                let floor = if had > 0 || config.lift_zero { config.floor.bytes_per_sec() } else { 1 };
                rate = DataRate::new(had.max(floor));
            }
            (last, since) = (Some(refill.at), at + 1);
        }
        let rate = |id: ClientId| rate.filter(|_| throttled.contains(&id));
        let all = refill.clients.iter().map(|client| (client.id, rate(client.id))).collect();
        if !told_apart {
            // From here on, both orders are right.
            expected.resize(case.refills.len(), None);
            return expected;
        }
        expected.push(Some(all));
    }
    expected
}

/// Compares the steps of [`Averages`] with the closed formula.
#[test]
fn a_steady_sender_has_its_rate_times_the_half_life_over_ln_2() {
    use crate::throttle::ClientSignals;
    use penstock_units::{Bytes, Cells};
    for millis in [10, 100, 1000] {
        let mut averages = Averages::new(Duration::from_secs(30));
        let client = ClientKey::first(0);
        for tick in 0..(1_000_000 / millis) {
            let sent = Cells::new(if tick == 0 { 0 } else { millis / 10 });
            let signals = ClientSignals { client, sent, written: Bytes::ZERO, read: Bytes::ZERO };
            averages.on_refill(Instant::from_millis(tick * millis), &[signals]);
        }
        let steady = 100.0 * 30.0 / std::f64::consts::LN_2;
        assert!((averages.of(client) / steady - 1.0).abs() < 1e-6, "every {millis} ms");
    }
}
