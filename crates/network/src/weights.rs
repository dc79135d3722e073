//! The position weights: the fraction of a relay's bandwidth that clients use at a position, for each class of relays.
//!
//! Guards and exits are scarce. The weights reserve them for the positions that other relays cannot have.

use crate::error::Error;
use crate::relay::{Class, Position, Relay};
use std::collections::BTreeMap;

/// The weights of a consensus's `bandwidth-weights` line that path selection uses. The weights are numbers from 0 to a
/// scale.
///
/// Source: dir-spec section 3.8.3; C tor `compute_weighted_bandwidths()`.
/// Deviation: the four weights of directory mirrors (Wgb, Wmb, Web, Wdb) are not read. They equal the scale in all
/// consensuses so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionWeights {
    parts: [[u32; 4]; 3],
    scale: u32,
}

/// The keys by position (guard, middle, exit) and class (M, G, E, D). Relays of class E are never guards.
const KEYS: [[Option<&str>; 4]; 3] = [
    [Some("Wgm"), Some("Wgg"), None, Some("Wgd")],
    [Some("Wmm"), Some("Wmg"), Some("Wme"), Some("Wmd")],
    [Some("Wem"), Some("Weg"), Some("Wee"), Some("Wed")],
];

impl PositionWeights {
    /// The scale if the consensus has no parameter `bwweightscale`.
    pub const SCALE: u32 = 10_000;

    /// Reads the weights from the keys and values of a document.
    pub fn of(values: &BTreeMap<&str, i64>, scale: u32) -> Result<Self, Error> {
        let mut parts = [[0; 4]; 3];
        for (keys, parts) in KEYS.iter().zip(&mut parts) {
            for (key, part) in keys.iter().zip(parts) {
                let Some(key) = key else { continue };
                let value = *values.get(key).ok_or(Error::MissingWeight { key })?;
                let fits = u32::try_from(value).ok().filter(|value| *value <= scale);
                *part = fits.ok_or(Error::WeightOutOfRange { key, value, scale })?;
            }
        }
        Ok(PositionWeights { parts, scale })
    }

    /// Weights of 1 for every class at every position, as in C tor for a consensus without weights.
    pub fn even() -> Self {
        PositionWeights { parts: [[1; 4]; 3], scale: 1 }
    }

    /// The weights that the authorities would compute; `None` if a class has no bandwidth or a weight is out of range.
    ///
    /// Source: dir-spec section 3.8.3; C tor `networkstatus_compute_bw_weights_v10()`, with the same integer
    /// arithmetic.
    pub fn computed(relays: &[Relay], scale: u32) -> Option<Self> {
        let total = |class| {
            let of_class = relays.iter().filter(|relay| relay.class() == class);
            of_class.map(|relay| i128::from(relay.weight)).sum::<i128>()
        };
        let [m, g, e, d] = [Class::Plain, Class::Guard, Class::Exit, Class::Both].map(total);
        balanced(m, g, e, d, i128::from(scale))
    }

    /// The fraction of the bandwidth that a relay of `class` offers at `position`, from 0 to 1.
    pub fn share(&self, position: Position, class: Class) -> f64 {
        f64::from(self.parts[position as usize][class as usize]) / f64::from(self.scale)
    }
}

/// The weights that dir-spec computes. The letters are position and class: guard (g), middle (m), exit (e), both (d).
#[derive(Clone, Copy)]
struct Free {
    gg: i128,
    gd: i128,
    mg: i128,
    me: i128,
    md: i128,
    ee: i128,
    ed: i128,
}

/// Selects one of dir-spec's three cases. The arguments are the bandwidths of the classes; `one` is the scale.
fn balanced(m: i128, g: i128, e: i128, d: i128, one: i128) -> Option<PositionWeights> {
    if [m, g, e, d].contains(&0) {
        return None;
    }
    let t = m + g + e + d;
    let free = match (3 * g < t, 3 * e < t) {
        (false, false) => neither_scarce(m, g, e, one),
        (true, true) => both_scarce(m, g, e, d, one),
        _ => one_scarce(m, g, e, d, t, one),
    };
    let Free { gg, gd, mg, me, md, ee, ed } = free;
    let in_range = |part: i128| (0..=one).contains(&part);
    if ![gg, gd, mg, me, md, ee, ed].into_iter().all(in_range) {
        return None;
    }
    // Wgm = Wgg, Wmm = 1, Wem = Wee, Weg = Wed; values in range fit into u32.
    let parts = [[gg, gg, 0, gd], [one, mg, me, md], [ee, ed, ee, ed]];
    Some(PositionWeights { parts: parts.map(|row| row.map(|part| part as u32)), scale: one as u32 })
}

/// Case 1: neither guards nor exits are scarce.
fn neither_scarce(m: i128, g: i128, e: i128, one: i128) -> Free {
    let third = one / 3;
    let (ee, mg) = (one * (e + g + m) / (3 * e), one * (2 * g - e - m) / (3 * g));
    Free { gg: one - mg, gd: third, mg, me: one - ee, md: third, ee, ed: third }
}

/// Case 2: both guards and exits are scarce.
fn both_scarce(m: i128, g: i128, e: i128, d: i128, one: i128) -> Free {
    let whole = Free { gg: one, gd: 0, mg: 0, me: 0, md: 0, ee: one, ed: 0 };
    if g.min(e) + d < g.max(e) {
        // Case 2a: relays with both flags go to the scarcer position.
        return if e < g { Free { ed: one, ..whole } } else { Free { gd: one, ..whole } };
    }
    // Case 2b: first try to keep all guards without the flag Exit as guards.
    let ed = one * (d - 2 * e + 4 * g - 2 * m) / (3 * d);
    let half = (one - ed) / 2;
    let (ee, me) = (one * (e - g + m) / e, one * (g - m) / e);
    if [ed, half, ee, me].iter().all(|part| (0..=one).contains(part)) {
        return Free { gd: half, me, md: half, ee, ed, ..whole };
    }
    // If this fails, exits without the flag Guard also stay exits, and the middle may keep too much bandwidth.
    let ed = one * (d - 2 * e + g + m) / (3 * d);
    let md = (one * (d - 2 * m + g + e) / (3 * d)).max(0);
    Free { gd: one - ed - md, md, ed, ..whole }
}

/// Case 3: either guards or exits are scarce.
fn one_scarce(m: i128, g: i128, e: i128, d: i128, t: i128, one: i128) -> Free {
    // The fraction of a class that is used in the middle; zero if the middle already has more bandwidth than the class.
    let spare = |class: i128| if class < m { 0 } else { one * (class - m) / (2 * class) };
    let guards_scarce = g < e;
    if 3 * (g.min(e) + d) < t {
        // Case 3a: relays with both flags go to the scarce position.
        let none = Free { gg: one, gd: 0, mg: 0, me: 0, md: 0, ee: one, ed: 0 };
        return if guards_scarce {
            Free { gd: one, me: spare(e), ee: one - spare(e), ..none }
        } else {
            Free { ed: one, mg: spare(g), gg: one - spare(g), ..none }
        };
    }
    // Case 3b: the other two positions share the remaining relays with both flags equally.
    if guards_scarce {
        let gd = one * (d - 2 * g + e + m) / (3 * d);
        let ee = one * (e + m) / (2 * e);
        let half = (one - gd) / 2;
        Free { gg: one, gd, mg: 0, me: one - ee, md: half, ee, ed: half }
    } else {
        let ed = one * (d - 2 * e + g + m) / (3 * d);
        let gg = one * (g + m) / (2 * g);
        let half = (one - ed) / 2;
        Free { gg, gd: half, mg: one - gg, me: 0, md: half, ee: one, ed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bandwidth of all relays at each position, in units of 1/scale.
    fn loads(weights: &PositionWeights, [m, g, e, d]: [u64; 4]) -> [f64; 3] {
        // A plain relay is never a guard. Relays without the flag Exit carry an unknown share of exit traffic.
        let at = |position, class: Class, bandwidth: u64| weights.share(position, class) * bandwidth as f64;
        [
            at(Position::Guard, Class::Guard, g) + at(Position::Guard, Class::Both, d),
            at(Position::Middle, Class::Plain, m)
                + at(Position::Middle, Class::Guard, g)
                + at(Position::Middle, Class::Exit, e)
                + at(Position::Middle, Class::Both, d),
            at(Position::Exit, Class::Exit, e) + at(Position::Exit, Class::Both, d),
        ]
    }

    fn of(totals: [u64; 4]) -> Option<PositionWeights> {
        let [m, g, e, d] = totals.map(i128::from);
        balanced(m, g, e, d, 10_000)
    }

    #[test]
    fn with_nothing_scarce_every_position_has_a_third() {
        let totals = [10, 100, 110, 20];
        let loads = loads(&of(totals).unwrap(), totals);
        assert!(loads.iter().all(|load| (load - 80.0).abs() < 0.1), "{loads:?}");
    }

    #[test]
    fn scarce_exits_are_only_exits_and_spare_guards_are_middles() {
        // Case 3a: G = 600, M = 100, E = 50, D = 80 of 830.
        let weights = of([100, 600, 50, 80]).unwrap();
        let share = |position, class| weights.share(position, class);
        assert_eq!(share(Position::Exit, Class::Both), 1.0);
        assert_eq!(share(Position::Guard, Class::Both), 0.0);
        assert_eq!(share(Position::Middle, Class::Guard), 0.4166);
        assert_eq!(share(Position::Guard, Class::Guard), 0.5834);
        assert_eq!(share(Position::Middle, Class::Plain), 1.0);
    }

    #[test]
    fn when_guards_and_exits_are_scarce_the_scarcer_position_gets_the_relays_with_both_flags() {
        // Case 2a: M = 1000, G = 50, E = 200, D = 100.
        let weights = of([1000, 50, 200, 100]).unwrap();
        assert_eq!(weights.share(Position::Guard, Class::Both), 1.0);
        assert_eq!(weights.share(Position::Exit, Class::Both), 0.0);
    }

    #[test]
    fn an_empty_class_has_no_weights() {
        for empty in 0..4 {
            let mut totals = [10, 10, 10, 10];
            totals[empty] = 0;
            assert_eq!(of(totals), None);
        }
    }

    #[test]
    fn document_weights_are_divided_by_the_scale() {
        let mut values: BTreeMap<&str, i64> = KEYS.iter().flatten().flatten().map(|key| (*key, 50)).collect();
        values.insert("Wed", 100);
        let weights = PositionWeights::of(&values, 100).unwrap();
        assert_eq!(weights.share(Position::Exit, Class::Both), 1.0);
        assert_eq!(weights.share(Position::Guard, Class::Guard), 0.5);
        values.insert("Wed", 101);
        assert_eq!(
            PositionWeights::of(&values, 100),
            Err(Error::WeightOutOfRange { key: "Wed", value: 101, scale: 100 })
        );
        values.insert("Wed", -1);
        assert_eq!(
            PositionWeights::of(&values, 100),
            Err(Error::WeightOutOfRange { key: "Wed", value: -1, scale: 100 })
        );
        values.remove("Wed");
        assert_eq!(PositionWeights::of(&values, 100), Err(Error::MissingWeight { key: "Wed" }));
    }

    proptest! {
        /// The weights of a class sum to one, except for rounding: Wgg + Wmg = 1, Wee + Wme = 1, Wgd + Wmd + Wed = 1.
        #[test]
        fn weights_of_a_class_sum_to_one(totals in prop::array::uniform4(1u64..1 << 40)) {
            let Some(weights) = of(totals) else { return Ok(()) };
            for class in [Class::Guard, Class::Both] {
                let sum: f64 = Position::ALL.iter().map(|position| match (position, class) {
                    // Guards with an exit policy but no flag Exit count like relays with both flags.
                    (Position::Exit, Class::Guard) => 0.0,
                    _ => weights.share(*position, class),
                }).sum();
                prop_assert!((sum - 1.0).abs() < 0.001, "{class:?}: {sum}");
            }
            let exits: f64 = weights.share(Position::Middle, Class::Exit) + weights.share(Position::Exit, Class::Exit);
            prop_assert!((exits - 1.0).abs() < 0.001);
        }

        /// Each position has a third of the bandwidth if no class is scarce, or if relays with both flags compensate
        /// for a scarce class.
        #[test]
        fn positions_are_balanced_where_they_can_be(totals in prop::array::uniform4(1000u64..1_000_000)) {
            let [m, g, e, d] = totals;
            let t = m + g + e + d;
            let one_scarce = (3 * g < t) != (3 * e < t);
            // Case 3b: the plentiful class and the middle have a third each.
            let case_3b = one_scarce && 3 * (g.min(e) + d) >= t;
            prop_assume!((3 * g >= t && 3 * e >= t) || case_3b);
            let Some(weights) = of(totals) else { return Ok(()) };
            let loads = loads(&weights, totals);
            let third = t as f64 / 3.0;
            prop_assert!(loads.iter().all(|load| (load / third - 1.0).abs() < 0.01), "{loads:?} of {t}");
        }
    }
}
