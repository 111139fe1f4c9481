//! What a figure runs: facets of one picture, each a sweep of one variable over some algorithms.

use std::collections::HashSet;

use anyhow::{Context as _, Result, anyhow, bail};
use stillframe::Unit;

use super::metric::Metric;
use crate::case::Case;
use crate::case::check;

/// What is cut of the papers' parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Idle time, points and the state: minutes.
    Quick,
    /// Idle time and points; the state has the papers' size: hours.
    Large,
    /// Nothing: days.
    Full,
}

/// How large the runs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// What is cut.
    pub scale: Scale,
    /// Divides sizes and updates; 1 but in tests.
    pub shrink: u64,
}

impl Size {
    /// Scaled so that all figures take minutes.
    pub const QUICK: Self = Self { scale: Scale::Quick, shrink: 1 };
    /// The papers' own parameters.
    pub const FULL: Self = Self { scale: Scale::Full, shrink: 1 };

    /// One of three, by scale.
    pub(super) fn pick<T>(self, quick: T, large: T, full: T) -> T {
        match self.scale {
            Scale::Quick => quick,
            Scale::Large => large,
            Scale::Full => full,
        }
    }
    /// One of two: what takes time is cut at both smaller scales.
    pub(super) fn cut<T>(self, cut: T, full: T) -> T {
        if self.is_full() { full } else { cut }
    }
    pub(super) fn is_full(self) -> bool {
        self.scale == Scale::Full
    }
}

/// One part of a figure: algorithms under workloads that differ in one variable.
#[derive(Debug, Clone)]
pub struct Facet {
    /// What distinguishes it from the other facets.
    pub title: String,
    /// Names of algorithms, the floor among them where a metric needs it.
    pub algorithms: Vec<&'static str>,
    /// The swept variable and the workload at that value, in rising order.
    pub spots: Vec<(f64, Case)>,
    /// The unit of all, if it is not each algorithm's own.
    pub unit: Option<Unit>,
    /// Units of algorithms that another paper has with others than the one that published them.
    pub own: &'static [(&'static str, Unit)],
    /// What is drawn of it.
    pub plots: Vec<Plot>,
}

/// What is drawn of a facet.
#[derive(Debug, Clone, Copy)]
pub enum Plot {
    /// A metric against the swept variable.
    Lines(&'static Metric),
    /// A metric against the swept variable, one line for each facet of the figure.
    Across(&'static Metric),
    /// The latency of every tick, a strip for each algorithm, at the last spot.
    Strips,
    /// A metric at the last spot, a row for each algorithm.
    Rows(&'static Metric),
    /// One metric against another at the last spot.
    Plane(&'static Metric, &'static Metric),
}

impl Facet {
    /// A facet of `algorithms`.
    #[must_use]
    pub fn new(
        title: impl Into<String>,
        algorithms: &[&'static str],
        spots: Vec<(f64, Case)>,
        plots: &[Plot],
    ) -> Self {
        let (algorithms, plots) = (algorithms.to_vec(), plots.to_vec());
        Self { title: title.into(), algorithms, spots, unit: None, own: &[], plots }
    }
    /// The same with that unit for all, those left out that cannot have it. Otherwise each
    /// algorithm has the unit that it was published with, the first of its registry line.
    #[must_use]
    pub fn with_unit(self, unit: Unit) -> Self {
        Self { unit: Some(unit), ..self }
    }
    /// The same with these units for these algorithms.
    #[must_use]
    pub fn with_own(self, own: &'static [(&'static str, Unit)]) -> Self {
        Self { own, ..self }
    }
    /// The case of an algorithm at the spot of that number.
    ///
    /// # Errors
    /// Why there is none, as far as the registry knows.
    pub fn case(&self, algorithm: &str, spot: usize) -> Result<Case> {
        let served = self.spots.get(spot).filter(|(_, case)| case.service.is_some());
        if let Some((_, case)) = served {
            return Ok(case.with_algorithm(algorithm));
        }
        let info = check::algorithm(algorithm).map_err(|_| anyhow!("not in this build"))?;
        let units = info.map_or(Unit::ALL, |info| info.units);
        let (_, case) = self.spots.get(spot).context("was not planned")?;
        let own = self.own.iter().find(|(name, _)| *name == algorithm).map(|(_, unit)| *unit);
        let unit = match (self.unit, own) {
            (Some(unit), _) if units.contains(&unit) => unit,
            (_, Some(own)) => own,
            (Some(unit), None) => bail!("has no unit of a {}", unit.name()),
            (None, None) => info.map_or(Unit::Word, |it| published(it.units, case.item_bytes)),
        };
        // The floor has no units: one run is the floor of all.
        let unit = if info.is_none() { Unit::Word } else { unit };
        Ok(Case { unit, ..case.with_algorithm(algorithm) })
    }
    /// Every possible case of the facet.
    pub fn cases(&self) -> impl Iterator<Item = Case> + '_ {
        (0..self.spots.len()).flat_map(move |spot| {
            self.algorithms.iter().filter_map(move |name| self.case(name, spot).ok())
        })
    }
}

/// The unit that an algorithm was published with, the first of its registry line; the papers' word
/// has four bytes, so it is half a word of ours where items have four.
fn published(units: &[Unit], item_bytes: u32) -> Unit {
    match units[0] {
        Unit::Word if item_bytes == 4 && units.contains(&Unit::Half) => Unit::Half,
        unit => unit,
    }
}

/// The unit of an algorithm where items have so many bytes.
pub(super) fn unit_of(algorithm: &str, item_bytes: u32) -> Unit {
    let info = check::algorithm(algorithm).ok().flatten();
    info.map_or(Unit::Word, |info| published(info.units, item_bytes))
}

/// Every different case of the facets, in order: figures share what they can.
#[must_use]
pub fn distinct<'a>(facets: impl IntoIterator<Item = &'a Facet>) -> Vec<Case> {
    let mut seen = HashSet::new();
    let all = facets.into_iter().flat_map(Facet::cases);
    all.filter(|case| seen.insert(key(case))).collect()
}

/// What distinguishes a case from all others.
#[must_use]
pub fn key(case: &Case) -> String {
    serde_json::to_string(case).unwrap_or_else(|_| format!("{case:?}"))
}

/// A smaller case of the same shape, for tests of function.
#[must_use]
pub fn shrunk(case: Case, size: Size) -> Case {
    if size.shrink <= 1 {
        return case;
    }
    Case {
        size_bytes: (case.size_bytes / size.shrink).max(64 << 10),
        updates_per_tick: (case.updates_per_tick / size.shrink).max(8),
        ticks: case.ticks.min(12),
        tick_ms: case.tick_ms.min(2),
        interval_ms: case.interval_ms.min(8),
        hold_ms: case.hold_ms.min(4),
        disk_rate: None,
        ..case
    }
}

/// Seconds one round of a case takes, about, on two idle cores: how long people have to wait.
/// The state is made, then come the base image, the timed ticks, an image in which memory is
/// measured, and the replay that verifies all of them.
#[must_use]
pub fn estimate_s(case: &Case) -> f64 {
    if let Some(service) = &case.service {
        return service.expected_s(case.is_floor());
    }
    let (bytes, ticks) = (case.size_bytes as f64, case.ticks as f64);
    let accesses = case.updates_per_tick as f64 * (1.0 + case.reads_per_update);
    let tick_s = (case.tick_ms as f64 / 1e3).max(accesses * ACCESS_S);
    let timed_s = ticks * tick_s;
    let verify_s = ticks * accesses * REPLAY_S;
    if case.is_floor() {
        return START_S + bytes * SETUP_S_PER_BYTE + timed_s + verify_s;
    }
    let paced_s =
        case.disk_rate.map_or(0.0, |rate| bytes / rate as f64).max(bytes * IMAGE_S_PER_BYTE);
    let paced_s = paced_s + case.hold_ms as f64 / 1e3;
    let memory_s = if case.memory { paced_s } else { 0.0 };
    let between_s = (case.interval_ms as f64 / 1e3).max(paced_s).max(1e-3);
    let images = 2.0 + (timed_s / between_s).ceil();
    let images_s = memory_s + bytes * IMAGE_S_PER_BYTE * images;
    START_S + 2.0 * bytes * SETUP_S_PER_BYTE + timed_s + verify_s + images_s
}

const START_S: f64 = 0.1;
/// Making an update and doing it.
const ACCESS_S: f64 = 60e-9;
/// Doing it again for the oracle.
const REPLAY_S: f64 = 15e-9;
/// First touch and filling, for each copy.
const SETUP_S_PER_BYTE: f64 = 1.5e-9;
/// Capturing and digesting an image, on one side or the other.
const IMAGE_S_PER_BYTE: f64 = 1e-9;

/// A command of ours as people type it.
#[must_use]
pub fn command(arguments: &[&str], size: Size) -> String {
    let of_scale = size.pick("", " --large", " --full");
    let scale = if size.shrink > 1 { format!(" --scale {}", size.shrink) } else { String::new() };
    format!("stillframe lab {}{of_scale}{scale}", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_share_their_cases() {
        let case = |size_bytes| Case { size_bytes, ..Case::default() };
        let spots = |sizes: &[u64]| sizes.iter().map(|&s| (s as f64, case(s))).collect();
        let one = Facet::new("a", &["none", "naive"], spots(&[1 << 20, 2 << 20]), &[]);
        let other = Facet::new("b", &["naive", "imprint"], spots(&[2 << 20]), &[]);
        assert_eq!(one.cases().count() + other.cases().count(), 6);
        assert_eq!(distinct([&one, &other]).len(), 5);
    }

    #[test]
    fn what_cannot_be_had_is_left_out_and_told() {
        let spots = vec![(1.0, Case::default())];
        let facet = Facet::new("a", &["none", "no-such", "naive", "fork"], spots, &[]);
        assert_eq!(facet.cases().count(), 3);
        assert_eq!(facet.case("fork", 0).expect("registered").unit, Unit::Page);
        assert!(facet.case("no-such", 0).is_err());
        let eight = vec![(1.0, Case { item_bytes: 8, ..Case::default() })];
        let [four, eight] = [vec![(1.0, Case::default())], eight].map(|spots| {
            let facet = Facet::new("a", &["hourglass", "bacou"], spots, &[]);
            ["hourglass", "bacou"].map(|name| facet.case(name, 0).expect("registered").unit)
        });
        assert_eq!((four, eight), ([Unit::Half, Unit::Page], [Unit::Word, Unit::Page]));
        let lines = facet.with_unit(Unit::Line);
        let why = lines.case("fork", 0).expect_err("it has pages").to_string();
        assert!(why.contains("no unit of a line"), "{why}");
        assert_eq!(lines.case("none", 0).expect("the floor").unit, Unit::Word);
    }

    #[test]
    fn more_takes_longer() {
        let case = Case::default();
        let larger = Case { size_bytes: case.size_bytes * 4, ..case.clone() };
        assert!(estimate_s(&larger) > estimate_s(&case) && estimate_s(&case) > 0.5);
        let small = shrunk(case, Size { shrink: 1000, ..Size::QUICK });
        assert!(estimate_s(&small) < 0.3);
    }
}
