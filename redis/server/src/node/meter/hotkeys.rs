//! The keys that requests spend most time and bytes on: HOTKEYS, as Redis 8.10 has it.
//!
//! - Weights of keys are kept by Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi: Efficient
//!   computation of frequent and top-k elements in data streams, ICDT 2005), section 3: so many
//!   counters; a key without one takes that of the lightest key, with its weight as an error.
//! - What is shown is the weight without the error: never more than the truth. A key whose weight
//!   is more than the whole divided by the counters has one.
//! - Memory is bounded: ten counters for each key to be shown (at most 64), and no key longer than
//!   [`KEY_MAX`], which counts in the sums alone.
//! - A request with several keys shares its weight among them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of the longest key that has a counter.
const KEY_MAX: usize = 4096;
/// Counters for each key to be shown.
const COUNTERS_PER_KEY: usize = 10;

/// What HOTKEYS START asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Time, of the command thread.
    pub(crate) cpu: bool,
    /// Bytes of requests and replies.
    pub(crate) net: bool,
    /// Keys to be shown.
    pub(crate) count: usize,
    /// When it ends by itself, after the start.
    pub(crate) duration_ms: Option<i64>,
    /// One of so many requests is looked at.
    pub(crate) sample: usize,
    /// Slots, in order; empty for all.
    pub(crate) slots: Vec<u16>,
}

/// What requests took, of some kind.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spent {
    /// Time in nanoseconds.
    pub(crate) ns: u64,
    /// Bytes of requests and their replies.
    pub(crate) bytes: u64,
}

impl Spent {
    fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.bytes += other.bytes;
    }
}

/// The weights of keys since HOTKEYS START.
pub(crate) struct HotKeys {
    pub(crate) wanted: Wanted,
    pub(crate) started_ms: i64,
    /// Processor time of the process at the start: in user and kernel mode.
    pub(crate) cpu_at_start: [f64; 2],
    stopped_ms: Option<i64>,
    /// Of all requests that name keys.
    pub(crate) all: Spent,
    /// Of the requests that name a key in the slots.
    pub(crate) in_slots: Spent,
    /// Of the requests in the slots that were looked at.
    pub(crate) sampled: Spent,
    time: Heaviest,
    bytes: Heaviest,
}

impl HotKeys {
    pub(crate) fn new(wanted: Wanted, started_ms: i64, cpu_at_start: [f64; 2]) -> Self {
        let heaviest = || Heaviest::new(wanted.count * COUNTERS_PER_KEY);
        let (time, bytes) = (heaviest(), heaviest());
        let (all, in_slots, sampled) = Default::default();
        let stopped_ms = None;
        Self { wanted, started_ms, cpu_at_start, stopped_ms, all, in_slots, sampled, time, bytes }
    }

    /// When it has ended, if it has.
    fn ended_ms(&self, now_ms: i64) -> Option<i64> {
        let own = self.wanted.duration_ms.map(|it| self.started_ms.saturating_add(it));
        self.stopped_ms.or(own.filter(|&end| now_ms >= end))
    }

    /// Whether requests still count.
    pub(crate) fn is_active(&self, now_ms: i64) -> bool {
        self.ended_ms(now_ms).is_none()
    }

    /// No request counts any more.
    pub(crate) fn stop(&mut self, now_ms: i64) {
        self.stopped_ms = Some(self.ended_ms(now_ms).unwrap_or(now_ms));
    }

    /// For how long requests counted.
    pub(crate) fn duration_ms(&self, now_ms: i64) -> i64 {
        self.ended_ms(now_ms).unwrap_or(now_ms).saturating_sub(self.started_ms).max(0)
    }

    /// Notes a request with its keys, each with its slot. `is_sampled`: it is looked at.
    pub(crate) fn note(&mut self, keys: &[(&[u8], u16)], spent: Spent, is_sampled: bool) {
        if keys.is_empty() {
            return;
        }
        self.all.add(spent);
        let slots = &self.wanted.slots;
        let is_wanted = |slot: &u16| slots.is_empty() || slots.binary_search(slot).is_ok();
        if !keys.iter().any(|(_, slot)| is_wanted(slot)) {
            return;
        }
        self.in_slots.add(spent);
        if !is_sampled {
            return;
        }
        self.sampled.add(spent);
        let share = |whole: u64| whole / keys.len() as u64;
        for (key, _) in keys.iter().filter(|(_, slot)| is_wanted(slot)) {
            if self.wanted.cpu {
                self.time.add(key, share(spent.ns));
            }
            if self.wanted.net {
                self.bytes.add(key, share(spent.bytes));
            }
        }
    }

    /// The keys on which most time was spent, in microseconds: each part of one counts as one.
    pub(crate) fn by_time(&self) -> Vec<(&[u8], u64)> {
        let keys = self.time.shown(self.wanted.count).into_iter();
        keys.map(|(key, ns)| (key, ns.div_ceil(1000))).collect()
    }

    /// The keys on which most bytes were spent.
    pub(crate) fn by_bytes(&self) -> Vec<(&[u8], u64)> {
        self.bytes.shown(self.wanted.count)
    }

    /// Bytes of memory, about.
    pub(crate) fn memory(&self) -> usize {
        let slots = self.wanted.slots.capacity() * size_of::<u16>();
        size_of::<Self>() + slots + self.time.memory() + self.bytes.memory()
    }

    /// Bytes that were shared out among keys.
    pub(crate) fn bytes_of_keys(&self) -> u64 {
        self.bytes.whole
    }
}

/// See the head of this file.
struct Heaviest {
    counters_max: usize,
    counters: Vec<Counter>,
    places: HashMap<Arc<[u8]>, usize>,
    /// Weight and place of each counter.
    order: BTreeSet<(u64, usize)>,
    /// Bytes of the keys that have counters.
    key_bytes: usize,
    /// All weights that were added.
    whole: u64,
}

struct Counter {
    key: Arc<[u8]>,
    /// The key's weight is at most this, and at least so much without the error.
    weight: u64,
    error: u64,
}

impl Heaviest {
    fn new(counters_max: usize) -> Self {
        assert!(counters_max > 0);
        let (counters, places, order, key_bytes) = Default::default();
        Self { counters_max, counters, places, order, key_bytes, whole: 0 }
    }

    /// Bytes of memory, about: of a tree's nodes two of three places are taken on the average.
    fn memory(&self) -> usize {
        const COUNTS: usize = 2 * size_of::<usize>();
        let place = size_of::<(Arc<[u8]>, usize)>() + 1;
        let order = size_of::<(u64, usize)>() * 3 / 2;
        let counters = self.counters.capacity() * size_of::<Counter>();
        counters
            + self.places.capacity() * place
            + self.order.len() * (order + COUNTS)
            + self.key_bytes
    }

    fn add(&mut self, key: &[u8], weight: u64) {
        self.whole += weight;
        if weight == 0 || key.len() > KEY_MAX {
            return;
        }
        let place = match self.places.get(key) {
            Some(&place) => place,
            None => self.make_place(key),
        };
        let counter = &mut self.counters[place];
        self.order.remove(&(counter.weight, place));
        counter.weight += weight;
        self.order.insert((counter.weight, place));
        debug_assert_eq!(self.order.len(), self.counters.len());
    }

    /// Gives a key a counter: a new one, or that of the lightest key.
    fn make_place(&mut self, key: &[u8]) -> usize {
        let key: Arc<[u8]> = key.into();
        self.key_bytes += key.len();
        let lightest = self.order.first().copied();
        let place = match lightest {
            Some((weight, place)) if self.counters.len() >= self.counters_max => {
                let counter = Counter { key: Arc::clone(&key), weight, error: weight };
                let before = std::mem::replace(&mut self.counters[place], counter);
                self.places.remove(&before.key);
                self.key_bytes -= before.key.len();
                place
            }
            _ => {
                self.counters.push(Counter { key: Arc::clone(&key), weight: 0, error: 0 });
                self.counters.len() - 1
            }
        };
        self.places.insert(key, place);
        place
    }

    /// The heaviest keys, the heaviest first.
    fn shown(&self, count: usize) -> Vec<(&[u8], u64)> {
        let sure = |it: &Counter| it.weight - it.error;
        let mut all: Vec<(&[u8], u64)> =
            self.counters.iter().map(|it| (&*it.key, sure(it))).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stillframe_commands::Random;

    use super::*;

    fn wanted() -> Wanted {
        let (duration_ms, slots) = (None, Vec::new());
        Wanted { cpu: true, net: true, count: 2, duration_ms, sample: 1, slots }
    }

    #[test]
    fn no_key_is_shown_heavier_than_it_is_and_none_that_is_heavy_is_lost() {
        for seed in 0..50 {
            let mut random = Random::with_seed(seed);
            let mut heaviest = Heaviest::new(20);
            let mut truth = BTreeMap::<Vec<u8>, u64>::new();
            for _ in 0..5_000 {
                let hot = random.below(4) == 0;
                let name = if hot { random.below(3) } else { random.below(2_000) };
                let (key, weight) = (name.to_string().into_bytes(), random.below(100) as u64);
                *truth.entry(key.clone()).or_default() += weight;
                heaviest.add(&key, weight);
            }
            assert!(heaviest.counters.len() <= 20 && heaviest.places.len() <= 20);
            let keys: usize = heaviest.counters.iter().map(|it| it.key.len()).sum();
            assert_eq!(heaviest.key_bytes, keys, "seed {seed}");
            let whole: u64 = truth.values().sum();
            assert_eq!(whole, heaviest.whole);
            for (key, &weight) in &truth {
                let counter = heaviest.places.get(&key[..]).map(|&at| &heaviest.counters[at]);
                assert!(counter.is_some() || weight <= whole / 20, "seed {seed}: {key:?} is lost");
                if let Some(Counter { weight: most, error, .. }) = counter {
                    assert!(most - error <= weight && weight <= *most, "seed {seed}: {key:?}");
                }
            }
            let shown = heaviest.shown(3);
            let mut hot: Vec<&[u8]> = shown.iter().map(|(key, _)| *key).collect();
            hot.sort();
            assert_eq!(hot, [b"0", b"1", b"2"], "seed {seed}: {shown:?}");
        }
    }

    #[test]
    fn keys_share_the_weight_of_a_request_and_long_ones_take_no_memory() {
        let mut hot = HotKeys::new(wanted(), 1_000, [0.0; 2]);
        let long = vec![b'l'; KEY_MAX + 1];
        hot.note(&[], Spent { ns: 1, bytes: 1 }, true);
        hot.note(&[(b"a", 1), (b"b", 2)], Spent { ns: 3_000, bytes: 11 }, true);
        hot.note(&[(&long, 1)], Spent { ns: 5_000, bytes: 9_000 }, true);
        hot.note(&[(b"a", 1)], Spent { ns: 1, bytes: 30 }, false);
        assert_eq!(hot.by_bytes(), [(&b"a"[..], 5), (b"b", 5)]);
        let before = hot.memory();
        hot.note(&[(&long[1..], 1)], Spent { ns: 0, bytes: 1 }, true);
        assert!((KEY_MAX..KEY_MAX + 1_000).contains(&(hot.memory() - before)));
        assert_eq!(hot.by_time(), [(&b"a"[..], 2), (b"b", 2)]);
        assert_eq!((hot.all.bytes, hot.sampled.bytes, hot.bytes_of_keys()), (9_042, 9_012, 9_011));
    }

    #[test]
    fn only_keys_of_the_slots_are_kept_and_a_duration_ends_by_itself() {
        let wanted = Wanted { slots: vec![2, 7], duration_ms: Some(50), net: false, ..wanted() };
        let mut hot = HotKeys::new(wanted, 1_000, [0.0; 2]);
        hot.note(&[(b"a", 1)], Spent { ns: 4_000, bytes: 1 }, true);
        hot.note(&[(b"a", 1), (b"b", 2)], Spent { ns: 4_000, bytes: 1 }, true);
        assert_eq!((hot.by_time(), hot.by_bytes()), (vec![(&b"b"[..], 2)], vec![]));
        assert_eq!((hot.all.ns, hot.in_slots.ns), (8_000, 4_000));
        assert!(hot.is_active(1_049) && !hot.is_active(1_050));
        assert_eq!((hot.duration_ms(1_020), hot.duration_ms(9_000)), (20, 50));
        hot.stop(9_000);
        assert_eq!(hot.duration_ms(9_000), 50);
    }
}
