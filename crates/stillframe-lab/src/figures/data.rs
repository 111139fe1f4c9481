//! What was measured, found by figure: facet, algorithm, swept value, metric.

use std::collections::HashMap;

use super::metric::Metric;
use super::plan::{self, Facet};
use crate::case::FLOOR;
use crate::record::Record;
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
        self.records.get(&plan::key(case)).map_or(&[], Vec::as_slice)
    }
}

/// The part of a run that belongs to one figure.
#[derive(Debug)]
pub struct Data<'a> {
    /// What was planned.
    pub facets: &'a [Facet],
    /// What was run.
    pub cache: &'a Cache,
    /// What was measured apart from cases.
    pub direct: &'a [Panel],
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
    /// Every record of the figure.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let cases = plan::distinct(self.facets).into_iter();
        cases.flat_map(|case| self.cache.rounds(&case))
    }
    /// The rounds of an algorithm at the spot of that number.
    #[must_use]
    pub fn rounds(&self, facet: &Facet, spot: usize, algorithm: &str) -> &[Record] {
        facet.case(algorithm, spot).map_or(&[], |case| self.cache.rounds(&case))
    }
    /// Why there is nothing of an algorithm in a facet.
    #[must_use]
    pub fn missing(&self, facet: &Facet, algorithm: &str) -> Option<String> {
        if let Err(why) = facet.case(algorithm, 0) {
            return Some(why);
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

impl View<'_> {
    /// Median and spread over rounds at the spot of that number.
    #[must_use]
    pub fn point(&self, algorithm: &str, spot: usize) -> Option<Point> {
        let x = self.facet.spots.get(spot)?.0;
        let measured = |name: &str| -> Vec<&Record> {
            let rounds = self.data.rounds(self.facet, spot, name);
            rounds.iter().filter(|record| record.is_measured()).collect()
        };
        let floors = measured(FLOOR);
        let values: Vec<f64> = measured(algorithm)
            .into_iter()
            .filter_map(|record| {
                // The floor of the same round, in which the machine was in the same mood.
                let same = floors.iter().find(|floor| floor.round == record.round);
                (self.metric.of)(record, same.or(floors.first()).copied())
            })
            .collect();
        Point::of(x, &values)
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
