//! Parses quantities with units: `300 KiB`, `128 KiB/s`, `10 Mbit/s`, `80 ms`.
//!
//! `KiB` (1024 B) and `kB` (1000 B) are different units. A number without a unit is refused.

use crate::rate::DataRate;
use crate::size::Bytes;
use std::str::FromStr;
use std::time::Duration;

/// Why a text is not a valid quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseUnitError {
    /// The number or the unit is invalid.
    #[error("{text:?} is no {kind}: {reason}; write it like \"{example}\" ({units})")]
    Syntax {
        /// The invalid text.
        text: String,
        /// The expected kind of quantity.
        kind: &'static str,
        /// The error in the text.
        reason: String,
        /// An example of a correct quantity.
        example: &'static str,
        /// The allowed units.
        units: String,
    },
    /// The quantity does not fit into 64 bits.
    #[error("{text:?} is no {kind}: it is too large")]
    TooLarge {
        /// The invalid text.
        text: String,
        /// The expected kind of quantity.
        kind: &'static str,
    },
    /// The text is a rate of zero.
    #[error("{text:?} is no rate: it is zero; a rate must be at least \"1 B/s\"")]
    ZeroRate {
        /// The invalid text.
        text: String,
    },
}

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1024),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// The units of a rate, each with its value [bit/s].
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

/// The units of a time span, each with its value [ns].
const SPANS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a decimal number with a unit. Multiplies the number by the unit's value in `table`, and rounds to the nearest
/// integer.
fn quantity(
    text: &str,
    kind: &'static str,
    example: &'static str,
    table: &[(&str, u64)],
) -> Result<u128, ParseUnitError> {
    let fail = |reason: &str| {
        let units = table.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ");
        Err(ParseUnitError::Syntax { text: text.to_owned(), kind, reason: reason.to_owned(), example, units })
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

/// Returns the whole part of a number, and the digits after the point. More than nine digits after the
/// point are refused, to prevent an overflow.
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

fn narrow(value: u128, text: &str, kind: &'static str) -> Result<u64, ParseUnitError> {
    u64::try_from(value).map_err(|_| ParseUnitError::TooLarge { text: text.to_owned(), kind })
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
        let bits = quantity(text, "rate", "128 KiB/s", RATES)?;
        let bytes = narrow(bits / 8, text, "rate")?;
        DataRate::new(bytes).ok_or_else(|| ParseUnitError::ZeroRate { text: text.to_owned() })
    }
}

/// Parses a time span, for example `80 ms`.
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

pub(crate) fn show_bytes(value: u64) -> String {
    show(value, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
}

/// Formats `span` as a whole multiple of the largest possible unit.
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
