//! Locations of nodes, and the round trip between two locations.
//!
//! A node lies in a disc around the population centre of its country. A signal travels along the Earth's surface.
//! Because of routes, queues and detours, the effective speed is 4/9 of the speed of light.
//!
//! Source: Katz-Bassett et al., Towards IP geolocation using delay and topology measurements (IMC 2006), for the factor
//! 4/9. With 11 ms for the access link of each end, the median round trips match those in nstor, which come from RIPE
//! Atlas: 37 ms in Europe, 45 ms in North America, 132 ms across the Atlantic (docs/reference/networks.md).

use penstock_units::{Duration, Rng, math};
use std::sync::LazyLock;

/// The Earth's mean radius [km].
const EARTH: f64 = 6371.0;
/// The round-trip time for one kilometre of distance, at 4/9 of the speed of light [ns/km].
const NANOS_PER_KM: f64 = 2.0 / (4.0 / 9.0 * 299_792.458) * 1e9;

/// A country in which nodes can be located.
#[derive(Debug, PartialEq)]
pub struct Country {
    /// The country's two-letter code in ISO 3166-1.
    pub code: &'static str,
    /// The latitude of the population centre [degree north].
    latitude: f64,
    /// The longitude of the population centre [degree east].
    longitude: f64,
    /// The radius of the disc that contains most of the population [km].
    radius: f64,
}

/// A location on Earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// The latitude [degree north].
    latitude: f64,
    /// The longitude [degree east].
    longitude: f64,
}

impl Country {
    /// The country with this code, if [`COUNTRIES`] contains it.
    pub fn of(code: &str) -> Option<&'static Country> {
        COUNTRIES.iter().find(|country| country.code == code)
    }

    /// A random location in the country's disc, with uniform density.
    pub fn spot(&self, rng: &mut Rng) -> Spot {
        let away = self.radius * math::sqrt(rng.unit());
        let (north, east) = loop {
            let (x, y) = (2.0 * rng.unit() - 1.0, 2.0 * rng.unit() - 1.0);
            let length = math::sqrt(x * x + y * y);
            if length > 0.0 && length <= 1.0 {
                break (away * y / length, away * x / length);
            }
        };
        let degree = EARTH.to_radians();
        // A flat map is accurate enough for a country, because no country is near a pole.
        let shrink = math::cos(self.latitude.to_radians()).max(0.1);
        Spot { latitude: self.latitude + north / degree, longitude: self.longitude + east / degree / shrink }
    }
}

/// The round-trip time between two locations, without the access links.
pub fn way(one: Spot, other: Spot) -> Duration {
    let [a, b] = [one, other].map(|spot| spot.latitude.to_radians());
    let turn = (one.longitude - other.longitude).to_radians();
    let half = |angle: f64| math::sin(angle / 2.0) * math::sin(angle / 2.0);
    let chord = half(a - b) + math::cos(a) * math::cos(b) * half(turn);
    let distance = 2.0 * EARTH * math::asin(math::sqrt(chord.min(1.0)));
    Duration::from_nanos((distance * NANOS_PER_KM) as u64)
}

/// Samples a country in proportion to the given numbers.
pub fn draw(shares: &[(&str, u32)], rng: &mut Rng) -> &'static Country {
    let total = shares.iter().map(|(_, share)| u64::from(*share)).sum();
    let mut left = rng.below(total);
    let (code, _) = shares
        .iter()
        .find(|(_, share)| {
            let here = left < u64::from(*share);
            left = left.saturating_sub(u64::from(*share));
            here
        })
        .expect("the sampled number is below the sum of the shares");
    Country::of(code).expect("every table has only known countries")
}

/// Countries of Tor's users, with the mean daily number of users without bridges, June to August 2013 [100 users].
///
/// Source: Tor Metrics, top ten countries by directly connecting users, 2013-05-30 to 2013-09-05. These countries have
/// 56 % of all users.
pub const USERS: &[(&str, u32)] = &[
    ("US", 3474),
    ("DE", 2418),
    ("BR", 1769),
    ("FR", 1755),
    ("ES", 1328),
    ("IT", 1196),
    ("GB", 1008),
    ("PL", 986),
    ("RU", 954),
    ("IN", 831),
];

/// The countries that this crate supports: countries of relays from 2012 to 2022, countries of users, and some others.
pub static COUNTRIES: LazyLock<Vec<Country>> = LazyLock::new(|| {
    let country = |line: &'static str| {
        let (code, numbers) = line.split_once(',').expect("a line begins with a code");
        let numbers: Vec<f64> = numbers.split(',').filter_map(|number| number.parse().ok()).collect();
        let [latitude, longitude, radius] = numbers[..] else {
            panic!("a country has three numbers: {line}")
        };
        Country { code, latitude, longitude, radius }
    };
    include_str!("../data/countries.csv").lines().skip(1).map(country).collect()
});

/// The codes of all countries.
pub static CODES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| COUNTRIES.iter().map(|country| country.code).collect());

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Seed;

    fn median(ones: &[&str], others: &[&str]) -> f64 {
        let mut rng = Seed(1).stream("geo");
        let mut pick = |codes: &[&str]| {
            let code = codes[rng.below(codes.len() as u64) as usize];
            Country::of(code).unwrap().spot(&mut rng)
        };
        let mut round_trips: Vec<Duration> = (0..4001).map(|_| way(pick(ones), pick(others))).collect();
        round_trips.sort_unstable();
        round_trips[2000].as_secs_f64() * 1e3 + 2.0 * 11.0
    }

    #[test]
    fn country_codes_are_sorted_and_unique() {
        assert!(COUNTRIES.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert!(USERS.iter().all(|(code, _)| Country::of(code).is_some()));
    }

    #[test]
    fn known_distances_are_correct() {
        let spot = |latitude, longitude| Spot { latitude, longitude };
        // Berlin to New York: 6385 km, a round trip of 95.8 ms at 133,241 km/s.
        let berlin = way(spot(52.52, 13.405), spot(40.713, -74.006));
        assert!((berlin.as_secs_f64() - 0.0958).abs() < 0.0005, "{berlin:?}");
        assert_eq!(way(spot(1.0, 2.0), spot(1.0, 2.0)), Duration::ZERO);
        let antipodes = way(spot(0.0, 0.0), spot(0.0, 180.0));
        assert!((antipodes.as_secs_f64() - 0.3004).abs() < 0.0005, "{antipodes:?}");
    }

    /// The median round trips match those of nstor: 37 ms in Europe, 45 ms in North America, 132 ms between both.
    #[test]
    fn median_latencies_match_the_measurements() {
        let europe = ["DE", "FR", "GB", "NL", "SE", "CZ", "PL", "IT", "ES", "CH", "AT", "RO"];
        let america = ["US"];
        for (ones, others, measured) in
            [(&europe[..], &europe[..], 37.0), (&america, &america, 45.0), (&europe, &america, 132.0)]
        {
            let median = median(ones, others);
            assert!((median / measured - 1.0f64).abs() < 0.15, "{median} ms for {measured} ms");
        }
    }

    #[test]
    fn a_sampled_location_is_in_the_disc_of_its_country() {
        let (country, mut rng) = (Country::of("DE").unwrap(), Seed(3).stream("x"));
        let middle = Spot { latitude: country.latitude, longitude: country.longitude };
        let edge = Duration::from_nanos((country.radius * NANOS_PER_KM * 1.02) as u64);
        assert!((0..1000).all(|_| way(country.spot(&mut rng), middle) <= edge));
    }

    #[test]
    fn countries_are_sampled_by_their_shares() {
        let mut rng = Seed(5).stream("x");
        let germans = (0..4000).filter(|_| draw(&[("DE", 1), ("FR", 3)], &mut rng).code == "DE").count();
        assert!((900..1100).contains(&germans), "{germans}");
    }
}
