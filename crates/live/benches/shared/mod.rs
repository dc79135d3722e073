//! Parts of several benchmarks: the command line, the search for C tor, CPU times and medians.

pub(crate) mod cpu;
pub(crate) mod median;

use lexopt::{Arg, Parser, ValueExt};
use std::process::{Command, ExitCode, Stdio};

/// The options of all benchmarks.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    only: Option<String>,
    place: Option<String>,
}

impl Options {
    /// Parses the command line. `other` takes the name and the value of an option of one benchmark, and returns false
    /// for an unknown option.
    pub(crate) fn parse(
        rounds: usize,
        mut other: impl FnMut(&str, &mut Parser) -> Result<bool, lexopt::Error>,
    ) -> Result<Self, lexopt::Error> {
        let mut options = Options { rounds, only: None, place: None };
        let mut parser = Parser::from_env();
        while let Some(arg) = parser.next()? {
            let Arg::Long(name) = arg else { return Err(arg.unexpected()) };
            let name = name.to_owned();
            match &name[..] {
                "rounds" => options.rounds = parser.value()?.parse()?,
                "only" => options.only = Some(parser.value()?.string()?),
                "place" => options.place = Some(parser.value()?.string()?),
                // Cargo adds this option.
                "bench" => {}
                _ if other(&name, &mut parser)? => {}
                _ => return Err(Arg::Long(&name).unexpected()),
            }
        }
        Ok(options)
    }

    /// Whether `--only` allows a program or scheduler.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }

    /// Whether `--place` allows a place.
    pub(crate) fn allows_place(&self, name: &str) -> bool {
        self.place.as_deref().is_none_or(|place| place == name)
    }
}

/// The exit status of a benchmark. Prints its error.
pub(crate) fn exit(benchmark: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{benchmark}: {error}");
            ExitCode::from(2)
        }
    }
}

/// The C tor program: `tor`, or the path in the variable TOR.
pub(crate) fn tor() -> String {
    std::env::var("TOR").unwrap_or_else(|_| "tor".into())
}

/// Whether C tor is installed. If not, prints a line.
pub(crate) fn has_tor() -> bool {
    let version = Command::new(tor()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if version.is_err() {
        println!("skipped: C tor is missing; install Debian's package tor, or set TOR");
    }
    version.is_ok()
}
