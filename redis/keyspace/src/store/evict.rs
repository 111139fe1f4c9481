//! Which keys go when memory is short.
//!
//! As in Redis, a few keys of every database are sampled, and the best victims so far wait in a
//! small sorted pool. Unlike Redis, a victim is judged again when its turn comes, and spared if it
//! was used since it was sampled.

use stillframe::Algorithm;

use super::Keyspace;
use crate::DATABASES;
use crate::collection::packed::NEVER;
use crate::memory::entry::Entry;

/// Victims kept from one eviction to the next.
const POOL: usize = 16;

/// What makes a key a good victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merit {
    /// Not used for long; needs [`Counting::Recency`](crate::Counting).
    Idle,
    /// Seldom used; needs [`Counting::Frequency`](crate::Counting).
    Rare,
    /// Nothing.
    Chance,
    /// About to expire.
    NearEnd,
}

/// How victims are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// What makes a good victim.
    pub merit: Merit,
    /// Only keys with a time to live.
    pub mortal_only: bool,
    /// Keys sampled in each database.
    pub samples: usize,
}

/// Victims in waiting, the best last.
#[derive(Default)]
pub(crate) struct Pool {
    candidates: Vec<Candidate>,
    /// What branches had of a victim: its memory is free when that goes, too.
    copies: Vec<Candidate>,
    choice: Option<Choice>,
    turn: usize,
}

struct Candidate {
    score: u64,
    slot: u32,
    space: usize,
    hash: u64,
}

impl<A: Algorithm> Keyspace<A> {
    /// Deletes the best victim found, and returns its database and key; `None` if no key may go.
    /// `random` yields 64 random bits a call.
    pub fn evict(
        &mut self,
        choice: Choice,
        random: &mut impl FnMut() -> u64,
    ) -> Option<(usize, Box<[u8]>)> {
        let (slot, hash) = match (self.copied_victim(), choice.merit) {
            (Some(copy), _) => copy,
            (None, Merit::Chance) => {
                let slot = self.any_victim(choice, random)?;
                (slot, self.hash_in(slot))
            }
            (None, _) => self.best_victim(choice, random)?,
        };
        let entry = self.at(slot);
        let gone = (self.spaces.db_of(entry), Box::from(entry.key()));
        let showing: Vec<usize> = self.slots.shown().showing(entry).collect();
        self.delete(slot, hash);
        for space in showing {
            let copy = self.slots.find(self.index_in(space), hash, &gone.1);
            self.pool.copies.extend(copy.map(|seat| Candidate {
                score: 0,
                slot: seat.slot,
                space,
                hash,
            }));
        }
        Some(gone)
    }

    /// The copy of the last victim in a branch that showed it.
    fn copied_victim(&mut self) -> Option<(u32, u64)> {
        while let Some(copy) = self.pool.copies.pop() {
            if self.is_there(&copy) {
                return Some((copy.slot, copy.hash));
            }
        }
        None
    }

    /// A random key; databases take turns.
    fn any_victim(&mut self, choice: Choice, random: &mut impl FnMut() -> u64) -> Option<u32> {
        (0..DATABASES).find_map(|_| {
            self.pool.turn += 1;
            self.sample(self.pool.turn % DATABASES, choice, random)
        })
    }

    fn sample(&self, db: usize, choice: Choice, random: &mut impl FnMut() -> u64) -> Option<u32> {
        let db = &self.dbs[db];
        if choice.mortal_only { db.expiries.random(random()) } else { db.index.random(random) }
    }

    /// The slot of the best victim, and the hash of its key.
    fn best_victim(
        &mut self,
        choice: Choice,
        random: &mut impl FnMut() -> u64,
    ) -> Option<(u32, u64)> {
        if self.pool.choice != Some(choice) {
            self.pool.candidates.clear();
            self.pool.choice = Some(choice);
        }
        loop {
            let mut met = false;
            for db in 0..DATABASES {
                for _ in 0..choice.samples.min(self.len(db)) {
                    let Some(slot) = self.sample(db, choice, random) else { break };
                    met = true;
                    self.consider(slot, choice);
                }
            }
            while let Some(candidate) = self.pool.candidates.pop() {
                if self.still(&candidate, choice) {
                    return Some((candidate.slot, candidate.hash));
                }
            }
            if !met {
                return None;
            }
        }
    }

    /// Keys with higher values are evicted sooner.
    fn score(&self, slot: u32, entry: &Entry, choice: Choice) -> u64 {
        match choice.merit {
            Merit::Idle => self.access.idle_ms(slot),
            Merit::Rare => 255 - u64::from(self.access.frequency(slot)),
            Merit::NearEnd => (i64::MAX - entry.deadline().max(0)).cast_unsigned(),
            Merit::Chance => 0,
        }
    }

    /// Lets a key into the pool if it is a better victim than one in it, or if there is room.
    fn consider(&mut self, slot: u32, choice: Choice) {
        let entry = self.at(slot);
        let (space, hash) = (entry.space(), self.hash(entry.key()));
        let score = self.score(slot, entry, choice);
        let pool = &mut self.pool.candidates;
        if pool.iter().any(|candidate| candidate.slot == slot && candidate.hash == hash) {
            return;
        }
        let at = pool.partition_point(|candidate| candidate.score < score);
        if pool.len() == POOL {
            if at == 0 {
                return;
            }
            pool.remove(0);
            pool.insert(at - 1, Candidate { score, slot, space, hash });
        } else {
            pool.insert(at, Candidate { score, slot, space, hash });
        }
    }

    /// Whether the key that was sampled is still there and as good a victim.
    fn still(&self, candidate: &Candidate, choice: Choice) -> bool {
        self.is_there(candidate)
            && (!choice.mortal_only || self.at(candidate.slot).deadline() != NEVER)
            && self.score(candidate.slot, self.at(candidate.slot), choice) >= candidate.score
    }

    fn is_there(&self, candidate: &Candidate) -> bool {
        let Some(entry) = self.slots.entry(candidate.slot) else { return false };
        entry.space() == candidate.space
            && self.is_live(entry)
            && self.hash(entry.key()) == candidate.hash
    }
}

#[cfg(test)]
mod tests {
    use stillframe::algorithms::naive::Naive;

    use super::*;
    use crate::{Counting, Expire, KeyspaceOptions};

    fn keyspace() -> Keyspace<Naive> {
        let options = KeyspaceOptions { max_keys: 1 << 12, ..KeyspaceOptions::default() };
        Keyspace::create(&options).expect("memory for a small keyspace")
    }

    fn random() -> impl FnMut() -> u64 {
        let mut bits = 1_u64;
        move || {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bits ^ bits >> 29
        }
    }

    #[test]
    fn the_hot_half_survives() {
        for (merit, counting) in [
            (Merit::Idle, Counting::Recency),
            (Merit::Rare, Counting::Frequency { log_factor: 1, decay_minutes: 1 }),
        ] {
            let (mut keyspace, mut random) = (keyspace(), random());
            keyspace.count_uses(counting);
            let (keys, uses) = if cfg!(miri) { (40, 5) } else { (400, 20) };
            for number in 0..keys {
                let key = format!("{number}");
                keyspace.set(number % 3, key.as_bytes(), b"v", Expire::Never).expect("room");
            }
            keyspace.set_clock(1_000);
            for number in (0..keys).step_by(2) {
                let key = format!("{number}");
                (0..uses).for_each(|_| assert!(keyspace.contains(number % 3, key.as_bytes(), 0)));
            }
            let choice = Choice { merit, mortal_only: false, samples: 5 };
            let mut hot = 0;
            for _ in 0..keys / 2 - keys / 8 {
                let (_, key) = keyspace.evict(choice, &mut random).expect("keys are left");
                let number: usize = String::from_utf8_lossy(&key).parse().expect("a number");
                hot += usize::from(number.is_multiple_of(2));
            }
            assert!(hot <= keys / 40, "{merit:?}: {hot} hot keys were evicted");
        }
    }

    #[test]
    fn only_mortals_go_if_so_chosen_and_the_nearest_to_their_end_first() {
        let (mut keyspace, mut random) = (keyspace(), random());
        for number in 0..12_i64 {
            let expire = if number % 2 == 0 { Expire::At(1000 + number) } else { Expire::Never };
            keyspace.set(0, format!("{number}").as_bytes(), b"v", expire).expect("room");
        }
        let choice = Choice { merit: Merit::NearEnd, mortal_only: true, samples: 50 };
        let mut gone = Vec::new();
        while let Some((_, key)) = keyspace.evict(choice, &mut random) {
            gone.push(String::from_utf8_lossy(&key).into_owned());
        }
        assert_eq!(gone, ["0", "2", "4", "6", "8", "10"]);
        let choice = Choice { merit: Merit::Chance, mortal_only: false, samples: 5 };
        while keyspace.evict(choice, &mut random).is_some() {}
        assert_eq!(keyspace.stats().keys, 0);
    }

    /// Among others that live for ever, three keys, the one that was used last about to expire.
    fn aged() -> Keyspace<Naive> {
        let mut keyspace = keyspace();
        for (clock, key) in [(0, b"a"), (1_000, b"b"), (2_000, b"c")] {
            keyspace.set_clock(clock);
            let expire = Expire::At(9_000 - clock as i64);
            keyspace.set(0, key, b"v", expire).expect("room");
        }
        let immortal = |number: u32| number.to_string().into_bytes();
        (0..30).for_each(|it| keyspace.set(0, &immortal(it), b"v", Expire::Never).expect("room"));
        keyspace.set_clock(3_000);
        keyspace
    }

    /// The next victim of those three.
    fn victim(keyspace: &mut Keyspace<Naive>, merit: Merit) -> Vec<u8> {
        let choice = Choice { merit, mortal_only: true, samples: 30 };
        keyspace.evict(choice, &mut random()).expect("a mortal is left").1.into()
    }

    #[test]
    fn a_key_that_is_used_while_it_waits_in_the_pool_is_spared() {
        let mut keyspace = aged();
        assert_eq!(victim(&mut keyspace, Merit::Idle), b"a");
        assert!(keyspace.contains(0, b"b", 0));
        assert_eq!(victim(&mut keyspace, Merit::Idle), b"c");
    }

    #[test]
    fn keys_that_wait_are_judged_anew_by_another_merit() {
        let mut keyspace = aged();
        assert_eq!(victim(&mut keyspace, Merit::Idle), b"a");
        assert_eq!(victim(&mut keyspace, Merit::NearEnd), b"c");
    }

    #[test]
    fn a_key_in_the_slot_of_what_a_branch_had_of_a_victim_stays() {
        let mut keyspace = aged();
        keyspace.branch(0, 1).expect("room");
        assert_eq!(victim(&mut keyspace, Merit::Idle), b"a");
        assert!(keyspace.remove(1, b"a"));
        keyspace.set(1, b"new", b"v", Expire::Never).expect("room");
        assert_eq!(victim(&mut keyspace, Merit::Idle), b"b");
        assert!(keyspace.contains(1, b"new", 0));
    }

    #[test]
    fn what_branches_show_of_a_victim_goes_with_it() {
        for merit in [Merit::Idle, Merit::Chance] {
            let (mut keyspace, mut random) = (keyspace(), random());
            for number in 0..30 {
                let key = format!("{number}");
                keyspace.set(0, key.as_bytes(), &[b'x'; 500], Expire::Never).expect("room");
            }
            keyspace.branch(0, 1).expect("room");
            keyspace.branch(1, 2).expect("room");
            let before = keyspace.data_bytes();
            let choice = Choice { merit, mortal_only: false, samples: 5 };
            for _ in 0..30 {
                keyspace.evict(choice, &mut random).expect("keys are left");
            }
            assert_eq!([0, 1, 2].map(|db| keyspace.len(db)), [20; 3], "{merit:?}");
            assert_eq!(keyspace.data_bytes(), before / 3 * 2, "{merit:?}");
        }
    }
}
