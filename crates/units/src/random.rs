//! Random streams, each keyed by the name of the component that uses it.
//!
//! A run has one root seed. Each node and purpose derives its own generator from a fixed hash of its *name*. An
//! additional client therefore does not change the random numbers of other nodes. Two variants of a scenario have
//! identical clients, files and think times.
//!
//! Source: Shadow `core/sim_config.rs` (seed of a host = global draw ^ hash of its name) and ns-3 `AssignStreams`. The
//! hash is 64-bit FNV-1a of the UTF-8 bytes, followed by SplitMix64. The generator is PCG-64-MCG (XSL-RR 128/64). Hash
//! and generator must never change, because results depend on them.

use crate::math;
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

/// The root seed of a run, from which all its random numbers derive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The random stream with this name; by convention the name is `"<node>/<purpose>"`.
    pub fn stream(self, name: &str) -> Rng {
        let low = splitmix64(self.0 ^ fnv1a(name.as_bytes()));
        let high = splitmix64(low ^ self.0.rotate_left(32));
        Rng(Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low)))
    }
}

/// A random stream.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform random number in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniform random integer in `0..bound`, without bias; `bound` must be above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing lies below zero");
        let zone = u64::MAX - u64::MAX % bound;
        loop {
            let bits = self.bits();
            if bits < zone {
                return bits % bound;
            }
        }
    }

    /// A uniform random integer in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low} is above {high}");
        match (high - low).checked_add(1) {
            Some(width) => low + self.below(width),
            None => self.bits(),
        }
    }

    /// A random number from the standard normal distribution, by Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * math::sqrt(-2.0 * math::ln(square) / square);
            }
        }
    }

    /// Returns true with probability `p`.
    pub fn bernoulli(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn splitmix64(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_stable_and_distinct() {
        let mut rng = Seed(1).stream("web/think");
        let first = [rng.bits(), rng.bits()];
        let mut again = Seed(1).stream("web/think");
        assert_eq!(first, [again.bits(), again.bits()]);
        assert_ne!(first[0], Seed(1).stream("web/size").bits());
        assert_ne!(first[0], Seed(2).stream("web/think").bits());
    }

    #[test]
    fn uniform_draws_cover_their_range() {
        let mut rng = Seed(7).stream("x");
        let mut seen = [0u32; 5];
        for _ in 0..5000 {
            seen[(rng.between(10, 14) - 10) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (900..1100).contains(n)), "{seen:?}");
        let mean = (0..10_000).map(|_| rng.unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }

    #[test]
    fn normal_draws_have_their_mean_and_deviation() {
        let mut rng = Seed(7).stream("x");
        let draws: Vec<f64> = (0..20_000).map(|_| rng.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|draw| draw * draw).sum::<f64>() / draws.len() as f64;
        let beyond = draws.iter().filter(|draw| draw.abs() > 1.96).count() as f64 / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.03, "{mean}, {square}");
        assert!((beyond - 0.05).abs() < 0.01, "{beyond}");
    }
}
