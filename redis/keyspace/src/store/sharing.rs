//! What databases share, from one keyspace to another: an image has each entry once in each
//! database that shows it, and says which of these are the same one, so that who loads it shares
//! them as well.
//!
//! A database shows the entries of another one up to an era. So the databases that show entries of
//! one owner are nested: a database that shows an old entry less shows no younger one. An entry's
//! *class* counts these eras, and a table tells up to which class each database shows those of each
//! other. In a keyspace that is loaded, classes become eras again.
//!
//! Invariant
//! - L4: the eras of classes are younger than all that was there before the load, images and views
//!   too, and older than what is born during it. So an entry is shown exactly if it was given its
//!   class, and nobody has seen it before. Once another era begins, nothing more is shared: an
//!   image or view of it would take entries that are given older eras for its own.

use stillframe::{Algorithm, MemoryError};

use super::Keyspace;
use crate::DATABASES;
use crate::memory::shown::Counts;
use crate::memory::shown::mutants::Mutant;

/// The most classes that entries of one database can have.
pub const CLASSES_MAX: u8 = DATABASES as u8 - 1;

/// Up to which class each database shows entries of each other one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    /// By database that shows, then by database whose entries it shows; 0: none.
    pub(crate) classes: [[u8; DATABASES]; DATABASES],
}

impl Sharing {
    /// One database shows entries of another one, up to a class; false if there is no such
    /// database or class.
    pub fn add(&mut self, db: usize, of: usize, class: u8) -> bool {
        let is_known = db < DATABASES && of < DATABASES && db != of;
        if is_known && (1..=CLASSES_MAX).contains(&class) {
            self.classes[db][of] = class;
            return true;
        }
        false
    }

    /// Databases, those whose entries they show, and up to which class.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, u8)> {
        let rows = self.classes.iter().enumerate();
        let all = rows.flat_map(|(db, row)| row.iter().enumerate().map(move |it| (db, it)));
        all.filter(|(_, (_, class))| **class != 0).map(|(db, (of, class))| (db, of, *class))
    }
}

/// A key cannot be shared as its image says.
#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    /// A database has a key that it would show as well.
    #[error("database {db} has the key itself")]
    Again {
        /// The database.
        db: usize,
    },
    /// No slots for as many copies as may be needed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl<A: Algorithm> Keyspace<A> {
    /// What databases share now; `None` if they share nothing. An image that begins now has the
    /// same classes.
    #[must_use]
    pub fn sharing(&self) -> Option<Sharing> {
        let table = self.slots.shown().classes()?;
        let of = |db| self.spaces.of_db(db);
        let row = |db| std::array::from_fn(|owner| table[of(db)][of(owner)]);
        Some(Sharing { classes: std::array::from_fn(row) })
    }

    /// Bytes that copies of what databases show of others would take, of long values too.
    #[must_use]
    pub fn shared_bytes(&self) -> usize {
        self.slots.shown().bytes()
    }

    /// Begins to load what shares keys so. False if the keyspace has keys: then each key is to be
    /// loaded in each database.
    pub fn begin_sharing(&mut self, sharing: &Sharing) -> bool {
        if (0..DATABASES).any(|db| !self.is_empty(db)) {
            return false;
        }
        let base = self.slots.end_era();
        for _ in 0..CLASSES_MAX {
            self.slots.end_era(); // L4
        }
        let mut table = [[0; DATABASES]; DATABASES];
        for (db, of, class) in sharing.iter() {
            table[self.spaces.of_db(db)][self.spaces.of_db(of)] = class;
        }
        self.slots.shown_mut().begin_loading(base, &table);
        true
    }

    /// A key that was just loaded has this class: other databases show it, and need not be given
    /// copies. Returns these, a bit each; none if images or views were begun since.
    ///
    /// # Errors
    /// [`SharingError`]; the key stays its database's alone.
    pub fn share_key(&mut self, db: usize, key: &[u8], class: u8) -> Result<u16, SharingError> {
        let class = class + u8::from(Mutant::ClassesAreOff.is_made());
        let lookup = self.lookup_again(db, key);
        let (Some(seat), Some(era)) = (lookup.seat, self.slots.shown().era_of_class(class)) else {
            return Ok(0);
        };
        let space = self.spaces.of_db(db);
        let is_own = self.slots.entry_of(seat).space() == space;
        if !is_own || self.slots.shown().era_while_loading() != Some(self.slots.era()) {
            return Ok(0); // L4
        }
        let spaces = self.slots.shown().spaces_of_era(space, era);
        let has_it = |other: &usize| {
            let db = self.spaces.db_in(*other);
            let own = self.slots.find(&self.dbs[db].index, lookup.hash, key);
            own.is_some() || self.find_shown(db, lookup.hash, key).is_some()
        };
        let others = || (0..DATABASES).filter(|other| spaces & 1 << other != 0);
        if let Some(other) = others().find(has_it) {
            return Err(SharingError::Again { db: self.spaces.db_in(other) }); // L2
        }
        let owed = self.slots.shown().total() + others().count();
        self.slots.check_room(owed)?; // K6
        let Some(entry) = self.slots.entry_mut(seat) else { return Ok(0) };
        entry.set_era(era);
        let counts = Counts::from_entry(entry);
        others().for_each(|other| self.slots.shown_mut().show(other, counts));
        Ok(others().fold(0, |dbs, other| dbs | 1 << self.spaces.db_in(other)))
    }

    /// Ends a load that was [begun](Self::begin_sharing).
    pub fn end_sharing(&mut self) {
        self.slots.shown_mut().end_loading();
    }
}
