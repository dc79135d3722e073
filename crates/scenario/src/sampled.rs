//! Samples the random parts of a scenario for one network, before a run begins.
//!
//! The order is: relays of an era, relays that a deployment reaches, places, rates, listed circuits, probabilities of
//! paths.
//!
//! A rate or a delay may be `quantiles(a, b, ..., z)`. A node takes all its rates at the same random probability, so a
//! node with a fast link also has a high bandwidth. Its delay is independent of its rates.

use crate::model::{
    Circuits, Client, Deployment, Deployments, Dumbbell, Generated, Host, Latency, Layers, LossOf, Network,
    Path, Place, Quantiles, Relay, SampledRates, Scenario, Server, ShareOf, Wire, draw_weighted,
};
use penstock_core::config::{Bandwidth, RelayConfig};
use penstock_network::geo;
use penstock_network::{Environment, Error, Flags, Places, PositionWeights, Selector, era};
use penstock_units::{Bytes, DataRate, Duration, Rng, Seed};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Typical round-trip time between two places on the Internet. Many places are in Europe and North America.
const TYPICAL_DISTANCE: Duration = Duration::from_millis(60);

/// Shortest round-trip time between the two points of a dumbbell (nstor: 1 ms in each direction).
const LEAST_TRUNK: Duration = Duration::from_millis(2);

impl Scenario {
    /// Samples all random parts of the scenario for the network with this seed.
    pub fn sampled(&self, seed: Seed) -> Cow<'_, Scenario> {
        let hosts = || self.relays.iter().map(|relay| &relay.host);
        let clients = self.clients.iter().map(|client| &client.host);
        let mut all = hosts().chain(clients).chain(self.servers.iter().map(|server| &server.host));
        let is_fixed =
            self.network.latency == Latency::Even && self.generated.is_empty() && self.deployments.is_empty();
        let moves = |client: &Client| client.group.path == Path::Listed || client.group.each_guard;
        let is_fixed = is_fixed && !self.clients.iter().any(moves);
        if is_fixed && all.all(|host| host.group.sampled == SampledRates::default()) {
            return Cow::Borrowed(self);
        }
        let mut sampled = self.clone();
        sampled.generated.iter().for_each(|generated| generated.draw(&mut sampled.relays, seed));
        sampled.deployments.deploy(&mut sampled.relays, seed);
        let network = &mut sampled.network;
        network.trunk = match &network.latency {
            Latency::Dumbbell(dumbbell) => dumbbell.trunk(seed),
            _ => Duration::ZERO,
        };
        if let Latency::Places(_, Some(environment)) = &network.latency {
            network.latency = Latency::generated(environment, seed, network.place_latency);
        }
        if let Latency::Places(places, _) = &network.latency {
            let places = places.clone();
            assign(&places, 0, sampled.relays.iter_mut().map(|relay| &mut relay.host), seed);
            assign(&places, 1, sampled.clients.iter_mut().map(|client| &mut client.host), seed);
            assign(&places, 2, sampled.servers.iter_mut().map(|server| &mut server.host), seed);
        }
        for Relay { host, weight, weight_follows, config, .. } in &mut sampled.relays {
            if let Some(bandwidth) = draw(host, network, config, seed) {
                set_bandwidth(config, Some(bandwidth));
            }
            if *weight_follows {
                *weight = config.bandwidth.map_or(host.link_up, |bandwidth| bandwidth.rate);
            }
        }
        for Client { host, group, .. } in &mut sampled.clients {
            if let Some(bandwidth) = draw(host, network, &group.config, seed) {
                set_bandwidth(&mut Arc::make_mut(group).config, Some(bandwidth));
            }
        }
        for Server { host, .. } in &mut sampled.servers {
            draw_host(host, network, seed);
        }
        sampled.network.circuits.take(&mut sampled.clients, &sampled.relays, seed);
        sampled.spread_over_guards();
        sampled.settle_entries();
        sampled.selector = sampled.select().expect("all networks have the same numbers of guards and exits");
        Cow::Owned(sampled)
    }

    /// Gives each client of a group with the path "each-guard" the next possible guard as its first relay. After the last
    /// guard, the first one follows.
    fn spread_over_guards(&mut self) {
        let guards: Vec<usize> = (0..self.relays.len()).filter(|relay| self.relays[*relay].guard).collect();
        let mut places = BTreeMap::new();
        for client in self.clients.iter_mut().filter(|client| client.group.each_guard) {
            let Path::Fixed(path) = &client.group.path else { continue };
            let free: Vec<usize> =
                guards.iter().copied().filter(|guard| !path[1..].contains(guard)).collect();
            let place = places.entry(client.host.group.name.clone()).or_insert(0);
            // Without a guard, the client keeps the relay of the parsed scenario.
            if let Some(guard) = free.get(*place % free.len().max(1)) {
                let path = std::iter::once(*guard).chain(path[1..].iter().copied()).collect();
                Arc::make_mut(&mut client.group).path = Path::Fixed(path);
            }
            *place += 1;
        }
    }

    /// Gives the clients at their entries the host and the configuration of these relays. A client that has no relay
    /// yet stays as it is.
    pub(crate) fn settle_entries(&mut self) {
        for client in &mut self.clients {
            let Some(entry) = client.group.entry() else { continue };
            let relay = &self.relays[entry];
            let Host { name, group, .. } = client.host.clone();
            client.host = Host { name, group, ..relay.host.clone() };
            Arc::make_mut(&mut client.group).config = relay.config.clone();
        }
    }

    /// The sampler of paths [`Path::Tor`]; `None` if no client needs it. If no path is possible, the error gives the
    /// reason.
    pub(crate) fn select(&self) -> Result<Option<Arc<Selector>>, Error> {
        if !self.clients.iter().any(|client| matches!(client.group.path, Path::Tor { .. })) {
            return Ok(None);
        }
        let relay = |relay: &Relay| penstock_network::Relay {
            name: relay.host.name.to_string(),
            // Only ratios of weights matter, so any unit is correct.
            weight: u32::try_from(relay.weight.bytes_per_sec() / 128).unwrap_or(u32::MAX).max(1),
            flags: Flags {
                guard: relay.guard,
                exit: relay.exit,
                bad_exit: false,
                fast: true,
                stable: true,
                running: true,
                valid: true,
            },
            address: None,
            family: relay.family.clone(),
            exits: relay.exit,
        };
        let relays: Vec<_> = self.relays.iter().map(relay).collect();
        let weights = PositionWeights::computed(&relays, PositionWeights::SCALE);
        let selector =
            Selector::new(&relays, &weights.unwrap_or_else(PositionWeights::even), "the scenario")?;
        Ok(Some(Arc::new(selector)))
    }
}

/// Sets the bandwidth of one node. Nodes with unchanged bandwidth keep a shared configuration.
fn set_bandwidth(config: &mut Arc<RelayConfig>, bandwidth: Option<Bandwidth>) {
    if config.bandwidth != bandwidth {
        Arc::make_mut(config).bandwidth = bandwidth;
    }
}

/// Samples a node's link rates and place. Returns its bandwidth, if networks sample it.
fn draw(host: &mut Host, network: &Network, config: &RelayConfig, seed: Seed) -> Option<Bandwidth> {
    let rank = draw_host(host, network, seed);
    let rate = DataRate::new(host.group.sampled.bandwidth.as_ref()?.at(rank))?;
    let bandwidth = config.bandwidth?;
    let burst = bandwidth.burst.get() as u128 * u128::from(rate.bytes_per_sec());
    // The bucket size divided by the rate stays the same. Rates and bursts are too small for an overflow.
    let burst = (burst / u128::from(bandwidth.rate.bytes_per_sec())) as u64;
    Some(Bandwidth { rate, burst: Bytes::new(burst.max(1)) })
}

/// Samples a node's link rates and place. Returns the probability at which all rates of the node are taken, between 0
/// and 1.
fn draw_host(host: &mut Host, network: &Network, seed: Seed) -> f64 {
    let rank = seed.stream(&format!("{}/rates", host.name)).unit();
    let sampled = &host.group.sampled;
    let rate = |quantiles: &Option<Quantiles>| DataRate::new(quantiles.as_ref()?.at(rank));
    host.link_up = rate(&sampled.link_up).unwrap_or(host.link_up);
    host.link_down = rate(&sampled.link_down).unwrap_or(host.link_down);
    if let (Latency::Places(places, _), Place::Listed(index)) = (&network.latency, host.place) {
        let place = &places.all()[index];
        let [up, down] = sampled.of_place;
        host.link_up = place.up.filter(|_| up).unwrap_or(host.link_up);
        host.link_down = place.down.filter(|_| down).unwrap_or(host.link_down);
    } else if network.latency != Latency::Even {
        host.place = network.latency.place(host, &mut seed.stream(&format!("{}/place", host.name)));
    }
    rank
}

/// Assigns all nodes to places. `kind` is 0 for relays, 1 for clients and 2 for servers.
///
/// A node with a country gets a random place of this country. The other nodes of a group are divided among the group's
/// places in proportion to the numbers of the places. If the numbers add up to the nodes of the group, each place gets
/// exactly its number. The order of the nodes is random.
fn assign<'a>(places: &Places, kind: usize, hosts: impl Iterator<Item = &'a mut Host>, seed: Seed) {
    let mut groups: BTreeMap<String, Vec<&mut Host>> = BTreeMap::new();
    for host in hosts {
        let of_country = |place: &&(usize, u32)| places.all()[place.0].country == host.country;
        let usual = weights(places, kind);
        let here: Vec<_> = usual.iter().filter(of_country).copied().collect();
        if host.group.places.is_none() && host.country.is_some() && !here.is_empty() {
            let mut rng = seed.stream(&format!("{}/place", host.name));
            host.place = Place::Listed(nth(&here, rng.below(total(&here))));
        } else {
            groups.entry(host.group.name.clone()).or_default().push(host);
        }
    }
    for (group, mut hosts) in groups {
        let mut rng = seed.stream(&format!("{group}/places"));
        for last in (1..hosts.len()).rev() {
            hosts.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let among = hosts[0].group.places.clone().unwrap_or_else(|| weights(places, kind).into());
        let (all, count) = (total(&among), hosts.len() as u64);
        // One random offset for all nodes: a node for each `all / count` of the numbers.
        let offset = rng.below(all);
        for (number, host) in (0..).zip(hosts) {
            host.place = Place::Listed(nth(&among, (number * all + offset) / count));
        }
    }
}

/// All places with a weight for nodes of a kind. If no place has one, all places count the same.
fn weights(places: &Places, kind: usize) -> Vec<(usize, u32)> {
    let all = || places.all().iter().enumerate();
    let weights: Vec<_> = all().map(|(index, place)| (index, place.weights[kind])).collect();
    let some = weights.iter().any(|(_, weight)| *weight > 0);
    if some { weights } else { all().map(|(index, _)| (index, 1)).collect() }
}

fn total(weights: &[(usize, u32)]) -> u64 {
    weights.iter().map(|(_, weight)| u64::from(*weight)).sum()
}

/// The place at `position` of the total weight. If `position` is the total, the last place with a weight.
fn nth(weights: &[(usize, u32)], position: u64) -> usize {
    let mut left = position;
    let mut last = 0;
    for (index, weight) in weights.iter().filter(|(_, weight)| *weight > 0) {
        last = *index;
        if left < u64::from(*weight) {
            break;
        }
        left -= u64::from(*weight);
    }
    last
}

impl Circuits {
    /// Gives a circuit to each client with [`Path::Listed`], in the order of names.
    fn take(&self, clients: &mut [Client], relays: &[Relay], seed: Seed) {
        let clients: Vec<_> = clients.iter_mut().filter(|client| client.group.path == Path::Listed).collect();
        let mut rng = seed.stream("network/circuits");
        let Some(each) = &self.each else {
            for client in clients {
                let path = draw_weighted(relays, client.group.path.hops(), &mut rng);
                Arc::make_mut(&mut client.group).path = Path::Fixed(path);
            }
            return;
        };
        let mut chosen: Vec<usize> = (0..each.len()).collect();
        if self.sampled {
            for place in 0..clients.len() {
                let other = place + rng.below((chosen.len() - place) as u64) as usize;
                chosen.swap(place, other);
            }
            chosen.truncate(clients.len());
            chosen.sort_unstable();
        }
        for (client, circuit) in clients.into_iter().zip(chosen) {
            Arc::make_mut(&mut client.group).path = Path::Fixed(each[circuit].clone());
        }
    }
}

impl Generated {
    pub(crate) fn draw(&self, relays: &mut [Relay], seed: Seed) {
        let mut rng = seed.stream(&format!("{}/relays", self.group));
        for (index, sampled) in self.relays.iter().zip(self.era.sample(self.relays.len(), &mut rng)) {
            self.take(&mut relays[*index], &sampled);
        }
    }

    fn take(&self, relay: &mut Relay, sampled: &era::SampledRelay) {
        let rate = |bytes: u64| DataRate::new(bytes).expect("an era draws no rate of zero");
        if self.flags {
            (relay.guard, relay.exit) = (sampled.class.is_guard(), sampled.class.is_exit());
        }
        let capacity = sampled.link.min(sampled.rate);
        let link = if self.buckets { sampled.link } else { capacity };
        (relay.host.link_up, relay.host.link_down) = (rate(link), rate(link));
        relay.host.country = relay.host.country.or(Some(sampled.country));
        relay.weight = rate(if self.weights { sampled.weight } else { capacity });
        let interval = relay.config.refill.interval.max(relay.config.refill.unblock.unwrap_or_default());
        let refilled = rate(if self.rates_within_links { capacity } else { sampled.rate });
        // A bucket holds at least one refill.
        let burst = Bytes::new(sampled.burst).max(refilled.bytes_in(interval));
        let bandwidth = self.buckets.then_some(Bandwidth { rate: refilled, burst });
        set_bandwidth(&mut relay.config, bandwidth);
    }
}

impl Deployments {
    /// Sets the software of all relays that a deployment reaches in one network.
    fn deploy(&self, relays: &mut [Relay], seed: Seed) {
        let mut layers: BTreeMap<usize, Layers> = BTreeMap::new();
        for (place, deployment) in self.each.iter().enumerate() {
            for index in deployment.draw(relays, seed) {
                layers.entry(index).or_default().push(place);
            }
        }
        for (index, layers) in layers {
            let relay = &mut relays[index];
            let known = self.software.get(&(relay.host.group.name.clone(), layers));
            let (config, phase) = known.expect("the builder reads the software of every combination");
            let bandwidth = std::mem::replace(&mut relay.config, config.clone()).bandwidth;
            set_bandwidth(&mut relay.config, bandwidth);
            relay.refill_phase = *phase;
        }
    }
}

impl Deployment {
    /// Samples the relays that this deployment reaches in one network.
    fn draw(&self, relays: &[Relay], seed: Seed) -> Vec<usize> {
        let draw = |index: &usize| {
            let name = &relays[*index].host.name;
            (seed.stream(&format!("{name}/deployment")).bits(), name.clone())
        };
        let mut reached = self.relays.clone();
        reached.sort_by_cached_key(draw);
        let weights = reached.iter().map(|index| relays[*index].weight.bytes_per_sec() as f64);
        reached.truncate(match self.share_of {
            ShareOf::Relays => (self.share * reached.len() as f64).round() as usize,
            ShareOf::Weight => nearest(weights, self.share),
        });
        reached
    }
}

/// The number of first weights whose sum is nearest to this share of the sum of all.
fn nearest(weights: impl Iterator<Item = f64> + Clone, share: f64) -> usize {
    let wanted = share * weights.clone().sum::<f64>();
    let mut sum = 0.0;
    // A weight belongs to the share if more than half of it does.
    let is_in = |weight: &f64| {
        sum += weight;
        sum - weight / 2.0 <= wanted
    };
    weights.take_while(is_in).count()
}

impl Dumbbell {
    /// Round-trip time between the two points of the dumbbell.
    /// Source: nstor, which subtracts the delay of one node on each side.
    fn trunk(&self, seed: Seed) -> Duration {
        let mut rng = seed.stream("network/trunk");
        let [across, near, far] = [&self.across, &self.near, &self.far].map(|delays| delays.at(rng.unit()));
        Duration::from_nanos(across.saturating_sub(near + far)).max(LEAST_TRUNK)
    }

    fn place(&self, rng: &mut Rng) -> Place {
        let far = rng.unit() < self.far_share;
        let delays = if far { &self.far } else { &self.near };
        Place::Side { far, access: Duration::from_nanos(delays.at(rng.unit())) }
    }

    /// Mean round-trip time between two nodes with median delays. Each node is on a random side of the dumbbell.
    fn typical(&self) -> Duration {
        let [near, far, across] = [&self.near, &self.far, &self.across].map(|delays| delays.at(0.5) as f64);
        let trunk = (across - near - far).max(LEAST_TRUNK.as_nanos() as f64);
        let (far_share, near_share) = (self.far_share, 1.0 - self.far_share);
        let mean = 2.0 * (near_share * near + far_share * far) + 2.0 * near_share * far_share * trunk;
        Duration::from_nanos(mean as u64)
    }

    fn least(&self) -> Duration {
        Duration::from_nanos(2 * self.near.at(0.0).min(self.far.at(0.0)))
    }
}

impl Latency {
    /// The places that an environment generates for one network, with their delays multiplied by `factor`.
    pub(crate) fn generated(environment: &'static Environment, seed: Seed, factor: f64) -> Self {
        Latency::Places(Arc::new(environment.draw(seed).stretched(factor)), Some(environment))
    }

    fn place(&self, host: &Host, rng: &mut Rng) -> Place {
        match self {
            Latency::Even | Latency::Places(..) => Place::default(),
            Latency::Dumbbell(dumbbell) => dumbbell.place(rng),
            Latency::Geographic(access) => {
                let country = host.country.unwrap_or_else(|| geo::draw(geo::USERS, rng));
                let spot = country.spot(rng);
                Place::At { spot, access: Duration::from_nanos(access.at(rng.unit())) }
            }
            Latency::RttMatrix(matrix, access) => {
                let country = host.country.unwrap_or_else(|| geo::draw(matrix.users(), rng));
                Place::In { country, access: Duration::from_nanos(access.at(rng.unit())) }
            }
        }
    }
}

impl Network {
    /// Delay and loss of packets from one node to another. `network.pairs` may have several entries for them. An entry
    /// with nodes comes before an entry with groups, and this one before an entry with all nodes of a section.
    pub fn between(&self, one: &Host, other: &Host) -> Wire {
        // The index of the name, the group or the section of each node; specific pairs come first.
        const ORDER: [(usize, usize); 9] =
            [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1), (2, 2)];
        if !self.exceptions.is_empty() {
            let [ours, theirs] = [one, other].map(|host| [&*host.name, &host.group.name, host.group.section]);
            let found = |(a, b): (usize, usize)| {
                let (a, b) = (ours[a].to_owned(), theirs[b].to_owned());
                let swapped = a > b;
                let sorted = if swapped { (b, a) } else { (a, b) };
                Some(self.exceptions.get(&sorted)?[usize::from(swapped)])
            };
            if let Some(wire) = ORDER.into_iter().find_map(found) {
                return wire;
            }
        }
        if let (Latency::Places(places, _), Place::Listed(from), Place::Listed(to)) =
            (&self.latency, one.place, other.place)
        {
            let way = places.between(from, to);
            let rtt = way.delay + places.between(to, from).delay;
            let loss = match self.default.loss_of {
                LossOf::None => 0.0,
                LossOf::All | LossOf::Data => {
                    1.0 - (1.0 - self.place_loss * way.loss) * (1.0 - self.default.loss)
                }
            };
            return Wire { rtt, delay: way.delay, jitter: way.jitter, loss, ..self.default };
        }
        let rtt = self.default_rtt(one, other);
        Wire { rtt, delay: rtt / 2, ..self.default }
    }

    /// Round-trip time between two nodes without an exception. Before places are sampled, this is a typical value.
    fn default_rtt(&self, one: &Host, other: &Host) -> Duration {
        if self.latency == Latency::Even || one.place.access().is_zero() {
            return self.typical_rtt();
        }
        let distance = match (one.place, other.place, &self.latency) {
            (Place::At { spot: one, .. }, Place::At { spot: other, .. }, _) => geo::way(one, other),
            (
                Place::In { country: one, .. },
                Place::In { country: other, .. },
                Latency::RttMatrix(matrix, _),
            ) => matrix.between(one, other),
            (Place::Side { far: one, .. }, Place::Side { far: other, .. }, _) if one != other => self.trunk,
            _ => Duration::ZERO,
        };
        one.place.access() + other.place.access() + distance
    }

    /// Shortest possible one-way delay between any two nodes.
    pub fn shortest_delay(&self) -> Duration {
        let usual = self.shortest_usual_delay();
        self.exceptions.values().flatten().map(|wire| wire.delay).fold(usual, Duration::min)
    }

    /// Shortest possible one-way delay between two nodes that `network.pairs` does not list.
    pub(crate) fn shortest_usual_delay(&self) -> Duration {
        match &self.latency {
            Latency::Even => self.default.delay,
            Latency::Geographic(access) => Duration::from_nanos(access.at(0.0)),
            Latency::RttMatrix(matrix, access) => {
                (matrix.shortest() + Duration::from_nanos(2 * access.at(0.0))) / 2
            }
            Latency::Places(places, _) => places.shortest(),
            Latency::Dumbbell(dumbbell) => dumbbell.least() / 2,
        }
    }

    pub(crate) fn typical_rtt(&self) -> Duration {
        match &self.latency {
            Latency::Even => self.default.rtt,
            Latency::Geographic(access) => Duration::from_nanos(2 * access.at(0.5)) + TYPICAL_DISTANCE,
            Latency::RttMatrix(matrix, access) => Duration::from_nanos(2 * access.at(0.5)) + matrix.typical(),
            Latency::Places(places, _) => places.typical_rtt(),
            Latency::Dumbbell(dumbbell) => dumbbell.typical(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trunk_is_the_rest_of_the_round_trip_and_at_least_two_milliseconds() {
        let [near, far, across] = [20_000_000, 30_000_000, 130_000_000].map(Quantiles::constant);
        let dumbbell = |across| Dumbbell { near: near.clone(), far: far.clone(), far_share: 0.5, across };
        let short = || dumbbell(Quantiles::constant(10));
        assert_eq!(dumbbell(across).trunk(Seed(1)), Duration::from_millis(80));
        assert_eq!(short().trunk(Seed(1)), LEAST_TRUNK);
        assert_eq!(short().typical(), Duration::from_millis(51));
        let star = Dumbbell { far_share: 0.0, ..short() };
        assert_eq!([star.typical(), star.least()], [Duration::from_millis(40); 2]);
        assert!(
            (0..50).all(|seed| {
                matches!(star.place(&mut Seed(seed).stream("a/place")), Place::Side { far: false, .. })
            }),
            "a star has one side"
        );
    }
}
