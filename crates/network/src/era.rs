//! Networks of any size that look like Tor's of some year.
//!
//! A network is stratified: each class of relays has its share of them, and in each class of n relays one link is drawn
//! from each n-th part of the distribution. So a network of a twentieth of the size has the same shape, with its few
//! fast relays and many slow ones, whatever its seed.

use crate::eras::ERAS;
use crate::geo::{self, Country};
use crate::relay::Class;
use crate::sample::{CLASSES, shared};
use penstock_units::{Rng, Seed, math};

/// What relays were like in a year.
#[derive(Debug)]
pub struct Era {
    /// Which.
    pub year: u16,
    /// Plain relays, guards, exits, and those that are both.
    pub(crate) classes: [Law; 4],
    /// Consensus weight over capacity, of slow relays and of all others, at equal steps of probability [1/1000].
    pub(crate) weight: [[u32; 11]; 2],
    /// Burst over rate, at equal steps of probability [1/1000].
    pub(crate) burst: [u32; 11],
    /// How many relays of a country there were.
    pub(crate) countries: &'static [(&'static str, u32)],
}

/// What relays of one class were like.
#[derive(Debug)]
pub(crate) struct Law {
    /// How many there were.
    pub(crate) relays: u32,
    /// Their links, the smaller of both directions, at the probabilities [`STEPS`] [KiB/s].
    pub(crate) link: [u32; STEPS.len()],
    /// Bandwidth rate over link, of the third with the slowest links, the next and the fastest, at equal steps of
    /// probability [1/1000]; what is above ten is ten.
    pub(crate) rate: [[u32; 11]; 3],
}

/// Probabilities of the quantiles of links [1/100]: closer where few relays have much.
const STEPS: [u32; 25] =
    [0, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 93, 96, 98, 99, 100];

/// A relay with less is slow [B/s].
const SLOW: u64 = 100 * 1024;

/// A relay that was drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// Where on circuits it may stand.
    pub class: Class,
    /// Its access link, each direction [B/s].
    pub link: u64,
    /// Rate of its bandwidth [B/s], which may be above its link.
    pub rate: u64,
    /// Burst of its bandwidth [B].
    pub burst: u64,
    /// Its consensus weight [B/s].
    pub weight: u64,
    /// Where it is.
    pub country: &'static Country,
}

impl Era {
    /// The years there are.
    pub const YEARS: [&'static str; 5] = ["2012", "2014", "2017", "2018", "2022"];

    /// The era of a year, if there is one.
    pub fn of(year: &str) -> Option<&'static Era> {
        Era::YEARS.iter().position(|known| *known == year).map(|place| &ERAS[place])
    }

    /// How many relays were in each country.
    pub fn countries(&self) -> &'static [(&'static str, u32)] {
        self.countries
    }

    /// How many relays its tables are of.
    pub fn relays(&self) -> u32 {
        self.classes.iter().map(|law| law.relays).sum()
    }

    /// What its relays have on average: their links, and the smaller of link and rate [B/s].
    pub fn means(&self) -> [u64; 2] {
        const MANY: u64 = 10_000;
        let drawn = self.draw(MANY as usize, &mut Seed(0).stream("means"));
        let mean = |number: &dyn Fn(&Drawn) -> u64| drawn.iter().map(number).sum::<u64>() / MANY;
        [mean(&|relay| relay.link), mean(&|relay| relay.link.min(relay.rate))]
    }

    /// The classes of `count` relays, in the order in which [`draw`](Self::draw) has them: plain relays, guards, exits,
    /// both. The same for all seeds.
    pub fn classes(&self, count: usize) -> Vec<Class> {
        let counts = shared(count, &self.classes.each_ref().map(|law| law.relays));
        CLASSES.iter().zip(counts).flat_map(|(class, count)| vec![*class; count]).collect()
    }

    /// `count` relays; in each class the slower link comes first.
    pub fn draw(&self, count: usize, rng: &mut Rng) -> Vec<Drawn> {
        let counts = shared(count, &self.classes.each_ref().map(|law| law.relays));
        let mut drawn = Vec::with_capacity(count);
        for ((class, law), count) in CLASSES.iter().zip(&self.classes).zip(counts) {
            let mut limits = strata(count, rng);
            shuffle(&mut limits, rng);
            for (rank, limit) in strata(count, rng).into_iter().zip(limits) {
                drawn.push(self.relay(*class, law, rank, limit, rng));
            }
        }
        drawn
    }

    /// A relay whose link is at `rank` of its class, and its rate over its link at `limit` of those with such links.
    fn relay(&self, class: Class, law: &Law, rank: f64, limit: f64, rng: &mut Rng) -> Drawn {
        let link = (law.link_at(rank) * 1024.0) as u64;
        let of_link = at(&law.rate[((rank * 3.0) as usize).min(2)], limit);
        let rate = ((link as f64 * of_link / 1000.0) as u64).max(1);
        let burst = (rate as f64 * at(&self.burst, rng.unit()) / 1000.0) as u64;
        let capacity = link.min(rate);
        let weight = at(&self.weight[usize::from(capacity >= SLOW)], rng.unit());
        Drawn {
            class,
            link,
            rate,
            burst: burst.max(rate),
            weight: ((capacity as f64 * weight / 1000.0) as u64).max(1),
            country: geo::draw(self.countries, rng),
        }
    }
}

impl Law {
    /// The link below which a share `rank` of the class is [KiB/s]; its logarithm is straight between two quantiles.
    fn link_at(&self, rank: f64) -> f64 {
        let place = rank * 100.0;
        let step = STEPS.partition_point(|step| f64::from(*step) <= place).clamp(1, STEPS.len() - 1);
        let [from, to] = [step - 1, step].map(|step| f64::from(STEPS[step]));
        let [low, high] = [step - 1, step].map(|step| math::ln(f64::from(self.link[step].max(1))));
        math::exp(low + (high - low) * (place - from) / (to - from))
    }
}

/// The quantile of `rank` where values are at equal steps, straight between two.
fn at(values: &[u32; 11], rank: f64) -> f64 {
    let step = ((rank * 10.0) as usize).min(9);
    let [low, high] = [step, step + 1].map(|step| f64::from(values[step]));
    low + (high - low) * (rank * 10.0 - step as f64)
}

/// One number of each `count`-th part of `[0, 1)`, growing.
fn strata(count: usize, rng: &mut Rng) -> Vec<f64> {
    (0..count).map(|stratum| (stratum as f64 + rng.unit()) / count as f64).collect()
}

fn shuffle(values: &mut [f64], rng: &mut Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rng(seed: u64) -> Rng {
        Seed(seed).stream("relays")
    }

    fn mean(drawn: &[Drawn], number: impl Fn(&Drawn) -> u64) -> f64 {
        drawn.iter().map(|relay| number(relay) as f64).sum::<f64>() / drawn.len() as f64 / 1024.0
    }

    fn capacity(relay: &Drawn) -> u64 {
        relay.rate.min(relay.link)
    }

    /// Means of the relays that the tables are of: links, and the smaller of link and rate [KiB/s].
    #[test]
    fn relay_means_match_the_year() {
        for (year, link, capacity_there) in
            [("2012", 476.0, 325.0), ("2014", 840.0, 659.0), ("2018", 4897.0, 4353.0)]
        {
            let drawn = Era::of(year).unwrap().draw(5000, &mut rng(1));
            let [links, capacities] = [mean(&drawn, |relay| relay.link), mean(&drawn, capacity)];
            assert!((links / link - 1.0).abs() < 0.06, "{year}: links {links}");
            assert!((capacities / capacity_there - 1.0).abs() < 0.06, "{year}: capacities {capacities}");
        }
        for (year, link) in [("2017", 7810.0), ("2022", 16_078.0)] {
            let links = mean(&Era::of(year).unwrap().draw(5000, &mut rng(1)), |relay| relay.link);
            assert!((links / link - 1.0).abs() < 0.06, "{year}: links {links}");
        }
    }

    /// Whatever its seed, a network of a fiftieth has about the capacity and the classes of a large one.
    #[test]
    fn a_small_network_keeps_the_distribution() {
        let era = Era::of("2014").unwrap();
        let whole = mean(&era.draw(5000, &mut rng(1)), capacity);
        for seed in 1..20 {
            let small = mean(&era.draw(100, &mut rng(seed)), capacity);
            assert!((small / whole - 1.0).abs() < 0.25, "seed {seed}: {small} of {whole}");
        }
        let count = |class| era.classes(100).iter().filter(|each| **each == class).count();
        assert_eq!(CLASSES.map(count), [53, 24, 15, 8]);
    }

    #[test]
    fn classes_match_the_sampled_relays() {
        for era in &ERAS {
            for count in [1, 7, 100, 361] {
                let drawn: Vec<Class> =
                    era.draw(count, &mut rng(2)).iter().map(|relay| relay.class).collect();
                assert_eq!(drawn, era.classes(count), "{} relays of {}", count, era.year);
            }
        }
    }

    #[test]
    fn links_and_rates_are_sampled_together() {
        // In 2014 rates were below the links of about two relays in three, and most others had none that matter.
        let drawn = Era::of("2014").unwrap().draw(5000, &mut rng(1));
        let below = drawn.iter().filter(|relay| capacity(relay) < relay.link).count();
        assert!((3000..3700).contains(&below), "{below} of 5000 are bound by their rates");
        assert!(drawn.iter().all(|relay| 0 < relay.rate && relay.rate <= relay.burst));
        assert!(drawn.iter().all(|relay| relay.weight > 0 && relay.link >= 1024));
    }

    #[test]
    fn year_names_match_the_tables() {
        for (year, era) in Era::YEARS.iter().zip(&ERAS) {
            assert_eq!(year.parse(), Ok(era.year));
            assert!(era.countries.iter().all(|(code, _)| Country::of(code).is_some()));
            for law in &era.classes {
                assert!(law.link.is_sorted() && law.rate.iter().all(|rates| rates.is_sorted()), "{year}");
            }
        }
        assert!(Era::of("2013").is_none());
    }
}
