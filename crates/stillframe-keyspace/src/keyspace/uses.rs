//! When, or how often, keys were used, by key; the numbers themselves are in [`crate::access`].

use stillframe::Algorithm;

use super::Keyspace;
use crate::access::Counting;

impl<A: Algorithm> Keyspace<A> {
    /// Milliseconds since a key was last used, in steps of 100; meant for
    /// [`Counting::Recency`].
    #[must_use]
    pub fn idle_ms(&self, db: usize, key: &[u8]) -> Option<u64> {
        let seat = self.slots.find(&self.dbs[db].index, self.hash(key), key)?;
        Some(self.access.idle_ms(seat.slot))
    }

    /// How often a key is used, from 0 to 255; 0 without [`Counting::Frequency`].
    #[must_use]
    pub fn frequency(&self, db: usize, key: &[u8]) -> Option<u8> {
        let seat = self.slots.find(&self.dbs[db].index, self.hash(key), key)?;
        Some(self.access.frequency(seat.slot))
    }

    /// Makes a key look unused for so long, with [`Counting::Recency`].
    pub fn set_idle_ms(&mut self, db: usize, key: &[u8], idle_ms: u64) {
        if let Some(seat) = self.slots.find(&self.dbs[db].index, self.hash(key), key) {
            self.access.set_idle_ms(seat.slot, idle_ms);
        }
    }

    /// Makes a key look used so often, with [`Counting::Frequency`].
    pub fn set_frequency(&mut self, db: usize, key: &[u8], frequency: u8) {
        if let Some(seat) = self.slots.find(&self.dbs[db].index, self.hash(key), key) {
            self.access.set_frequency(seat.slot, frequency);
        }
    }

    /// How uses of keys are counted from now on.
    pub fn count_uses(&mut self, counting: Counting) {
        if self.access.counting() != counting {
            self.access.set_counting(counting);
        }
    }

    /// Tells the time by which uses are dated: milliseconds since any fixed instant.
    pub fn set_clock(&mut self, milliseconds: u64) {
        self.access.set_clock(milliseconds);
    }
}
