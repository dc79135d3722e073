//! The state of a relay's process.

#![allow(dead_code, reason = "each test uses a part of this module")]

use super::program::{metric, scrape};
use super::seconds;
use penstock_live::clock::Clock;
use penstock_units::Duration;
use std::fs;
use std::thread;

/// The relay's gauges that depend on its peers.
const GAUGES: [&str; 9] = [
    "channels",
    "circuits",
    "open_streams",
    "opening_links",
    "queued_cells",
    "outbuf_bytes",
    // Includes running name lookups.
    "memory_bytes",
    "link_descriptors",
    "stream_descriptors",
];

/// Maximum time until a relay has forgotten all peers, after their last link has closed [s].
const FORGETTING: f64 = 120.0;

/// The state of a Penstock relay, from its metrics and from /proc.
#[derive(Clone, Debug)]
pub(crate) struct Gauges {
    values: [f64; GAUGES.len()],
    /// Resident memory [B].
    pub(crate) rss: f64,
    /// File descriptors of the process [1].
    pub(crate) descriptors: f64,
}

impl Gauges {
    /// `None` if the relay has no descriptor for the connection to its metrics.
    pub(crate) fn of(process: u32, metrics: &str) -> Option<Self> {
        let page = scrape(metrics).ok().filter(|page| page.contains("# EOF"))?;
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as f64;
        let values = GAUGES.map(|name| metric(&page, &format!("penstock_relay_{name} ")));
        Some(Gauges { values, rss: rss(process), descriptors })
    }

    pub(crate) fn value(&self, name: &str) -> f64 {
        let place = GAUGES.iter().position(|gauge| *gauge == name).expect("the gauge exists");
        self.values[place]
    }

    /// Whether no gauge except the resident memory is above the other one.
    fn is_at_most(&self, other: &Gauges) -> bool {
        self.descriptors <= other.descriptors && self.values.iter().zip(&other.values).all(|(a, b)| a <= b)
    }

    /// Waits until the gauges of the relay are at most these.
    ///
    /// # Errors
    ///
    /// If this takes more than two minutes.
    pub(crate) fn return_at(&self, process: u32, metrics: &str) -> Result<(), String> {
        let clock = Clock::start();
        loop {
            let now = Gauges::of(process, metrics);
            if now.as_ref().is_some_and(|now| now.is_at_most(self)) {
                return Ok(());
            }
            if seconds(clock) > FORGETTING {
                return Err(format!(
                    "{FORGETTING} s after the last peer left: {now:?}; at the start: {self:?}"
                ));
            }
            thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Resident memory of a process [B].
pub(crate) fn rss(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    rss.and_then(|rss| rss.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(f64::NAN) * 1024.0
}

/// CPU time of a thread so far [s]. `task` is its folder in /proc.
pub(crate) fn cpu(task: impl AsRef<std::path::Path>) -> f64 {
    let stat = fs::read_to_string(task.as_ref().join("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // Fields 14 and 15 of proc(5), in ticks of 10 ms.
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}
