//! A node's Tor: the core's configuration from a resolved table.

use crate::build::View;
use crate::error::Mistake;
use crate::model::Phase;
use crate::partners;
use crate::tree::Table;
use penstock_core::channel_map::ChannelMapConfig;
use penstock_core::circuit_policy::{CircuitPolicyConfig, EwmaConfig, PriorityClass, PriorityFactor};
use penstock_core::config::{Bandwidth, EdgeQueue, IdleTimeouts, Limits, Refill, RelayConfig};
use penstock_core::datagram::DatagramConfig;
use penstock_core::edge_control::{
    Adjust, CwndBounds, DctcpConfig, DynamicConfig, EdgeControlConfig, Ends, TimelyConfig, VegasConfig,
    WindowsConfig, XonXoffConfig,
};
use penstock_core::hop_control::{
    AdaptConfig, ControlInterval, Counts, CreditPath, ExponentialConfig, HopControlConfig, Kung94Config,
    LawConfig, MAX_N3, MAX_WINDOW, MIN_N3, MarutConfig, MiddleWindow, N23Config, Occupancy, WindowConfig,
};
use penstock_core::scheduler::{
    GlobalConfig, GlobalLimitConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
    VanillaConfig,
};
use penstock_core::throttle::{
    Aggregate, BitSplittingConfig, ClientBuckets, Count, FlaggingConfig, Order, StaticRateConfig,
    ThresholdConfig, ThrottleConfig, Throughput, Unflag,
};
use penstock_units::{Duration, parse};
use std::num::NonZeroU8;

/// What the network's consensus says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consensus {
    /// Who knows N23 uses it.
    pub(crate) n23: bool,
}

impl Consensus {
    /// Of a filled-in file.
    pub(crate) fn of(root: &Table) -> Self {
        Consensus { n23: View::section(root, "network").flag("consensus_n23") }
    }
}

/// The configuration of a relay or an onion proxy.
pub(crate) fn config(view: View<'_>, consensus: Consensus) -> Result<(RelayConfig, Phase), Mistake> {
    let interval = view.span("refill");
    let phase = match view.span_unless("refill_phase", "random") {
        None => Phase::Random,
        Some(phase) if phase < interval => Phase::Fixed(phase),
        Some(_) => {
            let message = format!(
                "\"{}\" is not within a refill; it must be shorter than refill, \"{}\"",
                view.text("refill_phase"),
                view.text("refill")
            );
            return Err(view.wrong("refill_phase", message));
        }
    };
    let fixed = if let Phase::Fixed(phase) = phase { phase } else { Duration::ZERO };
    let unblock = view.span_unless("refill_unblock", "none");
    let longest = unblock.unwrap_or_default().max(interval);
    let (throttle, client_buckets) = throttle(view)?;
    let hop_control = hop_control(view, consensus)?;
    let datagrams = datagrams(view)?;
    if let (HopControlConfig::N23(n23), Some(_)) = (&hop_control, datagrams)
        && n23.most() > MAX_WINDOW
    {
        let message = format!(
            "{} cells, N2 and the greatest N3, are more than a hop of datagrams holds; it must be {MAX_WINDOW} at most",
            n23.most()
        );
        return Err(view.wrong("hop_control", message));
    }
    let config = RelayConfig {
        bandwidth: bandwidth(view, "bandwidth_rate", "bandwidth_burst", longest)?,
        refill: Refill { interval, phase: fixed, unblock },
        circuit_policy: circuit_policy(view)?,
        priority_factor: PriorityFactor(view.whole("priority_factor") as f64),
        priority_class: priority_class(view),
        scheduler: scheduler(view)?,
        edge_control: edge_control(view)?,
        hop_control,
        datagrams,
        throttle,
        client_buckets,
        channel_map: channel_map(view)?,
        ecn_threshold: view.whole_unless("mark_above", "none").map(|cells| cells as u32),
        edge_queue: edge_queue(view)?,
        optimistic_data: view.table.contains_key("optimistic_data") && view.flag("optimistic_data"),
        authenticated_sendmes: view.flag("authenticated_sendmes"),
        sendme_padding: 0,
        idle_timeouts: IdleTimeouts::default(),
        limits: Limits { max_circuit_queue: view.whole("circuit_queue_most") as u32, ..Limits::default() },
    };
    Ok((config, phase))
}

/// A bucket must hold what one refill brings, or its rate is not the one that is written.
fn bandwidth(
    view: View<'_>,
    rate: &str,
    burst: &str,
    refill: Duration,
) -> Result<Option<Bandwidth>, Mistake> {
    let given = view.size_unless(burst, "auto");
    let Some(of_rate) = view.rate_unless(rate, "none") else {
        return match given {
            None => Ok(None),
            Some(_) => Err(view.wrong(burst, format!("there is a burst but no rate; set {rate} too"))),
        };
    };
    let least = of_rate.bytes_in(refill);
    match given {
        Some(burst_size) if burst_size < least => {
            let message = format!(
                "\"{burst_size}\" is less than one refill brings: \"{of_rate}\" in \"{}\"; it must be at least \"{least}\"",
                parse::show_duration(refill)
            );
            Err(view.wrong(burst, message))
        }
        Some(burst) => Ok(Some(Bandwidth { rate: of_rate, burst })),
        None => {
            let burst = of_rate.bytes_in(Duration::from_secs(1)).max(least);
            Ok(Some(Bandwidth { rate: of_rate, burst }))
        }
    }
}

/// The table of an algorithm, and its kind, which goes with what else the node has.
fn algorithm<'a>(node: View<'a>, key: &str, path: &'a str) -> Result<(View<'a>, &'a str), Mistake> {
    let table = node.table[key].table().expect("the schema lets only tables through here");
    let view = View { table, path };
    let kind = view.text("kind");
    partners::refuse(node, key, view, kind)?;
    Ok((view, kind))
}

fn unknown(kind: &str) -> ! {
    unreachable!("the schema let the kind {kind:?} through")
}

fn circuit_policy(node: View<'_>) -> Result<CircuitPolicyConfig, Mistake> {
    let path = format!("{}.circuit_policy", node.path);
    let (view, kind) = algorithm(node, "circuit_policy", &path)?;
    Ok(match kind {
        "round-robin" => CircuitPolicyConfig::RoundRobin,
        "ewma" => {
            let config = EwmaConfig { half_life: view.span("half_life") };
            match view.text("form") {
                "list" => CircuitPolicyConfig::EwmaList(config),
                "heap" => CircuitPolicyConfig::EwmaHeap(config),
                "tick" => CircuitPolicyConfig::EwmaTick(config),
                form => unknown(form),
            }
        }
        kind => unknown(kind),
    })
}

/// Of a client; relays have no circuits of their own.
fn priority_class(view: View<'_>) -> PriorityClass {
    if !view.table.contains_key("priority_class") {
        return PriorityClass::default();
    }
    match view.text("priority_class") {
        "better" => PriorityClass::Better,
        "worse" => PriorityClass::Worse,
        class => unknown(class),
    }
}

fn scheduler(view: View<'_>) -> Result<SchedulerConfig, Mistake> {
    let path = format!("{}.scheduler", view.path);
    let (view, kind) = algorithm(view, "scheduler", &path)?;
    match kind {
        "vanilla" => {
            let config =
                VanillaConfig { outbuf_low: view.size("outbuf_low"), outbuf_high: view.size("outbuf_high") };
            if config.outbuf_low > config.outbuf_high {
                return Err(upside_down(view, "outbuf_low", "outbuf_high"));
            }
            Ok(SchedulerConfig::Vanilla(config))
        }
        "global" => Ok(SchedulerConfig::Global(GlobalConfig { interval: view.span("interval") })),
        "kist" => {
            let global_limit = global_limit(view)?;
            Ok(SchedulerConfig::Kist(KistConfig { interval: view.span("interval"), global_limit }))
        }
        "kist-deployed" => Ok(SchedulerConfig::KistDeployed(KistDeployedConfig {
            interval: view.span("interval"),
            ..KistDeployedConfig::default()
        })),
        "kist-lite" => Ok(SchedulerConfig::KistLite(KistLiteConfig { interval: view.span("interval") })),
        kind => unknown(kind),
    }
}

fn global_limit(view: View<'_>) -> Result<GlobalLimitConfig, Mistake> {
    let (known, fill) = (view.rate_unless("rate", "measured"), view.span_unless("fill", "auto"));
    let limit = match view.text("global_limit") {
        "rate" => {
            return Ok(GlobalLimitConfig::Rate { fill: fill.unwrap_or(view.span("interval")), known });
        }
        "drained" => GlobalLimitConfig::Drained,
        "off" => GlobalLimitConfig::Off,
        limit => unknown(limit),
    };
    let given = [("rate", known.is_some()), ("fill", fill.is_some())].into_iter().find(|(_, given)| *given);
    match given {
        Some((key, _)) => Err(view.wrong(
            key,
            format!(
                "global_limit is {:?} and has no bucket; {key} needs \"rate\"",
                view.text("global_limit")
            ),
        )),
        None => Ok(limit),
    }
}

fn edge_control(view: View<'_>) -> Result<EdgeControlConfig, Mistake> {
    let path = format!("{}.edge_control", view.path);
    let (view, kind) = algorithm(view, "edge_control", &path)?;
    Ok(match kind {
        "windows" => EdgeControlConfig::Windows(WindowsConfig {
            circuit_window: view.whole("circuit_window") as u32,
            stream_window: view.whole("stream_window") as u32,
            sendme_bug_101: view.flag("sendme_bug_101"),
            early_sendmes: view.whole("early_sendmes") as u32,
            ends: match view.text("ends") {
                "enforced" => Ends::Enforced,
                "ignored" => Ends::Ignored,
                "suppressed" => Ends::Suppressed,
                ends => unknown(ends),
            },
        }),
        "dynamic-windows" => EdgeControlConfig::Dynamic(DynamicConfig {
            windows: WindowsConfig {
                stream_window: view.whole("stream_window") as u32,
                sendme_bug_101: view.flag("sendme_bug_101"),
                ..WindowsConfig::default()
            },
            alpha: view.share("alpha"),
            adjust: match view.text("adjust") {
                "every-sendme" => Adjust::EverySendme,
                "once-per-rtt" => Adjust::OncePerRtt,
                adjust => unknown(adjust),
            },
            decay: view.share("decay"),
            peer_bug_101: view.flag("peer_bug_101"),
        }),
        "vegas" => EdgeControlConfig::Vegas(vegas(view)?),
        "dctcp" => EdgeControlConfig::Dctcp(dctcp(view)?),
        "timely" => EdgeControlConfig::Timely(timely(view)?),
        kind => unknown(kind),
    })
}

fn vegas(view: View<'_>) -> Result<VegasConfig, Mistake> {
    let version = match view.text("version") {
        "0.4.9" => VegasConfig::TOR_0_4_9,
        "0.4.7" => VegasConfig::TOR_0_4_7,
        version => unknown(version),
    };
    let whole = |key| view.whole(key) as u32;
    let of_version = |key, constant| view.whole_unless(key, "version").map_or(constant, |given| given as u32);
    let CwndBounds { sendme_inc, cwnd_init, cwnd_min, cwnd_max } = cwnd_bounds(view)?;
    Ok(VegasConfig {
        offered: true,
        sendme_inc,
        cwnd_init,
        cwnd_min,
        cwnd_max,
        cwnd_inc: whole("cwnd_inc"),
        cwnd_inc_rate: whole("cwnd_inc_rate"),
        cwnd_inc_pct_ss: whole("cwnd_inc_pct_ss"),
        sscap: of_version("sscap", version.sscap),
        ss_max: whole("ss_max"),
        alpha: of_version("alpha", version.alpha),
        beta: of_version("beta", version.beta),
        gamma: of_version("gamma", version.gamma),
        delta: of_version("delta", version.delta),
        ewma_cwnd_pct: whole("ewma_cwnd_pct"),
        ewma_max: whole("ewma_max"),
        ewma_ss: whole("ewma_ss"),
        rtt_reset_pct: whole("rtt_reset_pct"),
        cwnd_full_gap: of_version("cwnd_full_gap", version.cwnd_full_gap),
        cwnd_full_minpct: of_version("cwnd_full_minpct", version.cwnd_full_minpct),
        cwnd_full_per_cwnd: view.flag("cwnd_full_per_cwnd"),
        streams: XonXoffConfig {
            xoff: whole("xoff"),
            grace: view.span_unless("xoff_grace", "version").unwrap_or(version.streams.grace),
            xon_rate: whole("xon_rate"),
            xon_change_pct: whole("xon_change_pct"),
            xon_ewma_cnt: whole("xon_ewma_cnt"),
        },
        windows: fallback(view),
    })
}

/// A window's bounds, between which there is room for a SENDME.
fn cwnd_bounds(view: View<'_>) -> Result<CwndBounds, Mistake> {
    let (inc, most) = (view.whole("sendme_inc"), view.whole("cwnd_max"));
    for key in ["cwnd_init", "cwnd_min"] {
        let cells = view.whole(key);
        if cells < inc {
            let message = format!(
                "{cells} is less than sendme_inc, {inc}: no SENDME would ever come; it must be at least as many"
            );
            return Err(view.wrong(key, message));
        }
        if cells > most {
            let message = format!("{cells} is more than cwnd_max, {most}; it must be as many at most");
            return Err(view.wrong(key, message));
        }
    }
    let cells = |key| view.whole(key) as u32;
    Ok(CwndBounds {
        sendme_inc: u8::try_from(inc)
            .ok()
            .and_then(NonZeroU8::new)
            .expect("the schema lets 1 to 254 through"),
        cwnd_init: cells("cwnd_init"),
        cwnd_min: cells("cwnd_min"),
        cwnd_max: cells("cwnd_max"),
    })
}

/// The windows of circuits whose other end does not know the congestion control.
fn fallback(view: View<'_>) -> WindowsConfig {
    WindowsConfig {
        circuit_window: view.whole("circuit_window") as u32,
        stream_window: view.whole("stream_window") as u32,
        ..WindowsConfig::STOCK
    }
}

fn dctcp(view: View<'_>) -> Result<DctcpConfig, Mistake> {
    let (bounds, windows) = (cwnd_bounds(view)?, fallback(view));
    Ok(DctcpConfig { bounds, g: view.share("g"), windows, ..DctcpConfig::default() })
}

fn timely(view: View<'_>) -> Result<TimelyConfig, Mistake> {
    let (t_low, t_high) = (view.span("t_low"), view.span("t_high"));
    if t_low >= t_high {
        return Err(upside_down(view, "t_low", "t_high"));
    }
    Ok(TimelyConfig {
        bounds: cwnd_bounds(view)?,
        t_low,
        t_high,
        delta: view.rate("delta"),
        beta: view.share("beta"),
        alpha: view.share("alpha"),
        windows: fallback(view),
        ..TimelyConfig::default()
    })
}

fn hop_control(node: View<'_>, consensus: Consensus) -> Result<HopControlConfig, Mistake> {
    let path = format!("{}.hop_control", node.path);
    let (view, kind) = algorithm(node, "hop_control", &path)?;
    match kind {
        "none" => Ok(HopControlConfig::None),
        "n23" => n23(view, node.whole("circuit_queue_most") as u32, consensus).map(HopControlConfig::N23),
        "backtap" => window(view).map(HopControlConfig::BackTap),
        "marut" => marut(view, node).map(HopControlConfig::Marut),
        kind => unknown(kind),
    }
}

/// Channels of datagrams, if this node has them.
fn datagrams(node: View<'_>) -> Result<Option<DatagramConfig>, Mistake> {
    let path = format!("{}.hop_control", node.path);
    let (view, _) = algorithm(node, "hop_control", &path)?;
    if node.text("transport") == "tcp" {
        return Ok(None);
    }
    let has_memory = view.table.contains_key("base_memory");
    let memory = if has_memory { view.span_unless("base_memory", "none") } else { None };
    Ok(Some(DatagramConfig {
        coalesce_delay: node.span("datagram_hold"),
        min_timeout: node.span("datagram_timeout"),
        base_memory: memory.map(|memory| memory.as_secs().max(1)),
    }))
}

fn window(view: View<'_>) -> Result<WindowConfig, Mistake> {
    let cells = |key| view.whole(key) as u32;
    let config = WindowConfig {
        alpha: cells("alpha"),
        beta: cells("beta"),
        start: cells("start"),
        slow_start: view.whole_unless("slow_start", "none").map(|cells| cells as u32),
        samples: cells("samples"),
        cap: view.flag("cap"),
    };
    if config.beta < config.alpha {
        let message =
            format!("{} is less than alpha, {}; it must be as much at least", config.beta, config.alpha);
        return Err(view.wrong("beta", message));
    }
    Ok(config)
}

fn marut(view: View<'_>, node: View<'_>) -> Result<MarutConfig, Mistake> {
    let queue_most = node.whole("circuit_queue_most");
    let queue_cap = view.whole_unless("queue_cap", "none");
    if let Some(cap) = queue_cap.filter(|cap| *cap >= queue_most) {
        let message = format!(
            "{cap} cells never wait: a circuit is closed at circuit_queue_most, {queue_most}; it must be less"
        );
        return Err(view.wrong("queue_cap", message));
    }
    Ok(MarutConfig {
        window: window(view)?,
        counts: match view.text("mode") {
            "hop" => Counts::Hop,
            "e2e" => Counts::Path,
            mode => unknown(mode),
        },
        middle: match view.table["middle"].as_text() {
            Some("own") => MiddleWindow::Own,
            Some(_) => MiddleWindow::Open,
            None => MiddleWindow::Fixed(view.whole("middle") as u32),
        },
        occupancy: match view.text("occupancy") {
            "measured" => Occupancy::Measured,
            "window" => Occupancy::Window,
            occupancy => unknown(occupancy),
        },
        interval: match view.text("interval") {
            "circuit" => ControlInterval::Circuit { hops: view.whole("interval_hops") as u32 },
            "hop" => ControlInterval::Hop,
            interval => unknown(interval),
        },
        quantum: view.whole("quantum") as u16,
        memory: view.whole_unless("memory", "none").map(|trips| trips as u32),
        queue_cap: queue_cap.map(|cells| cells as u32),
    })
}

fn n23(view: View<'_>, queue_most: u32, consensus: Consensus) -> Result<N23Config, Mistake> {
    let config = N23Config {
        n2: view.whole("n2") as u32,
        n3: view.whole("n3") as u32,
        adapt: adapt(view)?,
        credit_path: match view.text("credit_path") {
            "link" => CreditPath::Link,
            "circuit" => CreditPath::Circuit,
            path => unknown(path),
        },
        with_clients: view.flag("client_participates"),
        active: consensus.n23,
    };
    if config.adapt.is_some() && !(MIN_N3..=MAX_N3).contains(&config.n3) {
        let message = format!(
            "{} is what an adaptive N3 starts at; it must be from {MIN_N3} to {MAX_N3} cells",
            config.n3
        );
        return Err(view.wrong("n3", message));
    }
    // In a queue of the other direction wait as many credits as a node can owe.
    let credits = if config.credit_path == CreditPath::Circuit { config.most() / config.n2 + 1 } else { 0 };
    if config.most() + credits > queue_most {
        let message = format!(
            "a circuit's queue may hold {} cells, N2 and the greatest N3 and credits that travel in it, and is closed at \
             circuit_queue_most, {queue_most}; that must be as many at least",
            config.most() + credits
        );
        return Err(view.wrong("n3", message));
    }
    Ok(config)
}

/// How N3 adapts, if it does.
fn adapt(view: View<'_>) -> Result<Option<AdaptConfig>, Mistake> {
    let Some(table) = view.table["adapt"].table() else { return Ok(None) };
    let path = format!("{}.adapt", view.path);
    let view = View { table, path: &path };
    let threshold = view.span_unless("threshold", "auto");
    let scale = view.span_unless("scale", "auto");
    let step = view.whole_unless("step", "auto").map(|step| step as u32);
    let pool = view.whole_unless("pool", "auto").map(|pool| pool as u32);
    let (law, foreign) = match view.text("law") {
        "exponential" => {
            let default = ExponentialConfig::default();
            let law = ExponentialConfig {
                threshold: threshold.unwrap_or(default.threshold),
                scale: scale.unwrap_or(default.scale),
                step: step.unwrap_or(default.step),
            };
            (LawConfig::Exponential(law), vec![("pool", pool.is_some())])
        }
        "kung94" => {
            let law = Kung94Config { pool: pool.unwrap_or(Kung94Config::default().pool) };
            let foreign =
                [("threshold", threshold.is_some()), ("scale", scale.is_some()), ("step", step.is_some())];
            (LawConfig::Kung94(law), foreign.to_vec())
        }
        law => unknown(law),
    };
    if let Some((key, _)) = foreign.into_iter().find(|(_, given)| *given) {
        let message = format!("the law {:?} has no {key}; leave it out", view.text("law"));
        return Err(view.wrong(key, message));
    }
    Ok(Some(AdaptConfig { interval: view.span("interval"), kernel: view.flag("kernel"), law }))
}

/// A throttle, and the buckets of those whom it throttles.
fn throttle(node: View<'_>) -> Result<(ThrottleConfig, ClientBuckets), Mistake> {
    let path = format!("{}.throttle", node.path);
    let (view, kind) = algorithm(node, "throttle", &path)?;
    let config = match kind {
        "none" => return Ok((ThrottleConfig::None, ClientBuckets::default())),
        "static" => ThrottleConfig::Static(StaticRateConfig { rate: view.rate("rate") }),
        "bit-splitting" => ThrottleConfig::BitSplitting(BitSplittingConfig { count: counted(view) }),
        "flagging" => ThrottleConfig::Flagging(FlaggingConfig {
            rate: view.rate("rate"),
            penalty: view.share("penalty"),
            half_life: view.span("half_life"),
            unflag: match view.text("unflag") {
                "current" => Unflag::Current,
                "frozen" => Unflag::Frozen,
                unflag => unknown(unflag),
            },
            count: counted(view),
        }),
        "threshold" => ThrottleConfig::Threshold(ThresholdConfig {
            fraction: view.share("fraction"),
            refresh: view.span("refresh"),
            floor: view.rate("floor"),
            half_life: view.span("half_life"),
            throughput: match view.text("throughput") {
                "mean" => Throughput::Mean,
                "written" => Throughput::Written,
                throughput => unknown(throughput),
            },
            order: match view.text("order") {
                "descending" => Order::Descending,
                "ascending" => Order::Ascending,
                order => unknown(order),
            },
            lift_zero: view.flag("lift_zero"),
        }),
        kind => unknown(kind),
    };
    holds_a_refill(node, view)?;
    if kind == "threshold" && view.span("refresh") < node.span("refill") {
        let message = "clients are chosen at refills, so it must be at least as long as refill".to_owned();
        return Err(view.wrong("refresh", message));
    }
    let aggregate = match view.text("aggregate") {
        "connection" => Aggregate::Connection,
        "address" => Aggregate::Address,
        aggregate => unknown(aggregate),
    };
    Ok((config, ClientBuckets { burst: view.size("burst"), aggregate }))
}

/// As for [`bandwidth`], for the rates that are known.
fn holds_a_refill(node: View<'_>, view: View<'_>) -> Result<(), Mistake> {
    let refill = node.span_unless("refill_unblock", "none").unwrap_or_default().max(node.span("refill"));
    let burst = view.size("burst");
    let key = ["rate", "floor"].into_iter().find(|key| view.table.contains_key(*key));
    let Some(rate) = key.map(|key| view.rate(key)).filter(|rate| rate.bytes_in(refill) > burst) else {
        return Ok(());
    };
    let message = format!(
        "\"{burst}\" is less than one refill brings: \"{rate}\" in \"{}\"; it must be at least \"{}\"",
        parse::show_duration(refill),
        rate.bytes_in(refill)
    );
    Err(view.wrong("burst", message))
}

fn counted(view: View<'_>) -> Count {
    match view.text("count") {
        "all" => Count::All,
        "clients" => Count::Clients,
        count => unknown(count),
    }
}

fn channel_map(node: View<'_>) -> Result<ChannelMapConfig, Mistake> {
    let path = format!("{}.channel_map", node.path);
    match algorithm(node, "channel_map", &path)?.1 {
        "shared" => Ok(ChannelMapConfig::Shared),
        "per-circuit" => Ok(ChannelMapConfig::PerCircuit),
        kind => unknown(kind),
    }
}

fn edge_queue(view: View<'_>) -> Result<EdgeQueue, Mistake> {
    let queue =
        EdgeQueue { low: view.whole("edge_queue_low") as u32, high: view.whole("edge_queue_high") as u32 };
    if queue.low >= queue.high {
        return Err(upside_down(view, "edge_queue_low", "edge_queue_high"));
    }
    Ok(queue)
}

/// A low mark above its high one, told of the one that somebody wrote.
fn upside_down(view: View<'_>, low: &str, high: &str) -> Mistake {
    let show = |key: &str| crate::print::value(&view.table[key]);
    let message = format!(
        "{low} is {} and {high} is {}; the low mark must be below the high one",
        show(low),
        show(high)
    );
    view.wrong(if view.table[low].is_written() { low } else { high }, message)
}
