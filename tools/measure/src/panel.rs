//! What a plot shows, apart from how it is drawn.

use super::style::Style;

/// One plot: axes and series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// What distinguishes it from the other panels of its figure.
    pub title: String,
    /// How points are shown.
    pub kind: Kind,
    /// The swept variable, with its unit.
    pub x: String,
    /// The metric, with its unit.
    pub y: String,
    /// One for each thing that is compared.
    pub series: Vec<Series>,
    /// Stretches of x that are shaded in a [`Kind::Trace`].
    pub shaded: Vec<[f64; 2]>,
}

/// How points are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Joined by lines, the spread as bars.
    #[default]
    Lines,
    /// Many points over time: one strip for each series, on the same scales.
    Strips,
    /// Many points over time on one pair of axes, with stretches of time shaded.
    Trace,
    /// Single points in a plane, named beside; without spread, which would hide the names.
    Scatter,
    /// One row for each series, its value along the row.
    Rows,
}

/// The points of one of the things that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it stands for.
    pub name: String,
    /// How it looks.
    pub style: Style,
    /// In the order of x.
    pub points: Vec<Point>,
    /// Stretches of x that are shaded in the strip of this series.
    pub shaded: Vec<[f64; 2]>,
}

/// A median with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Place along the swept variable.
    pub x: f64,
    /// Median over rounds.
    pub y: f64,
    /// Least of all rounds.
    pub low: f64,
    /// Greatest of all rounds.
    pub high: f64,
}

impl Point {
    /// A single value, without spread.
    #[must_use]
    pub fn single(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
    /// Median and spread of `values`, or `None` if there are none.
    #[must_use]
    pub fn from_values(x: f64, values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let y = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { x, y, low, high })
    }
}

impl Series {
    /// The series of that number, in the style that goes with it.
    #[must_use]
    pub fn numbered(index: usize, name: &str, points: Vec<Point>) -> Self {
        let (name, style) = (name.to_owned(), Style::numbered(index));
        Self { name, style, points, shaded: Vec::new() }
    }
}

impl Panel {
    /// Without shaded stretches.
    #[must_use]
    pub fn new(title: &str, kind: Kind, x: &str, y: &str, series: Vec<Series>) -> Self {
        let (title, x, y) = (title.to_owned(), x.to_owned(), y.to_owned());
        Self { title, kind, x, y, series, shaded: Vec::new() }
    }
    /// Every different x, in rising order.
    #[must_use]
    pub fn xs(&self) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut xs: Vec<f64> = points.map(|point| point.x).filter(|x| x.is_finite()).collect();
        xs.sort_unstable_by(f64::total_cmp);
        xs.dedup();
        xs
    }
    /// Whether there is anything to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_the_median_with_its_spread() {
        assert_eq!(Point::from_values(1.0, &[]), None);
        assert_eq!(Point::from_values(1.0, &[5.0, f64::NAN]), Some(Point::single(1.0, 5.0)));
        let odd = Point { x: 1.0, y: 2.0, low: 1.0, high: 9.0 };
        assert_eq!(Point::from_values(1.0, &[9.0, 1.0, 2.0]), Some(odd));
        assert_eq!(Point::from_values(1.0, &[9.0, 1.0, 2.0, 4.0]), Some(Point { y: 3.0, ..odd }));
    }
}
