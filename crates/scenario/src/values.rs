//! Value types. A value type checks one TOML value, and returns the Rust value and the canonical TOML form.

use crate::distribution::{Amount, LONGEST, Mix, Quantiles, Span};
use crate::error::{ConfigError, Origin, listed};
use crate::markov::{Emission, Observation, Transition};
use crate::model::LinkQueue;
use crate::tree::{Node, Table, Value, is_name, undotted};
use penstock_units::parse::{self, show_duration};
use penstock_units::{Bytes, DataRate, Duration, ParseUnitError, time::nanos};
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// A type of values: which TOML values it accepts, and the Rust values that they stand for.
pub(crate) trait ValueType {
    type Value;

    /// Checks a value. Returns the Rust value, and the form that the resolved file has.
    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Self::Value, Value), ConfigError>;

    /// The accepted values, as a text that follows "it must be".
    fn describe(&self) -> String;

    /// The unit of numbers, for the reference pages; empty if there is none.
    fn unit(&self) -> &'static str {
        ""
    }

    /// The keys of the table, if the value may be a table.
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    /// The accepted words as TOML. Each word is a mode of an algorithm.
    fn words(&self) -> Vec<String> {
        Vec::new()
    }

    /// A default, as the reference pages show it.
    fn print_default(&self, default: &str) -> String {
        Node::of_default(default).value.print()
    }

    fn mismatch(&self, node: &Node, site: &Site<'_>) -> ConfigError {
        site.wrong(format!("{}; it must be {}", node.with_type(), self.describe()))
    }

    fn text<'a>(&self, node: &'a Node, site: &Site<'_>) -> Result<&'a str, ConfigError> {
        node.as_text().ok_or_else(|| self.mismatch(node, site))
    }
}

/// One key of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the key in its table.
    pub key: &'static str,
    /// Default in TOML; `as KEY` if the default is another key's value; empty if the key is required.
    pub default: String,
    /// Unit of the key's number, such as `cell`; empty for other types. Sizes, rates and times contain their unit.
    pub unit: &'static str,
    /// Description of the accepted values.
    pub value_type: String,
    /// Meaning of the key.
    pub meaning: &'static str,
    /// Keys of the table, if the value may be a table.
    pub keys: Vec<Parameter>,
    /// Accepted words, as TOML.
    pub words: Vec<String>,
}

#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) at: Origin,
    pub(crate) path: &'a str,
    /// Sections that were already read, in canonical form. Some defaults are values of other keys.
    pub(crate) sections: &'a Table,
}

impl Site<'_> {
    pub(crate) fn wrong(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::new(self.at, self.path, message)
    }
}

pub(crate) struct Parsed<T> {
    parse: fn(&str, &Site<'_>) -> Result<T, ConfigError>,
    print: fn(&T) -> String,
    describe: &'static str,
    unit: &'static str,
}

impl<T> ValueType for Parsed<T> {
    type Value = T;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(T, Value), ConfigError> {
        let value = (self.parse)(node.as_text().ok_or_else(|| self.mismatch(node, site))?, site)?;
        let shown = Value::Text((self.print)(&value));
        Ok((value, shown))
    }

    fn describe(&self) -> String {
        self.describe.to_owned()
    }

    fn unit(&self) -> &'static str {
        self.unit
    }
}

pub(crate) const TEXT: Parsed<String> =
    Parsed { parse: |text, _| Ok(text.to_owned()), print: String::clone, describe: "a string", unit: "" };

pub(crate) const NAME: Parsed<String> = Parsed {
    parse: |name, site| match is_name(name, true) {
        true => Ok(name.to_owned()),
        false => Err(site.wrong(format!("{name:?} is not a name; it must be {}", NAME.describe))),
    },
    print: String::clone,
    describe: "a name of letters, digits, '_', '-' and '.'",
    unit: "",
};

pub(crate) struct Texts;

impl ValueType for Texts {
    type Value = Vec<String>;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Vec<String>, Value), ConfigError> {
        let nodes = match &node.value {
            Value::List(list) => list.clone(),
            _ => vec![node.clone()],
        };
        let texts: Option<Vec<String>> = nodes.iter().map(|node| node.as_text().map(str::to_owned)).collect();
        Ok((texts.ok_or_else(|| self.mismatch(node, site))?, Value::List(nodes)))
    }

    fn describe(&self) -> String {
        "a name or a list of names, like [\"entry\", \"exit\"]".to_owned()
    }
}

pub(crate) struct Flag;

impl ValueType for Flag {
    type Value = bool;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(bool, Value), ConfigError> {
        match node.value {
            Value::Flag(flag) => Ok((flag, Value::Flag(flag))),
            _ => Err(self.mismatch(node, site)),
        }
    }

    fn describe(&self) -> String {
        "true or false".to_owned()
    }
}

pub(crate) struct Whole {
    pub(crate) least: i64,
    pub(crate) most: i64,
    pub(crate) unit: &'static str,
}

impl Whole {
    pub(crate) const fn from_1_to(most: i64) -> Self {
        Whole { least: 1, most, unit: "" }
    }

    pub(crate) const fn cells(least: i64, most: i64) -> Self {
        Whole { least, most, unit: "cell" }
    }
}

impl ValueType for Whole {
    type Value = u32;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(u32, Value), ConfigError> {
        let Value::Integer(number) = node.value else { return Err(self.mismatch(node, site)) };
        let small = u32::try_from(number).ok().filter(|_| (self.least..=self.most).contains(&number));
        let wrong = || site.wrong(format!("{number} is out of range; it must be {}", self.describe()));
        Ok((small.ok_or_else(wrong)?, Value::Integer(number)))
    }

    fn describe(&self) -> String {
        let Whole { least, most, unit } = self;
        let unit = if unit.is_empty() { String::new() } else { format!(" [{unit}]") };
        format!("a whole number{unit} from {least} to {most}")
    }

    fn unit(&self) -> &'static str {
        self.unit
    }
}

/// An integer of at least 1, without an upper limit.
pub(crate) struct Count;

impl ValueType for Count {
    type Value = u64;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(u64, Value), ConfigError> {
        let Value::Integer(number) = node.value else { return Err(self.mismatch(node, site)) };
        let count = u64::try_from(number).ok().filter(|count| *count > 0);
        let wrong = || site.wrong(format!("{number} is out of range; it must be {}", self.describe()));
        Ok((count.ok_or_else(wrong)?, Value::Integer(number)))
    }

    fn describe(&self) -> String {
        "a whole number from 1".to_owned()
    }
}

/// A list of different integers from 0, with at least one item.
pub(crate) struct Seeds;

impl ValueType for Seeds {
    type Value = Vec<u64>;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Vec<u64>, Value), ConfigError> {
        let wrong = |at, why: String| {
            ConfigError::new(at, site.path, format!("{why}; it must be {}", self.describe()))
        };
        let Value::List(list) = &node.value else { return Err(wrong(node.at, node.with_type())) };
        if list.is_empty() {
            return Err(wrong(node.at, "the list is empty".to_owned()));
        }
        let mut seeds = Vec::new();
        for node in list {
            let Value::Integer(number) = node.value else { return Err(wrong(node.at, node.with_type())) };
            let seed = u64::try_from(number).map_err(|_| wrong(node.at, format!("{number} is negative")))?;
            if seeds.contains(&seed) {
                return Err(wrong(node.at, format!("{number} is listed twice")));
            }
            seeds.push(seed);
        }
        Ok((seeds, Value::List(list.clone())))
    }

    fn describe(&self) -> String {
        "a list of different whole numbers from 0, at least one, like [1, 2, 3]".to_owned()
    }
}

/// A fraction or probability: at least 0 and below 1.
pub(crate) struct Fraction;

impl ValueType for Fraction {
    type Value = f64;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(f64, Value), ConfigError> {
        read_fraction(self, |share| (0.0..1.0).contains(&share), node, site)
    }

    fn describe(&self) -> String {
        "a fraction from 0 to below 1, like 0.01".to_owned()
    }

    fn unit(&self) -> &'static str {
        "1"
    }
}

/// A fraction: at least 0 and at most 1.
pub(crate) struct FractionOrOne;

impl ValueType for FractionOrOne {
    type Value = f64;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(f64, Value), ConfigError> {
        read_fraction(self, |share| (0.0..=1.0).contains(&share), node, site)
    }

    fn describe(&self) -> String {
        "a fraction from 0 to 1, like 0.5".to_owned()
    }

    fn unit(&self) -> &'static str {
        "1"
    }
}

fn read_fraction(
    kind: &impl ValueType<Value = f64>,
    fits: impl Fn(f64) -> bool,
    node: &Node,
    site: &Site<'_>,
) -> Result<(f64, Value), ConfigError> {
    let share = match node.value {
        Value::Integer(whole) => whole as f64,
        Value::Float(share) => share,
        _ => return Err(kind.mismatch(node, site)),
    };
    if fits(share) {
        return Ok((share, Value::Float(share)));
    }
    Err(site.wrong(format!("{} and out of range; it must be {}", node.with_type(), kind.describe())))
}

/// A factor on another quantity.
pub(crate) struct Factor;

impl Factor {
    const RANGE: RangeInclusive<f64> = 0.1..=10.0;
}

impl ValueType for Factor {
    type Value = f64;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(f64, Value), ConfigError> {
        let factor = match node.value {
            Value::Integer(factor) => factor as f64,
            Value::Float(factor) => factor,
            _ => return Err(self.mismatch(node, site)),
        };
        if !Factor::RANGE.contains(&factor) {
            let value = node.with_type();
            return Err(site.wrong(format!("{value} and out of range; it must be {}", self.describe())));
        }
        Ok((factor, Value::Float(factor)))
    }

    fn describe(&self) -> String {
        "a factor from 0.1 to 10, like 1.5".to_owned()
    }

    fn unit(&self) -> &'static str {
        "1"
    }
}

pub(crate) const RATE: Parsed<DataRate> = Parsed {
    parse: rate,
    print: DataRate::to_string,
    describe: "a rate with its unit, like \"10 MiB/s\"",
    unit: "B/s",
};

/// Largest rate. Sums of many such rates do not overflow.
const MOST_RATE: DataRate = DataRate::mib(1 << 20);

fn rate(text: &str, site: &Site<'_>) -> Result<DataRate, ConfigError> {
    let rate: DataRate = text.parse().map_err(|error: ParseUnitError| site.wrong(error.to_string()))?;
    if rate > MOST_RATE {
        return Err(site.wrong(format!("{text:?} is too large; a rate is at most \"{MOST_RATE}\"")));
    }
    Ok(rate)
}

/// A size such as `32 KiB`, within limits [B].
pub(crate) struct Size {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Size {
    /// Largest size [B].
    pub(crate) const MOST: u64 = 1 << 50;
    /// Any size above zero.
    pub(crate) const ANY: Size = Size { least: 1, most: Size::MOST };

    fn parse(&self, text: &str, site: &Site<'_>) -> Result<Bytes, ConfigError> {
        let size: Bytes = text.parse().map_err(|error: ParseUnitError| site.wrong(error.to_string()))?;
        if (self.least..=self.most).contains(&size.get()) {
            return Ok(size);
        }
        let [least, most] = [self.least, self.most].map(Bytes::new);
        Err(site.wrong(format!("{text:?} is out of range; it must be from \"{least}\" to \"{most}\"")))
    }
}

impl ValueType for Size {
    type Value = Bytes;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Bytes, Value), ConfigError> {
        let size = self.parse(self.text(node, site)?, site)?;
        Ok((size, Value::Text(size.to_string())))
    }

    fn describe(&self) -> String {
        "a size with its unit, like \"32 KiB\"".to_owned()
    }

    fn unit(&self) -> &'static str {
        "B"
    }
}

/// A duration such as `80 ms`, above zero.
pub(crate) const TIME: Parsed<Duration> = Parsed { parse: time_above_zero, ..TIME_OR_ZERO };

pub(crate) const TIME_OR_ZERO: Parsed<Duration> = Parsed {
    parse: time,
    print: |span| show_duration(*span),
    describe: "a duration with its unit, like \"80 ms\"",
    unit: "s",
};

fn time(text: &str, site: &Site<'_>) -> Result<Duration, ConfigError> {
    let span = parse::duration(text).map_err(|error| site.wrong(error.to_string()))?;
    if span > LONGEST {
        return Err(site.wrong(format!("{text:?} is too long; a duration is at most \"100000 h\"")));
    }
    Ok(span)
}

fn time_above_zero(text: &str, site: &Site<'_>) -> Result<Duration, ConfigError> {
    let span = time(text, site)?;
    if span.is_zero() {
        return Err(site.wrong(format!("{text:?} is zero; it must be longer, like \"100 ms\"")));
    }
    Ok(span)
}

/// The interval between two rows of an output table. Shorter intervals would give too many rows.
pub(crate) const INTERVAL: Parsed<Duration> = Parsed {
    parse: |text, site| {
        let span = time_above_zero(text, site)?;
        if span < LEAST_INTERVAL {
            return Err(site.wrong(format!(
                "{text:?} gives too many rows of output; it must be at least \"{}\"",
                show_duration(LEAST_INTERVAL)
            )));
        }
        Ok(span)
    },
    ..TIME_OR_ZERO
};

const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// Splits `name(a, b, ...)` into the name and the arguments.
fn call(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, arguments) = text.trim().strip_suffix(')')?.split_once('(')?;
    Some((name, arguments.split(',').map(str::trim).collect()))
}

/// Parses the arguments of `quantiles(...)`. `one` parses a single argument.
fn quantiles(
    values: &[&str],
    site: &Site<'_>,
    one: impl Fn(&str) -> Result<u64, ConfigError>,
) -> Result<Quantiles, ConfigError> {
    let numbers: Vec<u64> = values.iter().map(|value| one(value)).collect::<Result<_, _>>()?;
    if let Some(at) = numbers.windows(2).position(|pair| pair[0] > pair[1]) {
        let [low, high] = [values[at], values[at + 1]];
        return Err(site.wrong(format!("quantiles must grow; {low:?} is above {high:?}")));
    }
    let few = || site.wrong("quantiles need two values at least, the smallest and the largest");
    Quantiles::new(numbers).ok_or_else(few)
}

/// A rate, or `quantiles(...)` of rates. Each node then samples its own rate.
pub(crate) const SAMPLED_RATE: Parsed<NodeRate> = Parsed {
    parse: sampled_rate,
    print: |rate| match &rate.sampled {
        None => rate.typical.to_string(),
        Some(rates) => rates.print(|rate| DataRate::new(rate).unwrap_or(MOST_RATE).to_string()),
    },
    describe: "a rate with its unit, like \"10 MiB/s\", or \"quantiles(LEAST, ..., GREATEST)\" of rates",
    unit: "B/s",
};

/// The rate of an access link: as [`SAMPLED_RATE`], or the rate of the node's place.
pub(crate) const LINK_RATE: Parsed<NodeRate> = Parsed {
    parse: |text, site| match text {
        "place" => Ok(NodeRate { typical: DataRate::mib(10), sampled: None, of_place: true }),
        _ => sampled_rate(text, site),
    },
    print: |rate| if rate.of_place { "place".to_owned() } else { (SAMPLED_RATE.print)(rate) },
    describe: "a rate with its unit, like \"10 MiB/s\", or \"quantiles(LEAST, ..., GREATEST)\" of rates, or \"place\"",
    ..SAMPLED_RATE
};

/// A rate, or a distribution of rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRate {
    /// The fixed rate, or the median. Until a network is sampled, also a stand-in for the rate of a place.
    pub(crate) typical: DataRate,
    /// The distribution of rates [B/s].
    pub(crate) sampled: Option<Quantiles>,
    /// Whether the rate is that of the node's place.
    pub(crate) of_place: bool,
}

fn sampled_rate(text: &str, site: &Site<'_>) -> Result<NodeRate, ConfigError> {
    let Some(("quantiles", values)) = call(text) else {
        return Ok(NodeRate { typical: rate(text, site)?, sampled: None, of_place: false });
    };
    let rates = quantiles(&values, site, |text| rate(text, site).map(DataRate::bytes_per_sec))?;
    let typical = DataRate::new(rates.at(0.5)).unwrap_or(MOST_RATE);
    Ok(NodeRate { typical, sampled: Some(rates), of_place: false })
}

/// A duration, or `quantiles(...)` of durations [ns]. Each node then samples its own duration.
pub(crate) const SAMPLED_TIME: Parsed<Quantiles> = Parsed {
    parse: |text, site| {
        let one = |text: &str| time_above_zero(text, site).map(nanos);
        match call(text) {
            Some(("quantiles", values)) => quantiles(&values, site, one),
            _ => Ok(Quantiles::constant(one(text)?)),
        }
    },
    print: |spans| {
        let show = |nanos| show_duration(Duration::from_nanos(nanos));
        let [least, most] = spans.ends();
        if least == most { show(least) } else { spans.print(show) }
    },
    describe: "a duration with its unit, like \"80 ms\", or \"quantiles(LEAST, ..., GREATEST)\" of durations",
    unit: "s",
};

/// The distribution of a size: a fixed size, `uniform`, `quantiles` or `mix`.
pub(crate) const AMOUNT: Parsed<Amount> = Parsed {
    parse: amount,
    print: Amount::to_string,
    describe: "a size like \"300 KiB\", \"uniform(100 KiB, 500 KiB)\", \"quantiles(LEAST, ..., GREATEST)\" or \"mix(0.9: 50 KiB, 0.1: 5 MiB)\"",
    unit: "B",
};

fn amount(text: &str, site: &Site<'_>) -> Result<Amount, ConfigError> {
    let size = |text: &str| Size::ANY.parse(text, site);
    match call(text) {
        Some(("quantiles", sizes)) => {
            Ok(Amount::Quantiles(quantiles(&sizes, site, |text| size(text).map(Bytes::get))?))
        }
        Some(("mix", parts)) => {
            let part = |part: &&str| {
                let (weight, value) = part.split_once(':').unwrap_or(("", part));
                let (weight, value) = (weight.trim(), value.trim());
                let share = weight.parse::<f64>().ok().filter(|share| (1e-9..=1e9).contains(share));
                let wrong = || {
                    site.wrong(format!(
                        "{weight:?} is not a weight of {value:?}; it must be a number above 0, as in \"mix(0.9: 50 KiB, 0.1: 5 MiB)\""
                    ))
                };
                Ok((share.ok_or_else(wrong)?, size(value)?))
            };
            let parts = parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            let empty = || site.wrong("a mix needs a size; write it like \"mix(0.9: 50 KiB, 0.1: 5 MiB)\"");
            Ok(Amount::Mix(Mix::new(parts).ok_or_else(empty)?))
        }
        Some(("uniform", bounds)) => {
            let [low, high] = uniform(text, &bounds, site, size)?;
            Ok(Amount::Uniform(low, high))
        }
        _ => Ok(Amount::Fixed(size(text).map_err(or_uniform)?)),
    }
}

fn uniform<T: PartialOrd + Debug>(
    text: &str,
    bounds: &[&str],
    site: &Site<'_>,
    one: impl Fn(&str) -> Result<T, ConfigError>,
) -> Result<[T; 2], ConfigError> {
    let [low, high] = bounds else { return Err(parameters(text, "uniform(LOW, HIGH)", site)) };
    let bounds = [one(low)?, one(high)?];
    if bounds[0] > bounds[1] {
        return Err(site.wrong(format!("{text:?} starts above its end; it must be \"uniform(LOW, HIGH)\"")));
    }
    Ok(bounds)
}

fn or_uniform(mut error: ConfigError) -> ConfigError {
    error.message += ", or \"uniform(LOW, HIGH)\"";
    error
}

fn parameters(text: &str, right: &str, site: &Site<'_>) -> ConfigError {
    site.wrong(format!("{text:?} has other parameters; it must be {right:?}"))
}

/// The distribution of a duration: a fixed duration, `uniform`, `lognormal`, `quantiles`, `exponential`, `normal`,
/// `pareto`, or a named distribution.
pub(crate) const SPAN: Parsed<Span> = Parsed {
    parse: span,
    print: Span::to_string,
    describe: "a duration like \"2 s\", \"uniform(1 s, 3 s)\", \"lognormal(10 s, 1.0, 120 s)\", \"quantiles(LEAST, ..., GREATEST)\", \"exponential(MEAN)\", \"normal(MEAN, DEVIATION)\", \"pareto(LEAST, SHAPE)\" or \"unc\"",
    unit: "s",
};

fn span(text: &str, site: &Site<'_>) -> Result<Span, ConfigError> {
    let time = |text: &str| time(text, site);
    let Some((name, arguments)) = call(text) else {
        // Think times of the throttling paper's web clients, from a data set of the University of North Carolina.
        // Deviation: the data set is not available. The median and the maximum of this log-normal distribution are
        // guesses; see docs/reference/workloads.md.
        if text.trim() == "unc" {
            return Ok(Span::LogNormal(Duration::from_secs(10), 1.0, Duration::from_secs(120)));
        }
        return Ok(Span::Fixed(time(text).map_err(or_uniform)?));
    };
    match (name, &arguments[..]) {
        ("quantiles", spans) => Ok(Span::Quantiles(quantiles(spans, site, |text| time(text).map(nanos))?)),
        ("uniform", bounds) => {
            let [low, high] = uniform(text, bounds, site, time)?;
            Ok(Span::Uniform(low, high))
        }
        ("exponential", [mean]) => Ok(Span::Exponential(time(mean)?)),
        ("exponential", _) => Err(parameters(text, "exponential(MEAN)", site)),
        ("normal", [mean, deviation]) => Ok(Span::Normal(time(mean)?, time(deviation)?)),
        ("normal", _) => Err(parameters(text, "normal(MEAN, DEVIATION)", site)),
        ("pareto", [least, shape]) => {
            let exponent = shape.parse().ok().filter(|shape| (0.01..=1000.0).contains(shape));
            let exponent = exponent.ok_or_else(|| site.wrong(format!(
                "{shape:?} is not a shape of a Pareto distribution; it must be a number from 0.01 to 1000, as in \"pareto(1 s, 1.5)\""
            )))?;
            Ok(Span::Pareto(time(least)?, exponent))
        }
        ("pareto", _) => Err(parameters(text, "pareto(LEAST, SHAPE)", site)),
        ("lognormal", [median, sigma, most]) => {
            let deviation = sigma.parse().ok().filter(|sigma| (0.0..=10.0).contains(sigma));
            let deviation = deviation.ok_or_else(|| site.wrong(format!(
                "{sigma:?} is not a deviation of the logarithm; it must be a number from 0 to 10, as in \"lognormal(10 s, 1.0, 120 s)\""
            )))?;
            let [median, most] = [time_above_zero(median, site)?, time_above_zero(most, site)?];
            if median > most {
                return Err(site.wrong(format!(
                    "{text:?} has its median above its end; it must be \"lognormal(MEDIAN, SIGMA, MOST)\""
                )));
            }
            Ok(Span::LogNormal(median, deviation, most))
        }
        ("lognormal", _) => Err(parameters(text, "lognormal(MEDIAN, SIGMA, MOST)", site)),
        _ => Ok(Span::Fixed(time(text).map_err(or_uniform)?)),
    }
}

pub(crate) struct Lines<T> {
    parse: fn(&str, &Site<'_>) -> Result<T, ConfigError>,
    describe: &'static str,
}

impl<T: ToString> ValueType for Lines<T> {
    type Value = Vec<T>;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Vec<T>, Value), ConfigError> {
        let Value::List(list) = &node.value else { return Err(self.mismatch(node, site)) };
        let (mut values, mut shown) = (Vec::new(), Vec::new());
        for line in list {
            let value = (self.parse)(line.as_text().ok_or_else(|| self.mismatch(node, site))?, site)?;
            shown.push(Node::text(value.to_string(), line.at));
            values.push(value);
        }
        Ok((values, Value::List(shown)))
    }

    fn describe(&self) -> String {
        self.describe.to_owned()
    }
}

/// Largest weight. Sums of such weights stay finite.
const MOST_WEIGHT: f64 = 1e12;

fn weight(text: &str, site: &Site<'_>) -> Result<f64, ConfigError> {
    let weight = text.trim().parse().ok().filter(|weight| (0.0..=MOST_WEIGHT).contains(weight));
    weight.ok_or_else(|| site.wrong(format!("{:?} is not a weight; it must be a number from 0", text.trim())))
}

fn state(text: &str, site: &Site<'_>) -> Result<String, ConfigError> {
    let name = text.trim();
    if !is_name(name, true) {
        let letters = "it must consist of letters, digits, '_', '-' and '.'";
        return Err(site.wrong(format!("{name:?} is not a name of a state; {letters}")));
    }
    Ok(name.to_owned())
}

/// Splits `FROM -> TO: TEXT` into its three parts.
fn arrow(text: &str) -> Option<(&str, &str, &str)> {
    let (from, rest) = text.split_once("->")?;
    let (to, rest) = rest.split_once(':')?;
    Some((from, to.trim(), rest))
}

pub(crate) const TRANSITIONS: Lines<Transition> =
    Lines { parse: transition, describe: "a list of transitions, like [\"start -> a: 1\", \"a -> a: 0.9\"]" };

fn transition(line: &str, site: &Site<'_>) -> Result<Transition, ConfigError> {
    let wrong = || site.wrong(format!("{line:?} is not a transition; write it like \"start -> a: 0.5\""));
    let (from, to, rest) = arrow(line).ok_or_else(wrong)?;
    Ok(Transition { from: state(from, site)?, to: state(to, site)?, weight: weight(rest, site)? })
}

pub(crate) const EMISSIONS: Lines<Emission> = Lines {
    parse: emission,
    describe: "a list of emissions, like [\"a -> +: 0.5 after exponential(3 ms)\", \"a -> F: 0.1\"]; observations are +, - and F, the end",
};

fn emission(line: &str, site: &Site<'_>) -> Result<Emission, ConfigError> {
    let example = "\"a -> +: 0.5 after exponential(3 ms)\"";
    let wrong = || site.wrong(format!("{line:?} is not an emission; write it like {example}"));
    let (from, to, rest) = arrow(line).ok_or_else(wrong)?;
    let observation = match to {
        "+" => Observation::ToServer,
        "-" => Observation::ToOrigin,
        "F" => Observation::End,
        _ => return Err(site.wrong(format!("{to:?} is not an observation; it must be one of +, -, F"))),
    };
    let (share, delay) =
        rest.split_once(" after ").map_or((rest, None), |(share, delay)| (share, Some(delay)));
    if (observation == Observation::End) != delay.is_none() {
        return Err(site.wrong(format!(
            "{line:?} needs a delay until the next emission, and the end has none; write it like {example}"
        )));
    }
    let delay = delay.map(|delay| span(delay.trim(), site)).transpose()?;
    Ok(Emission { state: state(from, site)?, observation, weight: weight(share, site)?, delay })
}

/// One of several words. Each word stands for a value.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Clone> ValueType for Choice<T> {
    type Value = T;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(T, Value), ConfigError> {
        let word = self.text(node, site)?;
        let wrong = || site.wrong(format!("{word:?} is unknown; it must be {}", self.describe()));
        let (_, value) = self.0.iter().find(|(known, _)| *known == word).ok_or_else(wrong)?;
        Ok((value.clone(), Value::Text(word.to_owned())))
    }

    fn describe(&self) -> String {
        format!("one of {}", listed(self.0.iter().map(|(word, _)| *word)))
    }

    fn words(&self) -> Vec<String> {
        self.0.iter().map(|(word, _)| format!("{word:?}")).collect()
    }
}

pub(crate) struct Word(pub(crate) &'static [&'static str]);

impl ValueType for Word {
    type Value = &'static str;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(&'static str, Value), ConfigError> {
        let word = self.text(node, site)?;
        let wrong = || site.wrong(format!("{word:?} is unknown; it must be {}", self.describe()));
        let known = self.0.iter().find(|known| **known == word).ok_or_else(wrong)?;
        Ok((known, Value::Text(word.to_owned())))
    }

    fn describe(&self) -> String {
        format!("one of {}", listed(self.0.iter().copied()))
    }
}

/// Either one fixed word, which means `None`, or a value of another type.
pub(crate) struct Or<V>(pub(crate) &'static str, pub(crate) V);

impl<V: ValueType> ValueType for Or<V> {
    type Value = Option<V::Value>;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Option<V::Value>, Value), ConfigError> {
        let Or(word, other) = self;
        if node.as_text() == Some(word) {
            return Ok((None, Value::Text((*word).to_owned())));
        }
        let (value, shown) = other.read(node, site).map_err(|mut error| {
            if error.key == site.path {
                error.message += &format!("; or \"{word}\"");
            }
            error
        })?;
        Ok((Some(value), shown))
    }

    fn describe(&self) -> String {
        format!("\"{}\" or {}", self.0, self.1.describe())
    }

    fn unit(&self) -> &'static str {
        self.1.unit()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.1.parameters()
    }

    fn words(&self) -> Vec<String> {
        // A key with a single word has no other mode.
        let inner = self.1.parameters().into_iter().filter(|key| key.words.len() > 1);
        let inner = inner.flat_map(|key| {
            let name = key.key;
            key.words.into_iter().map(move |word| format!("{{ {name} = {word} }}"))
        });
        std::iter::once(format!("{:?}", self.0)).chain(inner).collect()
    }
}

/// A table of overrides. Keys may be dotted. The values are checked after merging.
pub(crate) struct Overrides;

impl ValueType for Overrides {
    type Value = Table;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Table, Value), ConfigError> {
        let table = node.table().ok_or_else(|| self.mismatch(node, site))?;
        Ok((undotted(table)?, Value::Table(table.clone())))
    }

    fn describe(&self) -> String {
        "a table of keys and values".to_owned()
    }
}

/// The limit of a drop-tail queue: a size, or a number of packets.
pub(crate) struct Queue;

const QUEUE_SIZE: Size = Size { least: 3000, most: Size::MOST };

/// The queue in front of a receiving link.
pub(crate) const QUEUE: Or<Queue> = Or("auto", Queue);

impl ValueType for Queue {
    type Value = LinkQueue;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(LinkQueue, Value), ConfigError> {
        let text = self.text(node, site)?;
        let Some(packets) = text.strip_suffix(" packets") else {
            let (size, shown) = QUEUE_SIZE.read(node, site)?;
            return Ok((LinkQueue::Bytes(size), shown));
        };
        let number = packets.parse().ok().filter(|packets| (2..=1_000_000).contains(packets));
        let wrong = || site.wrong(format!("{text:?} is out of range; it must be from 2 to 1000000 packets"));
        Ok((LinkQueue::Packets(number.ok_or_else(wrong)?), Value::Text(text.to_owned())))
    }

    fn describe(&self) -> String {
        "a size with its unit, like \"32 KiB\", or a number of packets, like \"100 packets\"".to_owned()
    }

    fn unit(&self) -> &'static str {
        "B"
    }
}

/// Size of a socket buffer. Buffers below a few segments are refused, because they would test only the simulator.
pub(crate) const BUFFER: Or<Size> = Or("auto", Size { least: 4096, most: Size::MOST });
