//! Values of flags as people write them; a size means what it means to `serve`.

use std::fmt::{self, Display};
use std::str::FromStr;

use stillframe_server::parse_size;

/// `64MB`, `1GiB`, `250k`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|_| format!("'{text}' is not a size such as 64MB, 1GiB or 250k"))
}

/// `256000`, `256k`, `1M`: thousands, not powers of two.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let plain = text.ends_with(|c: char| c.is_ascii_digit() || matches!(c, 'k' | 'K' | 'm' | 'M'));
    let number = if plain { parse_size(text).ok() } else { None };
    number.ok_or_else(|| format!("'{text}' is not a count such as 256000, 256k or 1M"))
}

/// `100ms`, `2s` or `0`, in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.trim() {
        "0" => ("0", 1),
        text => match (text.strip_suffix("ms"), text.strip_suffix('s')) {
            (Some(number), _) => (number, 1),
            (None, Some(number)) => (number, 1000),
            (None, None) => ("", 1),
        },
    };
    let number = number.trim().parse::<u64>().ok().and_then(|it| it.checked_mul(factor));
    number
        .filter(|&it| it <= 3_600_000)
        .ok_or_else(|| format!("'{text}' is not a time up to an hour, such as 100ms, 2s or 0"))
}

/// A size as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        size(text).map(Self)
    }
}

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{}MB", bytes >> 20),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// A count as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        count(text).map(Self)
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            count if count > 0 && count.is_multiple_of(1000) => write!(f, "{}k", count / 1000),
            count => write!(f, "{count}"),
        }
    }
}

/// A time as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Milliseconds(pub(crate) u64);

impl FromStr for Milliseconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        milliseconds(text).map(Self)
    }
}

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0") } else { write!(f, "{}ms", self.0) }
    }
}

/// Bytes a second, `250MB/s`, or no limit, `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(super) Option<u64>);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let bytes = parse_size(text.strip_suffix("/s").unwrap_or(text)).ok().filter(|&it| it > 0);
        let bytes =
            bytes.ok_or_else(|| format!("'{text}' is not a rate such as 250MB/s or off"))?;
        Ok(Self(Some(bytes)))
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(bytes) => write!(f, "{}/s", Size(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_people_write_them() {
        assert_eq!(size("64MB"), Ok(64 << 20));
        assert_eq!(count("256k"), Ok(256_000));
        assert_eq!(count("1M"), Ok(1_000_000));
        assert_eq!((milliseconds("100ms"), milliseconds("2s")), (Ok(100), Ok(2000)));
        assert_eq!(milliseconds("0"), Ok(0));
        assert_eq!("250MB/s".parse(), Ok(Rate(Some(250 << 20))));
        assert_eq!("off".parse(), Ok(Rate(None)));
        for text in ["", "x", "-1", "10", "1h", "99999999999999999999s", "7200s"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
        for text in ["64kb", "", "k", "1.5M"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(
            size("many").is_err()
                && "0".parse::<Rate>().is_err()
                && "fast".parse::<Rate>().is_err()
        );
    }

    /// Flags show and accept their defaults as text.
    #[test]
    fn values_are_read_as_they_are_shown() {
        for bytes in [0, 1, 1000, 100 << 20, (1 << 20) + 1, 3 << 30] {
            assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
            let rate = Rate(Some(bytes).filter(|&it| it > 0));
            assert_eq!(rate.to_string().parse(), Ok(rate));
            assert_eq!(Count(bytes).to_string().parse(), Ok(Count(bytes)));
        }
        for ms in [0, 1, 50, 2000] {
            assert_eq!(Milliseconds(ms).to_string().parse(), Ok(Milliseconds(ms)));
        }
    }
}
