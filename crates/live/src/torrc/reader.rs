//! Options by name, each with its place. At the end, the reader reports unused options.

use super::TorrcError;
use super::ValueError;
use super::known::{Known, known};
use super::lines::{Line, Mode, Place};

/// Aliases of options (C tor: `option_abbrevs_`).
const ALIASES: &[(&str, &str)] = &[("DirServer", "DirAuthority"), ("ResolvConf", "ServerDNSResolvConfFile")];

#[derive(Debug)]
pub(super) struct Reader {
    lines: Vec<Line>,
    /// For each line, whether the program used the option.
    asked: Vec<bool>,
    warnings: Vec<String>,
}

/// The text of a `Penstock` line, and its place.
pub(super) type Setting = (String, Place);

impl Reader {
    /// Combines options of a file and of the command line. The command line replaces the file's values.
    pub(super) fn new(file: Vec<Line>, said: Vec<Line>) -> Self {
        let [file, said] = [file, said].map(|lines| lines.into_iter().map(named).collect::<Vec<_>>());
        let replaced = |line: &Line| said.iter().any(|other| other.is(&line.name) && other.mode == Mode::Set);
        let kept: Vec<Line> = file.into_iter().filter(|line| !replaced(line)).collect();
        let mut lines: Vec<Line> = Vec::new();
        for line in kept.into_iter().chain(said) {
            match line.mode {
                Mode::Clear => lines.retain(|other| !other.is(&line.name)),
                Mode::Set | Mode::Append => lines.push(line),
            }
        }
        let asked = vec![false; lines.len()];
        Reader { lines, asked, warnings: Vec::new() }
    }

    pub(super) fn all<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Vec<(T, Place)>, TorrcError> {
        let mut values = Vec::new();
        for (line, asked) in self.lines.iter().zip(&mut self.asked) {
            if line.is(name) {
                *asked = true;
                let value = parse(&line.value).map_err(|why| TorrcError::new(&line.place, name, why))?;
                values.push((value, line.place.clone()));
            }
        }
        Ok(values)
    }

    pub(super) fn placed<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Option<(T, Place)>, TorrcError> {
        let mut values = self.all(name, parse)?;
        let last = values.pop();
        for (_, place) in values {
            self.warn(&place, name, "a later line sets it again, so this line has no effect");
        }
        Ok(last)
    }

    pub(super) fn one<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Option<T>, TorrcError> {
        Ok(self.placed(name, parse)?.map(|(value, _)| value))
    }

    pub(super) fn penstock<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Option<(T, Place)>, TorrcError> {
        let mut found = None;
        for (line, asked) in self.lines.iter().zip(&mut self.asked) {
            if !line.is("Penstock") || key_of(&line.value) != key {
                continue;
            }
            *asked = true;
            let wrong = |why: ValueError| TorrcError::new(&line.place, "Penstock", format!("{key}: {why}"));
            if found.is_some() {
                return Err(wrong("this key is set by another line already; leave one of the two".into()));
            }
            let value = line.value.split_once('=').map_or("", |(_, value)| value.trim());
            found = Some((parse(value).map_err(wrong)?, line.place.clone()));
        }
        Ok(found)
    }

    /// The `Penstock` lines that are still unused.
    pub(super) fn penstock_rest(&mut self) -> Vec<Setting> {
        let mut rest = Vec::new();
        for (line, asked) in self.lines.iter().zip(&mut self.asked) {
            if line.is("Penstock") && !*asked {
                *asked = true;
                rest.push((line.value.clone(), line.place.clone()));
            }
        }
        rest
    }

    /// The place of the last option. Errors about missing options use this place.
    pub(super) fn end(&self) -> Place {
        self.lines.last().map_or(Place::CommandLine, |line| line.place.clone())
    }

    pub(super) fn warn(&mut self, place: &Place, option: &str, why: &str) {
        self.warnings.push(format!("{place}: {option}: {why}"));
    }

    /// Returns a warning for each unused option.
    ///
    /// # Errors
    ///
    /// The first option that C tor does not know.
    pub(super) fn finish(mut self) -> Result<Vec<String>, TorrcError> {
        for (line, _) in self.lines.iter().zip(&self.asked).filter(|(_, asked)| !**asked) {
            let Line { name, place, .. } = line;
            self.warnings.push(match known(name) {
                Some(Known::Option) => format!("{place}: {name}: this option of C tor has no effect here"),
                Some(Known::Obsolete) => format!("{place}: {name}: this option is obsolete and has no effect"),
                None => {
                    let why = "this option exists neither here nor in C tor; write settings that C tor does not have as Penstock KEY = VALUE";
                    return Err(TorrcError::new(place, name, why));
                }
            });
        }
        Ok(self.warnings)
    }
}

fn named(line: Line) -> Line {
    match ALIASES.iter().find(|(alias, _)| line.is(alias)) {
        Some((_, name)) => Line { name: (*name).to_owned(), ..line },
        None => line,
    }
}

pub(super) fn key_of(setting: &str) -> &str {
    setting.split(['=', '.']).next().unwrap_or_default().trim()
}

pub(super) fn string(value: &str) -> Result<String, ValueError> {
    let text = ['"', '\''].iter().find_map(|quote| {
        value.strip_prefix(*quote)?.strip_suffix(*quote).filter(|text| !text.contains([*quote, '\\']))
    });
    text.map(str::to_owned).ok_or_else(|| "it must be a string in quotes".into())
}
