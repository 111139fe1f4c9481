//! Values as people write them: sizes, switches, schedules.

use stillframe_resp::parse_integer;

use super::error::ValueError;
use super::{Config, OutputLimit, OutputLimits, SavePoint};

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the machine's memory.
    Percent(u8),
}

impl Size {
    /// `64MB` or `25%`.
    pub(crate) fn parse(text: &str) -> Result<Self, ValueError> {
        let Some(percent) = text.strip_suffix('%') else {
            return parse_size(text).map(Self::Bytes);
        };
        match percent.trim().parse() {
            Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
            _ => Err(ValueError::Percent),
        }
    }

    /// In bytes, on a machine with `machine` bytes of memory.
    pub(crate) fn bytes(self, machine: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => machine / 100 * u64::from(percent),
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// `maxmemory-clients`: as [`Size::parse`], in Redis's words when it is none; 0% is 0.
pub(super) fn share(text: &str) -> Result<Size, ValueError> {
    let percent = text.strip_suffix('%').map(|number| number.parse::<u8>());
    match percent {
        Some(Ok(0)) => Ok(Size::Bytes(0)),
        Some(Ok(percent @ 1..=100)) => Ok(Size::Percent(percent)),
        Some(Ok(_)) => Err(ValueError::PercentAbove100),
        Some(Err(_)) => Err(ValueError::NoShare),
        None => parse_size(text).map(Size::Bytes).map_err(|_| ValueError::NoShare),
    }
}

/// `enable-debug-command` and its kin: from where a command is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// From nowhere.
    No,
    /// From this machine.
    Local,
    /// From anywhere.
    Yes,
}

impl Allowed {
    /// Whether a client is allowed, local or not.
    pub(crate) fn allows(self, is_local: bool) -> bool {
        self == Self::Yes || self == Self::Local && is_local
    }
}

/// A number of bytes as redis.conf has it: `100`, `64k` (thousands), `64kb`, `64MB`, `1GiB`
/// (powers of 1024).
///
/// # Errors
/// It is none.
pub fn parse_size(text: &str) -> Result<u64, ValueError> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let factor: u64 = match unit {
        "" | "b" => 1,
        "k" => 1000,
        "kb" | "kib" => 1 << 10,
        "m" => 1_000_000,
        "mb" | "mib" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" | "gib" => 1 << 30,
        "t" => 1_000_000_000_000,
        "tb" | "tib" => 1 << 40,
        _ => return Err(ValueError::NoSize),
    };
    let number: u64 = number.parse().map_err(|_| ValueError::NoSize)?;
    number.checked_mul(factor).ok_or(ValueError::NoSize)
}

/// A number between two bounds, in Redis's words when it is not.
pub(super) fn number<T>(text: &str, least: T, most: T) -> Result<T, ValueError>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display + Copy,
{
    let Some(value) = parse_integer(text.as_bytes()) else {
        return Err(ValueError::NoInteger);
    };
    let value = T::try_from(value).ok().filter(|value| *value >= least && *value <= most);
    value.ok_or_else(|| ValueError::out_of_bounds(least, most))
}

/// `yes` or `no`.
pub(super) fn switch(text: &str) -> Result<bool, ValueError> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(ValueError::NotYesOrNo),
    }
}

/// How CONFIG GET shows a switch.
pub(super) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// `3600 1 300 100`, or nothing.
pub(super) fn save_points(text: &str) -> Result<Vec<SavePoint>, ValueError> {
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(|word| word.parse().map_err(|_| ValueError::SavePoints))
        .collect::<Result<_, _>>()?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() || pairs.iter().any(|[seconds, _]| *seconds == 0) {
        return Err(ValueError::SavePoints);
    }
    Ok(pairs.iter().map(|&[seconds, changes]| SavePoint { seconds, changes }).collect())
}

/// `normal 0 0 0 replica 256mb 64mb 60`: the classes named change, the others stay.
pub(super) fn output_limits(current: OutputLimits, text: &str) -> Result<OutputLimits, ValueError> {
    let mut limits = current;
    let words: Vec<&str> = text.split_whitespace().collect();
    let (groups, rest) = words.as_chunks::<4>();
    if groups.is_empty() || !rest.is_empty() {
        return Err(ValueError::OutputLimitCount);
    }
    for [class, hard, soft, seconds] in groups {
        let limit = OutputLimit {
            hard_bytes: parse_size(hard).map_err(|_| ValueError::OutputLimitNumber)?,
            soft_bytes: parse_size(soft).map_err(|_| ValueError::OutputLimitNumber)?,
            soft_seconds: seconds.parse().map_err(|_| ValueError::OutputLimitNumber)?,
        };
        match class.to_ascii_lowercase().as_str() {
            "normal" => limits.normal = limit,
            "slave" | "replica" => limits.replica = limit,
            "pubsub" => limits.pubsub = limit,
            _ => return Err(ValueError::OutputLimitClass),
        }
    }
    Ok(limits)
}

/// How CONFIG GET shows the limits.
pub(super) fn show_output_limits(limits: &OutputLimits) -> String {
    let show = |class, limit: &OutputLimit| {
        format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
    };
    let classes = [
        show("normal", &limits.normal),
        show("slave", &limits.replica),
        show("pubsub", &limits.pubsub),
    ];
    classes.join(" ")
}

/// The lines of the limits, each with whether it differs from the default.
pub(super) fn output_limit_lines(config: &Config, defaults: &Config) -> Vec<(String, bool)> {
    let (limits, defaults) = (&config.output_limits, &defaults.output_limits);
    let line = |class, limit: OutputLimit, default: OutputLimit| {
        let [hard, soft] = [limit.hard_bytes, limit.soft_bytes].map(show_size);
        let seconds = limit.soft_seconds;
        let text = format!("client-output-buffer-limit {class} {hard} {soft} {seconds}");
        (text, limit != default)
    };
    vec![
        line("normal", limits.normal, defaults.normal),
        line("replica", limits.replica, defaults.replica),
        line("pubsub", limits.pubsub, defaults.pubsub),
    ]
}

/// A number of bytes with the largest unit that divides it.
pub(super) fn show_size(bytes: u64) -> String {
    let units = [(30, "gb"), (20, "mb"), (10, "kb")];
    let divides = |shift: u32| bytes != 0 && bytes.trailing_zeros() >= shift;
    match units.into_iter().find(|(shift, _)| divides(*shift)) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_redis_conf() {
        for (text, bytes) in
            [("0", 0), ("1k", 1000), ("1kb", 1024), ("64MB", 64 << 20), ("1GiB", 1 << 30)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "x", "-1", "1.5gb", "1zb", "99999999999gb", "2 gb", " 2"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(Size::parse("25%"), Ok(Size::Percent(25)));
        assert_eq!(Size::Percent(25).bytes(1000), 250);
        assert!(Size::parse("0%").is_err() && Size::parse("101%").is_err());
    }

    #[test]
    fn schedules_are_pairs() {
        let point = |seconds, changes| SavePoint { seconds, changes };
        assert_eq!(save_points("60 1 3600 2"), Ok(vec![point(60, 1), point(3600, 2)]));
        assert_eq!(save_points(""), Ok(vec![]));
        assert!(save_points("60").is_err() && save_points("0 1").is_err());
        assert!(save_points("a b").is_err());
    }
}
