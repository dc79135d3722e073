//! Persistent guards. A client samples a list of guards and keeps it for months, so that few relays ever see the
//! client's address. It uses the first reachable guard of the list.
//!
//! Source: guard-spec; C tor `entrynodes.c`.
//! Deviation: a circuit through a guard that is not primary is used as soon as it is built. C tor waits up to 15 s for a
//! better guard. Each circuit uses the first of the primary guards (`NUM_USABLE_PRIMARY_GUARDS` is 1).
//! Deviation: primary guards follow from the sample at each moment, also if they are down. In C tor, a primary guard without
//! circuits stays primary until a guard with circuits takes its place, and no guard that is known to be down becomes primary.
//! Deviation: C tor also tries all guards again if a circuit excludes the only guard that is up. The second legs of sets
//! would then connect to guards that are down, before their retry times.

use super::path::Paths;
use crate::directory::Fingerprint;
use penstock_network::guards::{
    CONFIRMED_LIFETIME, KEEP_UNLISTED, LIFETIME, MIN_USABLE, PRIMARY, max_sample, preferred,
};
use penstock_units::{Duration, Instant};
use rand::{Rng, RngExt as _};
use std::collections::BTreeSet;
use std::time::{Duration as Span, SystemTime};

/// After so much time without a successful circuit, the client was probably offline (`INTERNET_LIKELY_DOWN_INTERVAL`).
const OFFLINE: Duration = Duration::from_secs(600);

/// The retry times of an unreachable guard: until this time after its first failure, it is retried after this delay
/// [s]. The first table is for primary guards.
/// Source: guard-spec, "Retrying guards"; C tor `get_retry_schedule()`.
const RETRIES: [[(u64, u64); 4]; 2] = [
    [(6 * 3600, 600), (4 * 86_400, 90 * 60), (7 * 86_400, 4 * 3600), (u64::MAX, 9 * 3600)],
    [(6 * 3600, 3600), (4 * 86_400, 4 * 3600), (7 * 86_400, 18 * 3600), (u64::MAX, 36 * 3600)],
];

/// The part of a guard's state that the state file keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuardRecord {
    pub(crate) identity: Fingerprint,
    pub(crate) nickname: String,
    /// When the guard joined the sample, moved back by a random time.
    pub(crate) sampled: SystemTime,
    /// When the guard left the consensus.
    pub(crate) unlisted: Option<SystemTime>,
    /// When a circuit first used the guard, moved back by a random time.
    pub(crate) confirmed: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reachable {
    Maybe,
    Yes,
    /// Since the first failure; the last attempt was at the second time.
    No(Instant, Instant),
}

#[derive(Clone, Debug)]
struct Guard {
    record: GuardRecord,
    /// Whether the consensus and the torrc allow the guard now.
    is_usable: bool,
    reachable: Reachable,
    /// Circuits that wait for an answer of the guard [1].
    pending: u32,
}

/// The sample of guards, in the order in which they joined it.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    sample: Vec<Guard>,
    primary: Vec<Fingerprint>,
    last_success: Option<Instant>,
}

impl Guards {
    pub(crate) fn new(records: Vec<GuardRecord>) -> Self {
        let guard = |record| Guard { record, is_usable: false, reachable: Reachable::Maybe, pending: 0 };
        Guards { sample: records.into_iter().map(guard).collect(), ..Guards::default() }
    }

    /// The content for the state file.
    pub(crate) fn records(&self) -> impl Iterator<Item = &GuardRecord> {
        self.sample.iter().map(|guard| &guard.record)
    }

    /// Adapts the sample to a new network: removes old guards, and adds new ones.
    ///
    /// Source: C tor `sampled_guards_update_from_consensus()`, `entry_guards_expand_sample()`.
    pub(crate) fn update(&mut self, date: SystemTime, rng: &mut impl Rng, paths: Paths<'_>) {
        for guard in &mut self.sample {
            let router = paths.network.by_identity(&guard.record.identity);
            guard.is_usable = router.is_some_and(|router| paths.may_guard(router));
            if paths.network.lists(&guard.record.identity) {
                guard.record.unlisted = None;
            } else if guard.record.unlisted.is_none() {
                guard.record.unlisted = Some(date - random_part(rng, KEEP_UNLISTED / 5));
            }
        }
        let age = |since: SystemTime| date.duration_since(since).unwrap_or_default();
        self.sample.retain(|guard| {
            let GuardRecord { sampled, unlisted, confirmed, .. } = guard.record;
            let is_gone = unlisted.is_some_and(|since| age(since) > KEEP_UNLISTED);
            let is_old =
                age(sampled) > LIFETIME && confirmed.is_none_or(|since| age(since) > CONFIRMED_LIFETIME);
            !is_gone && !is_old
        });
        let most = max_sample(paths.guards());
        let mut known: BTreeSet<_> = self.sample.iter().map(|guard| guard.record.identity).collect();
        while self.sample.len() < most
            && self.sample.iter().filter(|guard| guard.is_usable).count() < MIN_USABLE
        {
            let Some(router) = paths.new_guard(rng, &known) else { break };
            known.insert(router.rsa());
            let record = GuardRecord {
                identity: router.rsa(),
                nickname: router.nickname.clone(),
                sampled: date - random_part(rng, LIFETIME / 10),
                unlisted: None,
                confirmed: None,
            };
            self.sample.push(Guard { record, is_usable: true, reachable: Reachable::Maybe, pending: 0 });
        }
        self.choose_primary();
    }

    /// The guard for a new circuit. `fits`: whether the circuit may use this guard. `None` if no guard fits.
    ///
    /// Source: guard-spec, "Selecting guards"; C tor `select_entry_guard_for_circuit()`.
    pub(crate) fn select(
        &mut self,
        now: Instant,
        fits: impl Fn(&Fingerprint) -> bool,
    ) -> Option<Fingerprint> {
        self.retry(now);
        let is_usable = |guard: &Guard| guard.is_usable && fits(&guard.record.identity);
        let is_up = |guard: &Guard| !matches!(guard.reachable, Reachable::No(..));
        let can_take = |guard: &Guard| is_usable(guard) && is_up(guard);
        let order = self.preferred();
        let first =
            |is_it: &dyn Fn(&Guard) -> bool| order.iter().copied().find(|place| is_it(&self.sample[*place]));
        let is_primary = |guard: &Guard| self.primary.contains(&guard.record.identity);
        // Among the other guards, one attempt at a time tests a guard.
        let place = first(&|guard| is_primary(guard) && can_take(guard))
            .or_else(|| first(&|guard| can_take(guard) && guard.pending == 0));
        let place = match place {
            Some(place) => place,
            None => {
                // If all are down, the client may be offline, and tries all again. A guard that only this circuit excludes
                // proves that the client is online.
                if !self.sample.iter().any(|guard| guard.is_usable && is_up(guard)) {
                    let fitting = self.sample.iter_mut().filter(|guard| is_usable(guard));
                    fitting.for_each(|guard| guard.reachable = Reachable::Maybe);
                }
                order.iter().copied().find(|place| can_take(&self.sample[*place]))?
            }
        };
        let guard = &mut self.sample[place];
        guard.pending += 1;
        Some(guard.record.identity)
    }

    /// A circuit that `select` began got no answer of its guard, and it is unknown whether the guard is reachable.
    pub(crate) fn on_abandoned(&mut self, identity: &Fingerprint) {
        if let Some(guard) = self.find(identity) {
            guard.pending = guard.pending.saturating_sub(1);
        }
    }

    /// The guard answered the first handshake of a circuit.
    pub(crate) fn on_success(
        &mut self,
        now: Instant,
        date: SystemTime,
        rng: &mut impl Rng,
        identity: &Fingerprint,
    ) {
        let was_offline = self.last_success.replace(now).is_none_or(|last| now.since(last) > OFFLINE);
        let is_primary = self.primary.contains(identity);
        let Some(guard) = self.find(identity) else { return };
        (guard.reachable, guard.pending) = (Reachable::Yes, guard.pending.saturating_sub(1));
        if guard.record.confirmed.is_none() {
            guard.record.confirmed = Some(date - random_part(rng, LIFETIME / 10));
            self.choose_primary();
        }
        if was_offline && !is_primary {
            for guard in self.sample.iter_mut().filter(|guard| self.primary.contains(&guard.record.identity))
            {
                if matches!(guard.reachable, Reachable::No(..)) {
                    guard.reachable = Reachable::Maybe;
                }
            }
        }
    }

    /// The guard cannot be reached, or did not answer the first handshake of a circuit.
    pub(crate) fn on_failure(&mut self, now: Instant, identity: &Fingerprint) {
        if let Some(guard) = self.find(identity) {
            let since = match guard.reachable {
                Reachable::No(since, _) => since,
                Reachable::Maybe | Reachable::Yes => now,
            };
            (guard.reachable, guard.pending) = (Reachable::No(since, now), guard.pending.saturating_sub(1));
        }
    }

    fn find(&mut self, identity: &Fingerprint) -> Option<&mut Guard> {
        self.sample.iter_mut().find(|guard| guard.record.identity == *identity)
    }

    /// The places of the usable guards in the sample, most preferred guard first.
    fn preferred(&self) -> Vec<usize> {
        let usable = self.sample.iter().enumerate().filter(|(_, guard)| guard.is_usable);
        preferred(usable.map(|(place, guard)| (place, guard.record.confirmed.is_some())))
    }

    fn choose_primary(&mut self) {
        let first = self.preferred().into_iter().take(PRIMARY);
        self.primary = first.map(|place| self.sample[place].record.identity).collect();
    }

    /// Unreachable guards become possibly reachable when their retry time has come.
    fn retry(&mut self, now: Instant) {
        for guard in &mut self.sample {
            let Reachable::No(since, last) = guard.reachable else { continue };
            let table = RETRIES[usize::from(!self.primary.contains(&guard.record.identity))];
            let down = now.since(since).as_secs();
            let delay = table.iter().find(|(until, _)| down < *until).map_or(0, |(_, delay)| *delay);
            if now.since(last) >= Duration::from_secs(delay) {
                guard.reachable = Reachable::Maybe;
            }
        }
    }
}

/// A random time up to `most`, in whole seconds. The state file therefore does not tell when the client was used.
fn random_part(rng: &mut impl Rng, most: Span) -> Span {
    Span::from_secs(rng.random_range(0..=most.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::super::network::Network;
    use super::super::network::tests::{network, router};
    use super::super::nodes::PathRules;
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    const DAY: Span = Span::from_secs(86_400);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn date(days: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * (1000 + days)
    }

    fn some(count: u8) -> Network {
        network((1..=count).map(|number| router(number, 10, "Guard", "")).collect())
    }

    fn update(guards: &mut Guards, days: u32, network: &Network) {
        let rules = PathRules::default();
        guards.update(
            date(days),
            &mut StdRng::seed_from_u64(days.into()),
            Paths { network, rules: &rules, own: None },
        );
    }

    fn guards(count: u8) -> Guards {
        let mut guards = Guards::default();
        update(&mut guards, 0, &some(count));
        guards
    }

    fn select(guards: &mut Guards, seconds: u64) -> Fingerprint {
        guards.select(at(seconds), |_| true).unwrap()
    }

    fn succeed(guards: &mut Guards, seconds: u64, guard: &Fingerprint) {
        guards.on_success(at(seconds), date(0), &mut StdRng::seed_from_u64(1), guard);
    }

    #[test]
    fn a_client_keeps_to_its_first_guard() {
        let mut guards = guards(50);
        assert_eq!(guards.sample.len(), MIN_USABLE);
        let first = select(&mut guards, 0);
        succeed(&mut guards, 1, &first);
        assert!((2..100).all(|second| select(&mut guards, second) == first));
        // After a restart, the client has the same guard.
        let mut again = Guards::new(guards.records().cloned().collect());
        assert_eq!(again.select(at(0), |_| true), None, "without a consensus no guard is usable");
        update(&mut again, 1, &some(50));
        assert_eq!(select(&mut again, 0), first);
    }

    #[test]
    fn an_unreachable_guard_is_retried_after_ten_minutes() {
        let mut guards = guards(50);
        let first = select(&mut guards, 0);
        guards.on_failure(at(0), &first);
        let second = select(&mut guards, 1);
        assert!(second != first && guards.primary.contains(&second));
        succeed(&mut guards, 1, &second);
        assert_eq!(select(&mut guards, 599), second);
        // The confirmed guard stays behind the one that joined the sample earlier.
        assert_eq!(guards.primary[..2], [first, second]);
        assert_eq!(select(&mut guards, 600), first);
        succeed(&mut guards, 601, &first);
        assert_eq!(select(&mut guards, 602), first);
    }

    #[test]
    fn other_guards_follow_the_primary_ones_and_all_are_retried_when_all_fail() {
        let mut guards = guards(5);
        let mut tried = BTreeSet::new();
        for second in 0..5 {
            let guard = select(&mut guards, second);
            guards.on_failure(at(second), &guard);
            tried.insert(guard);
        }
        assert_eq!(tried.len(), 5);
        assert_eq!(select(&mut guards, 6), guards.sample[0].record.identity);
    }

    #[test]
    fn a_circuit_may_exclude_guards() {
        let mut guards = guards(5);
        let first = select(&mut guards, 0);
        let other = guards.select(at(0), |guard| *guard != first).unwrap();
        assert!(other != first && guards.primary.contains(&other));
        assert_eq!(guards.select(at(0), |_| false), None);
    }

    /// The second leg of a set excludes the guard of the first leg.
    #[test]
    fn a_circuit_that_excludes_the_only_reachable_guard_waits_for_the_retry_times() {
        let mut guards = guards(5);
        let first = select(&mut guards, 0);
        succeed(&mut guards, 0, &first);
        let others = |guard: &Fingerprint| *guard != first;
        for _ in 0..4 {
            let guard = guards.select(at(1), others).unwrap();
            guards.on_failure(at(1), &guard);
        }
        assert_eq!(guards.select(at(600), others), None);
        let second = guards.select(at(601), others).unwrap();
        assert!(guards.primary.contains(&second));
        assert_eq!(select(&mut guards, 601), first);
    }

    #[test]
    fn old_and_unlisted_guards_leave_the_sample() {
        let mut guards = guards(50);
        let first = select(&mut guards, 0);
        succeed(&mut guards, 0, &first);
        let all = some(50);
        let others = network(
            all.routers
                .iter()
                .filter(|router| router.rsa() != first)
                .map(|router| (**router).clone())
                .collect(),
        );
        update(&mut guards, 1, &others);
        assert!(guards.sample.iter().any(|guard| guard.record.identity == first && !guard.is_usable));
        assert_ne!(select(&mut guards, 10), first);
        update(&mut guards, 22, &others);
        assert!(guards.sample.iter().all(|guard| guard.record.identity != first));
        let before: BTreeSet<_> = guards.records().map(|record| record.identity).collect();
        update(&mut guards, 200, &all);
        let mut again = guards.records().filter(|record| before.contains(&record.identity));
        assert!(again.all(|record| record.sampled > date(60)), "the others are new ones");
        assert_eq!(guards.sample.len(), MIN_USABLE);
    }

    proptest! {
        /// Every selected guard fits, is usable and is in the sample.
        #[test]
        fn each_selected_guard_fits(steps in prop::collection::vec((0u64..5000, 0u8..3, any::<u8>()), 1..60)) {
            let (mut guards, mut now) = (guards(30), 0);
            for (wait, outcome, odd) in steps {
                now += wait;
                let fits = |guard: &Fingerprint| guard[0] % 2 == odd % 2;
                if let Some(guard) = guards.select(at(now), fits) {
                    prop_assert!(fits(&guard));
                    prop_assert!(guards.sample.iter().any(|other| other.record.identity == guard && other.is_usable));
                    match outcome {
                        0 => guards.on_failure(at(now), &guard),
                        1 => guards.on_abandoned(&guard),
                        _ => succeed(&mut guards, now, &guard),
                    }
                }
                prop_assert!(guards.sample.iter().all(|guard| guard.pending == 0));
            }
        }
    }
}
