//! Drawing panels: axes, series, names beside them.
//!
//! A panel is drawn for a width of 440, which a phone shows a little smaller and a desk larger;
//! names stand beside the lines they belong to, so that no legend has to be looked up.

use super::panel::{Kind, Panel, Point, Series};
use super::scale::{Scale, number};
use super::svg::{Anchor, Drawing, Escaped};

/// Width of every panel.
pub const WIDTH: f64 = 440.0;
const LEFT: f64 = 50.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 46.0;
/// Height of a strip: of few, of many.
const STRIPS: [f64; 2] = [72.0, 46.0];
const ROW: f64 = 22.0;
/// About the width of a letter of 12 pixels.
const LETTER: f64 = 6.7;
/// Distance of two lines of text.
const LEADING: f64 = 14.0;

/// Height of a panel as drawn.
#[must_use]
pub fn height(panel: &Panel) -> f64 {
    let shown = panel.series.iter().filter(|series| !series.points.is_empty()).count() as f64;
    match panel.kind {
        Kind::Lines => (TOP + BOTTOM + LEADING * shown).max(290.0),
        Kind::Scatter => 420.0,
        Kind::Trace => 260.0,
        Kind::Strips => TOP + BOTTOM + strip_height(panel) * shown,
        Kind::Rows => TOP + BOTTOM + ROW * shown,
    }
}

/// One panel as an `<svg>` element without a style sheet, for a page that has one. `id` must be
/// the only one of its kind on the page.
#[must_use]
pub fn svg(panel: &Panel, id: &str, description: &str) -> String {
    let mut drawing = Drawing::default();
    drawing.raw(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {}" role="img" "#,
        height(panel)
    ));
    drawing.raw(format_args!(
        r#"aria-labelledby="{0}-t {0}-d"><title id="{0}-t">{1}: {2}</title>"#,
        Escaped(id),
        Escaped(&panel.title),
        Escaped(&panel.y)
    ));
    drawing.raw(format_args!(r#"<desc id="{}-d">{}</desc>"#, Escaped(id), Escaped(description)));
    draw(&mut drawing, panel);
    drawing.raw(format_args!("</svg>"));
    drawing.finish()
}

/// Draws a panel at the origin.
pub fn draw(drawing: &mut Drawing, panel: &Panel) {
    drawing.text("title", Anchor::Start, [4.0, 10.0], &panel.title);
    if panel.is_empty() {
        let middle = [WIDTH / 2.0, height(panel) / 2.0];
        return drawing.text("", Anchor::Middle, middle, "nothing was measured");
    }
    match panel.kind {
        Kind::Lines => lines(drawing, panel),
        Kind::Scatter => scatter(drawing, panel),
        Kind::Strips => strips(drawing, panel),
        Kind::Trace => trace(drawing, panel),
        Kind::Rows => rows(drawing, panel),
    }
}

/// The rectangle of the data and the scales onto it.
struct Frame {
    right: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

impl Frame {
    fn place(&self, point: &Point) -> [f64; 2] {
        [self.x.place(point.x), self.y.place(point.y)]
    }

    /// Grid, ticks and names of both axes.
    fn axes(&self, drawing: &mut Drawing, panel: &Panel, x_ticks: &[f64]) {
        drawing.text("axis", Anchor::Start, [4.0, TOP - 16.0], &panel.y);
        for tick in self.y.ticks() {
            let y = self.y.place(tick);
            drawing.line("grid", [LEFT, y, self.right, y]);
            drawing.text("small", Anchor::End, [LEFT - 6.0, y], &number(tick));
        }
        self.x_axis(drawing, panel, x_ticks);
    }

    fn x_axis(&self, drawing: &mut Drawing, panel: &Panel, ticks: &[f64]) {
        drawing.line("frame", [LEFT, self.bottom, self.right, self.bottom]);
        let mut free = f64::NEG_INFINITY;
        for &tick in ticks {
            let (x, text) = (self.x.place(tick), number(tick));
            drawing.line("frame", [x, self.bottom, x, self.bottom + 4.0]);
            let half = text.len() as f64 * LETTER / 2.0;
            if x - half > free {
                drawing.text("small", Anchor::Middle, [x, self.bottom + 14.0], &text);
                free = x + half + 4.0;
            }
        }
        let middle = f64::midpoint(LEFT, self.right);
        drawing.text("axis", Anchor::Middle, [middle, self.bottom + 33.0], &panel.x);
    }
}

fn shown(panel: &Panel) -> impl Iterator<Item = &Series> + Clone {
    panel.series.iter().filter(|series| !series.points.is_empty())
}

/// Up to five strips have room for all their ticks.
fn strip_height(panel: &Panel) -> f64 {
    STRIPS[usize::from(shown(panel).count() > 5)]
}

fn longest_name(panel: &Panel) -> f64 {
    shown(panel).map(|series| series.name.chars().count()).max().unwrap_or(0) as f64 * LETTER
}

fn all_ys(panel: &Panel) -> impl Iterator<Item = f64> + Clone {
    shown(panel).flat_map(|series| &series.points).flat_map(|p| [p.y, p.low, p.high])
}

fn lines(drawing: &mut Drawing, panel: &Panel) {
    let (right, bottom) = (WIDTH - longest_name(panel) - 34.0, height(panel) - BOTTOM);
    let xs = panel.xs();
    let y = Scale::fit(all_ys(panel), bottom, TOP + 6.0);
    let frame = Frame { right, bottom, x: Scale::swept(&xs, LEFT, right, 14.0), y };
    let ticks = if xs.len() <= 9 { xs } else { frame.x.ticks() };
    frame.axes(drawing, panel, &ticks);
    let ends: Vec<f64> = shown(panel)
        .map(|series| series.points.last().map_or(bottom, |point| frame.y.place(point.y)))
        .collect();
    let labels = spread_out(&ends, TOP, bottom, LEADING);
    for (series, (end, label)) in shown(panel).zip(ends.iter().zip(labels)) {
        drawing.raw(format_args!(r#"<g class="{}">"#, series.style.class));
        let last = series.points.last().map_or(right, |point| frame.x.place(point.x));
        drawing.line("lead", [last + 5.0, *end, right + 10.0, label]);
        line(drawing, &frame, series);
        drawing.marker(series.style.marker, [right + 16.0, label]);
        drawing.text("small", Anchor::Start, [right + 24.0, label], &series.name);
        drawing.raw(format_args!("</g>"));
    }
}

fn line(drawing: &mut Drawing, frame: &Frame, series: &Series) {
    let places = series.points.iter().map(|point| frame.place(point));
    let width = f64::from(series.style.width_tenths) / 10.0;
    drawing.polyline(series.style.dash, width, places);
    for point in &series.points {
        spread(drawing, frame, point);
        drawing.marker(series.style.marker, frame.place(point));
    }
}

fn spread(drawing: &mut Drawing, frame: &Frame, point: &Point) {
    let [x, _] = frame.place(point);
    let (low, high) = (frame.y.place(point.low), frame.y.place(point.high));
    if low - high > 1.0 {
        drawing.line("spread", [x, low, x, high]);
        drawing.line("spread", [x - 3.0, low, x + 3.0, low]);
        drawing.line("spread", [x - 3.0, high, x + 3.0, high]);
    }
}

/// Moves places apart until each two are `gap` from each other, keeping their order and staying
/// within `top..bottom` if there is room.
fn spread_out(places: &[f64], top: f64, bottom: f64, gap: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&a, &b| places[a].total_cmp(&places[b]));
    let mut moved = places.to_vec();
    let mut least = top;
    for &index in &order {
        moved[index] = moved[index].max(least);
        least = moved[index] + gap;
    }
    let mut most = bottom;
    for &index in order.iter().rev() {
        moved[index] = moved[index].min(most);
        most = moved[index] - gap;
    }
    moved
}

fn scatter(drawing: &mut Drawing, panel: &Panel) {
    let (right, bottom) = (WIDTH - 14.0, height(panel) - BOTTOM);
    let xs = panel.xs();
    let y = Scale::fit(all_ys(panel), bottom, TOP + 6.0);
    let frame = Frame { right, bottom, x: Scale::fit(xs.into_iter(), LEFT, right), y };
    frame.axes(drawing, panel, &frame.x.ticks());
    let dots = shown(panel).flat_map(|series| &series.points).map(|p| frame.place(p));
    let mut taken: Vec<[f64; 4]> =
        dots.map(|[x, y]| [x - 4.0, y - 4.0, x + 4.0, y + 4.0]).collect();
    for series in shown(panel) {
        drawing.raw(format_args!(r#"<g class="{}">"#, series.style.class));
        for point in &series.points {
            drawing.marker(series.style.marker, frame.place(point));
        }
        if let Some(point) = series.points.last() {
            let [px, py] = frame.place(point);
            let (x, y) = beside(&series.name, [px, py], [right, bottom], &mut taken);
            if (y - py).abs() > 12.0 {
                let edge = if y > py { y - 6.0 } else { y + 6.0 };
                drawing.line("lead", [px, py, px.clamp(x, x + 20.0), edge]);
            }
            drawing.text("small", Anchor::Start, [x, y], &series.name);
        }
        drawing.raw(format_args!("</g>"));
    }
}

/// A free place for a name near its point, or the first one if none is free.
fn beside(
    name: &str,
    [x, y]: [f64; 2],
    [right, bottom]: [f64; 2],
    taken: &mut Vec<[f64; 4]>,
) -> (f64, f64) {
    let width = name.chars().count() as f64 * (LETTER - 0.5);
    let sides = [7.0, -7.0 - width, -width / 2.0];
    let places = (0..24).flat_map(|ring| {
        let away = f64::from(ring / 2) * 6.0 * if ring % 2 == 0 { 1.0 } else { -1.0 };
        sides.map(|side| (x + side, y + away))
    });
    let text_box = |(x, y): (f64, f64)| [x, y - 6.0, x + width, y + 6.0];
    let fits = |&(px, py): &(f64, f64)| {
        let [x0, y0, x1, y1] = text_box((px, py));
        let inside = x0 > LEFT && x1 < right && y0 > TOP - 6.0 && y1 < bottom;
        inside && taken.iter().all(|t| x1 < t[0] || x0 > t[2] || y1 < t[1] || y0 > t[3])
    };
    let place = places.into_iter().find(fits).unwrap_or((x + 7.0, y));
    taken.push(text_box(place));
    place
}

fn strips(drawing: &mut Drawing, panel: &Panel) {
    let (right, bottom) = (WIDTH - 10.0, height(panel) - BOTTOM);
    let xs = panel.xs();
    let ends = [xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0)];
    let x = Scale::between(ends, LEFT, right);
    let ticks = x.ticks();
    drawing.text("axis", Anchor::Start, [4.0, TOP - 16.0], &panel.y);
    let strip = strip_height(panel);
    for (index, series) in shown(panel).enumerate() {
        let floor = TOP + strip * (index + 1) as f64;
        let y = Scale::fit(all_ys(panel), floor, floor - strip + 16.0);
        let (labels, mut free) = (y.ticks(), f64::INFINITY);
        let top = labels.last().map_or(floor, |tick| y.place(*tick));
        for tick in &labels {
            let place = y.place(*tick);
            let has_room = place < free && (place == top || place - top > LEADING);
            if has_room {
                drawing.line("grid", [LEFT, place, right, place]);
                drawing.text("small", Anchor::End, [LEFT - 6.0, place], &number(*tick));
                free = place - LEADING;
            }
        }
        drawing.raw(format_args!(r#"<g class="{}">"#, series.style.class));
        shade(drawing, &x, &series.shaded, [floor - strip + 16.0, floor]);
        let places = series.points.iter().map(|p| [x.place(p.x), y.place(p.y)]);
        drawing.polyline("", 1.2, places);
        let worst = series.points.iter().map(|point| point.y).fold(0.0, f64::max);
        let name = format!("{}, worst {}", series.name, number(worst));
        drawing.text("small", Anchor::Start, [LEFT + 4.0, floor - strip + 8.0], &name);
        drawing.raw(format_args!("</g>"));
    }
    let y = Scale::fit([0.0, 1.0].into_iter(), 0.0, 1.0);
    Frame { right, bottom, x, y }.x_axis(drawing, panel, &ticks);
}

/// Shades stretches of x from top to bottom.
fn shade(drawing: &mut Drawing, x: &Scale, stretches: &[[f64; 2]], [top, bottom]: [f64; 2]) {
    for [from, to] in stretches {
        let (start, end) = (x.place(*from), x.place(*to));
        let (width, height) = ((end - start).max(0.5), bottom - top);
        drawing.raw(format_args!(
            r#"<rect class="shade" x="{start:.1}" y="{top:.1}" width="{width:.1}" "#
        ));
        drawing.raw(format_args!(r#"height="{height:.1}"/>"#));
    }
}

/// Lines without markers, their names above, over the shaded stretches.
fn trace(drawing: &mut Drawing, panel: &Panel) {
    let (right, bottom) = (WIDTH - 10.0, height(panel) - BOTTOM);
    let xs = panel.xs();
    let ends = [xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0)];
    let y = Scale::fit(all_ys(panel), bottom, TOP + 6.0);
    let frame = Frame { right, bottom, x: Scale::between(ends, LEFT, right), y };
    shade(drawing, &frame.x, &panel.shaded, [TOP, bottom]);
    frame.axes(drawing, panel, &frame.x.ticks());
    let mut name_x = right;
    for series in shown(panel) {
        drawing.raw(format_args!(r#"<g class="{}">"#, series.style.class));
        let places = series.points.iter().map(|point| frame.place(point));
        let thick = f64::from(series.style.width_tenths) / 10.0;
        drawing.polyline(series.style.dash, thick, places);
        let width = series.name.chars().count() as f64 * LETTER;
        // A trace has few series; were there more, names would lie on each other at the edge.
        let end = name_x.max(width + 20.0);
        drawing.text("small", Anchor::End, [end, TOP - 16.0], &series.name);
        let key = [[end - width - 16.0, TOP - 16.0], [end - width - 2.0, TOP - 16.0]];
        drawing.polyline(series.style.dash, thick, key.into_iter());
        name_x = end - width - 28.0;
        drawing.raw(format_args!("</g>"));
    }
}

fn rows(drawing: &mut Drawing, panel: &Panel) {
    let left = longest_name(panel) + 14.0;
    let (right, bottom) = (WIDTH - 60.0, height(panel) - BOTTOM);
    let along = Scale::fit(all_ys(panel), left.max(LEFT), right);
    for tick in along.ticks() {
        let x = along.place(tick);
        drawing.line("grid", [x, TOP - 10.0, x, bottom]);
        drawing.text("small", Anchor::Middle, [x, bottom + 14.0], &number(tick));
    }
    for (index, series) in shown(panel).enumerate() {
        let y = TOP + ROW * (index as f64 + 0.4);
        let Some(point) = series.points.first() else { continue };
        let place = |value| along.place(value);
        drawing.raw(format_args!(r#"<g class="{}">"#, series.style.class));
        drawing.text("small", Anchor::End, [left.max(LEFT) - 6.0, y], &series.name);
        drawing.line("lead", [left.max(LEFT), y, place(point.y), y]);
        drawing.line("spread", [place(point.low), y, place(point.high), y]);
        drawing.marker(series.style.marker, [place(point.y), y]);
        let after = place(point.high).max(place(point.y)) + 8.0;
        drawing.text("small", Anchor::Start, [after, y], &number(point.y));
        drawing.raw(format_args!("</g>"));
    }
    drawing.text("axis", Anchor::Middle, [WIDTH / 2.0, bottom + 33.0], &panel.y);
}

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;
