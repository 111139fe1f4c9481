//! Points in the past, and how people write them.

use std::str::FromStr;

/// A point in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After the action of this number.
    Sequence(u64),
    /// After the last action that was logged no later than this many milliseconds since 1970.
    TimeMs(u64),
}

/// The text names no point in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give a record's number, a time as 2026-11-22T03:04:05Z, or @ and unix seconds")]
pub struct NoPoint;

impl FromStr for Until {
    type Err = NoPoint;

    /// Reads a record's number, a time in UTC, or `@` and unix seconds.
    fn from_str(text: &str) -> Result<Self, NoPoint> {
        if let Some(seconds) = text.strip_prefix('@') {
            let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let seconds: u64 = seconds.parse().map_err(|_| NoPoint)?;
            let ms = millis(fraction).ok_or(NoPoint)?;
            return Ok(Self::TimeMs(seconds.saturating_mul(1000).saturating_add(ms)));
        }
        if let Ok(sequence) = text.parse() {
            return Ok(Self::Sequence(sequence));
        }
        utc(text).map(Self::TimeMs).ok_or(NoPoint)
    }
}

/// Milliseconds of the digits after a point; missing digits count as the latest.
fn millis(fraction: &str) -> Option<u64> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("999".chars()).take(3).collect();
    digits.parse().ok()
}

/// `YYYY-MM-DDTHH:MM:SS[.fff]Z` in milliseconds since 1970.
fn utc(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let numbers = |text: &str, mark| -> Option<Vec<i64>> {
        text.split(mark).map(|part| part.parse().ok()).collect()
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, second]) = (&date[..], &time[..]) else { return None };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let fits = (1970..=9999).contains(year)
        && (1..=12).contains(month)
        && (1..=days).contains(day)
        && (0..24).contains(hour)
        && (0..60).contains(minute)
        && (0..60).contains(second);
    if !fits {
        return None;
    }
    // Years that begin in March put the leap day last: days before month m are (153 m + 2) / 5.
    let (year, month) = if *month > 2 { (*year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = (days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(u64::try_from(seconds).ok()? * 1000 + millis(fraction)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(text: &str) -> Result<Until, NoPoint> {
        text.parse()
    }

    #[test]
    fn points_in_the_past_are_records_or_times() {
        assert_eq!(until("17"), Ok(Until::Sequence(17)));
        assert_eq!(until("@17"), Ok(Until::TimeMs(17_999)));
        assert_eq!(until("@17.25"), Ok(Until::TimeMs(17_259)));
        assert_eq!(until("1970-01-01T00:00:00.000Z"), Ok(Until::TimeMs(0)));
        assert_eq!(until("2000-02-29T12:30:15.5Z"), Ok(Until::TimeMs(951_827_415_599)));
        assert_eq!(until("2026-11-22T03:04:05.000Z"), Ok(Until::TimeMs(1_795_316_645_000)));
        for wrong in [
            "",
            "x",
            "-1",
            "@",
            "@x",
            "@1.x",
            "2026-11-22",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-11-22T03:04Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T03:04:05",
        ] {
            assert!(until(wrong).is_err(), "{wrong}");
        }
    }
}
