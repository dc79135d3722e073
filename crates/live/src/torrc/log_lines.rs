//! `Log` lines: severities and destination of a log.

use super::reader::Reader;
use super::{TorrcError, ValueError, invalid, path};
use std::path::PathBuf;

/// Destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file. New lines are appended.
    File(PathBuf),
}

/// A `Log` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTo {
    /// Most severe level in the log.
    pub severest: log::Level,
    /// Least severe level in the log.
    pub least: log::Level,
    /// Destination.
    pub sink: Sink,
}

pub(super) fn logs(read: &mut Reader) -> Result<Vec<LogTo>, TorrcError> {
    let mut logs = Vec::new();
    for (log, place) in read.all("Log", log_line)? {
        match log {
            Some(log) => logs.push(log),
            None => read.warn(
                &place,
                "Log",
                "syslog is not supported; write stderr, which service managers record",
            ),
        }
    }
    if logs.is_empty() {
        logs.push(LogTo { severest: log::Level::Error, least: log::Level::Info, sink: Sink::Stdout });
    }
    Ok(logs)
}

/// Parses `Log minSeverity[-maxSeverity] [stdout|stderr|file NAME]`; `None` for syslog.
fn log_line(text: &str) -> Result<Option<LogTo>, ValueError> {
    let (levels, to) = text.split_once(char::is_whitespace).unwrap_or((text, "stdout"));
    if levels.contains(['[', '*', '~', ',']) {
        return Err("log domains are not supported; write a severity first, such as notice".into());
    }
    let (least, severest) = levels.split_once('-').unwrap_or((levels, "err"));
    let (least, severest) = (severity(least)?, severity(severest)?);
    if severest > least {
        return Err(invalid!("{levels:?} is in the wrong order; write the least severe level first"));
    }
    let to = to.trim();
    let sink = match to.split_once(char::is_whitespace) {
        None if to.eq_ignore_ascii_case("stdout") => Sink::Stdout,
        None if to.eq_ignore_ascii_case("stderr") => Sink::Stderr,
        None if to.eq_ignore_ascii_case("syslog") => return Ok(None),
        Some((word, file)) if word.eq_ignore_ascii_case("file") => Sink::File(path(file.trim())?),
        _ => return Err(invalid!("{to:?} is no destination of a log; write stdout, stderr or file NAME")),
    };
    Ok(Some(LogTo { severest, least, sink }))
}

fn severity(text: &str) -> Result<log::Level, ValueError> {
    Ok(match &text.to_ascii_lowercase()[..] {
        "err" => log::Level::Error,
        "warn" => log::Level::Warn,
        "notice" => log::Level::Info,
        "info" => log::Level::Debug,
        "debug" => log::Level::Trace,
        _ => return Err(invalid!("{text:?} is no severity; write debug, info, notice, warn or err")),
    })
}
