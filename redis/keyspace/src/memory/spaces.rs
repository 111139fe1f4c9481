//! Which database is in which space: entries carry the number of a space (K4), so that SWAPDB
//! touches no entry.

use crate::DATABASES;
use crate::memory::entry::Entry;

/// Which database is in which space.
#[derive(Debug, Clone)]
pub(crate) struct Spaces {
    of_db: [u8; DATABASES],
    db_in: [u8; DATABASES],
}

impl Default for Spaces {
    fn default() -> Self {
        let same = std::array::from_fn(|db| db as u8);
        Self { of_db: same, db_in: same }
    }
}

impl Spaces {
    #[inline]
    pub(crate) fn of_db(&self, db: usize) -> usize {
        self.of_db[db].into()
    }

    #[inline]
    pub(crate) fn db_of(&self, entry: &Entry) -> usize {
        self.db_in(entry.space())
    }

    #[inline]
    pub(crate) fn db_in(&self, space: usize) -> usize {
        self.db_in[space].into()
    }

    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        self.of_db.swap(a, b);
        let [a, b] = [self.of_db(a), self.of_db(b)];
        self.db_in.swap(a, b);
    }
}
