//! Every error is one sentence with the file, the line, the key, and a valid value.

use penstock_scenario::{Document, Error, Point};

/// A valid scenario. Each test damages one line of it.
const GOOD: &str = r#"[scenario]
title = "test"
[run]
seeds = [1, 2]
duration = "10 min"
warmup = "1 s"
stop = { workload = "web", downloads = 10 }
[network]
rtt = "80 ms"
[relay]
link = "10 MiB/s"
edge_control = { kind = "windows", circuit_window = 1000 }
[relays.entry]
[relays.middle]
link = "128 KiB/s"
[relays.exit]
[servers.destination]
[workloads.web]
size = "300 KiB"
pause = "uniform(1 s, 3 s)"
[clients.web]
workload = "web"
path = ["entry", "middle", "exit"]
server = "destination"
[[variants]]
name = "stock"
[[variants]]
name = "50KiB"
set = { "relay.edge_control.circuit_window" = 100 }
"#;

fn parse(text: &str, sets: &[&str]) -> Result<Document, Error> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Document::parse(text, "x.toml", &sets)
}

/// The error for `GOOD` after replacing `from` with `to`.
fn sentence(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from:?} must occur once");
    let sentence = parse(&GOOD.replace(from, to), &[]).unwrap_err().to_string();
    assert!(!sentence.contains('\n'), "{sentence}");
    sentence
}

fn set(set: &str) -> String {
    parse(GOOD, &[set]).unwrap_err().to_string()
}

macro_rules! mistakes {
    ($($name:ident: $from:literal => $to:literal, $sentence:literal;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(sentence($from, $to), $sentence);
        })*
    };
}

#[test]
fn the_good_scenario_is_valid() {
    parse(GOOD, &[]).unwrap();
}

mistakes! {
    a_throttle_of_a_client_is_rejected:
        "workload = \"web\"\npath" => "workload = \"web\"\nthrottle = { kind = \"static\", rate = \"5 KiB/s\" }\npath",
        "x.toml:23: clients.web.throttle.kind: a client serves no other clients that it could throttle; set the throttle of relays";
    a_fixed_path_with_an_adaptive_build_timeout_is_rejected:
        "workload = \"web\"\npath" => "workload = \"web\"\nbuild_timeout = \"adaptive\"\npath",
        "x.toml:23: clients.web.build_timeout: all circuits of this client have the same relays, so another circuit is as slow; set a duration or \"none\", or set path to \"tor\" or \"weighted\"";
    an_unknown_build_timeout_is_rejected:
        "workload = \"web\"\npath" => "workload = \"web\"\nbuild_timeout = \"learned\"\npath",
        "x.toml:23: clients.web.build_timeout: \"learned\" is no duration: it does not start with a number; write it like \"80 ms\" (ns, us, ms, s, min, h); or \"adaptive\"; or \"none\"; or \"auto\"";
    an_unknown_key_of_an_adaptive_build_timeout_is_rejected:
        "workload = \"web\"\npath" => "workload = \"web\"\nbuild_timeout = { min_circuit = 20 }\npath",
        "x.toml:23: clients.web.build_timeout.min_circuit: this key is unknown; did you mean min_circuits?";
    a_close_quantile_below_the_quantile_is_rejected:
        "path = [\"entry\", \"middle\", \"exit\"]" => "path = \"weighted\"\nbuild_timeout = { close_quantile = 0.5 }",
        "x.toml:24: clients.web.build_timeout.close_quantile: 0.5 is too small; it must be at least quantile, 0.8";
    more_timeouts_than_recent_circuits_are_rejected:
        "path = [\"entry\", \"middle\", \"exit\"]" => "path = \"weighted\"\nbuild_timeout = { recent_circuits = 10 }",
        "x.toml:24: clients.web.build_timeout.max_timeouts: 18 is too large; it must be at most recent_circuits, 10";
    a_least_build_timeout_above_the_first_is_rejected:
        "path = [\"entry\", \"middle\", \"exit\"]" => "path = \"weighted\"\nbuild_timeout = { min_timeout = \"2 min\" }",
        "x.toml:24: clients.web.build_timeout.min_timeout: \"2 min\" is too long; it must be at most initial_timeout, \"1 min\"";
    a_duplicate_workload_is_rejected:
        "workload = \"web\"\npath" => "workload = [\"web\", \"web\"]\npath",
        "x.toml:22: clients.web.workload: \"web\" is listed twice; for several circuits of one workload set its circuits";
    an_unknown_key_is_rejected_with_a_similar_one:
        "pause =" => "paus =",
        "x.toml:20: workloads.web.paus: this key is unknown; did you mean pause?";
    an_unknown_section_is_rejected_with_a_similar_one:
        "[network]" => "[netwrk]",
        "x.toml:8: netwrk: this section is unknown; did you mean network?";
    an_unknown_key_without_a_similar_one_is_rejected_with_the_nearest:
        "[relays.middle]\n" => "[relays.middle]\nspeed = \"1 MiB/s\"\n",
        "x.toml:15: relays.middle.speed: this key is unknown; [relays.NAME] takes 41 keys; the most similar are preset, cpu, era, link";
    variants_in_single_brackets_are_rejected:
        "[[variants]]\nname = \"stock\"\n[[variants]]\nname = \"50KiB\"" => "[variants]\nname = \"50KiB\"",
        "x.toml:25: variants: this is one table, but it must be a list of tables; write [[variants]] in double brackets before each";
    a_key_of_another_kind_names_that_kind:
        "[relays.entry]" => "[relays.entry]\nhop_control.n2 = 20",
        "x.toml:14: relays.entry.hop_control.n2: the kind \"none\" does not take this key; set kind = \"n23\"";
    an_unknown_key_of_a_variant_is_rejected:
        "name = \"stock\"" => "nam = \"stock\"",
        "x.toml:26: variants.0.nam: this key is unknown; did you mean name?";
    a_change_of_a_fixed_key_is_rejected:
        "[[variants]]\nname = \"stock\"" => "[[changes]]\nat = \"5 s\"\nset = { \"relays.middle.link\" = \"1 MiB/s\" }\n[[variants]]\nname = \"stock\"",
        "x.toml:27: relays.middle.link: this cannot change in a run; only bandwidth_rate, bandwidth_burst, circuit_policy, throttle of [relay], [relays.NAME], [client] and [clients.NAME] can";
    a_change_of_the_network_is_rejected:
        "[[variants]]\nname = \"stock\"" => "[[changes]]\nat = \"5 s\"\nset = { \"network.rtt\" = \"1 s\" }\n[[variants]]\nname = \"stock\"",
        "x.toml:27: network.rtt: this cannot change in a run; only bandwidth_rate, bandwidth_burst, circuit_policy, throttle of [relay], [relays.NAME], [client] and [clients.NAME] can";
    a_change_after_the_end_is_rejected:
        "[[variants]]\nname = \"stock\"" => "[[changes]]\nat = \"10 min\"\nset = { \"relay.circuit_policy\" = \"ewma\" }\n[[variants]]\nname = \"stock\"",
        "x.toml:26: changes.0.at: \"10 min\" is not within the run; it must be shorter than run.duration, \"10 min\"";
    changes_out_of_order_are_rejected:
        "[[variants]]\nname = \"stock\"" => "[[changes]]\nat = \"5 s\"\nset = { \"relay.circuit_policy\" = \"ewma\" }\n[[changes]]\nat = \"4 s\"\nset = { \"relay.circuit_policy.half_life\" = \"1 s\" }\n[[variants]]\nname = \"stock\"",
        "x.toml:29: changes.1.at: \"4 s\" is before the change above it; changes must be in the order of time";
    a_change_that_changes_nothing_is_rejected:
        "[[variants]]\nname = \"stock\"" => "[[changes]]\nat = \"5 s\"\nset = { \"relay.circuit_policy\" = \"round-robin\" }\n[[variants]]\nname = \"stock\"",
        "x.toml:27: changes.0.set: this changes nothing; it must set a value that some of these nodes do not have already";
    a_change_to_no_rate_is_rejected_if_a_throttle_divides_the_rate:
        "[relays.middle]" => "[[changes]]\nat = \"5 s\"\nset = { \"relays.middle.bandwidth_rate\" = \"none\" }\n[relays.middle]\nbandwidth_rate = \"1 MiB/s\"\nthrottle = \"bit-splitting\"",
        "x.toml:19: relays.middle.throttle.kind: \"bit-splitting\" needs a rate to divide; set bandwidth_rate";
    a_client_without_workloads_is_rejected:
        "workload = \"web\"\npath" => "workload = []\npath",
        "x.toml:22: clients.web.workload: the list is empty; it must be a workload, or several";
    a_shared_circuit_cannot_be_fresh_for_each_download:
        "[clients.web]\nworkload = \"web\"" => "[workloads.bulk]\nsize = \"5 MiB\"\nfresh_circuit = true\n[clients.web]\nworkload = [\"web\", \"bulk\"]",
        "x.toml:25: clients.web.workload: \"bulk\" has circuits of its own, and several workloads of a client share one; set isolate_workloads = true";
    a_client_without_tor_has_one_workload:
        "workload = \"web\"\npath = [\"entry\", \"middle\", \"exit\"]" => "workload = [\"web\", \"web\"]\npath = []",
        "x.toml:23: clients.web.path: a client without Tor downloads one file at a time; it must have a path, or one workload";
    a_change_of_a_sampled_rate_is_rejected:
        "[relays.middle]" => "[[changes]]\nat = \"5 s\"\nset = { \"relays.middle.bandwidth_burst\" = \"8 MiB\" }\n[relays.middle]\nbandwidth_rate = \"quantiles(1 MiB/s, 2 MiB/s)\"",
        "x.toml:16: changes.0.set: the bandwidth_rate of \"middle\" is drawn for each seed, and such a rate cannot change in a run; write one rate";
    a_change_of_an_unknown_relay_is_rejected:
        "[[variants]]\nname = \"stock\"" => "[[changes]]\nat = \"5 s\"\nset = { \"relays.midle.circuit_policy\" = \"ewma\" }\n[[variants]]\nname = \"stock\"",
        "x.toml:27: relays.midle: there is no \"midle\" to override; [relays] has entry, exit, middle";
    a_throttle_without_a_bandwidth_to_divide_is_rejected:
        "[relays.entry]" => "[relays.entry]\nthrottle = \"bit-splitting\"",
        "x.toml:14: relays.entry.throttle.kind: \"bit-splitting\" needs a rate to divide; set bandwidth_rate";
    a_static_throttle_without_a_rate_is_rejected:
        "[relays.entry]" => "[relays.entry]\nthrottle = \"static\"",
        "x.toml:14: relays.entry.throttle.rate: this key is missing; it must be a rate with its unit, like \"10 MiB/s\"";
    a_throttle_with_a_key_of_another_kind_is_rejected:
        "[relays.entry]" => "[relays.entry]\nthrottle = { kind = \"static\", rate = \"5 KiB/s\", penalty = 0.5 }",
        "x.toml:14: relays.entry.throttle.penalty: the kind \"static\" does not take this key; set kind = \"flagging\"";
    a_penalty_above_one_is_rejected:
        "[relays.entry]" => "[relays.entry]\nthrottle = { kind = \"flagging\", penalty = 1.5 }",
        "x.toml:14: relays.entry.throttle.penalty: 1.5 is a number and out of range; it must be a fraction from 0 to 1, like 0.5";
    a_client_bucket_too_small_for_a_refill_is_rejected:
        "[relays.entry]" => "[relays.entry]\nthrottle = { kind = \"threshold\", burst = \"4 KiB\" }",
        "x.toml:14: relays.entry.throttle.burst: \"4 KiB\" is less than one refill brings: \"5 KiB/s\" in \"1 s\"; it must be at least \"5 KiB\"";
    a_throttle_refresh_shorter_than_the_refill_is_rejected:
        "[relays.entry]" => "[relays.entry]\nthrottle = { kind = \"threshold\", refresh = \"1 ms\" }",
        "x.toml:14: relays.entry.throttle.refresh: clients are chosen at refills, so it must be at least as long as refill";
    a_throttle_for_all_clients_is_rejected:
        "[relays.entry]" => "[relays.entry]\nthrottle = { kind = \"threshold\", fraction = 1.0 }",
        "x.toml:14: relays.entry.throttle.fraction: 1 is a number and out of range; it must be a fraction from 0 to below 1, like 0.01";
    a_change_to_an_impossible_throttle_is_rejected:
        "[[variants]]\nname = \"stock\"" => "[[changes]]\nat = \"5 s\"\nset = { \"relay.throttle\" = \"flagging\" }\n[[variants]]\nname = \"stock\"",
        "x.toml:27: relays.entry.throttle.kind: \"flagging\" needs a rate to divide; set bandwidth_rate";
    a_wrong_type_is_rejected:
        "size = \"300 KiB\"" => "size = true",
        "x.toml:19: workloads.web.size: true is a boolean; it must be a size like \"300 KiB\", \"uniform(100 KiB, 500 KiB)\", \"quantiles(LEAST, ..., GREATEST)\" or \"mix(0.9: 50 KiB, 0.1: 5 MiB)\"; or \"none\"";
    an_empty_workload_is_rejected:
        "size = \"300 KiB\"" => "",
        "x.toml:18: workloads.web: this workload does nothing; set size (the bytes of a download), hold or tgen";
    a_workload_of_two_kinds_is_rejected:
        "size = \"300 KiB\"" => "size = \"300 KiB\"\nhold = \"1 s\"",
        "x.toml:20: workloads.web.hold: this workload has a size, too; it must be one of size, hold and tgen";
    a_stop_after_downloads_of_a_workload_without_downloads_is_rejected:
        "size = \"300 KiB\"" => "hold = \"1 s\"",
        "x.toml:7: run.stop.workload: \"web\" downloads nothing; name a workload with size or tgen";
    a_log_normal_pause_with_its_median_above_its_end_is_rejected:
        "\"uniform(1 s, 3 s)\"" => "\"lognormal(10 s, 1, 3 s)\"",
        "x.toml:20: workloads.web.pause: \"lognormal(10 s, 1, 3 s)\" has its median above its end; it must be \"lognormal(MEDIAN, SIGMA, MOST)\"";
    a_log_normal_pause_with_a_wrong_deviation_is_rejected:
        "\"uniform(1 s, 3 s)\"" => "\"lognormal(10 s, 1 s, 30 s)\"",
        "x.toml:20: workloads.web.pause: \"1 s\" is not a deviation of the logarithm; it must be a number from 0 to 10, as in \"lognormal(10 s, 1.0, 120 s)\"";
    a_client_without_tor_that_uses_several_circuits_is_rejected:
        "pause = \"uniform(1 s, 3 s)\"\n[clients.web]\nworkload = \"web\"\npath = [\"entry\", \"middle\", \"exit\"]" =>
            "circuits = 2\n[clients.web]\nworkload = \"web\"\npath = []",
        "x.toml:23: clients.web.path: a client without Tor has no circuits, and \"web\" is about circuits; it must have a path, or a workload of downloads, one at a time";
    a_value_instead_of_a_section_is_rejected:
        "[scenario]" => "relay = 3\n[scenario]",
        "x.toml:11: this is not TOML: duplicate key";
    a_missing_unit_is_rejected:
        "link = \"128 KiB/s\"" => "link = 128",
        "x.toml:15: relays.middle.link: 128 is an integer; it must be a rate with its unit, like \"10 MiB/s\", or \"quantiles(LEAST, ..., GREATEST)\" of rates, or \"place\"";
    a_missing_unit_in_a_string_is_rejected:
        "link = \"128 KiB/s\"" => "link = \"128\"",
        "x.toml:15: relays.middle.link: \"128\" is no rate: the unit is missing; write it like \"128 KiB/s\" (B/s, kB/s, KiB/s, MB/s, MiB/s, GiB/s, kbit/s, Mbit/s, Gbit/s)";
    a_wrong_unit_is_rejected:
        "rtt = \"80 ms\"" => "rtt = \"80 KiB\"",
        "x.toml:9: network.rtt: \"80 KiB\" is no duration: the unit \"KiB\" is unknown; write it like \"80 ms\" (ns, us, ms, s, min, h)";
    a_zero_rate_is_rejected:
        "link = \"128 KiB/s\"" => "link = \"0 KiB/s\"",
        "x.toml:15: relays.middle.link: \"0 KiB/s\" is no rate: it is zero; a rate must be at least \"1 B/s\"";
    a_negative_delay_is_rejected:
        "rtt = \"80 ms\"" => "rtt = \"-80 ms\"",
        "x.toml:9: network.rtt: \"-80 ms\" is no duration: it is negative; write it like \"80 ms\" (ns, us, ms, s, min, h)";
    a_sample_with_too_many_rows_is_rejected:
        "warmup = \"1 s\"" => "sample = \"1 ns\"",
        "x.toml:6: run.sample: \"1 ns\" gives too many rows of output; it must be at least \"1 ms\"";
    a_trace_with_too_many_rows_is_rejected:
        "[network]" => "[trace]\ninterval = \"999 us\"\n[network]",
        "x.toml:9: trace.interval: \"999 us\" gives too many rows of output; it must be at least \"1 ms\"";
    a_number_out_of_range_is_rejected:
        "downloads = 10" => "downloads = 99999999999999999999",
        "x.toml:7: run.stop.downloads: 99999999999999999999 is out of range; an integer must be from -9223372036854775808 to 9223372036854775807";
    a_key_that_is_set_twice_in_a_variant_is_rejected:
        "\"relay.edge_control.circuit_window\" = 100" => "\"network.latency\" = \"even\", \"network.latency.near\" = \"10 ms\"",
        "x.toml:29: network.latency.near: the key is set twice here; leave one of the two out";
    a_zero_round_trip_is_rejected:
        "rtt = \"80 ms\"" => "rtt = \"0 s\"",
        "x.toml:9: network.rtt: \"0 s\" is zero; it must be longer, like \"100 ms\"";
    decreasing_quantiles_are_rejected:
        "[network]" => "[network]\nlatency = { near = \"quantiles(20 ms, 10 ms)\" }",
        "x.toml:9: network.latency.near: quantiles must grow; \"20 ms\" is above \"10 ms\"";
    one_quantile_is_rejected:
        "[network]" => "[network]\nlatency = { near = \"quantiles(20 ms)\" }",
        "x.toml:9: network.latency.near: quantiles need two values at least, the smallest and the largest";
    a_quantile_without_its_unit_is_rejected:
        "[network]" => "[network]\nlatency = { near = \"quantiles(10 ms, 20)\" }",
        "x.toml:9: network.latency.near: \"20\" is no duration: the unit is missing; write it like \"80 ms\" (ns, us, ms, s, min, h)";
    a_path_through_a_missing_relay_is_rejected:
        "\"middle\", \"exit\"]" => "\"midle\", \"exit\"]",
        "x.toml:23: clients.web.path: the path goes through \"midle\", which is no relay; there are entry, exit, middle";
    a_path_with_a_duplicate_relay_is_rejected:
        "\"middle\", \"exit\"]" => "\"middle\", \"entry\"]",
        "x.toml:23: clients.web.path: the path goes through \"entry\" twice; its relays must be different";
    a_missing_server_is_rejected:
        "server = \"destination\"" => "server = \"dest\"",
        "x.toml:24: clients.web.server: there is no server \"dest\"; [servers] has destination";
    a_missing_workload_is_rejected:
        "workload = \"web\"\npath" => "workload = \"wbe\"\npath",
        "x.toml:22: clients.web.workload: there is no workload \"wbe\"; [workloads] has web";
    a_duplicate_node_name_is_rejected:
        "[servers.destination]" => "[servers.middle]",
        "x.toml:17: servers.middle: the name \"middle\" is taken by [relays.middle]; relays, clients and servers must all be named differently";
    a_duplicate_table_is_rejected:
        "[relays.exit]" => "[relays.entry]",
        "x.toml:16: this is not TOML: duplicate key";
    a_name_with_other_characters_is_rejected:
        "[relays.exit]" => "[relays.\"ex it\"]",
        "x.toml:16: relays.ex it: \"ex it\" is not a name; it must consist of letters, digits, '_' and '-'";
    a_circuit_window_out_of_range_is_rejected:
        "circuit_window = 1000" => "circuit_window = 50",
        "x.toml:12: relay.edge_control.circuit_window: 50 is out of range; it must be a whole number [cell] from 100 to 1000";
    a_circuit_window_out_of_range_names_its_variant:
        "circuit_window\" = 100 " => "circuit_window\" = 1001 ",
        "x.toml:29: variant \"50KiB\": relay.edge_control.circuit_window: 1001 is out of range; it must be a whole number [cell] from 100 to 1000";
    an_unknown_key_names_its_variant:
        "relay.edge_control.circuit_window\"" => "relay.edge_control.window\"",
        "x.toml:29: variant \"50KiB\": relay.edge_control.window: this key is unknown; the kind \"windows\" takes kind, circuit_window, stream_window, sendme_bug_101, early_sendmes, ends";
    a_key_of_another_algorithm_names_this_algorithm:
        "\"relay.edge_control.circuit_window\" = 100 " => "\"relay.scheduler.circuit_window\" = 100 ",
        "x.toml:29: variant \"50KiB\": relay.scheduler.circuit_window: this key is unknown here; circuit_window belongs to edge_control = \"windows\"/\"vegas\"/\"dctcp\"/\"timely\"";
    a_variant_cannot_add_a_relay_by_a_typo:
        "\"relay.edge_control.circuit_window\" = 100" => "\"relays.midle.link\" = \"1 MiB/s\"",
        "x.toml:29: variant \"50KiB\": relays.midle: there is no \"midle\" to override; [relays] has entry, exit, middle";
    a_variant_cannot_have_its_own_seeds:
        "\"relay.edge_control.circuit_window\" = 100" => "\"run.seeds\" = [3]",
        "x.toml:29: variant \"50KiB\": run.seeds: all variants have the same seeds: set them in [run]";
    a_warmup_as_long_as_the_run_is_rejected:
        "warmup = \"1 s\"" => "warmup = \"10 min\"",
        "x.toml:6: run.warmup: \"10 min\" leaves no time to measure; it must be shorter than run.duration, \"10 min\"";
    a_stop_at_a_workload_without_clients_is_rejected:
        "stop = { workload = \"web\", downloads = 10 }\n" => "stop = { workload = \"idle\", downloads = 10 }\n[workloads.idle]\nsize = \"1 KiB\"\n",
        "x.toml:7: run.stop.workload: no client has the workload \"idle\"; name a client's workload";
    a_stop_at_an_unknown_workload_is_rejected:
        "{ workload = \"web\"," => "{ workload = \"bulk\",",
        "x.toml:7: run.stop.workload: there is no workload \"bulk\"; [workloads] has web";
    an_incomplete_stop_is_rejected:
        ", downloads = 10" => "",
        "x.toml:7: run.stop.downloads: this key is missing; it must be a whole number from 1";
    empty_seeds_are_rejected:
        "seeds = [1, 2]" => "seeds = []",
        "x.toml:4: run.seeds: the list is empty; it must be a list of different whole numbers from 0, at least one, like [1, 2, 3]";
    a_duplicate_seed_is_rejected:
        "seeds = [1, 2]" => "seeds = [1,\n 1]",
        "x.toml:5: run.seeds: 1 is listed twice; it must be a list of different whole numbers from 0, at least one, like [1, 2, 3]";
    a_duplicate_variant_name_is_rejected:
        "name = \"50KiB\"" => "name = \"stock\"",
        "x.toml:28: variants: two variants have the name \"stock\"; every variant needs its own name";
    an_unknown_kind_is_rejected_with_the_known_ones:
        "kind = \"windows\"" => "kind = \"cubic\"",
        "x.toml:12: relay.edge_control.kind: \"cubic\" is unknown; the kind must be one of windows, dynamic-windows, vegas, dctcp, timely";
    an_unknown_version_of_vegas_is_rejected:
        "kind = \"windows\", circuit_window = 1000" => "kind = \"vegas\", version = \"0.4.8\"",
        "x.toml:12: relay.edge_control.version: \"0.4.8\" is unknown; it must be one of 0.4.9, 0.4.7";
    a_congestion_window_without_room_for_a_sendme_is_rejected:
        "kind = \"windows\", circuit_window = 1000" => "kind = \"vegas\", cwnd_min = 30",
        "x.toml:12: relays.entry.edge_control.cwnd_min: 30 is less than sendme_inc, 31: no SENDME would ever come; it must be at least as many";
    a_congestion_window_above_its_maximum_is_rejected:
        "kind = \"windows\", circuit_window = 1000" => "kind = \"dctcp\", cwnd_init = 1001",
        "x.toml:12: relays.entry.edge_control.cwnd_init: 1001 is more than cwnd_max, 1000; it must be at most as many";
    a_t_low_above_t_high_is_rejected:
        "kind = \"windows\", circuit_window = 1000" => "kind = \"timely\", t_low = \"200 ms\"",
        "x.toml:12: relays.entry.edge_control.t_low: t_low is \"200 ms\" and t_high is \"100 ms\"; the low mark must be below the high one";
    a_parameter_of_vegas_must_be_a_number:
        "kind = \"windows\", circuit_window = 1000" => "kind = \"vegas\", alpha = \"many\"",
        "x.toml:12: relay.edge_control.alpha: \"many\" is a string; it must be a whole number [cell] from 0 to 100000; or \"version\"";
    a_burst_below_one_lazy_refill_is_rejected:
        "[relays.middle]" => "[relays.middle]\nbandwidth_rate = \"1 MiB/s\"\nbandwidth_burst = \"64 KiB\"\nrefill = \"16 ms\"\nrefill_unblock = \"100 ms\"",
        "x.toml:16: relays.middle.bandwidth_burst: \"64 KiB\" is less than one refill brings: \"1 MiB/s\" in \"100 ms\"; it must be at least \"104857 B\"";
    credits_for_no_cells_are_rejected:
        "[relays.middle]" => "[relays.middle]\nhop_control = { kind = \"n23\", n2 = 0 }",
        "x.toml:15: relays.middle.hop_control.n2: 0 is out of range; it must be a whole number [cell] from 1 to 100000";
    an_adaptive_n3_that_starts_out_of_its_range_is_rejected:
        "[relays.middle]" => "[relays.middle]\nhop_control = { kind = \"n23\", n3 = 70, adapt = { law = \"exponential\" } }",
        "x.toml:15: relays.middle.hop_control.n3: 70 is the first value of an adaptive N3; it must be from 100 to 500 cells";
    credits_for_more_than_a_queue_may_hold_are_rejected:
        "[relays.middle]" => "[relays.middle]\nhop_control = { kind = \"n23\", n2 = 10, n3 = 2491 }",
        "x.toml:15: relays.middle.hop_control.n3: a circuit's queue may hold 2501 cells (N2, the greatest N3, and the credits in it), and the circuit is closed at max_circuit_queue, 2500; that must be at least as many";
    credits_that_share_a_full_queue_are_rejected:
        "[relays.middle]" => "[relays.middle]\nhop_control = { kind = \"n23\", n2 = 10, n3 = 2480, credit_path = \"circuit\" }",
        "x.toml:15: relays.middle.hop_control.n3: a circuit's queue may hold 2740 cells (N2, the greatest N3, and the credits in it), and the circuit is closed at max_circuit_queue, 2500; that must be at least as many";
    a_key_of_another_law_is_rejected:
        "[relays.middle]" => "[relays.middle]\nhop_control = { kind = \"n23\", adapt = { law = \"kung94\", step = 3 } }",
        "x.toml:15: relays.middle.hop_control.adapt.step: the law \"kung94\" has no step; leave it out";
    an_unknown_law_is_rejected_with_the_known_ones:
        "[relays.middle]" => "[relays.middle]\nhop_control = { kind = \"n23\", adapt = { law = \"halving\" } }",
        "x.toml:15: relays.middle.hop_control.adapt.law: \"halving\" is unknown; it must be one of exponential, kung94";
    an_unknown_value_of_ends_is_rejected:
        "circuit_window = 1000 }" => "circuit_window = 1000, ends = \"off\" }",
        "x.toml:12: relay.edge_control.ends: \"off\" is unknown; it must be one of enforced, ignored, suppressed";
    a_missing_key_is_rejected:
        "duration = \"10 min\"\n" => "",
        "x.toml:3: run.duration: this key is missing; it must be a duration with its unit, like \"80 ms\"";
    a_file_that_is_not_toml_is_rejected:
        "title = \"test\"" => "title = \"test",
        "x.toml:2: this is not TOML: invalid basic string, expected `\"`";
    a_size_of_a_mix_without_a_weight_is_rejected:
        "size = \"300 KiB\"" => "size = \"mix(0.5: 50 KiB, 1 MiB)\"",
        "x.toml:19: workloads.web.size: \"\" is not a weight of \"1 MiB\"; it must be a number above 0, as in \"mix(0.9: 50 KiB, 0.1: 5 MiB)\"; or \"none\"";
    a_negative_weight_is_rejected:
        "size = \"300 KiB\"" => "size = \"mix(-1: 50 KiB)\"",
        "x.toml:19: workloads.web.size: \"-1\" is not a weight of \"50 KiB\"; it must be a number above 0, as in \"mix(0.9: 50 KiB, 0.1: 5 MiB)\"; or \"none\"";
    decreasing_size_quantiles_are_rejected:
        "size = \"300 KiB\"" => "size = \"quantiles(2 KiB, 1 KiB)\"",
        "x.toml:19: workloads.web.size: quantiles must grow; \"2 KiB\" is above \"1 KiB\"; or \"none\"";
    decreasing_pause_quantiles_are_rejected:
        "uniform(1 s, 3 s)" => "quantiles(2 s, 1 s)",
        "x.toml:20: workloads.web.pause: quantiles must grow; \"2 s\" is above \"1 s\"";
    a_tor_preset_is_no_workload_preset:
        "size = \"300 KiB\"" => "preset = \"tor-0.2.3\"",
        "x.toml:19: workloads.web.preset: \"tor-0.2.3\" is unknown; it must be one of web, bulk, perf50k, perf1m, perf5m, mix-2008; or \"none\"";
    a_model_without_a_start_is_rejected:
        "size = \"300 KiB\"" => "tgen = { packets = { transitions = [\"a -> a: 1\"], emissions = [\"a -> F: 1\"] } }",
        "x.toml:19: workloads.web.tgen.packets.transitions: no transition or emission has the start state \"start\"; add \"start -> STATE: 1\"";
    a_state_without_an_emission_is_rejected:
        "size = \"300 KiB\"" => "tgen = { packets = { transitions = [\"start -> a: 1\", \"a -> a: 1\"], emissions = [\"b -> F: 1\"] } }",
        "x.toml:19: workloads.web.tgen.packets.transitions: the model can enter the state \"a\", which has no emission; add one";
    a_negative_weight_of_a_transition_is_rejected:
        "size = \"300 KiB\"" => "tgen = { packets = { transitions = [\"start -> a: -1\"], emissions = [\"a -> F: 1\"] } }",
        "x.toml:19: workloads.web.tgen.packets.transitions: \"-1\" is not a weight; it must be a number from 0";
    an_emission_without_a_delay_is_rejected:
        "size = \"300 KiB\"" => "tgen = { packets = { transitions = [\"start -> a: 1\"], emissions = [\"a -> +: 1\"] } }",
        "x.toml:19: workloads.web.tgen.packets.emissions: \"a -> +: 1\" needs a delay until the next emission, and the end has none; write it like \"a -> +: 0.5 after exponential(3 ms)\"";
    a_delay_with_other_parameters_is_rejected:
        "size = \"300 KiB\"" => "tgen = { packets = { transitions = [\"start -> a: 1\"], emissions = [\"a -> +: 1 after pareto(1 s)\"] } }",
        "x.toml:19: workloads.web.tgen.packets.emissions: \"pareto(1 s)\" has other parameters; it must be \"pareto(LEAST, SHAPE)\"";
    endless_streams_without_delays_are_rejected:
        "size = \"300 KiB\"" => "tgen = { packets = { transitions = [\"start -> a: 1\"], emissions = [\"a -> F: 1\"] }, streams = { transitions = [\"start -> a: 1\", \"a -> a: 1\"], emissions = [\"a -> +: 1 after 0 s\"] } }",
        "x.toml:19: workloads.web.tgen.streams: the model never ends after the state \"a\", and has no delay; add an emission F or a delay";
    uniform_bounds_in_the_wrong_order_are_rejected:
        "uniform(1 s, 3 s)" => "uniform(3 s, 1 s)",
        "x.toml:20: workloads.web.pause: \"uniform(3 s, 1 s)\" starts above its end; it must be \"uniform(LOW, HIGH)\"";
    a_distribution_with_other_parameters_is_rejected:
        "uniform(1 s, 3 s)" => "normal(1 s)",
        "x.toml:20: workloads.web.pause: \"normal(1 s)\" has other parameters; it must be \"normal(MEAN, DEVIATION)\"";
    an_impossible_loss_is_rejected:
        "rtt = \"80 ms\"" => "loss = 1.5",
        "x.toml:9: network.loss: 1.5 is a number and out of range; it must be a fraction from 0 to below 1, like 0.01";
    a_burst_without_a_rate_is_rejected:
        "[relays.middle]" => "[relays.middle]\nbandwidth_burst = \"1 MiB\"",
        "x.toml:15: relays.middle.bandwidth_burst: there is a burst but no rate; set bandwidth_rate too";
    a_burst_below_a_refill_is_rejected:
        "[relays.middle]" => "[relays.middle]\nbandwidth_rate = \"1 MiB/s\"\nbandwidth_burst = \"512 KiB\"",
        "x.toml:16: relays.middle.bandwidth_burst: \"512 KiB\" is less than one refill brings: \"1 MiB/s\" in \"1 s\"; it must be at least \"1 MiB\"";
    low_marks_above_high_ones_are_rejected:
        "[relays.middle]" => "[relays.middle]\nscheduler = { outbuf_low = \"64 KiB\" }",
        "x.toml:15: relays.middle.scheduler.outbuf_low: outbuf_low is \"64 KiB\" and outbuf_high is \"32 KiB\"; the low mark must be below the high one";
    a_rate_without_a_bucket_is_rejected:
        "[relays.middle]" => "[relays.middle]\nscheduler = { kind = \"kist\", rate = \"1 MiB/s\" }",
        "x.toml:15: relays.middle.scheduler.rate: global_limit is \"drained\" and has no bucket; rate needs \"rate\"";
    a_rate_beside_a_measured_limit_is_rejected:
        "[relays.middle]" => "[relays.middle]\nscheduler = { kind = \"kist\", global_limit = \"measured\", rate = \"1 MiB/s\" }",
        "x.toml:15: relays.middle.scheduler.rate: global_limit is \"measured\" and has no bucket; rate needs \"rate\"";
    a_scheduler_without_an_interval_is_rejected:
        "[relays.middle]" => "[relays.middle]\nscheduler = { kind = \"kist-deployed\", interval = \"0 s\" }",
        "x.toml:15: relays.middle.scheduler.interval: \"0 s\" is zero; it must be longer, like \"100 ms\"";
    a_pair_with_a_missing_node_is_rejected:
        "[relay]" => "[[network.pairs]]\nbetween = [\"web\", \"guard\"]\n[relay]",
        "x.toml:11: network.pairs.0.between: there is no node \"guard\"; there are destination, entry, exit, middle, web";
    a_pair_of_one_node_is_rejected:
        "[relay]" => "[[network.pairs]]\nbetween = [\"entry\", \"entry\"]\n[relay]",
        "x.toml:11: network.pairs.0.between: it names the node \"entry\" twice; it must be two nodes, or a group of nodes twice";
    a_pair_that_is_listed_twice_is_rejected:
        "[relay]" => "[[network.pairs]]\nbetween = [\"entry\", \"exit\"]\n[[network.pairs]]\nbetween = [\"exit\", \"entry\"]\n[relay]",
        "x.toml:13: network.pairs.1.between: the pair \"entry\" and \"exit\" is listed twice; leave one of the two out";
    a_group_name_in_a_path_is_rejected:
        "[relays.middle]" => "[relays.middle]\ncount = 2",
        "x.toml:24: clients.web.path: \"middle\" is a group of relays; name one of middle0001, middle0002";
    a_scenario_needs_a_client:
        "[clients.web]\nworkload = \"web\"\npath = [\"entry\", \"middle\", \"exit\"]\nserver = \"destination\"\n" => "",
        "x.toml: clients: there is no client; write one as [clients.NAME], with a workload";
}

#[test]
fn an_error_in_a_set_names_the_set() {
    let cases = [
        (
            "relays.middle.link=0 KiB/s",
            "relays.middle.link: \"0 KiB/s\" is no rate: it is zero; a rate must be at least \"1 B/s\"",
        ),
        ("relays.middle.lnk=\"1 MiB/s\"", "relays.middle.lnk: this key is unknown; did you mean link?"),
        (
            "relays.midle.link=\"1 MiB/s\"",
            "relays.midle: there is no \"midle\" to override; [relays] has entry, exit, middle",
        ),
        ("run.seeds=[]", "run.seeds: the list is empty; it must be "),
        ("rtt", "it must be key=value, like run.duration=\"10 min\""),
        ("run.duration=\"10", "the value is not TOML; a string needs quotes that the shell leaves"),
        ("scenario.include=x.toml", "an override cannot include files; write include in the scenario file"),
        (
            "scenario={ include = 'x.toml' }",
            "an override cannot include files; write include in the scenario file",
        ),
        (
            "run.stop.downloads=99999999999999999999",
            "run.stop.downloads: 99999999999999999999 is out of range; an integer must be from -9223372036854775808",
        ),
        (
            "network.pairs.0.rtt=10 ms",
            "network.pairs: this is one table, but it must be a list of tables; an override replaces the whole list, like network.pairs = [{ ... }, { ... }]",
        ),
    ];
    for (text, expected) in cases {
        let sentence = set(text);
        let expected = format!("--set {text}: {expected}");
        assert!(sentence.starts_with(&expected), "{sentence}\n{expected}");
    }
}

#[test]
fn an_unknown_variant_is_rejected_with_the_known_ones() {
    let mistake = parse(GOOD, &[]).unwrap().scenario("100KiB").unwrap_err();
    assert_eq!(mistake.to_string(), "x.toml: there is no variant \"100KiB\"; there are stock, 50KiB");
}

#[test]
fn a_weighted_path_needs_enough_relays() {
    let text = GOOD
        .replace("path = [\"entry\", \"middle\", \"exit\"]", "path = \"weighted\"")
        .replace("[relays.exit]\n", "");
    let mistake = parse(&text, &[]).unwrap_err();
    assert_eq!((mistake.line(), mistake.key()), (Some(22), "clients.web.path"));
    assert_eq!(mistake.message(), "a weighted path takes 3 relays; there are 2; reduce hops, or add relays");
}

#[test]
fn linked_circuits_need_congestion_control_and_a_second_path() {
    let of = |sets: &[&str]| {
        let mistake = parse(GOOD, sets).unwrap_err();
        (mistake.key().to_owned(), mistake.message().to_owned())
    };
    let (key, message) = of(&["client.conflux=true"]);
    assert_eq!(key, "clients.web.conflux");
    assert_eq!(
        message,
        "linked circuits need congestion control; set edge_control to \"vegas\", or set conflux = false"
    );
    let both = ["client.conflux=true", "client.edge_control.kind=vegas"];
    let (_, message) = of(&both);
    assert_eq!(
        message,
        "linked circuits need the relays of a second leg; set conflux_path, or conflux = false"
    );
    let second = |path: &str| of(&[both[0], both[1], &format!("client.conflux_path={path}")]);
    let (key, message) = second("['entry', 'exit']");
    assert_eq!(key, "clients.web.conflux_path");
    assert_eq!(message, "both legs go through \"entry\"; they may share only the exit");
    for path in ["['middle', 'entry']", "['exit', 'exit']", "['entry', 'exit', 'middle']"] {
        let (_, message) = second(path);
        let ends = "the second leg must end at \"exit\" and use it, and each other relay, once";
        let shared = "they may share only the exit";
        assert!(message == ends || message.ends_with(shared), "{path}: {message}");
    }
    assert_eq!(second("['exit']").1, "the second leg has 1 relays; it must have 2 to 8");
    let (_, message) = of(&[both[0], both[1], "clients.web.path=weighted"]);
    assert_eq!(message, "two linked circuits take 5 relays, and there are 3; set conflux = false");
}

#[test]
fn an_unknown_preset_is_rejected_with_the_known_ones() {
    let known =
        "is unknown; it must be one of tor-0.2.2, tor-0.2.3, tor-0.4.9-noconflux, tor-0.4.9; or \"none\"";
    let line =
        |section: &str, more: &str| sentence(&format!("[{section}]\n"), &format!("[{section}]\n{more}\n"));
    for (section, number) in [("relay", 11), ("relays.middle", 15), ("clients.web", 22)] {
        let expected = format!("x.toml:{number}: {section}.preset: \"tor-9\" {known}");
        assert_eq!(line(section, "preset = \"tor-9\""), expected);
    }
    assert_eq!(
        set("client.preset=tor-9"),
        format!("--set client.preset=tor-9: client.preset: \"tor-9\" {known}")
    );
    assert!(
        line("relay", "preset = 2").contains("relay.preset: 2 is an integer; it must be one of tor-0.2.2")
    );
    assert!(line("servers.destination", "preset = \"tor-0.2.2\"").contains("this key is unknown"));
    assert_eq!(
        line("relays.middle", "preset = \"tor-0.2.2\"\nedge_queue_high = 50"),
        "x.toml:16: relays.middle.edge_queue_high: edge_queue_low is 64 and edge_queue_high is 50; the low mark must be below the high one"
    );
}

#[test]
fn no_input_causes_a_panic() {
    // Every prefix of a valid file, and the file without each one of its lines.
    for end in (0..=GOOD.len()).filter(|end| GOOD.is_char_boundary(*end)) {
        let _ = parse(&GOOD[..end], &[]);
    }
    let lines: Vec<&str> = GOOD.lines().collect();
    for left_out in 0..lines.len() {
        let rest: Vec<&str> =
            lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
        let _ = parse(&rest.join("\n"), &[]);
    }
    // Each value replaced by one value of each type.
    for line in lines.iter().filter(|line| line.contains(" = ")) {
        let (key, _) = line.split_once(" = ").unwrap();
        for value in [
            "-1",
            "0",
            "99999999999999999999",
            "0.5",
            "nan",
            "true",
            "\"\"",
            "\"x\"",
            "[]",
            "[[]]",
            "{}",
            "{ kind = 1 }",
            "2020-01-01",
            "\"99999999999 GiB/s\"",
            "\"uniform(,)\"",
            "\"mix()\"",
            "\"mix(NaN: 1 B, inf: 1 B)\"",
            "\"quantiles(,)\"",
            "\"pareto(1 s, nan)\"",
            "[\"a -> b: 1\"]",
            "{ packets = 1 }",
        ] {
            let _ = parse(&GOOD.replace(line, &format!("{key} = {value}")), &[]);
        }
    }
}

#[test]
fn an_invalid_point_of_a_grid_is_rejected_with_its_sets() {
    let sweep = |only: &[&str], said: &str| {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let good = Point { name: "good".to_owned(), sets: vec!["relays.middle.link=1 MiB/s".to_owned()] };
        let point = Point { name: "point".to_owned(), sets: vec![said.to_owned()] };
        let sets = ["network.rtt=20 ms".to_owned()];
        Document::in_network(GOOD, "x.toml", None, &sets, &only, &[good, point]).unwrap_err().to_string()
    };
    assert_eq!(
        sweep(&[], "relays.midle.link=1 MiB/s"),
        "--param relays.midle.link=1 MiB/s: relays.midle: there is no \"midle\" to override; [relays] has entry, exit, middle"
    );
    assert_eq!(
        sweep(&["large"], "relays.middle.link=2 MiB/s"),
        "x.toml: there is no variant \"large\"; there are stock, 50KiB"
    );
}

/// The error for a valid file with these overrides.
fn sets(sets: &[&str]) -> String {
    parse(GOOD, sets).expect_err("one of the sets is invalid").to_string()
}

#[test]
fn a_window_over_tcp_is_rejected() {
    for kind in ["backtap", "marut"] {
        let sentence = sets(&[&format!("relay.hop_control={{ kind = '{kind}' }}")]);
        let expected = format!("{kind:?} is for datagrams; set transport = \"datagram\" as well");
        assert!(sentence.contains("hop_control.kind") && sentence.ends_with(&expected), "{sentence}");
    }
}

#[test]
fn invalid_windows_are_rejected() {
    let refused = |hop_control: &str, key: &str, expected: &str| {
        let sentence = sets(&["relay.transport=datagram", &format!("relay.hop_control={hop_control}")]);
        assert!(sentence.contains(key) && sentence.ends_with(expected), "{sentence}");
    };
    let backwards = "3 is less than alpha, 4; it must be at least as much";
    refused("{ kind = 'backtap', alpha = 4, beta = 3 }", "hop_control.beta", backwards);
    let never = "2500 cells never wait: a circuit is closed at max_circuit_queue, 2500; it must be less";
    refused("{ kind = 'marut', queue_cap = 2500 }", "hop_control.queue_cap", never);
    let many =
        "2410 cells, N2 and the greatest N3, are more than a hop of datagrams holds; it must be 2000 at most";
    refused("{ kind = 'n23', n3 = 2400 }", "hop_control", many);
}

#[test]
fn an_old_key_next_to_the_new_one_is_rejected() {
    let line = "[relays.middle]\nmark_above = 5\necn_threshold = 5";
    assert_eq!(
        sentence("[relays.middle]", line),
        "x.toml:15: relays.middle.mark_above: this is the old name of ecn_threshold, which is set, too; leave one of the two out"
    );
}

/// The error for the file `own` that includes `included`.
fn including(own: &str, included: &str) -> String {
    let folder = std::env::temp_dir().join(format!("penstock-include-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("_common.toml"), included).unwrap();
    let path = folder.join("own.toml");
    let error = Document::parse(own, path.to_str().unwrap(), &[]).unwrap_err().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    error.replace(&format!("{}/", folder.display()), "")
}

/// One test, because its cases write the same file.
#[test]
fn an_error_in_an_included_file_names_the_file_and_its_line() {
    let own = "[scenario]\ntitle = \"own\"\ninclude = \"_common.toml\"\n";
    let common = GOOD.replace("[scenario]\ntitle = \"test\"\n", "");
    assert_eq!(
        including(own, &common.replace("128 KiB/s", "128")),
        "_common.toml:13: relays.middle.link: \"128\" is no rate: the unit is missing; write it like \"128 KiB/s\" (B/s, kB/s, KiB/s, MB/s, MiB/s, GiB/s, kbit/s, Mbit/s, Gbit/s)"
    );
    assert_eq!(
        including(own, &common.replace("circuit_window\" = 100 ", "circuit_window\" = 1001 ")),
        "_common.toml:27: variant \"50KiB\": relay.edge_control.circuit_window: 1001 is out of range; it must be a whole number [cell] from 100 to 1000"
    );
    assert_eq!(
        including(&format!("{own}[network]\nrtt = \"80\"\n"), &common),
        "own.toml:5: network.rtt: \"80\" is no duration: the unit is missing; write it like \"80 ms\" (ns, us, ms, s, min, h)"
    );
    assert_eq!(
        including(own, "[scenario]\ninclude = \"x.toml\"\n"),
        "_common.toml:2: scenario.include: an included file cannot include another file; leave this out"
    );
    assert_eq!(
        including(&own.replace("_common", "../common"), &common),
        "own.toml:3: scenario.include: \"../common.toml\" is in another folder; it must be a file of the same one, or \"../FOLDER/FILE.toml\""
    );
    let far = including(&own.replace("_common.toml", "../../etc/common.toml"), &common);
    assert!(far.contains("is in another folder"), "{far}");
    let missing = including(&own.replace("_common", "_other"), &common);
    assert!(
        missing.starts_with("own.toml:3: scenario.include: the file _other.toml cannot be read: "),
        "{missing}"
    );
}

/// The warnings for `GOOD` with these overrides.
fn warnings(sets: &[&str]) -> Vec<String> {
    parse(GOOD, sets).unwrap().warnings().to_vec()
}

#[test]
fn congestion_control_at_one_end_only_gives_a_warning() {
    let of_relays = "--set relay.edge_control=vegas: edge_control = \"vegas\" of relays has no effect, because no client asks for it; set client.edge_control = \"vegas\" too";
    let of_clients = "--set client.edge_control=dctcp: edge_control = \"dctcp\" of clients has no effect, because no relay supports it; set relay.edge_control = \"dctcp\" too";
    assert_eq!(warnings(&["relay.edge_control=vegas"]), [of_relays]);
    assert_eq!(warnings(&["client.edge_control=dctcp"]), [of_clients]);
    let both = warnings(&["relay.edge_control=vegas", "client.edge_control=dctcp"]);
    assert_eq!(both, [of_relays, of_clients]);
    assert_eq!(warnings(&["relay.edge_control=vegas", "client.edge_control=vegas"]), [""; 0]);
    assert_eq!(warnings(&["relays.exit.edge_control=timely", "client.edge_control=timely"]), [""; 0]);
    assert_eq!(warnings(&["relay.edge_control=dynamic-windows"]), [""; 0], "only the packaging end needs it");
}

#[test]
fn the_warning_about_congestion_control_names_its_variant() {
    let text = GOOD.replace("relay.edge_control.circuit_window\" = 100", "relay.edge_control\" = \"vegas\"");
    let warning = parse(&text, &[]).unwrap().warnings()[0].clone();
    assert!(warning.starts_with("x.toml:29: variant \"50KiB\": edge_control = "), "{warning}");
}

#[test]
fn congestion_control_that_only_a_deployment_sets_gives_a_warning() {
    let deployment = "[[deployments]]\nset = { edge_control = \"vegas\" }\n";
    let text = GOOD
        .replace("[[variants]]\nname = \"stock\"", &format!("{deployment}[[variants]]\nname = \"stock\""));
    let warnings = parse(&text, &[]).unwrap().warnings().to_vec();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("of relays has no effect, because no client asks for it"), "{warnings:?}");
    assert!(parse(&text, &["client.edge_control=vegas"]).unwrap().warnings().is_empty());
}

#[test]
fn congestion_control_at_other_relays_than_the_last_gives_a_warning() {
    let sets = ["relays.entry.edge_control=vegas", "client.edge_control=vegas"];
    assert_eq!(
        warnings(&sets),
        [
            "--set relays.entry.edge_control=vegas: edge_control = \"vegas\" of relays has no effect, because clients that ask for it end their circuits at other relays; set edge_control = \"vegas\" of these",
            "--set client.edge_control=vegas: edge_control = \"vegas\" of clients has no effect, because the last relays of their circuits do not support it; set edge_control = \"vegas\" of these",
        ]
    );
    assert_eq!(warnings(&[sets[0], sets[1], "relays.exit.edge_control=vegas"]).len(), 1);
}

#[test]
fn dctcp_without_marks_gives_a_warning() {
    let both = ["relay.edge_control=dctcp", "client.edge_control=dctcp"];
    assert_eq!(
        warnings(&both),
        [
            "--set client.edge_control=dctcp: edge_control = \"dctcp\" of clients has no effect, because no relay marks cells; set relay.ecn_threshold too"
        ]
    );
    assert_eq!(warnings(&[both[0], both[1], "relay.ecn_threshold=20"]), [""; 0]);
}

#[test]
fn clients_that_refuse_circuits_give_a_warning() {
    let vegas = ["relay.edge_control=vegas", "client.edge_control=vegas"];
    let relays = "relay.edge_control.sendme_inc=100";
    assert_eq!(
        warnings(&[vegas[0], vegas[1], relays]),
        [
            "--set relay.edge_control.sendme_inc=100: edge_control.sendme_inc is 100 of relays and 31 of clients, so the clients web refuse every circuit, so they download nothing; set client.edge_control.sendme_inc = 100 too"
        ]
    );
    let clients = warnings(&[vegas[0], vegas[1], "clients.web.edge_control.sendme_inc=29"]);
    assert_eq!(clients.len(), 1, "{clients:?}");
    assert!(clients[0].starts_with("--set clients.web.edge_control.sendme_inc=29: "), "{clients:?}");
    assert!(clients[0].contains("the clients web refuse every circuit"), "{clients:?}");
    assert!(clients[0].ends_with("set relay.edge_control.sendme_inc = 29 too"), "{clients:?}");
    let near = "relay.edge_control.sendme_inc=32";
    assert_eq!(warnings(&[vegas[0], vegas[1], near]), [""; 0], "a difference of 1 is accepted");
    assert_eq!(warnings(&[vegas[0], vegas[1], relays, "client.edge_control.sendme_inc=100"]), [""; 0]);
    let middle = "relays.middle.edge_control.sendme_inc=100";
    assert_eq!(warnings(&[vegas[0], vegas[1], middle]), [""; 0], "no circuit ends there");
}

/// The warnings for `GOOD` with these deployments.
fn deployed(deployments: &[&str], sets: &[&str]) -> Vec<String> {
    let lists: String = deployments.iter().map(|one| format!("[[deployments]]\n{one}\n")).collect();
    let text =
        GOOD.replace("[[variants]]\nname = \"stock\"", &format!("{lists}[[variants]]\nname = \"stock\""));
    parse(&text, sets).unwrap().warnings().to_vec()
}

#[test]
fn a_warning_names_the_deployment_that_sets_the_congestion_control() {
    let (kist, vegas) = ("set = { scheduler = \"kist\" }", "set = { edge_control = \"vegas\" }");
    let found = deployed(&[kist, vegas, kist], &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("x.toml:28: edge_control = \"vegas\" of relays"), "{found:?}");
}

#[test]
fn a_later_deployment_of_all_relays_hides_the_congestion_control_of_earlier_ones() {
    let [vegas, windows] = ["vegas", "windows"].map(|kind| format!("set = {{ edge_control = \"{kind}\" }}"));
    let client = ["client.edge_control=vegas"];
    assert_eq!(deployed(&[&windows, &vegas], &client), [""; 0]);
    let found = deployed(&[&vegas, &windows], &client);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("of clients has no effect, because no relay supports it"), "{found:?}");
    let base = ["client.edge_control=vegas", "relay.edge_control=vegas"];
    assert_eq!(deployed(&[&windows], &base).len(), 1, "all relays lose it");
    let half = format!("share = 0.5\n{windows}");
    assert_eq!(deployed(&[&half], &base), [""; 0], "some relays keep it");
    let refused = [&base[..], &["relay.edge_control.sendme_inc=100"]].concat();
    let found = deployed(&[&half], &refused);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("refuse each circuit that ends at exit;"), "{found:?}");
}

#[test]
fn a_key_without_effect_gives_a_warning() {
    for (sets, key, why) in [
        (
            &["network.rtt_matrix={ DE-DE = '1 ms' }"][..],
            "network.rtt_matrix",
            "network.latency has another value; set latency = \"rtt-matrix\" too",
        ),
        (
            &["network.access=1 ms"],
            "network.access",
            "only latency = \"geographic\" and \"rtt-matrix\" use it; set one of them, or leave access out",
        ),
        (
            &["network.reorder=0.1"],
            "network.reorder",
            "no relay or client has datagrams; set transport = \"datagram\" too",
        ),
        (
            &["relay.coalesce_delay=2 ms"],
            "relays.entry.coalesce_delay",
            "no relay or client has datagrams; set transport = \"datagram\" too",
        ),
        (
            &["relay.ecn_threshold=20"],
            "relays.entry.ecn_threshold",
            "no client has edge_control = \"dctcp\"; set it too",
        ),
        (
            &["relays.entry.era_buckets=false"],
            "relays.entry.era_buckets",
            "these relays have no era; set era too",
        ),
        (
            &["network.loss=0.01", "network.loss_of=none"],
            "network.loss",
            "network.loss_of is \"none\"; set another value, or leave this out",
        ),
        (
            &["network.place_latency=2"],
            "network.place_latency",
            "network.latency has another value; set latency = \"places\" too",
        ),
        (
            &["network.place_loss=0.5"],
            "network.place_loss",
            "network.latency has another value; set latency = \"places\" too",
        ),
        (
            &["relays.entry.family=middle"],
            "relays.entry.family",
            "no other relay that it names declares these relays; name them there, too",
        ),
        (
            &["relays.entry.era_rates_within_links=true"],
            "relays.entry.era_rates_within_links",
            "these relays have no era; set era too",
        ),
        (
            &["relays.entry.era_weights=false"],
            "relays.entry.era_weights",
            "these relays have no era; set era too",
        ),
        (
            &["relays.entry.era_flags=false"],
            "relays.entry.era_flags",
            "these relays have no era; set era too",
        ),
        (
            &["tcp.send_buffer=64 KiB", "tcp.initial_send_buffer=32 KiB"],
            "tcp.initial_send_buffer",
            "no send buffer has a first size that the kernel tunes; leave tcp.send_buffer and the profile \"ns3\" out",
        ),
        (
            &["tcp.interface_order=oldest-write"],
            "tcp.interface_order",
            "only the interfaces of Shadow 1.9 send the oldest write first; set tcp.profile = \"shadow-1.9\", or leave \
             interface_order out",
        ),
        (
            &["tcp.congestion=reno", "tcp.hystart=false"],
            "tcp.hystart",
            "only CUBIC has HyStart; set tcp.congestion = \"cubic\", or leave hystart out",
        ),
        (
            &["relay.refill=100 ms"],
            "relays.entry.refill",
            "the node has no token bucket; set bandwidth_rate too, or leave this out",
        ),
        (
            &["relay.refill_phase=1 ms"],
            "relays.entry.refill_phase",
            "the node has no token bucket; set bandwidth_rate too, or leave this out",
        ),
        (
            &["clients.web.refill_unblock=50 ms"],
            "clients.web.refill_unblock",
            "the node has no token bucket; set bandwidth_rate too, or leave this out",
        ),
        (
            &["relay.priority_factor=3"],
            "relays.entry.priority_factor",
            "circuit_policy is \"round-robin\", which has no priorities; set another one, or leave this out",
        ),
        (&["client.hops=2"], "clients.web.hops", "the path is not \"weighted\"; leave hops out"),
        (&["client.guards=1"], "clients.web.guards", "the path is not \"tor\"; leave guards out"),
        (
            &["clients.web.isolate_workloads=true"],
            "clients.web.isolate_workloads",
            "the client has one workload; leave isolate_workloads out",
        ),
        (
            &["clients.web.path=[]", "client.circuit_lifetime=1 min"],
            "clients.web.circuit_lifetime",
            "path = [] is without Tor; set another path, or leave this out",
        ),
        (
            &["clients.web.path=[]", "client.scheduler=kist"],
            "clients.web.scheduler",
            "path = [] is without Tor; set another path, or leave this out",
        ),
        (&["trace.cells=10"], "trace.cells", "trace.workloads is empty; list the workloads to record"),
        (
            &["run.sample=1 h"],
            "run.stop",
            "a run stops only at a sample, and run.sample is not shorter than run.duration; set a shorter sample",
        ),
        (
            &[
                "relay.transport=datagram",
                "relay.hop_control={ kind = 'marut', interval = 'hop', interval_hops = 4 }",
            ],
            "relays.entry.hop_control.interval_hops",
            "hop_control.interval is \"hop\"; set interval = \"circuit\", or leave interval_hops out",
        ),
    ] {
        let found = warnings(sets);
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = format!(": {key} has no effect, because {why}");
        assert!(found[0].ends_with(&expected), "{found:?}\n{expected}");
    }
    for (key, value, why) in [
        ("request", "'1 KiB'", "a workload with hold downloads nothing; leave this out"),
        ("timeout", "'5 s'", "a workload with hold downloads nothing; leave this out"),
        (
            "fresh_circuit",
            "true",
            "each hold and each flow of tgen has its own circuit; leave fresh_circuit out",
        ),
    ] {
        let text = GOOD.replace("size = \"300 KiB\"", "hold = \"5 s\"").replace("stop = {", "# {");
        let sets = [format!("workloads.web.{key}={value}")];
        let found = Document::parse(&text, "x.toml", &sets).unwrap().warnings().to_vec();
        let expected = format!(": workloads.web.{key} has no effect, because {why}");
        assert!(found.len() == 1 && found[0].ends_with(&expected), "{found:?}\n{expected}");
    }
    let text = GOOD.replace("path = [\"entry\", \"middle\", \"exit\"]", "path = \"weighted\"");
    let weighted = ["client.hops=2", "client.circuit_lifetime=1 min", "client.build_timeout=1 min"];
    for sets in [
        &weighted[..],
        &["client.build_timeout=adaptive"],
        &["client.build_timeout=adaptive", "client.build_timeout.min_circuits=20"],
        &["network.latency=geographic", "network.access=1 ms"],
        &["trace.cells=10", "trace.workloads=[]"],
    ] {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let found = Document::parse(&text, "x.toml", &sets).unwrap().warnings().to_vec();
        let found: Vec<_> = found.into_iter().filter(|warning| !warning.contains("network.rtt ")).collect();
        assert_eq!(found, [""; 0]);
    }
    assert_eq!(warnings(&["clients.web.path=tor", "client.guards=1"]), [""; 0]);
    assert_eq!(warnings(&["relay.refill=100 ms", "relays.exit.bandwidth_rate=1 MiB/s"]), [""; 0]);
    assert_eq!(
        warnings(&["relay.refill=100 ms", "relays.exit.throttle={ kind = 'static', rate = '1 MiB/s' }"]),
        [""; 0]
    );
    assert_eq!(warnings(&["relay.priority_factor=3", "relay.circuit_policy=ewma"]), [""; 0]);
    assert_eq!(warnings(&["relay.preset=tor-0.2.3"]), [""; 0], "the user wrote no single key");
    assert_eq!(warnings(&["client.hops=3", "network.access=11 ms"]), [""; 0], "these are the defaults");
}

#[test]
fn a_key_with_an_effect_in_another_variant_gives_no_warning() {
    let text = GOOD
        .replace("[relay]", "[relay]\necn_threshold = 20")
        .replace("circuit_window\" = 100 }", "circuit_window\" = 100, \"client.edge_control\" = \"dctcp\", \"relays.exit.edge_control\" = \"dctcp\" }");
    assert_eq!(parse(&text, &[]).unwrap().warnings(), [""; 0]);
}
