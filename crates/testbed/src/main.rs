//! The program `penstock-testbed`. Exit status 2 means an error of the user, or a missing feature of the machine.

use penstock_testbed::options::{Command, USAGE};
use penstock_testbed::row::line;
use penstock_testbed::{Error, limits, sndbuf, tcp};
use std::io::{Write, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    match act() {
        Ok(text) => {
            // A single write keeps rows of concurrent runs in one file apart. A closed pipe is not an error.
            let _ = stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(sentence) => {
            eprintln!("penstock-testbed: {sentence}");
            ExitCode::from(2)
        }
    }
}

fn act() -> Result<String, Error> {
    Ok(match Command::parse(std::env::args().skip(1))? {
        Command::Help => USAGE.to_owned(),
        Command::Tcp(experiment) => line(&tcp::run(&experiment)?),
        Command::Sndbuf(experiment) => line(&sndbuf::run(&experiment)?),
        Command::Limits(experiment) => line(&limits::run(&experiment)?),
        Command::World(arguments) => world(arguments)?,
    })
}

#[cfg(feature = "relays")]
fn world(arguments: Vec<String>) -> Result<String, Error> {
    use penstock_testbed::worlds::options::{Ask, run};
    let row = run(&Ask::parse(arguments)?)?;
    if let Some(why) = row.emulation.as_ref().and_then(|emulation| emulation.void.as_ref()) {
        eprintln!("penstock-testbed: this run is invalid: {why}");
    }
    Ok(line(&row))
}

#[cfg(not(feature = "relays"))]
fn world(_: Vec<String>) -> Result<String, Error> {
    let why = "this penstock-testbed has no live relays; build it with `cargo build --features relays`";
    Err(Error::Usage(why.to_owned()))
}
