//! Places on earth, kept in sorted sets: the score is the place's cell, see `cell`.

mod cell;
mod query;
mod search;

use stillframe_keyspace::Sorted;
use stillframe_resp::{Out, Protocol};

use self::cell::{Cell, Coordinates, LATITUDE_MAX, LONGITUDE_MAX};
use super::sorted::{AddOptions, Condition, add};
use crate::context::Context;
use crate::errors::{NOT_A_FLOAT, Refusal, SYNTAX};
use crate::number::doubles::parse_double;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("geoadd", geoadd);
    table.add("geodist", geodist);
    table.add("geohash", geohash);
    table.add("geopos", geopos);
    search::register(table);
}

/// Meters in a unit.
fn parse_unit(unit: &[u8]) -> Result<f64, Refusal> {
    match unit.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}

fn parse_coordinates(longitude: &[u8], latitude: &[u8]) -> Result<Coordinates, Refusal> {
    let read = |text: &[u8]| parse_double(text).ok_or(NOT_A_FLOAT);
    let coordinates = Coordinates { longitude: read(longitude)?, latitude: read(latitude)? };
    if coordinates.longitude.abs() > LONGITUDE_MAX || coordinates.latitude.abs() > LATITUDE_MAX {
        let Coordinates { longitude, latitude } = coordinates;
        let error = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(error.into());
    }
    Ok(coordinates)
}

/// The place that a score stands for.
fn coordinates_of(score: f64) -> Coordinates {
    Cell::of_score(score).area().center()
}

/// `GEOADD key [NX | XX] [CH] [longitude latitude member]...`
fn geoadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (options, places) = parse_places(&args[2..])?;
    add(ctx, args[1], options, &places)
}

type Places<'a> = Vec<(f64, &'a [u8])>;

fn parse_places<'a>(args: &[&'a [u8]]) -> Result<(AddOptions, Places<'a>), Refusal> {
    let mut options = AddOptions::NONE;
    let (mut new, mut present) = (false, false);
    let mut rest = args;
    while let [option, after @ ..] = rest {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" => new = true,
            b"xx" => present = true,
            b"ch" => options.changed = true,
            _ => break,
        }
        rest = after;
    }
    let (places, odd) = rest.as_chunks::<3>();
    if places.is_empty() || !odd.is_empty() || new && present {
        return Err(SYNTAX);
    }
    options.condition = match (new, present) {
        (true, _) => Condition::New,
        (_, true) => Condition::Present,
        _ => Condition::Any,
    };
    let read = |&[longitude, latitude, member]: &[&'a [u8]; 3]| {
        let coordinates = parse_coordinates(longitude, latitude)?;
        Ok((Cell::finest(coordinates).score(), member))
    };
    Ok((options, places.iter().map(read).collect::<Result<_, Refusal>>()?))
}

/// `GEODIST key member member [M | KM | FT | MI]`
fn geodist(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let unit = match &args[4..] {
        [] => 1.0,
        [unit] => parse_unit(unit)?,
        _ => return Err(SYNTAX),
    };
    let (out, set) = ctx.found::<Sorted<'_>>(args[1])?;
    let coordinates = |member| set.and_then(|set| set.score(member)).map(coordinates_of);
    let both = coordinates(args[2]).zip(coordinates(args[3]));
    out.bulk_or_null(both.map(|(from, to)| distance_text(from.distance(to) / unit)));
    Ok(())
}

/// A distance with four decimals.
fn distance_text(distance: f64) -> String {
    let scaled = (distance * 10_000.0).round_ties_even() as u64;
    format!("{}.{:04}", scaled / 10_000, scaled % 10_000)
}

/// `GEOHASH key [member...]`: the cells in the notation of geohash.org.
fn geohash(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Sorted<'_>>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        out.bulk_or_null(
            set.and_then(|set| set.score(member))
                .map(|score| cell::standard_hash(coordinates_of(score))),
        );
    }
    Ok(())
}

/// `GEOPOS key [member...]`
fn geopos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Sorted<'_>>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        match set.and_then(|set| set.score(member)) {
            Some(score) => answer_coordinates(out, coordinates_of(score)),
            None => out.null_array(),
        }
    }
    Ok(())
}

fn answer_coordinates(out: &mut Out<'_>, coordinates: Coordinates) {
    out.array(2);
    for coordinate in [coordinates.longitude, coordinates.latitude] {
        let text = format!("{coordinate:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        match out.protocol {
            Protocol::Resp2 => out.bulk(text),
            Protocol::Resp3 => out.raw(format!(",{text}\r\n").as_bytes()),
        }
    }
}
