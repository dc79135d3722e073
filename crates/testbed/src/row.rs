//! The output: one line with a JSON object for each run.
//!
//! The first members of [`Row`] are common to all references (a real kernel, ns-3) and the simulator, so that their
//! rows can be compared. The members from `hystart` on exist only here. A member that does not apply is `null`;
//! `samples` is absent.

use crate::Error;
use crate::diag::TcpInfo;
use crate::error::machine;
use crate::link::LinkConfig;
use crate::pair::Parted;
use crate::socket::Congestion;
use penstock_units::Instant;
use serde::Serialize;

/// One run of one flow over one link.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The reference, such as `linux-6.18 cubic`, with the loss recovery if it is not the kernel's default.
    #[serde(rename = "referee")]
    pub reference: String,
    /// `goodput`, `window` or `download`.
    pub experiment: String,
    /// The sender's congestion control.
    pub congestion: Congestion,
    /// Rate of the link in each direction, for IP packets with their headers [B/s].
    pub rate_bytes_per_s: u64,
    /// Twice the delay of the link [s].
    pub rtt_s: f64,
    /// Probability that a packet is lost, in each direction [1].
    pub loss: f64,
    /// Number of the run, the seed of its losses [1].
    pub repeat: u64,
    /// Capacity of the link's drop-tail queue in each direction [B].
    pub queue_bytes: u64,
    /// Time from `connect()` to the start of counting [s].
    pub warmup_s: f64,
    /// Duration of counting [s]. With `download` and `window` it ends with the last byte, or with the time limit.
    pub seconds: f64,
    /// Bytes that the application received in this time [B].
    pub bytes: u64,
    /// `bytes` over `seconds` [B/s].
    pub goodput_bytes_per_s: f64,
    /// Retransmitted segments since `connect()` [segment].
    pub retransmits: Option<u32>,
    /// Time from `connect()` to the arrival of the last byte [s]; `null` for `goodput`, and after the time limit.
    pub seconds_to_finish: Option<f64>,

    /// Whether CUBIC used HyStart; `null` for Reno.
    pub hystart: Option<bool>,
    /// Loss recovery: `rack` (the kernel's default), `no-probes` or `sack`.
    pub recovery: String,
    /// Lateness of packets at the receiving kernel, 99th percentile [s].
    pub late_p99_s: f64,
    /// Highest lateness [s].
    pub late_max_s: f64,
    /// Packets lost at random, in both directions [packet].
    pub lost: u64,
    /// Packets dropped by the link's queue [packet].
    pub dropped: u64,
    /// Packets dropped by the testbed itself; above 0 the run is void [packet].
    pub unseen: u64,
    /// Time in which the receiver's window limited the sender [s].
    pub window_limited_s: Option<f64>,
    /// Time in which the sender's buffer limited it [s].
    pub buffer_limited_s: Option<f64>,

    /// With `window` only: time since `connect()` [s], cwnd [segment], ssthresh [segment] (`null` while infinite),
    /// smoothed round trip [s] (`null` before the first).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<Sample>>,
}

/// A line of [`Row::samples`].
pub type Sample = (f64, u32, Option<u32>, Option<f64>);

/// One run of `sndbuf`.
#[derive(Clone, Debug, Serialize)]
pub struct SndbufRow {
    /// As in [`Row`].
    #[serde(rename = "referee")]
    pub reference: String,
    /// `sndbuf`.
    pub experiment: String,
    /// As in [`Row`].
    pub rate_bytes_per_s: u64,
    /// As in [`Row`].
    pub rtt_s: f64,
    /// As in [`Row`].
    pub queue_bytes: u64,
    /// Rate of the application's writes [B/s]; `null` if it writes whenever the socket is writable.
    pub writes_bytes_per_s: Option<u64>,
    /// Bytes that the application received [B].
    pub bytes: u64,
    /// As in [`Row`].
    pub late_p99_s: f64,
    /// As in [`Row`].
    pub late_max_s: f64,
    /// As in [`Row`].
    pub dropped: u64,
    /// As in [`Row`].
    pub unseen: u64,
    /// Time since `connect()` [s], SO_SNDBUF [B], SIOCOUTQ [B], SIOCOUTQNSD [B], cwnd [segment], ssthresh [segment],
    /// smoothed round trip [s].
    pub samples: Vec<SndbufSample>,
}

/// A line of [`SndbufRow::samples`].
pub type SndbufSample = (f64, u64, u64, u64, u32, Option<u32>, Option<f64>);

/// One run of `limits`.
#[derive(Clone, Debug, Serialize)]
pub struct LimitsRow {
    /// As in [`Row`].
    #[serde(rename = "referee")]
    pub reference: String,
    /// `limits`.
    pub experiment: String,
    /// As in [`Row`].
    pub rate_bytes_per_s: u64,
    /// As in [`Row`].
    pub rtt_s: f64,
    /// As in [`Row`].
    pub loss: f64,
    /// As in [`Row`].
    pub queue_bytes: u64,
    /// Interval of the application's writes [s].
    pub every_s: f64,
    /// Bytes that the application received [B].
    pub bytes: u64,
    /// As in [`Row`].
    pub dropped: u64,
    /// As in [`Row`].
    pub unseen: u64,
    /// Time since `connect()` [s], the state before the write, the length of the write [B], the state after it.
    pub samples: Vec<LimitsSample>,
}

/// A line of [`LimitsRow::samples`].
pub type LimitsSample = (f64, Said, u64, Said);

/// The state of a socket that KIST reads: SO_SNDBUF [B], SIOCOUTQ [B], SIOCOUTQNSD [B], cwnd [segment], unacknowledged
/// [segment], MSS [B].
pub type Said = (u64, u64, u64, u32, u32, u32);

/// The name of the reference: the kernel's name and version, and the changed settings.
pub fn reference(congestion: Congestion, changed: Option<&str>) -> Result<String, Error> {
    let (major, minor) = kernel_version()?;
    let changed = changed.map(|changed| format!(" {changed}")).unwrap_or_default();
    Ok(format!("linux-{major}.{minor} {congestion}{changed}"))
}

/// The version of the running kernel, such as 6 and 18.
pub fn kernel_version() -> Result<(u32, u32), Error> {
    let release =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| machine!("{error}"))?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => Err(machine!("{:?} is no version of a kernel", release.trim())),
    }
}

/// Twice the link's delay [s].
pub fn rtt_s(link: &LinkConfig) -> f64 {
    (2 * link.delay).as_secs_f64()
}

/// The lost and dropped packets of a finished link, in both directions [packet].
pub fn totals(parted: &Parted) -> (u64, u64) {
    let counts = &parted.report.counts;
    (counts.iter().map(|counts| counts.lost).sum(), counts.iter().map(|counts| counts.dropped).sum())
}

/// A line of `samples`, `at` after the start.
pub fn sample(at: Instant, start: Instant, info: &TcpInfo) -> Sample {
    (seconds(at, start), info.cwnd, info.ssthresh, info.rtt.map(|rtt| rtt.as_secs_f64()))
}

/// The same for `sndbuf`.
pub fn sndbuf_sample(at: Instant, start: Instant, info: &TcpInfo) -> SndbufSample {
    let (time, cwnd, ssthresh, rtt) = sample(at, start, info);
    (time, info.capacity.get(), info.queued.get(), info.not_sent.get(), cwnd, ssthresh, rtt)
}

/// The same for `limits`.
pub fn limits_sample(
    at: Instant,
    start: Instant,
    before: &TcpInfo,
    written: u64,
    after: &TcpInfo,
) -> LimitsSample {
    let said = |info: &TcpInfo| {
        let bytes = (info.capacity.get(), info.queued.get(), info.not_sent.get());
        (bytes.0, bytes.1, bytes.2, info.cwnd, info.unacked, info.mss)
    };
    (seconds(at, start), said(before), written, said(after))
}

/// Seconds, rounded to a microsecond, the accuracy of the testbed's clock.
fn seconds(at: Instant, start: Instant) -> f64 {
    (at - start).as_micros() as f64 / 1e6
}

/// A row as a line of text.
pub fn line(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("a row has neither maps nor anything that fails") + "\n"
}
