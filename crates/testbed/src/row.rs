//! The output: one JSON object on one line for each run.
//!
//! Most members of [`Row`] are the same for the simulator and for all references (real kernel, ns-3), so that their rows
//! can be compared. Lateness, `lost`, `dropped`, `unseen` and the members from `hystart` on exist only for the testbed.
//! A member without a value is `null`; `samples` is then absent.

use crate::Error;
use crate::diag::TcpInfo;
use crate::error::machine;
use crate::forward::Report;
use crate::link::LinkConfig;
use crate::pair::Parted;
use crate::socket::Congestion;
use penstock_units::Instant;
use serde::Serialize;

/// The members that all rows have.
#[derive(Clone, Debug, Serialize)]
pub struct LinkRow {
    /// Name of the reference, such as `linux-6.18 cubic`. The name has the loss recovery if it is not the default.
    pub reference: String,
    /// Kind of measurement: `goodput`, `window`, `download`, `sndbuf` or `limits`.
    pub experiment: String,
    /// Rate of the link in each direction, for IP packets with headers [B/s].
    pub rate_bytes_per_s: u64,
    /// Twice the one-way delay of the link [s].
    pub rtt_s: f64,
    /// Probability that a packet is lost, in each direction [1].
    pub loss: f64,
    /// Capacity of the link's drop-tail queue in each direction [B].
    pub queue_bytes: u64,
    /// Bytes that the application received [B].
    pub bytes: u64,
    /// Delay of packets after their planned arrival at the kernel: 99th percentile [s].
    pub late_p99_s: f64,
    /// Delay of packets after their planned arrival at the kernel: maximum [s].
    pub late_max_s: f64,
    /// Packets lost at random, in both directions [packet].
    pub lost: u64,
    /// Packets dropped by the link's queue [packet].
    pub dropped: u64,
    /// Packets dropped by the testbed itself; the run is invalid if this is above 0 [packet].
    pub unseen: u64,
}

impl LinkRow {
    /// The row of a finished link. `changed` names settings of the kernel that are not the default.
    pub fn new(
        experiment: impl ToString,
        (congestion, changed): (Congestion, Option<String>),
        link: &LinkConfig,
        bytes: u64,
        parted: &Parted,
    ) -> Result<LinkRow, Error> {
        let (major, minor) = kernel_version()?;
        let changed = changed.map(|changed| format!(" {changed}")).unwrap_or_default();
        let Report { lateness, counts } = &parted.report;
        Ok(LinkRow {
            reference: format!("linux-{major}.{minor} {congestion}{changed}"),
            experiment: experiment.to_string(),
            rate_bytes_per_s: link.rate.bytes_per_sec(),
            rtt_s: (2 * link.delay).as_secs_f64(),
            loss: link.loss,
            queue_bytes: link.queue.get(),
            bytes,
            late_p99_s: lateness.quantile(0.99).as_secs_f64(),
            late_max_s: lateness.max().as_secs_f64(),
            lost: counts.iter().map(|counts| counts.lost).sum(),
            dropped: counts.iter().map(|counts| counts.dropped).sum(),
            unseen: parted.unseen,
        })
    }
}

/// One run of the experiment `tcp`: one TCP flow over one link.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The link, and the bytes that the application received during the measurement.
    #[serde(flatten)]
    pub link: LinkRow,
    /// Congestion control of the sender.
    pub congestion: Congestion,
    /// Number of the run, which is also the seed of the losses [1].
    pub repeat: u64,
    /// Time from `connect()` to the start of the measurement [s].
    pub warmup_s: f64,
    /// Duration of the measurement [s]. With `download` and `window`, it ends at the last byte or at the time limit.
    pub seconds: f64,
    /// `bytes` divided by `seconds` [B/s].
    pub goodput_bytes_per_s: f64,
    /// Retransmitted segments since `connect()` [segment].
    pub retransmits: Option<u32>,
    /// Time from `connect()` to the arrival of the last byte [s]; `null` with `goodput`, and after the time limit.
    pub seconds_to_finish: Option<f64>,

    /// Whether CUBIC used HyStart; `null` for Reno.
    pub hystart: Option<bool>,
    /// Loss recovery: `rack` (the kernel's default), `no-probes` or `sack`.
    pub recovery: String,
    /// Time in which the receive window limited the sender [s].
    pub window_limited_s: Option<f64>,
    /// Time in which the send buffer limited the sender [s].
    pub buffer_limited_s: Option<f64>,

    /// With `window` only: time since `connect()` [s], cwnd [segment], ssthresh [segment] (`null` if infinite),
    /// smoothed round-trip time [s] (`null` before the first sample).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<Sample>>,
}

/// One item of [`Row::samples`].
pub type Sample = (f64, u32, Option<u32>, Option<f64>);

/// One run of the experiment `sndbuf`.
#[derive(Clone, Debug, Serialize)]
pub struct SndbufRow {
    /// The link, and the bytes that the application received.
    #[serde(flatten)]
    pub link: LinkRow,
    /// Rate of the application's writes [B/s]; `null` if it writes whenever the socket is writable.
    pub writes_bytes_per_s: Option<u64>,
    /// Time since `connect()` [s], SO_SNDBUF [B], SIOCOUTQ [B], SIOCOUTQNSD [B], cwnd [segment], ssthresh [segment],
    /// smoothed round-trip time [s].
    pub samples: Vec<SndbufSample>,
}

/// One item of [`SndbufRow::samples`].
pub type SndbufSample = (f64, u64, u64, u64, u32, Option<u32>, Option<f64>);

/// One run of the experiment `limits`.
#[derive(Clone, Debug, Serialize)]
pub struct LimitsRow {
    /// The link, and the bytes that the application received.
    #[serde(flatten)]
    pub link: LinkRow,
    /// Interval between the application's writes [s].
    pub every_s: f64,
    /// Time since `connect()` [s], socket state before the write, size of the write [B], and state after it.
    pub samples: Vec<LimitsSample>,
}

/// One item of [`LimitsRow::samples`].
pub type LimitsSample = (f64, Said, u64, Said);

/// Socket state that KIST reads: SO_SNDBUF [B], SIOCOUTQ [B], SIOCOUTQNSD [B], cwnd [segment], unacknowledged
/// segments [segment], MSS [B].
pub type Said = (u64, u64, u64, u32, u32, u32);

/// Version of the running kernel, such as 6 and 18.
pub fn kernel_version() -> Result<(u32, u32), Error> {
    let release =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| machine!("{error}"))?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => Err(machine!("{:?} is no version of a kernel", release.trim())),
    }
}

/// An item of [`Row::samples`]. `at` is the time of the sample, `start` the time of `connect()`.
pub fn sample(at: Instant, start: Instant, info: &TcpInfo) -> Sample {
    (seconds(at, start), info.cwnd, info.ssthresh, info.rtt.map(|rtt| rtt.as_secs_f64()))
}

/// An item of [`SndbufRow::samples`]. `at` is the time of the sample, `start` the time of `connect()`.
pub fn sndbuf_sample(at: Instant, start: Instant, info: &TcpInfo) -> SndbufSample {
    let (time, cwnd, ssthresh, rtt) = sample(at, start, info);
    (time, info.capacity.get(), info.queued.get(), info.not_sent.get(), cwnd, ssthresh, rtt)
}

/// An item of [`LimitsRow::samples`]. `at` is the time of the sample, `start` the time of `connect()`.
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

/// The time from `start` to `at` [s], rounded to a microsecond, the accuracy of the testbed's clock.
fn seconds(at: Instant, start: Instant) -> f64 {
    (at - start).as_micros() as f64 / 1e6
}

/// A row as one line of JSON.
pub fn line(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("a row has neither maps nor anything that fails") + "\n"
}
