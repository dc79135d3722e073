//! `edge_control`: windows and rates at the two ends of a circuit.

use crate::error::ConfigError;
use crate::keys::{PartnerInfo, Read, algorithm, keys, section, sections};
use crate::values::{Choice, Flag, Fraction, Or, RATE, TIME, TIME_OR_ZERO, Whole};
use penstock_core::edge_control::{
    Adjust, CwndBounds, DctcpConfig, DynamicConfig, EdgeControlConfig, Ends, TimelyConfig, VegasConfig,
    WindowsConfig, XonXoffConfig,
};
use penstock_units::{DataRate, Duration};
use std::num::NonZeroU8;

const CELLS: Whole = Whole::cells(1, 100_000);
const OF_VERSION: Or<Whole> = Or("version", Whole::cells(0, 100_000));
const SAMPLES: Whole = Whole { least: 2, most: 1000, unit: "1" };
const CIRCUIT_WINDOW: Whole = window(WindowsConfig::CIRCUIT_RANGE);
const STREAM_WINDOW: Whole = window(WindowsConfig::STREAM_RANGE);

const fn window((least, most): (u32, u32)) -> Whole {
    Whole::cells(least as i64, most as i64)
}

const fn percent(least: i64, most: i64) -> Whole {
    Whole { least, most, unit: "%" }
}

keys! {
    WindowsConfig("windows") {
        /// DATA cells of a circuit that may be unacknowledged; 100 is 50 KiB.
        circuit_window = CIRCUIT_WINDOW, Is("1000");
        /// DATA cells of a stream that may be unacknowledged.
        stream_window = STREAM_WINDOW, Is("500");
        /// Acknowledges one cell too late, as clients until 0.2.1.19 did.
        sendme_bug_101 = Flag, Is("false");
        /// Cells that circuit SENDMEs acknowledge before they arrive, as a selfish client does; 0 is honest.
        early_sendmes = window(WindowsConfig::EARLY_RANGE), Is("0");
        /// Whether these windows hold on circuits with credits at each hop. If client and last relay both say "ignored" or
        /// "suppressed", they do not. With "ignored" this end sends SENDMEs without effect, with "suppressed" none.
        ends = Choice(&[
            ("enforced", Ends::Enforced),
            ("ignored", Ends::Ignored),
            ("suppressed", Ends::Suppressed),
        ]), Is("enforced");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct DynamicKeys("dynamic-windows") {
        /// The place of the threshold between the least and the greatest round trip.
        alpha: f64 = Fraction, Is("0.25");
        /// How often the window may change.
        adjust: Adjust = Choice(&[
            ("every-sendme", Adjust::EverySendme),
            ("once-per-rtt", Adjust::OncePerRtt),
        ]), Is("every-sendme");
        /// How fast the least and the greatest round trip drift towards the mean, for each sample; 0 is never.
        decay: f64 = Fraction, Is("0.0");
        /// Peers acknowledge one cell too late: the least window is 101.
        peer_bug_101: bool = Flag, Is("false");
        /// DATA cells of a stream that may be unacknowledged.
        stream_window: u32 = STREAM_WINDOW, Is("500");
        /// Acknowledges one cell too late, as clients until 0.2.1.19 did.
        sendme_bug_101: bool = Flag, Is("false");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct StockKeys("") {
        /// The window of circuits whose other end has no congestion control.
        circuit_window: u32 = CIRCUIT_WINDOW, Is("1000");
        /// DATA cells of a stream that may be unacknowledged.
        stream_window: u32 = STREAM_WINDOW, Is("500");
    }
}

impl StockKeys {
    fn config(&self) -> WindowsConfig {
        WindowsConfig {
            circuit_window: self.circuit_window,
            stream_window: self.stream_window,
            ..WindowsConfig::STOCK
        }
    }
}

/// Declares the bounds of a congestion window with the defaults of an algorithm, and the least maximum.
macro_rules! bounds {
    ($name:ident: $inc:literal, $init:literal, $min:literal, $max:literal of $least:literal) => {
        section! {
            /// The bounds of a congestion window.
            #[derive(Clone, Debug)]
            pub(crate) struct $name("") {
                /// DATA cells that one circuit SENDME acknowledges, as the relay says. The client refuses it if its own
                /// value differs by more than 1.
                sendme_inc: u32 = Whole::cells(1, 254), Is($inc);
                /// The congestion window of a new circuit.
                cwnd_init: u32 = CELLS, Is($init);
                /// The smallest congestion window.
                cwnd_min: u32 = CELLS, Is($min);
                /// The largest congestion window.
                cwnd_max: u32 = Whole::cells($least, i32::MAX as i64), Is($max);
            }
        }

        impl $name {
            fn config<S>(&self, node: &Read<S>) -> Result<CwndBounds, ConfigError> {
                bounds(node, self.sendme_inc, self.cwnd_init, self.cwnd_min, self.cwnd_max)
            }
        }
    };
}

bounds!(VegasBounds: "31", "124", "124", "2147483647" of 500);
bounds!(DctcpBounds: "10", "20", "20", "1000" of 1);
bounds!(TimelyBounds: "31", "124", "62", "1000" of 1);

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct VersionKeys("") {
        /// The version of C tor whose constants replace the word "version" of other keys.
        version: VegasConfig = Choice(&[
            ("0.4.9", VegasConfig::TOR_0_4_9),
            ("0.4.7", VegasConfig::TOR_0_4_7),
        ]), Is("'0.4.9'");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct VegasOwn("vegas") {
        /// The cells that an update after slow start adds or subtracts.
        cwnd_inc: u32 = CELLS, Is("1");
        /// After slow start there is one update for this many times sendme_inc acknowledged cells. A smaller window is
        /// updated with every SENDME.
        cwnd_inc_rate: u32 = Whole { least: 1, most: 250, unit: "1" }, Is("31");
        /// The share of the acknowledged cells that a SENDME adds in slow start.
        cwnd_inc_pct_ss: u32 = percent(1, 500), Is("100");
        /// Slow start grows more slowly above this window: 600, or 500.
        sscap: Option<u32> = OF_VERSION, Is("version");
        /// Slow start ends at this window.
        ss_max: u32 = CELLS, Is("5000");
        /// The window grows while fewer cells are queued: 186, or 124.
        alpha: Option<u32> = OF_VERSION, Is("version");
        /// The window shrinks while more cells are queued: 248.
        beta: Option<u32> = OF_VERSION, Is("version");
        /// Slow start ends when this many cells are queued: 186.
        gamma: Option<u32> = OF_VERSION, Is("version");
        /// With more queued cells, the window falls at once to this many above the bandwidth-delay product: 310, or 372.
        delta: Option<u32> = OF_VERSION, Is("version");
        /// Round trips are averaged over this part of a window's updates after slow start.
        ewma_cwnd_pct: u32 = percent(1, 255), Is("50");
        /// The largest number of updates in that average.
        ewma_max: u32 = SAMPLES, Is("10");
        /// The number of updates in that average in slow start.
        ewma_ss: u32 = SAMPLES, Is("2");
        /// How far the least round trip rises to the average while the window is at its minimum.
        rtt_reset_pct: u32 = percent(0, 100), Is("100");
        /// A window is still full if it lacks the cells of this many SENDMEs: 4, or 1.
        cwnd_full_gap: Option<u32> = Or("version", Whole { least: 0, most: 32_767, unit: "1" }), Is("version");
        /// A window is not full if less than this part is in flight: 25, or 75.
        cwnd_full_minpct: Option<u32> = Or("version", percent(0, 100)), Is("version");
        /// A window must be full again once in a window's worth of SENDMEs; with false, once in an update.
        cwnd_full_per_cwnd: bool = Flag, Is("true");
        /// An XOFF is due when more of a stream waits for its application, in cells of 488 B.
        xoff: u32 = Whole::cells(1, 10_000), Is("500");
        /// The time for which this must last before the XOFF leaves with the next cell that arrives: 5 ms, or none.
        xoff_grace: Option<Duration> = Or("version", TIME_OR_ZERO), Is("version");
        /// The rate in an XON is measured over this many cells of 498 B.
        xon_rate: u32 = Whole::cells(1, 5000), Is("500");
        /// Another XON leaves when that rate has changed by this much.
        xon_change_pct: u32 = percent(1, 99), Is("25");
        /// That rate is averaged over this many measurements.
        xon_ewma_cnt: u32 = Whole { least: 2, most: 100, unit: "1" }, Is("2");
    }
}

sections! {
    #[derive(Clone, Debug)]
    pub(crate) struct VegasKeys("vegas") {
        of: VersionKeys,
        bounds: VegasBounds,
        own: VegasOwn,
        stock: StockKeys,
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct DctcpKeys("dctcp") {
        /// The weight of the newest window in the average share of marked cells.
        g: f64 = Fraction, Is("0.0625");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct TimelyKeys("timely") {
        /// The rate grows while the round trip exceeds the circuit's least one by less than this.
        t_low: Duration = TIME_OR_ZERO, Is("10 ms");
        /// The rate falls while the round trip exceeds the circuit's least one by more than this.
        t_high: Duration = TIME, Is("100 ms");
        /// The increase of the rate in a round trip, in bytes of cells.
        delta: DataRate = RATE, Is("10 KiB/s");
        /// How much the rate falls with a gradient, or with the excess over t_high.
        beta: f64 = Fraction, Is("0.8");
        /// The weight of the newest difference of two round trips in the gradient.
        alpha: f64 = Fraction, Is("0.875");
    }
}

const NEEDS_MARKS: PartnerInfo = PartnerInfo {
    key: "ecn_threshold",
    not: "none",
    refused: false,
    why: "depends on marks: its window only grows if no relay marks cells",
};

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum EdgeControl("EdgeControl") {
        /// Fixed SENDME windows of circuits and streams.
        Windows("windows"): WindowsConfig, "tor-spec section 7.4; DefenestraTor sections 3.1 and 4.1", &[];
        /// A circuit window that follows the round-trip time.
        Dynamic("dynamic-windows"): DynamicKeys, "DefenestraTor section 4.1, equations 1 and 2", &[];
        /// Congestion control and XON/XOFF on circuits whose client and last relay both have it; SENDME windows on others.
        Vegas("vegas"): VegasKeys, "proposal 324; RFC 3742; C tor 0.4.9 and 0.4.7", &[];
        /// A congestion window that follows the share of cells that relays marked, and XON/XOFF, on circuits whose client
        /// and last relay both have it; SENDME windows on others.
        Dctcp("dctcp"): (DctcpBounds, (DctcpKeys, StockKeys)), "Alizadeh et al. 2010 section 3; RFC 8257", &[NEEDS_MARKS];
        /// A rate that follows the gradient of the round trip, as a window, and XON/XOFF, on circuits whose client and last
        /// relay both have it; SENDME windows on others.
        Timely("timely"): (TimelyBounds, (TimelyKeys, StockKeys)), "Mittal et al. 2015 section 4.3, algorithm 1", &[];
    }
}

impl EdgeControl {
    pub(crate) fn config<S>(&self, node: &Read<S>) -> Result<EdgeControlConfig, ConfigError> {
        Ok(match self {
            EdgeControl::Windows(config) => EdgeControlConfig::Windows(*config),
            EdgeControl::Dynamic(keys) => EdgeControlConfig::Dynamic(DynamicConfig {
                windows: WindowsConfig {
                    stream_window: keys.stream_window,
                    sendme_bug_101: keys.sendme_bug_101,
                    ..WindowsConfig::default()
                },
                alpha: keys.alpha,
                adjust: keys.adjust,
                decay: keys.decay,
                peer_bug_101: keys.peer_bug_101,
            }),
            EdgeControl::Vegas(keys) => EdgeControlConfig::Vegas(vegas(keys, node)?),
            EdgeControl::Dctcp((bounds, (own, stock))) => EdgeControlConfig::Dctcp(DctcpConfig {
                bounds: bounds.config(node)?,
                g: own.g,
                windows: stock.config(),
                ..DctcpConfig::default()
            }),
            EdgeControl::Timely((_, (own, _))) if own.t_low >= own.t_high => {
                return Err(node.upside_down("edge_control.t_low", "edge_control.t_high"));
            }
            EdgeControl::Timely((bounds, (own, stock))) => EdgeControlConfig::Timely(TimelyConfig {
                bounds: bounds.config(node)?,
                t_low: own.t_low,
                t_high: own.t_high,
                delta: own.delta,
                beta: own.beta,
                alpha: own.alpha,
                windows: stock.config(),
                ..TimelyConfig::default()
            }),
        })
    }
}

fn vegas<S>(keys: &VegasKeys, node: &Read<S>) -> Result<VegasConfig, ConfigError> {
    let VegasKeys { of: VersionKeys { version }, bounds, own, stock } = keys;
    Ok(VegasConfig {
        offered: true,
        bounds: bounds.config(node)?,
        cwnd_inc: own.cwnd_inc,
        cwnd_inc_rate: own.cwnd_inc_rate,
        cwnd_inc_pct_ss: own.cwnd_inc_pct_ss,
        sscap: own.sscap.unwrap_or(version.sscap),
        ss_max: own.ss_max,
        alpha: own.alpha.unwrap_or(version.alpha),
        beta: own.beta.unwrap_or(version.beta),
        gamma: own.gamma.unwrap_or(version.gamma),
        delta: own.delta.unwrap_or(version.delta),
        ewma_cwnd_pct: own.ewma_cwnd_pct,
        ewma_max: own.ewma_max,
        ewma_ss: own.ewma_ss,
        rtt_reset_pct: own.rtt_reset_pct,
        cwnd_full_gap: own.cwnd_full_gap.unwrap_or(version.cwnd_full_gap),
        cwnd_full_minpct: own.cwnd_full_minpct.unwrap_or(version.cwnd_full_minpct),
        cwnd_full_per_cwnd: own.cwnd_full_per_cwnd,
        streams: XonXoffConfig {
            xoff: own.xoff,
            grace: own.xoff_grace.unwrap_or(version.streams.grace),
            xon_rate: own.xon_rate,
            xon_change_pct: own.xon_change_pct,
            xon_ewma_cnt: own.xon_ewma_cnt,
        },
        windows: stock.config(),
    })
}

/// The limits of a congestion window. Each limit must be at least the cells of one SENDME.
fn bounds<S>(
    node: &Read<S>,
    sendme_inc: u32,
    cwnd_init: u32,
    cwnd_min: u32,
    cwnd_max: u32,
) -> Result<CwndBounds, ConfigError> {
    for (key, cells) in [("cwnd_init", cwnd_init), ("cwnd_min", cwnd_min)] {
        let wrong = |message| Err(node.wrong(&format!("edge_control.{key}"), message));
        if cells < sendme_inc {
            return wrong(format!(
                "{cells} is less than sendme_inc, {sendme_inc}: no SENDME would ever come; it must be at least as many"
            ));
        }
        if cells > cwnd_max {
            return wrong(format!("{cells} is more than cwnd_max, {cwnd_max}; it must be as many at most"));
        }
    }
    let sendme_inc = u8::try_from(sendme_inc).ok().and_then(NonZeroU8::new);
    let range = || node.wrong("edge_control.sendme_inc", "it must be from 1 to 254");
    Ok(CwndBounds { sendme_inc: sendme_inc.ok_or_else(range)?, cwnd_init, cwnd_min, cwnd_max })
}
