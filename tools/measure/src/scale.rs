//! From values to places on an axis: linear and logarithmic scales, their ticks, and numbers as
//! people read them.

/// Maps a range of values onto a range of places.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// Values that span more than this factor are spread by their logarithm.
const LOG_FROM: f64 = 20.0;
/// A logarithmic scale spans no more than this.
const LOG_TO: f64 = 1e7;

impl Scale {
    /// A scale for `values` onto `from..to`, with its ends on round numbers. It is logarithmic if
    /// positive values are far apart; what is next to nothing or less is then put at the low end.
    /// Anything that is not a finite number is ignored.
    pub fn fit(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let (low, high) = bounds(values.clone()).unwrap_or((0.0, 1.0));
        let counts = |value: &f64| *value > high / LOG_TO;
        let least = bounds(values.filter(counts)).map_or(high, |bounds| bounds.0);
        if low > -high / LOG_FROM && least > 0.0 && high / least >= LOG_FROM {
            let (low, high) = (floor_to_1_2_5(least), ceil_to_1_2_5(high));
            return Self { is_log: true, low, high, from, to };
        }
        let low = low.min(0.0);
        let high = if high > low { high } else { low + 1.0 };
        let step = step(high - low);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { is_log: false, low, high, from, to }
    }

    /// A scale that ends at the first and last of `values`, with `margin` left free on both sides:
    /// for what was swept.
    pub fn swept(values: &[f64], from: f64, to: f64, margin: f64) -> Self {
        let (low, high) = bounds(values.iter().copied()).unwrap_or((0.0, 1.0));
        let is_log = low > 0.0 && high / low >= 8.0;
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let inset = margin.copysign(to - from);
        Self { is_log, low, high, from: from + inset, to: to - inset }
    }

    /// A linear scale from the first to the last of `ends`: for time.
    #[must_use]
    pub fn between(ends: [f64; 2], from: f64, to: f64) -> Self {
        let [low, high] = ends;
        let high = if high > low { high } else { low + 1.0 };
        Self { is_log: false, low, high, from, to }
    }

    /// Whether places grow with the logarithm of values.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// The place of a value; values beyond the ends are put at the ends.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values to label, in rising order: at most about eight.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_log { self.log_ticks() } else { self.linear_ticks() }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = step(self.high - self.low);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|count| count as f64 * step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let decades = f64::from(last - first).max(1.0);
        let within = |tick: &f64| *tick >= self.low * 0.999 && *tick <= self.high * 1.001;
        let factors: &[f64] = if decades <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / 8.0).ceil().max(1.0) as usize;
        let of_decade = |decade| factors.iter().map(move |factor| factor * 10f64.powi(decade));
        (first..=last).step_by(every).flat_map(of_decade).filter(within).collect()
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.filter(|value| value.is_finite());
    finite.fold(None, |bounds, value| match bounds {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// A step of 1, 2 or 5 times a power of ten that cuts `range` into four to nine.
fn step(range: f64) -> f64 {
    let rough = range / 5.0;
    let decade = 10f64.powf(rough.log10().floor());
    let factor = match rough / decade {
        r if r < 1.5 => 1.0,
        r if r < 3.5 => 2.0,
        r if r < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * decade
}

fn floor_to_1_2_5(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let below = |factor: &f64| factor * decade <= value * 1.000_001;
    [5.0, 2.0, 1.0].into_iter().find(below).unwrap_or(1.0) * decade
}

fn ceil_to_1_2_5(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let above = |factor: &f64| factor * decade >= value * 0.999_999;
    [1.0, 2.0, 5.0].into_iter().find(above).unwrap_or(10.0) * decade
}

/// A number for people: three significant digits at most, `k`, `M` and `G` for large ones.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 0.9995e9 => format!("{}G", digits(value / 1e9)),
        _ if size >= 0.9995e6 => format!("{}M", digits(value / 1e6)),
        _ if size >= 9_999.5 => format!("{}k", digits(value / 1e3)),
        _ if size < 1e-3 => format!("{value:.0e}"),
        _ => digits(value),
    }
}

/// Three significant digits, without zeros at the end of a fraction.
fn digits(value: f64) -> String {
    let whole = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(3 - whole).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(values: &[f64]) -> Scale {
        Scale::fit(values.iter().copied(), 0.0, 100.0)
    }

    #[test]
    fn near_values_get_a_linear_scale_from_zero() {
        let scale = fit(&[3.0, 9.7]);
        assert!(!scale.is_log());
        assert_eq!(scale.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!((scale.place(0.0), scale.place(5.0), scale.place(10.0)), (0.0, 50.0, 100.0));
    }

    #[test]
    fn time_is_linear_however_far_apart_its_ends_are() {
        let scale = Scale::between([0.05, 50.0], 0.0, 100.0);
        assert!((scale.place(25.025) - 50.0).abs() < 1e-9);
        assert_eq!(scale.ticks(), [10.0, 20.0, 30.0, 40.0, 50.0]);
        assert!(Scale::between([3.0, 3.0], 0.0, 100.0).place(3.0).is_finite());
    }

    #[test]
    fn values_far_apart_get_a_logarithmic_scale() {
        let scale = fit(&[0.02, 150.0]);
        assert!(scale.is_log());
        assert_eq!(scale.ticks().len(), 4);
        assert!((scale.place(0.02) - 0.0).abs() < 1e-9);
        assert!((scale.place(200.0) - 100.0).abs() < 1e-9);
        assert_eq!(fit(&[-0.5, 0.0, 1.0, 90.0]).place(-0.5), 0.0);
        assert_eq!(fit(&[1.0, 90.0]).ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn degenerate_values_do_no_harm() {
        for values in [&[][..], &[f64::NAN], &[0.0], &[7.0, 7.0], &[f64::INFINITY, 1.0], &[-4.0]] {
            let scale = fit(values);
            let ticks = scale.ticks();
            assert!((2..=11).contains(&ticks.len()), "{values:?}: {ticks:?}");
            assert!(scale.place(1.0).is_finite(), "{values:?}");
        }
        assert!(Scale::swept(&[5.0], 0.0, 100.0, 8.0).place(5.0).is_finite());
    }

    #[test]
    fn a_swept_scale_ends_at_its_values() {
        let scale = Scale::swept(&[100.0, 800.0], 100.0, 0.0, 10.0);
        assert_eq!((scale.place(100.0), scale.place(800.0)), (90.0, 10.0));
    }

    #[test]
    fn ticks_are_never_many() {
        for exponent in -9..9 {
            for mantissa in 1..100 {
                let high = f64::from(mantissa) * 10f64.powi(exponent);
                for low in [0.0, high * 1e-7, high * 1e-3, high * 0.04] {
                    let ticks = fit(&[low, high]).ticks();
                    assert!((2..=13).contains(&ticks.len()), "{low} {high}: {ticks:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (1234.0, "1234"),
            (16_000.0, "16k"),
            (2.5e6, "2.5M"),
            (0.0123, "0.0123"),
            (1.0, "1"),
            (99.96, "100"),
            (0.000_02, "2e-5"),
            (1e9, "1G"),
            (-3.25, "-3.25"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
