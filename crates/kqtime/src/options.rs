//! The command line.

use crate::Error;
use lexopt::{Arg, ValueExt};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The help text.
pub const USAGE: &str = "penstock-kqtime: how long bytes of a program's TCP sockets wait in the kernel

penstock-kqtime [OPTION]... PROGRAM [ARGUMENT]...

The program runs with a library that reports a few of its writes and reads. Captured packets show when the same bytes pass
a network interface. This needs CAP_NET_RAW, which root has. No address is recorded.

  -o, --out FILE       write a line for each measured wait (CSV)
  --interval 10ms      shortest time between two reports of a socket and direction
  --preload FILE       the library; default: libpenstock_kqtime_preload.so beside this program
  -h, --help           print this text
";

/// What to measure.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// The file for the waits.
    pub out: Option<PathBuf>,
    /// The shortest time between two reports of a socket and direction.
    pub interval: Duration,
    /// The library to load.
    pub preload: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// Reads the arguments after the program's name. `None`: the help text is asked for.
///
/// # Errors
///
/// [`Error::Usage`] for unknown options and values, or without a program.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Options>, Error> {
    let usage =
        |error: lexopt::Error| Error::Usage(format!("{error}; `penstock-kqtime --help` lists the options"));
    let mut options =
        Options { out: None, interval: Duration::from_millis(10), preload: None, command: Vec::new() };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Short('o') | Arg::Long("out") => options.out = Some(parser.value().map_err(usage)?.into()),
            Arg::Long("preload") => options.preload = Some(parser.value().map_err(usage)?.into()),
            Arg::Long("interval") => {
                let text = parser.value().and_then(|value| value.string()).map_err(usage)?;
                options.interval = penstock_units::parse::duration(&text).map_err(|error| {
                    Error::Usage(format!("--interval {text}: {error}; an example is 10ms"))
                })?;
            }
            Arg::Value(program) => {
                options.command.push(program);
                options.command.extend(parser.raw_args().map_err(usage)?);
            }
            _ => return Err(usage(argument.unexpected())),
        }
    }
    if options.command.is_empty() {
        return Err(Error::Usage(
            "no program to measure; write for example `penstock-kqtime tor -f torrc`".into(),
        ));
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Options>, Error> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_of_the_program_belong_to_the_program() {
        let options = parsed("--interval 1s -o waits.csv tor -f torrc --out x").unwrap().unwrap();
        assert_eq!(options.command, ["tor", "-f", "torrc", "--out", "x"]);
        assert_eq!((options.interval, options.out), (Duration::from_secs(1), Some("waits.csv".into())));
    }

    #[test]
    fn a_mistake_is_one_sentence() {
        for (line, part) in [("", "no program"), ("--outt x tor", "--outt"), ("--interval soon tor", "10ms")]
        {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{line}: {error}");
        }
    }
}
