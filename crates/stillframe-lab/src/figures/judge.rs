//! Rules that turn claims into verdicts: each compares medians and names the number that decided.

use super::data::{Data, View};
use super::metric::Metric;
use crate::report::{Outcome, Point};
use stillframe_measure::scale::number;

/// What came of a claim, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Held or not, or why it cannot be said.
    pub outcome: Outcome,
    /// The ratio that decided.
    pub measured: String,
}

/// At which swept values a rule must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// At all of them: the worst decides.
    Each,
    /// At the last alone.
    Last,
    /// At all but the last.
    ButLast,
}

impl Judgement {
    /// Held or not.
    #[must_use]
    pub fn of(is_held: bool, measured: String) -> Self {
        let outcome = if is_held { Outcome::Confirmed } else { Outcome::Refuted };
        Self { outcome, measured }
    }
    /// Nothing to judge by.
    #[must_use]
    pub fn untested(why: impl Into<String>) -> Self {
        Self { outcome: Outcome::Untested(why.into()), measured: String::new() }
    }
    /// Both must hold; what cannot be tested decides last.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rank = |outcome: &Outcome| match outcome {
            Outcome::Refuted => 0,
            Outcome::Untested(_) => 1,
            Outcome::Confirmed => 2,
        };
        let parts = [&self.measured, &other.measured];
        let parts: Vec<&str> = parts.into_iter().map(|s| &**s).filter(|s| !s.is_empty()).collect();
        let measured = parts.join("; ");
        let first_decides = rank(&self.outcome) <= rank(&other.outcome);
        Self { outcome: if first_decides { self.outcome } else { other.outcome }, measured }
    }
    /// The same with the names of what could not be included.
    fn without(self, missing: &[String]) -> Self {
        if missing.is_empty() {
            return self;
        }
        Self { measured: format!("{} (without {})", self.measured, missing.join(", ")), ..self }
    }
}

/// A rule on one metric in the facet of that number.
#[must_use]
pub fn within(
    data: &Data<'_>,
    facet: usize,
    metric: &Metric,
    rule: impl FnOnce(View<'_>) -> Judgement,
) -> Judgement {
    match data.facets.get(facet) {
        Some(facet) => rule(View { data, facet, metric }),
        None => Judgement::untested("not among the runs of this size"),
    }
}

impl View<'_> {
    /// The least of `high` is at least `factor` times the greatest of `low`.
    #[must_use]
    pub fn above(&self, high: &[&str], low: &[&str], factor: f64, at: At) -> Judgement {
        let spots = self.facet.spots.len();
        let range = match at {
            At::Each => 0..spots,
            At::Last => spots.saturating_sub(1)..spots,
            At::ButLast => 0..spots.saturating_sub(1),
        };
        let mut worst: Option<(f64, String)> = None;
        for spot in range {
            let named = |names: &[&str]| -> Vec<(f64, String)> {
                let value = |name: &&str| Some((self.value(name, spot)?, (*name).to_owned()));
                names.iter().filter_map(value).collect()
            };
            let least = named(high).into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
            let most = named(low).into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
            let (Some((least, less)), Some((most, more))) = (least, most) else { continue };
            let ratio = if most > 0.0 { least / most } else { f64::INFINITY };
            if worst.as_ref().is_none_or(|(worst, _)| ratio < *worst) {
                worst =
                    Some((ratio, format!("{less} / {more} = {}{}", times(ratio), self.at(spot))));
            }
        }
        let missing = self.missing(&[high, low].concat());
        match worst {
            Some((ratio, text)) => Judgement::of(ratio >= factor, text).without(&missing),
            None => self.nothing(&[high, low].concat()),
        }
    }

    /// The greatest value of each over the sweep is at most `most` times its least.
    #[must_use]
    pub fn flat(&self, names: &[&str], most: f64) -> Judgement {
        let ratio = |points: &[Point]| {
            let (low, high) = ends(points)?;
            (points.len() > 1 && low > 0.0).then(|| high / low)
        };
        let found = self.of_each(names, ratio);
        let worst = found.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((name, ratio)) = worst else { return self.nothing(names) };
        let text = format!("{name} varies by {}", times(*ratio));
        Judgement::of(*ratio <= most, text).without(&self.missing(names))
    }

    /// From the first to the last swept value, each grows as x to a power within `powers`: 1 is
    /// linear, 0 flat.
    #[must_use]
    pub fn grows(&self, names: &[&str], powers: std::ops::RangeInclusive<f64>) -> Judgement {
        let power = |points: &[Point]| {
            let (first, last) = (points.first()?, points.last()?);
            let power = (last.y / first.y).ln() / (last.x / first.x).ln();
            power.is_finite().then_some(power)
        };
        let found = self.of_each(names, power);
        let off = |power: f64| (powers.start() - power).max(power - powers.end());
        let worst = found.iter().max_by(|a, b| off(a.1).total_cmp(&off(b.1)));
        let Some((name, power)) = worst else { return self.nothing(names) };
        let text = format!("{name} grows as x to the {power:.2}");
        Judgement::of(powers.contains(power), text).without(&self.missing(names))
    }

    /// At the last swept value, the greatest is at most `most` times the least.
    #[must_use]
    pub fn alike(&self, names: &[&str], most: f64) -> Judgement {
        let last = self.of_each(names, |points| points.last().map(|point| point.y));
        let low = last.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = last.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(low), Some(high), true) = (low, high, last.len() > 1) else {
            return self.nothing(names);
        };
        let ratio = high.1 / low.1;
        let text = format!("{} / {} = {}", high.0, low.0, times(ratio));
        Judgement::of(ratio <= most, text).without(&self.missing(names))
    }

    /// Each value, at each swept value, is at least `least`.
    #[must_use]
    pub fn least(&self, names: &[&str], least: f64) -> Judgement {
        let found = self.of_each(names, |points| ends(points).map(|(low, _)| low));
        let worst = found.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((name, value)) = worst else { return self.nothing(names) };
        let text = format!("{name}: {} {}", number(*value), self.metric.unit);
        Judgement::of(*value >= least, text).without(&self.missing(names))
    }

    /// Each value, at each swept value, is at most `most`.
    #[must_use]
    pub fn most(&self, names: &[&str], most: f64) -> Judgement {
        let found = self.of_each(names, |points| ends(points).map(|(_, high)| high));
        let worst = found.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((name, value)) = worst else { return self.nothing(names) };
        let text = format!("{name}: {} {}", number(*value), self.metric.unit);
        Judgement::of(*value <= most, text).without(&self.missing(names))
    }

    fn of_each<'n>(
        &self,
        names: &[&'n str],
        of: impl Fn(&[Point]) -> Option<f64>,
    ) -> Vec<(&'n str, f64)> {
        names.iter().filter_map(|&name| Some((name, of(&self.points(name))?))).collect()
    }
    fn missing(&self, names: &[&str]) -> Vec<String> {
        let is_missing = |name: &&&str| self.points(name).is_empty();
        names.iter().filter(is_missing).map(|&name| name.to_owned()).collect()
    }
    fn nothing(&self, names: &[&str]) -> Judgement {
        let why = |&name: &&str| {
            let why = self.data.missing(self.facet, name)?;
            Some(format!("{name}: {why}"))
        };
        let reasons: Vec<String> = names.iter().filter_map(why).collect();
        Judgement::untested(if reasons.is_empty() {
            "too few points were measured".to_owned()
        } else {
            reasons.join("; ")
        })
    }
    fn at(&self, spot: usize) -> String {
        match self.facet.spots.get(spot) {
            Some((x, _)) if self.facet.spots.len() > 1 => format!(" at {}", number(*x)),
            _ => String::new(),
        }
    }
}

fn ends(points: &[Point]) -> Option<(f64, f64)> {
    let low = points.iter().map(|point| point.y).min_by(f64::total_cmp)?;
    let high = points.iter().map(|point| point.y).max_by(f64::total_cmp)?;
    Some((low, high))
}

/// A ratio for people.
pub(super) fn times(ratio: f64) -> String {
    if ratio.is_finite() { format!("{}x", number(ratio)) } else { "no measure".to_owned() }
}

/// Rules on made-up records: held, not held, nothing to judge by.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::figures::data::Cache;
    use crate::figures::metric::MEAN;
    use crate::figures::plan::Facet;
    use crate::record::{Latency, Record};

    /// A facet over 1, 10 and 100 with the mean ticks given for each algorithm.
    fn measured(means: &[(&'static str, [f64; 3])]) -> (Facet, Cache) {
        let xs = [1.0, 10.0, 100.0];
        let case = |x: f64| Case { updates_per_tick: x as u64, ..Case::default() };
        let mut names: Vec<&'static str> = means.iter().map(|(name, _)| *name).collect();
        names.push("no-such");
        let facet = Facet::new("", &names, xs.map(|x| (x, case(x))).into(), &[]);
        let mut cache = Cache::default();
        for (name, values) in means {
            for (spot, &mean) in values.iter().enumerate() {
                let case = facet.case(name, spot).expect("registered");
                for (round, factor) in [(1, 1.0), (2, 1.1), (3, 0.9)] {
                    let tick_latency_ms = Latency { mean: mean * factor, ..Latency::default() };
                    let case = case.clone();
                    cache.add(Record { round, tick_latency_ms, case, ..Record::default() });
                }
            }
        }
        (facet, cache)
    }

    /// Judges by a rule on the mean tick.
    fn judged(
        means: &[(&'static str, [f64; 3])],
        rule: impl FnOnce(View<'_>) -> Judgement,
    ) -> Judgement {
        let (facet, cache) = measured(means);
        let facets = [facet];
        within(&Data { facets: &facets, cache: &cache, direct: &[] }, 0, &MEAN, rule)
    }

    const MEANS: &[(&str, [f64; 3])] =
        &[("naive", [1.0, 1.0, 1.0]), ("fork", [2.0, 20.0, 200.0]), ("imprint", [1.0, 1.1, 1.2])];

    #[test]
    fn above_compares_the_least_with_the_greatest() {
        let held = judged(MEANS, |it| it.above(&["fork"], &["naive", "imprint"], 2.0, At::Last));
        assert_eq!(held.outcome, Outcome::Confirmed);
        assert_eq!(held.measured, "fork / imprint = 167x at 100");
        let each = judged(MEANS, |it| it.above(&["fork"], &["naive", "imprint"], 2.5, At::Each));
        assert_eq!((each.outcome, &*each.measured), (Outcome::Refuted, "fork / imprint = 2x at 1"));
        let but_last = judged(MEANS, |it| it.above(&["imprint"], &["naive"], 1.2, At::ButLast));
        assert_eq!(but_last.outcome, Outcome::Refuted);
    }

    #[test]
    fn growth_and_flatness_are_told_apart() {
        let flat = judged(MEANS, |it| it.flat(&["naive", "imprint"], 1.25));
        assert_eq!((flat.outcome, &*flat.measured), (Outcome::Confirmed, "imprint varies by 1.2x"));
        assert_eq!(judged(MEANS, |it| it.flat(&["fork"], 1.25)).outcome, Outcome::Refuted);
        assert_eq!(judged(MEANS, |it| it.grows(&["fork"], 0.8..=1.2)).outcome, Outcome::Confirmed);
        let none = judged(MEANS, |it| it.grows(&["naive"], 0.8..=1.2));
        assert_eq!(
            (none.outcome, &*none.measured),
            (Outcome::Refuted, "naive grows as x to the 0.00")
        );
    }

    #[test]
    fn bounds_and_likeness() {
        assert_eq!(judged(MEANS, |it| it.most(&["imprint"], 1.25)).outcome, Outcome::Confirmed);
        assert_eq!(judged(MEANS, |it| it.most(&["imprint"], 1.15)).outcome, Outcome::Refuted);
        assert_eq!(judged(MEANS, |it| it.least(&["fork"], 2.0)).outcome, Outcome::Confirmed);
        assert_eq!(
            judged(MEANS, |it| it.alike(&["naive", "imprint"], 1.25)).outcome,
            Outcome::Confirmed
        );
        assert_eq!(
            judged(MEANS, |it| it.alike(&["naive", "fork"], 1.25)).outcome,
            Outcome::Refuted
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        let part = judged(MEANS, |it| it.flat(&["naive", "no-such"], 1.25));
        assert_eq!(part.outcome, Outcome::Confirmed);
        assert!(part.measured.ends_with("(without no-such)"), "{}", part.measured);
        let none = judged(MEANS, |it| it.above(&["no-such"], &["naive"], 1.0, At::Each));
        assert_eq!(none.outcome, Outcome::Untested("no-such: not in this build".to_owned()));
        let beyond =
            within(&Data { facets: &[], cache: &Cache::default(), direct: &[] }, 0, &MEAN, |it| {
                it.flat(&["naive"], 1.0)
            });
        assert!(matches!(beyond.outcome, Outcome::Untested(_)));
    }

    #[test]
    fn of_two_rules_the_worse_decides() {
        let (held, fell) = (Judgement::of(true, "a".into()), Judgement::of(false, "b".into()));
        let open = Judgement::untested("c");
        assert_eq!(held.clone().and(fell.clone()).outcome, Outcome::Refuted);
        assert_eq!(held.clone().and(fell.clone()).measured, "a; b");
        assert_eq!(fell.and(open.clone()).outcome, Outcome::Refuted);
        assert_eq!(open.and(held).outcome, Outcome::Untested("c".to_owned()));
    }
}
