//! What a user may write: `300 KiB`, `128 KiB/s`, `10 Mbit/s`, `80 ms`.
//!
//! `KiB` (1024) and `kB` (1000) are different names, a bare number has no unit and is refused.

use crate::rate::DataRate;
use crate::size::Bytes;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What is wrong with a quantity, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError(String);

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseUnitError {}

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1024),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Bytes a second, in eighths: bit rates need them.
const RATES: &[(&str, u64)] = &[
    ("B/s", 8),
    ("kB/s", 8_000),
    ("KiB/s", 8 << 10),
    ("MB/s", 8_000_000),
    ("MiB/s", 8 << 20),
    ("GiB/s", 8 << 30),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
];

/// Nanoseconds.
const SPANS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A decimal number and its unit, as value × scale in the units of the table, rounded to nearest.
fn quantity(text: &str, what: &str, example: &str, table: &[(&str, u64)]) -> Result<u128, ParseUnitError> {
    let units = || table.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ");
    let fail = |why: &str| {
        Err(ParseUnitError(format!(
            "{text:?} is no {what}: {why}; write it like \"{example}\" ({})",
            units()
        )))
    };
    let text_trimmed = text.trim();
    let split = text_trimmed.find(|c: char| !(c.is_ascii_digit() || "+-._".contains(c)));
    let (number, unit) = text_trimmed.split_at(split.unwrap_or(text_trimmed.len()));
    let unit = unit.trim();
    if number.starts_with('-') {
        return fail("it is negative");
    }
    let Some((whole, fraction)) = decimal(number) else {
        return fail("it does not start with a number");
    };
    if unit.is_empty() {
        return fail("the unit is missing");
    }
    let Some((_, scale)) = table.iter().find(|(name, _)| *name == unit) else {
        return fail(&format!("the unit {unit:?} is unknown"));
    };
    let scale = u128::from(*scale);
    let denominator = 10u128.pow(fraction.len() as u32);
    let digits = fraction.bytes().fold(whole, |sum, digit| sum * 10 + u128::from(digit - b'0'));
    Ok((digits * scale + denominator / 2) / denominator)
}

/// The whole part and the digits after the point (at most nine): few enough that no product overflows, and enough for
/// whatever is shown.
fn decimal(number: &str) -> Option<(u128, &str)> {
    let number = number.strip_prefix('+').unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 18
        || fraction.len() > 9
        || whole.len() + fraction.len() > 24
        || !all_digits(whole)
        || !all_digits(fraction)
    {
        return None;
    }
    Some((whole.parse().ok()?, fraction))
}

fn narrow(value: u128, text: &str, what: &str) -> Result<u64, ParseUnitError> {
    u64::try_from(value).map_err(|_| ParseUnitError(format!("{text:?} is no {what}: it is too large")))
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let bytes = quantity(text, "size", "300 KiB", SIZES)?;
        Ok(Bytes::new(narrow(bytes, text, "size")?))
    }
}

impl FromStr for DataRate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let eighths = quantity(text, "rate", "128 KiB/s", RATES)?;
        let bytes = narrow(eighths / 8, text, "rate")?;
        DataRate::new(bytes).ok_or_else(|| {
            ParseUnitError(format!("{text:?} is no rate: it is zero; a rate must be at least \"1 B/s\""))
        })
    }
}

/// A span of time such as `80 ms`.
pub fn duration(text: &str) -> Result<Duration, ParseUnitError> {
    let nanos = quantity(text, "duration", "80 ms", SPANS)?;
    Ok(Duration::from_nanos(narrow(nanos, text, "duration")?))
}

fn show(value: u64, table: &[(&str, u64)]) -> String {
    let (unit, scale) = table
        .iter()
        .rev()
        .find(|(_, scale)| value >= *scale && value.is_multiple_of(*scale))
        .unwrap_or(&table[0]);
    format!("{} {unit}", value / scale)
}

/// `value` bytes in the largest binary unit that divides them.
pub(crate) fn show_bytes(value: u64) -> String {
    show(value, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
}

/// `span` in the largest unit that divides it.
pub fn show_duration(span: Duration) -> String {
    if span.is_zero() { "0 s".to_owned() } else { show(crate::time::nanos(span), SPANS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_with_their_units() {
        assert_eq!("300 KiB".parse(), Ok(Bytes::kib(300)));
        assert_eq!("0.5MiB".parse(), Ok(Bytes::kib(512)));
        assert_eq!("128 KiB/s".parse(), Ok(DataRate::kib(128)));
        assert_eq!("10 Mbit/s".parse(), Ok(DataRate::mbit(10)));
        assert_eq!(duration("80 ms"), Ok(Duration::from_millis(80)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0 s"), Ok(Duration::ZERO));
    }

    #[test]
    fn errors_name_a_correct_form() {
        let error = |text: &str| text.parse::<DataRate>().unwrap_err().to_string();
        assert!(error("128").contains("unit is missing"));
        assert!(error("128 kb/s").contains("unknown") && error("128 kb/s").contains("KiB/s"));
        assert!(error("0 KiB/s").contains("zero"));
        assert!(error("-1 KiB/s").contains("negative"));
        assert!(duration("-80 ms").unwrap_err().to_string().contains("negative"));
        assert!(duration("99999999999999999 h").is_err());
    }

    #[test]
    fn shown_values_parse_back() {
        for bytes in [0, 1, 512, 1024, 51_200, 5 << 20, 3 << 30] {
            assert_eq!(show_bytes(bytes).parse(), Ok(Bytes::new(bytes)));
        }
        for nanos in
            [1, 80_000_000, 1_500_000_000, 60_000_000_000, 214_643_579_785_916_063, 359_999_999_999_999_999]
        {
            let span = Duration::from_nanos(nanos);
            assert_eq!(duration(&show_duration(span)), Ok(span));
        }
    }
}
