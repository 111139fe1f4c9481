//! The updates of a run, as a function of the seed, the tick and their number alone: the oracle
//! makes them again.

use stillframe_measure::draw::{Rng, Scatter, gaussian};
use stillframe_measure::zipf::Zipf;

use crate::case::players::Players;
use crate::case::{Case, Distribution};

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The value that update `number` of a tick writes; 4-byte items take its upper half.
#[inline]
pub(crate) fn value(key: u64, number: u64) -> u64 {
    key.wrapping_add(number).wrapping_mul(GOLDEN)
}

/// The updates (and reads) of one tick, made before its stage is timed.
#[derive(Debug, Default)]
pub(crate) struct Tick {
    /// The key from which [`value`] makes values.
    pub(crate) key: u64,
    /// Items updated, in order.
    pub(crate) updates: Vec<u32>,
    /// Items read in between.
    pub(crate) reads: Vec<u32>,
}

/// Makes ticks.
#[derive(Debug)]
pub(crate) struct Stream {
    seed: u64,
    items: u64,
    /// Updates of a tick that are each drawn for themselves.
    updates: usize,
    reads: usize,
    pick: Pick,
    /// Whose updates these are, where not each update is drawn for itself.
    players: Option<Players>,
}

/// How many ticks of items there are when there is no idle time to make more: they come again, with
/// other values.
const STREAMS_FULL_SPEED: u64 = 16;
/// Items made between two turns of the algorithm.
const SLICE: usize = 2048;

impl Stream {
    pub(crate) fn new(case: &Case) -> Self {
        let players = match case.distribution {
            Distribution::Players(attributes) => {
                Some(Players::new(case.items(), attributes, case.updates_per_tick, case.seed))
            }
            _ => None,
        };
        Self {
            players,
            seed: case.seed,
            items: case.items(),
            updates: match case.distribution {
                Distribution::Players(_) => 0,
                _ => usize::try_from(case.updates_per_tick).unwrap_or(usize::MAX),
            },
            reads: (case.updates_per_tick as f64 * case.reads_per_update) as usize,
            pick: Pick::new(case),
        }
    }

    /// What word `index` holds before the first update.
    pub(crate) fn initial(&self, index: u64) -> u64 {
        value(self.key(u64::MAX), index)
    }

    /// Makes tick `number`, which follows the one that was made last, in place of another;
    /// `between` gets a turn now and then.
    fn fill(&mut self, number: u64, tick: &mut Tick, mut between: impl FnMut()) {
        let mut rng = Rng(self.key(number));
        tick.key = rng.next();
        tick.updates.clear();
        tick.reads.clear();
        if let Some(players) = &mut self.players {
            players.tick(&mut rng, &mut tick.updates);
            between();
        }
        for (list, count) in [(&mut tick.updates, self.updates), (&mut tick.reads, self.reads)] {
            while list.len() < count {
                let slice = SLICE.min(count - list.len());
                list.extend((0..slice).map(|_| self.pick.item(self.items, &mut rng) as u32));
                between();
            }
        }
    }

    /// The key of tick `number` when its items are those of another tick.
    pub(crate) fn rekey(&self, number: u64, tick: &mut Tick) {
        tick.key = Rng(self.key(number)).next();
    }

    fn key(&self, number: u64) -> u64 {
        Rng(self.seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93)).next()
    }
}

/// The ticks of a run, one after the other.
#[derive(Debug)]
pub(crate) struct Ticks {
    stream: Stream,
    /// One that is made anew each time, or several that come again and again.
    ticks: Vec<Tick>,
    /// Number of the tick that is ready.
    number: u64,
}

impl Ticks {
    /// Stands at tick 0.
    pub(crate) fn new(case: &Case) -> Self {
        let mut stream = Stream::new(case);
        let count = if case.tick_ms == 0 { STREAMS_FULL_SPEED } else { 1 };
        let mut ticks: Vec<Tick> = (0..count).map(|_| Tick::default()).collect();
        for (number, tick) in ticks.iter_mut().enumerate() {
            stream.fill(number as u64, tick, || ());
        }
        Self { stream, ticks, number: 0 }
    }
    /// Number of the tick that is ready.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
    /// The tick that is ready.
    pub(crate) fn tick(&self) -> &Tick {
        &self.ticks[(self.number % self.ticks.len() as u64) as usize]
    }
    /// Makes the next one ready.
    pub(crate) fn advance(&mut self, between: impl FnMut()) {
        self.number += 1;
        let count = self.ticks.len() as u64;
        let tick = &mut self.ticks[(self.number % count) as usize];
        if count == 1 {
            self.stream.fill(self.number, tick, between);
        } else {
            self.stream.rekey(self.number, tick);
        }
    }
    /// See [`Stream::initial`].
    pub(crate) fn initial(&self, index: u64) -> u64 {
        self.stream.initial(index)
    }
}

#[derive(Debug)]
enum Pick {
    Uniform,
    Zipf(Zipf, Scatter),
    /// A group of items by Zipf, then one of it alike or by a Zipf of its own.
    Grouped {
        groups: (Zipf, Scatter),
        size: u64,
        within: Within,
    },
    Gaussian(f64),
}

/// Which item of a group.
#[derive(Debug)]
enum Within {
    Any,
    /// Of so many items: a line, which is another one in each page, so that hot lines do not share
    /// the few places that a cache has for lines at one offset of a page.
    Line(u64),
    Zipf(Zipf, Scatter),
}

/// Lines of 64 bytes in a page.
const LINES: u64 = 64;

impl Pick {
    fn new(case: &Case) -> Self {
        let items = case.items();
        let zipf = |count: u64, theta| (Zipf::new(count, theta), Scatter::new(count));
        match case.distribution {
            // Of players only what is read is drawn so.
            Distribution::Uniform | Distribution::Players(_) => Self::Uniform,
            Distribution::Zipf(theta) => {
                let (ranks, scatter) = zipf(items, theta);
                Self::Zipf(ranks, scatter)
            }
            Distribution::Pages(theta) => {
                let size = 4096 / u64::from(case.item_bytes);
                let groups = zipf(items.div_ceil(size), theta);
                Self::Grouped { groups, size, within: Within::Any }
            }
            Distribution::Lines(theta) => {
                let size = 4096 / u64::from(case.item_bytes);
                let groups = zipf(items.div_ceil(size), theta);
                Self::Grouped { groups, size, within: Within::Line(size / LINES) }
            }
            Distribution::Objects { object_words, theta } => {
                let size = object_words.clamp(1, items);
                let groups = zipf(items.div_ceil(size), theta);
                let (ranks, scatter) = zipf(size, theta);
                Self::Grouped { groups, size, within: Within::Zipf(ranks, scatter) }
            }
            Distribution::Gaussian(deviation) => Self::Gaussian(deviation),
        }
    }

    #[inline]
    fn item(&self, items: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform => rng.below(items),
            Self::Zipf(zipf, scatter) => scatter.place(zipf.draw(|| rng.unit())),
            Self::Grouped { groups: (zipf, scatter), size, within } => loop {
                let group = scatter.place(zipf.draw(|| rng.unit()));
                let item = match within {
                    Within::Any => rng.below(*size),
                    Within::Line(items) => {
                        (group.wrapping_mul(GOLDEN) >> 58) * items + rng.below(*items)
                    }
                    Within::Zipf(zipf, scatter) => scatter.place(zipf.draw(|| rng.unit())),
                };
                // The last group may be cut short.
                if group * size + item < items {
                    return group * size + item;
                }
            },
            Self::Gaussian(deviation) => gaussian(items, *deviation, rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn case(distribution: Distribution, size_bytes: u64, updates_per_tick: u64) -> Case {
        Case { distribution, size_bytes, updates_per_tick, ..Case::default() }
    }

    fn items(case: &Case) -> Vec<u32> {
        Ticks::new(case).tick().updates.clone()
    }

    #[test]
    fn a_tick_is_a_function_of_seed_and_number() {
        for tick_ms in [0, 10] {
            let case = Case {
                tick_ms,
                reads_per_update: 0.5,
                ..case(Distribution::Zipf(0.99), 1 << 20, 50)
            };
            let (mut one, mut two) = (Ticks::new(&case), Ticks::new(&case));
            for _ in 0..40 {
                assert_eq!(one.tick().updates, two.tick().updates);
                assert_eq!((one.tick().key, one.tick().reads.len()), (two.tick().key, 25));
                let key = one.tick().key;
                one.advance(|| ());
                two.advance(|| ());
                assert_ne!(one.tick().key, key);
            }
        }
    }

    /// Li et al.: 256k updates with exponent 2 touch 691 of 250,000 pages.
    #[test]
    fn skewed_pages_are_as_few_as_the_paper_found() {
        let gigabyte = 250_000 * 4096;
        let all = [Distribution::Pages(2.0), Distribution::Lines(2.0), Distribution::Zipf(2.0)];
        for distribution in all {
            let items = items(&case(distribution, gigabyte, 256_000));
            let pages: HashSet<u32> = items.iter().map(|item| item / 1024).collect();
            assert!((600..800).contains(&pages.len()), "{distribution}: {} pages", pages.len());
            let lines: HashSet<u32> = items.iter().map(|item| item / 16).collect();
            let few = distribution == Distribution::Lines(2.0);
            assert!(!few || lines.len() == pages.len(), "one line a page, not {}", lines.len());
        }
    }

    #[test]
    fn every_distribution_keeps_within_the_state() {
        let objects = Distribution::Objects { object_words: 2000, theta: 0.5 };
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipf(0.5),
            Distribution::Pages(0.99),
            Distribution::Lines(0.99),
            objects,
            Distribution::Gaussian(0.125),
            Distribution::Players(25_000),
        ] {
            for size_bytes in [4096, 100_000, 8_192_008] {
                let case = case(distribution, size_bytes, 10_000);
                assert!(items(&case).iter().all(|&item| u64::from(item) < case.items()));
            }
        }
        let middle = items(&case(Distribution::Gaussian(0.125), 4_000_000, 10_000));
        let near = middle.iter().filter(|&&item| (375_000..625_000).contains(&item)).count();
        assert!((6_500..7_200).contains(&near), "{near} of 10000 within one deviation");
    }
}
