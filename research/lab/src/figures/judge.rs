//! Rules that turn claims into verdicts. A rule compares what it is shown and names the number that
//! decided. It is shown each round by itself, and the rounds must agree; of all rounds together,
//! which it is shown as medians, it gives the number alone.

use super::data::{Asked, Data, View};
use super::metric::Metric;
use crate::case::FLOOR;
use crate::report::{Outcome, Point, Tally};
use stillframe_measure::scale::number;

/// The outcome of a claim, and the number that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Held or not, or why the claim is untested.
    pub outcome: Outcome,
    /// The ratio that decided.
    pub measured: String,
    /// The run that decided, if it was another one than that of the rounds.
    pub recorded: Option<String>,
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
    pub fn new(is_held: bool, measured: String) -> Self {
        let outcome = if is_held { Outcome::Held } else { Outcome::NotHeld };
        Self { outcome, measured, recorded: None }
    }
    /// Nothing to judge by.
    #[must_use]
    pub fn untested(why: impl Into<String>) -> Self {
        Self { outcome: Outcome::Untestable(why.into()), ..Self::new(false, String::new()) }
    }
    /// What would decide was not run.
    #[must_use]
    pub fn not_run(what: impl Into<String>) -> Self {
        Self { outcome: Outcome::NotRun(what.into()), ..Self::new(false, String::new()) }
    }
    /// Whether a ratio holds, with where it was found; `None` if nothing was measured.
    pub(super) fn from_ratio(worst: Option<(f64, String)>, holds: impl Fn(f64) -> bool) -> Self {
        match worst {
            Some((ratio, place)) => Self::new(holds(ratio), format!("{place}: {}", times(ratio))),
            None => Self::untested("it was not measured"),
        }
    }
    /// Both must hold; what cannot be tested decides last.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rank = |outcome: &Outcome| match outcome {
            Outcome::NotHeld => 0,
            Outcome::Untestable(_) | Outcome::TooSmall(_) | Outcome::NotRun(_) => 1,
            Outcome::Undecided => 2,
            Outcome::Held => 3,
        };
        let parts = [&self.measured, &other.measured];
        let parts: Vec<&str> = parts.into_iter().map(|s| &**s).filter(|s| !s.is_empty()).collect();
        let measured = parts.join("; ");
        let first_decides = rank(&self.outcome) <= rank(&other.outcome);
        let outcome = if first_decides { self.outcome } else { other.outcome };
        Self { outcome, measured, recorded: self.recorded.or(other.recorded) }
    }
    /// The same with a name before the number that decided.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        if self.measured.is_empty() {
            return self;
        }
        Self { measured: format!("{name}: {}", self.measured), ..self }
    }
    /// The same with the names of what could not be included.
    fn without(self, missing: &[String]) -> Self {
        if missing.is_empty() {
            return self;
        }
        Self { measured: format!("{} (without {})", self.measured, missing.join(", ")), ..self }
    }
}

/// What the rounds together say to a claim.
#[derive(Debug)]
pub struct Ruling {
    /// The verdict.
    pub judgement: Judgement,
    /// What each round said.
    pub tally: Tally,
    /// What the rule looked at.
    pub asked: Asked,
}

/// Judges by a rule: in each round that has all of what the rule looks at.
pub fn rule(data: &Data<'_>, rule: impl Fn(&Data<'_>) -> Judgement) -> Ruling {
    let all = Data::new(data.facets, data.cache, data.direct_rounds());
    let together = rule(&all);
    let asked = all.asked();
    let mut tally = Tally::default();
    for round in data.whole_rounds(&asked) {
        match rule(&data.of_round(round)).outcome {
            Outcome::Held => tally.held += 1,
            Outcome::NotHeld => tally.fell += 1,
            _ => {}
        }
    }
    if together.recorded.is_some() {
        return Ruling { judgement: together, tally, asked };
    }
    let outcome = match together.outcome {
        it @ (Outcome::Untestable(_) | Outcome::TooSmall(_) | Outcome::NotRun(_)) => it,
        _ if tally == Tally::default() => {
            Outcome::Untestable("no round measured all that the claim needs".to_owned())
        }
        _ => tally.outcome(),
    };
    let mut measured = together.measured;
    if let Some(rounds) = tally.text().filter(|_| outcome.is_measured()) {
        measured = format!("{measured}; {rounds}");
    }
    Ruling { judgement: Judgement { outcome, measured, recorded: None }, tally, asked }
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
            if least <= 0.0 && most <= 0.0 {
                let text = format!("{less} and {more} are both below the floor{}", self.at(spot));
                return Judgement::untested(text);
            }
            let ratio = if most > 0.0 { least / most } else { f64::INFINITY };
            if worst.as_ref().is_none_or(|(worst, _)| ratio < *worst) {
                worst =
                    Some((ratio, format!("{less} / {more} = {}{}", times(ratio), self.at(spot))));
            }
        }
        let missing = self.missing(&[high, low].concat());
        match worst {
            Some((ratio, text)) => Judgement::new(ratio >= factor, text).without(&missing),
            None => self.nothing(&[high, low].concat()),
        }
    }

    /// As [`Self::above`], unless plain memory has more than the bound leaves: then no algorithm
    /// could be below it, and the bound judges the machine.
    #[must_use]
    pub fn above_floor(&self, high: &[&str], low: &[&str], factor: f64) -> Judgement {
        let spot = self.facet.spots.len().saturating_sub(1);
        let least = high.iter().filter_map(|name| self.value(name, spot)).min_by(f64::total_cmp);
        match (self.value(FLOOR, spot), least) {
            (Some(floor), Some(least)) if floor * factor > least => Judgement {
                measured: format!("{} of {}", number(floor), number(least)),
                ..Judgement::untested("plain memory alone has more than the bound leaves")
            },
            _ => self.above(high, low, factor, At::Last),
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
        Judgement::new(*ratio <= most, text).without(&self.missing(names))
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
        Judgement::new(powers.contains(power), text).without(&self.missing(names))
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
        if low.1 <= 0.0 {
            return Judgement::untested(format!("{} is not above zero", low.0));
        }
        let ratio = high.1 / low.1;
        let text = format!("{} / {} = {}", high.0, low.0, times(ratio));
        Judgement::new(ratio <= most, text).without(&self.missing(names))
    }

    /// Each value, at each swept value, is at least `least`.
    #[must_use]
    pub fn least(&self, names: &[&str], least: f64) -> Judgement {
        let found = self.of_each(names, |points| ends(points).map(|(low, _)| low));
        let worst = found.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((name, value)) = worst else { return self.nothing(names) };
        let text = format!("{name}: {} {}", number(*value), self.metric.unit);
        Judgement::new(*value >= least, text).without(&self.missing(names))
    }

    /// Each value, at each swept value, is at most `most`.
    #[must_use]
    pub fn most(&self, names: &[&str], most: f64) -> Judgement {
        let found = self.of_each(names, |points| ends(points).map(|(_, high)| high));
        let worst = found.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((name, value)) = worst else { return self.nothing(names) };
        let text = format!("{name}: {} {}", number(*value), self.metric.unit);
        Judgement::new(*value <= most, text).without(&self.missing(names))
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
    if ratio.is_finite() { format!("{}x", number(ratio)) } else { "beyond measure".to_owned() }
}

/// Rules on made-up records: held, not held, nothing to judge by.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::case::record::{Latency, Record};
    use crate::figures::data::{Cache, Direct};
    use crate::figures::metric::MEAN;
    use crate::figures::plan::Facet;

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
        within(&Data::new(&facets, &cache, &Direct::new()), 0, &MEAN, rule)
    }

    const MEANS: &[(&str, [f64; 3])] =
        &[("naive", [1.0, 1.0, 1.0]), ("fork", [2.0, 20.0, 200.0]), ("imprint", [1.0, 1.1, 1.2])];

    #[test]
    fn above_compares_the_least_with_the_greatest() {
        let held = judged(MEANS, |it| it.above(&["fork"], &["naive", "imprint"], 2.0, At::Last));
        assert_eq!(held.outcome, Outcome::Held);
        assert_eq!(held.measured, "fork / imprint = 167x at 100");
        let each = judged(MEANS, |it| it.above(&["fork"], &["naive", "imprint"], 2.5, At::Each));
        assert_eq!((each.outcome, &*each.measured), (Outcome::NotHeld, "fork / imprint = 2x at 1"));
        let but_last = judged(MEANS, |it| it.above(&["imprint"], &["naive"], 1.2, At::ButLast));
        assert_eq!(but_last.outcome, Outcome::NotHeld);
    }

    #[test]
    fn a_bound_that_plain_memory_misses_judges_no_algorithm() {
        let with = |floor: f64| {
            let means = [("none", [floor; 3]), ("naive", [20.0; 3]), ("imprint", [1.8; 3])];
            judged(&means, |it| it.above_floor(&["naive"], &["imprint"], 10.0))
        };
        assert_eq!(with(1.5).outcome, Outcome::Held);
        assert!(matches!(with(2.1).outcome, Outcome::Untestable(_)), "a tenth of naive is 2");
        let means = [("none", [1.0; 3]), ("naive", [20.0; 3]), ("imprint", [3.0; 3])];
        let fell = judged(&means, |it| it.above_floor(&["naive"], &["imprint"], 10.0));
        assert_eq!(fell.outcome, Outcome::NotHeld);
    }

    #[test]
    fn growth_and_flatness_are_told_apart() {
        let flat = judged(MEANS, |it| it.flat(&["naive", "imprint"], 1.25));
        assert_eq!((flat.outcome, &*flat.measured), (Outcome::Held, "imprint varies by 1.2x"));
        assert_eq!(judged(MEANS, |it| it.flat(&["fork"], 1.25)).outcome, Outcome::NotHeld);
        assert_eq!(judged(MEANS, |it| it.grows(&["fork"], 0.8..=1.2)).outcome, Outcome::Held);
        let none = judged(MEANS, |it| it.grows(&["naive"], 0.8..=1.2));
        assert_eq!(
            (none.outcome, &*none.measured),
            (Outcome::NotHeld, "naive grows as x to the 0.00")
        );
    }

    #[test]
    fn bounds_and_likeness() {
        assert_eq!(judged(MEANS, |it| it.most(&["imprint"], 1.25)).outcome, Outcome::Held);
        assert_eq!(judged(MEANS, |it| it.most(&["imprint"], 1.15)).outcome, Outcome::NotHeld);
        assert_eq!(judged(MEANS, |it| it.least(&["fork"], 2.0)).outcome, Outcome::Held);
        assert_eq!(
            judged(MEANS, |it| it.alike(&["naive", "imprint"], 1.25)).outcome,
            Outcome::Held
        );
        assert_eq!(
            judged(MEANS, |it| it.alike(&["naive", "fork"], 1.25)).outcome,
            Outcome::NotHeld
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        let part = judged(MEANS, |it| it.flat(&["naive", "no-such"], 1.25));
        assert_eq!(part.outcome, Outcome::Held);
        assert!(part.measured.ends_with("(without no-such)"), "{}", part.measured);
        let none = judged(MEANS, |it| it.above(&["no-such"], &["naive"], 1.0, At::Each));
        assert_eq!(none.outcome, Outcome::Untestable("no-such: not in this build".to_owned()));
        let beyond = within(&Data::new(&[], &Cache::default(), &Direct::new()), 0, &MEAN, |it| {
            it.flat(&["naive"], 1.0)
        });
        assert!(matches!(beyond.outcome, Outcome::Untestable(_)));
    }

    #[test]
    fn of_two_rules_the_worse_decides() {
        let (held, fell) = (Judgement::new(true, "a".into()), Judgement::new(false, "b".into()));
        let open = Judgement::untested("c");
        assert_eq!(held.clone().and(fell.clone()).outcome, Outcome::NotHeld);
        assert_eq!(held.clone().and(fell.clone()).measured, "a; b");
        assert_eq!(fell.and(open.clone()).outcome, Outcome::NotHeld);
        assert_eq!(open.and(held).outcome, Outcome::Untestable("c".to_owned()));
    }

    /// A facet of one spot with the mean ticks of `imprint` and `fork` given round by round.
    fn ruled(rounds: &[[f64; 2]], judge: impl Fn(View<'_>) -> Judgement) -> Ruling {
        let facet = Facet::new("", &["imprint", "fork"], vec![(1.0, Case::default())], &[]);
        let mut cache = Cache::default();
        for (number, means) in (1..).zip(rounds) {
            for (name, &mean) in ["imprint", "fork"].iter().zip(means) {
                let case = facet.case(name, 0).expect("registered");
                let tick_latency_ms = Latency { mean, ..Latency::default() };
                cache.add(Record { round: number, tick_latency_ms, case, ..Record::default() });
            }
        }
        let (facets, direct) = ([facet], Direct::new());
        let data = Data::new(&facets, &cache, &direct);
        rule(&data, |data| within(data, 0, &MEAN, &judge))
    }

    fn twice(it: View<'_>) -> Judgement {
        it.above(&["fork"], &["imprint"], 2.0, At::Last)
    }

    #[test]
    fn rounds_that_agree_decide_and_others_leave_it_open() {
        let held = ruled(&[[1.0, 2.5], [1.0, 3.0]], twice);
        assert_eq!(held.judgement.outcome, Outcome::Held);
        assert_eq!(held.judgement.measured, "fork / imprint = 2.75x");
        let fell = ruled(&[[1.0, 1.5], [1.0, 1.9]], twice);
        assert_eq!(fell.judgement.outcome, Outcome::NotHeld);
        // The medians hold by far, but the spread straddles the bound.
        let open = ruled(&[[1.0, 9.0], [1.0, 1.9]], twice);
        assert_eq!(open.judgement.outcome, Outcome::Undecided);
        assert_eq!(open.judgement.measured, "fork / imprint = 5.45x; it held in 1 of 2 rounds");
        assert_eq!(open.tally, Tally { held: 1, fell: 1 });
        let outlier = [[1.0, 9.0], [1.0, 1.9], [1.0, 3.0], [1.0, 3.0], [1.0, 3.0]];
        assert_eq!(ruled(&outlier, twice).judgement.outcome, Outcome::Held);
    }

    #[test]
    fn a_bound_from_above_is_judged_round_by_round_too() {
        let most = |it: View<'_>| it.most(&["fork"], 2.0);
        assert_eq!(ruled(&[[1.0, 1.5], [1.0, 2.0]], most).judgement.outcome, Outcome::Held);
        assert_eq!(ruled(&[[1.0, 2.1], [1.0, 3.0]], most).judgement.outcome, Outcome::NotHeld);
        assert_eq!(ruled(&[[1.0, 1.0], [1.0, 2.1]], most).judgement.outcome, Outcome::Undecided);
    }

    #[test]
    fn one_round_decides_nothing_and_no_spread_is_no_doubt() {
        let one = ruled(&[[1.0, 9.0]], twice);
        assert_eq!(one.judgement.outcome, Outcome::Undecided);
        assert!(one.judgement.measured.ends_with("one round shows no spread"));
        let same = ruled(&[[1.0, 2.0]; 3], twice);
        assert_eq!(same.judgement.outcome, Outcome::Held, "exactly at the bound, in every round");
        assert_eq!(ruled(&[[1.0, 1.0]; 2], twice).judgement.outcome, Outcome::NotHeld);
    }

    #[test]
    fn what_is_no_number_judges_nothing() {
        let nan = ruled(&[[1.0, f64::NAN], [1.0, f64::NAN]], twice);
        assert!(matches!(nan.judgement.outcome, Outcome::Untestable(_)), "{nan:?}");
        let infinite = ruled(&[[1.0, f64::INFINITY], [1.0, 3.0], [1.0, 3.0]], twice);
        assert_eq!(infinite.tally, Tally { held: 2, fell: 0 }, "the round without is left out");
        assert_eq!(infinite.judgement.outcome, Outcome::Held);
        assert!(matches!(ruled(&[], twice).judgement.outcome, Outcome::Untestable(_)));
    }

    #[test]
    fn two_overheads_below_the_floor_are_not_compared() {
        let metric = &crate::figures::metric::OVERHEAD;
        let names = ["none", "naive", "fork"];
        let spot = Case { tick_ms: 1, interval_ms: 1, ..Case::default() };
        let facet = Facet::new("", &names, vec![(1.0, spot)], &[]);
        let judged = |means: [f64; 3]| {
            let mut cache = Cache::default();
            for (name, mean) in names.iter().zip(means) {
                let case = facet.case(name, 0).expect("registered");
                let tick_latency_ms = Latency { mean, ..Latency::default() };
                cache.add(Record { round: 1, tick_latency_ms, case, ..Record::default() });
            }
            let (facets, direct) = ([facet.clone()], Direct::new());
            let data = Data::new(&facets, &cache, &direct);
            within(&data, 0, metric, |it| it.above(&["fork"], &["naive"], 1.0, At::Last)).outcome
        };
        assert!(matches!(judged([1.0, 0.9, 0.95]), Outcome::Untestable(_)));
        assert_eq!(judged([1.0, 0.9, 1.5]), Outcome::Held);
        assert_eq!(judged([1.0, 1.5, 0.9]), Outcome::NotHeld);
    }

    #[test]
    fn a_round_counts_if_it_has_all_that_the_rule_looks_at() {
        let facet = Facet::new("", &["imprint", "fork"], vec![(1.0, Case::default())], &[]);
        let mut cache = Cache::default();
        for (round, name, mean) in [
            (1, "imprint", 1.0),
            (1, "fork", 3.0),
            (2, "imprint", 1.0),
            (2, "fork", 3.0),
            (3, "fork", 1.0),
        ] {
            let case = facet.case(name, 0).expect("registered");
            let tick_latency_ms = Latency { mean, ..Latency::default() };
            cache.add(Record { round, tick_latency_ms, case, ..Record::default() });
        }
        let (facets, direct) = ([facet], Direct::new());
        let data = Data::new(&facets, &cache, &direct);
        let ruling = rule(&data, |data| within(data, 0, &MEAN, twice));
        assert_eq!(ruling.tally, Tally { held: 2, fell: 0 });
        assert_eq!(ruling.asked.cases.len(), 2);
    }
}
