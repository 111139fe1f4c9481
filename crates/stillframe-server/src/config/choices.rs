//! Values that are one of a few words, or a name, and how they are shown.

use stillframe::OnFull;
use stillframe_durability::Policy;

use super::values::{number, parse_size};
use super::{Config, LogLevel};

pub(super) fn show_save(config: &Config) -> String {
    let points = config.save.iter().map(|p| format!("{} {}", p.seconds, p.changes));
    points.collect::<Vec<_>>().join(" ")
}

pub(super) fn file_name(value: &str) -> Result<String, String> {
    if value.is_empty() || value.contains('/') {
        return Err("dbfilename can't be a path, just a filename".to_owned());
    }
    Ok(value.to_owned())
}

pub(super) fn addresses(value: &str) -> Result<Vec<String>, String> {
    let addresses: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
    if addresses.is_empty() {
        return Err("name at least one address".to_owned());
    }
    Ok(addresses)
}

pub(super) fn bytes(value: &str, least: usize) -> Result<usize, String> {
    bytes_between(value, least, i64::MAX as usize)
}

pub(super) fn bytes_between(value: &str, least: usize, most: usize) -> Result<usize, String> {
    let value = usize::try_from(parse_size(value)?).unwrap_or(usize::MAX);
    if !(least..=most).contains(&value) {
        return Err(format!("argument must be between {least} and {most} inclusive"));
    }
    Ok(value)
}

/// Runs of the clock a second: what is out of bounds becomes the nearest, as in Redis.
pub(super) fn beats(value: &str) -> Result<u32, String> {
    number(value, 0, i32::MAX as u32).map(|beats| beats.clamp(1, 500))
}

/// Numbers between 0 and 100, perhaps none.
pub(super) fn percentiles(value: &str) -> Result<Vec<f64>, String> {
    let number = |word: &str| {
        let number = word.parse::<f64>().ok().filter(|number| !number.is_nan());
        let number = number.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        let within = (0.0..=100.0).contains(&number).then_some(number);
        within.ok_or("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
    };
    let words = value.split(' ').filter(|_| !value.is_empty());
    let numbers: Result<_, &str> = words.map(number).collect();
    numbers.map_err(str::to_owned)
}

pub(super) fn show_percentiles(percentiles: &[f64]) -> String {
    percentiles.iter().map(|&number| show_percentile(number)).collect::<Vec<_>>().join(" ")
}

/// With up to six digits behind the point, as Redis shows it.
pub(crate) fn show_percentile(percentile: f64) -> String {
    let text = format!("{percentile:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn bandwidth(value: &str) -> Result<u64, String> {
    parse_size(value.strip_suffix("/s").unwrap_or(value))
}

/// The name of an algorithm that can serve, given by its own name or its family's.
pub(super) fn algorithm(value: &str) -> Result<&'static str, String> {
    use stillframe::algorithms::{ALL, any, available};
    let name = match value {
        "copy-on-update" => "cou",
        "zigzag" => "bazz",
        "ping-pong" => "npp-copy",
        "hourglass" => "hourglass-copy",
        own => own,
    };
    let mut served = ALL.iter().filter(|info| any::suits_all(info)).map(|info| info.name);
    let Some(name) = served.clone().find(|&served| served == name) else {
        let served = served.by_ref().collect::<Vec<_>>().join(", ");
        return Err(format!("argument(s) must be one of the following: {served}"));
    };
    match available(name) {
        Some(Err(unavailable)) => Err(unavailable.to_string()),
        _ => Ok(name),
    }
}

pub(super) fn memory_policy(value: &str) -> Result<OnFull, String> {
    match value {
        "slow" => Ok(OnFull::Slow),
        "cancel" => Ok(OnFull::Cancel),
        _ => Err("argument(s) must be one of the following: slow, cancel".to_owned()),
    }
}

const POLICIES: [(&str, Policy); 3] =
    [("everysec", Policy::EverySecond), ("always", Policy::Always), ("no", Policy::No)];

pub(super) fn policy(value: &str) -> Result<Policy, String> {
    let found = POLICIES.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
    found
        .map(|&(_, policy)| policy)
        .ok_or_else(|| "argument(s) must be one of the following: everysec, always, no".to_owned())
}

pub(super) fn show_policy(policy: Policy) -> String {
    let found = POLICIES.iter().find(|&&(_, it)| it == policy);
    found.map_or("", |(name, _)| name).to_owned()
}

pub(super) fn directory_name(value: &str) -> Result<String, String> {
    if value.is_empty() || value.contains('/') || value.starts_with('.') {
        return Err("appenddirname can't be a path, just a dirname".to_owned());
    }
    Ok(value.to_owned())
}

impl LogLevel {
    const NAMES: [(&'static str, Self); 4] = [
        ("debug", Self::Debug),
        ("verbose", Self::Verbose),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
    ];

    pub(super) fn parse(value: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
        found.map(|&(_, level)| level).ok_or_else(|| {
            "argument(s) must be one of the following: debug, verbose, notice, warning".to_owned()
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Verbose => "verbose",
            Self::Notice => "notice",
            Self::Warning => "warning",
        }
    }
}
