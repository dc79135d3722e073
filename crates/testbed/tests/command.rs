//! The command line of the testbed. If the machine does not allow network namespaces, the tests that need them
//! print "skipped" and pass.

use serde_json::Value;
use std::process::{Command, Output};

fn testbed(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock-testbed"));
    command.args(arguments).output().expect("cargo built the command")
}

/// The row that a run prints; `None` if the machine does not allow the run.
fn row(arguments: &[&str]) -> Option<Value> {
    let output = testbed(arguments);
    let said = String::from_utf8(output.stderr).expect("sentences are UTF-8");
    if output.status.code() == Some(2) {
        assert!(said.starts_with("penstock-testbed: ") && said.lines().count() == 1, "{said}");
        println!("skipped: {}", said.trim());
        return None;
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "a row is a line");
    Some(serde_json::from_slice(&output.stdout).expect("a row is JSON"))
}

fn number(row: &Value, member: &str) -> f64 {
    row[member].as_f64().unwrap_or_else(|| panic!("{member} of {row}"))
}

/// A download of 1 MiB takes at least the transmission time of its packets (1500 B with 1448 B of payload, 2 MiB/s, 20
/// ms). This bound also holds on a slow machine.
#[test]
fn a_download_takes_at_least_the_transmission_time_of_its_packets() {
    let arguments = ["tcp", "download", "--rate", "2 MiB/s", "--rtt", "20 ms", "--bytes", "1 MiB"];
    let Some(row) = row(&arguments) else { return };
    let took = number(&row, "seconds_to_finish");
    let segments = 1_048_576.0 / 1448.0;
    let least = 0.03 + (1_048_576.0 + segments * 52.0) / 2_097_152.0;
    assert!(took >= least, "{took} s, at least {least} s");
    assert!(took < 20.0 * least, "{row}");
    assert_eq!((number(&row, "bytes"), number(&row, "unseen")), (1_048_576.0, 0.0));
    assert_eq!(row["queue_bytes"], 150_000);
    assert!(row.get("samples").is_none());
}

#[test]
fn the_kernel_retransmits_lost_packets() {
    let arguments = [
        "tcp",
        "goodput",
        "--congestion",
        "reno",
        "--rate",
        "4 MiB/s",
        "--loss",
        "0.02",
        "--repeat",
        "3",
        "--warmup",
        "500 ms",
        "--seconds",
        "2 s",
    ];
    let Some(row) = row(&arguments) else { return };
    assert!(number(&row, "lost") > 0.0 && number(&row, "retransmits") > 0.0, "{row}");
    assert!((1.0..4_194_304.0).contains(&number(&row, "goodput_bytes_per_s")), "{row}");
    assert_eq!((row["congestion"].as_str(), &row["hystart"]), (Some("reno"), &Value::Null));
    assert!(
        row["reference"].as_str().is_some_and(|name| name.starts_with("linux-") && name.ends_with(" reno"))
    );
}

#[test]
fn samples_of_the_congestion_window_start_with_the_initial_window() {
    let Some(row) = row(&["tcp", "window", "--bytes", "2 MiB"]) else { return };
    let samples = row["samples"].as_array().expect("samples are a list");
    assert_eq!(samples[0][1], 10, "RFC 6928: {}", samples[0]);
    assert!(samples.iter().any(|sample| sample[1].as_u64() > Some(20)), "{row}");
    assert!(samples.windows(2).all(|pair| pair[0][0].as_f64() < pair[1][0].as_f64()), "{row}");
}

/// Linux gives a new socket space for twice ten segments. This buffer does not grow if the application never fills it.
#[test]
fn a_slow_application_keeps_its_initial_send_buffer() {
    let arguments =
        ["sndbuf", "--rate", "10 MiB/s", "--rtt", "20 ms", "--writes", "64 KiB/s", "--seconds", "1 s"];
    let Some(row) = row(&arguments) else { return };
    let buffers: Vec<_> =
        row["samples"].as_array().expect("samples are a list").iter().map(|s| &s[1]).collect();
    assert!(buffers.len() >= 8 && buffers.iter().all(|buffer| *buffer == buffers[0]), "{row}");
}

/// KIST §5.2, Equation 1: the kernel immediately sends the data that fits into the congestion window, and no other
/// data.
#[test]
fn the_kernel_sends_kists_limit_immediately() {
    let Some(row) = row(&["limits", "--writes", "40", "--excess", "0", "--queue", "4 MiB"]) else { return };
    let samples = row["samples"].as_array().expect("samples are a list");
    assert_eq!(samples.len(), 40);
    let value = |sample: &Value, side: usize, field: usize| sample[side][field].as_u64().expect("a number");
    let full = samples.iter().filter(|sample| sample[2].as_u64() > Some(0));
    let full: Vec<_> = full.filter(|sample| value(sample, 1, 2) == 0).collect();
    assert!(full.len() > 3, "{row}");
    assert!(full.iter().all(|sample| value(sample, 3, 2) == 0), "nothing stays unsent: {row}");
}

#[test]
fn errors_are_one_sentence_and_status_2() {
    let output = testbed(&["tcp", "goodput", "--loss", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "penstock-testbed: --loss 2 is not a probability: write a number from 0 to 1\n"
    );
    let help = testbed(&["help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--recovery"));
}

#[cfg(not(feature = "relays"))]
#[test]
fn without_the_feature_relays_the_error_names_the_build_command() {
    let output = testbed(&["world", "x.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--features relays"));
}

#[cfg(feature = "relays")]
mod relays {
    use super::{number, row, testbed};

    const STAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/worlds/star.toml");
    /// Arguments for fast links, with which a run takes six seconds. On a busy machine, relays start late.
    const SHORT: [&str; 6] = [
        "--set",
        "run.duration='6 s'",
        "--set",
        "run.warmup='0 s'",
        "--set",
        "relays.middle.link='40 Mbit/s'",
    ];

    fn short(more: &[&'static str]) -> Option<serde_json::Value> {
        row(&[&["world", STAR][..], &SHORT, more].concat())
    }

    #[test]
    fn a_scenario_runs_on_live_relays_and_fills_every_table() {
        let out = std::env::temp_dir().join(format!("penstock-worlds-{}", std::process::id()));
        let folder: &'static str = out.to_str().expect("a folder has a name").to_owned().leak();
        for variant in ["vanilla", "kist"] {
            let Some(row) = short(&["--variant", variant, "--out", folder]) else { return };
            let web = &row["downloads"]["web"];
            assert!(web["ttlb_s"].as_array().is_some_and(|all| all.len() > 3), "{row}");
            assert_eq!((number(web, "failed"), number(&row["emulation"], "unseen")), (0.0, 0.0), "{row}");
            assert_eq!(row["emulation"]["broken"].as_array().map(Vec::len), Some(0), "{row}");
            for position in ["guard", "middle", "exit"] {
                let cells = &row["cells"][position];
                assert!(number(cells, "count") > 100.0, "{position}: {row}");
                // A cell of the link leaves no sooner than its packet can be sent.
                assert!(number(cells, "kernel_out_s") > 512.0 / 5e6, "{position}: {row}");
            }
            let mut tables: Vec<_> = std::fs::read_dir(&out)
                .expect("the directory exists")
                .map(|entry| {
                    entry.expect("the entry is readable").file_name().into_string().expect("names are UTF-8")
                })
                .collect();
            tables.sort();
            let names = ["cells", "circuits", "clients", "paths", "relays", "transfers"];
            let names = names.map(|name| format!("{name}.parquet"));
            assert_eq!(tables, names);
        }
        std::fs::remove_dir_all(&out).expect("the directory exists");
    }

    #[test]
    fn the_same_scenario_runs_in_the_simulator() {
        let row = short(&["--world", "sim"]).expect("the simulator runs everywhere");
        assert!(row["emulation"].is_null() && number(&row["cells"]["exit"], "count") > 100.0, "{row}");
    }

    /// Links that are fast enough for many downloads in eight seconds, and slow enough for both legs to be used.
    const TWO_PATHS: [&str; 12] = [
        "world",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/worlds/two-paths.toml"),
        "--variant",
        "conflux",
        "--set",
        "run.duration='8 s'",
        "--set",
        "run.warmup='0 s'",
        "--set",
        "relays.fast-middle.link='20 Mbit/s'",
        "--set",
        "relays.slow-middle.link='10 Mbit/s'",
    ];

    #[test]
    fn linked_circuits_use_both_paths_in_both_worlds() {
        for world in ["sim", "testbed"] {
            let Some(row) = row(&[&TWO_PATHS[..], &["--world", world]].concat()) else { return };
            let web = &row["downloads"]["web"];
            assert!(web["ttlb_s"].as_array().is_some_and(|all| all.len() > 3), "{row}");
            assert_eq!(number(web, "failed"), 0.0, "{row}");
            // A message out of order would end a stream early, and stop its client.
            assert!(
                world == "sim" || row["emulation"]["broken"].as_array().is_some_and(Vec::is_empty),
                "{row}"
            );
            for relay in ["fast-middle", "slow-middle"] {
                assert!(number(&row["relay_cells"], relay) > 300.0, "{relay}: {row}");
            }
        }
    }

    #[test]
    fn unsupported_scenarios_are_refused_in_one_sentence() {
        let output = testbed(&["world", STAR, "--set", "tcp.profile='linux-3.2'"]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "penstock-testbed: tcp.profile is not supported by the testbed: write \"linux-6\", the profile of this kernel\n"
        );
    }
}
