//! The program `penstock-kqtime`. Exit status 2 means an error of the user, or a missing feature of the machine. Otherwise it
//! is that of the measured program.

use penstock_kqtime::options::{USAGE, parse};
use penstock_kqtime::{Error, run};
use std::io::{Write, stdout};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

fn main() -> ExitCode {
    match act() {
        Ok((text, status)) => {
            // A closed pipe is not an error.
            let _ = stdout().write_all(text.as_bytes());
            ExitCode::from(status)
        }
        Err(sentence) => {
            eprintln!("penstock-kqtime: {sentence}");
            ExitCode::from(2)
        }
    }
}

fn act() -> Result<(String, u8), Error> {
    let Some(options) = parse(std::env::args_os().skip(1))? else { return Ok((USAGE.to_owned(), 0)) };
    let outcome = run::run(&options)?;
    let signal = outcome.status.signal().map(|signal| 128 + signal);
    let status = outcome.status.code().or(signal).unwrap_or(1);
    Ok((outcome.summary, status as u8))
}
