//! The state file of a client: its guards and the build times of its circuits. It survives a restart.
//!
//! The lines have the keywords of C tor's file `state`.
//! Deviation: a guard's line lacks the fields of C tor's path bias detection, so C tor cannot read this file.

use super::guards::GuardRecord;
use crate::atomic;
use penstock_core::build_times::BuildTimes;
use penstock_network::document::{hex, to_hex};
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

/// Maximum size of a state file [B].
const MAX_SIZE: u64 = 1 << 20;

/// The content of a state file.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The guards of each list: `default`, or `restricted` with `EntryNodes`.
    pub(crate) guards: BTreeMap<String, Vec<GuardRecord>>,
    pub(crate) build_times: BuildTimes,
}

impl State {
    /// Reads the file. Without a file, the client starts without guards.
    ///
    /// # Errors
    ///
    /// If the file cannot be read. Lines that this program does not know are ignored.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let mut text = String::new();
        match atomic::open(path) {
            Ok(file) => file.take(MAX_SIZE).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::default()),
            Err(error) => return Err(error),
        };
        Ok(State::read(&text))
    }

    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        atomic::update(path, self.write().as_bytes()).map_err(|(_, error)| error)
    }

    fn read(text: &str) -> Self {
        let (mut state, mut bins, mut unfinished) = (State::default(), BTreeMap::new(), 0);
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("Guard", fields)) => {
                    if let Some((list, guard)) = read_guard(fields) {
                        state.guards.entry(list).or_default().push(guard);
                    }
                }
                Some(("CircuitBuildTimeBin", pair)) => {
                    let pair = pair.split_once(' ').map(|(middle, count)| (middle.parse(), count.parse()));
                    if let Some((Ok(middle), Ok(count))) = pair {
                        bins.insert(middle, count);
                    }
                }
                Some(("CircuitBuildAbandonedCount", count)) => unfinished = count.parse().unwrap_or(0),
                _ => {}
            }
        }
        state.build_times = BuildTimes::of(&bins, unfinished);
        state
    }

    fn write(&self) -> String {
        let mut text =
            "# Penstock writes this file: the guards of this client, and its circuit build times.\n"
                .to_owned();
        for (list, guards) in &self.guards {
            for guard in guards {
                let GuardRecord { identity, nickname, sampled, unlisted, confirmed } = guard;
                text += &format!("Guard in={list} rsa_id={} nickname={nickname}", to_hex(identity));
                let times = [("sampled_on", Some(sampled)), ("unlisted_since", unlisted.as_ref())];
                for (key, time) in times.into_iter().chain([("confirmed_on", confirmed.as_ref())]) {
                    if let Some(time) = time {
                        // C tor writes times without a time zone.
                        let time = humantime::format_rfc3339_seconds(*time).to_string();
                        text += &format!(" {key}={}", time.trim_end_matches('Z'));
                    }
                }
                text.push('\n');
            }
        }
        let (bins, unfinished) = self.build_times.histogram();
        for (middle, count) in bins {
            text += &format!("CircuitBuildTimeBin {middle} {count}\n");
        }
        text + &format!("CircuitBuildAbandonedCount {unfinished}\n")
    }
}

/// The list of a guard, and the guard. `None` if the line is malformed.
fn read_guard(fields: &str) -> Option<(String, GuardRecord)> {
    let fields: BTreeMap<&str, &str> = fields.split(' ').filter_map(|field| field.split_once('=')).collect();
    let time = |key: &str| -> Option<SystemTime> {
        humantime::parse_rfc3339(&format!("{}Z", fields.get(key)?)).ok()
    };
    let guard = GuardRecord {
        identity: hex(fields.get("rsa_id")?).ok()?,
        nickname: (*fields.get("nickname")?).to_owned(),
        sampled: time("sampled_on")?,
        unlisted: time("unlisted_since"),
        confirmed: time("confirmed_on"),
    };
    Some(((*fields.get("in")?).to_owned(), guard))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torrc::tests::Scratch;
    use penstock_units::Duration;
    use proptest::prelude::*;
    use std::time::Duration as Span;

    #[test]
    fn a_written_state_is_read_again() {
        let folder = Scratch::new("state");
        let path = folder.0.join("state");
        assert!(State::load(&path).unwrap().guards.is_empty());
        let time = |seconds| SystemTime::UNIX_EPOCH + Span::from_secs(seconds);
        let guard = |number: u8, confirmed| GuardRecord {
            identity: [number; 20],
            nickname: format!("relay{number}"),
            sampled: time(1_700_000_000),
            unlisted: (number == 2).then(|| time(1_700_000_500)),
            confirmed,
        };
        let guards = vec![guard(1, Some(time(1_700_000_100))), guard(2, None)];
        let mut state = State::default();
        state.guards.insert("default".into(), guards.clone());
        (1..200).for_each(|millis| state.build_times.on_built(Duration::from_millis(millis * 7), false));
        state.build_times.on_unfinished();
        state.save(&path).unwrap();
        let again = State::load(&path).unwrap();
        assert_eq!(again.guards["default"], guards);
        assert_eq!(again.build_times.histogram(), state.build_times.histogram());
        assert!(again.build_times.timeout() != BuildTimes::default().timeout());
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "(Guard |CircuitBuildTimeBin |in=|rsa_id=|sampled_on=|[0-9A-F:T= \n-]){0,60}") {
            State::read(&text).write();
        }
    }
}
