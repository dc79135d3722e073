//! A program with known waits runs with the library. It is this test program itself: the ignored tests are what it does.

use penstock_kqtime::options::Options;
use penstock_kqtime::run::{Outcome, run};
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread::{sleep, spawn};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(400);

/// A table's line: the direction and the wait [ms].
type Row = (String, f64);

/// Runs one of the programs below. `None`: packets cannot be captured here.
fn measure(program: &str) -> Option<(Vec<Row>, Outcome)> {
    let this = env::current_exe().unwrap();
    let out = env::temp_dir().join(format!("penstock-kqtime-{}-{program}.csv", std::process::id()));
    let preload = Some(library().clone());
    // The measured program's lines are not those of a test.
    let shell = ["sh", "-c", "exec \"$0\" --ignored --exact \"$1\" >/dev/null"].map(Into::into);
    let command = [shell.to_vec(), vec![this.into_os_string(), program.into()]].concat();
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

/// Builds the library. Cargo does not build it for tests, because a test cannot link to it.
fn library() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let this = env::current_exe().unwrap();
        let target = this.ancestors().nth(3).expect("a test is in target/PROFILE/deps");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--locked", "--package", "penstock-kqtime-preload", "--target-dir"])
            .arg(target);
        assert!(cargo.status().unwrap().success(), "the library is built");
        target.join("debug/libpenstock_kqtime_preload.so")
    })
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
fn the_programs_status_is_kept() {
    let Some((_, outcome)) = measure("fail") else { return };
    assert_eq!(outcome.status.code(), Some(3));
    assert!(outcome.summary.contains("0 connections"), "{}", outcome.summary);
}

#[test]
#[ignore = "it is measured"]
fn fail() {
    std::process::exit(3);
}

#[test]
fn a_file_with_the_number_of_the_closed_socket_gets_no_report() {
    let Some((rows, outcome)) = measure("replace_the_socket") else { return };
    assert!(outcome.status.success(), "the file stayed empty");
    assert!(rows.is_empty(), "{rows:?}");
}

#[test]
#[ignore = "it is measured"]
#[allow(unsafe_code, reason = "the socket belongs to the library, so no safe owner can close it")]
fn replace_the_socket() {
    let number: i32 = env::var("PENSTOCK_KQTIME_FD").unwrap().parse().unwrap();
    let path = env::temp_dir().join(format!("penstock-kqtime-{}-file", std::process::id()));
    let file = fs::File::create(&path).unwrap();
    // SAFETY: no other code of this process owns this number.
    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
    let (mut from, mut to) = pair();
    from.write_all(&noise(8192)).unwrap();
    to.read_exact(&mut [0; 8192]).unwrap();
    let len = fs::metadata(&path).unwrap().len();
    fs::remove_file(path).unwrap();
    assert_eq!(len, 0);
}
