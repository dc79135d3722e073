//! What Vegas can be told.

use crate::edge_control::{WindowsConfig, XonXoffConfig};
use std::num::NonZeroU8;

/// Parameters of Vegas, under their consensus names without `cc_`.
///
/// Source: proposal 324 §6.5; C tor `congestion_control_common.c`, `congestion_control_vegas.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VegasConfig {
    /// Whether a relay grants it to who asks; circuits that have it keep it.
    ///
    /// Source: C tor `congestion_control_enabled()`, which is false where the consensus says `cc_alg=0`.
    pub offered: bool,
    /// Cells that one SENDME acknowledges [cell].
    pub sendme_inc: NonZeroU8,
    /// The congestion window of a new circuit [cell].
    pub cwnd_init: u32,
    /// The least that it may be [cell]; at least `sendme_inc`, or it would wait for ever.
    pub cwnd_min: u32,
    /// The most that it may be [cell].
    pub cwnd_max: u32,
    /// By how much it changes at an update after slow start [cell].
    pub cwnd_inc: u32,
    /// How often in a window's worth of cells it is updated after slow start [1].
    pub cwnd_inc_rate: u32,
    /// What a SENDME adds in slow start, of the cells that it acknowledges [%].
    pub cwnd_inc_pct_ss: u32,
    /// From which window on slow start grows more slowly (RFC 3742's max_ssthresh) [cell].
    pub sscap: u32,
    /// At which window slow start ends [cell].
    pub ss_max: u32,
    /// The window grows while fewer cells than this are queued [cell].
    pub alpha: u32,
    /// It shrinks while more than this are queued [cell].
    pub beta: u32,
    /// Slow start ends when so many are queued [cell].
    pub gamma: u32,
    /// It falls at once to this many above the bandwidth-delay product when more are queued [cell].
    pub delta: u32,
    /// Over which part of a window's updates round trips are averaged after slow start [%].
    pub ewma_cwnd_pct: u32,
    /// Over how many at most [1].
    pub ewma_max: u32,
    /// Over how many in slow start [1].
    pub ewma_ss: u32,
    /// How far the least round trip rises to the average when the window is at its least [%].
    pub rtt_reset_pct: u32,
    /// The window counts as full if it lacks no more than so many SENDMEs' cells [SENDME].
    pub cwnd_full_gap: u32,
    /// It no longer counts as full when less than this of it is under way [%].
    pub cwnd_full_minpct: u32,
    /// It must be found full anew once in a window's worth of SENDMEs, not once in an update.
    pub cwnd_full_per_cwnd: bool,
    /// What streams of such circuits have.
    pub streams: XonXoffConfig,
    /// What circuits have whose other end knows no congestion control.
    pub windows: WindowsConfig,
}

/// Cells in a TLS record of 16 KiB (C tor `TLS_RECORD_MAX_CELLS`).
const TLS_RECORD: u32 = 31;
/// Cells in an output buffer (C tor `OUTBUF_CELLS`).
const OUTBUF: u32 = 2 * TLS_RECORD;

impl VegasConfig {
    /// With what the two ends agreed on: a window is never too small for a SENDME.
    pub(crate) fn with_increment(self, sendme_inc: NonZeroU8) -> Self {
        let least = u32::from(sendme_inc.get());
        let (cwnd_init, cwnd_min) = (self.cwnd_init.max(least), self.cwnd_min.max(least));
        VegasConfig { sendme_inc, cwnd_init, cwnd_min, ..self }
    }

    /// C tor 0.4.9, for circuits that end at an exit.
    pub const TOR_0_4_9: VegasConfig = VegasConfig {
        offered: true,
        sendme_inc: NonZeroU8::new(TLS_RECORD as u8).expect("31 is not zero"),
        cwnd_init: 4 * TLS_RECORD,
        cwnd_min: 4 * TLS_RECORD,
        cwnd_max: i32::MAX as u32,
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

    /// C tor 0.4.7 from 0.4.7.13 on, the first that grows only a window that is full.
    ///
    /// Source: `congestion_control_vegas.c` of that time.
    /// Deviation: the parameters of `congestion_control_common.c` are 0.4.9's.
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
