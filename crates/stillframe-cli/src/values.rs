//! Values of flags as people write them; a size means what it means to `serve`.

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

/// `250MB/s`, or `off`.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    if text == "off" {
        return Ok(Rate(None));
    }
    let bytes = parse_size(text.strip_suffix("/s").unwrap_or(text)).ok().filter(|&it| it > 0);
    let bytes = bytes.ok_or_else(|| format!("'{text}' is not a rate such as 250MB/s or off"))?;
    Ok(Rate(Some(bytes)))
}

/// Bytes a second, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(super) Option<u64>);

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
        assert_eq!(rate("250MB/s"), Ok(Rate(Some(250 << 20))));
        assert_eq!(rate("off"), Ok(Rate(None)));
        for text in ["", "x", "-1", "10", "1h", "99999999999999999999s", "7200s"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
        for text in ["64kb", "", "k", "1.5M"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(size("many").is_err() && rate("0").is_err() && rate("fast").is_err());
    }
}
