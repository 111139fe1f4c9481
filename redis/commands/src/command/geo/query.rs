//! What a search for places asks for.

use stillframe_keyspace::Sorted;
use stillframe_resp::parse_integer;

use super::cell::Coordinates;
use super::{coordinates_of, parse_coordinates, parse_unit};
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::number::doubles::parse_double;

/// Which of the commands it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// GEORADIUS and its kin: center and radius come first.
    Radius { by_member: bool, stores: bool },
    /// GEOSEARCH and GEOSEARCHSTORE: all is said by options.
    Search { stores: bool },
}

impl Form {
    /// Position of the key that is searched.
    pub(super) fn source(self) -> usize {
        if self == (Self::Search { stores: true }) { 2 } else { 1 }
    }

    /// What keyspace notifications call a result that is stored.
    pub(super) fn event(self) -> &'static str {
        match self {
            Self::Radius { .. } => "georadiusstore",
            Self::Search { .. } => "geosearchstore",
        }
    }

    fn is_search(self) -> bool {
        matches!(self, Self::Search { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outline {
    /// Of this radius.
    Circle(f64),
    /// Of this width and height.
    Box(f64, f64),
}

/// The area that is searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) center: Coordinates,
    /// Meters in the unit of the outline, and of distances in the reply.
    pub(super) unit: f64,
    outline: Outline,
}

impl Shape {
    /// The distance of a place from the center in meters, if it is within.
    pub(super) fn distance_within(&self, coordinates: Coordinates) -> Option<f64> {
        let distance = self.center.distance(coordinates);
        let outside = match self.outline {
            Outline::Circle(radius) => distance > radius * self.unit,
            Outline::Box(width, height) => {
                let straight = Coordinates { longitude: self.center.longitude, ..coordinates };
                coordinates.distance_north(self.center) > height * self.unit / 2.0
                    || coordinates.distance(straight) > width * self.unit / 2.0
            }
        };
        (!outside).then_some(distance)
    }

    /// From the center to the farthest point, in meters.
    pub(super) fn reach_meters(&self) -> f64 {
        let reach = match self.outline {
            Outline::Circle(radius) => radius,
            Outline::Box(width, height) => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        reach * self.unit
    }

    /// From the center to the east and to the north, in meters.
    pub(super) fn half_meters(&self) -> (f64, f64) {
        let (width, height) = match self.outline {
            Outline::Circle(radius) => (radius, radius),
            Outline::Box(width, height) => (width / 2.0, height / 2.0),
        };
        (self.unit * width, self.unit * height)
    }
}

/// The order of places in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    None,
    Ascending,
    Descending,
}

/// How many places are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    All,
    /// At most this number, the first in the order.
    First(usize),
    /// At most this number, the first that are met.
    Any(usize),
}

/// A search.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pub(super) shape: Shape,
    pub(super) order: Order,
    pub(super) limit: Limit,
    pub(super) with_distance: bool,
    pub(super) with_score: bool,
    pub(super) with_place: bool,
    /// Where the result is stored.
    pub(super) destination: Option<&'a [u8]>,
    /// It is stored with distances for scores.
    pub(super) stores_distance: bool,
}

/// What was given so far.
#[derive(Default)]
struct Given {
    member: bool,
    coordinates: bool,
    radius: bool,
    sides: bool,
    any: bool,
    count: Option<usize>,
}

/// Options of a search while they are read.
struct Reader<'a, 's> {
    form: Form,
    set: Option<Sorted<'s>>,
    query: Query<'a>,
    given: Given,
}

impl<'a> Query<'a> {
    /// Reads a whole request. `set` is what is searched, and `None` if there is none: a member to
    /// search around is not looked for then.
    pub(super) fn parse(
        args: &[&'a [u8]],
        form: Form,
        set: Option<Sorted<'_>>,
    ) -> Result<Self, Refusal> {
        let center = Coordinates { longitude: 0.0, latitude: 0.0 };
        let query = Query {
            shape: Shape { center, unit: 1.0, outline: Outline::Circle(0.0) },
            order: Order::None,
            limit: Limit::All,
            with_distance: false,
            with_score: false,
            with_place: false,
            destination: None,
            stores_distance: false,
        };
        let mut reader = Reader { form, set, query, given: Given::default() };
        let mut rest = reader.read_head(args)?;
        while let Some((option, after)) = rest.split_first() {
            rest = reader.read_option(option, after)?;
        }
        reader.finish(args[0])
    }
}

impl<'a> Reader<'a, '_> {
    /// Reads what comes before the options, and returns those.
    fn read_head<'b>(&mut self, args: &'b [&'a [u8]]) -> Result<&'b [&'a [u8]], Refusal> {
        match self.form {
            Form::Radius { by_member: false, .. } => {
                self.query.shape.center = parse_coordinates(args[2], args[3])?;
                self.read_radius(args[4], args[5])?;
                Ok(&args[6..])
            }
            Form::Radius { by_member: true, .. } => {
                if self.set.is_some() {
                    self.read_member(args[2])?;
                    self.read_radius(args[3], args[4])?;
                }
                Ok(&args[5..])
            }
            Form::Search { stores: true } => {
                self.query.destination = Some(args[1]);
                Ok(&args[3..])
            }
            Form::Search { stores: false } => Ok(&args[2..]),
        }
    }

    fn read_option<'b>(
        &mut self,
        option: &[u8],
        after: &'b [&'a [u8]],
    ) -> Result<&'b [&'a [u8]], Refusal> {
        let (query, given, form) = (&mut self.query, &mut self.given, self.form);
        match (option.to_ascii_lowercase().as_slice(), after) {
            (b"withdist", _) => query.with_distance = true,
            (b"withhash", _) => query.with_score = true,
            (b"withcoord", _) => query.with_place = true,
            (b"any", _) => given.any = true,
            (b"asc", _) => query.order = Order::Ascending,
            (b"desc", _) => query.order = Order::Descending,
            (b"count", [count, after @ ..]) => {
                let count = parse_integer(count).ok_or(NOT_AN_INTEGER)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0);
                given.count = Some(count.ok_or("ERR COUNT must be > 0")?);
                return Ok(after);
            }
            (name @ (b"store" | b"storedist"), [key, after @ ..])
                if matches!(form, Form::Radius { stores: true, .. }) =>
            {
                query.destination = Some(key);
                query.stores_distance = name == b"storedist";
                return Ok(after);
            }
            (b"storedist", _) if form == (Form::Search { stores: true }) => {
                query.stores_distance = true;
            }
            (name, _) if form.is_search() => return self.read_shape(name, after),
            _ => return Err(SYNTAX),
        }
        Ok(after)
    }

    /// Reads an option that says where to search.
    fn read_shape<'b>(
        &mut self,
        option: &[u8],
        after: &'b [&'a [u8]],
    ) -> Result<&'b [&'a [u8]], Refusal> {
        match (option, after) {
            (b"frommember", [member, after @ ..]) if !self.given.coordinates => {
                if self.set.is_some() {
                    self.read_member(member)?;
                }
                self.given.member = true;
                Ok(after)
            }
            (b"fromlonlat", [longitude, latitude, after @ ..]) if !self.given.member => {
                self.query.shape.center = parse_coordinates(longitude, latitude)?;
                self.given.coordinates = true;
                Ok(after)
            }
            (b"byradius", [radius, unit, after @ ..]) if !self.given.sides => {
                self.read_radius(radius, unit)?;
                self.given.radius = true;
                Ok(after)
            }
            (b"bybox", [width, height, unit, after @ ..]) if !self.given.radius => {
                let width = parse_double(width).ok_or("ERR need numeric width")?;
                let height = parse_double(height).ok_or("ERR need numeric height")?;
                if width < 0.0 || height < 0.0 {
                    return Err("ERR height or width cannot be negative".into());
                }
                self.query.shape.unit = parse_unit(unit)?;
                self.query.shape.outline = Outline::Box(width, height);
                self.given.sides = true;
                Ok(after)
            }
            _ => Err(SYNTAX),
        }
    }

    fn read_member(&mut self, member: &[u8]) -> Result<(), Refusal> {
        let score = self.set.and_then(|set| set.score(member));
        let score = score.ok_or("ERR could not decode requested zset member")?;
        self.query.shape.center = coordinates_of(score);
        Ok(())
    }

    fn read_radius(&mut self, radius: &[u8], unit: &[u8]) -> Result<(), Refusal> {
        let radius = parse_double(radius).ok_or("ERR need numeric radius")?;
        if radius < 0.0 {
            return Err("ERR radius cannot be negative".into());
        }
        self.query.shape.unit = parse_unit(unit)?;
        self.query.shape.outline = Outline::Circle(radius);
        Ok(())
    }

    /// Checks that options go together.
    fn finish(self, name: &[u8]) -> Result<Query<'a>, Refusal> {
        let Self { form, mut query, given, .. } = self;
        if query.destination.is_some()
            && (query.with_distance || query.with_score || query.with_place)
        {
            let what = match form {
                Form::Search { .. } => "GEOSEARCHSTORE",
                Form::Radius { .. } => "STORE option in GEORADIUS",
            };
            return Err(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )
            .into());
        }
        let name = String::from_utf8_lossy(name);
        if form.is_search() && !(given.member || given.coordinates) {
            return Err(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
            )
            .into());
        }
        if form.is_search() && !(given.radius || given.sides) {
            return Err(format!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"
            )
            .into());
        }
        query.limit = match given.count {
            None if given.any => {
                return Err("ERR the ANY argument requires COUNT argument".into());
            }
            None => Limit::All,
            Some(count) if given.any => Limit::Any(count),
            Some(count) => Limit::First(count),
        };
        // The first of no order would mean little.
        if matches!(query.limit, Limit::First(_)) && query.order == Order::None {
            query.order = Order::Ascending;
        }
        Ok(query)
    }
}
