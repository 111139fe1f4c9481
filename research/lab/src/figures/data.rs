//! The measurements of a figure, found by facet, algorithm, swept value and metric.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::metric::Metric;
use super::plan::{self, Facet};
use crate::case::FLOOR;
use crate::case::record::Record;
use crate::error::sentence;
use crate::report::{Panel, Point};

/// Every record of a run, by case.
#[derive(Debug, Default)]
pub struct Cache {
    records: HashMap<String, Vec<Record>>,
}

impl Cache {
    /// Adds a record.
    pub fn add(&mut self, record: Record) {
        self.records.entry(plan::key(&record.case)).or_default().push(record);
    }
    /// The rounds of a case.
    pub fn rounds(&self, case: &crate::Case) -> &[Record] {
        self.records_of(&plan::key(case))
    }
    fn records_of(&self, key: &str) -> &[Record] {
        self.records.get(key).map_or(&[], Vec::as_slice)
    }
}

/// The series that a figure measures apart from cases, by round.
pub type Direct = BTreeMap<u32, Vec<Panel>>;

/// The part of a run that belongs to one figure.
#[derive(Debug)]
pub struct Data<'a> {
    /// The plan.
    pub facets: &'a [Facet],
    /// What was run.
    pub cache: &'a Cache,
    /// What was measured apart from cases.
    direct: &'a Direct,
    /// The one round that rules see; `None`: all rounds.
    round: Option<u32>,
    /// What was looked at so far.
    asked: RefCell<BTreeSet<String>>,
    asked_direct: Cell<bool>,
}

/// The data that a rule has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Keys of cases.
    pub cases: BTreeSet<String>,
    /// Whether it looked at what is measured apart from cases.
    pub direct: bool,
}

/// One metric in one facet.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// All of the figure.
    pub data: &'a Data<'a>,
    /// The facet.
    pub facet: &'a Facet,
    /// The metric.
    pub metric: &'a Metric,
}

impl<'a> Data<'a> {
    /// All rounds of a figure.
    #[must_use]
    pub fn new(facets: &'a [Facet], cache: &'a Cache, direct: &'a Direct) -> Self {
        let (asked, asked_direct) = (RefCell::default(), Cell::default());
        Self { facets, cache, direct, round: None, asked, asked_direct }
    }
    /// The same with one round alone, of which no rule has read anything.
    #[must_use]
    pub fn of_round(&self, round: u32) -> Self {
        Self { round: Some(round), ..Self::new(self.facets, self.cache, self.direct) }
    }
    /// What was measured apart from cases, by round.
    #[must_use]
    pub fn direct_rounds(&self) -> &'a Direct {
        self.direct
    }
    /// What was looked at so far.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked { cases: self.asked.borrow().clone(), direct: self.asked_direct.get() }
    }
    /// The rounds that have all of what was looked at, as far as any round has it.
    #[must_use]
    pub fn whole_rounds(&self, asked: &Asked) -> Vec<u32> {
        let measured = |key: &String| -> BTreeSet<u32> {
            let rounds = self.cache.records_of(key).iter().filter(|record| record.is_measured());
            rounds.map(|record| record.round).collect()
        };
        let cases = asked.cases.iter().map(measured).filter(|rounds| !rounds.is_empty());
        let direct = asked.direct.then(|| self.direct.keys().copied().collect());
        let all = cases.chain(direct).reduce(|all, one| all.intersection(&one).copied().collect());
        all.unwrap_or_default().into_iter().collect()
    }
    /// What was measured apart from cases: of the round, or the median over all.
    #[must_use]
    pub fn direct(&self) -> Vec<Panel> {
        self.asked_direct.set(true);
        match self.round {
            Some(round) => self.direct.get(&round).cloned().unwrap_or_default(),
            None => merged(self.direct),
        }
    }
    /// The first point of the series of that name which is measured apart from cases.
    #[must_use]
    pub fn direct_point(&self, name: &str) -> Option<Point> {
        let series = self.direct().into_iter().flat_map(|panel| panel.series);
        let mut named = series.filter(|series| series.name == name && !series.points.is_empty());
        named.find_map(|series| series.points.first().copied()).filter(|point| point.y.is_finite())
    }
    /// Every record of the figure.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let cases = plan::distinct(self.facets).into_iter();
        cases.flat_map(|case| self.cache.rounds(&case))
    }
    /// The rounds of an algorithm at the spot of that number.
    #[must_use]
    pub fn rounds(&self, facet: &Facet, spot: usize, algorithm: &str) -> &'a [Record] {
        let Ok(case) = facet.case(algorithm, spot) else { return &[] };
        let key = plan::key(&case);
        let rounds = self.cache.records_of(&key);
        self.asked.borrow_mut().insert(key);
        rounds
    }
    /// Why there is nothing of an algorithm in a facet.
    #[must_use]
    pub fn missing(&self, facet: &Facet, algorithm: &str) -> Option<String> {
        if let Err(why) = facet.case(algorithm, 0) {
            return Some(sentence(&why));
        }
        let spots = 0..facet.spots.len();
        let rounds = || spots.clone().flat_map(|spot| self.rounds(facet, spot, algorithm));
        if rounds().any(Record::is_measured) {
            return None;
        }
        let why = rounds().find_map(|it| it.unavailable.clone().or_else(|| it.failed.clone()));
        Some(why.unwrap_or_else(|| "was not run".to_owned()))
    }
}

/// Every round in one: medians, and the spread of all rounds.
fn merged(direct: &Direct) -> Vec<Panel> {
    let Some(first) = direct.values().next() else { return Vec::new() };
    let mut panels = first.clone();
    for (number, panel) in panels.iter_mut().enumerate() {
        for series in &mut panel.series {
            let same = |panels: &Vec<Panel>| {
                let mut all = panels.get(number)?.series.iter();
                Some(all.find(|it| it.name == series.name)?.points.clone())
            };
            let points: Vec<Point> = direct.values().filter_map(same).flatten().collect();
            let mut xs: Vec<f64> = points.iter().map(|point| point.x).collect();
            xs.sort_unstable_by(f64::total_cmp);
            xs.dedup();
            let at = |x: f64| points.iter().filter(move |point| point.x.total_cmp(&x).is_eq());
            let merged = |x: f64| {
                let ys: Vec<f64> = at(x).map(|point| point.y).collect();
                let low = at(x).map(|point| point.low).fold(f64::INFINITY, f64::min);
                let high = at(x).map(|point| point.high).fold(f64::NEG_INFINITY, f64::max);
                Some(Point { low, high, ..Point::from_values(x, &ys)? })
            };
            series.points = xs.into_iter().filter_map(merged).collect();
        }
    }
    panels
}

impl View<'_> {
    /// Median and spread over rounds at the spot of that number.
    #[must_use]
    pub fn point(&self, algorithm: &str, spot: usize) -> Option<Point> {
        let x = self.facet.spots.get(spot)?.0;
        let measured = |name: &str| -> Vec<&Record> {
            let rounds = self.data.rounds(self.facet, spot, name);
            let wanted = |record: &&Record| self.data.round.is_none_or(|it| it == record.round);
            rounds.iter().filter(wanted).filter(|record| record.is_measured()).collect()
        };
        let has_floor = self.facet.algorithms.contains(&FLOOR);
        let floors = if has_floor { measured(FLOOR) } else { Vec::new() };
        let values: Vec<f64> = measured(algorithm)
            .into_iter()
            .filter_map(|record| {
                // The floor of the same round, in which the machine was in the same mood.
                let same = floors.iter().find(|floor| floor.round == record.round);
                (self.metric.of)(record, same.or(floors.first()).copied())
            })
            .collect();
        Point::from_values(x, &values)
    }
    /// The median at the spot of that number.
    #[must_use]
    pub fn value(&self, algorithm: &str, spot: usize) -> Option<f64> {
        self.point(algorithm, spot).map(|point| point.y)
    }
    /// All points of an algorithm.
    #[must_use]
    pub fn points(&self, algorithm: &str) -> Vec<Point> {
        (0..self.facet.spots.len()).filter_map(|spot| self.point(algorithm, spot)).collect()
    }
}
