//! `edge_control`: windows and rates at the two ends of a circuit.

use crate::error::ConfigError;
use crate::keys::{PartnerInfo, Read, algorithm, keys, section, sections};
use crate::values::{Choice, Flag, Fraction, Or, RATE, TIME, TIME_OR_ZERO, Whole};
use penstock_core::edge_control::{
    Adjust, CwndBounds, DctcpConfig, DynamicConfig, EdgeControlConfig, Ends, TimelyConfig, VegasConfig,
    WindowsConfig, XonXoffConfig,
};
use penstock_units::Duration;
use std::num::NonZeroU8;

const CELLS: Whole = Whole::cells(1, 100_000);
const OF_VERSION: Or<Whole> = Or("version", Whole::cells(0, 100_000));
const SAMPLES: Whole = Whole { least: 2, most: 1000, unit: "1" };
const CIRCUIT_WINDOW: Whole = window(WindowsConfig::CIRCUIT_RANGE);
const STOCK_STREAM_WINDOW: Whole = window(WindowsConfig::STREAM_RANGE);
const STREAM_WINDOW: Or<Whole> = Or("none", STOCK_STREAM_WINDOW);

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
        /// DATA cells of a stream that may be unacknowledged. With "none", only the circuit has a window. Set "none" on
        /// relays and clients.
        stream_window = STREAM_WINDOW, Is("500");
        /// With true, the first SENDME is one cell too late, as in clients up to and including 0.2.1.19.
        sendme_bug_101 = Flag, Is("false");
        /// The number of DATA cells that a selfish client acknowledges before they arrive. An honest client has 0.
        early_sendmes = window(WindowsConfig::EARLY_RANGE), Is("0");
        /// Whether these windows apply if every hop of a circuit uses credits. They do not apply if both the client and
        /// the last relay have "ignored" or "suppressed". With "ignored", this end still sends SENDMEs. With
        /// "suppressed", it sends none.
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
        /// The round-trip time above which the window shrinks: 0 is the smallest measured time, and 1 is the largest.
        alpha: f64 = Fraction, Is("0.25");
        /// How often the window may change.
        adjust: Adjust = Choice(&[
            ("every-sendme", Adjust::EverySendme),
            ("once-per-rtt", Adjust::OncePerRtt),
        ]), Is("every-sendme");
        /// Each sample moves the smallest and the largest round-trip time towards the mean, by this part of the
        /// distance. With 0, they do not move.
        decay: f64 = Fraction, Is("0.0");
        /// With true, peers send the first SENDME one cell too late, so the minimum window is 101.
        peer_bug_101: bool = Flag, Is("false");
        /// DATA cells of a stream that may be unacknowledged. With "none", only the circuit has a window. Set "none" on
        /// relays and clients.
        stream_window: Option<u32> = STREAM_WINDOW, Is("500");
        /// With true, the first SENDME is one cell too late, as in clients up to and including 0.2.1.19.
        sendme_bug_101: bool = Flag, Is("false");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct StockKeys("") {
        /// The SENDME window of a circuit, if the node at its other end does not support congestion control.
        circuit_window: u32 = CIRCUIT_WINDOW, Is("1000");
        /// DATA cells of a stream that may be unacknowledged.
        stream_window: u32 = STOCK_STREAM_WINDOW, Is("500");
    }
}

impl StockKeys {
    fn config(&self) -> WindowsConfig {
        WindowsConfig {
            circuit_window: self.circuit_window,
            stream_window: Some(self.stream_window),
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
                /// The number of DATA cells that one circuit SENDME acknowledges. The relay tells the client its own
                /// number. The client refuses the circuit if the two numbers differ by more than 1.
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
        /// The version of C tor. Other keys with the value "version" have the constants of this version.
        version: VegasConfig = Choice(&[
            ("0.4.9", VegasConfig::TOR_0_4_9),
            ("0.4.7", VegasConfig::TOR_0_4_7),
        ]), Is("'0.4.9'");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct VegasOwn("vegas") {
        /// The number of cells that an update after slow start adds or subtracts.
        cwnd_inc: u32 = CELLS, Is("1");
        /// After slow start, the number of updates of the window for each window of acknowledged cells. One SENDME
        /// causes at most one update.
        cwnd_inc_rate: u32 = Whole { least: 1, most: 250, unit: "1" }, Is("31");
        /// The growth of the window at each SENDME in slow start, relative to the cells that the SENDME acknowledges.
        cwnd_inc_pct_ss: u32 = percent(1, 500), Is("100");
        /// Above this window, slow start grows more slowly. "version" is 600 for C tor 0.4.9 and 500 for 0.4.7.
        sscap: Option<u32> = OF_VERSION, Is("version");
        /// Slow start ends at this window.
        ss_max: u32 = CELLS, Is("5000");
        /// The window grows while fewer cells than this wait in queues. "version" is 186 for C tor 0.4.9 and 124 for
        /// 0.4.7.
        alpha: Option<u32> = OF_VERSION, Is("version");
        /// The window shrinks while more cells than this wait in queues. "version" is 248.
        beta: Option<u32> = OF_VERSION, Is("version");
        /// Slow start ends when this many cells wait in queues. "version" is 186.
        gamma: Option<u32> = OF_VERSION, Is("version");
        /// If more cells than this wait in queues, the window falls at once to the bandwidth-delay product plus this
        /// number. "version" is 310 for C tor 0.4.9 and 372 for 0.4.7.
        delta: Option<u32> = OF_VERSION, Is("version");
        /// After slow start, the number of samples in the average round-trip time, relative to the SENDMEs between two
        /// updates.
        ewma_cwnd_pct: u32 = percent(1, 255), Is("50");
        /// The maximum number of samples in the average round-trip time.
        ewma_max: u32 = SAMPLES, Is("10");
        /// In slow start, the number of samples in the average round-trip time.
        ewma_ss: u32 = SAMPLES, Is("2");
        /// While the window is at its minimum after slow start, each sample moves the smallest round-trip time towards
        /// the average, by this part of the distance.
        rtt_reset_pct: u32 = percent(0, 100), Is("100");
        /// A window is full if the cells of at most this many further SENDMEs fit into it. "version" is 4 for C tor
        /// 0.4.9 and 1 for 0.4.7.
        cwnd_full_gap: Option<u32> = Or("version", Whole { least: 0, most: 32_767, unit: "1" }), Is("version");
        /// A window stops being full when the cells in flight fall below this part of it. "version" is 25 for C tor
        /// 0.4.9 and 75 for 0.4.7.
        cwnd_full_minpct: Option<u32> = Or("version", percent(0, 100)), Is("version");
        /// A window may grow only if it was full before. With true, it was full in the last window of SENDMEs. With
        /// false, it was full since the last update.
        cwnd_full_per_cwnd: bool = Flag, Is("true");
        /// A node sends an XOFF when more cells of a stream than this wait for the application. A cell counts as 488 B.
        xoff: u32 = Whole::cells(1, 10_000), Is("500");
        /// The minimum waiting time of the data before an XOFF. The node checks this time when a cell arrives.
        /// "version" is 5 ms for C tor 0.4.9 and 0 for 0.4.7.
        xoff_grace: Option<Duration> = Or("version", TIME_OR_ZERO), Is("version");
        /// The number of cells of 498 B over which a node measures the rate for an XON.
        xon_rate: u32 = Whole::cells(1, 5000), Is("500");
        /// A node sends another XON when the measured rate differs by more than this from the rate in its last XON.
        xon_change_pct: u32 = percent(1, 99), Is("25");
        /// The number of measurements over which the rate in an XON is averaged.
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

keys! {
    DctcpConfig("dctcp") {
        /// The weight of the newest window of cells in the average share of marked cells.
        g = Fraction, Is("0.0625");
        ..DctcpConfig::default()
    }
}

keys! {
    TimelyConfig("timely") {
        /// The rate grows while the round-trip time is below the circuit's smallest one plus this time.
        t_low = TIME_OR_ZERO, Is("10 ms");
        /// The rate falls while the round-trip time is above the circuit's smallest one plus this time.
        t_high = TIME, Is("100 ms");
        /// The increase of the rate in one round-trip time. The rate counts whole cells.
        delta = RATE, Is("10 KiB/s");
        /// The factor by which the rate falls, in proportion to a positive gradient or to the excess over t_high.
        beta = Fraction, Is("0.8");
        /// The weight of the newest difference of two consecutive round-trip times in the average gradient.
        alpha = Fraction, Is("0.875");
        ..TimelyConfig::default()
    }
}

const NEEDS_MARKS: PartnerInfo = PartnerInfo {
    key: "ecn_threshold",
    not: "none",
    refused: false,
    why: "reduces its window only for marked cells",
};

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum EdgeControl("EdgeControl", edge_control: EdgeControlConfig) {
        /// Circuits and streams have fixed SENDME windows.
        Windows("windows"): WindowsConfig, "tor-spec section 7.4; DefenestraTor sections 3.1 and 4.1", &[];
        /// The circuit window grows and shrinks with the round-trip time.
        Dynamic("dynamic-windows"): DynamicKeys, "DefenestraTor section 4.1, equations 1 and 2", &[];
        /// Circuits have congestion control, and streams have XON/XOFF. If the client or the last relay does not
        /// support Vegas, both use SENDME windows.
        Vegas("vegas"): Box<VegasKeys>, "proposal 324; RFC 3742; C tor 0.4.9 and 0.4.7", &[];
        /// The congestion window depends on the share of marked cells. If the client or the last relay does not support
        /// DCTCP, both use SENDME windows.
        Dctcp("dctcp"): (DctcpBounds, (DctcpConfig, StockKeys)), "Alizadeh et al. 2010 section 3; RFC 8257", &[NEEDS_MARKS];
        /// The sending rate depends on the gradient of the round trip. If the client or the last relay does not support
        /// TIMELY, both use SENDME windows.
        Timely("timely"): (TimelyBounds, (TimelyConfig, StockKeys)), "Mittal et al. 2015 section 4.3, algorithm 1", &[];
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
                windows: stock.config(),
                ..*own
            }),
            EdgeControl::Timely((_, (own, _))) if own.t_low >= own.t_high => {
                return Err(node.upside_down("edge_control.t_low", "edge_control.t_high"));
            }
            EdgeControl::Timely((bounds, (own, stock))) => EdgeControlConfig::Timely(TimelyConfig {
                bounds: bounds.config(node)?,
                windows: stock.config(),
                ..*own
            }),
            EdgeControl::Plugin(chosen) => chosen.config(node, "edge_control")?,
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
            return wrong(format!("{cells} is more than cwnd_max, {cwnd_max}; it must be at most as many"));
        }
    }
    let sendme_inc = u8::try_from(sendme_inc).ok().and_then(NonZeroU8::new);
    let range = || node.wrong("edge_control.sendme_inc", "it must be from 1 to 254");
    Ok(CwndBounds { sendme_inc: sendme_inc.ok_or_else(range)?, cwnd_init, cwnd_min, cwnd_max })
}
