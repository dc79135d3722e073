//! The parameters of Vegas.

use crate::edge_control::{CwndBounds, WindowsConfig, XonXoffConfig};
use std::num::NonZeroU8;

/// Parameters of Vegas. The names are the consensus names without `cc_`.
///
/// Source: proposal 324 §6.5; C tor `congestion_control_common.c`, `congestion_control_vegas.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VegasConfig {
    /// Whether a relay agrees to Vegas when a client requests it. A change does not affect existing circuits.
    ///
    /// Source: C tor `congestion_control_enabled()`, which is false if the consensus contains `cc_alg=0`.
    pub offered: bool,
    /// The bounds of the window.
    pub bounds: CwndBounds,
    /// After slow start, how many cells one update adds to or removes from the window [cell].
    pub cwnd_inc: u32,
    /// After slow start, how often the window changes for each acknowledged window of cells [1].
    pub cwnd_inc_rate: u32,
    /// The increase of the window for one SENDME in slow start, as a percentage of the SENDME's cells [%].
    pub cwnd_inc_pct_ss: u32,
    /// The window above which slow start grows more slowly (RFC 3742's max_ssthresh) [cell].
    pub sscap: u32,
    /// The window at which slow start ends [cell].
    pub ss_max: u32,
    /// The window grows while fewer cells than this wait in the circuit's queues [cell].
    pub alpha: u32,
    /// The window shrinks while more cells than this wait in the circuit's queues [cell].
    pub beta: u32,
    /// Slow start ends when this many cells wait in the circuit's queues [cell].
    pub gamma: u32,
    /// If more cells than this wait in queues, the window drops in one step to the bandwidth-delay product plus this
    /// [cell].
    pub delta: u32,
    /// After slow start, the number of round trips in the average, in percent of the SENDMEs between two updates [%].
    pub ewma_cwnd_pct: u32,
    /// The maximum number of round trips in the average [1].
    pub ewma_max: u32,
    /// In slow start, the number of round trips in the average [1].
    pub ewma_ss: u32,
    /// While the window is at its minimum, RTT_min moves towards the average by this part of their difference [%].
    pub rtt_reset_pct: u32,
    /// The window counts as full if its free space is at most the cells of this many SENDMEs [SENDME].
    pub cwnd_full_gap: u32,
    /// The window stops counting as full if the cells in flight fall below this percentage of the window [%].
    pub cwnd_full_minpct: u32,
    /// The window grows only if it was full in the current period. True: a period is one window of cells. False: a
    /// period is one update interval.
    pub cwnd_full_per_cwnd: bool,
    /// Flow control of streams on circuits that use Vegas.
    pub streams: XonXoffConfig,
    /// Window sizes of circuits whose other end has no congestion control.
    pub windows: WindowsConfig,
}

/// Cells in a TLS record of 16 KiB (C tor `TLS_RECORD_MAX_CELLS`).
const TLS_RECORD: u32 = 31;
/// Cells in an output buffer (C tor `OUTBUF_CELLS`).
const OUTBUF: u32 = 2 * TLS_RECORD;

impl VegasConfig {
    /// The values of C tor 0.4.9 for circuits that end at an exit.
    pub const TOR_0_4_9: VegasConfig = VegasConfig {
        offered: true,
        bounds: CwndBounds {
            sendme_inc: NonZeroU8::new(TLS_RECORD as u8).expect("31 is not zero"),
            cwnd_init: 4 * TLS_RECORD,
            cwnd_min: 4 * TLS_RECORD,
            cwnd_max: i32::MAX as u32,
        },
        cwnd_inc: 1,
        cwnd_inc_rate: TLS_RECORD,
        cwnd_inc_pct_ss: 100,
        sscap: 600,
        ss_max: 5000,
        alpha: 3 * OUTBUF,
        beta: 4 * OUTBUF,
        gamma: 3 * OUTBUF,
        delta: 5 * OUTBUF,
        ewma_cwnd_pct: 50,
        ewma_max: 10,
        ewma_ss: 2,
        rtt_reset_pct: 100,
        cwnd_full_gap: 4,
        cwnd_full_minpct: 25,
        cwnd_full_per_cwnd: true,
        streams: XonXoffConfig::TOR_0_4_9,
        windows: WindowsConfig::STOCK,
    };

    /// The values of C tor 0.4.7 since 0.4.7.13, the first version in which a window grows only if it is full.
    ///
    /// Source: `congestion_control_vegas.c` of that version.
    /// Deviation: the parameters of `congestion_control_common.c` are those of 0.4.9.
    pub const TOR_0_4_7: VegasConfig = VegasConfig {
        sscap: 500,
        alpha: 2 * OUTBUF,
        delta: 6 * OUTBUF,
        cwnd_full_gap: 1,
        cwnd_full_minpct: 75,
        streams: XonXoffConfig::TOR_0_4_7,
        ..VegasConfig::TOR_0_4_9
    };
}

impl Default for VegasConfig {
    fn default() -> Self {
        VegasConfig::TOR_0_4_9
    }
}
