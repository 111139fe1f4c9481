//! Values that are one of a few words, or a name, and how they are shown.

use stillframe::algorithms::{any, available};
use stillframe_commands::Classes;
use stillframe_script::RedisVersion;
use stillframe_storage::SavePoint;

use super::OutputLimits;
use super::error::ValueError;
use super::kinds::{Form, Kind, one_of};
use super::values::{Allowed, number, output_limits, parse_size, save_points, show_output_limits};

/// What becomes of the wish for one view more than `views-max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewsFull {
    /// It is refused.
    Refuse,
    /// It takes the place of the oldest.
    CloseOldest,
}

/// When to save.
#[derive(Debug, Clone)]
pub(crate) struct Save {
    /// One of them is enough.
    pub(super) points: Vec<SavePoint>,
    /// Nothing has been said yet.
    pub(super) is_default: bool,
}

impl Default for Save {
    fn default() -> Self {
        let point = |seconds, changes| SavePoint { seconds, changes };
        Self { points: vec![point(3600, 1), point(300, 100), point(60, 10_000)], is_default: true }
    }
}

impl std::ops::Deref for Save {
    type Target = [SavePoint];

    fn deref(&self) -> &[SavePoint] {
        &self.points
    }
}

impl Save {
    pub(super) fn parse(value: &str) -> Result<Self, ValueError> {
        save_points(value).map(|points| Self { points, is_default: false })
    }

    pub(super) fn show(&self) -> String {
        let points = self.points.iter().map(|p| format!("{} {}", p.seconds, p.changes));
        points.collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn redis_version(value: &str) -> Result<RedisVersion, ValueError> {
    Ok(value.parse()?)
}

pub(super) fn file_name(value: &str) -> Result<String, ValueError> {
    if value.is_empty() || value.contains('/') {
        return Err(ValueError::FileName);
    }
    Ok(value.to_owned())
}

pub(super) fn addresses(value: &str) -> Result<Vec<String>, ValueError> {
    let addresses: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
    if addresses.is_empty() {
        return Err(ValueError::NoAddress);
    }
    Ok(addresses)
}

/// Runs of the clock a second: what is out of bounds becomes the nearest, as in Redis.
pub(super) fn beats(value: &str) -> Result<u32, ValueError> {
    number(value, 0, i32::MAX as u32).map(|beats| beats.clamp(1, 500))
}

/// Numbers between 0 and 100, perhaps none.
pub(super) fn percentiles(value: &str) -> Result<Vec<f64>, ValueError> {
    let number = |word: &str| {
        let number = word.parse::<f64>().ok().filter(|number| !number.is_nan());
        let number = number.ok_or(ValueError::Percentile)?;
        let within = (0.0..=100.0).contains(&number).then_some(number);
        within.ok_or(ValueError::PercentileBounds)
    };
    let words = value.split(' ').filter(|_| !value.is_empty());
    words.map(number).collect()
}

pub(super) fn show_percentiles(percentiles: &[f64]) -> String {
    percentiles.iter().map(|&number| show_percentile(number)).collect::<Vec<_>>().join(" ")
}

/// With up to six digits behind the point, as Redis shows it.
pub(crate) fn show_percentile(percentile: f64) -> String {
    let text = format!("{percentile:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn event_classes(value: &str) -> Result<Classes, ValueError> {
    Ok(Classes::parse(value)?)
}

pub(super) fn bandwidth(value: &str) -> Result<u64, ValueError> {
    parse_size(value.strip_suffix("/s").unwrap_or(value))
}

/// The name of an algorithm that can serve, given by its own name or its family's.
pub(super) fn algorithm(value: &str) -> Result<&'static str, ValueError> {
    let name = match value {
        "copy-on-update" => "cou",
        "zigzag" => "bazz",
        "ping-pong" => "npp-copy",
        "hourglass" => "hourglass-copy",
        own => own,
    };
    let Some(name) = any::selectable().map(|info| info.name).find(|&built| built == name) else {
        return Err(ValueError::NoAlgorithm { built: algorithm_names() });
    };
    match available(name) {
        Some(Err(unavailable)) => Err(unavailable.into()),
        _ => Ok(name),
    }
}

/// The algorithms of this build, with commas between them.
pub(super) fn algorithm_names() -> String {
    any::selectable().map(|info| info.name).collect::<Vec<_>>().join(", ")
}

pub(super) fn directory_name(value: &str) -> Result<String, ValueError> {
    if value.is_empty() || value.contains('/') || value.starts_with('.') {
        return Err(ValueError::DirectoryName);
    }
    Ok(value.to_owned())
}

pub(super) fn allowed() -> impl Kind<Allowed> {
    one_of([("no", Allowed::No), ("yes", Allowed::Yes), ("local", Allowed::Local)])
}

/// Limits of output by class of client.
pub(super) struct OutputClasses();

impl Kind<OutputLimits> for OutputClasses {
    fn form(&self) -> Form {
        Form::Words
    }

    fn read(&self, text: &str, before: &OutputLimits) -> Result<OutputLimits, ValueError> {
        output_limits(*before, text)
    }

    fn show(&self, limits: &OutputLimits) -> String {
        show_output_limits(limits)
    }
}
