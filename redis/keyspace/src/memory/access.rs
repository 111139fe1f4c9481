//! When, or how often, each key was used: one number a slot, beside the slots, for OBJECT and for
//! eviction.
//!
//! The number is not in the entry, so that a read of a key writes nothing that an image reads: a
//! GET clones no entry and (with fork) copies no page of entries. A use costs one store. The number
//! has one of two meanings:
//!
//! ```text
//! recency:    tick of the last use (a tick is 100 ms), wrapping after thirteen years
//! frequency:  minute of the last use (24 bits) | logarithmic counter (8 bits), as Redis's LFU
//! ```
//! An image may read the numbers while the writer goes on counting: it sees some use of a key at or
//! after begin, or of another key that has got the slot meanwhile. They are hints.
//! A switch between the two leaves numbers that mean something else until the keys are used again,
//! as in Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const CHUNK: usize = if cfg!(any(test, miri)) { 8 } else { 1 << 16 };
/// Counter of a new key: it must not be the first to go.
const COUNTER_NEW: u32 = 5;
/// Length of a tick.
const TICK_MS: u64 = 100;
const TICKS_PER_MINUTE: u32 = 600;

/// How uses are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// The time of the last use.
    Recency,
    /// How often, on a logarithmic scale of 0 to 255 that decays.
    Frequency {
        /// The higher, the more uses it takes to saturate the counter.
        log_factor: u32,
        /// Minutes in which the counter of an unused key falls by one; 0: it does not.
        decay_minutes: u32,
    },
}

/// Only the writer writes, and each number stands alone, so no order is needed.
type Chunk = Arc<[AtomicU32; CHUNK]>;

/// How a key was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Milliseconds since its last use.
    IdleMs(u64),
    /// How often, on a logarithmic scale of 0 to 255.
    Frequency(u8),
}

/// The numbers for the reader of an image.
pub(crate) struct Seen {
    chunks: Arc<[Chunk]>,
    present: Present,
}

impl Seen {
    pub(crate) fn usage(&self, slot: usize) -> Usage {
        let chunk = self.chunks.get(slot / CHUNK);
        self.present.usage(chunk.map_or(0, |chunk| chunk[slot % CHUNK].load(Relaxed)))
    }
}

/// How to read a number.
#[derive(Clone, Copy)]
struct Present {
    tick: u32,
    counting: Counting,
}

impl Present {
    fn minute(self) -> u32 {
        (self.tick / TICKS_PER_MINUTE) & 0xff_ffff
    }

    fn idle_ms(self, number: u32) -> u64 {
        u64::from(self.tick.wrapping_sub(number)) * TICK_MS
    }

    /// The counter as it has decayed by now.
    fn frequency(self, number: u32) -> u8 {
        let Counting::Frequency { decay_minutes, .. } = self.counting else { return 0 };
        let (minute, counter) = (number >> 8, number & 0xff);
        let idle = self.minute().wrapping_sub(minute) & 0xff_ffff;
        let fallen = idle.checked_div(decay_minutes).unwrap_or(0);
        counter.saturating_sub(fallen) as u8
    }

    fn usage(self, number: u32) -> Usage {
        match self.counting {
            Counting::Recency => Usage::IdleMs(self.idle_ms(number)),
            Counting::Frequency { .. } => Usage::Frequency(self.frequency(number)),
        }
    }
}

pub(crate) struct Access {
    chunks: Vec<Chunk>,
    /// The same for images, which begin in O(1) however many there are.
    shared: Arc<[Chunk]>,
    present: Present,
    /// `counting` in one test, for reads; off while uses do not count.
    recency: bool,
    /// Lookups are no uses.
    spares: bool,
    random: u64,
}

impl Default for Access {
    fn default() -> Self {
        let random = 0x9e37_79b9_7f4a_7c15;
        let present = Present { tick: 0, counting: Counting::Recency };
        Self {
            chunks: Vec::new(),
            shared: Arc::default(),
            present,
            recency: true,
            spares: false,
            random,
        }
    }
}

impl Access {
    pub(crate) fn set_clock(&mut self, milliseconds: u64) {
        self.present.tick = (milliseconds / TICK_MS) as u32;
    }

    pub(crate) fn set_counting(&mut self, counting: Counting) {
        self.present.counting = counting;
        self.recency = counting == Counting::Recency && !self.spares;
    }

    /// Whether lookups are no uses from now on; returns whether they were none.
    pub(crate) fn spare_uses(&mut self, spares: bool) -> bool {
        let before = std::mem::replace(&mut self.spares, spares);
        self.set_counting(self.present.counting);
        before
    }

    pub(crate) fn counting(&self) -> Counting {
        self.present.counting
    }

    /// The numbers for an image that begins now.
    pub(crate) fn seen(&self) -> Seen {
        Seen { chunks: self.shared.clone(), present: self.present }
    }

    /// A slot has received another key.
    pub(crate) fn begin(&mut self, slot: u32) {
        let at = slot as usize;
        while at >= self.chunks.len() * CHUNK {
            let chunk: Arc<[AtomicU32]> = (0..CHUNK).map(|_| AtomicU32::new(0)).collect();
            self.chunks.push(chunk.try_into().expect("it was made with this length"));
            self.shared = self.chunks.as_slice().into();
        }
        let number = match self.present.counting {
            Counting::Recency => self.present.tick,
            Counting::Frequency { .. } => self.present.minute() << 8 | COUNTER_NEW,
        };
        self.chunks[at / CHUNK][at % CHUNK].store(number, Relaxed);
    }

    /// The key in a slot is used.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        if self.recency {
            self.put(slot, self.present.tick);
        } else if !self.spares {
            self.count(slot);
        }
    }

    #[inline]
    fn put(&self, slot: u32, number: u32) {
        if let Some(chunk) = self.chunks.get(slot as usize / CHUNK) {
            chunk[slot as usize % CHUNK].store(number, Relaxed);
        }
    }

    fn get(&self, slot: u32) -> u32 {
        let chunk = self.chunks.get(slot as usize / CHUNK);
        chunk.map_or(0, |chunk| chunk[slot as usize % CHUNK].load(Relaxed))
    }

    /// Milliseconds since the last use.
    pub(crate) fn idle_ms(&self, slot: u32) -> u64 {
        self.present.idle_ms(self.get(slot))
    }

    /// Makes the last use this many milliseconds old, if times of uses are kept.
    pub(crate) fn set_idle_ms(&mut self, slot: u32, idle_ms: u64) {
        let ticks = u32::try_from(idle_ms / TICK_MS).unwrap_or(u32::MAX);
        if self.recency {
            self.put(slot, self.present.tick.wrapping_sub(ticks));
        }
    }

    /// A slot has received a copy of the key of another one: it counts as used as that one was.
    pub(crate) fn follow(&mut self, slot: u32, other: u32) {
        self.put(slot, self.get(other));
    }

    /// Makes the counter `frequency`, if uses are counted.
    pub(crate) fn set_frequency(&mut self, slot: u32, frequency: u8) {
        if !self.recency {
            self.put(slot, self.present.minute() << 8 | u32::from(frequency));
        }
    }

    /// The counter as it has decayed by now.
    pub(crate) fn frequency(&self, slot: u32) -> u8 {
        self.present.frequency(self.get(slot))
    }

    #[cold]
    fn count(&mut self, slot: u32) {
        let Counting::Frequency { log_factor, .. } = self.present.counting else { return };
        let mut counter = u32::from(self.frequency(slot));
        let above = u64::from(counter.saturating_sub(COUNTER_NEW));
        // One use in this many counts.
        let uses = above * u64::from(log_factor) + 1;
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        if (self.random >> 32).is_multiple_of(uses) {
            counter = (counter + 1).min(255);
        }
        self.put(slot, self.present.minute() << 8 | counter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recency_is_the_time_since_the_last_use() {
        let mut access = Access::default();
        access.begin(20);
        access.set_clock(5_000);
        access.begin(3);
        access.set_clock(7_050);
        assert_eq!((access.idle_ms(20), access.idle_ms(3)), (7_000, 2_000));
        access.touch(3);
        access.touch(1_000);
        assert_eq!((access.idle_ms(20), access.idle_ms(3)), (7_000, 0));
        assert!(!access.spare_uses(true));
        access.touch(20);
        assert_eq!(access.idle_ms(20), 7_000, "a lookup that is no use");
        assert!(access.spare_uses(false));
        access.set_idle_ms(3, 60_000);
        access.set_frequency(20, 9);
        assert_eq!((access.idle_ms(20), access.idle_ms(3)), (7_000, 60_000));
    }

    #[test]
    #[cfg_attr(miri, ignore = "a hundred thousand uses of one vector take Miri minutes")]
    fn frequency_grows_with_uses_and_decays_with_time() {
        let mut access = Access::default();
        access.set_counting(Counting::Frequency { log_factor: 10, decay_minutes: 1 });
        (0..4).for_each(|slot| access.begin(slot));
        for (slot, uses) in [(1, 10), (2, 1_000), (3, 100_000)] {
            (0..uses).for_each(|_| access.touch(slot));
        }
        let found: Vec<u8> = (0..4).map(|slot| access.frequency(slot)).collect();
        assert!(found[0] == 5 && found.is_sorted() && found[3] > found[2] + 50, "{found:?}");
        access.set_frequency(1, 200);
        access.set_idle_ms(1, 1_000_000);
        assert_eq!(access.frequency(1), 200);
        access.set_clock(10 * 60_000);
        assert_eq!(access.frequency(0), 0);
        assert_eq!(access.frequency(3), found[3] - 10);
        access.set_counting(Counting::Frequency { log_factor: 10, decay_minutes: 0 });
        assert_eq!(access.frequency(3), found[3], "without decay");
    }
}
