//! What happens to keys, collected for the clients that want to know: keyspace notifications, and
//! changes of keys that clients keep in caches.
//!
//! - Commands collect events while they run. The server sends them to clients right after the
//!   command, in the same order.
//! - Only events that a client wants are collected; without such clients a change costs one branch.

/// Letters of `notify-keyspace-events`, in the order in which CONFIG GET shows them.
const LETTERS: &[u8] = b"g$lshzxetdnKEm";
/// Classes that `A` stands for.
const ALL: &[u8] = b"g$lshzxetd";

/// Letters of `notify-keyspace-events` that Redis does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")]
pub struct NoSuchClass;

/// Classes of events, and the channels that carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u16);

impl Classes {
    /// Reads `notify-keyspace-events`.
    ///
    /// # Errors
    /// A letter stands for no class.
    pub fn parse(text: &str) -> Result<Self, NoSuchClass> {
        let letters = text.bytes().flat_map(|letter| match letter {
            b'A' => ALL,
            _ => LETTERS
                .iter()
                .position(|&known| known == letter)
                .map_or(&b"?"[..], |at| &LETTERS[at..=at]),
        });
        letters.map(|&letter| bit(letter)).try_fold(Self(0), |classes, bit| match bit {
            0 => Err(NoSuchClass),
            bit => Ok(Self(classes.0 | bit)),
        })
    }

    /// As Redis shows it: `n` disappears beside `A`.
    pub fn show(self) -> String {
        let all: u16 = ALL.iter().map(|&letter| bit(letter)).sum();
        let (start, hidden) = if self.0 & all == all { ("A", all | bit(b'n')) } else { ("", 0) };
        let rest = LETTERS.iter().filter(|&&letter| self.0 & !hidden & bit(letter) != 0);
        start.chars().chain(rest.map(|&letter| char::from(letter))).collect()
    }

    /// Whether no event is wanted.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether events of a class are wanted.
    pub fn has(self, class: char) -> bool {
        u8::try_from(class).is_ok_and(|letter| self.0 & bit(letter) != 0)
    }
}

/// 0 if there is no such letter.
fn bit(letter: u8) -> u16 {
    LETTERS.iter().position(|&known| known == letter).map_or(0, |at| 1 << at)
}

/// Something that happened to a key, or to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A keyspace notification.
    Notice {
        /// What happened.
        event: &'static str,
        /// The database of the key.
        db: usize,
        /// The key.
        key: &'a [u8],
    },
    /// Copies of a key in caches are out of date.
    Stale {
        /// The key.
        key: &'a [u8],
        /// The client that changed it, or 0.
        by: u64,
    },
    /// Copies of all keys in caches are out of date: a database was emptied.
    AllStale,
}

/// The events since they were last taken.
#[derive(Default)]
pub struct Events {
    /// Clients keep keys in caches.
    pub cached: bool,
    collected: Collected,
}

/// Events in the order in which they happened.
#[derive(Default)]
pub struct Collected {
    /// Each event with where its key ends in `keys`.
    events: Vec<(Kept, usize)>,
    keys: Vec<u8>,
}

/// An event without its key.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Notice { event: &'static str, db: usize },
    Stale { by: u64 },
    AllStale,
}

impl Events {
    /// Whether there is no event.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.collected.events.is_empty()
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event<'_>) {
        let (kept, key) = match event {
            Event::Notice { event, db, key } => (Kept::Notice { event, db }, key),
            Event::Stale { key, by } => (Kept::Stale { by }, key),
            Event::AllStale => (Kept::AllStale, &b""[..]),
        };
        let Collected { events, keys } = &mut self.collected;
        keys.extend_from_slice(key);
        events.push((kept, keys.len()));
    }

    /// Takes all events, to send them to clients. [`give_back`](Self::give_back) the buffers.
    pub fn take(&mut self) -> Collected {
        std::mem::take(&mut self.collected)
    }

    /// Keeps buffers for the next events, unless they have become large.
    pub fn give_back(&mut self, mut taken: Collected) {
        /// Buffers above this are freed, in bytes and in events.
        const KEPT_MAX: usize = 1 << 16;
        if taken.keys.capacity() <= KEPT_MAX && taken.events.capacity() <= KEPT_MAX {
            taken.keys.clear();
            taken.events.clear();
            self.collected = taken;
        }
    }
}

impl Collected {
    /// Each event.
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        let mut start = 0;
        self.events.iter().map(move |&(kept, end)| {
            let key = &self.keys[start..end];
            start = end;
            match kept {
                Kept::Notice { event, db } => Event::Notice { event, db, key },
                Kept::Stale { by } => Event::Stale { key, by },
                Kept::AllStale => Event::AllStale,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_in_which_they_happened() {
        let mut events = Events::default();
        assert!(events.is_empty());
        let all = [
            Event::Notice { event: "set", db: 3, key: b"key" },
            Event::Stale { key: b"", by: 7 },
            Event::AllStale,
            Event::Stale { key: b"other", by: 0 },
        ];
        for _ in 0..2 {
            all.iter().for_each(|&event| events.add(event));
            let taken = events.take();
            assert_eq!(taken.iter().collect::<Vec<_>>(), all);
            events.give_back(taken);
            assert!(events.is_empty());
        }
    }

    /// Expectations were recorded from redis-server 7.0.15.
    #[test]
    fn classes_are_shown_as_redis_shows_them() {
        for (text, shown) in [
            ("", ""),
            ("KEAn", "AKE"),
            ("KEAmn", "AKEm"),
            ("Kgn", "gnK"),
            ("g$lshzxet", "g$lshzxet"),
            ("g$lshzxetd", "A"),
        ] {
            assert_eq!(Classes::parse(text).map(Classes::show), Ok(shown.to_owned()), "{text}");
        }
        assert!(Classes::parse("KEq").is_err() && Classes::parse("?").is_err());
        assert!(Classes::parse("Ex").is_ok_and(|classes| classes.has('x') && !classes.has('e')));
    }
}
