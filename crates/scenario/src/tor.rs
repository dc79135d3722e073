//! A node's Tor: the core's configuration from a resolved table.

use crate::build::View;
use crate::error::Mistake;
use crate::model::Phase;
use penstock_core::channel_map::ChannelMapConfig;
use penstock_core::circuit_policy::{CircuitPolicyConfig, EwmaConfig, PriorityClass, PriorityFactor};
use penstock_core::config::{Bandwidth, EdgeQueue, Limits, Refill, RelayConfig};
use penstock_core::edge_control::{Adjust, DynamicConfig, EdgeControlConfig, WindowsConfig};
use penstock_core::hop_control::HopControlConfig;
use penstock_core::scheduler::{
    GlobalConfig, GlobalLimitConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
    VanillaConfig,
};
use penstock_core::throttle::ThrottleConfig;
use penstock_units::{Duration, parse};

/// The configuration of a relay or an onion proxy.
pub(crate) fn config(view: View<'_>) -> Result<(RelayConfig, Phase), Mistake> {
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
    let config = RelayConfig {
        bandwidth: bandwidth(view, "bandwidth_rate", "bandwidth_burst", interval)?,
        per_connection: bandwidth(view, "connection_rate", "connection_burst", interval)?,
        refill: Refill { interval, phase: fixed },
        circuit_policy: circuit_policy(view),
        priority_factor: PriorityFactor(view.whole("priority_factor") as f64),
        priority_class: priority_class(view),
        scheduler: scheduler(view)?,
        edge_control: edge_control(view),
        hop_control: hop_control(view),
        throttle: throttle(view),
        channel_map: channel_map(view),
        edge_queue: edge_queue(view)?,
        optimistic_data: view.table.contains_key("optimistic_data") && view.flag("optimistic_data"),
        authenticated_sendmes: view.flag("authenticated_sendmes"),
        limits: Limits::default(),
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

/// The table of an algorithm, and its kind.
fn algorithm<'a>(view: View<'a>, key: &str, path: &'a str) -> (View<'a>, &'a str) {
    let table = view.table[key].table().expect("the schema lets only tables through here");
    let view = View { table, path };
    (view, view.text("kind"))
}

fn unknown(kind: &str) -> ! {
    unreachable!("the schema let the kind {kind:?} through")
}

pub(crate) fn circuit_policy(view: View<'_>) -> CircuitPolicyConfig {
    let (view, kind) = algorithm(view, "circuit_policy", "");
    match kind {
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
    }
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
    let (view, kind) = algorithm(view, "scheduler", &path);
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

fn edge_control(view: View<'_>) -> EdgeControlConfig {
    let (view, kind) = algorithm(view, "edge_control", "");
    match kind {
        "windows" => EdgeControlConfig::Windows(WindowsConfig {
            circuit_window: view.whole("circuit_window") as u32,
            stream_window: view.whole("stream_window") as u32,
            sendme_bug_101: view.flag("sendme_bug_101"),
            early_sendmes: view.whole("early_sendmes") as u32,
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
        kind => unknown(kind),
    }
}

fn hop_control(view: View<'_>) -> HopControlConfig {
    match algorithm(view, "hop_control", "").1 {
        "none" => HopControlConfig::None,
        kind => unknown(kind),
    }
}

fn throttle(view: View<'_>) -> ThrottleConfig {
    match algorithm(view, "throttle", "").1 {
        "none" => ThrottleConfig::None,
        kind => unknown(kind),
    }
}

fn channel_map(view: View<'_>) -> ChannelMapConfig {
    match algorithm(view, "channel_map", "").1 {
        "shared" => ChannelMapConfig::Shared,
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
