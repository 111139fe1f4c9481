//! GEOSEARCH, GEORADIUS and their kin: places within a shape.
//!
//! A search looks in nine cells, the center's and the eight around it, of a size that covers the
//! shape. Unless an order is asked for, places come in the order of cells and scores, as in Redis.

use stillframe_keyspace::Sorted;
use stillframe_resp::Out;

use super::cell::{Cell, Coordinates, RADIUS_METERS, STEP_MAX, radians};
use super::query::{Form, Limit, Order, Query, Shape};
use super::{answer_coordinates, coordinates_of, distance_text};
use crate::command::sorted;
use crate::context::Context;
use crate::errors::Refusal;
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("georadius", |ctx, args| {
        search(ctx, args, Form::Radius { by_member: false, stores: true })
    });
    table.add("georadius_ro", |ctx, args| {
        search(ctx, args, Form::Radius { by_member: false, stores: false })
    });
    table.add("georadiusbymember", |ctx, args| {
        search(ctx, args, Form::Radius { by_member: true, stores: true })
    });
    table.add("georadiusbymember_ro", |ctx, args| {
        search(ctx, args, Form::Radius { by_member: true, stores: false })
    });
    table.add("geosearch", |ctx, args| search(ctx, args, Form::Search { stores: false }));
    table.add("geosearchstore", |ctx, args| search(ctx, args, Form::Search { stores: true }));
}

/// A place that was found.
struct Hit {
    member: Vec<u8>,
    score: f64,
    coordinates: Coordinates,
    /// From the center, in meters.
    distance: f64,
}

/// Any of the commands of this module.
fn search(ctx: &mut Context<'_>, args: &[&[u8]], form: Form) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Sorted<'_>>(args[form.source()])?;
    let query = Query::parse(args, form, set)?;
    let hits = set.map_or_else(Vec::new, |set| find(set, &query));
    let Some(destination) = query.destination else {
        answer(out, &hits, &query);
        return Ok(());
    };
    let score = |hit: &Hit| {
        if query.stores_distance { hit.distance / query.shape.unit } else { hit.score }
    };
    let members = hits.iter().map(|hit| (hit.member.clone(), score(hit))).collect();
    sorted::store(ctx, destination, &members, form.event())
}

fn answer(out: &mut Out<'_>, hits: &[Hit], query: &Query<'_>) {
    let shown = [query.with_distance, query.with_score, query.with_place];
    let more = shown.into_iter().filter(|&shown| shown).count();
    out.array(hits.len());
    for hit in hits {
        if more > 0 {
            out.array(1 + more);
        }
        out.bulk(&hit.member);
        if query.with_distance {
            out.bulk(distance_text(hit.distance / query.shape.unit));
        }
        if query.with_score {
            out.integer(hit.score as i64);
        }
        if query.with_place {
            answer_coordinates(out, hit.coordinates);
        }
    }
}

/// The places in the shape, in the order and number asked for.
fn find(set: Sorted<'_>, query: &Query<'_>) -> Vec<Hit> {
    let enough = match query.limit {
        Limit::Any(count) => count,
        _ => usize::MAX,
    };
    let mut hits = Vec::new();
    let mut before: Option<Cell> = None;
    for (turn, cell) in cells(&query.shape).into_iter().enumerate() {
        let Some(cell) = cell else { continue };
        // Cells east and west (and so on) of a large shape may be the same one.
        if before == Some(cell) {
            continue;
        }
        if hits.len() >= enough {
            break;
        }
        search_cell(set, cell, &query.shape, enough, &mut hits);
        before = (turn > 0).then_some(cell);
    }
    match query.order {
        Order::None => {}
        Order::Ascending => hits.sort_by(|a, b| a.distance.total_cmp(&b.distance)),
        Order::Descending => hits.sort_by(|a, b| b.distance.total_cmp(&a.distance)),
    }
    if let Limit::Any(count) | Limit::First(count) = query.limit {
        hits.truncate(count);
    }
    hits
}

fn search_cell(set: Sorted<'_>, cell: Cell, shape: &Shape, enough: usize, hits: &mut Vec<Hit>) {
    let (min, max) = cell.scores();
    let first = set.below_score(min, false);
    let count = set.below_score(max, false).saturating_sub(first);
    for (member, score) in set.iter_from(first).take(count) {
        let coordinates = coordinates_of(score);
        if let Some(distance) = shape.distance_within(coordinates) {
            hits.push(Hit { member: member.to_vec(), score, coordinates, distance });
            if hits.len() >= enough {
                return;
            }
        }
    }
}

/// The cells to search, in their order; `None` for those that the shape does not reach.
fn cells(shape: &Shape) -> [Option<Cell>; 9] {
    let bounds = Bounds::from_shape(shape);
    let mut step = step_for(shape);
    let mut cell = Cell::at(shape.center, step);
    if step > 1 && !bounds.within_neighbors(cell) {
        step -= 1;
        cell = Cell::at(shape.center, step);
    }
    let area = cell.area();
    let useless = |east: i32, north: i32| {
        // A cell counts as not needed where the center's reaches beyond the shape by itself.
        north < 0 && area.latitudes.min < bounds.south
            || north > 0 && area.latitudes.max > bounds.north
            || east < 0 && area.longitudes.min < bounds.west
            || east > 0 && area.longitudes.max > bounds.east
    };
    const AROUND: [(i32, i32); 9] =
        [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
    AROUND.map(|(east, north)| {
        let needed = step < 2 || !useless(east, north);
        needed.then(|| cell.neighbor(east, north))
    })
}

/// How fine the cells may be so that nine of them cover the shape.
fn step_for(shape: &Shape) -> u32 {
    /// Half of the equator on the web's maps.
    const MERCATOR_MAX: f64 = 20_037_726.37;
    let mut reach = shape.reach_meters();
    if reach == 0.0 {
        return STEP_MAX;
    }
    let mut step = 1i32;
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        step += 1;
    }
    step -= 2;
    // Cells are narrower towards the poles.
    let latitude = shape.center.latitude.abs();
    step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
    step.clamp(1, STEP_MAX as i32) as u32
}

/// The degrees that a shape spans.
struct Bounds {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Bounds {
    fn from_shape(shape: &Shape) -> Self {
        let Coordinates { longitude, latitude } = shape.center;
        let (width, height) = shape.half_meters();
        let north = (height / RADIUS_METERS).to_degrees_as_redis();
        // The side towards the pole is the wider one.
        let widest = if latitude < 0.0 { latitude - north } else { latitude + north };
        let east = (width / RADIUS_METERS / radians(widest).cos()).to_degrees_as_redis();
        Self {
            west: longitude - east,
            east: longitude + east,
            south: latitude - north,
            north: latitude + north,
        }
    }

    /// Whether the cells around `cell` reach as far as the shape.
    fn within_neighbors(&self, cell: Cell) -> bool {
        let area = |east, north| cell.neighbor(east, north).area();
        !(area(0, 1).latitudes.max < self.north
            || area(0, -1).latitudes.min > self.south
            || area(1, 0).longitudes.max < self.east
            || area(-1, 0).longitudes.min > self.west)
    }
}

/// Radians as degrees, by the division that Redis uses.
trait ToDegrees {
    fn to_degrees_as_redis(self) -> f64;
}

impl ToDegrees for f64 {
    fn to_degrees_as_redis(self) -> f64 {
        self / (std::f64::consts::PI / 180.0)
    }
}
