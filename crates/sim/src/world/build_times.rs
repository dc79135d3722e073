//! Clients that learn their build timeout from their circuits.
//!
//! A circuit over the timeout carries no streams, and the client builds another one. It keeps the slow circuit until this
//! is built or the close time is over, so that its build time counts. While the client has too few build times, it also
//! builds test circuits.
//!
//! Source: C tor `circuit_expire_building()`, `circuit_build_times_handle_completed_hop()`,
//! `circuit_build_needed_circs()`.
//! Deviation: test circuits close as soon as they are built. In C tor they wait up to three minutes for streams.
//! Deviation: the timeout does not run while the channel to the guard opens. C tor restarts it when the channel is open.
//! Deviation: the client always replaces a circuit over the timeout. C tor still uses it if no circuit is open at all.
//! Deviation: the client abandons a circuit exactly at its timeout. C tor checks once a second, up to a second later.
//! Deviation: the number of circuits over the timeout that a client keeps open has no limit.
//! Deviation: in a replay, recorded circuits have no timeout, because other circuits would have the same relays.

use super::{Node, World};
use crate::cell::{SimCell, TO_CLIENT};
use crate::client::{Circuit, Client, Phase};
use crate::net::{HostKernel, Timer};
use crate::plan::Builder;
use crate::queue::HostId;
use penstock_core::build_times::{BuildTimeout, BuildTimes};
use penstock_core::reason::DestroyReason;
use penstock_core::{CircuitIndex, Relay};
use penstock_scenario::model::{Activity, Scenario};
use penstock_units::{Duration, Instant, Rng, Seed};
use std::sync::Arc;

/// Maximum number of circuits without streams while a client builds test circuits [1]. C tor's `cbtmaxopencircs` counts
/// all open circuits.
const MAX_TESTS: usize = 10;

/// The build times that one client has measured on its circuits, and the timeout that follows from them.
#[derive(Debug)]
pub(super) struct Learner {
    times: BuildTimes,
    /// The index of the client.
    client: usize,
    guards: Arc<[usize]>,
    /// Samples the relays of test circuits.
    rng: Rng,
    measured: Vec<Measured>,
    next_test: Instant,
    /// The number of test circuits so far [1].
    tests: u32,
    /// The time of the only valid timer.
    armed: Option<Instant>,
}

/// A circuit without streams: a test circuit, or a circuit over the timeout.
#[derive(Debug)]
struct Measured {
    circuit: Circuit,
    is_late: bool,
}

impl Measured {
    /// When the circuit's next limit is over. `None` while the channel to its guard opens.
    fn due(&self, limits: BuildTimeout) -> Option<Instant> {
        let limit = if self.is_late { limits.close } else { limits.timeout };
        self.circuit.timed.map(|timed| timed + limit)
    }
}

impl Learner {
    /// The learner of a client with these sessions; `None` if all its circuits have fixed relays, or if its build timeout
    /// is not adaptive.
    pub(super) fn new(
        client: usize,
        sessions: &[Client],
        scenario: &Scenario,
        seed: Seed,
    ) -> Option<Box<Self>> {
        let model = &scenario.clients[client];
        let parameters = model.group.build_times()?;
        let session = sessions.iter().find(|session| session.path.is_none())?;
        Some(Box::new(Learner {
            times: BuildTimes::new(parameters),
            client,
            guards: session.guards.clone(),
            rng: seed.stream(&format!("{}/build-times", model.host.name)),
            measured: Vec::new(),
            next_test: Instant::ZERO,
            tests: 0,
            armed: None,
        }))
    }

    pub(super) fn report(&self) -> crate::BuildTimesReport {
        crate::BuildTimesReport {
            timeout: self.times.timeout().timeout,
            is_learned: !self.times.needs_more(),
            tests: self.tests,
        }
    }

    /// When the next test circuit begins; `None` if the client needs none.
    fn test_due(&self) -> Option<Instant> {
        let is_due = self.times.needs_more() && self.measured.len() < MAX_TESTS;
        self.times.parameters().test_interval.filter(|_| is_due).map(|_| self.next_test)
    }

    /// A circuit was built `time` after it began. Returns whether it is over the timeout.
    fn on_built(&mut self, time: Duration, was_late: bool) -> bool {
        let is_late = was_late || time > self.times.timeout().timeout;
        if is_late && !was_late {
            self.times.on_timeout();
        }
        self.times.on_built(time, is_late);
        is_late
    }
}

fn has_open_channel(tor: &Relay<SimCell>, circuit: CircuitIndex) -> bool {
    tor.leg(circuit, TO_CLIENT.opposite()).is_some_and(|(channel, _)| tor.is_open(channel))
}

impl World<'_> {
    fn learner(&mut self, id: HostId) -> Option<&mut Learner> {
        self.nodes[id as usize].learner.as_deref_mut()
    }

    /// The current timeout; `None` if the client does not learn.
    fn learned_timeout(&self, id: HostId) -> Option<Duration> {
        Some(self.nodes[id as usize].learner.as_ref()?.times.timeout().timeout)
    }

    /// Starts test circuits from this time on.
    pub(super) fn begin_tests(&mut self, id: HostId, at: Instant) {
        if let Some(learner) = self.learner(id) {
            learner.next_test = at;
            self.arm_build_times(id);
        }
    }

    /// The start of a new circuit's build time; `None` while the channel to its guard opens, or without a learner.
    pub(super) fn timed_from(&self, id: HostId, circuit: CircuitIndex) -> Option<Instant> {
        let Node { learner, tor, .. } = &self.nodes[id as usize];
        let is_open = learner.is_some() && tor.as_ref().is_some_and(|tor| has_open_channel(tor, circuit));
        is_open.then_some(self.net.now())
    }

    /// A channel opened, so the build times of its circuits start.
    pub(super) fn start_timing(&mut self, id: HostId) {
        let now = self.net.now();
        let Node { learner: Some(learner), tor: Some(tor), sessions, .. } = &mut self.nodes[id as usize]
        else {
            return;
        };
        let of_sessions = sessions.iter_mut().filter_map(|client| client.circuit.as_mut());
        let of_tests = learner.measured.iter_mut().map(|measured| &mut measured.circuit);
        for circuit in of_sessions.chain(of_tests) {
            let mut leg = Some(circuit);
            while let Some(circuit) = leg {
                if circuit.timed.is_none() && has_open_channel(tor, circuit.index) {
                    circuit.timed = Some(now);
                }
                leg = circuit.second.as_deref_mut();
            }
        }
        self.wait_again(id);
        self.arm_build_times(id);
    }

    /// Sets the timers of all sessions that wait for a circuit.
    fn wait_again(&mut self, id: HostId) {
        for session in 0..self.nodes[id as usize].sessions.len() as u32 {
            if self.client(id, session).is_some_and(|client| matches!(client.phase, Phase::Building)) {
                self.wait_for_circuit(id, session);
            }
        }
    }

    /// When a session's circuit, which is not usable yet, is over the timeout. `None` if it is never.
    pub(super) fn build_due(&self, id: HostId, owner: u32) -> Option<Instant> {
        let timeout = self.learned_timeout(id)?;
        let client = self.nodes[id as usize].sessions.get(owner as usize)?;
        let circuit = client.circuit.as_ref().filter(|_| client.path.is_none())?;
        if let Some(built) = circuit.legs().map(|leg| leg.built).collect::<Option<Vec<_>>>() {
            // The exit must answer LINK within the timeout, too (proposal 329).
            return built.into_iter().max().map(|built| built + timeout);
        }
        let building = circuit.legs().filter(|leg| leg.built.is_none());
        building.filter_map(|leg| leg.timed).min().map(|timed| timed + timeout)
    }

    /// Replaces the circuit for which a session waits, if it is over the timeout.
    pub(super) fn expire_building(&mut self, id: HostId, session: u32) {
        let now = self.net.now();
        let Some(owner) = self.client(id, session).map(|client| client.circuit_owner) else { return };
        if self.build_due(id, owner).is_none_or(|due| now < due) {
            return self.wait_for_circuit(id, session);
        }
        let late = self.late_legs(id, owner);
        // All legs are built, but the exit does not link them.
        if late.is_empty() {
            self.drop_circuit(id, owner);
            self.build(id, owner);
        }
        for number in late {
            if let Some(circuit) = self.replace_leg(id, owner, number)
                && let Some(learner) = self.learner(id)
            {
                learner.times.on_timeout();
                learner.measured.push(Measured { circuit, is_late: true });
                self.nodes[id as usize].timed_out += 1;
            }
        }
        self.wait_again(id);
        self.arm_build_times(id);
    }

    /// The numbers of the legs of a session's circuit that are over the timeout. A new circuit may reuse an index, but
    /// never a number.
    fn late_legs(&self, id: HostId, owner: u32) -> Vec<u32> {
        let Some(timeout) = self.learned_timeout(id) else { return Vec::new() };
        let circuit = self.nodes[id as usize].sessions[owner as usize].circuit.as_ref();
        let legs = circuit.into_iter().flat_map(Circuit::legs).filter(|leg| leg.built.is_none());
        let is_late = |leg: &&Circuit| leg.timed.is_some_and(|timed| self.net.now() >= timed + timeout);
        legs.filter(is_late).map(|leg| leg.number).collect()
    }

    /// Takes the leg with this number from a session's circuit, and begins another one in its place. Returns the old leg,
    /// which stays open. `None` if the circuit has no such leg, because both legs were replaced.
    fn replace_leg(&mut self, id: HostId, owner: u32, number: u32) -> Option<Circuit> {
        let (plan, scenario) = (self.plan, self.scenario);
        let has_leg = |circuit: &mut Circuit| circuit.legs().any(|leg| leg.number == number);
        let mut circuit = self.client(id, owner)?.circuit.take_if(has_leg)?;
        let Some(second) = circuit.second.take() else {
            self.build(id, owner);
            return Some(circuit);
        };
        let (old, mut rest) = if circuit.number == number { (circuit, *second) } else { (*second, circuit) };
        let relay = |host: &HostId| match plan.builder(*host) {
            Builder::Relay(index, _) => index,
            _ => unreachable!("only relays are on a circuit"),
        };
        let relays: Vec<usize> = rest.relays.iter().map(relay).collect();
        let client = self.client(id, owner)?;
        let (index, workload) = (client.index, client.workload);
        if let Some(path) = client.draw_second(scenario, &relays) {
            let mut new = self.open_circuit(id, (index, Some(workload)), &path);
            new.set = rest.set;
            rest.second = Some(Box::new(new));
            self.client(id, owner)?.circuit = Some(rest);
        } else {
            self.close_legs(id, &rest);
            // The new circuit may reuse the index immediately.
            self.handle_relay_events(id);
            self.build(id, owner);
        }
        Some(old)
    }

    /// Counts the build time of a session's circuit. Returns false if the circuit is over the timeout, and another one
    /// replaces it.
    pub(super) fn learn(&mut self, id: HostId, owner: u32, built: CircuitIndex) -> bool {
        let (now, scenario) = (self.net.now(), self.scenario);
        let Node { learner: Some(learner), sessions, .. } = &mut self.nodes[id as usize] else { return true };
        let client = &sessions[owner as usize];
        let leg = client.circuit.as_ref().and_then(|circuit| circuit.legs().find(|leg| leg.index == built));
        let Some((number, timed)) = leg.and_then(|leg| Some((leg.number, leg.timed?))) else { return true };
        let holds = matches!(scenario.workloads[client.workload].does, Activity::Hold(_));
        let stays = holds || client.path.is_some();
        let before = learner.times.timeout().timeout;
        let is_late = learner.on_built(now - timed, false);
        if is_late && !stays {
            self.nodes[id as usize].timed_out += 1;
            if let Some(old) = self.replace_leg(id, owner, number) {
                self.close_measured(id, old.index);
            }
            self.wait_again(id);
        }
        self.on_estimate(id, before);
        !is_late || stays
    }

    /// The circuit without streams that has this index.
    pub(super) fn measured(&self, id: HostId, circuit: CircuitIndex) -> Option<&Circuit> {
        let measured = self.nodes[id as usize].learner.as_ref()?.measured.iter();
        measured.map(|measured| &measured.circuit).find(|known| known.index == circuit)
    }

    /// A circuit without streams was built, so the client knows its build time and closes it.
    pub(super) fn on_measured(&mut self, id: HostId, built: CircuitIndex) {
        let now = self.net.now();
        let Some(learner) = self.learner(id) else { return };
        let before = learner.times.timeout().timeout;
        let place = learner.measured.iter().position(|measured| measured.circuit.index == built);
        let Some(place) = place else { return };
        let Measured { circuit, is_late: was_late } = learner.measured.remove(place);
        if let Some(timed) = circuit.timed {
            let is_late = learner.on_built(now - timed, was_late);
            self.nodes[id as usize].timed_out += u32::from(is_late && !was_late);
        }
        self.close_measured(id, built);
        self.on_estimate(id, before);
    }

    /// A circuit without streams has failed, which says nothing about build times.
    pub(super) fn forget_measured(&mut self, id: HostId, closed: CircuitIndex) {
        if let Some(learner) = self.learner(id) {
            learner.measured.retain(|measured| measured.circuit.index != closed);
            self.arm_build_times(id);
        }
    }

    fn close_measured(&mut self, id: HostId, circuit: CircuitIndex) {
        let now = self.net.now();
        if let Some(tor) = &mut self.nodes[id as usize].tor {
            tor.close_circuit(now, circuit, DestroyReason::NONE, &mut HostKernel::new(&mut self.net, id));
        }
        // A new circuit may reuse the index immediately, so the events of the old circuit are handled first.
        self.handle_relay_events(id);
    }

    /// The timeout may have changed. `before` is the earlier one.
    fn on_estimate(&mut self, id: HostId, before: Duration) {
        if self.learned_timeout(id).is_some_and(|timeout| timeout < before) {
            self.wait_again(id);
        }
        self.arm_build_times(id);
    }

    fn arm_build_times(&mut self, id: HostId) {
        let now = self.net.now();
        let Some(learner) = self.learner(id) else { return };
        let limits = learner.times.timeout();
        let dues = learner.measured.iter().filter_map(|measured| measured.due(limits));
        let Some(due) = dues.chain(learner.test_due()).min().map(|due| due.max(now)) else { return };
        if learner.armed.is_none_or(|armed| due < armed) {
            learner.armed = Some(due);
            self.net.set_timer(id, due, Timer::BuildTimes);
        }
    }

    pub(super) fn on_build_times_timer(&mut self, id: HostId) {
        let (now, scenario) = (self.net.now(), self.scenario);
        let Some(learner) = self.learner(id).filter(|learner| learner.armed == Some(now)) else { return };
        learner.armed = None;
        let limits = learner.times.timeout();
        let (mut unfinished, mut timed_out) = (Vec::new(), 0);
        for measured in &mut learner.measured {
            if measured.circuit.timed.is_some_and(|timed| now >= timed + limits.close) {
                learner.times.on_unfinished();
                unfinished.push(measured.circuit.index);
            } else if !measured.is_late && measured.due(limits).is_some_and(|due| now >= due) {
                measured.is_late = true;
                learner.times.on_timeout();
                timed_out += 1;
            }
        }
        learner.measured.retain(|measured| !unfinished.contains(&measured.circuit.index));
        let test = learner.test_due().filter(|due| now >= *due).map(|_| {
            let model = &scenario.clients[learner.client];
            (learner.client, model.group.path.draw(scenario, &learner.guards, &mut learner.rng))
        });
        self.nodes[id as usize].timed_out += timed_out;
        unfinished.into_iter().for_each(|circuit| self.close_measured(id, circuit));
        if let Some((client, path)) = test {
            let circuit = self.open_circuit(id, (client, None), &path);
            if let Some(learner) = self.learner(id) {
                learner.tests += 1;
                learner.next_test = now + learner.times.parameters().test_interval.unwrap_or_default();
                learner.measured.push(Measured { circuit, is_late: false });
            }
        }
        self.on_estimate(id, limits.timeout);
    }
}
