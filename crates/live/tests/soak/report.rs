//! Samples of the relay's memory and descriptors, the criterion of growth, and the report.

use super::common::gauges::Gauges;
use super::common::honest::Served;
use super::load::{LEAST_SAMPLES, PHASES};
use super::{Load, Plan};
use penstock_units::Duration;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;

/// The relay may need this much more memory, and this many more descriptors, in the last quarter of the time than in
/// the second quarter: a share, and an amount [B, 1].
const GROWTH: f64 = 0.05;
const GROWTH_OF_MEMORY: f64 = 8e6;
const GROWTH_OF_DESCRIPTORS: f64 = 20.0;
/// Most rows of the table.
const ROWS: usize = 12;

struct Sample {
    at: f64,
    /// The number of the cycle, and whether the second half of its phase without a flood has begun.
    cycle: usize,
    is_rest: bool,
    gauges: Gauges,
}

/// Samples a relay regularly.
pub(crate) struct Watch<'a> {
    plan: &'a Plan,
    process: u32,
    metrics: &'a str,
    samples: Mutex<Vec<Sample>>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(plan: &'a Plan, process: u32, metrics: &'a str) -> Self {
        Watch { plan, process, metrics, samples: Mutex::default() }
    }

    /// Samples until the load ends.
    pub(crate) fn run(&self, load: &Load<'_>) {
        let mut cycle = 0;
        while !load.stop.load(Ordering::Relaxed) {
            let (phase, at) = (load.phase.load(Ordering::Relaxed), load.seconds());
            let is_rest = at > *load.rests_from.lock().unwrap();
            if let Some(gauges) = Gauges::of(self.process, self.metrics) {
                load.rested.fetch_add(usize::from(is_rest), Ordering::Relaxed);
                self.samples.lock().unwrap().push(Sample { at, cycle: phase / PHASES, is_rest, gauges });
            }
            if phase / PHASES > cycle {
                println!("{}", self.row(load, cycle..cycle + 1));
                cycle = phase / PHASES;
            }
            thread::sleep(Duration::from_secs_f64(self.plan.interval));
        }
    }

    /// A value in these cycles, in the phases without a flood, in the order of size.
    fn values_at_rest(&self, cycles: Range<usize>, value: impl Fn(&Gauges) -> f64) -> Vec<f64> {
        let samples = self.samples.lock().unwrap();
        let rest = samples.iter().filter(|sample| sample.is_rest && cycles.contains(&sample.cycle));
        let mut values: Vec<f64> = rest.map(|sample| value(&sample.gauges)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The median of a value in these cycles, in the phases without a flood.
    fn at_rest(&self, cycles: Range<usize>, value: impl Fn(&Gauges) -> f64) -> f64 {
        let values = self.values_at_rest(cycles, value);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The cycles of the second and of the last quarter.
    fn quarters(&self) -> [Range<usize>; 2] {
        [1, 3].map(|number| self.plan.cycles * number / 4..self.plan.cycles * (number + 1) / 4)
    }

    /// The values of memory [B] and descriptors [1] in the second and the last quarter.
    fn values(&self) -> [[f64; 2]; 2] {
        let of = |value: fn(&Gauges) -> f64| self.quarters().map(|cycles| self.at_rest(cycles, value));
        [of(|gauges| gauges.rss), of(|gauges| gauges.descriptors)]
    }

    /// Growth between the second and the last quarter that exceeds the criterion, or too few samples to see it.
    pub(crate) fn growth(&self) -> Vec<String> {
        let names = ["memory [B]", "descriptors"];
        let of = names.into_iter().zip(self.values()).zip([GROWTH_OF_MEMORY, GROWTH_OF_DESCRIPTORS]);
        // A missing value is NaN, and a comparison with NaN is false.
        let is_stable = |before: f64, after: f64, more: f64| after <= before * (1.0 + GROWTH) + more;
        let grown = of.filter(|((_, [before, after]), more)| !is_stable(*before, *after, *more));
        let mut problems: Vec<String> =
            grown.map(|((name, values), _)| format!("the relay's {name} grew: {values:.0?}")).collect();
        let samples = self.quarters().map(|cycles| self.values_at_rest(cycles, |gauges| gauges.rss).len());
        if samples.into_iter().any(|samples| samples < LEAST_SAMPLES) {
            problems.push(format!("too few samples to notice growth: {samples:?}"));
        }
        problems
    }

    fn row(&self, load: &Load<'_>, cycles: Range<usize>) -> String {
        let time = load.phase_time() * PHASES as f64 / 60.0;
        let [from, to] = [cycles.start, cycles.end].map(|cycle| cycle as f64 * time);
        let mut served = Served::default();
        let honest = load.honest.lock().unwrap();
        let here = honest.iter().filter(|visit| (from..to).contains(&(visit.end / 60.0)));
        here.for_each(|visit| served.add(&visit.served));
        let rest = |name: &str| self.at_rest(cycles.clone(), |gauges| gauges.value(name));
        let most = |value: fn(&Gauges) -> f64| {
            let samples = self.samples.lock().unwrap();
            let here = samples.iter().filter(|sample| (from..to).contains(&(sample.at / 60.0)));
            here.map(|sample| value(&sample.gauges)).fold(0.0, f64::max)
        };
        format!(
            "| {from:.1} to {to:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {} | {:.2} | {:.2} | {} |",
            self.at_rest(cycles.clone(), |gauges| gauges.rss) / 1e6,
            most(|gauges| gauges.rss) / 1e6,
            self.at_rest(cycles.clone(), |gauges| gauges.descriptors),
            most(|gauges| gauges.descriptors),
            rest("channels"),
            rest("circuits"),
            served.times.len() + served.failures,
            served.percentile(0.5),
            served.percentile(0.99),
            served.failures,
        )
    }

    /// The report in Markdown.
    pub(crate) fn table(&self, load: &Load<'_>) -> String {
        let (cycles, plan) = (self.plan.cycles, self.plan);
        let step = cycles.div_ceil(ROWS);
        let rows =
            (0..cycles).step_by(step).map(|first| self.row(load, first..cycles.min(first + step)) + "\n");
        let [[memory, last_memory], [descriptors, last_descriptors]] = self.values();
        let heading = "| time [min] | RSS at rest [MB] | highest RSS [MB] | descriptors at rest | highest number of \
                       descriptors | links at rest | circuits at rest | honest clients | their median [s] | their \
                       99th percentile [s] | failures |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
        format!(
            "| condition | value |\n|---|---|\n\
             | load | {:.0} s |\n| links, circuits of each link | {}, {} |\n| slow readers | {} |\n\
             | `MaxMemInQueues` | {} MB |\n| limit of file descriptors | {} |\n\n{heading}{}\n\
             | at rest | second quarter | last quarter | limit |\n|---|---|---|---|\n\
             | RSS [MB] | {:.1} | {:.1} | {:.1} |\n\
             | descriptors | {descriptors:.0} | {last_descriptors:.0} | {:.0} |\n\n{}",
            plan.time,
            plan.links,
            plan.circuits,
            plan.slow,
            plan.memory,
            plan.descriptors,
            rows.collect::<String>(),
            memory / 1e6,
            last_memory / 1e6,
            (memory * (1.0 + GROWTH) + GROWTH_OF_MEMORY) / 1e6,
            descriptors * (1.0 + GROWTH) + GROWTH_OF_DESCRIPTORS,
            load.table(),
        )
    }
}
