//! What a value may look like: checks it, and writes it in the one canonical way.

use crate::error::{Mistake, listed};
use crate::markov;
use crate::model::LONGEST;
use crate::schema::{Algorithm, Section};
use crate::tree::{Node, Origin, Table, Value, join};
use crate::ways;
use penstock_units::{Bytes, DataRate, Duration, parse, time::nanos};
use std::fmt::Display;

/// What a value may look like.
#[derive(Debug)]
pub(crate) enum Form {
    /// Any string.
    Text,
    /// A string of letters, digits, `_`, `-` and `.`.
    Name,
    /// One string, or a list of them.
    Texts,
    /// `true` or `false`.
    Flag,
    /// An integer in a range.
    Whole { least: i64, most: i64, unit: &'static str },
    /// Integers from 0, at least one, none twice.
    Seeds,
    /// A fraction or probability below 1.
    Fraction,
    /// A rate such as `10 MiB/s`.
    Rate,
    /// A rate or a duration, or `quantiles(LEAST, ..., GREATEST)` of them.
    Drawn(&'static Form),
    /// A size such as `32 KiB`, in a range [B].
    Size { least: u64, most: u64 },
    /// A duration such as `80 ms`, which may be zero or not.
    Span { zero: bool },
    /// A size, `uniform(SIZE, SIZE)`, `quantiles(LEAST, ..., GREATEST)` of sizes, or `mix(WEIGHT: SIZE, ...)`.
    Amounts,
    /// A duration, `uniform(DURATION, DURATION)`, `lognormal(MEDIAN, SIGMA, MOST)`,
    /// `quantiles(LEAST, ..., GREATEST)` of durations, `exponential(MEAN)`, `normal(MEAN, DEVIATION)`,
    /// `pareto(LEAST, SHAPE)`, or a name of such a value.
    Spans,
    /// Transitions of a Markov model, `FROM -> TO: WEIGHT` each.
    Transitions,
    /// Emissions of one, `STATE -> OBSERVATION: WEIGHT after DELAY` each.
    Emissions,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// This word, or the other form.
    Or(&'static str, &'static Form),
    /// `{ kind = "...", ... }`, or the kind alone.
    Algorithm(&'static Algorithm),
    /// A table with these keys.
    Section(&'static Section),
    /// A list of tables with these keys.
    Sections(&'static Section),
    /// Round trips by country pair.
    Ways,
    /// Overrides: checked where they apply.
    Overrides,
}

/// Most that a rate may be [B/s], so that sums of many stay far from the largest integer.
const MOST_RATE: DataRate = DataRate::mib(1 << 20);
/// Most that a size may be [B].
pub(crate) const MOST_SIZE: u64 = 1 << 50;

/// Think times that have a name, and what they stand for.
///
/// Source: "unc" takes the place of the think times of the throttling paper's web clients, which come from a data set
/// of the University of North Carolina.
/// Deviation: that data set is not to be had. Log-normal, its median and its end are a guess; docs/reference/workloads.md.
const NAMED_SPANS: &[(&str, &str)] = &[("unc", "lognormal(10 s, 1.0, 120 s)")];

impl Form {
    /// The keys of the table that it is or may be, if it is one of known keys.
    pub(crate) fn section(&self) -> Option<&'static Section> {
        match self {
            Form::Section(section) => Some(section),
            Form::Or(_, form) => form.section(),
            _ => None,
        }
    }

    /// What would be right, as it continues "it must be".
    pub(crate) fn describe(&self) -> String {
        match self {
            Form::Text => "a string".to_owned(),
            Form::Name => "a name of letters, digits, '_', '-' and '.'".to_owned(),
            Form::Texts => "a name or a list of names, like [\"entry\", \"exit\"]".to_owned(),
            Form::Flag => "true or false".to_owned(),
            Form::Whole { least, most: i64::MAX, unit } => format!("a whole number{} from {least}", of(unit)),
            Form::Whole { least, most, unit } => format!("a whole number{} from {least} to {most}", of(unit)),
            Form::Seeds => {
                "a list of different whole numbers from 0, at least one, like [1, 2, 3]".to_owned()
            }
            Form::Fraction => "a fraction from 0 to below 1, like 0.01".to_owned(),
            Form::Rate => "a rate with its unit, like \"10 MiB/s\"".to_owned(),
            Form::Drawn(form) => {
                format!("{}, or \"quantiles(LEAST, ..., GREATEST)\" of such", form.describe())
            }
            Form::Size { .. } => "a size with its unit, like \"32 KiB\"".to_owned(),
            Form::Span { .. } => "a duration with its unit, like \"80 ms\"".to_owned(),
            Form::Amounts => {
                "a size like \"300 KiB\", \"uniform(100 KiB, 500 KiB)\", \"quantiles(LEAST, ..., GREATEST)\" or \"mix(0.9: 50 KiB, 0.1: 5 MiB)\"".to_owned()
            }
            Form::Spans => {
                "a duration like \"2 s\", \"uniform(1 s, 3 s)\", \"lognormal(10 s, 1.0, 120 s)\", \"quantiles(LEAST, ..., GREATEST)\", \"exponential(MEAN)\", \"normal(MEAN, DEVIATION)\", \"pareto(LEAST, SHAPE)\" or \"unc\"".to_owned()
            }
            Form::Transitions => "a list of transitions, like [\"start -> a: 1\", \"a -> a: 0.9\"]".to_owned(),
            Form::Emissions => {
                "a list of emissions, like [\"a -> +: 0.5 after exponential(3 ms)\", \"a -> F: 0.1\"]; observations are +, - and F, the end".to_owned()
            }
            Form::Choice(words) => format!("one of {}", listed(words.iter().copied())),
            Form::Or(word, form) => format!("\"{word}\" or {}", form.describe()),
            Form::Algorithm(algorithm) => {
                format!("a table with a kind of {}", listed(algorithm.kinds.iter().map(|kind| kind.name)))
            }
            Form::Section(section) => format!("a table with {}", listed(section.keys().map(|key| key.name))),
            Form::Sections(section) => {
                format!("a list of tables with {}", listed(section.keys().map(|key| key.name)))
            }
            Form::Ways => {
                "a table of round trips by country pair, like { DE-DE = \"18 ms\", DE-US = \"104 ms\" }".to_owned()
            }
            Form::Overrides => "a table of keys and values".to_owned(),
        }
    }

    /// The unit of its numbers, for the reference; empty if it has none.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Form::Whole { unit, .. } => unit,
            Form::Fraction => "1",
            Form::Rate => "B/s",
            Form::Size { .. } | Form::Amounts => "B",
            Form::Span { .. } | Form::Spans | Form::Ways => "s",
            Form::Or(_, form) | Form::Drawn(form) => form.unit(),
            _ => "",
        }
    }

    /// The value in its canonical form, or what is wrong with it.
    pub(crate) fn check(&self, node: &Node, path: &str, root: &Table) -> Result<Node, Mistake> {
        let at = node.at;
        let wrong = |why: String| Mistake::new(at, path, why);
        let not_this = || wrong(format!("{}; it must be {}", node.is_what(), self.describe()));
        let text = || node.as_text().ok_or_else(not_this);
        let value = match self {
            Form::Text => Value::Text(text()?.to_owned()),
            Form::Name => {
                let name = text()?;
                if !is_name(name, true) {
                    return Err(wrong(format!("{name:?} is no name; it must be {}", self.describe())));
                }
                Value::Text(name.to_owned())
            }
            Form::Texts => Value::List(texts(node).ok_or_else(not_this)?),
            Form::Flag => match node.value {
                Value::Flag(flag) => Value::Flag(flag),
                _ => return Err(not_this()),
            },
            Form::Whole { least, most, .. } => match node.value {
                Value::Integer(number) if (*least..=*most).contains(&number) => Value::Integer(number),
                Value::Integer(number) => {
                    return Err(wrong(format!("{number} is out of range; it must be {}", self.describe())));
                }
                _ => return Err(not_this()),
            },
            Form::Seeds => Value::List(self.seeds(node, path)?),
            Form::Fraction => match node.value {
                Value::Integer(0) => Value::Float(0.0),
                Value::Float(share) if (0.0..1.0).contains(&share) => Value::Float(share),
                Value::Integer(_) | Value::Float(_) => {
                    return Err(wrong(format!(
                        "{} and out of range; it must be {}",
                        node.is_what(),
                        self.describe()
                    )));
                }
                _ => return Err(not_this()),
            },
            Form::Rate => Value::Text(rate(text()?).map_err(wrong)?.to_string()),
            Form::Size { least, most } => {
                Value::Text(size(text()?, *least, *most).map_err(wrong)?.to_string())
            }
            Form::Span { zero } => Value::Text(parse::show_duration(span(text()?, *zero).map_err(wrong)?)),
            Form::Drawn(form) => match quantiles(text()?) {
                None => return form.check(node, path, root),
                Some(values) => Value::Text(form.canonical_quantiles(node, &values, path, root)?),
            },
            Form::Amounts | Form::Spans if quantiles(text()?).is_some() => {
                let values = quantiles(text()?).expect("it was asked whether it is such");
                Value::Text(self.one().canonical_quantiles(node, &values, path, root)?)
            }
            Form::Amounts if mix(text()?).is_some() => Value::Text(canonical_mix(text()?).map_err(wrong)?),
            Form::Amounts => {
                let show = |size: Bytes| size.to_string();
                Value::Text(uniform(text()?, |text| size(text, 1, MOST_SIZE), show).map_err(wrong)?)
            }
            Form::Spans if named_span(text()?).is_some() => {
                Value::Text(named_span(text()?).expect("it was asked whether it is one").to_owned())
            }
            Form::Spans
                if two("exponential", text()?).is_some()
                    || two("normal", text()?).is_some()
                    || two("pareto", text()?).is_some() =>
            {
                Value::Text(canonical_tail(text()?).map_err(wrong)?)
            }
            Form::Spans if log_normal(text()?).is_some() => {
                Value::Text(canonical_log_normal(text()?).map_err(wrong)?)
            }
            Form::Spans => {
                Value::Text(uniform(text()?, |text| span(text, true), parse::show_duration).map_err(wrong)?)
            }
            Form::Transitions => {
                Value::List(self.lines(node, not_this, |line, _| {
                    Ok(markov::transition(line).map_err(wrong)?.canonical())
                })?)
            }
            Form::Emissions => Value::List(self.lines(node, not_this, |line, at| {
                let says = markov::emission(line).map_err(wrong)?;
                let delay = |delay: &str| Node { value: Value::Text(delay.to_owned()), at };
                let delay = says.delay.map(|text| Form::Spans.check(&delay(text), path, root)).transpose()?;
                Ok(says.canonical(delay.as_ref().and_then(Node::as_text)))
            })?),
            Form::Choice(words) => match text()? {
                word if words.contains(&word) => Value::Text(word.to_owned()),
                word => {
                    return Err(wrong(format!("{word:?} is unknown; it must be {}", self.describe())));
                }
            },
            Form::Or(word, _) if node.as_text() == Some(word) => Value::Text((*word).to_owned()),
            Form::Or(word, form) => {
                return form.check(node, path, root).map_err(|mut mistake| {
                    if mistake.key == path {
                        mistake.message = format!("{}; or \"{word}\"", mistake.message);
                    }
                    mistake
                });
            }
            Form::Algorithm(algorithm) => Value::Table(algorithm.fill(node, path, root)?),
            Form::Section(section) => {
                let table = node.table().ok_or_else(not_this)?;
                Value::Table(section.fill(table, at, path, root)?)
            }
            Form::Sections(section) => {
                let Value::List(list) = &node.value else { return Err(not_this()) };
                let fill = |(index, node): (usize, &Node)| {
                    let path = join(path, &index.to_string());
                    Form::Section(section).check(node, &path, root)
                };
                Value::List(list.iter().enumerate().map(fill).collect::<Result<_, _>>()?)
            }
            Form::Ways => Value::Table(canonical_ways(node.table().ok_or_else(not_this)?, at, path, root)?),
            Form::Overrides => Value::Table(node.table().ok_or_else(not_this)?.clone()),
        };
        Ok(Node { value, at })
    }

    /// A list of strings, each in canonical form.
    fn lines(
        &self,
        node: &Node,
        not_this: impl Fn() -> Mistake,
        canonical: impl Fn(&str, Origin) -> Result<String, Mistake>,
    ) -> Result<Vec<Node>, Mistake> {
        let Value::List(list) = &node.value else { return Err(not_this()) };
        let one = |line: &Node| {
            let text = canonical(line.as_text().ok_or_else(&not_this)?, line.at)?;
            Ok(Node { value: Value::Text(text), at: line.at })
        };
        list.iter().map(one).collect()
    }

    /// What each of the values is that a drawn one lies between.
    fn one(&self) -> &'static Form {
        match self {
            Form::Amounts => &Form::Size { least: 1, most: MOST_SIZE },
            Form::Spans => &Form::Span { zero: true },
            other => unreachable!("{other:?} is no form of what is drawn each time"),
        }
    }

    /// `quantiles(...)` of rates, sizes or durations, in canonical form.
    fn canonical_quantiles(
        &self,
        node: &Node,
        values: &[&str],
        path: &str,
        root: &Table,
    ) -> Result<String, Mistake> {
        let wrong = |why: String| Mistake::new(node.at, path, why);
        let check = |value: &&str| {
            let checked =
                self.check(&Node { value: Value::Text((*value).to_owned()), at: node.at }, path, root)?;
            let text = checked.as_text().expect("rates, sizes and durations are strings").to_owned();
            let number = match self {
                Form::Rate => read::<DataRate>(&text).bytes_per_sec(),
                Form::Size { .. } => read::<Bytes>(&text).get(),
                _ => nanos(parse::duration(&text).expect("it was checked")),
            };
            Ok((number, text))
        };
        let (numbers, texts): (Vec<u64>, Vec<String>) =
            values.iter().map(check).collect::<Result<Vec<_>, Mistake>>()?.into_iter().unzip();
        if numbers.len() < 2 {
            return Err(wrong("quantiles need two values at least, the least and the greatest".to_owned()));
        }
        if let Some(at) = numbers.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(wrong(format!(
                "quantiles must grow; \"{}\" is above \"{}\"",
                texts[at],
                texts[at + 1]
            )));
        }
        Ok(format!("quantiles({})", texts.join(", ")))
    }

    fn seeds(&self, node: &Node, path: &str) -> Result<Vec<Node>, Mistake> {
        let wrong =
            |at, why: String| Mistake::new(at, path, format!("{why}; it must be {}", self.describe()));
        let Value::List(list) = &node.value else { return Err(wrong(node.at, node.is_what())) };
        if list.is_empty() {
            return Err(wrong(node.at, "the list is empty".to_owned()));
        }
        for (index, seed) in list.iter().enumerate() {
            match seed.value {
                Value::Integer(number) if number < 0 => {
                    return Err(wrong(seed.at, format!("{number} is negative")));
                }
                Value::Integer(number) if list[..index].iter().any(|other| other.value == seed.value) => {
                    return Err(wrong(seed.at, format!("{number} is listed twice")));
                }
                Value::Integer(_) => {}
                _ => return Err(wrong(seed.at, seed.is_what())),
            }
        }
        Ok(list.clone())
    }
}

/// Round trips by country pair, each pair once and in the order of the alphabet.
fn canonical_ways(table: &Table, at: Origin, path: &str, root: &Table) -> Result<Table, Mistake> {
    let mut ways = Table::new();
    for (key, node) in table {
        let path = join(path, key);
        let pair = ways::pair(key).map_err(|what| {
            let message = format!(
                "{what:?} is no country; a pair is two codes of ISO 3166-1 that [relays.NAME] may have, like DE-US"
            );
            Mistake::new(node.at, &path, message)
        })?;
        let checked = Form::Span { zero: false }.check(node, &path, root)?;
        if ways.insert(pair.join("-"), checked).is_some() {
            return Err(Mistake::new(node.at, path, "this pair is there in the other order, too"));
        }
    }
    if ways.is_empty() {
        return Err(Mistake::new(
            at,
            path,
            "the table is empty; it must have a way at least, like DE-US = \"104 ms\"",
        ));
    }
    Ok(ways)
}

/// ` [unit]`, or nothing.
fn of(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" [{unit}]") }
}

/// Letters, digits, `_` and `-`, at least one; and `.` if `dots`.
pub(crate) fn is_name(name: &str, dots: bool) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || (dots && c == '.');
    !name.is_empty() && name.chars().all(good)
}

fn texts(node: &Node) -> Option<Vec<Node>> {
    match &node.value {
        Value::Text(_) => Some(vec![node.clone()]),
        Value::List(list) if list.iter().all(|element| element.as_text().is_some()) => Some(list.clone()),
        _ => None,
    }
}

fn rate(text: &str) -> Result<DataRate, String> {
    let rate: DataRate = text.parse().map_err(|error: penstock_units::ParseUnitError| error.to_string())?;
    if rate > MOST_RATE {
        Err(format!("{text:?} is too large; a rate is at most \"{MOST_RATE}\""))
    } else {
        Ok(rate)
    }
}

fn size(text: &str, least: u64, most: u64) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error: penstock_units::ParseUnitError| error.to_string())?;
    if (least..=most).contains(&size.get()) {
        return Ok(size);
    }
    let [least, most] = [least, most].map(Bytes::new);
    Err(format!("{text:?} is out of range; it must be from \"{least}\" to \"{most}\""))
}

fn span(text: &str, zero: bool) -> Result<Duration, String> {
    let span = parse::duration(text).map_err(|error| error.to_string())?;
    if span > LONGEST {
        return Err(format!("{text:?} is too long; a duration is at most \"100000 h\""));
    }
    if span.is_zero() && !zero {
        return Err(format!("{text:?} is zero; it must be longer, like \"100 ms\""));
    }
    Ok(span)
}

/// `uniform(low, high)` or one value, in canonical form.
fn uniform<T: PartialOrd + Copy>(
    text: &str,
    one: impl Fn(&str) -> Result<T, String>,
    show: impl Fn(T) -> String,
) -> Result<String, String> {
    match bounds(text) {
        None => {
            let or_uniform = |why| format!("{why}, or \"uniform(LOW, HIGH)\"");
            Ok(show(one(text).map_err(or_uniform)?))
        }
        Some((low, high)) => {
            let (low, high) = (one(low)?, one(high)?);
            if low > high {
                return Err(format!("{text:?} starts above its end; it must be \"uniform(LOW, HIGH)\""));
            }
            Ok(format!("uniform({}, {})", show(low), show(high)))
        }
    }
}

/// The two bounds of `uniform(low, high)`.
pub(crate) fn bounds(text: &str) -> Option<(&str, &str)> {
    let inside = text.trim().strip_prefix("uniform(")?.strip_suffix(')')?;
    inside.split_once(',').map(|(low, high)| (low.trim(), high.trim()))
}

/// The values of `quantiles(least, ..., greatest)`.
pub(crate) fn quantiles(text: &str) -> Option<Vec<&str>> {
    let inside = text.trim().strip_prefix("quantiles(")?.strip_suffix(')')?;
    Some(inside.split(',').map(str::trim).collect())
}

/// The weights and sizes of `mix(weight: size, ...)`.
pub(crate) fn mix(text: &str) -> Option<Vec<(&str, &str)>> {
    let inside = text.trim().strip_prefix("mix(")?.strip_suffix(')')?;
    // What has no colon has no weight, which is no number.
    let parts = inside.split(',').map(|part| part.split_once(':').unwrap_or(("", part)));
    Some(parts.map(|(weight, size)| (weight.trim(), size.trim())).collect())
}

fn canonical_mix(text: &str) -> Result<String, String> {
    let parts = mix(text).expect("it was asked whether it is one");
    let part = |(weight, value): (&str, &str)| {
        let share = weight.parse::<f64>().ok().filter(|share| (1e-9..=1e9).contains(share)).ok_or_else(|| {
            format!("{weight:?} is no weight of {value:?}; it must be a number above 0, as in \"mix(0.9: 50 KiB, 0.1: 5 MiB)\"")
        })?;
        Ok(format!("{share:?}: {}", size(value, 1, MOST_SIZE)?))
    };
    let parts = parts.into_iter().map(part).collect::<Result<Vec<_>, String>>()?;
    Ok(format!("mix({})", parts.join(", ")))
}

/// The parameters of `name(one)` or `name(one, other)`; the second is empty if there is none.
pub(crate) fn two<'a>(name: &str, text: &'a str) -> Option<[&'a str; 2]> {
    let inside = text.trim().strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
    let (one, other) = inside.split_once(',').unwrap_or((inside, ""));
    Some([one.trim(), other.trim()])
}

/// `exponential(mean)`, `normal(mean, deviation)` or `pareto(least, shape)`, in canonical form.
fn canonical_tail(text: &str) -> Result<String, String> {
    let show = |text: &str| span(text, true).map(parse::show_duration);
    let like = |right: &str| Err(format!("{text:?} has other parameters; it must be {right:?}"));
    if let Some(given) = two("exponential", text) {
        return match given {
            [mean, ""] => Ok(format!("exponential({})", show(mean)?)),
            _ => like("exponential(MEAN)"),
        };
    }
    if let Some(given) = two("normal", text) {
        return match given {
            [_, ""] => like("normal(MEAN, DEVIATION)"),
            [mean, deviation] => Ok(format!("normal({}, {})", show(mean)?, show(deviation)?)),
        };
    }
    let [least, shape] = two("pareto", text).expect("it was asked whether it is one of these");
    if shape.is_empty() {
        return like("pareto(LEAST, SHAPE)");
    }
    let exponent = shape.parse::<f64>().ok().filter(|shape| (0.01..=1000.0).contains(shape));
    let exponent = exponent.ok_or_else(|| {
        format!("{shape:?} is no shape of a Pareto distribution; it must be a number from 0.01 to 1000, as in \"pareto(1 s, 1.5)\"")
    })?;
    Ok(format!("pareto({}, {exponent:?})", show(least)?))
}

/// What a named think time stands for.
fn named_span(text: &str) -> Option<&'static str> {
    NAMED_SPANS.iter().find(|(name, _)| *name == text.trim()).map(|(_, value)| *value)
}

/// Median, sigma and most of `lognormal(median, sigma, most)`.
pub(crate) fn log_normal(text: &str) -> Option<[&str; 3]> {
    let inside = text.trim().strip_prefix("lognormal(")?.strip_suffix(')')?;
    let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
    parts.try_into().ok()
}

fn canonical_log_normal(text: &str) -> Result<String, String> {
    let [median, sigma, most] = log_normal(text).expect("it was asked whether it is one");
    let deviation = sigma.parse::<f64>().ok().filter(|sigma| (0.0..=10.0).contains(sigma)).ok_or_else(|| {
        format!("{sigma:?} is no deviation of the logarithm; it must be a number from 0 to 10, as in \"lognormal(10 s, 1.0, 120 s)\"")
    })?;
    let (median, most) = (span(median, false)?, span(most, false)?);
    if median > most {
        return Err(format!(
            "{text:?} has its median above its end; it must be \"lognormal(MEDIAN, SIGMA, MOST)\""
        ));
    }
    let [median, most] = [median, most].map(parse::show_duration);
    Ok(format!("lognormal({median}, {deviation:?}, {most})"))
}

/// What a canonical string says; panics if it is not one.
pub(crate) fn read<T>(text: &str) -> T
where
    T: std::str::FromStr,
    T::Err: Display,
{
    text.parse().unwrap_or_else(|error| panic!("the schema let {text:?} through: {error}"))
}
