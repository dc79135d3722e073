//! What a scenario leaves to chance: drawn anew for each seed, before anything happens.
//!
//! Relays of an era are drawn first, then which relays a deployment reaches, then all else, then how paths are drawn.
//!
//! A rate or a delay may be `quantiles(a, b, ..., z)`. Each node has one place between 0 and 1 for all of its rates, so
//! that a node whose link is fast has a high bandwidth too; and one for its delay.

use crate::model::{Client, Host, Network, Relay, Scenario, Server};
use crate::ways::Ways;
use penstock_core::config::{Bandwidth, RelayConfig};
use penstock_network::Country;
use penstock_network::geo::{self, Spot};
use penstock_units::{DataRate, Duration, Rng, Seed};
use std::borrow::Cow;
use std::sync::Arc;

/// A distribution by its quantiles, at equal steps of probability from the least value to the greatest; straight
/// between two. At least two values, none less than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles(Arc<[u64]>);

impl Quantiles {
    /// Of these values; `None` if they are no distribution.
    pub fn new(values: Vec<u64>) -> Option<Self> {
        (values.len() >= 2 && values.is_sorted()).then(|| Quantiles(values.into()))
    }

    /// The value below which a share `place` of all is, in `[0, 1)`.
    pub fn at(&self, place: f64) -> u64 {
        let steps = (self.0.len() - 1) as f64;
        let step = (place * steps) as usize;
        let [low, high] = [self.0[step], self.0[(step + 1).min(self.0.len() - 1)]];
        low + ((high - low) as f64 * (place * steps - step as f64)) as u64
    }

    /// The mean of what is drawn from them.
    pub fn mean(&self) -> u64 {
        let steps = (self.0.len() - 1) as u128;
        let twice: u128 = self.0.windows(2).map(|pair| u128::from(pair[0]) + u128::from(pair[1])).sum();
        // No mean is above the greatest value.
        (twice / (2 * steps)) as u64
    }

    /// The least and the greatest.
    pub fn ends(&self) -> [u64; 2] {
        [self.0[0], self.0[self.0.len() - 1]]
    }
}

/// Which of a node's rates are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrawnRates {
    /// What its access link sends [B/s].
    pub link_up: Option<Quantiles>,
    /// What it receives [B/s].
    pub link_down: Option<Quantiles>,
    /// Refill of its Tor's buckets [B/s].
    pub bandwidth: Option<Quantiles>,
}

/// Where the nodes' delays come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// All are the same way apart.
    Even,
    /// By the way between the places where they are, and what each adds to its round trips [ns].
    Geographic(Quantiles),
    /// By their countries, and what each adds to its round trips [ns].
    Ways(Ways, Quantiles),
    /// By their delays to the points where they hang.
    Dumbbell(Dumbbell),
}

/// Delays of nodes that all hang at two points, with one way between these.
///
/// Source: nstor's dumbbell. A star is a dumbbell with nothing on its far side.
#[derive(Clone, Debug, PartialEq)]
pub struct Dumbbell {
    /// What a node on the near side adds to all its round trips [ns].
    pub near: Quantiles,
    /// What one on the far side adds [ns].
    pub far: Quantiles,
    /// Probability that a node is on the far side.
    pub far_share: f64,
    /// A round trip from one side to the other [ns]; the way between the points takes what is left of it.
    pub across: Quantiles,
}

/// About what a way across the world's networks takes there and back, where many are in Europe and North America.
const TYPICAL_WAY: Duration = Duration::from_millis(60);

/// The way between the points takes so long at least, there and back (nstor: 1 ms each).
const LEAST_TRUNK: Duration = Duration::from_millis(2);

impl Dumbbell {
    /// The way between its points, there and back.
    ///
    /// Source: nstor, which takes one node's delay of each side off.
    fn trunk(&self, seed: Seed) -> Duration {
        let mut rng = seed.stream("network/trunk");
        let [across, near, far] = [&self.across, &self.near, &self.far].map(|delays| delays.at(rng.unit()));
        Duration::from_nanos(across.saturating_sub(near + far)).max(LEAST_TRUNK)
    }

    /// Where a node is: whether on the far side, and what that adds to its round trips.
    fn place(&self, rng: &mut Rng) -> Place {
        let far = rng.unit() < self.far_share;
        let delays = if far { &self.far } else { &self.near };
        Place { far, access: Duration::from_nanos(delays.at(rng.unit())), ..Place::default() }
    }

    /// A round trip of two nodes whose delays are medians, each on the sides that are drawn: the mean of that.
    fn typical(&self) -> Duration {
        let [near, far, across] = [&self.near, &self.far, &self.across].map(|delays| delays.at(0.5) as f64);
        let trunk = (across - near - far).max(LEAST_TRUNK.as_nanos() as f64);
        let (far_share, near_share) = (self.far_share, 1.0 - self.far_share);
        let mean = 2.0 * (near_share * near + far_share * far) + 2.0 * near_share * far_share * trunk;
        Duration::from_nanos(mean as u64)
    }

    /// No round trip is shorter.
    fn least(&self) -> Duration {
        Duration::from_nanos(2 * self.near.at(0.0).min(self.far.at(0.0)))
    }
}

/// Where a node is in its network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// On the far side of a dumbbell.
    pub far: bool,
    /// What its own way to the others adds to a round trip.
    pub access: Duration,
    /// Where on Earth, if that matters.
    pub spot: Option<Spot>,
    /// In which country, if that matters.
    pub country: Option<&'static Country>,
}

impl Latency {
    fn place(&self, host: &Host, rng: &mut Rng) -> Place {
        match self {
            Latency::Even => Place::default(),
            Latency::Dumbbell(dumbbell) => dumbbell.place(rng),
            Latency::Geographic(access) => {
                let country = host.country.unwrap_or_else(|| geo::draw(geo::USERS, rng));
                let spot = Some(country.spot(rng));
                Place { access: Duration::from_nanos(access.at(rng.unit())), spot, ..Place::default() }
            }
            Latency::Ways(ways, access) => {
                let country = Some(host.country.unwrap_or_else(|| geo::draw(ways.users(), rng)));
                Place { access: Duration::from_nanos(access.at(rng.unit())), country, ..Place::default() }
            }
        }
    }
}

impl Scenario {
    /// The scenario as it is in one network: everything that it leaves to that is drawn.
    pub fn drawn(&self, seed: Seed) -> Cow<'_, Scenario> {
        let hosts = || self.relays.iter().map(|relay| &relay.host);
        let clients = self.clients.iter().map(|client| &client.host);
        let mut all = hosts().chain(clients).chain(self.servers.iter().map(|server| &server.host));
        let is_given =
            self.network.latency == Latency::Even && self.generated.is_empty() && self.deployments.is_empty();
        if is_given && all.all(|host| host.drawn == DrawnRates::default()) {
            return Cow::Borrowed(self);
        }
        let mut drawn = self.clone();
        drawn.generated.iter().for_each(|generated| generated.draw(&mut drawn.relays, seed));
        drawn.deployments.deploy(&mut drawn.relays, seed);
        let network = &mut drawn.network;
        network.trunk = match &network.latency {
            Latency::Dumbbell(dumbbell) => dumbbell.trunk(seed),
            _ => Duration::ZERO,
        };
        for Relay { host, weight, weight_follows, config, .. } in &mut drawn.relays {
            draw(host, network, config, seed);
            if *weight_follows {
                *weight = config.bandwidth.map_or(host.link_up, |bandwidth| bandwidth.rate);
            }
        }
        for Client { host, config, .. } in &mut drawn.clients {
            draw(host, network, config, seed);
        }
        for Server { host } in &mut drawn.servers {
            draw_host(host, network, seed);
        }
        drawn.selector = drawn.select().expect("who may stand where is the same in all networks");
        Cow::Owned(drawn)
    }
}

/// Gives a node a bandwidth of its own; a configuration that has it already stays shared.
pub(crate) fn set_bandwidth(config: &mut Arc<RelayConfig>, bandwidth: Option<Bandwidth>) {
    if config.bandwidth != bandwidth {
        Arc::make_mut(config).bandwidth = bandwidth;
    }
}

fn draw(host: &mut Host, network: &Network, config: &mut Arc<RelayConfig>, seed: Seed) {
    let rank = draw_host(host, network, seed);
    let rate = host.drawn.bandwidth.as_ref().and_then(|rates| DataRate::new(rates.at(rank)));
    if let (Some(rate), Some(bandwidth)) = (rate, config.bandwidth) {
        let burst = bandwidth.burst.get() as u128 * u128::from(rate.bytes_per_sec());
        // The bucket holds as long as before; rates and bursts are far below what a product could lose.
        let burst = (burst / u128::from(bandwidth.rate.bytes_per_sec())) as u64;
        set_bandwidth(config, Some(Bandwidth { rate, burst: penstock_units::Bytes::new(burst.max(1)) }));
    }
}

/// Draws a node's links and where it is; returns its place between 0 and 1 for all of its rates.
fn draw_host(host: &mut Host, network: &Network, seed: Seed) -> f64 {
    let rank = seed.stream(&format!("{}/rates", host.name)).unit();
    let rate = |quantiles: &Option<Quantiles>| DataRate::new(quantiles.as_ref()?.at(rank));
    host.link_up = rate(&host.drawn.link_up).unwrap_or(host.link_up);
    host.link_down = rate(&host.drawn.link_down).unwrap_or(host.link_down);
    if network.latency != Latency::Even {
        host.place = network.latency.place(host, &mut seed.stream(&format!("{}/place", host.name)));
    }
    rank
}

impl Network {
    /// A round trip between two nodes that no exception names; about what it is, until that is drawn.
    pub(crate) fn default_rtt(&self, one: &Host, other: &Host) -> Duration {
        if self.latency == Latency::Even || one.place.access.is_zero() {
            return self.typical_rtt();
        }
        let countries = one.place.country.zip(other.place.country);
        let way = match (one.place.spot.zip(other.place.spot), &self.latency, countries) {
            (Some((one, other)), ..) => geo::way(one, other),
            (None, Latency::Ways(ways, _), Some((one, other))) => ways.between(one, other),
            _ if one.place.far == other.place.far => Duration::ZERO,
            _ => self.trunk,
        };
        one.place.access + other.place.access + way
    }

    /// No two nodes have a shorter round trip.
    pub fn shortest_rtt(&self) -> Duration {
        let usual = match &self.latency {
            Latency::Even => self.default.rtt,
            Latency::Geographic(access) => Duration::from_nanos(2 * access.at(0.0)),
            Latency::Ways(ways, access) => ways.shortest() + Duration::from_nanos(2 * access.at(0.0)),
            Latency::Dumbbell(dumbbell) => dumbbell.least(),
        };
        let exceptions = self.exceptions.values().map(|wire| wire.rtt);
        exceptions.chain([usual]).min().expect("there is one at least")
    }

    /// A round trip between any two nodes, about.
    pub(crate) fn typical_rtt(&self) -> Duration {
        match &self.latency {
            Latency::Even => self.default.rtt,
            Latency::Geographic(access) => Duration::from_nanos(2 * access.at(0.5)) + TYPICAL_WAY,
            Latency::Ways(ways, access) => Duration::from_nanos(2 * access.at(0.5)) + ways.typical(),
            Latency::Dumbbell(dumbbell) => dumbbell.typical(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_quantiles_it_is_straight() {
        let quantiles = Quantiles::new(vec![10, 20, 40, 80, 160]).unwrap();
        let at = [0.0, 0.125, 0.25, 0.5, 0.625, 0.999_999_9].map(|place| quantiles.at(place));
        assert_eq!(at, [10, 15, 20, 40, 60, 159]);
        assert_eq!(Quantiles::new(vec![7, 7]).unwrap().at(0.3), 7);
        assert_eq!((quantiles.mean(), quantiles.ends()), (56, [10, 160]));
        assert_eq!(Quantiles::new(vec![1]), None);
        assert_eq!(Quantiles::new(vec![2, 1]), None);
    }

    #[test]
    fn the_trunk_takes_what_the_sides_leave_and_two_milliseconds_at_least() {
        let fixed = |value| Quantiles::new(vec![value, value]).unwrap();
        let [near, far, across] = [20_000_000, 30_000_000, 130_000_000].map(fixed);
        let dumbbell = |across| Dumbbell { near: near.clone(), far: far.clone(), far_share: 0.5, across };
        assert_eq!(dumbbell(across).trunk(Seed(1)), Duration::from_millis(80));
        assert_eq!(dumbbell(fixed(10)).trunk(Seed(1)), LEAST_TRUNK);
        assert_eq!(dumbbell(fixed(10)).typical(), Duration::from_millis(51));
        let star = Dumbbell { far_share: 0.0, ..dumbbell(fixed(10)) };
        assert_eq!([star.typical(), star.least()], [Duration::from_millis(40); 2]);
        assert!(
            (0..50).all(|seed| !star.place(&mut Seed(seed).stream("a/place")).far),
            "a star has one side"
        );
    }
}
