//! Relays that are drawn as they were in some year.

use crate::drawn::set_bandwidth;
use crate::model::{Relay, Scenario};
use penstock_core::config::Bandwidth;
use penstock_network::{Era, Error, Flags, PositionWeights, Selector, era};
use penstock_units::{Bytes, DataRate, Seed};
use std::sync::Arc;

/// A group of relays of one era.
#[derive(Clone, Debug)]
pub struct Generated {
    /// When they were.
    pub era: &'static Era,
    /// The group, whose name the draws are keyed by.
    pub group: String,
    /// Indices of its relays, in the order of their names.
    pub relays: Vec<usize>,
    /// They have token buckets; without, the smaller of link and rate is the link.
    pub buckets: bool,
}

impl Generated {
    /// Draws the group's relays for one network.
    pub(crate) fn draw(&self, relays: &mut [Relay], seed: Seed) {
        let mut rng = seed.stream(&format!("{}/relays", self.group));
        for (index, drawn) in self.relays.iter().zip(self.era.sample(self.relays.len(), &mut rng)) {
            take(&mut relays[*index], &drawn, self.buckets);
        }
    }
}

fn take(relay: &mut Relay, drawn: &era::SampledRelay, buckets: bool) {
    let rate = |bytes: u64| DataRate::new(bytes).expect("an era draws no rate of zero");
    (relay.guard, relay.exit) = (drawn.class.is_guard(), drawn.class.is_exit());
    let link = if buckets { drawn.link } else { drawn.link.min(drawn.rate) };
    (relay.host.link_up, relay.host.link_down) = (rate(link), rate(link));
    relay.host.country = relay.host.country.or(Some(drawn.country));
    relay.weight = rate(drawn.weight);
    let interval = relay.config.refill.interval.max(relay.config.refill.unblock.unwrap_or_default());
    // A bucket holds what one refill brings at least.
    let burst = Bytes::new(drawn.burst).max(rate(drawn.rate).bytes_in(interval));
    let bandwidth = buckets.then_some(Bandwidth { rate: rate(drawn.rate), burst });
    set_bandwidth(&mut relay.config, bandwidth);
}

impl Scenario {
    /// How paths are drawn among the relays as they are, if some client draws them; the error says why that cannot be.
    pub(crate) fn select(&self) -> Result<Option<Arc<Selector>>, Error> {
        if !self.clients.iter().any(|client| matches!(client.path, crate::model::Path::Tor { .. })) {
            return Ok(None);
        }
        let relay = |relay: &Relay| penstock_network::Relay {
            name: relay.host.name.clone(),
            // Only shares count, so any unit will do.
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
            family: Vec::new(),
            exits: relay.exit,
        };
        let relays: Vec<_> = self.relays.iter().map(relay).collect();
        let weights = PositionWeights::computed(&relays, PositionWeights::SCALE);
        let selector =
            Selector::new(&relays, &weights.unwrap_or_else(PositionWeights::even), "the scenario")?;
        Ok(Some(Arc::new(selector)))
    }
}
