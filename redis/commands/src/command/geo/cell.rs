//! Places, the distance between them, and the cells of a grid on the globe.
//!
//! A cell of step `s` is one of 2^s x 2^s that divide the globe between the latitudes +-85.05
//! (those of the web's maps). Its number interleaves the bits of its row (even bits) and column
//! (odd bits), so that cells near each other mostly have near numbers (G. Morton, 1966; G.
//! Niemeyer's geohash). The score of a place is the number of its cell of step 26: 52 bits, which
//! a double holds exactly.
//!
//! The order of operations on doubles is Redis's, so that results are the same to the last bit.

/// Steps of the finest cells.
pub(super) const STEP_MAX: u32 = 26;
pub(super) const LATITUDE_MAX: f64 = 85.05112878;
pub(super) const LONGITUDE_MAX: f64 = 180.0;
/// Of the earth, as a sphere.
pub(super) const RADIUS_METERS: f64 = 6_372_797.560856;

const RADIANS: f64 = std::f64::consts::PI / 180.0;

/// Degrees as radians.
pub(super) fn radians(degrees: f64) -> f64 {
    degrees * RADIANS
}

/// A place, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Coordinates {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Coordinates {
    /// Along the great circle, in meters (haversine formula).
    pub(super) fn distance(self, other: Self) -> f64 {
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return self.distance_north(other);
        }
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * RADIUS_METERS * a.sqrt().asin()
    }

    /// Between the latitudes alone, in meters.
    pub(super) fn distance_north(self, other: Self) -> f64 {
        RADIUS_METERS * (radians(other.latitude) - radians(self.latitude)).abs()
    }
}

/// An inclusive range of degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Degrees {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Degrees {
    const fn around_zero(max: f64) -> Self {
        Self { min: -max, max }
    }

    /// Which of 2^`step` equal parts a coordinate is in.
    fn part(self, coordinate: f64, step: u32) -> u32 {
        let offset = (coordinate - self.min) / (self.max - self.min);
        (offset * (1u64 << step) as f64) as u32
    }

    /// The part of that number.
    fn of_part(self, part: u32, step: u32) -> Self {
        let parts = (1u64 << step) as f64;
        let edge = |part: u32| self.min + (f64::from(part) / parts) * (self.max - self.min);
        Self { min: edge(part), max: edge(part.wrapping_add(1)) }
    }

    fn middle(self) -> f64 {
        (self.min + self.max) / 2.0
    }
}

const LATITUDES: Degrees = Degrees::around_zero(LATITUDE_MAX);
const LONGITUDES: Degrees = Degrees::around_zero(LONGITUDE_MAX);

/// What a cell covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) longitudes: Degrees,
    pub(super) latitudes: Degrees,
}

impl Area {
    /// The middle, within the grid.
    pub(super) fn center(self) -> Coordinates {
        Coordinates {
            longitude: self.longitudes.middle().clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: self.latitudes.middle().clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }
}

/// One cell of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    step: u32,
    row: u32,
    column: u32,
}

impl Cell {
    /// The cell of a place in the grid.
    pub(super) fn at(coordinates: Coordinates, step: u32) -> Self {
        let row = LATITUDES.part(coordinates.latitude, step);
        Self { step, row, column: LONGITUDES.part(coordinates.longitude, step) }
    }

    pub(super) fn finest(coordinates: Coordinates) -> Self {
        Self::at(coordinates, STEP_MAX)
    }

    /// The finest cell that a score stands for. Scores that ZADD set may be any number: they become
    /// the bits that x86-64 makes of them, as in Redis.
    pub(super) fn of_score(score: f64) -> Self {
        let bits = match score {
            18_446_744_073_709_551_616.0.. => 0,
            0.0.. => score as u64,
            _ => score as i64 as u64,
        };
        Self { step: STEP_MAX, row: gather(bits), column: gather(bits >> 1) }
    }

    /// Its number among the cells of its step.
    fn number(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    /// The score of places in a finest cell.
    pub(super) fn score(self) -> f64 {
        self.number() as f64
    }

    /// The scores of all places in it: from the first to below the second.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.number() << shift) as f64, ((self.number() + 1) << shift) as f64)
    }

    /// The cell this many columns east and rows north, around the globe.
    pub(super) fn neighbor(self, east: i32, north: i32) -> Self {
        let mask = (1u32 << self.step) - 1;
        let moved = |at: u32, by: i32| match by {
            0 => at,
            _ => at.wrapping_add_signed(by) & mask,
        };
        Self { row: moved(self.row, north), column: moved(self.column, east), ..self }
    }

    pub(super) fn area(self) -> Area {
        Area {
            longitudes: LONGITUDES.of_part(self.column, self.step),
            latitudes: LATITUDES.of_part(self.row, self.step),
        }
    }
}

/// Puts the bits of a number at the even positions.
fn spread(part: u32) -> u64 {
    const STEPS: [(u32, u64); 5] = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    STEPS.into_iter().fold(part.into(), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// Takes the bits at the even positions.
fn gather(bits: u64) -> u32 {
    const STEPS: [(u32, u64); 5] = [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ];
    let even = bits & 0x5555_5555_5555_5555;
    STEPS.into_iter().fold(even, |bits, (shift, mask)| (bits | bits >> shift) & mask) as u32
}

/// The eleven letters of geohash.org for a place. That grid reaches from pole to pole; of its 55
/// bits
/// only 52 are known, and the last letter is always the first of the alphabet.
pub(super) fn standard_hash(coordinates: Coordinates) -> [u8; 11] {
    const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    const LETTERS: usize = 10;
    let latitudes = Degrees::around_zero(90.0);
    let bits = spread(latitudes.part(coordinates.latitude, STEP_MAX))
        | spread(LONGITUDES.part(coordinates.longitude, STEP_MAX)) << 1;
    std::array::from_fn(|letter| match letter {
        LETTERS.. => ALPHABET[0],
        _ => ALPHABET[(bits >> (52 - (letter + 1) * 5) & 0x1f) as usize],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_spread_and_gathered_again() {
        for part in [0, 1, 2, 3, 0x1234_5678, 0xffff_ffff, 0x8000_0000] {
            assert_eq!(spread(part) & 0xaaaa_aaaa_aaaa_aaaa, 0);
            assert_eq!(gather(spread(part)), part);
            assert_eq!(gather(spread(part) << 1 >> 1 | 0xaaaa_aaaa_aaaa_aaaa), part);
        }
    }

    #[test]
    fn places_of_the_manual_have_the_scores_and_hashes_of_redis() {
        let palermo = Coordinates { longitude: 13.361389, latitude: 38.115556 };
        let cell = Cell::finest(palermo);
        assert_eq!(cell.score(), 3_479_099_956_230_698.0);
        assert_eq!(Cell::of_score(cell.score()), cell);
        assert_eq!(&standard_hash(cell.area().center()), b"sqc8b49rny0");
    }
}
