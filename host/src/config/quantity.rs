//! Durations ("100 ms") and amounts of bytes ("512 MiB"), as people write them.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Units of durations, in milliseconds, largest last.
const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Units of amounts of bytes that are written, largest last.
const BINARY_UNITS: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Units of amounts of bytes that are read besides.
const DECIMAL_UNITS: [(&str, u64); 3] = [("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

/// An amount of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// `count` times 1024 × 1024 bytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// The amount that `text` states: a whole number and a unit.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        amount(text, BINARY_UNITS.iter().chain(&DECIMAL_UNITS)).map(Self)
    }
}

impl fmt::Display for ByteSize {
    /// In the largest unit that gives a whole number: `512 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_amount(f, self.0, &BINARY_UNITS)
    }
}

impl Serialize for ByteSize {
    /// As it is written in a topology file.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A duration, displayed as a topology file has it: `100 ms`.
#[derive(Clone, Copy, Debug)]
pub struct Readable(pub Duration);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_amount(f, u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &DURATION_UNITS)
    }
}

/// The duration that `text` states: a whole number and a unit.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    amount(text, &DURATION_UNITS).map(Duration::from_millis)
}

/// `text` as a whole number times one of `units`; a blank may stand between them.
fn amount<'a>(text: &str, units: impl IntoIterator<Item = &'a (&'a str, u64)>) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, factor) = units.into_iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Writes `amount` in the largest of `units` (smallest first) that divides it.
fn write_amount(f: &mut fmt::Formatter<'_>, amount: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |(_, factor): &&(&str, u64)| amount != 0 && amount.is_multiple_of(*factor);
    match units.iter().rev().find(fits).or(units.first()) {
        Some((unit, factor)) => write!(f, "{} {unit}", amount / factor),
        None => write!(f, "{amount}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_whole_number_and_a_unit() {
        for (text, millis) in
            [("100 ms", 100), ("5min", 300_000), ("0 s", 0), (" 2  h ", 7_200_000), ("1 d", 86_400_000)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "5", "ms", "1.5 s", "-1 s", "1 week", "1 S", "99999999999999999999 s", "18446744073709551615 d"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_a_whole_number_and_a_unit() {
        for (text, bytes) in [("64 MiB", 64 << 20), ("1GiB", 1 << 30), ("10 kB", 10_000), ("7 B", 7)] {
            assert_eq!(ByteSize::parse(text), Some(ByteSize(bytes)), "{text}");
        }
        for text in ["64", "64 mib", "1.5 GiB", "99999999999 GiB"] {
            assert_eq!(ByteSize::parse(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_are_written_in_the_largest_unit_that_fits() {
        assert_eq!(ByteSize(512 << 20).to_string(), "512 MiB");
        assert_eq!(ByteSize(1_000).to_string(), "1000 B");
        assert_eq!(ByteSize(0).to_string(), "0 B");
        assert_eq!(Readable(Duration::from_secs(90)).to_string(), "90 s");
        assert_eq!(Readable(Duration::from_secs(300)).to_string(), "5 min");
    }
}
