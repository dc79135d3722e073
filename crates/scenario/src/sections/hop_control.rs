//! `hop_control`: limits of a circuit's outstanding cells on each hop.

use crate::error::ConfigError;
use crate::keys::{NoKeys, PartnerInfo, Read, algorithm, in_table, keys, section};
use crate::values::{Choice, Flag, Or, TIME, TIME_OR_ZERO, Whole};
use penstock_core::hop_control::{
    AdaptConfig, BackTapConfig, ControlInterval, Counts, CreditPath, ExponentialConfig, HopControlConfig,
    Judged, Kung94Config, LawConfig, MAX_N3, MIN_N3, MarutConfig, MiddleWindow, N23Config, Occupancy,
    WindowConfig,
};
use penstock_units::Duration;

const CELLS: Whole = Whole::cells(1, 100_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    Exponential,
    Kung94,
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct AdaptKeys("hop_control.adapt") {
        /// The rule for N3. With "exponential", N3 falls if cells wait long in the output buffer, and otherwise grows
        /// in steps. With "kung94", all circuits of a channel share a pool of cells, and N3 is a circuit's share.
        law: Law = Choice(&[("exponential", Law::Exponential), ("kung94", Law::Kung94)]), Is("exponential");
        /// The time between adjustments.
        interval: Duration = TIME, Is("100 ms");
        /// With true, the measured delay of a cell ends when the kernel sends the cell. With false, it ends when the
        /// kernel accepts the cell.
        kernel: bool = Flag, Is("false");
        /// For "exponential": a delay shows congestion if it is above the minimum delay plus this time. "auto" is 20
        /// ms.
        threshold: Option<Duration> = Or("auto", TIME_OR_ZERO), Is("auto");
        /// For "exponential": the delay that reduces N3 to 1/e. "auto" is 50 ms.
        scale: Option<Duration> = Or("auto", TIME), Is("auto");
        /// For "exponential": the number of cells by which N3 grows in an interval without congestion. "auto" is 1.
        step: Option<u32> = Or("auto", CELLS), Is("auto");
        /// For "kung94": the number of cells that all circuits of one outgoing channel share. "auto" is 2000.
        pool: Option<u32> = Or("auto", CELLS), Is("auto");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct N23Keys("n23") {
        /// N2: a node sends one credit after it has forwarded this many cells.
        n2: u32 = CELLS, Is("10");
        /// N3: a node may have N2 + N3 outstanding cells on a hop. If N3 is adapted, this is its first value, from 100
        /// to 500.
        n3: u32 = Whole::cells(0, 100_000), Is("500");
        /// The settings for adapting N3 to congestion, from 100 to 500 cells. With "none", N3 is constant.
        adapt: Option<AdaptKeys> = Or("none", in_table::<AdaptKeys>()), Is("none");
        /// The queue in which this node's credits wait. With "link", the node sends credits before the cells of any
        /// circuit. With "circuit", a credit waits behind the cells of its circuit that go in the same direction.
        credit_path: CreditPath = Choice(&[
            ("link", CreditPath::Link),
            ("circuit", CreditPath::Circuit),
        ]), Is("link");
        /// Whether the hop between a client and its guard also uses credits. Both nodes must have true for this.
        client_participates: bool = Flag, Is("true");
    }
}

// The slides leave all of these open but the names of the first two.
keys! {
    WindowConfig("backtap") {
        /// A window grows by one cell if fewer cells than this wait at the next node (alpha of nstor).
        alpha = CELLS, Is("3");
        /// A window shrinks by one cell if more cells than this wait at the next node (beta of nstor).
        beta = CELLS, Is("6");
        /// The first window.
        start = Whole::cells(1, 2000), Is("2");
        /// The window doubles in each round until more cells than this wait at the next node. CircuitStart uses 2. With
        /// "none", it grows by one cell per round from the start.
        slow_start = Or("none", CELLS), Is("none");
        /// The minimum number of round-trip samples in a round. nstor uses 3, and Marut's authors use 1.
        samples = Whole::from_1_to(1000), Is("3");
        /// If the node has a bandwidth_rate, limits each window to the cells that this rate sends in one round-trip
        /// time without queues.
        cap = Flag, Is("true");
    }
}

section! {
    /// The memory of a channel.
    #[derive(Clone, Debug)]
    pub(crate) struct MemoryKeys("") {
        /// The time after which the smallest measured round-trip time to a neighbour expires, in whole seconds. With
        /// "none", it never expires.
        base_memory: Option<Duration> = Or("none", TIME), Is("none");
    }
}

/// The keys of an algorithm with a window at each hop.
type WindowKeys = (WindowConfig, MemoryKeys);

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct BackTapKeys("backtap") {
        /// When a window changes. With "round", once in a round, by the smallest round-trip time of the round, as in
        /// nstor. With "report", at each report of forwarded cells, by the smallest round-trip time of the last round
        /// trip. Then slow_start must be "none", and samples has no effect.
        judged: Judged = Choice(&[("round", Judged::Round), ("report", Judged::Report)]), Is("round");
    }
}

/// Minimum interval between two changes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interval {
    Circuit,
    Hop,
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct MarutKeys("marut") {
        /// The outstanding cells that the first node's window counts. With "hop", the next node has not forwarded these
        /// cells. With "e2e", the last node has not forwarded them. All nodes of a path must have the same mode.
        mode: Counts = Choice(&[("hop", Counts::Hop), ("e2e", Counts::Path)]), Is("hop");
        /// The limit of outstanding cells at each middle node. "own" is a window as in BackTap. With "open", only the
        /// limit of the transport applies.
        middle: Option<Option<u32>> = Or("own", Or("open", Whole::cells(1, 2000))), Is("1024");
        /// The number of outstanding cells from which a node computes the congestion of its hop. "measured" is the
        /// largest number in the round. "window" is the node's window, which at a middle node is always start.
        occupancy: Occupancy = Choice(&[
            ("measured", Occupancy::Measured),
            ("window", Occupancy::Window),
        ]), Is("measured");
        /// The window changes at most once in a round-trip time of the circuit, or of the first hop.
        interval: Interval = Choice(&[("circuit", Interval::Circuit), ("hop", Interval::Hop)]), Is("circuit");
        /// In mode "hop", no node can measure the circuit's round-trip time. The estimate is this many times the
        /// round-trip time of the first hop.
        interval_hops: u32 = Whole::from_1_to(10), Is("3");
        /// A node rounds its own congestion down to a multiple of this. A larger value reveals less to an attacker.
        quantum: u32 = Whole { least: 1, most: 65535, unit: "1/64 cell" }, Is("1");
        /// The number of round-trip times of the circuit after which reported congestion fades. With "none", it never
        /// fades.
        memory: Option<u32> = Or("none", Whole { least: 1, most: 1000, unit: "round trip" }), Is("2");
        /// A middle node stops reporting forwarded cells while more cells than this wait in its queue.
        queue_cap: Option<u32> = Or("none", CELLS), Is("2000");
    }
}

const NEEDS_DATAGRAMS: PartnerInfo = PartnerInfo {
    key: "transport",
    not: "tcp",
    refused: true,
    why: "is for datagrams; set transport = \"datagram\" as well",
};

algorithm! {
    #[derive(Clone, Debug)]
    pub(crate) enum HopControl("HopControl", hop_control: HopControlConfig) {
        /// Hops have no windows or credits. Only the client and the exit limit a circuit's cells in flight.
        None("none"): NoKeys, "C tor", &[];
        /// A hop uses credits if both of its nodes have N23. No circuit queue holds more than N2 + N3 cells.
        N23("n23"): N23Keys,
            "DefenestraTor section 4.2 and figure 3; Kung, Blackwell, Chapman 1994", &[];
        /// Each circuit has a window at each hop over datagrams. The window depends on the number of cells that wait at
        /// the next node.
        BackTap("backtap"): (WindowKeys, BackTapKeys),
            "Tschorsch and Scheuermann 2016, by the slides of Ojha and Sharma 2018 and nstor", &[NEEDS_DATAGRAMS];
        /// A circuit over datagrams has a window at its first node. The hop with the longest queue determines this
        /// window.
        Marut("marut"): (WindowKeys, MarutKeys), "Ojha and Sharma 2018", &[NEEDS_DATAGRAMS];
    }
}

impl HopControl {
    pub(crate) fn base_memory(&self) -> Option<Duration> {
        match self {
            HopControl::None(_) | HopControl::N23(_) | HopControl::Plugin(_) => None,
            HopControl::BackTap(((_, memory), _)) | HopControl::Marut(((_, memory), _)) => memory.base_memory,
        }
    }

    /// The configuration of the core. `max_queue` limits a circuit queue. `n23_is_active`: whether the consensus
    /// activates N23.
    pub(crate) fn config<S>(
        &self,
        node: &Read<S>,
        max_queue: u32,
        n23_is_active: bool,
    ) -> Result<HopControlConfig, ConfigError> {
        Ok(match self {
            HopControl::None(_) => HopControlConfig::None,
            HopControl::N23(keys) => HopControlConfig::N23(n23(keys, node, max_queue, n23_is_active)?),
            HopControl::BackTap(((window, _), own)) => {
                HopControlConfig::BackTap(backtap(checked(*window, node)?, own, node)?)
            }
            HopControl::Marut(((window, _), own)) => {
                HopControlConfig::Marut(marut(checked(*window, node)?, own, node, max_queue)?)
            }
            HopControl::Plugin(chosen) => chosen.config(node, "hop_control")?,
        })
    }
}

fn checked<S>(config: WindowConfig, node: &Read<S>) -> Result<WindowConfig, ConfigError> {
    let WindowConfig { alpha, beta, .. } = config;
    if beta < alpha {
        let message = format!("{beta} is less than alpha, {alpha}; it must be at least as much");
        return Err(node.wrong("hop_control.beta", message));
    }
    Ok(config)
}

fn backtap<S>(window: WindowConfig, own: &BackTapKeys, node: &Read<S>) -> Result<BackTapConfig, ConfigError> {
    if own.judged == Judged::Report && window.slow_start.is_some() {
        let message =
            "doubles the window in each round, and judged = \"report\" has no rounds; leave one of them out";
        return Err(node.wrong("hop_control.slow_start", message));
    }
    Ok(BackTapConfig { window, judged: own.judged })
}

fn marut<S>(
    window: WindowConfig,
    own: &MarutKeys,
    node: &Read<S>,
    max_queue: u32,
) -> Result<MarutConfig, ConfigError> {
    if let Some(cap) = own.queue_cap.filter(|cap| *cap >= max_queue) {
        let message = format!(
            "{cap} cells never wait: a circuit is closed at max_circuit_queue, {max_queue}; it must be less"
        );
        return Err(node.wrong("hop_control.queue_cap", message));
    }
    Ok(MarutConfig {
        window,
        counts: own.mode,
        middle: match own.middle {
            None => MiddleWindow::Own,
            Some(None) => MiddleWindow::Open,
            Some(Some(cells)) => MiddleWindow::Fixed(cells),
        },
        occupancy: own.occupancy,
        interval: match own.interval {
            Interval::Circuit => ControlInterval::Circuit { hops: own.interval_hops },
            Interval::Hop => ControlInterval::Hop,
        },
        quantum: own.quantum as u16,
        memory: own.memory,
        queue_cap: own.queue_cap,
    })
}

fn n23<S>(keys: &N23Keys, node: &Read<S>, max_queue: u32, is_active: bool) -> Result<N23Config, ConfigError> {
    let wrong = |message| Err(node.wrong("hop_control.n3", message));
    let config = N23Config {
        n2: keys.n2,
        n3: keys.n3,
        adapt: keys.adapt.as_ref().map(|adapt_keys| adapt(adapt_keys, node)).transpose()?,
        credit_path: keys.credit_path,
        with_clients: keys.client_participates,
        active: is_active,
    };
    if config.adapt.is_some() && !(MIN_N3..=MAX_N3).contains(&config.n3) {
        return wrong(format!(
            "{} is the first value of an adaptive N3; it must be from {MIN_N3} to {MAX_N3} cells",
            config.n3
        ));
    }
    // With `credit_path = "circuit"`, the queue of the other direction also holds credits that the node sends back.
    let credits = if config.credit_path == CreditPath::Circuit { config.most() / config.n2 + 1 } else { 0 };
    let most = config.most() + credits;
    if most > max_queue {
        return wrong(format!(
            "a circuit's queue may hold {most} cells (N2, the greatest N3, and the credits in it), and the circuit is closed at max_circuit_queue, {max_queue}; that must be at least as many"
        ));
    }
    Ok(config)
}

fn adapt<S>(keys: &AdaptKeys, node: &Read<S>) -> Result<AdaptConfig, ConfigError> {
    let AdaptKeys { threshold, scale, step, pool, .. } = *keys;
    let (law, name, foreign) = match keys.law {
        Law::Exponential => {
            let default = ExponentialConfig::default();
            let law = LawConfig::Exponential(ExponentialConfig {
                threshold: threshold.unwrap_or(default.threshold),
                scale: scale.unwrap_or(default.scale),
                step: step.unwrap_or(default.step),
            });
            (law, "exponential", vec![("pool", pool.is_some())])
        }
        Law::Kung94 => {
            let law = LawConfig::Kung94(Kung94Config { pool: pool.unwrap_or(Kung94Config::default().pool) });
            let set =
                [("threshold", threshold.is_some()), ("scale", scale.is_some()), ("step", step.is_some())];
            (law, "kung94", set.to_vec())
        }
    };
    if let Some((key, _)) = foreign.into_iter().find(|(_, set)| *set) {
        let message = format!("the law {name:?} has no {key}; leave it out");
        return Err(node.wrong(&format!("hop_control.adapt.{key}"), message));
    }
    Ok(AdaptConfig { interval: keys.interval, kernel: keys.kernel, law })
}
