//! A run: windows of all shards, and barriers between them.
//!
//! Each shard ([`World`]) owns some of the hosts. In a window, the shards handle the events of their hosts
//! independently, each in its own thread if there are several. After a window, they exchange messages.
//!
//! Samples, changes and the end of the run concern several hosts. They happen at a barrier: a time that all hosts must
//! reach before any host continues.

mod gate;
mod shards;

use crate::control::Control;
use crate::error::Error;
use crate::net::remove_closed;
use crate::observer::{CircuitSample, Observer};
use crate::plan::Plan;
use crate::queue::HostId;
use crate::tracker::{CellTimes, position};
use crate::world::{TraceEvent, Window, World};
use penstock_core::CircuitIndex;
use penstock_record::tables::Name;
use penstock_record::{Position, RunStats};
use penstock_scenario::model::{self, TorNode};
use penstock_units::{Cells, Duration, Instant};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Run<'a> {
    plan: &'a Plan<'a>,
    /// The time of the next sample of all relays. `next_trace` is the time of the next sample of traced circuits.
    next_sample: Instant,
    next_trace: Instant,
    next_client_sample: Instant,
    /// How many changes of the scenario were already applied.
    changed: usize,
    /// Traced circuits, by number.
    traced: BTreeMap<u32, Traced>,
    traced_plain: Vec<HostId>,
    cells: CellTimes,
    /// Events that were handled while the busiest thread of their window handled others.
    parallel_events: u64,
}

/// A traced circuit: for every node from the client to the exit, the host and the circuit index.
#[derive(Debug)]
struct Traced {
    client: Name,
    workload: Name,
    places: Vec<Option<(HostId, CircuitIndex)>>,
}

/// The next step of a run.
enum Next {
    Window(Window),
    Barrier(Instant),
}

impl Next {
    /// The step after which all events before `first`, the first event of all hosts, have been handled. The next
    /// barrier is at `barrier`.
    fn after(first: Option<Instant>, lookahead: Duration, barrier: Instant) -> Self {
        match first.filter(|first| *first <= barrier) {
            Some(start) => Next::Window(Window::new(start, lookahead, barrier)),
            None => Next::Barrier(barrier),
        }
    }
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan<'a>) -> Self {
        let scenario = plan.scenario;
        let mut run = Run {
            plan,
            next_sample: Instant::ZERO + scenario.run.sample,
            next_trace: if scenario.trace.workloads.is_empty() {
                Instant::FAR_FUTURE
            } else {
                Instant::ZERO + scenario.trace.interval
            },
            next_client_sample: match scenario.trace.clients {
                Some(interval) => Instant::ZERO + interval,
                None => Instant::FAR_FUTURE,
            },
            changed: 0,
            traced: BTreeMap::new(),
            traced_plain: Vec::new(),
            cells: CellTimes::new(plan.shards),
            parallel_events: 0,
        };
        run.trace_plain();
        run
    }

    /// Runs a plan. The only error is [`Error::Cancelled`].
    pub(crate) fn all(plan: &'a Plan<'a>, control: &'a Control) -> Result<crate::Outcome, Error> {
        let run = Run::new(plan);
        if plan.shards > 1 { run.in_threads(control) } else { run.in_this_thread(control) }
    }

    fn in_this_thread(mut self, control: &Control) -> Result<crate::Outcome, Error> {
        let mut world = World::new(self.plan, 0, control);
        loop {
            match Next::after(world.next_event(), world.lookahead(), self.next_barrier()) {
                Next::Window(window) => {
                    let start = window.start;
                    let reports = |downloads| control.report(start, self.fraction(start, downloads));
                    world.run_window(window, control, reports)?;
                }
                Next::Barrier(now) => {
                    self.at_barrier(&mut [&mut world], now);
                    if self.is_over(&[&mut world], now) {
                        return Ok(self.finish(vec![world], now));
                    }
                }
            }
        }
    }

    fn end(&self) -> Instant {
        Instant::ZERO + self.plan.scenario.run.duration
    }

    fn next_barrier(&self) -> Instant {
        let sample = self.next_sample.min(self.next_trace).min(self.next_client_sample);
        sample.min(self.next_change()).min(self.end())
    }

    /// Applies changes and takes samples at a barrier. All messages have been delivered.
    fn at_barrier(&mut self, worlds: &mut [&mut World<'a>], now: Instant) {
        worlds.iter_mut().for_each(|world| world.net.set_now(now));
        let mut nets: Vec<_> = worlds.iter_mut().map(|world| &mut world.net).collect();
        remove_closed(&mut nets, &self.plan.shard_of);
        while now == self.next_change() {
            let change = &self.plan.scenario.changes[self.changed];
            let id = match change.node {
                TorNode::Relay(relay) => self.plan.relay_ids[relay],
                TorNode::Client(client) => self.plan.client_ids[client],
            };
            worlds[self.plan.shard(id)].apply_change(id, change.to.clone());
            self.changed += 1;
        }
        self.collect(worlds);
        if now == self.next_trace {
            self.sample_circuits(worlds, now);
            self.next_trace = now + self.plan.scenario.trace.interval;
        }
        if now == self.next_client_sample {
            sample_clients(worlds);
            self.next_client_sample = now + self.plan.scenario.trace.clients.unwrap_or_default();
        }
        if now == self.next_sample {
            worlds.iter_mut().for_each(|world| world.sample_relays());
            self.next_sample = now + self.plan.scenario.run.sample;
        }
    }

    fn next_change(&self) -> Instant {
        let next = self.plan.scenario.changes.get(self.changed);
        next.map_or(Instant::FAR_FUTURE, |change| Instant::ZERO + change.at)
    }

    /// Whether the run ends at this barrier. If it ends because enough downloads are complete, it ends at a sample.
    fn is_over(&self, worlds: &[&mut World<'a>], now: Instant) -> bool {
        let sampled = now + self.plan.scenario.run.sample == self.next_sample;
        let stop = self.plan.scenario.run.stop.filter(|_| sampled);
        let downloads = worlds.iter().map(|world| world.downloads_for_stop()).sum::<u64>();
        now == self.end() || stop.is_some_and(|stop| downloads >= stop.downloads)
    }

    /// The completed fraction of the run. `downloads` counts the complete downloads of the workload that ends the run.
    fn fraction(&self, now: Instant, downloads: u64) -> f64 {
        let run = &self.plan.scenario.run;
        let of_time = now.as_secs_f64() / run.duration.as_secs_f64();
        of_time.max(run.stop.map_or(0.0, |stop| downloads as f64 / stop.downloads as f64))
    }

    /// Takes the records of traced circuits and cells from the shards.
    fn collect(&mut self, worlds: &mut [&mut World<'a>]) {
        let mut placed = Vec::new();
        for event in worlds.iter_mut().flat_map(|world| world.trace_log.drain(..)) {
            match event {
                TraceEvent::Began { number, client, workload, nodes } => {
                    let places = vec![None; nodes.len()];
                    self.cells.trace(number, workload.clone(), nodes);
                    self.traced.insert(number, Traced { client, workload, places });
                }
                TraceEvent::Placed { .. } | TraceEvent::Left { .. } => placed.push(event),
            }
        }
        for event in placed {
            match event {
                TraceEvent::Placed { number, hop, id, circuit } => {
                    let place = self.traced.get_mut(&number).and_then(|traced| traced.places.get_mut(hop));
                    place.into_iter().for_each(|place| *place = Some((id, circuit)));
                }
                TraceEvent::Left { number, id, circuit } => {
                    let places = self.traced.get_mut(&number).map(|traced| traced.places.iter_mut());
                    let left = places.into_iter().flatten().filter(|place| **place == Some((id, circuit)));
                    left.for_each(|place| *place = None);
                }
                TraceEvent::Began { .. } => {}
            }
        }
        let mut trackers: Vec<_> = worlds.iter_mut().map(|world| &mut world.net.tracker).collect();
        self.cells.collect(&mut trackers);
    }

    fn sample_circuits(&mut self, worlds: &mut [&mut World<'a>], now: Instant) {
        self.traced.retain(|_, traced| traced.places.iter().any(Option::is_some));
        for (number, traced) in &self.traced {
            for (place, found) in traced.places.iter().enumerate() {
                let Some((id, circuit)) = found else { continue };
                let Some(state) = worlds[self.plan.shard(*id)].circuit_state(*id, *circuit) else { continue };
                worlds[0].observer.circuit(CircuitSample {
                    circuit: Some(*number),
                    client: traced.client.clone(),
                    workload: traced.workload.clone(),
                    hop: position(place, traced.places.len()),
                    at: now,
                    queue: state.queue,
                    window: state.window,
                    sendmes: state.sendmes,
                    backlog: state.backlog,
                    tcp: state.tcp,
                });
            }
        }
        self.sample_plain(worlds, now);
    }

    /// Selects which clients without Tor are traced.
    fn trace_plain(&mut self) {
        let Plan { scenario, record, client_ids, seed, .. } = self.plan;
        // A replay repeats no downloads of clients without Tor.
        let clients = scenario.clients.iter().zip(client_ids).filter(|_| record.is_none());
        for (client, id) in clients {
            let first = client.group.workloads.iter().copied().take(1);
            if client.group.path == model::Path::Direct
                && scenario.trace.follows(&client.host.name, first, *seed)
            {
                self.traced_plain.push(*id);
            }
        }
        self.traced_plain.sort_unstable();
    }

    /// Samples the downloads of traced clients without Tor, at their servers.
    fn sample_plain(&mut self, worlds: &mut [&mut World<'a>], now: Instant) {
        for id in &self.traced_plain {
            let Some((client, workload, ends)) = worlds[self.plan.shard(*id)].plain_download(*id) else {
                continue;
            };
            let tcp = worlds[self.plan.shard(ends.1.host)].net.plain_server(ends.0, ends.1);
            worlds[0].observer.circuit(CircuitSample {
                circuit: None,
                client,
                workload,
                hop: Position::Server,
                at: now,
                queue: Cells::ZERO,
                window: None,
                sendmes: None,
                backlog: None,
                tcp: Some(tcp),
            });
        }
    }

    fn finish(mut self, mut worlds: Vec<World<'a>>, end: Instant) -> crate::Outcome {
        if self.plan.scenario.trace.clients.is_some() {
            // The last interval is shorter, unless the run ends at a sample.
            sample_clients(&mut worlds.iter_mut().collect::<Vec<_>>());
        }
        worlds.iter_mut().for_each(World::record_unfinished);
        self.collect(&mut worlds.iter_mut().collect::<Vec<_>>());
        let hosts = 0..self.plan.shard_of.len() as HostId;
        let nodes: Vec<_> = hosts.filter_map(|id| worlds[self.plan.shard(id)].report(id)).collect();
        let relays = || nodes.iter().filter(|node| node.is_relay);
        let stats = RunStats {
            sim_seconds: end.as_secs_f64(),
            events: worlds.iter().map(|world| world.net.handled).sum(),
            packets: worlds.iter().map(|world| world.net.delivered).sum(),
            cells: nodes.iter().map(|node| node.counters.sent).sum(),
            data_cells: nodes.iter().map(|node| node.counters.data_delivered).sum(),
            sendmes: nodes.iter().map(|node| node.counters.all_sendmes()).sum(),
            relay_calls: relays().map(|node| node.calls).sum(),
            relay_queries: relays().map(|node| node.queries).sum(),
            timed_out_circuits: nodes.iter().map(|node| u64::from(node.timed_out)).sum(),
            test_circuits: nodes
                .iter()
                .filter_map(|node| node.build_times)
                .map(|report| u64::from(report.tests))
                .sum(),
            build_timeout_s: learned_timeout(&nodes),
            ..RunStats::default()
        };
        let is_done = |sock: crate::net::SockRef| worlds[self.plan.shard(sock.host)].net.is_done(sock);
        let reports = worlds.iter().map(|world| world.net.report(is_done));
        let network = reports.reduce(|one, other| crate::NetworkReport {
            cells: one.cells + other.cells,
            lost: one.lost + other.lost,
            connections: one.connections + other.connections,
            packets: one.packets + other.packets,
        });
        let network = network.expect("a run has at least one shard");
        let observers = worlds.into_iter().map(|world| world.observer).collect();
        let tables = Observer::into_tables(observers, self.cells.rows());
        let balance = stats.events as f64 / (stats.events - self.parallel_events).max(1) as f64;
        crate::Outcome { tables, stats, nodes, network, balance }
    }
}

/// The median build timeout of the clients that have learned it [s]; of two middle values the greater one.
fn learned_timeout(nodes: &[crate::NodeReport]) -> Option<f64> {
    let learned = nodes.iter().filter_map(|node| node.build_times).filter(|report| report.is_learned);
    let mut timeouts: Vec<_> = learned.map(|report| report.timeout).collect();
    timeouts.sort_unstable();
    timeouts.get(timeouts.len() / 2).map(|timeout| timeout.as_secs_f64())
}

/// Samples the clients of all shards. A client and the guard that throttles it may be in different shards.
fn sample_clients(worlds: &mut [&mut World<'_>]) {
    let throttled = worlds.iter().flat_map(|world| world.throttled_clients()).collect();
    worlds.iter_mut().for_each(|world| world.sample_clients(&throttled));
}
