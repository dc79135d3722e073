//! A program with known waits runs with the library. It is this test program itself: the ignored tests are what it does.

use penstock_kqtime::options::Options;
use penstock_kqtime::run::{Outcome, run};
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{sleep, spawn};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(400);

/// A table's line: the direction and the wait [ms].
type Row = (String, f64);

/// Runs one of the programs below. `None`: packets cannot be captured here.
fn measure(program: &str) -> Option<(Vec<Row>, Outcome)> {
    let this = env::current_exe().unwrap();
    let out = env::temp_dir().join(format!("penstock-kqtime-{}-{program}.csv", std::process::id()));
    let preload = Some(this.with_file_name("libpenstock_kqtime_preload.so"));
    let command = ["--ignored", "--exact", program].map(Into::into);
    let command = [vec![this.into_os_string()], command.to_vec()].concat();
    let options = Options { out: Some(out.clone()), interval: Duration::from_millis(1), preload, command };
    let outcome = match run(&options) {
        Ok(outcome) => outcome,
        Err(error) if error.to_string().contains("captured") => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let table = fs::read_to_string(&out).unwrap();
    fs::remove_file(out).unwrap();
    let rows = table.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split(',').collect();
        (words[2].to_owned(), words[3].parse::<f64>().unwrap() / 1e6)
    });
    Some((rows.collect(), outcome))
}

fn waits(rows: &[Row], direction: &str) -> Vec<f64> {
    let mut waits: Vec<f64> = rows.iter().filter(|row| row.0 == direction).map(|row| row.1).collect();
    waits.sort_by(f64::total_cmp);
    waits
}

/// Bytes that do not repeat, as those of TLS.
fn noise(len: u32) -> Vec<u8> {
    (0..len / 4).flat_map(|number| (number.wrapping_mul(2_654_435_761) ^ 0x5bd1_e995).to_be_bytes()).collect()
}

/// A connection whose first writes and reads are over: they announce it.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = spawn(move || TcpStream::connect(address).unwrap());
    let (mut from, mut to) = (listener.accept().unwrap().0, client.join().unwrap());
    from.write_all(&noise(400)).unwrap();
    to.read_exact(&mut [0; 400]).unwrap();
    sleep(PAUSE);
    (from, to)
}

#[test]
fn a_late_reader_lets_bytes_wait_in_the_receive_queue() {
    let Some((rows, outcome)) = measure("read_late") else { return };
    assert!(outcome.status.success());
    let [inbound, outbound] = ["in", "out"].map(|direction| waits(&rows, direction));
    assert!(inbound.first().is_some_and(|wait| *wait >= 380.0 && *wait < 2000.0), "{rows:?}");
    assert!(outbound.first().is_some_and(|wait| *wait < 100.0), "{rows:?}");
}

#[test]
#[ignore = "it is measured"]
fn read_late() {
    let (mut from, mut to) = pair();
    from.write_all(&noise(8192)).unwrap();
    sleep(PAUSE);
    to.read_exact(&mut [0; 8192]).unwrap();
}

#[test]
fn a_full_receiver_lets_bytes_wait_in_the_send_queue() {
    let Some((rows, _)) = measure("write_too_much") else { return };
    let outbound = waits(&rows, "out");
    assert!(outbound.first().is_some_and(|wait| *wait < 100.0), "{rows:?}");
    assert!(outbound.last().is_some_and(|wait| *wait >= 200.0), "{rows:?}");
}

#[test]
#[ignore = "it is measured"]
fn write_too_much() {
    let (mut from, mut to) = pair();
    from.set_nonblocking(true).unwrap();
    let data = noise(16 << 20);
    let mut sent = 0;
    while let Ok(len) = from.write(&data[sent..(sent + 30_000).min(data.len())]) {
        sent += len;
        // Each write is later than the interval between reports.
        sleep(Duration::from_millis(2));
    }
    sleep(PAUSE);
    to.read_exact(&mut vec![0; sent]).unwrap();
}

#[test]
fn the_summary_and_the_programs_status_are_kept() {
    let Some((_, outcome)) = measure("no_such_test") else { return };
    assert!(outcome.status.success(), "a test program without tests succeeds");
    assert!(outcome.summary.contains("0 connections"), "{}", outcome.summary);
}
