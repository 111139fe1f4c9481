//! Plots are well formed, whole and within their picture, whatever the points are.

use super::*;
use crate::svg::elements;

const KINDS: [Kind; 5] = [Kind::Lines, Kind::Strips, Kind::Trace, Kind::Scatter, Kind::Rows];

fn panel(kind: Kind, series: usize) -> Panel {
    let points = |index: usize| {
        let y = |x: f64| (index + 1) as f64 * x;
        let point = |x: f64| Point { x, y: y(x), low: y(x) * 0.9, high: y(x) * 1.2 };
        [16.0, 32.0, 256.0].map(point).to_vec()
    };
    let names = ["naive", "fork", "imprint", "<none> & \"co\""];
    let series =
        (0..series).map(|index| Series::numbered(index, names[index % 4], points(index))).collect();
    let text = str::to_owned;
    let (title, x, y) = (text("a<b"), text("x [k]"), text("y [ms]"));
    Panel { title, kind, x, y, series, shaded: vec![[20.0, 30.0]] }
}

#[test]
fn every_kind_of_panel_is_well_formed_and_shows_all_series() {
    for kind in KINDS {
        for series in [0, 1, 4, 23] {
            let markup = svg(&panel(kind, series), "id", "what & why");
            let found = elements(&markup).unwrap_or_else(|bad| panic!("{kind:?}: {bad}"));
            assert!(found.iter().any(|name| name == "desc"));
            let groups = found.iter().filter(|name| *name == "g").count();
            assert_eq!(groups, series, "{kind:?}");
            assert!(!markup.contains("NaN") && !markup.contains("inf"), "{kind:?}");
        }
    }
}

#[test]
fn points_that_are_no_numbers_do_no_harm() {
    for kind in KINDS {
        let mut panel = panel(kind, 2);
        panel.series[0].points = vec![Point::single(1.0, 0.0), Point::single(1.0, -1.0)];
        let markup = svg(&panel, "id", "");
        assert!(elements(&markup).is_ok() && !markup.contains("NaN"), "{kind:?}");
    }
}

#[test]
fn the_strip_of_a_series_is_shaded_where_the_series_says_so() {
    let mut panel = panel(Kind::Strips, 2);
    let count = |panel: &Panel| svg(panel, "id", "").matches("class=\"shade\"").count();
    assert_eq!(count(&panel), 0, "the panel's own stretches belong to a trace");
    panel.series[1].shaded = vec![[16.0, 20.0], [32.0, 256.0]];
    assert_eq!(count(&panel), 2);
}

#[test]
fn names_move_apart_and_keep_their_order() {
    let moved = spread_out(&[50.0, 52.0, 10.0, 99.0, 98.0], 0.0, 100.0, 14.0);
    assert_eq!(moved, [50.0, 64.0, 10.0, 100.0, 86.0]);
    let crowded = spread_out(&[5.0; 8], 0.0, 200.0, 14.0);
    assert!(crowded.windows(2).all(|two| two[1] - two[0] >= 14.0));
}

#[test]
fn everything_is_drawn_within_the_picture() {
    for kind in KINDS {
        let panel = panel(kind, 23);
        let markup = svg(&panel, "id", "");
        for (attribute, most) in [(" x=\"", WIDTH), (" y=\"", height(&panel))] {
            for value in markup.split(attribute).skip(1) {
                let value: f64 = value.split('"').next().unwrap_or("").parse().unwrap_or(-1.0);
                assert!((0.0..=most).contains(&value), "{kind:?} {attribute}{value}");
            }
        }
    }
}
