//! Sampled networks: relays of a year, locations, deployments, and round-trip times.

use penstock_scenario::model::{Path, Place, Relay};
use penstock_scenario::{Document, Error, NetworkFile, Point, Scenario};
use penstock_units::{Duration, Seed};

const TEXT: &str = r#"[scenario]
title = "test"
[run]
duration = "1 min"
[network]
latency = "geographic"
[relay]
circuit_policy = { kind = "ewma", half_life = "30 s" }
[relays.relay]
count = 40
era = "2014"
[client]
path = "tor"
[servers.server]
country = "US"
[workloads.web]
size = "320 KiB"
[clients.web]
count = 50
workload = "web"
"#;

fn parse(text: &str) -> Result<Document, Error> {
    Document::parse(text, "x.toml", &[])
}

fn scenario(more: &str) -> Scenario {
    parse(&format!("{TEXT}{more}")).unwrap().scenario("default").unwrap().clone()
}

/// The error for the text after replacing `from` with `to`.
fn sentence(from: &str, to: &str) -> String {
    assert_eq!(TEXT.matches(from).count(), 1, "{from:?} must occur once");
    parse(&TEXT.replace(from, to)).unwrap_err().to_string()
}

fn is_kist(relay: &Relay) -> bool {
    format!("{:?}", relay.config.scheduler).starts_with("Kist")
}

#[test]
fn relays_of_an_era_are_sampled_for_each_network_and_keep_their_locations() {
    let scenario = scenario("");
    let (one, again, other) =
        (scenario.sampled(Seed(1)), scenario.sampled(Seed(1)), scenario.sampled(Seed(2)));
    let rates = |scenario: &Scenario| -> Vec<_> {
        let of = |relay: &Relay| {
            (relay.host.link_up, relay.config.bandwidth.map(|bucket| bucket.rate), relay.weight)
        };
        scenario.relays.iter().map(of).collect()
    };
    assert_eq!(rates(&one), rates(&again));
    assert_ne!(rates(&one), rates(&other));
    let places = |scenario: &Scenario| -> Vec<_> {
        scenario.relays.iter().map(|relay| (relay.guard, relay.exit)).collect()
    };
    assert_eq!(places(&one), places(&other));
    assert_eq!(places(&one), places(&scenario));
    let count = |guard, exit| places(&one).iter().filter(|place| **place == (guard, exit)).count();
    assert_eq!(
        [count(false, false), count(true, false), count(false, true), count(true, true)],
        [21, 10, 6, 3]
    );
}

#[test]
fn without_buckets_links_have_the_same_capacity() {
    let plain = scenario("").sampled(Seed(1)).into_owned();
    let links = parse(&TEXT.replace("era =", "era_buckets = false\nera =")).unwrap();
    let links = links.scenario("default").unwrap().sampled(Seed(1)).into_owned();
    let capacity = |relay: &Relay| {
        relay.config.bandwidth.map_or(relay.host.link_up, |bucket| bucket.rate.min(relay.host.link_up))
    };
    assert!(plain.relays.iter().all(|relay| relay.config.bandwidth.is_some()));
    assert!(links.relays.iter().all(|relay| relay.config.bandwidth.is_none()));
    assert!(plain.relays.iter().map(capacity).eq(links.relays.iter().map(capacity)));
    assert!(plain.relays.iter().map(|relay| relay.weight).eq(links.relays.iter().map(|relay| relay.weight)));
}

#[test]
fn rates_within_links_lower_the_rates_that_exceed_links() {
    let relays = |keys: &str| {
        let document = parse(&TEXT.replace("era =", &format!("{keys}\nera ="))).unwrap();
        document.scenario("default").unwrap().sampled(Seed(1)).into_owned().relays
    };
    let rate = |relay: &Relay| relay.config.bandwidth.map(|bucket| bucket.rate).unwrap();
    let (drawn, within) = (relays(""), relays("era_rates_within_links = true"));
    assert!(drawn.iter().any(|relay| rate(relay) > relay.host.link_up));
    assert!(within.iter().map(rate).eq(drawn.iter().map(|relay| rate(relay).min(relay.host.link_up))));
    assert!(within.iter().map(|relay| relay.host.link_up).eq(drawn.iter().map(|relay| relay.host.link_up)));
    assert!(within.iter().map(|relay| relay.weight).eq(drawn.iter().map(|relay| relay.weight)));
}

#[test]
fn rates_within_links_have_no_effect_without_buckets() {
    let text = TEXT.replace("era =", "era_buckets = false\nera_rates_within_links = true\nera =");
    let document = parse(&text).unwrap();
    let warnings = document.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0]
            .contains("era_rates_within_links has no effect, because these relays have no token buckets")
    );
}

#[test]
fn without_weights_of_the_era_a_relay_has_the_weight_of_its_capacity() {
    let relays = |keys: &str| {
        let document = parse(&TEXT.replace("era =", &format!("{keys}\nera ="))).unwrap();
        document.scenario("default").unwrap().sampled(Seed(1)).into_owned().relays
    };
    let capacity = |relay: &Relay| {
        relay.config.bandwidth.map_or(relay.host.link_up, |bucket| bucket.rate.min(relay.host.link_up))
    };
    let (drawn, equal) = (relays("era_weights = true"), relays("era_weights = false"));
    assert!(drawn.iter().any(|relay| relay.weight != capacity(relay)));
    assert!(equal.iter().all(|relay| relay.weight == capacity(relay)));
    assert!(drawn.iter().map(capacity).eq(equal.iter().map(capacity)));
    assert!(
        relays("era_weights = false\nera_buckets = false")
            .iter()
            .all(|relay| relay.weight == capacity(relay))
    );
}

#[test]
fn without_flags_of_the_era_all_relays_have_the_flags_of_their_group() {
    // Another relay is the exit, because clients need one.
    let relays = |keys: &str| {
        let text = TEXT.replace("era =", &format!("{keys}\nera ="));
        let document = parse(&format!("{text}[relays.last]\n")).unwrap();
        let drawn = document.scenario("default").unwrap().sampled(Seed(1)).into_owned().relays;
        drawn.into_iter().filter(|relay| relay.host.group.name == "relay").collect::<Vec<_>>()
    };
    let drawn = relays("");
    let both = relays("era_flags = false");
    let guards = relays("era_flags = false\nflags = [\"guard\"]");
    assert_eq!(both.len(), 40);
    assert!(both.iter().all(|relay| relay.guard && relay.exit));
    assert!(guards.iter().all(|relay| relay.guard && !relay.exit));
    assert!(drawn.iter().map(|relay| relay.weight).eq(both.iter().map(|relay| relay.weight)));
}

#[test]
fn clients_use_guards_and_exits_and_keep_their_guards() {
    let scenario = scenario("guards = 3\n");
    let drawn = scenario.sampled(Seed(4));
    let client = &drawn.clients[0];
    let guards = client.group.path.draw_guards(&drawn, &mut Seed(4).stream("web0001/guards"));
    assert_eq!(guards.len(), 3);
    let mut rng = Seed(4).stream("web0001/path");
    let mut seen = [0; 3];
    for _ in 0..600 {
        let path = client.group.path.draw(&drawn, &guards, &mut rng);
        let [guard, middle, exit] = path[..] else { panic!("{path:?} has three relays") };
        assert!(guard != middle && middle != exit && guard != exit);
        assert!(drawn.relays[guard].guard && drawn.relays[exit].exit);
        seen[guards
            .iter()
            .position(|own| *own == guard)
            .expect("the guard is one of the client's guards")] += 1;
    }
    assert!(
        seen.iter().all(|count| (100..300).contains(count)),
        "the client uses its guards about equally: {seen:?}"
    );
}

/// The pairs of relays that are together on at least one of 2,000 paths.
fn together(relays: &str) -> Vec<[String; 2]> {
    let text = TEXT.replace("[relays.relay]\ncount = 40\nera = \"2014\"\n", relays);
    let document = parse(&text).unwrap();
    let scenario = document.scenario("default").unwrap().sampled(Seed(1));
    let mut rng = Seed(1).stream("web0001/path");
    let mut pairs = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        let path = scenario.clients[0].group.path.draw(&scenario, &[], &mut rng);
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let mut pair = [path[one], path[other]].map(|relay| scenario.relays[relay].host.name.to_string());
            pair.sort();
            pairs.insert(pair);
        }
    }
    pairs.into_iter().collect()
}

#[test]
fn relays_that_declare_each_other_are_never_on_one_path() {
    let others = "[relays.others]\ncount = 4\n";
    let has = |pairs: &[[String; 2]], one: &str, other: &str| {
        pairs.iter().any(|[a, b]| (&a[..], &b[..]) == (one, other))
    };
    let mutual = together(&format!(
        "[relays.a]\nfamily = [\"b\", \"c\"]\n[relays.b]\nfamily = \"a\"\n[relays.c]\n{others}"
    ));
    assert!(!has(&mutual, "a", "b") && has(&mutual, "a", "c") && has(&mutual, "b", "c"));
    // A group declares itself, and one of its relays declares another relay.
    let groups = together(&format!(
        "[relays.a]\nfamily = \"group0002\"\n[relays.group]\ncount = 3\nfamily = [\"group\", \"a\"]\n{others}"
    ));
    let of_group = |pair: &&[String; 2]| pair.iter().all(|name| name.starts_with("group"));
    assert_eq!(groups.iter().filter(of_group).count(), 0);
    assert!(has(&groups, "a", "group0001") && !has(&groups, "a", "group0002"));
}

#[test]
fn a_wrong_family_is_refused() {
    let relays = "count = 40\nera = \"2014\"";
    let said = [
        (
            sentence(relays, "count = 40\nfamily = [\"relay0041\"]"),
            "x.toml:11: relays.relay.family: there is no relay \"relay0041\"; there are relay",
        ),
        (
            sentence(relays, "count = 40\nfamily = \"web\""),
            "x.toml:11: relays.relay.family: there is no relay \"web\"; there are relay",
        ),
        (
            sentence(relays, "count = 40\nera = \"2014\"\nfamily = \"relay\""),
            "x.toml:12: relays.relay.family: relays of an era have no families; leave era or family out",
        ),
        (
            sentence(relays, "count = 5000\nfamily = \"relay\""),
            "x.toml:11: relays.relay.family: it has 5000 relays; a family has at most 4096",
        ),
        (
            sentence(relays, "count = 40\nfamily = \"relay\""),
            "x.toml:18: clients: no path \"tor\" can be drawn: there are no three different relays of different families",
        ),
    ];
    for (said, right) in said {
        assert!(said.starts_with(right), "{said}");
    }
}

#[test]
fn a_smaller_share_is_a_subset_of_a_larger_one_and_positions_are_respected() {
    let reached = |deployment: &str, seed| -> Vec<usize> {
        let scenario = scenario(&format!("[[deployments]]\n{deployment}\nset = {{ scheduler = 'kist' }}\n"));
        let drawn = scenario.sampled(Seed(seed));
        (0..drawn.relays.len()).filter(|index| is_kist(&drawn.relays[*index])).collect()
    };
    let (quarter, half, all) = (reached("share = 0.25", 1), reached("share = 0.5", 1), reached("", 1));
    assert_eq!([quarter.len(), half.len(), all.len()], [10, 20, 40]);
    assert!(quarter.iter().all(|relay| half.contains(relay)));
    assert_ne!(quarter, reached("share = 0.25", 2), "another network samples other relays");
    let scenario = scenario("");
    for (position, count) in [("guard", 10), ("middle", 21), ("exit", 9)] {
        let reached = reached(&format!("position = '{position}'"), 1);
        assert_eq!(reached.len(), count, "{position}");
        let stands = |relay: &Relay| match position {
            "guard" => relay.guard && !relay.exit,
            "exit" => relay.exit,
            _ => !relay.guard && !relay.exit,
        };
        assert!(reached.iter().all(|index| stands(&scenario.relays[*index])));
    }
    assert_eq!(reached("relays = ['relay0002', 'relay0040']", 1), [1, 39]);
}

#[test]
fn a_share_of_the_weight_has_relays_with_this_weight() {
    let reached = |share: &str, seed| {
        let deployment = format!(
            "[[deployments]]\nshare = {share}\nshare_of = 'weight'\nset = {{ scheduler = 'kist' }}\n"
        );
        let drawn = scenario(&deployment).sampled(Seed(seed)).into_owned();
        let weight = |relay: &Relay| relay.weight.bytes_per_sec() as f64;
        let all: f64 = drawn.relays.iter().map(weight).sum();
        let most = drawn.relays.iter().map(weight).fold(0.0, f64::max) / all;
        let upgraded: Vec<usize> =
            (0..drawn.relays.len()).filter(|index| is_kist(&drawn.relays[*index])).collect();
        (upgraded.iter().map(|index| weight(&drawn.relays[*index])).sum::<f64>() / all, most, upgraded)
    };
    for seed in 1..20 {
        let (half, most, relays) = reached("0.5", seed);
        assert!((half - 0.5).abs() <= most / 2.0, "seed {seed}: half of the weight is {half}");
        let (_, _, quarter) = reached("0.25", seed);
        assert!(quarter.iter().all(|relay| relays.contains(relay)));
        assert_eq!(reached("'all'", seed).2.len(), 40);
    }
}

#[test]
fn a_deployment_changes_only_the_software() {
    let plain = scenario("").sampled(Seed(1)).into_owned();
    let kist = scenario("[[deployments]]\nset = { scheduler = 'kist' }\n").sampled(Seed(1)).into_owned();
    for (one, other) in plain.relays.iter().zip(&kist.relays) {
        assert_eq!(one.host, other.host);
        assert_eq!((one.weight, one.config.bandwidth), (other.weight, other.config.bandwidth));
        assert_eq!(format!("{:?}", one.config.circuit_policy), format!("{:?}", other.config.circuit_policy));
        assert!(!is_kist(one) && is_kist(other));
    }
}

fn debug(part: &impl std::fmt::Debug) -> String {
    format!("{part:?}")
}

/// The combination of a throttle on guards and a circuit policy on all relays applies to each
/// guard.
#[test]
fn a_later_deployment_overrides_earlier_ones() {
    let throttle = "[[deployments]]\nposition = 'guard'\nset = { throttle = 'bit-splitting' }\n";
    let policy = "[[deployments]]\nset = { circuit_policy = 'round-robin' }\n";
    let longer = "[[deployments]]\nset = { circuit_policy = { kind = 'ewma', half_life = '5 s' } }\n";
    let refined = "[[deployments]]\nset = { 'circuit_policy.half_life' = '7 s' }\n";
    let drawn = |more: &[&str]| scenario(&more.concat()).sampled(Seed(1)).into_owned();
    let both = drawn(&[throttle, policy]);
    let (plain, throttled, other) = (drawn(&[]), drawn(&[throttle]), drawn(&[policy]));
    for (index, relay) in both.relays.iter().enumerate() {
        let is_guard = relay.guard && !relay.exit;
        let (own, alone) = (&relay.config, &throttled.relays[index].config);
        assert_eq!(debug(&own.throttle), debug(&alone.throttle));
        assert_eq!(is_guard, debug(&own.throttle) != debug(&plain.relays[index].config.throttle));
        assert_eq!(debug(&own.circuit_policy), debug(&other.relays[index].config.circuit_policy));
        assert_ne!(debug(&own.circuit_policy), debug(&plain.relays[index].config.circuit_policy));
    }
    // A later deployment of the same key overrides it, as a whole or key by key.
    let over = drawn(&[policy, longer, refined]);
    assert!(over.relays.iter().all(|relay| debug(&relay.config.circuit_policy).contains("7s")));
    let under = drawn(&[longer, refined, policy]);
    assert!(under.relays.iter().all(|relay| debug(&relay.config.circuit_policy).contains("RoundRobin")));
    let preset = "[[deployments]]\nset = { preset = 'tor-0.2.2' }\n";
    let replaced = drawn(&[longer, preset]);
    assert!(replaced.relays.iter().all(|relay| debug(&relay.config.circuit_policy).contains("RoundRobin")));
}

#[test]
fn shares_of_deployments_overlap_at_random() {
    let half = "[[deployments]]\nshare = 0.5\nset = { scheduler = 'kist' }\n";
    let guards =
        "[[deployments]]\nposition = 'guard'\nshare = 0.5\nset = { circuit_policy = 'round-robin' }\n";
    let quarter = "[[deployments]]\nshare = 0.25\nset = { priority_factor = 3 }\n";
    let drawn = |more: &[&str], seed| scenario(&more.concat()).sampled(Seed(seed)).into_owned();
    let is_even = |relay: &Relay| debug(&relay.config.circuit_policy).contains("RoundRobin");
    let is_third = |relay: &Relay| relay.config.priority_factor.0 == 3.0;
    for seed in 1..20 {
        let all = drawn(&[half, guards, quarter], seed);
        let alone = [half, guards, quarter].map(|one| drawn(&[one], seed));
        for (index, relay) in all.relays.iter().enumerate() {
            let [kist, even, third] = alone.each_ref().map(|scenario| &scenario.relays[index]);
            assert_eq!(
                (is_kist(relay), is_even(relay), is_third(relay)),
                (is_kist(kist), is_even(even), is_third(third))
            );
        }
    }
}

#[test]
fn an_upgrade_has_few_combinations_and_too_many_are_rejected() {
    let step = |number: usize| {
        format!("[[deployments]]\nshare = 0.{:02}\nset = {{ priority_factor = {number} }}\n", 99 - number)
    };
    let steps: String = (1..60).map(step).collect();
    let drawn = scenario(&steps).sampled(Seed(1)).into_owned();
    let of =
        |factor: f64| drawn.relays.iter().filter(|relay| relay.config.priority_factor.0 == factor).count();
    assert_eq!(of(59.0), 16);
    let apart = |number: usize| {
        let relays: Vec<String> = (1..=40)
            .filter(|relay| relay % (number + 2) > 0)
            .map(|relay| format!("'relay{relay:04}'"))
            .collect();
        format!(
            "[[deployments]]\nrelays = [{}]\nshare = 0.5\nset = {{ priority_factor = 2 }}\n",
            relays.join(", ")
        )
    };
    let apart: String = (1..30).map(apart).collect();
    assert_eq!(
        parse(&format!("{TEXT}{apart}")).unwrap_err().to_string(),
        "x.toml:21: deployments: these shares allow more than 1024 combinations of software; give fewer deployments a share"
    );
}

#[test]
fn round_trips_follow_the_locations_and_have_a_minimum() {
    let drawn = scenario("").sampled(Seed(1)).into_owned();
    let hosts: Vec<_> = drawn
        .relays
        .iter()
        .map(|relay| &relay.host)
        .chain(drawn.clients.iter().map(|client| &client.host))
        .collect();
    let mut rtts = Vec::new();
    for one in &hosts {
        for other in &hosts {
            let rtt = drawn.network.between(one, other).rtt;
            assert_eq!(rtt, drawn.network.between(other, one).rtt);
            assert!(rtt >= 2 * drawn.network.shortest_delay());
            rtts.push(rtt);
        }
    }
    rtts.sort_unstable();
    let median = rtts[rtts.len() / 2];
    // "The median inter-relay round trip was about 80 ms" (DefenestraTor, footnote 9).
    assert!((Duration::from_millis(50)..Duration::from_millis(120)).contains(&median), "{median:?}");
    assert_eq!(drawn.network.shortest_delay(), Duration::from_millis(11));
}

#[test]
fn networks_are_listed_and_do_not_change_the_fingerprint() {
    let listed = parse(&TEXT.replace("[network]", "networks = [3, 4]\n[network]")).unwrap();
    let plain = parse(TEXT).unwrap();
    assert_eq!((listed.networks(), plain.networks()), (vec![3, 4], vec![]));
    assert_eq!(listed.fingerprint(), plain.fingerprint());
}

#[test]
fn clients_of_each_guard_take_the_guards_in_turn() {
    let probes = "[relays.fast]\nflags = []\n[clients.probe]\ncount = 30\nworkload = \"web\"\npath = [\"each-guard\", \"fast\"]\n";
    for seed in [1, 2] {
        let drawn = scenario(probes).sampled(Seed(seed)).into_owned();
        let guards: Vec<usize> = (0..drawn.relays.len()).filter(|relay| drawn.relays[*relay].guard).collect();
        assert!((2..30).contains(&guards.len()), "{}", guards.len());
        let fast = drawn.relays.iter().position(|relay| &*relay.host.name == "fast").unwrap();
        let probes = drawn.clients.iter().filter(|client| client.group.each_guard);
        let paths: Vec<Path> = probes.map(|client| client.group.path.clone()).collect();
        let expected = guards.iter().cycle().map(|guard| Path::Fixed(vec![*guard, fast]));
        assert_eq!(paths, expected.take(30).collect::<Vec<_>>());
    }
}

#[test]
fn a_path_over_each_guard_needs_a_guard() {
    let path = TEXT.replace("path = \"tor\"", "path = [\"each-guard\"]");
    let found = parse(&path.replace("era = \"2014\"", "flags = [\"exit\"]")).unwrap_err().to_string();
    let expected =
        "x.toml:13: clients.web.path: no relay can be \"each-guard\"; give a relay the flag \"guard\"";
    assert!(found.starts_with("x.toml:") && found.ends_with(&expected["x.toml:13: ".len()..]), "{found}");
}

#[test]
fn errors_in_networks_are_sentences() {
    let said = [
        (
            sentence("count = 40\n", ""),
            "x.toml:10: relays.relay.era: an era is for several relays; set count",
        ),
        (
            sentence("era = \"2014\"", "era = \"2014\"\nlink = \"1 MiB/s\""),
            "x.toml:12: relays.relay.link: the era of [relays.relay] draws this; set one of the two",
        ),
        (
            sentence("[relay]\n", "[relay]\nbandwidth_rate = \"1 MiB/s\"\n"),
            "x.toml:8: relays.relay.bandwidth_rate: the era of [relays.relay] draws this; set one of the two",
        ),
        (
            sentence("era = \"2014\"", "flags = [\"Guard\"]"),
            "x.toml:11: relays.relay.flags: \"Guard\" is not a flag; it must be a list of \"guard\" and \"exit\", or []",
        ),
        (
            sentence("era = \"2014\"", "flags = [\"guard\"]"),
            "x.toml:18: clients: no path \"tor\" can be drawn: the scenario: no relay can be an exit: an exit needs the flags Fast, Running and Valid, no flag BadExit, and a policy that accepts port 443",
        ),
        (
            sentence("count = 40\nera = \"2014\"", "count = 2"),
            "x.toml:17: clients: no path \"tor\" can be drawn: there are no three different relays of different families with a guard and an exit among them; add relays, or flags",
        ),
        (
            sentence("[relays.relay]", "[relays.tor]"),
            "x.toml:9: relays.tor: \"tor\" is a word of paths and servers; give the node another name",
        ),
    ];
    for (said, right) in said {
        assert_eq!(said, right);
    }
    assert!(
        sentence("2014", "2015")
            .contains("\"2015\" is unknown; it must be one of 2012-04, 2012, 2013, 2014, 2017, 2018, 2022")
    );
    let deployment =
        |lines: &str| parse(&format!("{TEXT}[[deployments]]\n{lines}\n")).unwrap_err().to_string();
    for (lines, right) in [
        (
            "relays = 'x'\nset = { scheduler = 'kist' }",
            "x.toml:22: deployments.0.relays: there is no relay \"x\"; [relays] has relay",
        ),
        (
            "share = 1.5\nset = { scheduler = 'kist' }",
            "x.toml:22: deployments.0.share: 1.5 is a number and out of range; it must be a fraction from 0 to below 1, like 0.01; or \"all\"",
        ),
        (
            "set = {}",
            "x.toml:22: deployments.0.set: it sets no key; write keys of [relay], like { scheduler = \"kist\" }",
        ),
    ] {
        assert_eq!(deployment(lines), right);
    }
    assert!(deployment("set = { link = '1 MiB/s' }").starts_with(
        "x.toml:22: deployments.0.set: \"link\" is not a software key of a relay; a deployment may set preset, refill"
    ));
    assert!(
        deployment("set = { scheduler = 'none' }")
            .starts_with("x.toml:22: relays.relay.scheduler.kind: \"none\" is unknown")
    );
    let both = "[[deployments]]\nset = { scheduler = 'kist' }\n[[changes]]\nat = '1 s'\nset = { relay.circuit_policy = 'round-robin' }\n";
    let said = parse(&format!("{TEXT}{both}")).unwrap_err().to_string();
    assert!(said.contains("deployments and changes cannot be combined"), "{said}");
}

const NETWORK: &str = "# a network\n[network]\nlatency = \"rtt-matrix\"\naccess = \"1 ms\"\n[network.rtt_matrix]\nDE-DE = \"10 ms\"\n\
                       US-DE = \"100 ms\"\nUS-US = \"40 ms\"\n[relays.a-1]\ncountry = \"DE\"\nflags = [\"guard\"]\n\
                       [relays.b-2]\ncountry = \"US\"\nweight = \"3 kB/s\"\nflags = []\n[relays.c-3]\ncountry = \"US\"\nflags = [\"exit\"]\n";

fn in_network(text: &str, network: &str, sets: &[&str]) -> Result<Document, Error> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let network = Some(NetworkFile { name: "net.toml", text: network });
    Document::in_network(text, "x.toml", network, &sets, &[], &[Point::default()])
}

#[test]
fn the_relays_of_a_network_file_replace_those_of_the_scenario() {
    let document = in_network(TEXT, NETWORK, &["relays.c-3.link=5 MiB/s"]).unwrap();
    let scenario = document.scenario("default").unwrap();
    let relays: Vec<_> =
        scenario.relays.iter().map(|relay| (&*relay.host.name, relay.guard, relay.exit)).collect();
    assert_eq!(relays, [("a-1", true, false), ("b-2", false, false), ("c-3", false, true)]);
    assert_eq!(scenario.relays[2].host.link_up.to_string(), "5 MiB/s", "--set overrides the network file");
    assert_eq!(scenario.relays[1].weight.bytes_per_sec(), 3000);
    assert!(
        format!("{:?}", scenario.relays[0].config.circuit_policy).contains("Ewma"),
        "[relay] still applies"
    );
    assert!(document.describe().contains("x.toml in the network of net.toml"));
    let resolved = document.resolved_toml("default").unwrap();
    let again = parse(&resolved).unwrap();
    assert_eq!(
        again.resolved_toml("default").unwrap(),
        resolved,
        "the resolved scenario contains the network"
    );
    assert_eq!(again.fingerprint(), document.fingerprint());
    assert_ne!(parse(TEXT).unwrap().fingerprint(), document.fingerprint());
}

#[test]
fn a_round_trip_follows_the_countries_and_the_access_delays() {
    let document = in_network(TEXT, NETWORK, &[]).unwrap();
    let scenario = document.scenario("default").unwrap();
    let drawn = scenario.sampled(Seed(1));
    let rtt = |one: usize, other: usize| {
        drawn.network.between(&drawn.relays[one].host, &drawn.relays[other].host).rtt
    };
    assert_eq!(rtt(0, 1), Duration::from_millis(102));
    assert_eq!([rtt(1, 2), rtt(2, 1)], [Duration::from_millis(42); 2]);
    assert_eq!(drawn.network.shortest_delay(), Duration::from_millis(6));
    // Clients are in the countries of users. The file has two of these countries.
    let germans = drawn
        .clients
        .iter()
        .filter(|client| matches!(client.host.place, Place::In { country, .. } if country.code == "DE"))
        .count();
    assert!((10..=30).contains(&germans), "{germans} of 50");
    // Round-trip times of the scenario do not mix with those of the file.
    let own = TEXT
        .replace("latency = \"geographic\"", "latency = \"rtt-matrix\"\nrtt_matrix = { FR-FR = \"1 ms\" }");
    let mixed = in_network(&own, NETWORK, &[]).unwrap();
    assert!(!mixed.resolved_toml("default").unwrap().contains("FR-FR"));
}

#[test]
fn an_error_in_a_network_file_names_the_file_and_its_line() {
    let said = |from: &str, to: &str| {
        assert_eq!(NETWORK.matches(from).count(), 1, "{from:?} must occur once");
        in_network(TEXT, &NETWORK.replace(from, to), &[]).unwrap_err().to_string()
    };
    for (from, to, sentence) in [
        (
            "# a network",
            "[run]",
            "net.toml:1: run: this belongs in a scenario; a network file has only network, relays, client, clients, server, servers",
        ),
        ("[network]\n", "[network\n", "net.toml:2: this is not TOML"),
        ("\"3 kB/s\"", "\"3 kB\"", "net.toml:14: relays.b-2.weight: \"3 kB\" is no rate"),
        (
            "US-DE",
            "USA-DE",
            "net.toml:7: network.rtt_matrix.USA-DE: \"USA\" is not a country; a pair is two codes",
        ),
        ("US-DE", "US", "net.toml:7: network.rtt_matrix.US: \"US\" is not a country"),
        (
            "\"100 ms\"",
            "\"-100 ms\"",
            "net.toml:7: network.rtt_matrix.US-DE: \"-100 ms\" is no duration: it is negative",
        ),
        (
            "US-US",
            "DE-US",
            "net.toml:7: network.rtt_matrix.US-DE: this pair is listed in the other order, too",
        ),
        (
            "US-US = \"40 ms\"\n",
            "",
            "net.toml:5: network.rtt_matrix: nodes may be in countries without a round trip between them: US-US; it",
        ),
        ("country = \"DE\"", "country = \"DEU\"", "net.toml:10: relays.a-1.country: \"DEU\" is unknown"),
        (
            "country = \"DE\"",
            "country = \"FR\"",
            "net.toml:5: network.rtt_matrix: nodes may be in countries without a round trip between them: DE-FR, FR-US; it",
        ),
        ("a-1", "\"a 1\"", "net.toml:9: relays.a 1: \"a 1\" is not a name"),
        ("[\"exit\"]", "[\"guard\"]", "clients: no path \"tor\" can be drawn"),
    ] {
        let said = said(from, to);
        assert!(said.contains(sentence), "{said}");
    }
    for (network, sentence) in [
        ("", "net.toml:1: there is no network"),
        ("relays = {}", "net.toml:1: relays: there is no relay"),
        ("network = 5", "net.toml:1: network: 5 is an integer; it must be a section"),
        (
            "[network]\nlatency = 'rtt-matrix'",
            "net.toml:2: network.latency: it is \"rtt-matrix\", and network.rtt_matrix is \"none\"",
        ),
        (
            "[network]\nlatency = 'rtt-matrix'\nrtt_matrix = {}",
            "net.toml:3: network.rtt_matrix: the table is empty",
        ),
        (
            "[network]\nlatency = 'rtt-matrix'\nrtt_matrix = { CH-CH = '1 ms' }",
            "net.toml:3: network.rtt_matrix: the node ",
        ),
    ] {
        let said = in_network(TEXT, network, &[]).unwrap_err().to_string();
        assert!(said.starts_with(sentence), "{said}");
    }
    let fixed = TEXT.replace("path = \"tor\"", "path = [\"relay0001\", \"relay0002\", \"relay0003\"]");
    let said = in_network(&fixed, NETWORK, &[]).unwrap_err().to_string();
    assert!(
        said.starts_with(
            "x.toml:13: clients.web.path: the path goes through \"relay0001\", which is no relay"
        ),
        "{said}"
    );
}

#[test]
fn a_single_short_delay_gives_a_warning() {
    let text = |pairs: &str| {
        format!(
            "[scenario]\ntitle = \"t\"\n[run]\nduration = \"1 min\"\n[network]\nrtt = \"40 ms\"\n{pairs}\n[relays.a]\n[relays.b]\n[relays.c]\n\
             [servers.server]\n[workloads.web]\nsize = \"1 KiB\"\n[clients.web]\ncount = 120\nworkload = \"web\"\npath = [\"a\", \"b\", \"c\"]\n"
        )
    };
    let warnings = |pairs: &str| Document::parse(&text(pairs), "x.toml", &[]).unwrap().warnings().to_vec();
    let pair = |client: usize, rtt: &str| {
        format!("[[network.pairs]]\nbetween = [\"web{client:04}\", \"a\"]\nrtt = \"{rtt}\"\n")
    };
    assert_eq!(warnings(&pair(1, "10 ms")), [""; 0], "a quarter of the usual delay");
    assert_eq!(
        warnings(&(pair(1, "30 ms") + &pair(2, "0.2 ms"))),
        [
            "x.toml:12: network.pairs.1.rtt: the delay between \"web0002\" and \"a\" shortens the simulator's look-ahead from 15 ms to 100 us, so runs of large networks are slower; lengthen it if possible"
        ]
    );
    let small = text(&pair(2, "0.2 ms")).replace("120", "20");
    assert_eq!(Document::parse(&small, "x.toml", &[]).unwrap().warnings(), [""; 0]);
    let many: String = (1..=100).map(|client| pair(client, "0.2 ms")).collect();
    assert_eq!(warnings(&many), [""; 0], "these are not few");
    let group = "[[network.pairs]]\nbetween = [\"web\", \"a\"]\nrtt = \"0.2 ms\"\n";
    assert_eq!(warnings(group), [""; 0], "this group has all clients");
}
