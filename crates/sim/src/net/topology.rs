//! Delay and loss between hosts.

use super::{Net, TICK};
use crate::plan::Plan;
use crate::queue::HostId;
use penstock_scenario::model::Wire;
use penstock_units::{Duration, Rng, time::nanos};
use std::collections::BTreeMap;

/// Delay and loss between each pair of hosts, with the random streams for packet loss.
#[derive(Debug)]
pub(super) struct Topology<'a> {
    pub(super) plan: &'a Plan<'a>,
    /// A random stream for packet loss between each ordered pair of hosts. Duplication and reordering have separate
    /// streams.
    loss_rngs: BTreeMap<(HostId, HostId), Rng>,
    notice_rngs: BTreeMap<(HostId, HostId), Rng>,
    duplicate_rngs: BTreeMap<(HostId, HostId), Rng>,
    reorder_rngs: BTreeMap<(HostId, HostId), Rng>,
    jitter_rngs: BTreeMap<(HostId, HostId), Rng>,
}

impl<'a> Topology<'a> {
    pub(super) fn new(plan: &'a Plan<'a>) -> Self {
        Topology {
            plan,
            loss_rngs: BTreeMap::new(),
            notice_rngs: BTreeMap::new(),
            duplicate_rngs: BTreeMap::new(),
            reorder_rngs: BTreeMap::new(),
            jitter_rngs: BTreeMap::new(),
        }
    }

    /// The shortest one-way delay between any two hosts.
    pub(super) fn shortest(&self) -> Duration {
        self.plan.scenario.network.shortest_delay().max(TICK)
    }

    pub(super) fn loses(&mut self, from: HostId, to: HostId, loss: f64) -> bool {
        loss > 0.0 && draw(&mut self.loss_rngs, self.plan, (from, to), "loss").bernoulli(loss)
    }

    /// Whether the sender hears of a lost packet, of a share `told` of which it does.
    pub(super) fn tells(&mut self, from: HostId, to: HostId, told: f64) -> bool {
        told > 0.0 && draw(&mut self.notice_rngs, self.plan, (from, to), "notice").bernoulli(told)
    }

    pub(super) fn duplicates(&mut self, from: HostId, to: HostId, duplicate: f64) -> bool {
        let (duplicates, ends) = (&mut self.duplicate_rngs, (from, to));
        duplicate > 0.0 && draw(duplicates, self.plan, ends, "duplicate").bernoulli(duplicate)
    }

    /// The one-way delay of a packet, uniformly distributed around the mean.
    /// Source: Shadow 1.5.0 `link_computeDelay()`. Deviation: Shadow rounds the delay to whole milliseconds.
    pub(super) fn delay(&mut self, from: HostId, to: HostId, wire: Wire) -> Duration {
        if wire.jitter.is_zero() {
            return wire.delay;
        }
        let rng = draw(&mut self.jitter_rngs, self.plan, (from, to), "jitter");
        wire.delay - wire.jitter + Duration::from_nanos(rng.between(0, 2 * nanos(wire.jitter)))
    }

    /// The extra delay of a datagram: up to one round trip if it is reordered, otherwise zero.
    pub(super) fn reorder_delay(&mut self, from: HostId, to: HostId, wire: Wire) -> Duration {
        if wire.reorder == 0.0 {
            return Duration::ZERO;
        }
        let rng = draw(&mut self.reorder_rngs, self.plan, (from, to), "reorder");
        let late = rng.bernoulli(wire.reorder);
        if late { Duration::from_nanos(rng.below(nanos(wire.rtt).max(1))) } else { Duration::ZERO }
    }
}

/// The random stream for packets from one host to another.
fn draw<'a>(
    streams: &'a mut BTreeMap<(HostId, HostId), Rng>,
    plan: &Plan<'_>,
    (from, to): (HostId, HostId),
    purpose: &str,
) -> &'a mut Rng {
    streams.entry((from, to)).or_insert_with(|| {
        let (from, to) = (&plan.host(from).name, &plan.host(to).name);
        plan.seed.stream(&format!("{from}->{to}/{purpose}"))
    })
}

impl Net<'_> {
    /// Delay and loss on the way between two hosts.
    pub(super) fn wire(&self, from: HostId, to: HostId) -> Wire {
        let plan = self.topology.plan;
        plan.scenario.network.between(plan.host(from), plan.host(to))
    }
}
