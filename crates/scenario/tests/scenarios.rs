//! The contents of valid scenarios, and the shipped scenarios.

use penstock_core::circuit_policy::{CircuitPolicyConfig, EwmaConfig, PriorityClass};
use penstock_core::config::{Bandwidth, EdgeQueue, Limits, Refill, RelayConfig};
use penstock_core::conflux::ConfluxConfig;
use penstock_core::edge_control::{
    CwndBounds, DctcpConfig, EdgeControlConfig, Ends, TimelyConfig, VegasConfig,
};
use penstock_core::hop_control::{
    AdaptConfig, CreditPath, ExponentialConfig, HopControlConfig, Kung94Config, LawConfig, N23Config,
};
use penstock_core::scheduler::{
    GlobalConfig, GlobalLimitConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
};
use penstock_scenario::markov::Walk;
use penstock_scenario::model::{
    self, Activity, Amount, Host, LinkQueue, Path, Phase, Place, Scenario, Span, Switch, TorNode, Workload,
};
use penstock_scenario::{Document, Point};
use penstock_units::{Bytes, DataRate, Duration, Seed};

fn shipped(name: &str) -> Document {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Document::parse(&text, &path, &[]).unwrap_or_else(|error| panic!("{error}"))
}

const SHIPPED: &[&str] = &[
    "quickstart",
    "defenestrator/bottleneck",
    "defenestrator/non-bottleneck",
    "defenestrator/calibration",
    "defenestrator/selfish",
    "defenestrator/selfish-fast",
    "kist/tcp-loss",
    "kist/cubic-sawtooth",
    "kist/cubic-window",
    "kist/socket-sharing",
    "kist/stations",
    "kist/interval",
    "kist/loss",
    "kist/vegas",
    "defenestrator/ewma",
    "defenestrator/n23-bottleneck",
    "defenestrator/n23-non-bottleneck",
    "defenestrator/n23-ewma",
    "defenestrator/larger",
    "ewma/bulk-and-small",
    "ewma/bulk",
    "ewma/cpu",
    "ewma/cpu-crowd",
    "ewma/flush",
    "ewma/half-life",
    "ewma/half-life-load",
    "ewma/idle-connections",
    "ewma/many-circuits",
    "ewma/outbuf",
    "marut/comparators",
    "marut/smoke",
];

const SMALL: &str = r#"
    [scenario]
    title = "small"
    [run]
    duration = "1 min"
    [relays.a]
    [relays.b]
    [relays.c]
    [servers.s]
    [workloads.web]
    size = "uniform(100 KiB, 500 KiB)"
    [clients.web]
    workload = "web"
"#;

fn small(more: &str, sets: &[&str]) -> Scenario {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let document = Document::parse(&format!("{SMALL}{more}"), "small.toml", &sets);
    document.unwrap_or_else(|error| panic!("{error}")).scenario("default").unwrap().clone()
}

fn size(workload: &Workload) -> Amount {
    match &workload.does {
        Activity::Download(size) => size.clone(),
        _ => panic!("{workload:?} does not download"),
    }
}

fn circuit_window(config: &RelayConfig) -> u32 {
    match config.edge_control {
        EdgeControlConfig::Windows(windows) => windows.circuit_window,
        ref other => panic!("{other:?} has other windows"),
    }
}

/// KIST, section 3: two nodes, one file of 100 MiB, no Tor.
#[test]
fn the_head_alone_is_that_of_the_whole_document() {
    for name in SHIPPED {
        let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Document::head_of(&text, &path).unwrap(), *shipped(name).head(), "{name}");
    }
    let error = Document::head_of("[scenario]\ntitle = 3\n", "one.toml").unwrap_err();
    assert!(error.to_string().starts_with("one.toml:2: scenario.title: "), "{error}");
}

#[test]
fn the_scenarios_of_plain_tcp_match_kists_figures_2a_and_2b() {
    let loss = shipped("kist/tcp-loss");
    // 0 to 10 %, then 1 and 2 % with the TCP of Linux 6, and four with Shadow's.
    let losses = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 1.0, 2.0, 1.0, 2.5, 5.0, 10.0];
    assert_eq!((loss.seeds().len(), loss.variants().len()), (10, losses.len()));
    let window = shipped("kist/cubic-window");
    for (document, link) in [(&loss, DataRate::mib(10)), (&window, DataRate::new(12_500_000).unwrap())] {
        for (variant, percent) in document.variants().iter().zip(losses) {
            let scenario = document.scenario(&variant.name).unwrap();
            assert!(scenario.relays.is_empty());
            let [client] = &scenario.clients[..] else { panic!("one client") };
            assert_eq!((&client.group.path, client.host.link_down), (&Path::Direct, link));
            assert_eq!(size(&scenario.workloads[0]), Amount::Fixed(Bytes::mib(100)));
            // The paper gives no round trip for figure 2b, and "lan" is our reading of its two machines.
            let rtt = if &*variant.name == "lan" { 1 } else { 10 };
            assert_eq!(scenario.network.default.rtt, Duration::from_millis(rtt));
            if link == DataRate::mib(10) {
                assert_eq!(scenario.network.default.loss, percent / 100.0);
            }
        }
    }
}

#[test]
fn the_shipped_scenarios_match_figure_4() {
    for (name, middle) in [
        ("quickstart", Some(DataRate::kib(128))),
        ("defenestrator/bottleneck", Some(DataRate::kib(128))),
        ("defenestrator/non-bottleneck", None),
    ] {
        let document = shipped(name);
        let names: Vec<&str> = document.variants().iter().map(|variant| variant.name.as_str()).collect();
        let dynamic = ["dynamic", "dynamic-per-rtt"];
        let expected = if name == "quickstart" { vec![] } else { dynamic.to_vec() };
        assert_eq!(names, [&["stock", "50KiB"], expected.as_slice()].concat());
        for (variant, window) in [("stock", 1000), ("50KiB", 100)] {
            let scenario = document.scenario(variant).unwrap();
            let rate =
                |relay: &penstock_scenario::model::Relay| relay.config.bandwidth.map(|limit| limit.rate);
            let rates: Vec<_> =
                scenario.relays.iter().map(|relay| (&*relay.host.name, rate(relay))).collect();
            assert_eq!(rates, [("entry", None), ("exit", None), ("middle", middle)]);
            assert!(scenario.relays.iter().all(|relay| relay.host.link_up == DataRate::mib(10)));
            assert!(scenario.relays.iter().all(|relay| circuit_window(&relay.config) == window));
            assert!(scenario.clients.iter().all(|client| client.group.path == Path::Fixed(vec![0, 2, 1])));
            let sizes: Vec<_> =
                scenario.workloads.iter().map(|workload| (workload.name.as_str(), size(workload))).collect();
            assert_eq!(
                sizes,
                [("bulk", Amount::Fixed(Bytes::mib(5))), ("web", Amount::Fixed(Bytes::kib(300)))]
            );
            let pause = Span::Uniform(Duration::from_secs(1), Duration::from_secs(3));
            assert!(scenario.workloads.iter().all(|workload| workload.pause == pause));
            assert_eq!(scenario.network.default.rtt, Duration::from_millis(80));
        }
    }
    assert_eq!(shipped("defenestrator/bottleneck").seeds(), [1, 2, 3, 4, 5]);
}

fn half_life(scenario: &Scenario, relay: &str) -> Option<Duration> {
    let relay = scenario.relays.iter().find(|each| *each.host.name == *relay).unwrap();
    match relay.config.circuit_policy {
        CircuitPolicyConfig::EwmaList(ewma)
        | CircuitPolicyConfig::EwmaHeap(ewma)
        | CircuitPolicyConfig::EwmaTick(ewma) => Some(ewma.half_life),
        CircuitPolicyConfig::EwmaConnection(connections) => Some(connections.half_life),
        CircuitPolicyConfig::RoundRobin | CircuitPolicyConfig::Custom(_) => None,
    }
}

#[test]
fn dynamic_variants_adjust_at_every_sendme_or_once_per_rtt() {
    for name in ["defenestrator/bottleneck", "defenestrator/non-bottleneck"] {
        let document = shipped(name);
        for (variant, adjust) in [("dynamic", "every-sendme"), ("dynamic-per-rtt", "once-per-rtt")] {
            let scenario = document.scenario(variant).unwrap();
            let dynamic = |config: &RelayConfig| matches!(config.edge_control, EdgeControlConfig::Dynamic(_));
            assert!(scenario.relays.iter().all(|relay| dynamic(&relay.config)));
            assert!(document.resolved_toml(variant).unwrap().contains(&format!("adjust = \"{adjust}\"")));
        }
    }
}

#[test]
fn ewma_is_on_where_a_variant_sets_it() {
    let seconds = |s| Some(Duration::from_secs(s));
    let relays = ["entry", "middle", "exit"];
    for (name, variant, expected) in [
        ("defenestrator/ewma", "50KiB", [None, None, None]),
        ("defenestrator/ewma", "50KiB-ewma", [seconds(30), seconds(30), seconds(30)]),
        ("ewma/bulk-and-small", "off", [None, None, None]),
        ("ewma/bulk-and-small", "all", [seconds(66), seconds(66), seconds(66)]),
        ("ewma/bulk-and-small", "entry", [seconds(66), None, None]),
        ("ewma/bulk-and-small", "middle", [None, seconds(66), None]),
        ("ewma/bulk-and-small", "exit", [None, None, seconds(66)]),
        ("ewma/half-life", "1.5s", [None, Some(Duration::from_millis(1500)), None]),
        ("ewma/half-life-load", "39-300-30s", [None, seconds(30), None]),
        ("ewma/flush", "queue", [seconds(66), seconds(66), seconds(66)]),
    ] {
        let document = shipped(name);
        let scenario = document.scenario(variant).unwrap();
        assert_eq!(relays.map(|relay| half_life(scenario, relay)), expected, "{name} {variant}");
    }
    let swept = shipped("ewma/half-life");
    let names: Vec<&str> = swept.variants().iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["off", "1.5s", "3s", "4.5s", "10s", "20s", "33s", "66s", "99s"]);
}

/// The scheduler of each relay, for each value of the key.
#[test]
fn the_scheduler_key_selects_the_scheduler() {
    let of = |value: &str| {
        let set = format!("relays.a.scheduler={value}");
        format!("{:?}", small("", &[&set]).relays[0].config.scheduler)
    };
    for (value, expected) in [
        ("'global'", SchedulerConfig::Global(GlobalConfig::default())),
        ("'kist'", SchedulerConfig::Kist(KistConfig::default())),
        ("'kist-deployed'", SchedulerConfig::KistDeployed(KistDeployedConfig::default())),
        ("'kist-lite'", SchedulerConfig::KistLite(KistLiteConfig::default())),
    ] {
        assert_eq!(of(value), format!("{expected:?}"), "{value}");
    }
    let (interval, known) = (Duration::from_millis(2), Some(DataRate::mib(3)));
    let kist = |global_limit| {
        format!("{:?}", SchedulerConfig::Kist(KistConfig { interval, global_limit, ..KistConfig::default() }))
    };
    let of_kist = |more: &str| of(&format!("{{ kind = 'kist', interval = '2 ms', {more} }}"));
    assert_eq!(of_kist("global_limit = 'off'"), kist(GlobalLimitConfig::Off));
    assert_eq!(of_kist("global_limit = 'measured'"), kist(GlobalLimitConfig::Measured));
    let rate = |fill, known| kist(GlobalLimitConfig::Rate { fill, known });
    assert_eq!(of_kist("global_limit = 'rate'"), rate(interval, None));
    assert_eq!(
        of_kist("global_limit = 'rate', rate = '3 MiB/s', fill = '40 ms'"),
        rate(Duration::from_millis(40), known)
    );
    let deployed =
        SchedulerConfig::KistDeployed(KistDeployedConfig { interval, ..KistDeployedConfig::default() });
    assert_eq!(of("{ kind = 'kist-deployed', interval = '2 ms' }"), format!("{deployed:?}"));
}

#[test]
fn a_client_sets_its_class_and_a_relay_the_factor() {
    let scenario = small("", &["client.priority_class=worse", "relays.a.priority_factor=50"]);
    assert_eq!(scenario.clients[0].group.config.priority_class, PriorityClass::Worse);
    let factors: Vec<f64> = scenario.relays.iter().map(|relay| relay.config.priority_factor.0).collect();
    assert_eq!(factors, [50.0, 10.0, 10.0]);
}

#[test]
fn variants_differ_only_in_their_sets() {
    let document = shipped("defenestrator/bottleneck");
    let [stock, small] = ["stock", "50KiB"].map(|variant| document.resolved_toml(variant).unwrap());
    let different: Vec<_> = stock.lines().zip(small.lines()).filter(|(one, other)| one != other).collect();
    assert_eq!(stock.lines().count(), small.lines().count());
    assert_eq!(different.len(), 1, "{different:?}");
    assert!(
        different[0].0.contains("circuit_window = 1000") && different[0].1.contains("circuit_window = 100,")
    );
}

const CHANGES: &str = r#"
    [relays.g]
    count = 2
    circuit_policy = { kind = "ewma", form = "list" }
    [[changes]]
    at = "10 s"
    set = { "relays.b.circuit_policy" = { kind = "ewma", half_life = "20 s" } }
    [[changes]]
    at = "20 s"
    set = { relay.circuit_policy = "ewma", "relays.b.circuit_policy.half_life" = "5 s" }
    [[changes]]
    at = "20 s"
    set = { "relays.g.circuit_policy.half_life" = "1 s" }
"#;

/// Overrides apply as in a variant's `set`: `[relay]` below `[relays.NAME]`, and each change over
/// the earlier ones.
#[test]
fn changes_apply_in_order_over_the_settings_of_relays() {
    let scenario = small(CHANGES, &[]);
    let said: Vec<String> = scenario
        .changes
        .iter()
        .map(|change| {
            let TorNode::Relay(relay) = change.node else { panic!("{change:?}") };
            let name = &scenario.relays[relay].host.name;
            let (form, ewma) = match &change.to {
                Switch::CircuitPolicy(CircuitPolicyConfig::EwmaHeap(ewma)) => ("heap", ewma),
                Switch::CircuitPolicy(CircuitPolicyConfig::EwmaList(ewma)) => ("list", ewma),
                other => panic!("{other:?}"),
            };
            format!("{:?} {name} {form} {:?}", change.at, ewma.half_life)
        })
        .collect();
    assert_eq!(
        said,
        [
            "10s b heap 20s",
            "20s a heap 30s",
            "20s b heap 5s",
            "20s c heap 30s",
            "20s g0001 list 1s",
            "20s g0002 list 1s",
        ]
    );
    let text = Document::parse(&format!("{SMALL}{CHANGES}"), "x.toml", &[]).unwrap().describe();
    assert!(
        text.contains("  from \"20 s\" on: { \"relays.g.circuit_policy.half_life\" = \"1 s\" }\n"),
        "{text}"
    );
}

const THROTTLES: &str = r#"
    [relay]
    bandwidth_rate = "200 KiB/s"
    throttle = { kind = "static", rate = "5 KiB/s" }
    [client]
    channel_map = "per-circuit"
    [relays.split]
    throttle = "bit-splitting"
    [relays.f]
    throttle = { kind = "flagging", rate = "7 KiB/s", penalty = 0.25, half_life = "9 s", unflag = "frozen", count = "clients", burst = "1 MiB" }
    [relays.t]
    throttle = { kind = "threshold", fraction = 0.2, refresh = "30 s", floor = "3 KiB/s", throughput = "written", order = "ascending", lift_zero = false, aggregate = "address" }
    [[changes]]
    at = "10 s"
    set = { "relays.a.throttle" = "none", "relays.f.throttle.count" = "all" }
"#;

#[test]
fn a_think_time_can_be_log_normal() {
    let more = "[workloads.x]\nsize = '1 KiB'\npause = ' lognormal( 10 s,1,120 s) '\n";
    let scenario = small(more, &[]);
    let pause = &scenario.workloads[1].pause;
    assert_eq!(*pause, Span::LogNormal(Duration::from_secs(10), 1.0, Duration::from_secs(120)));
    let mut rng = Seed(3).stream("x/pause");
    let mut draws: Vec<f64> = (0..20_000).map(|_| pause.draw(&mut rng).as_secs_f64()).collect();
    draws.sort_by(f64::total_cmp);
    let quantile = |q: f64| draws[(q * 20_000.0) as usize];
    assert!((quantile(0.5) / 10.0 - 1.0).abs() < 0.04, "{}", quantile(0.5));
    // e^1.2816 times the median.
    assert!((quantile(0.9) / 36.02 - 1.0).abs() < 0.05, "{}", quantile(0.9));
    assert_eq!(draws.last(), Some(&120.0));
    // The mean of the whole distribution is 16.49 s. The maximum lowers it slightly.
    assert!((pause.mean().as_secs_f64() - 16.131).abs() < 0.001);
}

/// `penstock check` computes with the mean of the sampled values, whatever part the maximum cuts
/// off.
#[test]
fn the_mean_of_a_log_normal_includes_its_maximum() {
    for (median, sigma, most) in
        [(10, 1.0, 120), (10, 2.0, 30), (10, 0.5, 10), (1, 3.0, 100_000), (7, 0.0, 9)]
    {
        let span = Span::LogNormal(Duration::from_secs(median), sigma, Duration::from_secs(most));
        let mut rng = Seed(5).stream("x/pause");
        let drawn: f64 = (0..100_000).map(|_| span.draw(&mut rng).as_secs_f64()).sum();
        let ratio = span.mean().as_secs_f64() / (drawn / 100_000.0);
        // A large deviation needs more samples for an equally precise mean.
        let off = if sigma > 2.0 { 0.15 } else { 0.01 };
        assert!((ratio - 1.0).abs() < off, "{sigma} {most}: {ratio}");
    }
    let seconds =
        |sigma: f64, most| Span::LogNormal(Duration::from_secs(1), sigma, Duration::from_secs(most));
    assert_eq!(seconds(0.0, 5).mean(), Duration::from_secs(1));
    // Half of all values are the maximum, and nearly all others are zero.
    assert!((seconds(10.0, 1).mean().as_secs_f64() - 0.54).abs() < 0.01);
}

#[test]
fn a_think_time_can_be_empirical_or_a_preset() {
    let more = "[workloads.x]\nsize = '1 KiB'\npause = 'quantiles(1 s,2 s, 10 s)'\nstart = ' unc '\n";
    let scenario = small(more, &[]);
    let Workload { pause, start, .. } = &scenario.workloads[1];
    let mut rng = Seed(3).stream("x/pause");
    let mut draws: Vec<f64> = (0..20_000).map(|_| pause.draw(&mut rng).as_secs_f64()).collect();
    draws.sort_by(f64::total_cmp);
    let quantile = |q: f64| draws[(q * 20_000.0) as usize];
    // One quarter, one half and three quarters: linear between two values.
    for (q, value) in [(0.25, 1.5), (0.5, 2.0), (0.75, 6.0)] {
        assert!((quantile(q) / value - 1.0).abs() < 0.03, "{q}: {}", quantile(q));
    }
    assert_eq!(pause.mean(), Duration::from_millis(3750));
    assert_eq!(*start, Span::LogNormal(Duration::from_secs(10), 1.0, Duration::from_secs(120)));
    let text = Document::parse(&format!("{SMALL}{more}"), "x.toml", &[]).unwrap().describe();
    assert!(text.contains("pauses quantiles(1 s, 2 s, 10 s)"), "{text}");
}

#[test]
fn sizes_can_be_empirical_or_mixed() {
    let more = "[workloads.x]\nsize = 'quantiles(1 KiB, 3 KiB)'\n[workloads.y]\nsize = 'mix(7: 50 KiB,2: 1 MiB, 1 : 5 MiB)'\n";
    let scenario = small(more, &[]);
    let [x, y] = [1, 2].map(|index| size(&scenario.workloads[index]));
    let mut rng = Seed(3).stream("x/size");
    let draws: Vec<u64> = (0..10_000).map(|_| x.draw(&mut rng).get()).collect();
    assert!(draws.iter().all(|size| (1024..3072).contains(size)));
    assert_eq!(x.mean(), Bytes::kib(2));
    let draws: Vec<Bytes> = (0..20_000).map(|_| y.draw(&mut rng)).collect();
    let share = |size| draws.iter().filter(|drawn| **drawn == size).count() as f64 / 20_000.0;
    for (size, expected) in [(Bytes::kib(50), 0.7), (Bytes::mib(1), 0.2), (Bytes::mib(5), 0.1)] {
        assert!((share(size) - expected).abs() < 0.012, "{size}: {}", share(size));
    }
    assert_eq!(y.mean().get(), (35.0 * 1024.0 + 0.7 * 1_048_576.0) as u64);
    let text = Document::parse(&format!("{SMALL}{more}"), "x.toml", &[]).unwrap().describe();
    assert!(text.contains("downloads mix("), "{text}");
}

const MARKOV: &str = r#"
    [workloads.x]
    pause = "5 s"
    [workloads.x.tgen.streams]
    transitions = ["start -> s: 1", "s -> s: 1"]
    emissions = ["s -> +: 0.8 after exponential(2 s)", "s -> F: 0.2"]
    [workloads.x.tgen.packets]
    transitions = ["start -> p: 1", "p -> p: 1"]
    emissions = ["p -> -: 0.9 after lognormal(1 ms, 1, 1 h)", "p -> +: 0.09 after pareto(1 ms, 1.5)", "p -> F: 0.01"]
    [clients.x]
    workload = "x"
    path = ["a"]
"#;

#[test]
fn traffic_can_follow_markov_models() {
    let scenario = small(MARKOV, &["workloads.x.tgen.packet=1000 B"]);
    let Activity::Tgen(tgen) = &scenario.workloads[1].does else { panic!("it follows none") };
    assert_eq!((tgen.flows.is_none(), tgen.packet, tgen.packets.len()), (true, Bytes::new(1000), 2));
    let text = Document::parse(&format!("{SMALL}{MARKOV}"), "x.toml", &[]).unwrap().describe();
    assert!(
        text.contains("follows Markov models: streams of 2 states, packets of 2 states, pauses 5 s"),
        "{text}"
    );
    // The mean number of packets of a stream is 99.
    let walks = (0..2000).map(|seed| Walk::new(tgen.packets.clone(), Seed(seed).stream("x")));
    let packets: usize = walks.map(|mut walk| std::iter::from_fn(|| walk.step()).count()).sum();
    assert!((packets as f64 / 2000.0 / 99.0 - 1.0).abs() < 0.07, "{packets}");
}

#[test]
fn the_tails_of_delays_match_their_distributions() {
    let draws = |pause: &str| {
        let scenario = small(&format!("[workloads.x]\nsize = '1 KiB'\npause = '{pause}'\n"), &[]);
        let pause = scenario.workloads[1].pause.clone();
        let mut rng = Seed(3).stream("x/pause");
        let mut draws: Vec<f64> = (0..40_000).map(|_| pause.draw(&mut rng).as_secs_f64()).collect();
        draws.sort_by(f64::total_cmp);
        (draws, pause.mean().as_secs_f64())
    };
    let at = |draws: &[f64], q: f64| draws[(q * 40_000.0) as usize];
    let near =
        |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.04, "{value} {expected}");
    let (exponential, mean) = draws("exponential(2 s)");
    near(at(&exponential, 0.5), 2.0 * 2f64.ln());
    near(at(&exponential, 0.95), 2.0 * 20f64.ln());
    near(mean, 2.0);
    let (normal, mean) = draws("normal(10 s, 3 s)");
    near(at(&normal, 0.158_655), 7.0);
    near(at(&normal, 0.841_345), 13.0);
    near(mean, 10.0);
    assert_eq!(draws("normal(1 ms, 3 s)").0[0], 0.0, "no time is negative");
    let (pareto, mean) = draws("pareto(2 s, 1.5)");
    near(at(&pareto, 0.0), 2.0);
    near(at(&pareto, 0.9), 2.0 * 10f64.powf(1.0 / 1.5));
    near(mean, 6.0);
    let (heavy, _) = draws("pareto(2 s, 0.01)");
    assert_eq!(heavy.last(), Some(&model::LONGEST.as_secs_f64()));
}

#[test]
fn workload_presets_match_kists_clients() {
    let named = |preset: &str| {
        let scenario = small(&format!("[workloads.x]\npreset = '{preset}'\nstart = '3 s'\n"), &[]);
        scenario.workloads[1].clone()
    };
    let minute = Span::Fixed(Duration::from_secs(60));
    for (preset, bytes, pause, fresh) in [
        ("web", Bytes::kib(320), Span::Uniform(Duration::from_millis(1), Duration::from_secs(60)), false),
        ("bulk", Bytes::mib(5), Span::Fixed(Duration::ZERO), false),
        ("perf50k", Bytes::kib(50), minute.clone(), true),
        ("perf1m", Bytes::mib(1), minute.clone(), true),
        ("perf5m", Bytes::mib(5), minute, true),
    ] {
        let workload = named(preset);
        assert_eq!((size(&workload), &workload.pause), (Amount::Fixed(bytes), &pause), "{preset}");
        assert_eq!((workload.fresh_circuit, workload.start), (fresh, Span::Fixed(Duration::from_secs(3))));
    }
    // A key next to the preset overrides the preset.
    let more = "[workloads.x]\npreset = 'perf50k'\nsize = '60 KiB'\n";
    let workload = small(more, &["workloads.x.pause=1 s"]).workloads[1].clone();
    assert_eq!((size(&workload), workload.fresh_circuit), (Amount::Fixed(Bytes::kib(60)), true));
    assert_eq!(workload.pause, Span::Fixed(Duration::from_secs(1)));
}

#[test]
fn the_mix_of_2008_has_its_shares_of_connections_and_bytes() {
    let scenario = small("[workloads.x]\npreset = 'mix-2008'\n", &[]);
    let Amount::Mix(mix) = size(&scenario.workloads[1]) else { panic!("it is no mix") };
    let mean: f64 = mix.shares().map(|(share, size)| share * size.get() as f64).sum();
    let shares: Vec<_> =
        mix.shares().map(|(share, size)| [share, share * size.get() as f64 / mean]).collect();
    // The three named parts, without the rest.
    let printed = [[92.45, 57.97], [4.06, 1.55], [3.33, 40.20]];
    let sums = [0, 1].map(|column| printed.iter().map(|row| row[column]).sum::<f64>());
    for (share, row) in shares.iter().zip(printed) {
        for column in [0, 1] {
            let expected = row[column] / sums[column];
            assert!((share[column] / expected - 1.0).abs() < 0.005, "{share:?} {row:?}");
        }
    }
}

#[test]
fn a_workload_can_hold_circuits() {
    let more = "[workloads.x]\nhold = '10 s'\npause = '20 s'\ncircuits = 3\n[clients.x]\nworkload = 'x'\npath = ['a']\n";
    let scenario = small(more, &[]);
    let hold = Activity::Hold(Span::Fixed(Duration::from_secs(10)));
    assert_eq!((&scenario.workloads[1].does, scenario.workloads[1].circuits), (&hold, 3));
    let text = Document::parse(&format!("{SMALL}{more}"), "x.toml", &[]).unwrap().describe();
    assert!(
        text.contains("  x        holds a circuit for 10 s on each of 3 circuits, pauses 20 s"),
        "{text}"
    );
}

#[test]
fn throttle_keys_configure_the_throttles() {
    let scenario = small(THROTTLES, &[]);
    let said = |name: &str| {
        let relay = scenario.relays.iter().find(|relay| *relay.host.name == *name).unwrap();
        format!("{:?} {:?}", relay.config.throttle, relay.config.client_buckets)
    };
    let buckets =
        |burst: u64, aggregate: &str| format!("ClientBuckets {{ burst: {burst} B, aggregate: {aggregate} }}");
    assert_eq!(
        said("a"),
        format!("Static(StaticRateConfig {{ rate: 5120 B/s }}) {}", buckets(2 << 20, "Connection"))
    );
    assert_eq!(
        said("split"),
        format!("BitSplitting(BitSplittingConfig {{ count: All }}) {}", buckets(2 << 20, "Connection"))
    );
    let flagging =
        "FlaggingConfig { rate: 7168 B/s, penalty: 0.25, half_life: 9s, unflag: Frozen, count: Clients }";
    assert_eq!(said("f"), format!("Flagging({flagging}) {}", buckets(1 << 20, "Connection")));
    let threshold = "ThresholdConfig { fraction: 0.2, refresh: 30s, floor: 3072 B/s, half_life: 30s, throughput: Written, order: Ascending, lift_zero: false }";
    assert_eq!(said("t"), format!("Threshold({threshold}) {}", buckets(2 << 20, "Address")));
    let changes: Vec<_> = scenario.changes.iter().map(|change| format!("{:?}", change.to)).collect();
    let off = format!("Throttle(None, {})", buckets(2 << 20, "Connection"));
    let all = format!(
        "Throttle(Flagging({}), {})",
        flagging.replace("Clients", "All"),
        buckets(1 << 20, "Connection")
    );
    assert_eq!(changes, [off, all]);
}

#[test]
fn a_changed_rate_also_changes_its_throttle() {
    let changes = r#"
        [relays.g]
        bandwidth_rate = "1 MiB/s"
        throttle = "bit-splitting"
        [[changes]]
        at = "10 s"
        set = { "relays.g.bandwidth_rate" = "100 KiB/s", "client.bandwidth_rate" = "10 KiB/s", "client.bandwidth_burst" = "20 KiB" }
        [[changes]]
        at = "11 s"
        set = { "relay.bandwidth_rate" = "50 KiB/s", "client.bandwidth_rate" = "none", "client.bandwidth_burst" = "auto" }
    "#;
    let scenario = small(changes, &[]);
    let said: Vec<String> = scenario
        .changes
        .iter()
        .map(|change| {
            let host = match change.node {
                TorNode::Relay(relay) => &scenario.relays[relay].host,
                TorNode::Client(client) => &scenario.clients[client].host,
            };
            let Switch::Bandwidth(bandwidth) = &change.to else { panic!("{change:?}") };
            let said = bandwidth.map(|of| (of.rate.bytes_per_sec() / 1024, of.burst.get() / 1024));
            format!("{:?} {} {said:?}", change.at, host.name)
        })
        .collect();
    // The relay g has its own rate.
    let first = ["10s g Some((100, 100))", "10s web Some((10, 20))"];
    let then = ["a", "b", "c"].map(|relay| format!("11s {relay} Some((50, 50))"));
    let expected = first.map(str::to_owned).into_iter().chain(then).chain(["11s web None".to_owned()]);
    assert_eq!(said, expected.collect::<Vec<_>>());
}

#[test]
fn a_variant_can_have_its_own_changes() {
    let text = format!(
        "{SMALL}{CHANGES}[[variants]]\nname = 'on'\n[[variants]]\nname = 'off'\nset = {{ changes = [] }}\n"
    );
    let document = Document::parse(&text, "x.toml", &[]).unwrap();
    let many = ["on", "off"].map(|variant| document.scenario(variant).unwrap().changes.len());
    assert_eq!(many, [6, 0]);
}

#[test]
fn a_resolved_scenario_parses_to_the_same_scenario() {
    let mut texts: Vec<Document> = SHIPPED.iter().map(|name| shipped(name)).collect();
    texts.push(shipped("kist/ci")); // Its relays have an era.
    let more = "count = 3\nlink_up = '10 Mbit/s'\nbandwidth_rate = '1 MiB/s'\n[relay]\nlink = '5 MiB/s'\n[relays.g]\ncount = 2\nlink = '1 MiB/s'\nscheduler.outbuf_low = '8 KiB'\n[[network.pairs]]\nbetween = ['web', 'a']\nloss = 0.5\n";
    texts.push(Document::parse(&format!("{SMALL}{more}"), "small.toml", &[]).unwrap());
    texts.push(Document::parse(&format!("{SMALL}{CHANGES}"), "small.toml", &[]).unwrap());
    for kind in ["global", "kist", "kist-deployed", "kist-lite"] {
        let more = format!("[relay]\nscheduler = '{kind}'\n");
        texts.push(Document::parse(&format!("{SMALL}{more}"), "small.toml", &[]).unwrap());
    }
    texts.push(Document::parse(&format!("{SMALL}{PRESETS}"), "small.toml", &[]).unwrap());
    for document in texts {
        for variant in document.variants() {
            let resolved = document.resolved_toml(&variant.name).unwrap();
            let again = Document::parse(&resolved, "again.toml", &[])
                .unwrap_or_else(|error| panic!("{error}\n{resolved}"));
            let mut scenario = again.scenario("default").unwrap().clone();
            scenario.variant = variant.clone();
            let original = document.scenario(&variant.name).unwrap();
            assert_eq!(format!("{scenario:?}"), format!("{original:?}"));
            assert_eq!(again.resolved_toml("default").unwrap(), resolved);
            // A default that the file repeats is no mistake.
            let of_default = ["hops ", "guards ", "trace.", "network.", "coalesce_delay "];
            // The remark on the look-ahead is about a delay that the scenario sets.
            let warnings = again.warnings().iter().filter(|one| !one.contains("look-ahead"));
            let found: Vec<_> =
                warnings.filter(|one| of_default.iter().any(|key| one.contains(key))).collect();
            assert_eq!(found, [""; 0]);
        }
    }
}

/// The names of all shipped scenarios, without claims and common files.
fn all_shipped() -> Vec<String> {
    let folder = format!("{}/../../scenarios", env!("CARGO_MANIFEST_DIR"));
    let entries = |path: &str| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let all = entries(&folder).flat_map(|path| match path.is_dir() {
        true => entries(path.to_str().unwrap()).collect(),
        false => vec![path],
    });
    let names = all.filter_map(|path| {
        let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().strip_suffix(".toml")?.to_owned();
        (!name.contains("/_") && !name.ends_with("/claims")).then_some(name)
    });
    names.collect()
}

#[test]
fn the_shipped_scenarios_have_no_warnings() {
    let names = all_shipped();
    assert!(names.len() > SHIPPED.len(), "{names:?}");
    for name in names {
        let document = shipped(&name);
        // In the EWMA paper and in nstor, server and exit are one machine. With more than 100 clients, these are large
        // networks.
        let near = [
            "ewma/half-life-load",
            "marut/authors-100-4",
            "marut/authors-375-4",
            "marut/dumbbell-100-4",
            "marut/dumbbell-375-4",
        ];
        let expected = usize::from(near.contains(&&*name));
        assert_eq!(document.warnings().len(), expected, "{name}: {:?}", document.warnings());
        assert!(document.warnings().iter().all(|warning| warning.contains("look-ahead")), "{name}");
    }
}

/// A network with two Tor versions, and variants with other versions.
const PRESETS: &str = r#"
    preset = "tor-0.4.9-noconflux"
    [relay]
    preset = "tor-0.2.2"
    edge_control.circuit_window = 500
    refill = "200 ms"
    [relays.d]
    preset = "tor-0.4.9-noconflux"
    edge_queue_low = 20
    edge_control.cwnd_init = 200
    [[variants]]
    name = "mixed"
    [[variants]]
    name = "2013"
    set = { "relay.preset" = "tor-0.2.3", "clients.web.preset" = "none" }
"#;

#[test]
fn a_preset_overrides_inherited_keys_and_keys_next_to_it_override_the_preset() {
    let document = Document::parse(&format!("{SMALL}{PRESETS}"), "x.toml", &[]).unwrap();
    let configs = |document: &Document, variant: &str| {
        let scenario = document.scenario(variant).unwrap();
        let [a, _, _, d] = &scenario.relays[..] else { panic!() };
        [&a.config, &d.config, &scenario.clients[0].group.config].map(|config| RelayConfig::clone(config))
    };
    let policy = |config: &RelayConfig| format!("{:?}", config.circuit_policy);
    let [a, d, web] = configs(&document, "mixed");
    let refill = |config: &RelayConfig| (config.refill.interval.as_millis(), config.refill.unblock.is_some());
    assert_eq!((policy(&a), circuit_window(&a)), ("RoundRobin".to_owned(), 500));
    assert_eq!([&a, &d, &web].map(refill), [(200, false), (16, true), (16, true)]);
    assert_eq!([&a, &d, &web].map(|config| config.edge_queue.low), [64, 20, 10]);
    assert_eq!([&a, &d, &web].map(|config| config.authenticated_sendmes), [false, true, true]);
    let EdgeControlConfig::Vegas(vegas) = d.edge_control else { panic!("{:?}", d.edge_control) };
    let bounds = CwndBounds { cwnd_init: 200, ..VegasConfig::TOR_0_4_9.bounds };
    assert_eq!(vegas, VegasConfig { bounds, ..VegasConfig::TOR_0_4_9 }, "no setting of windows remains");
    assert!(web.optimistic_data && !a.optimistic_data);

    // Another preset replaces the preset, but not the keys next to it. "none" removes the preset.
    let [a, d, web] = configs(&document, "2013");
    assert_eq!(
        (policy(&a).as_str(), circuit_window(&a)),
        ("EwmaHeap(EwmaConfig { half_life: 30s, flush: Cell })", 500)
    );
    assert_eq!((refill(&a), refill(&d)), ((200, false), (16, true)));
    assert_eq!(format!("{web:?}"), format!("{:?}", RelayConfig::default()));

    let sets = ["relays.d.preset=tor-0.2.3".to_owned()];
    let text = format!("{SMALL}{}", PRESETS.replace("edge_control.cwnd_init = 200", ""));
    let [_, d, _] = configs(&Document::parse(&text, "x.toml", &sets).unwrap(), "mixed");
    assert_eq!((circuit_window(&d), refill(&d), d.edge_queue.low), (1000, (100, false), 20));
}

#[test]
fn presets_match_the_constants_of_the_core() {
    let of = |preset: &str| {
        let scenario = small(&format!("preset = '{preset}'\n[relay]\npreset = '{preset}'\n"), &[]);
        [scenario.relays[0].config.clone(), scenario.clients[0].group.config.clone()]
    };
    let ewma = EwmaConfig { half_life: Duration::from_secs(30), ..EwmaConfig::default() };
    let (old, newer) = (RelayConfig::default(), Duration::from_millis(100));
    let today = RelayConfig {
        circuit_policy: CircuitPolicyConfig::EwmaTick(ewma),
        scheduler: SchedulerConfig::KistDeployed(KistDeployedConfig {
            interval: Duration::from_millis(2),
            ..KistDeployedConfig::default()
        }),
        edge_control: EdgeControlConfig::Vegas(VegasConfig::TOR_0_4_9),
        refill: Refill::TOR_0_4_9,
        edge_queue: EdgeQueue { low: 10, high: 256 },
        authenticated_sendmes: true,
        ..RelayConfig::default()
    };
    let newer = RelayConfig {
        circuit_policy: CircuitPolicyConfig::EwmaHeap(ewma),
        refill: Refill { interval: newer, ..Refill::default() },
        ..RelayConfig::default()
    };
    let of_conflux =
        small("preset = 'tor-0.4.9'\n[relay]\npreset = 'tor-0.4.9'\n[relays.d]\n[relays.e]\n", &[]);
    let conflux = Some(ConfluxConfig::TOR_0_4_9);
    let linking = RelayConfig { conflux, ..today.clone() };
    assert_eq!(format!("{:?}", of_conflux.relays[0].config), format!("{linking:?}"));
    let client = RelayConfig { optimistic_data: true, ..linking };
    assert_eq!(format!("{:?}", of_conflux.clients[0].group.config), format!("{client:?}"));
    for (preset, expected) in [("tor-0.2.2", old), ("tor-0.2.3", newer), ("tor-0.4.9-noconflux", today)] {
        let [relay, client] = of(preset);
        assert_eq!(format!("{relay:?}"), format!("{expected:?}"), "{preset}");
        let optimistic_data = expected.authenticated_sendmes;
        assert_eq!(format!("{client:?}"), format!("{:?}", RelayConfig { optimistic_data, ..expected }));
    }
    assert_eq!(penstock_scenario::presets().len(), 4);
}

/// A directory of runs stays valid if its scenario says the same in a shorter way.
#[test]
fn a_preset_has_the_same_fingerprint_as_its_keys() {
    let print = |text: &str| Document::parse(text, "x.toml", &[]).unwrap().fingerprint();
    let same = print(SMALL);
    assert_eq!(
        print(&format!("{SMALL}[relay]\npreset = 'tor-0.2.2'\n[client]\npreset = 'tor-0.2.2'\n")),
        same
    );
    assert_ne!(print(&format!("{SMALL}[relay]\npreset = 'tor-0.2.3'\n")), same);
}

#[test]
fn the_defaults_match_the_core() {
    let scenario = small("", &[]);
    for (config, phase) in [
        (&scenario.relays[0].config, scenario.relays[0].refill_phase),
        (&scenario.clients[0].group.config, scenario.clients[0].group.refill_phase),
    ] {
        assert_eq!(format!("{config:?}"), format!("{:?}", RelayConfig::default()));
        assert_eq!(phase, Phase::Random);
    }
    assert_eq!(scenario.variant.name, "default");
    assert_eq!(scenario.clients[0].group.path, Path::Weighted { hops: 3 });
    assert_eq!(scenario.clients[0].group.servers[..], [0]);
}

#[test]
fn more_specific_sections_override_general_ones() {
    let more = "[relay]\nlink = '1 MiB/s'\nlink_up = '2 MiB/s'\nedge_control.circuit_window = 500\n[relays.d]\nlink = '3 MiB/s'\nedge_control = { stream_window = 100 }\n";
    let scenario = small(more, &["relays.a.edge_control.circuit_window=200", "client.link=5 MiB/s"]);
    let [a, b, _, d] = &scenario.relays[..] else { panic!() };
    assert_eq!((a.host.link_up, a.host.link_down), (DataRate::mib(2), DataRate::mib(1)));
    assert_eq!((d.host.link_up, d.host.link_down), (DataRate::mib(3), DataRate::mib(3)));
    assert_eq!([a, b, d].map(|relay| circuit_window(&relay.config)), [200, 500, 500]);
    assert_eq!(scenario.clients[0].host.link_up, DataRate::mib(5));
}

#[test]
fn a_set_overrides_a_variant() {
    let text = format!(
        "{SMALL}[[variants]]\nname = 'v'\nset = {{ \"tcp.send_buffer\" = '32 KiB', relay.link = '1 MiB/s' }}\n"
    );
    let window = |sets: &[String]| {
        let document = Document::parse(&text, "x", sets).unwrap();
        document.scenario("v").unwrap().relays[0].host.clone()
    };
    let host = window(&[]);
    assert_eq!((host.group.send_buffer, host.link_up), (Some(Bytes::kib(32)), DataRate::mib(1)));
    let host = window(&["tcp.send_buffer=64 KiB".to_owned(), "tcp.send_buffer=\"auto\"".to_owned()]);
    assert_eq!((host.group.send_buffer, host.link_up), (None, DataRate::mib(1)));
}

#[test]
fn a_count_numbers_nodes_and_a_larger_count_renames_none() {
    let names = |count: u32| -> Vec<String> {
        let scenario = small(&format!("count = {count}\n"), &[]);
        scenario.clients.iter().map(|client| client.host.name.to_string()).collect()
    };
    assert_eq!(names(1), ["web0001"]);
    assert_eq!(names(2), ["web0001", "web0002"]);
    assert!(names(12).starts_with(&names(9)));
    assert_eq!(small("", &[]).clients[0].host.name.as_ref(), "web");
}

#[test]
fn an_override_of_a_node_precedes_one_of_its_group() {
    let more = "count = 2\n[[network.pairs]]\nbetween = ['web', 'a']\nrtt = '40 ms'\n[[network.pairs]]\nbetween = ['a', 'web0002']\nloss = 0.5\n";
    let scenario = small(more, &[]);
    let wire = |one: usize, other: usize| {
        scenario.network.between(&scenario.clients[one].host, &scenario.relays[other].host)
    };
    assert_eq!((wire(0, 0).rtt.as_millis(), wire(0, 0).loss), (40, 0.0));
    assert_eq!((wire(1, 0).rtt.as_millis(), wire(1, 0).loss), (80, 0.5));
    assert_eq!((wire(1, 1).rtt.as_millis(), wire(1, 1).loss), (80, 0.0));
}

#[test]
fn a_dumbbell_and_rates_are_sampled_by_seed_and_name() {
    let latency = "near = '20 ms', far = 'quantiles(30 ms, 50 ms)', far_share = 0.5, across = '130 ms'";
    let more = |count: u32| {
        format!(
            "count = 40\n[network]\nlatency = {{ {latency} }}\n[relays.fast]\ncount = {count}\nlink = 'quantiles(1 MB/s, 2 MB/s, 10 MB/s)'\nbandwidth_rate = 'quantiles(100 kB/s, 200 kB/s, 1 MB/s)'\n"
        )
    };
    let scenario = small(&more(8), &[]);
    let (drawn, other) = (scenario.sampled(Seed(7)), scenario.sampled(Seed(8)));
    assert_eq!(drawn.relays[5].host, scenario.sampled(Seed(7)).relays[5].host);
    let fast = |scenario: &Scenario| -> Vec<_> {
        let of = |relay: &penstock_scenario::model::Relay| {
            let bandwidth = relay.config.bandwidth.expect("the relay has a bandwidth");
            assert_eq!(relay.weight, bandwidth.rate);
            let seconds = bandwidth.burst.get() as f64 / bandwidth.rate.bytes_per_sec() as f64;
            assert!((seconds - 1.0).abs() < 1e-3, "the bucket holds one second");
            (relay.host.link_up.bytes_per_sec(), bandwidth.rate.bytes_per_sec())
        };
        scenario.relays.iter().filter(|relay| relay.host.group.name == "fast").map(of).collect()
    };
    assert_ne!(fast(&drawn), fast(&other));
    assert_eq!(
        fast(&drawn),
        fast(&small(&more(12), &[]).sampled(Seed(7)))[..8],
        "more relays change no rate"
    );
    let mut both = fast(&drawn);
    both.sort_unstable();
    assert!(both.is_sorted_by_key(|(_, bucket)| *bucket), "a fast link has a high bandwidth");
    let hosts: Vec<_> = drawn.clients.iter().map(|client| &client.host).collect();
    let is_far = |host: &Host| matches!(host.place, Place::Side { far: true, .. });
    let far = hosts.iter().filter(|host| is_far(host)).count();
    assert!((10..=30).contains(&far), "{far} of 40");
    for [one, two] in hosts.as_chunks::<2>().0 {
        let rtt = drawn.network.between(one, two).rtt;
        let across = if is_far(one) == is_far(two) { Duration::ZERO } else { drawn.network.trunk };
        assert_eq!(rtt, one.place.access() + two.place.access() + across);
        assert!(rtt >= 2 * drawn.network.shortest_delay());
    }
    assert!((60..=80).contains(&drawn.network.trunk.as_millis()), "130 ms less 20 ms and 30 to 50 ms");
}

#[test]
fn a_scenario_without_randomness_is_sampled_unchanged() {
    let scenario = small("count = 3\n", &[]);
    assert!(matches!(scenario.sampled(Seed(1)), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn weighted_paths_have_the_requested_number_of_hops() {
    for hops in [1, 2, 3] {
        let scenario = small(&format!("hops = {hops}\n"), &[]);
        let path = scenario.clients[0].group.path.draw(&scenario, &[], &mut Seed(1).stream("web/path"));
        assert_eq!(path.len(), hops);
    }
}

#[test]
fn weighted_paths_have_different_relays_by_weight() {
    let scenario = small("[relays.big]\nweight = '100 MiB/s'\n", &[]);
    let mut rng = Seed(1).stream("web/path");
    let mut first = [0; 4];
    for _ in 0..2000 {
        let path = scenario.clients[0].group.path.draw(&scenario, &[], &mut rng);
        let mut sorted = path.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 3);
        first[path[0]] += 1;
    }
    // a, b, big, c: 10, 10, 100, 10 of 130.
    assert!((1470..1610).contains(&first[2]), "{first:?}");
}

#[test]
fn a_bucket_holds_one_second_by_default() {
    let scenario =
        small("[relay]\nbandwidth_rate = '1 MiB/s'\nrefill = '100 ms'\nrefill_phase = '10 ms'\n", &[]);
    let config = &scenario.relays[0].config;
    assert_eq!(config.bandwidth, Some(Bandwidth { rate: DataRate::mib(1), burst: Bytes::mib(1) }));
    assert_eq!(config.refill.phase, Duration::from_millis(10));
    assert_eq!(scenario.relays[0].weight, DataRate::mib(1));
    assert_eq!(scenario.clients[0].group.config.bandwidth, None);
}

/// The keys of Vegas: only a version, each key set, and the newest Tor preset.
#[test]
fn vegas_has_the_constants_of_its_version() {
    let edge = |more: &str| {
        let scenario = small(&format!("[relay]\nedge_control = {more}\n"), &[]);
        match scenario.relays[0].config.edge_control {
            EdgeControlConfig::Vegas(vegas) => vegas,
            ref other => panic!("{other:?}"),
        }
    };
    assert_eq!(edge("'vegas'"), VegasConfig::TOR_0_4_9);
    assert_eq!(edge("{ kind = 'vegas', version = '0.4.7' }"), VegasConfig::TOR_0_4_7);
    let own =
        edge("{ kind = 'vegas', version = '0.4.7', alpha = 7, xoff_grace = '9 ms', stream_window = 60 }");
    assert_eq!(
        (own.alpha, own.streams.grace, own.windows.stream_window),
        (7, Duration::from_millis(9), Some(60))
    );
    assert_eq!((own.beta, own.delta), (248, 372));
    let today = "[relay]\nrefill = '16 ms'\nrefill_unblock = '100 ms'\nedge_queue_low = 10\nmax_circuit_queue = 2000\n";
    let config = &small(today, &[]).relays[0].config;
    assert_eq!(config.refill, Refill { phase: config.refill.phase, ..Refill::TOR_0_4_9 });
    assert_eq!(
        (config.edge_queue.low, config.edge_queue.high, config.limits.max_circuit_queue),
        (10, 256, 2000)
    );
    assert_eq!(small("", &[]).relays[0].config.limits, Limits::default());
}

/// The keys of DCTCP and TIMELY: no key set, and each key set.
#[test]
fn comparators_have_defaults_and_accept_their_keys() {
    let relay = |more: &str| small(&format!("[relay]\n{more}\n"), &[]).relays[0].config.clone();
    let dctcp = |more: &str| match relay(more).edge_control.clone() {
        EdgeControlConfig::Dctcp(dctcp) => dctcp,
        other => panic!("{other:?}"),
    };
    let timely = |more: &str| match relay(more).edge_control.clone() {
        EdgeControlConfig::Timely(timely) => timely,
        other => panic!("{other:?}"),
    };
    assert_eq!(dctcp("edge_control = 'dctcp'"), DctcpConfig::default());
    assert_eq!(timely("edge_control = 'timely'"), TimelyConfig::default());
    let bounds = "sendme_inc = 7, cwnd_init = 8, cwnd_min = 9, cwnd_max = 10";
    let windows = "circuit_window = 300, stream_window = 60";
    let own = dctcp(&format!("edge_control = {{ kind = 'dctcp', {bounds}, {windows}, g = 0.5 }}"));
    let cells = |b: penstock_core::edge_control::CwndBounds| {
        (b.sendme_inc.get(), b.cwnd_init, b.cwnd_min, b.cwnd_max)
    };
    assert_eq!((cells(own.bounds), own.g), ((7, 8, 9, 10), 0.5));
    assert_eq!((own.windows.circuit_window, own.windows.stream_window), (300, Some(60)));
    let keys = "t_low = '1 ms', t_high = '2 ms', delta = '3 KiB/s', beta = 0.4, alpha = 0.5";
    let own = timely(&format!("edge_control = {{ kind = 'timely', {bounds}, {windows}, {keys} }}"));
    assert_eq!((cells(own.bounds), own.windows.circuit_window), ((7, 8, 9, 10), 300));
    assert_eq!((own.t_low, own.t_high), (Duration::from_millis(1), Duration::from_millis(2)));
    assert_eq!((own.delta, own.beta, own.alpha), (DataRate::kib(3), 0.4, 0.5));
    assert_eq!([relay("").ecn_threshold, relay("ecn_threshold = 0").ecn_threshold], [None, Some(0)]);
}

#[test]
fn distributions_sample_within_their_bounds() {
    let scenario = small("", &["workloads.web.pause=uniform(1 s, 3 s)"]);
    let mut rng = Seed(1).stream("web/think");
    for _ in 0..1000 {
        let size = size(&scenario.workloads[0]).draw(&mut rng);
        assert!((Bytes::kib(100)..=Bytes::kib(500)).contains(&size));
        let pause = scenario.workloads[0].pause.draw(&mut rng);
        assert!((Duration::from_secs(1)..=Duration::from_secs(3)).contains(&pause));
    }
    assert_eq!(size(&scenario.workloads[0]).mean(), Bytes::kib(300));
    assert_eq!(scenario.workloads[0].pause.mean(), Duration::from_secs(2));
}

#[test]
fn the_fingerprint_covers_the_behaviour_of_a_scenario() {
    let print = |text: &str, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Document::parse(text, "x.toml", &sets).unwrap().fingerprint()
    };
    let same = print(SMALL, &[]);
    assert_eq!(same.len(), 16);
    assert_eq!(print(&format!("# a comment\n{SMALL}"), &[]), same);
    assert_eq!(print(&SMALL.replace("small", "better title"), &[]), same);
    assert_eq!(print(&SMALL.replace("1 min", "60 s"), &[]), same);
    assert_eq!(print(SMALL, &["run.seeds=[7, 8]"]), same);
    assert_ne!(print(SMALL, &["network.rtt=81 ms"]), same);
    assert_ne!(print(&format!("{SMALL}[[variants]]\nname = 'other'\n"), &[]), same);
}

#[test]
fn the_description_of_a_scenario_is_complete() {
    let text = shipped("defenestrator/bottleneck").describe();
    for expected in [
        "Windows behind a slow middle relay\n",
        "/scenarios/defenestrator/bottleneck.toml (defenestrator, section 5.1, figures 2, 4, 5, 6)\n",
        "  relay   middle           link 10 MiB/s, bandwidth 128 KiB/s (burst 128 KiB, refill every 1 s)\n",
        "  web -> entry -> middle -> exit -> destination\n    base round trip 320 ms, bottleneck middle at 128 KiB/s\n",
        "  50KiB        \"50 KiB window\"      relay.edge_control.circuit_window = 100\n",
        "  4 variants x 5 seeds (1, 2, 3, 4, 5) = 20 runs\n  each ends after 2 h of simulated time, or 200 downloads of web\n",
    ] {
        assert!(text.contains(expected), "{expected}\n---\n{text}");
    }
}

#[test]
fn a_scenario_with_a_whole_network_parses_quickly() {
    // The network of KIST: 3,600 relays, 13,800 clients and 4,000 servers, each with its own table.
    let mut text = SMALL.to_owned();
    for number in 0..3600 {
        text += &format!("[relays.r{number}]\nlink = '{} KiB/s'\n", 100 + number);
    }
    text += "[clients.more]\nworkload = 'web'\ncount = 13000\n";
    for number in 0..800 {
        text += &format!(
            "[clients.c{number}]\nworkload = 'web'\npath = ['r{number}', 'a', 'b']\nserver = 's{number}'\n"
        );
    }
    for number in 0..4000 {
        text += &format!("[servers.s{number}]\n");
    }
    let document = Document::parse(&text, "large.toml", &[]).unwrap();
    let scenario = document.scenario("default").unwrap();
    assert_eq!((scenario.relays.len(), scenario.clients.len(), scenario.servers.len()), (3603, 13_801, 4001));
    assert!(scenario.clients.is_sorted_by(|one, other| one.host.name < other.host.name));
    let text = document.describe();
    assert!(text.contains("the first 12 of 3603 relays by name:") && text.lines().count() < 120, "{text}");
}

/// The calibration uses windows. The scenarios of N23 must therefore have the same paths as those
/// of windows.
#[test]
fn n23_scenarios_differ_from_window_scenarios_only_in_hop_control() {
    for (with, without) in [
        ("defenestrator/n23-bottleneck", "defenestrator/bottleneck"),
        ("defenestrator/n23-non-bottleneck", "defenestrator/non-bottleneck"),
        ("defenestrator/n23-ewma", "defenestrator/bottleneck"),
    ] {
        let (with, without) = (shipped(with), shipped(without));
        let stock = without.scenario("stock").unwrap();
        for variant in with.variants() {
            let scenario = with.scenario(&variant.name).unwrap();
            let (run, stop) = (&scenario.run, &stock.run);
            assert_eq!((run.duration, &run.stop), (stop.duration, &stop.stop));
            assert_eq!((&scenario.tcp, &scenario.network), (&stock.tcp, &stock.network));
            assert_eq!((&scenario.servers, &scenario.workloads), (&stock.servers, &stock.workloads));
            for (relay, other) in scenario.relays.iter().zip(&stock.relays) {
                assert_eq!(relay.host, other.host);
                assert_eq!(relay.config.bandwidth, other.config.bandwidth);
                let of = |relay: &penstock_scenario::model::Relay| format!("{:?}", relay.config.scheduler);
                assert_eq!(of(relay), of(other));
                assert_eq!(circuit_window(&relay.config), 1000);
            }
        }
    }
}

/// DefenestraTor, section 5.2.
#[test]
fn the_larger_network_matches_figure_11() {
    let document = shipped("defenestrator/larger");
    for variant in document.variants() {
        let scenario = document.scenario(&variant.name).unwrap();
        let count = |workload: &str| {
            let of = scenario.workloads.iter().position(|each| each.name == workload).unwrap();
            scenario.clients.iter().filter(|client| client.group.workloads.contains(&of)).count()
        };
        assert_eq!((scenario.relays.len(), count("web"), count("bulk")), (20, 190, 10));
        let slow = DataRate::kib(128);
        let limits = scenario.relays.iter().map(|relay| relay.config.bandwidth.unwrap().rate);
        assert_eq!(limits.filter(|rate| *rate <= slow).count(), 10);
        assert_eq!(scenario.network.default.rtt, Duration::from_millis(80));
        assert!(
            scenario
                .relays
                .iter()
                .all(|relay| matches!(relay.config.circuit_policy, CircuitPolicyConfig::RoundRobin))
        );
    }
}

#[test]
fn a_sweep_has_each_variant_at_each_point() {
    let text = format!(
        "{SMALL}[relay]\nlink = '1 MiB/s'\n[[variants]]\nname = 'plain'\n[[variants]]\nname = 'slow'\n\
         label = 'a slow link'\nset = {{ 'relay.link' = '9 KiB/s' }}\n"
    );
    let point = |name: &str, set: &str| Point { name: name.to_owned(), sets: vec![set.to_owned()] };
    let points = [point("40 ms", "network.rtt=40 ms"), point("60 ms", "network.rtt=60 ms")];
    let sets = ["network.rtt=20 ms".to_owned(), "relay.refill=10 ms".to_owned()];
    let all = Document::in_network(&text, "x.toml", None, &sets, &[], &points).unwrap();
    let names: Vec<_> = all.variants().iter().map(|each| (each.name.as_str(), each.label.as_str())).collect();
    assert_eq!(
        names,
        [
            ("plain, 40 ms", "plain, 40 ms"),
            ("slow, 40 ms", "a slow link, 40 ms"),
            ("plain, 60 ms", "plain, 60 ms"),
            ("slow, 60 ms", "a slow link, 60 ms"),
        ]
    );
    let slow = all.scenario("slow, 60 ms").unwrap();
    assert_eq!(slow.variant.label, "a slow link, 60 ms");
    assert_eq!(slow.network.default.rtt, Duration::from_millis(60), "a point overrides --set");
    assert_eq!(slow.relays[0].host.link_up, DataRate::kib(9));
    let alone = Document::in_network(&text, "x.toml", None, &sets, &["slow".to_owned()], &points).unwrap();
    let names: Vec<_> = alone.variants().iter().map(|each| each.name.as_str()).collect();
    assert_eq!(names, ["40 ms", "60 ms"]);
    assert_ne!(all.fingerprint(), alone.fingerprint());
}

#[test]
fn a_point_need_not_fit_variants_that_are_not_selected() {
    let text = format!(
        "{SMALL}[relay.edge_control]\nkind = 'windows'\n[[variants]]\nname = 'windows'\n[[variants]]\n\
         name = 'dynamic'\nset = {{ 'relay.edge_control' = {{ kind = 'dynamic-windows' }} }}\n"
    );
    let points = [Point { name: "0.5".to_owned(), sets: vec!["relay.edge_control.alpha=0.5".to_owned()] }];
    assert!(Document::in_network(&text, "x.toml", None, &[], &[], &points).is_err());
    Document::in_network(&text, "x.toml", None, &[], &["dynamic".to_owned()], &points).unwrap();
}

#[test]
fn each_node_sets_its_credits_and_the_consensus_turns_windows_off() {
    let n23 = |config: &RelayConfig| match config.hop_control {
        HopControlConfig::N23(config) => Some(config),
        _ => None,
    };
    let text = "
        [relay]
        hop_control = { kind = 'n23', n2 = 20, n3 = 120, credit_path = 'circuit', adapt = { step = 5, kernel = true } }
        edge_control = { kind = 'windows', ends = 'suppressed' }
        [relays.d]
        hop_control = { kind = 'n23', client_participates = false, adapt = { law = 'kung94', pool = 900, interval = '1 s' } }
        [client]
        hop_control = 'n23'
    ";
    for active in [true, false] {
        let sets = [format!("network.consensus_n23={active}")];
        let document = Document::parse(&format!("{SMALL}{text}"), "x.toml", &sets).unwrap();
        let scenario = document.scenario("default").unwrap();
        let law = LawConfig::Exponential(ExponentialConfig { step: 5, ..ExponentialConfig::default() });
        let adapt = AdaptConfig { kernel: true, law, ..AdaptConfig::default() };
        let credit_path = CreditPath::Circuit;
        let expected =
            N23Config { n2: 20, n3: 120, adapt: Some(adapt), credit_path, active, ..N23Config::default() };
        assert_eq!(n23(&scenario.relays[0].config), Some(expected));
        let law = LawConfig::Kung94(Kung94Config { pool: 900 });
        let adapt = AdaptConfig { interval: Duration::from_secs(1), law, kernel: false };
        let expected = N23Config { adapt: Some(adapt), with_clients: false, active, ..N23Config::default() };
        assert_eq!(n23(&scenario.relays[3].config), Some(expected));
        let client = &scenario.clients[0].group.config;
        assert_eq!(n23(client), Some(N23Config { active, ..N23Config::default() }));
        let ends = [&scenario.relays[0].config, client].map(|config| match config.edge_control {
            EdgeControlConfig::Windows(windows) => windows.ends,
            _ => panic!("{config:?}"),
        });
        assert_eq!(ends, [Ends::Suppressed, Ends::Enforced]);
        let again = Document::parse(&document.resolved_toml("default").unwrap(), "again.toml", &[]).unwrap();
        assert_eq!(format!("{:?}", again.scenario("default").unwrap()), format!("{scenario:?}"));
    }
    assert_eq!(n23(&small("", &[]).relays[0].config), None);
}

#[test]
fn an_old_key_works_and_gives_one_warning() {
    let text = format!(
        "{SMALL}[network]\nways = {{ DE-DE = '9 ms' }}\n[relay]\nmark_above = 5\ncpu = {{ look = '3 ns' }}\n[[variants]]\nname = 'one'\n[[variants]]\nname = 'two'\nset = {{ \"relay.circuit_queue_most\" = 3000 }}\n"
    );
    let document = Document::parse(&text, "x.toml", &["client.datagram_hold=3 ms".to_owned()]).unwrap();
    let config = &document.scenario("two").unwrap().relays[0].config;
    assert_eq!((config.ecn_threshold, config.limits.max_circuit_queue), (Some(5), 3000));
    let warnings = [
        "x.toml:15: network.ways: this name is old and will not work in the next release; write rtt_matrix",
        "x.toml:18: relay.cpu.look: this name is old and will not work in the next release; write scan",
        "x.toml:17: relay.mark_above: this name is old and will not work in the next release; write ecn_threshold",
        "--set client.datagram_hold=3 ms: client.datagram_hold: this name is old and will not work in the next release; write coalesce_delay",
        "x.toml:23: variant \"two\": relay.circuit_queue_most: this name is old and will not work in the next release; write max_circuit_queue",
    ];
    let old = |document: &Document| -> Vec<String> {
        document.warnings().iter().filter(|warning| warning.contains("this name is old")).cloned().collect()
    };
    assert_eq!(old(&document), warnings);
    let new = text.replace("ways", "rtt_matrix").replace("mark_above", "ecn_threshold");
    let new = new.replace("look", "scan");
    let new = new.replace("circuit_queue_most", "max_circuit_queue");
    let new = Document::parse(&new, "x.toml", &["client.coalesce_delay=3 ms".to_owned()]).unwrap();
    assert_eq!((new.fingerprint(), old(&new).len()), (document.fingerprint(), 0));
}

#[test]
fn an_included_file_is_merged_under_the_file() {
    let folder = std::env::temp_dir().join(format!("penstock-included-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("_common.toml"), SMALL).unwrap();
    let own = "[scenario]\ntitle = 'own'\ninclude = '_common.toml'\n[run]\nseeds = [3]\n[relays.a]\nlink = '1 MiB/s'\n";
    let path = folder.join("own.toml");
    let document = Document::parse(own, path.to_str().unwrap(), &[]);
    std::fs::remove_dir_all(&folder).unwrap();
    let document = document.unwrap();
    let scenario = document.scenario("default").unwrap();
    assert_eq!((&scenario.head.title[..], document.seeds()), ("own", vec![3]));
    assert_eq!(scenario.run.duration, Duration::from_secs(60));
    let links: Vec<_> = scenario.relays.iter().map(|relay| relay.host.link_up).collect();
    assert_eq!(links, [DataRate::mib(1), DataRate::mib(10), DataRate::mib(10)]);
    assert!(!document.resolved_toml("default").unwrap().contains("include"));
}

#[test]
fn a_profile_decides_queue_nodelay_and_window_unless_they_are_set() {
    let of = |sets: &[&str]| {
        let scenario = small("", sets);
        let host = &scenario.relays[0].host;
        let queue = host.group.link_queue.unwrap_or(scenario.tcp.profile.link_queue());
        (queue, scenario.tcp.sets_nodelay(), scenario.tcp.initial_window)
    };
    let (bytes, packets) = (|size| LinkQueue::Bytes(Bytes::new(size)), LinkQueue::Packets);
    assert_eq!(of(&[]), (bytes(75_000), false, None));
    assert_eq!(of(&["tcp.profile=ns3"]), (packets(100), true, None));
    assert_eq!(of(&["tcp.profile=shadow-1.9"]), (bytes(1_024_000), true, None));
    assert_eq!(of(&["tcp.profile=shadow-3.3"]), (bytes(75_000), true, None));
    let set =
        ["tcp.profile=ns3", "network.link_queue=7 packets", "tcp.nodelay=false", "tcp.initial_window=3"];
    assert_eq!(of(&set), (packets(7), false, Some(3)));
    let document = Document::parse(SMALL, "small.toml", &["network.link_queue=1 packets".to_owned()]);
    let error = document.unwrap_err().to_string();
    assert!(error.contains("it must be from 2 to 1000000 packets"), "{error}");
}

#[test]
fn a_long_list_has_one_line_for_similar_clients() {
    let clients: String = (1..=20)
        .map(|number| {
            let path = if number == 7 { "[]" } else { "'tor'" };
            format!("[clients.c{number:02}]\nworkload = 'w'\npath = {path}\n")
        })
        .collect();
    let text = format!(
        "[scenario]\ntitle = 'x'\n[run]\nduration = '1 s'\n[relays.r]\ncount = 5\n[servers.s]\n\
         [workloads.w]\nsize = '1 KiB'\n{clients}"
    );
    let said = Document::parse(&text, "x.toml", &[]).unwrap().describe();
    assert!(said.contains("  client  c01 and 19 like it link 10 MiB/s\n"), "{said}");
    assert!(
        said.contains("  c01 and 18 like it -> (as Tor draws them among 5 relays, 3 guards kept)"),
        "{said}"
    );
    assert!(said.contains("  c07 -> s\n    base round trip 80 ms, without Tor\n"), "{said}");
}

#[test]
fn a_client_that_starts_in_the_middle_costs_half() {
    let events = |start: &str| {
        let text = format!(
            "[scenario]\ntitle = \"t\"\n[run]\nduration = \"20 min\"\n[relays.a]\n[relays.b]\n[relays.c]\n[servers.s]\n\
             [workloads.web]\nsize = \"1 MiB\"\npause = \"1 s\"\n[clients.web]\nworkload = \"web\"\n\
             path = [\"a\", \"b\", \"c\"]\n{start}\n"
        );
        Document::parse(&text, "x.toml", &[]).unwrap().estimate("default").unwrap().events
    };
    let ratio = events("start = \"10 min\"") / events("");
    assert!((0.48..0.52).contains(&ratio), "{ratio}");
    assert_eq!(events("start = \"21 min\""), 0.0);
}

#[test]
fn the_description_names_the_keys_that_a_new_kind_resets() {
    let file = format!("{SMALL}[relay]\npreset = \"tor-0.4.9-noconflux\"\n");
    let variants = [
        "[[variants]]\nname = \"today\"\n",
        "[[variants]]\nname = \"lite\"\nset = { \"relay.scheduler\" = \"kist-lite\" }\n",
        "[[variants]]\nname = \"lite-2\"\nset = { \"relay.scheduler\" = { kind = \"kist-lite\", interval = \"2 ms\" } }\n",
    ];
    let text = Document::parse(&(file.clone() + &variants.concat()), "x.toml", &[]).unwrap().describe();
    let reset = "    relay.scheduler has the defaults interval = \"10 ms\"\n    relay.scheduler.interval is \"10 ms\" instead of \"2 ms\" as in the file or its preset: a kind resets all keys\n";
    assert_eq!(text.matches(reset).count(), 1, "{text}");
    assert_eq!(text.matches(" has the defaults ").count(), 1, "{text}");
    // An override of all variants is explained once.
    let by_set = |set: &str| Document::parse(&file, "x.toml", &[set.to_owned()]).unwrap().describe();
    let text = by_set("relay.scheduler.kind=kist-lite");
    assert_eq!(text.matches(reset).count(), 1, "{text}");
    let text = by_set("relay.scheduler.interval=3 ms");
    assert!(!text.contains("relay.scheduler has"), "{text}");
    let vegas = by_set("relay.edge_control=vegas");
    assert!(!vegas.contains("has the defaults"), "a long list is left out: {vegas}");
}
