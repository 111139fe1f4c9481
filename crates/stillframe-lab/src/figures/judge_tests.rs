//! Rules on made-up records: held, not held, nothing to judge by.

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
    assert_eq!(held.outcome, Outcome::Held);
    assert_eq!(held.measured, "fork / imprint = 167x at 100");
    let each = judged(MEANS, |it| it.above(&["fork"], &["naive", "imprint"], 2.5, At::Each));
    assert_eq!((each.outcome, &*each.measured), (Outcome::NotHeld, "fork / imprint = 2x at 1"));
    let but_last = judged(MEANS, |it| it.above(&["imprint"], &["naive"], 1.2, At::ButLast));
    assert_eq!(but_last.outcome, Outcome::NotHeld);
}

#[test]
fn growth_and_flatness_are_told_apart() {
    let flat = judged(MEANS, |it| it.flat(&["naive", "imprint"], 1.25));
    assert_eq!((flat.outcome, &*flat.measured), (Outcome::Held, "imprint varies by 1.2x"));
    assert_eq!(judged(MEANS, |it| it.flat(&["fork"], 1.25)).outcome, Outcome::NotHeld);
    assert_eq!(judged(MEANS, |it| it.grows(&["fork"], 0.8..=1.2)).outcome, Outcome::Held);
    let none = judged(MEANS, |it| it.grows(&["naive"], 0.8..=1.2));
    assert_eq!((none.outcome, &*none.measured), (Outcome::NotHeld, "naive grows as x to the 0.00"));
}

#[test]
fn bounds_and_likeness() {
    assert_eq!(judged(MEANS, |it| it.most(&["imprint"], 1.25)).outcome, Outcome::Held);
    assert_eq!(judged(MEANS, |it| it.most(&["imprint"], 1.15)).outcome, Outcome::NotHeld);
    assert_eq!(judged(MEANS, |it| it.least(&["fork"], 2.0)).outcome, Outcome::Held);
    assert_eq!(judged(MEANS, |it| it.alike(&["naive", "imprint"], 1.25)).outcome, Outcome::Held);
    assert_eq!(judged(MEANS, |it| it.alike(&["naive", "fork"], 1.25)).outcome, Outcome::NotHeld);
}

#[test]
fn what_is_missing_is_told() {
    let part = judged(MEANS, |it| it.flat(&["naive", "no-such"], 1.25));
    assert_eq!(part.outcome, Outcome::Held);
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
    assert_eq!(held.clone().and(fell.clone()).outcome, Outcome::NotHeld);
    assert_eq!(held.clone().and(fell.clone()).measured, "a; b");
    assert_eq!(fell.and(open.clone()).outcome, Outcome::NotHeld);
    assert_eq!(open.and(held).outcome, Outcome::Untested("c".to_owned()));
}
