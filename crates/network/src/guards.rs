//! The guards of a client over several consensuses.
//!
//! A client samples guards from a consensus and keeps them for months, so that few relays ever see the client's address.
//! It uses the first of its three primary guards.
//!
//! Source: guard-spec; proposal 310; C tor `entrynodes.c`.
//! The live relay's onion proxy shares the numbers and the order of preference.
//! Deviation: the primary guards follow from the sample at each moment. In C tor, a primary guard without circuits stays
//! primary until a guard with circuits takes its place.
//! Deviation: every guard is reachable, and the consensus parameters that change these numbers are ignored.

use crate::relay::Position;
use crate::select::Selector;
use penstock_units::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// A sample has at least this many usable guards, if the network has enough [1] (`MIN_FILTERED_SAMPLE`).
pub const MIN_USABLE: usize = 20;
/// Maximum size of a sample [1] (`MAX_SAMPLE_SIZE`).
const MAX_SAMPLE: usize = 60;
/// A sample has at most one guard for this number of guards of the network [1] (`MAX_SAMPLE_THRESHOLD`).
const MAX_SAMPLE_PART: usize = 5;
/// A guard that no consensus lists leaves the sample after this time (`REMOVE_UNLISTED_GUARDS_AFTER`).
pub const KEEP_UNLISTED: Duration = Duration::from_secs(20 * 86_400);
/// Lifetime of a guard without circuits (`GUARD_LIFETIME`).
pub const LIFETIME: Duration = Duration::from_secs(120 * 86_400);
/// Lifetime of a guard after its first circuit, if `LIFETIME` is over (`GUARD_CONFIRMED_MIN_LIFETIME`).
pub const CONFIRMED_LIFETIME: Duration = Duration::from_secs(60 * 86_400);

/// The number of primary guards [1] (`N_PRIMARY_GUARDS`).
pub const PRIMARY: usize = 3;

/// The order in which a client prefers guards of its sample, most preferred guard first: the primary guards, the other
/// confirmed guards, and the rest. Confirmed guards become primary before others. Each of the three parts has the order of
/// the sample.
///
/// `usable` are the places of usable guards in the sample in ascending order, and whether a circuit has confirmed them.
/// Source: proposal 310; C tor `entry_guards_update_primary()`, which sorts primary guards by their place in the sample.
pub fn preferred(usable: impl IntoIterator<Item = (usize, bool)>) -> Vec<usize> {
    let (confirmed, others): (Vec<_>, Vec<_>) =
        usable.into_iter().partition(|(_, is_confirmed)| *is_confirmed);
    let mut order: Vec<usize> = confirmed.into_iter().chain(others).map(|(place, _)| place).collect();
    let primary = order.len().min(PRIMARY);
    order[..primary].sort_unstable();
    order
}

/// Maximum size of the sample of a client in a network with this number of guards [1].
/// Source: C tor `get_max_sample_size()`.
pub fn max_sample(guards: usize) -> usize {
    (guards / MAX_SAMPLE_PART).clamp(MIN_USABLE, MAX_SAMPLE)
}

/// A guard of a client's sample. All times are in seconds since 1970. They are moved back by a random time, as in C tor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guard {
    identity: [u8; 20],
    /// The relay in the current consensus, as an index; `None` if the consensus lists no such guard.
    relay: Option<usize>,
    sampled: u64,
    unlisted: Option<u64>,
    confirmed: Option<u64>,
}

/// The sample of a client's guards, in the order in which they joined it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guards {
    sample: Vec<Guard>,
    /// The number of guards that a circuit has used.
    used: usize,
}

/// The guards of one consensus.
pub(crate) struct Listed<'a> {
    pub(crate) selector: &'a Selector,
    /// The index of each possible guard, by identity.
    pub(crate) places: BTreeMap<[u8; 20], usize>,
    /// The identity of each relay.
    pub(crate) identities: Vec<[u8; 20]>,
}

impl Guards {
    /// Adapts the sample to a consensus that is valid from `now` on [s since 1970]: removes guards that are too old or
    /// have not been listed for a long time, and samples new ones.
    ///
    /// Source: C tor `sampled_guards_update_from_consensus()`, `entry_guards_expand_sample()`.
    pub(crate) fn update(&mut self, now: u64, rng: &mut Rng, listed: &Listed<'_>) {
        let age = |since: u64| Duration::from_secs(now.saturating_sub(since));
        for guard in &mut self.sample {
            guard.relay = listed.places.get(&guard.identity).copied();
            guard.unlisted = match guard.relay {
                Some(_) => None,
                None => guard.unlisted.or_else(|| Some(earlier(now, KEEP_UNLISTED / 5, rng))),
            };
        }
        self.sample.retain(|guard| {
            let is_gone = guard.unlisted.is_some_and(|since| age(since) > KEEP_UNLISTED);
            let is_old = age(guard.sampled) > LIFETIME
                && guard.confirmed.is_none_or(|since| age(since) > CONFIRMED_LIFETIME);
            !is_gone && !is_old
        });
        let most = max_sample(listed.selector.candidates(Position::Guard));
        let mut usable: Vec<usize> = self.usable().collect();
        while self.sample.len() < most && usable.len() < MIN_USABLE {
            let Some(relay) = listed.selector.another_guard(rng, &usable) else { break };
            usable.push(relay);
            self.sample.push(Guard {
                identity: listed.identities[relay],
                relay: Some(relay),
                sampled: earlier(now, LIFETIME / 10, rng),
                unlisted: None,
                confirmed: None,
            });
        }
    }

    /// The guards that the consensus lists, as indices, most preferred guard first.
    pub(crate) fn usable(&self) -> impl Iterator<Item = usize> {
        let listed = self.sample.iter().enumerate().filter(|(_, guard)| guard.relay.is_some());
        let order = preferred(listed.map(|(place, guard)| (place, guard.confirmed.is_some())));
        order.into_iter().filter_map(|place| self.sample[place].relay)
    }

    /// A circuit uses a guard of the sample. Returns whether this is the guard's first circuit, which changes the order of
    /// preference.
    ///
    /// Source: C tor `make_guard_confirmed()`.
    pub(crate) fn on_circuit(&mut self, now: u64, rng: &mut Rng, relay: usize) -> bool {
        let guard = self.sample.iter_mut().find(|guard| guard.relay == Some(relay));
        let guard = guard.expect("a circuit uses a guard of the sample");
        if guard.confirmed.is_some() {
            return false;
        }
        guard.confirmed = Some(earlier(now, LIFETIME / 10, rng));
        self.used += 1;
        true
    }

    /// The number of guards that circuits have used so far [1].
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

/// A time up to `most` before `now`, in whole seconds. Source: C tor `randomize_time()`.
fn earlier(now: u64, most: Duration, rng: &mut Rng) -> u64 {
    now.saturating_sub(rng.below(most.as_secs() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_guards_are_confirmed_before_others_and_in_the_order_of_the_sample() {
        let order = |confirmed: &[usize]| preferred((0..6).map(|place| (place, confirmed.contains(&place))));
        assert_eq!(order(&[]), [0, 1, 2, 3, 4, 5]);
        // One confirmed guard is primary, at its place; the first two others fill up.
        assert_eq!(order(&[4]), [0, 1, 4, 2, 3, 5]);
        assert_eq!(order(&[2, 4]), [0, 2, 4, 1, 3, 5]);
        // Confirmed guards that are not primary come before the others.
        assert_eq!(order(&[1, 3, 4, 5]), [1, 3, 4, 5, 0, 2]);
        assert_eq!(preferred([(7, true), (9, false)]), [7, 9]);
    }
}
