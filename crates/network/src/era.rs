//! Generated networks of any size that resemble Tor's network of a given year.
//!
//! Sampling is stratified. Each class of relays keeps its share of the network. To sample n relays of a class, the
//! distribution of link rates is divided into n parts of equal probability. One link rate is sampled from each part. A
//! small network therefore also has a few fast and many slow relays.

use crate::geo::{self, Country};
use crate::relay::Class;
use crate::sample::{CLASSES, shared};
use penstock_units::{Rng, Seed, math};
use std::sync::LazyLock;

/// Quantiles, shares and counts of all years; each line is `year,group,quantity,values`.
/// Source: relay descriptors and consensuses of these years (docs/reference/networks.md), rounded.
const TABLES: &str = include_str!("../data/eras.csv");

static ERAS: LazyLock<[Era; Era::YEARS.len()]> = LazyLock::new(|| Era::YEARS.map(Era::read));

/// The distributions of bandwidth, weight and country of Tor's relays in one year.
#[derive(Debug)]
pub struct Era {
    /// The year, or the year and the month.
    pub year: &'static str,
    /// The distributions of four classes of relays: neither guard nor exit, guard, exit, both guard and exit.
    classes: [ClassDistribution; 4],
    /// The quantiles 0 %, 10 % ... 100 % of the ratio of bucket depth to bucket rate [1/1000].
    burst: [u32; 11],
    countries: Vec<(&'static str, u32)>,
}

#[derive(Debug)]
struct ClassDistribution {
    relays: u32,
    bandwidths: Bandwidths,
}

#[derive(Debug)]
enum Bandwidths {
    OfLinks(Links),
    OfCapacities(Capacities),
}

/// Quantiles of links, and ratios that depend on the link.
#[derive(Debug)]
struct Links {
    /// Quantiles of the link rate in the slower direction [KiB/s]. [`STEPS`] contains their probabilities.
    link: [u32; STEPS.len()],
    /// The quantiles 0 %, 10 % ... 100 % of the ratio of bucket rate to link rate [1/1000]. The ratio is at most ten.
    /// Each third of the links has one row, the slowest third first.
    rate: [[u32; 11]; 3],
    /// The quantiles 0 %, 10 % ... 100 % of the ratio of consensus weight to capacity [1/1000], for slow relays and for
    /// all others. All classes have the same.
    weight: [[u32; 11]; 2],
}

/// Fitted values of capacities, and ratios that depend on the capacity. The values of a row have equally distant
/// probabilities from 0 to 1. Between them, logarithms are interpolated linearly.
///
/// Source: `benches/environments.py`, for sources with few relays.
#[derive(Debug)]
struct Capacities {
    /// The smaller of link rate and bucket rate [KiB/s].
    capacity: Vec<u32>,
    /// The share of relays whose bucket rate is below the link rate [1/1000].
    limited: u32,
    /// The ratio of link rate to capacity of these relays [1/1000], by thirds of the capacities.
    link: [Vec<u32>; 3],
    /// The ratio of consensus weight to capacity [1/1000], by thirds of the capacities.
    weight: [Vec<u32>; 3],
    /// The sums of weights, if the source has few relays.
    total: Option<TotalWeight>,
}

/// The weight of a class. In a source with few relays, one relay can have most of the weight of its class, and the
/// weights of the classes decide the weights of the positions.
#[derive(Clone, Copy, Debug)]
struct TotalWeight {
    /// The mean consensus weight of the class's relays [KiB/s].
    mean: u32,
    /// The share of the class's weight that its fastest relay has [1/1000]. If the class has k times as many relays as
    /// in the source, the k fastest relays together have this share.
    fastest: u32,
}

/// The probabilities of the link-rate quantiles [1/100]. At the end the steps are smaller, because few relays are fast.
const STEPS: [u32; 25] =
    [0, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 93, 96, 98, 99, 100];

/// Relays with a capacity below this value count as slow [B/s].
const SLOW: u64 = 100 * 1024;

/// The bucket rate of relays that are limited by their link [B/s]: the default of C tor 0.2.3 (`BandwidthRate`).
const DEFAULT_RATE: u64 = 5 << 20;

/// A relay that was sampled from an era.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledRelay {
    /// The class of the relay, which determines its positions on circuits.
    pub class: Class,
    /// The rate of the access link in each direction [B/s].
    pub link: u64,
    /// The rate of the token bucket [B/s]. It may exceed the link's rate.
    pub rate: u64,
    /// The burst of the token bucket [B].
    pub burst: u64,
    /// The consensus weight [B/s].
    pub weight: u64,
    /// The country in which the relay is located.
    pub country: &'static Country,
}

impl Era {
    /// The years for which this crate has tables.
    pub const YEARS: [&'static str; 7] = ["2012-04", "2012", "2013", "2014", "2017", "2018", "2022"];

    /// The era of a year; `None` if there are no tables for it.
    pub fn of(year: &str) -> Option<&'static Era> {
        Era::YEARS.iter().position(|known| *known == year).map(|place| &ERAS[place])
    }

    fn read(year: &'static str) -> Era {
        let class = |class| ClassDistribution {
            relays: numbers::<1>(year, class, "relays")[0],
            bandwidths: if has(year, class, "capacity") {
                Bandwidths::OfCapacities(Capacities::read(year, class))
            } else {
                Bandwidths::OfLinks(Links::read(year, class))
            },
        };
        let countries = rows(year).filter(|row| row[1] == "country");
        Era {
            year,
            classes: ["plain", "guard", "exit", "both"].map(class),
            burst: numbers(year, "all", "burst"),
            countries: countries.map(|[code, _, count]| (code, number(count))).collect(),
        }
    }

    /// The number of relays in each country.
    pub fn countries(&self) -> &[(&'static str, u32)] {
        &self.countries
    }

    /// The number of relays that the era's tables describe.
    pub fn relays(&self) -> u32 {
        self.classes.iter().map(|class| class.relays).sum()
    }

    /// The mean link rate [B/s], and the mean capacity, which is the smaller of link rate and bucket rate [B/s].
    pub fn means(&self) -> [u64; 2] {
        const MANY: u64 = 10_000;
        let sampled = self.sample(MANY as usize, &mut Seed(0).stream("means"));
        let mean = |value: &dyn Fn(&SampledRelay) -> u64| sampled.iter().map(value).sum::<u64>() / MANY;
        [mean(&|relay| relay.link), mean(&|relay| relay.link.min(relay.rate))]
    }

    /// The classes of `count` relays, in the order of [`sample`](Self::sample): plain relays, guards, exits, both.
    pub fn classes(&self, count: usize) -> Vec<Class> {
        let counts = shared(count, &self.classes.each_ref().map(|class| class.relays));
        CLASSES.iter().zip(counts).flat_map(|(class, count)| vec![*class; count]).collect()
    }

    /// Samples `count` relays. Within each class, those with slower links come first, or with lower capacities if the
    /// year has quantiles of capacities.
    pub fn sample(&self, count: usize, rng: &mut Rng) -> Vec<SampledRelay> {
        let counts = shared(count, &self.classes.each_ref().map(|class| class.relays));
        let mut sampled = Vec::with_capacity(count);
        for ((class, distribution), count) in CLASSES.iter().zip(&self.classes).zip(counts) {
            let mut limits = strata(count, rng);
            shuffle(&mut limits, rng);
            let ranks = strata(count, rng);
            let places = ranks.into_iter().zip(limits);
            match &distribution.bandwidths {
                Bandwidths::OfLinks(links) => {
                    sampled.extend(places.map(|place| self.of_links(*class, links, place, rng)));
                }
                Bandwidths::OfCapacities(capacities) => {
                    let mut weights = strata(count, rng);
                    shuffle(&mut weights, rng);
                    let places = places.zip(weights);
                    let first = sampled.len();
                    sampled.extend(
                        places.map(|(place, weight)| {
                            self.of_capacities(*class, capacities, place, weight, rng)
                        }),
                    );
                    if let Some(total) = capacities.total {
                        total.scale(&mut sampled[first..], distribution.relays as usize);
                    }
                }
            }
        }
        sampled
    }

    /// A relay with quantile `rank` of the link rates. Its bucket rate is quantile `limit` of its third of the links.
    fn of_links(
        &self,
        class: Class,
        links: &Links,
        (rank, limit): (f64, f64),
        rng: &mut Rng,
    ) -> SampledRelay {
        let link = (links.at(rank) * 1024.0) as u64;
        let of_link = at(&links.rate[third(rank)], limit);
        let rate = ((link as f64 * of_link / 1000.0) as u64).max(1);
        let burst = (rate as f64 * at(&self.burst, rng.unit()) / 1000.0) as u64;
        let capacity = link.min(rate);
        let weight = at(&links.weight[usize::from(capacity >= SLOW)], rng.unit());
        SampledRelay {
            class,
            link,
            rate,
            burst: burst.max(rate),
            weight: ((capacity as f64 * weight / 1000.0) as u64).max(1),
            country: geo::draw(&self.countries, rng),
        }
    }

    /// A relay with quantile `rank` of the capacities. Its link rate and its weight are the quantiles `limit` and
    /// `weight` of its third of the capacities.
    fn of_capacities(
        &self,
        class: Class,
        capacities: &Capacities,
        (rank, limit): (f64, f64),
        weight: f64,
        rng: &mut Rng,
    ) -> SampledRelay {
        let capacity = at_logarithm(&capacities.capacity, rank) * 1024.0;
        let limited = f64::from(capacities.limited) / 1000.0;
        let (link, rate) = if limit < limited {
            let ratio = at_logarithm(&capacities.link[third(rank)], limit / limited);
            ((capacity * ratio / 1000.0) as u64, capacity as u64)
        } else {
            (capacity as u64, DEFAULT_RATE.max(capacity as u64))
        };
        let burst = (rate as f64 * at(&self.burst, rng.unit()) / 1000.0) as u64;
        let weight = capacity * at_logarithm(&capacities.weight[third(rank)], weight) / 1000.0;
        SampledRelay {
            class,
            link,
            rate,
            burst: burst.max(rate),
            weight: (weight as u64).max(1),
            country: geo::draw(&self.countries, rng),
        }
    }
}

impl TotalWeight {
    /// Scales the weights of a class to their mean, and to the share of the fastest relays. `relays` come in the order
    /// of their capacities; the source has `count` of them.
    fn scale(self, relays: &mut [SampledRelay], count: usize) {
        let all = relays.len();
        let fastest = ((all + count / 2) / count).max(1).min(all);
        let (slower, fastest) = relays.split_at_mut(all - fastest);
        // A class may be one relay.
        let share = if slower.is_empty() { 1.0 } else { f64::from(self.fastest) / 1000.0 };
        let total = all as f64 * f64::from(self.mean) * 1024.0;
        for (part, share) in [(slower, 1.0 - share), (fastest, share)] {
            let now = part.iter().map(|relay| relay.weight as f64).sum::<f64>();
            for relay in part {
                relay.weight = ((relay.weight as f64 * share * total / now) as u64).max(1);
            }
        }
    }
}

fn rows(year: &str) -> impl Iterator<Item = [&'static str; 3]> {
    TABLES.lines().filter_map(move |line| {
        let mut fields = line.split(',');
        let mut field = || fields.next().expect("every row of eras.csv has four fields");
        (field() == year).then(|| [field(), field(), field()])
    })
}

fn has(year: &str, group: &str, quantity: &str) -> bool {
    rows(year).any(|row| row[..2] == [group, quantity])
}

fn numbers<const N: usize>(year: &str, group: &str, quantity: &str) -> [u32; N] {
    list(year, group, quantity).try_into().expect("a quantity has as many values as its quantiles")
}

fn list(year: &str, group: &str, quantity: &str) -> Vec<u32> {
    let row = rows(year).find(|row| row[..2] == [group, quantity]);
    let [_, _, values] = row.expect("eras.csv has every quantity of every group and year");
    values.split(' ').map(number).collect()
}

fn number(text: &str) -> u32 {
    text.parse().expect("the values of eras.csv are whole numbers")
}

impl Capacities {
    fn read(year: &str, class: &str) -> Capacities {
        Capacities {
            capacity: list(year, class, "capacity"),
            limited: numbers::<1>(year, class, "limited")[0],
            link: ["link_slow", "link_medium", "link_fast"].map(|quantity| list(year, class, quantity)),
            weight: ["weight_slow", "weight_medium", "weight_fast"]
                .map(|quantity| list(year, class, quantity)),
            total: has(year, class, "weight_total").then(|| {
                let [mean, fastest] = numbers(year, class, "weight_total");
                TotalWeight { mean, fastest }
            }),
        }
    }
}

impl Links {
    fn read(year: &str, class: &str) -> Links {
        Links {
            link: numbers(year, class, "link"),
            rate: ["rate_slow_links", "rate_medium_links", "rate_fast_links"]
                .map(|quantity| numbers(year, class, quantity)),
            weight: ["slow", "other"].map(|relays| numbers(year, relays, "weight")),
        }
    }

    /// The link rate at the quantile `rank` [KiB/s]. The logarithm of the rate is interpolated linearly.
    fn at(&self, rank: f64) -> f64 {
        let place = rank * 100.0;
        let step = STEPS.partition_point(|step| f64::from(*step) <= place).clamp(1, STEPS.len() - 1);
        let [from, to] = [step - 1, step].map(|step| f64::from(STEPS[step]));
        let [low, high] = [step - 1, step].map(|step| math::ln(f64::from(self.link[step].max(1))));
        math::exp(low + (high - low) * (place - from) / (to - from))
    }
}

/// The quantile `rank`, interpolated linearly between the quantiles 0 %, 10 % ... 100 % in `values`.
fn at(values: &[u32; 11], rank: f64) -> f64 {
    let step = ((rank * 10.0) as usize).min(9);
    let [low, high] = [step, step + 1].map(|step| f64::from(values[step]));
    low + (high - low) * (rank * 10.0 - step as f64)
}

/// The value at the probability `rank`; `values` have equally distant probabilities from 0 to 1. The logarithm of the
/// value is interpolated linearly.
fn at_logarithm(values: &[u32], rank: f64) -> f64 {
    let steps = values.len() - 1;
    let step = ((rank * steps as f64) as usize).min(steps - 1);
    let [low, high] = [step, step + 1].map(|step| math::ln(f64::from(values[step].max(1))));
    math::exp(low + (high - low) * (rank * steps as f64 - step as f64))
}

/// The third of a class that contains the quantile `rank`.
fn third(rank: f64) -> usize {
    ((rank * 3.0) as usize).min(2)
}

/// Divides `[0, 1)` into `count` equal parts and samples one number in each, in increasing order.
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

    fn mean(sampled: &[SampledRelay], number: impl Fn(&SampledRelay) -> u64) -> f64 {
        sampled.iter().map(|relay| number(relay) as f64).sum::<f64>() / sampled.len() as f64 / 1024.0
    }

    fn capacity(relay: &SampledRelay) -> u64 {
        relay.rate.min(relay.link)
    }

    /// The mean link rate, and the mean of the smaller of link rate and bucket rate, match the year [KiB/s].
    #[test]
    fn relay_means_match_the_year() {
        for (year, link, capacity_there) in
            [("2012", 476.0, 325.0), ("2014", 840.0, 659.0), ("2018", 4897.0, 4353.0)]
        {
            let sampled = Era::of(year).unwrap().sample(5000, &mut rng(1));
            let [links, capacities] = [mean(&sampled, |relay| relay.link), mean(&sampled, capacity)];
            assert!((links / link - 1.0).abs() < 0.06, "{year}: links {links}");
            assert!((capacities / capacity_there - 1.0).abs() < 0.06, "{year}: capacities {capacities}");
        }
        for (year, link) in [("2017", 7810.0), ("2022", 16_078.0)] {
            let links = mean(&Era::of(year).unwrap().sample(5000, &mut rng(1)), |relay| relay.link);
            assert!((links / link - 1.0).abs() < 0.06, "{year}: links {links}");
        }
    }

    /// Relays of the eras with few relays have the quantiles of the rows: capacities, links and weights.
    #[test]
    fn capacities_and_ratios_match_their_rows() {
        for year in ["2012-04", "2013"] {
            let era = Era::of(year).unwrap();
            for (class, distribution) in CLASSES.iter().zip(&era.classes) {
                let Bandwidths::OfCapacities(rows) = &distribution.bandwidths else {
                    panic!("{year} has capacities")
                };
                let drawn = era.sample(20_000, &mut rng(1));
                let mut of_class: Vec<_> = drawn.iter().filter(|relay| relay.class == *class).collect();
                of_class.sort_by_key(|relay| capacity(relay));
                for rank in [0.1, 0.25, 0.5, 0.75, 0.9] {
                    let found = capacity(of_class[(of_class.len() as f64 * rank) as usize]) as f64 / 1024.0;
                    let right = at_logarithm(&rows.capacity, rank);
                    assert!((found / right - 1.0).abs() < 0.02, "{year} {class:?} {rank}: {found}, {right}");
                }
                let limited = of_class.iter().filter(|relay| relay.rate < relay.link).count() * 1000;
                let share = limited as f64 / of_class.len() as f64;
                assert!((share - f64::from(rows.limited)).abs() < 40.0, "{year} {class:?}: {share}");
                for (part, row) in of_class.chunks(of_class.len().div_ceil(3)).zip(&rows.weight) {
                    let mut ratios: Vec<f64> = part
                        .iter()
                        .map(|relay| relay.weight as f64 / capacity(relay) as f64 * 1000.0)
                        .collect();
                    ratios.sort_by(f64::total_cmp);
                    if rows.total.is_some() {
                        continue;
                    }
                    let (found, right) = (ratios[ratios.len() / 2], at_logarithm(row, 0.5));
                    assert!((found / right - 1.0).abs() < 0.1, "{year} {class:?} weight: {found}, {right}");
                }
            }
        }
    }

    /// In an era with few relays, each network has the weights of the classes and of their fastest relays. In a network
    /// twice as large, the two fastest relays of each class have the share.
    #[test]
    fn the_fastest_relays_of_a_small_source_have_their_share_of_the_weight() {
        let era = Era::of("2012-04").unwrap();
        for (times, seed) in [(1, 1), (1, 2), (2, 3)] {
            let drawn = era.sample(49 * times, &mut rng(seed));
            for (class, distribution) in CLASSES.iter().zip(&era.classes) {
                let Bandwidths::OfCapacities(Capacities { total: Some(total), .. }) = distribution.bandwidths
                else {
                    panic!("2012-04 has few relays")
                };
                let of_class: Vec<_> = drawn.iter().filter(|relay| relay.class == *class).collect();
                let sum =
                    |relays: &[&SampledRelay]| relays.iter().map(|relay| relay.weight).sum::<u64>() as f64;
                let mean = sum(&of_class) / of_class.len() as f64 / 1024.0;
                assert!((mean / f64::from(total.mean) - 1.0).abs() < 0.01, "{class:?}: {mean}");
                let share = sum(&of_class[of_class.len() - times..]) / sum(&of_class);
                assert!((share - f64::from(total.fastest) / 1000.0).abs() < 0.01, "{class:?}: {share}");
            }
        }
    }

    /// With any seed, a sample of a fiftieth of the relays has about the same mean capacity as a large sample, and the
    /// same shares of classes.
    #[test]
    fn a_small_network_keeps_the_distribution() {
        let era = Era::of("2014").unwrap();
        let whole = mean(&era.sample(5000, &mut rng(1)), capacity);
        for seed in 1..20 {
            let small = mean(&era.sample(100, &mut rng(seed)), capacity);
            assert!((small / whole - 1.0).abs() < 0.25, "seed {seed}: {small} of {whole}");
        }
        let count = |class| era.classes(100).iter().filter(|each| **each == class).count();
        assert_eq!(CLASSES.map(count), [53, 24, 15, 8]);
    }

    #[test]
    fn classes_match_the_sampled_relays() {
        for era in ERAS.iter() {
            for count in [1, 7, 100, 361] {
                let sampled: Vec<Class> =
                    era.sample(count, &mut rng(2)).iter().map(|relay| relay.class).collect();
                assert_eq!(sampled, era.classes(count), "{} relays of {}", count, era.year);
            }
        }
    }

    #[test]
    fn links_and_rates_are_sampled_together() {
        // In 2014 about two relays in three had a rate below their link. Most rates of the others had no effect.
        let sampled = Era::of("2014").unwrap().sample(5000, &mut rng(1));
        let below = sampled.iter().filter(|relay| capacity(relay) < relay.link).count();
        assert!((3000..3700).contains(&below), "{below} of 5000 are limited by their rates");
        assert!(sampled.iter().all(|relay| 0 < relay.rate && relay.rate <= relay.burst));
        assert!(sampled.iter().all(|relay| relay.weight > 0 && relay.link >= 1024));
    }

    #[test]
    fn year_names_match_the_tables() {
        for (year, era) in Era::YEARS.iter().zip(ERAS.iter()) {
            assert_eq!(*year, era.year);
            assert!(era.countries.iter().all(|(code, _)| Country::of(code).is_some()));
            for class in &era.classes {
                match &class.bandwidths {
                    Bandwidths::OfLinks(links) => {
                        assert!(
                            links.link.is_sorted() && links.rate.iter().all(|rates| rates.is_sorted()),
                            "{year}"
                        );
                    }
                    Bandwidths::OfCapacities(each) => {
                        let rows = each.link.iter().chain(&each.weight).chain([&each.capacity]);
                        assert!(rows.clone().all(|row| row.is_sorted()), "{year}");
                        // More values would publish the source's relays one by one.
                        assert!(
                            rows.clone().all(|row| row.len() <= 11 && row.len() < class.relays as usize),
                            "{year}"
                        );
                        assert!(each.link.iter().all(|row| row[0] >= 1000) && each.limited <= 1000, "{year}");
                    }
                }
            }
        }
        assert!(Era::of("2015").is_none());
    }

    #[test]
    fn every_row_of_the_tables_is_parsed() {
        let class = |class: &ClassDistribution| match class.bandwidths {
            Bandwidths::OfLinks(_) => 5,
            Bandwidths::OfCapacities(ref each) => 9 + usize::from(each.total.is_some()),
        };
        let slow_and_other = |era: &Era| {
            if matches!(era.classes[0].bandwidths, Bandwidths::OfLinks(_)) { 2 } else { 0 }
        };
        let classes = |era: &Era| era.classes.iter().map(class).sum::<usize>();
        let read: usize =
            ERAS.iter().map(|era| classes(era) + 1 + slow_and_other(era) + era.countries.len()).sum();
        assert_eq!(TABLES.lines().count(), read + 1, "a row is unknown or duplicate");
        let era = Era::of("2012").unwrap();
        let Bandwidths::OfLinks(guards) = &era.classes[1].bandwidths else {
            panic!("2012 has quantiles of links")
        };
        assert_eq!((era.classes[1].relays, guards.link[24], guards.weight[1][0]), (94, 11_209, 10));
        assert_eq!(
            (guards.rate[2][6..].to_vec(), era.burst[1], era.countries[0]),
            (vec![843, 969, 1890, 4705, 10_000], 1166, ("US", 122))
        );
    }
}
