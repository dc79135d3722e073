//! Panics and cancellation end runs in several threads.

use crate::util::Lab;
use penstock_core::circuit_policy::{CircuitPolicy, CircuitPolicyConfig, Priority, RoundRobin, Weight};
use penstock_core::scheduler::{Scheduler, SchedulerConfig};
use penstock_core::{CircuitKey, Factory};
use penstock_scenario::Scenario;
use penstock_scenario::model::{Change, Switch, TorNode};
use penstock_sim::control::ThreadWrapper;
use penstock_sim::{Control, Error, Outcome};
use penstock_units::{Cells, Instant};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::ThreadId;
use std::time::Duration;

/// The tested numbers of threads.
pub(crate) const THREADS: [usize; 4] = [1, 2, 3, 8];

/// The real time after which a run counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Does `work` in another thread. Returns its value or its panic.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Box<dyn Any + Send>> {
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(catch_unwind(AssertUnwindSafe(work))));
    ended.recv_timeout(TIMEOUT).expect("the run does not end")
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).expect("a panic with a text")
}

/// Runs a scenario with this control, and returns the message of its panic.
fn panic_of(scenario: &Scenario, control: Control) -> String {
    let scenario = scenario.clone();
    let result = in_time(move || penstock_sim::run(&scenario, 1, &control).map(drop));
    message(&*result.expect_err("the run panics")).to_owned()
}

/// Five relays with load, so that threads share most windows. The delay between any two hosts is 50 ms.
pub(crate) fn busy() -> Lab {
    Lab::path()
        .with("[relays.more]\ncount = 2\n\n[clients.crowd]\ncount = 40\nworkload = \"web\"\n")
        .set("client.path", "weighted")
        .set("relay.link", "4 MiB/s")
        .set("relays.middle.link", "4 MiB/s")
        .set("network.rtt", "100 ms")
        .set("trace.cells", "0")
        .set("workloads.web.start", "uniform(0 s, 5 s)")
        .set("run.duration", "10 s")
}

pub(crate) fn scenario_of(lab: &Lab) -> Scenario {
    lab.document().scenario("stock").expect("the variant is in the text").clone()
}

pub(crate) fn run(scenario: &Scenario, control: Control) -> Outcome {
    penstock_sim::run(scenario, 3, &control).expect("the run is not cancelled")
}

/// Round robin that panics when a circuit sends its first cell after a time.
#[derive(Debug)]
struct Failing {
    policy: RoundRobin,
    at: Instant,
    text: String,
    /// The threads that have panicked.
    panicked: Arc<Mutex<Vec<ThreadId>>>,
}

impl CircuitPolicy for Failing {
    fn on_ready(&mut self, now: Instant, circuit: CircuitKey) {
        self.policy.on_ready(now, circuit);
    }

    fn on_blocked(&mut self, now: Instant, circuit: CircuitKey) {
        self.policy.on_blocked(now, circuit);
    }

    fn on_flush(&mut self, now: Instant, circuit: CircuitKey, cells: Cells, weight: Weight) {
        if now >= self.at {
            self.panicked.lock().expect("nothing panics here").push(std::thread::current().id());
            panic!("{}", self.text);
        }
        self.policy.on_flush(now, circuit, cells, weight);
    }

    fn on_close(&mut self, circuit: CircuitKey) {
        self.policy.on_close(circuit);
    }

    fn head(&self, now: Instant) -> Option<(Priority, CircuitKey)> {
        self.policy.head(now)
    }
}

#[test]
fn a_panic_of_any_relay_ends_the_run_with_its_message() {
    let scenario = scenario_of(&busy());
    assert!(run(&scenario, Control::new().with_threads(3)).balance > 1.5, "threads share most windows");
    for threads in THREADS {
        let panicked = Arc::new(Mutex::new(Vec::new()));
        let mut leaders = Vec::new();
        for relay in 0..scenario.relays.len() {
            let mut scenario = scenario.clone();
            let text = format!("the policy of {}", scenario.relays[relay].host.name);
            let (message_of_policy, panicked) = (text.clone(), panicked.clone());
            let policy = Factory::<dyn CircuitPolicy>::new(move || {
                let (text, panicked) = (message_of_policy.clone(), panicked.clone());
                Box::new(Failing {
                    policy: RoundRobin::default(),
                    at: Instant::from_millis(6000),
                    text,
                    panicked,
                })
            });
            let config = Arc::make_mut(&mut scenario.relays[relay].config);
            config.circuit_policy = CircuitPolicyConfig::Custom(policy);
            let control = Control::new().with_threads(threads);
            let result = in_time(move || {
                let leader = std::thread::current().id();
                let run = AssertUnwindSafe(|| penstock_sim::run(&scenario, 1, &control).map(drop));
                (leader, catch_unwind(run))
            });
            let (leader, result) = result.expect("the panic is caught before");
            leaders.push(leader);
            assert_eq!(message(&*result.expect_err("the run panics")), text);
        }
        let panicked = panicked.lock().expect("nothing panics here");
        let by_leader = panicked.iter().zip(&leaders).filter(|(one, leader)| one == leader).count();
        assert_eq!(panicked.len(), leaders.len());
        // With a thread for each relay, the leading thread has the server.
        assert_eq!(by_leader > 0, threads < leaders.len(), "{threads} threads");
        assert_eq!(by_leader == leaders.len(), threads == 1, "{threads} threads: other threads have relays");
    }
}

#[test]
fn a_panic_in_the_creation_of_any_host_ends_the_run_with_its_message() {
    let scenario = scenario_of(&busy());
    let broken =
        |text: String| SchedulerConfig::Custom(Factory::<dyn Scheduler>::new(move || panic!("{text}")));
    for threads in THREADS {
        for relay in 0..scenario.relays.len() {
            let mut scenario = scenario.clone();
            let text = format!("the scheduler of {}", scenario.relays[relay].host.name);
            Arc::make_mut(&mut scenario.relays[relay].config).scheduler = broken(text.clone());
            assert_eq!(panic_of(&scenario, Control::new().with_threads(threads)), text);
        }
        // Clients are created when they start.
        for client in (0..scenario.clients.len()).step_by(9) {
            let mut scenario = scenario.clone();
            let text = format!("the scheduler of {}", scenario.clients[client].host.name);
            let group = Arc::make_mut(&mut scenario.clients[client].group);
            Arc::make_mut(&mut group.config).scheduler = broken(text.clone());
            assert_eq!(panic_of(&scenario, Control::new().with_threads(threads)), text);
        }
    }
}

#[test]
fn a_panic_at_a_barrier_ends_the_run_with_its_message() {
    let scenario = scenario_of(&busy());
    for threads in THREADS {
        for relay in 0..scenario.relays.len() {
            let mut scenario = scenario.clone();
            let text = format!("the new policy of {}", scenario.relays[relay].host.name);
            let message = text.clone();
            let policy = Factory::<dyn CircuitPolicy>::new(move || panic!("{message}"));
            let to = Switch::CircuitPolicy(CircuitPolicyConfig::Custom(policy));
            scenario.changes.push(Change { at: Duration::from_secs(4), node: TorNode::Relay(relay), to });
            assert_eq!(panic_of(&scenario, Control::new().with_threads(threads)), text);
        }
    }
}

#[test]
fn a_panic_of_a_thread_wrapper_ends_the_run_with_its_message() {
    let scenario = scenario_of(&busy());
    let calls = Arc::new(AtomicUsize::new(0));
    let wrappers: [(&str, &str, ThreadWrapper); 4] = [
        ("before the work", "too early", Box::new(|_| panic!("too early"))),
        (
            "before the work of one of two threads",
            "one is too early",
            Box::new(move |work| {
                assert!(calls.fetch_add(1, Ordering::Relaxed) == 0, "one is too early");
                work();
            }),
        ),
        (
            "after the work",
            "too late",
            Box::new(|work| {
                work();
                panic!("too late");
            }),
        ),
        ("instead of the work", "a thread wrapper did not call its argument", Box::new(|_| ())),
    ];
    for (name, text, wrapper) in wrappers {
        let control = Control::new().with_threads(3).with_thread_wrapper(wrapper);
        assert_eq!(panic_of(&scenario, control), text, "{name}");
    }
}

#[test]
fn a_run_can_be_cancelled_at_any_time() {
    for threads in THREADS {
        for (lab, from) in [(busy(), 0.0), (busy(), 3.0), (Lab::path(), 3.0)] {
            let scenario = scenario_of(&lab.set("run.duration", "100 h"));
            let control = Arc::new(Control::new().with_threads(threads));
            let (running, is_over) = (control.clone(), Arc::new(AtomicBool::new(false)));
            let ended = is_over.clone();
            let canceller = std::thread::spawn(move || {
                while running.progress().0 < from && !ended.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                running.cancel();
            });
            let result = in_time(move || penstock_sim::run(&scenario, 1, &control).map(drop));
            is_over.store(true, Ordering::Relaxed);
            canceller.join().expect("it only cancels");
            let result = result.expect("a cancelled run does not panic");
            assert_eq!(result, Err(Error::Cancelled), "{threads} threads, from {from} s");
        }
    }
}
