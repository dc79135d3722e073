//! The log. Lines with time and severity go to the destinations of the `Log` options.
//!
//! The log never contains an address, name or identity of a client or of a client's destination. Messages of
//! libraries are dropped, because they may contain such data.

use crate::clock::Clock;
use crate::torrc::{LogTo, Sink};
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, OnceLock, PoisonError};

#[derive(Debug)]
struct Open {
    severest: Level,
    least: Level,
    to: To,
}

#[derive(Debug)]
enum To {
    Stdout,
    Stderr,
    File(File),
}

impl Open {
    fn new(log: &LogTo) -> io::Result<Self> {
        let to = match &log.sink {
            Sink::Stdout => To::Stdout,
            Sink::Stderr => To::Stderr,
            Sink::File(path) => {
                let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
                To::File(file.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?)
            }
        };
        Ok(Open { severest: log.severest, least: log.least, to })
    }

    fn takes(&self, level: Level) -> bool {
        (self.severest..=self.least).contains(&level)
    }
}

#[derive(Debug)]
struct Logs {
    clock: Clock,
    open: Mutex<Vec<Open>>,
}

static LOGS: OnceLock<Logs> = OnceLock::new();

/// Opens new logs, and closes the current ones. If a new log cannot be opened, the current ones remain.
pub(super) fn set(logs: &[LogTo]) -> io::Result<()> {
    let open = logs.iter().map(Open::new).collect::<io::Result<Vec<_>>>()?;
    let least = open.iter().map(|log| log.least.to_level_filter()).max().unwrap_or(LevelFilter::Off);
    let all = LOGS.get_or_init(|| Logs { clock: Clock::start(), open: Mutex::new(Vec::new()) });
    *all.open.lock().unwrap_or_else(PoisonError::into_inner) = open;
    // After the first call this fails, because the logger is already set.
    let _ = log::set_logger(all);
    log::set_max_level(least);
    Ok(())
}

impl Log for Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("penstock")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = line(self.clock, record);
        for log in self.open.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if log.takes(record.level()) {
                // A failing log must not stop the relay.
                let _ = match &mut log.to {
                    To::Stdout => io::stdout().write_all(text.as_bytes()),
                    To::Stderr => io::stderr().write_all(text.as_bytes()),
                    To::File(file) => file.write_all(text.as_bytes()),
                };
            }
        }
    }

    fn flush(&self) {}
}

fn line(clock: Clock, record: &Record<'_>) -> String {
    let date = humantime::format_rfc3339_millis(clock.date());
    format!("{date} [{}] {}\n", severity(record.level()), record.args())
}

/// The name of a severity in C tor.
fn severity(level: Level) -> &'static str {
    match level {
        Level::Error => "err",
        Level::Warn => "warn",
        Level::Info => "notice",
        Level::Debug => "info",
        Level::Trace => "debug",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_and_severity() {
        let record = Record::builder().level(Level::Info).args(format_args!("it begins")).build();
        let line = line(Clock::start(), &record);
        let (date, rest) = line.split_once(' ').unwrap();
        assert!(humantime::parse_rfc3339(date).is_ok(), "{line}");
        assert_eq!(rest, "[notice] it begins\n");
    }

    #[test]
    fn a_log_has_messages_between_its_severities() {
        let log = LogTo { severest: Level::Warn, least: Level::Info, sink: Sink::Stderr };
        let open = Open::new(&log).unwrap();
        assert_eq!(
            [Level::Error, Level::Warn, Level::Info, Level::Debug].map(|it| open.takes(it)),
            [false, true, true, false]
        );
    }
}
