//! Random numbers that are a function of their seed, and what is drawn with them.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(
    /// The seed, and then the state.
    pub u64,
);

impl Rng {
    /// The next number, of all 64 bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "it never ends, and is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
    /// A number of `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
    /// A number below `bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Spreads a number over all 64 bits, one to one.
#[inline]
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Ranks to places: `rank * step mod count`, a bijection since the two have no common factor.
#[derive(Debug, Clone, Copy)]
pub struct Scatter {
    count: u64,
    step: u64,
}

impl Scatter {
    /// Of `0..count`; `count` is at least 1.
    #[must_use]
    pub fn new(count: u64) -> Self {
        let near = (count as f64 * 0.618_033_988_749_895) as u64;
        let coprime = |&step: &u64| common_factor(step, count) == 1;
        Self { count, step: (near.max(1)..).find(coprime).unwrap_or(1) }
    }
    /// Where `rank` lies.
    #[inline]
    #[must_use]
    pub fn place(self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.step) % u128::from(self.count)) as u64
    }
}

fn common_factor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_factor(b, a % b) }
}

/// One of `0..count` by a bell curve around the middle; `deviation` is a share of `count`, and what
/// falls outside is drawn again.
#[inline]
pub fn gaussian(count: u64, deviation: f64, rng: &mut Rng) -> u64 {
    loop {
        // Box and Muller; of the pair one is enough.
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * rng.unit()).cos();
        let place = 0.5 + normal * deviation;
        if (0.0..1.0).contains(&place) {
            return ((place * count as f64) as u64).min(count - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn scattering_loses_no_place() {
        for count in [1, 2, 3, 10, 512, 1000, 4099] {
            let scatter = Scatter::new(count);
            let places: HashSet<u64> = (0..count).map(|rank| scatter.place(rank)).collect();
            assert_eq!(places.len() as u64, count);
            assert!(places.iter().all(|&place| place < count));
        }
    }

    #[test]
    fn two_thirds_of_a_bell_curve_lie_within_one_deviation() {
        let mut rng = Rng(5);
        let near = (0..10_000).map(|_| gaussian(1000, 0.125, &mut rng));
        let near = near.filter(|place| (375..625).contains(place)).count();
        assert!((6_500..7_200).contains(&near), "{near} of 10000");
        assert_eq!(gaussian(1, 0.1, &mut rng), 0);
    }
}
