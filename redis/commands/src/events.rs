//! What happens to keys, collected for the clients that want to know: keyspace notifications, and
//! changes of keys that clients keep in caches.
//!
//! - Commands collect events while they run. The server sends them to clients right after the
//!   command, in the same order.
//! - Only events that a client wants are collected; without such clients a change costs one branch.
//! - Changes of hashes name their fields, on channels of their own, in the form of Redis 8.8.
//! - A key whose value is replaced by another is `overwritten`, and perhaps `type_changed`, as in
//!   Redis from 8.2 on.

/// Letters of `notify-keyspace-events`, in the order in which CONFIG GET shows them.
const LETTERS: &[u8] = b"g$lshzxetdanocKEmSTIV";
/// The channels that name fields.
const OF_FIELDS: &[u8] = b"STIV";
/// Classes that `A` stands for.
const ALL: &[u8] = b"g$lshzxetda";
/// Classes that are not shown beside `A`.
const HIDDEN: &[u8] = b"noc";

/// Letters of `notify-keyspace-events` that Redis does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'.")]
pub struct NoSuchClass;

/// Classes of events, and the channels that carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u32);

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

    /// As Redis shows it: some disappear beside `A`.
    pub fn show(self) -> String {
        let bits = |letters: &[u8]| letters.iter().map(|&letter| bit(letter)).sum::<u32>();
        let all = bits(ALL);
        let (start, hidden) = if self.0 & all == all { ("A", all | bits(HIDDEN)) } else { ("", 0) };
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

    /// Whether the names of fields are wanted.
    pub fn has_fields(self) -> bool {
        OF_FIELDS.iter().any(|&letter| self.0 & bit(letter) != 0)
    }
}

/// 0 if there is no such letter.
fn bit(letter: u8) -> u32 {
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
        /// The fields of a hash to which it happened, as far as they are wanted.
        fields: Fields<'a>,
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

/// Names of fields as messages carry them: `3:foo,5:hello`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Adds a name to the text of others.
    pub(crate) fn add_to(text: &mut Vec<u8>, name: &[u8]) {
        if !text.is_empty() {
            text.push(b',');
        }
        text.extend_from_slice(name.len().to_string().as_bytes());
        text.push(b':');
        text.extend_from_slice(name);
    }

    /// Those of a text of [`add_to`](Self::add_to).
    pub(crate) fn from_text(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// All in one text.
    pub fn text(self) -> &'a [u8] {
        self.0
    }

    /// Each name.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let at = rest.iter().position(|&byte| byte == b':')?;
            let bytes: usize = std::str::from_utf8(&rest[..at]).ok()?.parse().ok()?;
            let (name, after) = rest[at + 1..].split_at_checked(bytes)?;
            rest = after.strip_prefix(b",").unwrap_or(after);
            Some(name)
        })
    }
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
    /// Each event with where its key and its fields end in `keys`.
    events: Vec<(Kept, usize)>,
    keys: Vec<u8>,
}

/// An event without its key and its fields.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Notice { event: &'static str, db: usize, key_bytes: usize },
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
        let (kept, key, fields) = match event {
            Event::Notice { event, db, key, fields } => {
                (Kept::Notice { event, db, key_bytes: key.len() }, key, fields)
            }
            Event::Stale { key, by } => (Kept::Stale { by }, key, Fields::default()),
            Event::AllStale => (Kept::AllStale, &b""[..], Fields::default()),
        };
        let Collected { events, keys } = &mut self.collected;
        keys.extend_from_slice(key);
        keys.extend_from_slice(fields.text());
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
                Kept::Notice { event, db, key_bytes } => {
                    let (key, fields) = key.split_at(key_bytes);
                    Event::Notice { event, db, key, fields: Fields(fields) }
                }
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
        let (none, two) = (Fields::default(), Fields(b"1:a,2:b:"));
        let all = [
            Event::Notice { event: "set", db: 3, key: b"key", fields: none },
            Event::Notice { event: "hset", db: 0, key: b"hash", fields: two },
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

    #[test]
    fn names_of_fields_may_hold_any_byte() {
        let names: [&[u8]; 5] = [b"foo", b"", b"5:a,b", b"|\n\xff", b"0123456789"];
        let mut text = Vec::new();
        names.iter().for_each(|name| Fields::add_to(&mut text, name));
        assert_eq!(text, b"3:foo,0:,5:5:a,b,3:|\n\xff,10:0123456789");
        assert_eq!(Fields(&text).iter().collect::<Vec<_>>(), names);
        assert_eq!(Fields::default().iter().count(), 0);
    }

    /// Expectations were recorded from redis-server 8.10.2.
    #[test]
    fn classes_are_shown_as_redis_shows_them() {
        for (text, shown) in [
            ("", ""),
            ("KEAn", "AKE"),
            ("KEAmn", "AKEm"),
            ("Kgn", "gnK"),
            ("g$lshzxet", "g$lshzxet"),
            ("g$lshzxetd", "g$lshzxetd"), // without arrays, which 7.0 does not have
            ("Kg$lshzxetda", "AK"),
            ("KAoncm", "AKm"),
            ("Ktxna", "xtanK"),
            ("VISTAKEm", "AKEmSTIV"), // by the source of Redis 8.8
        ] {
            assert_eq!(Classes::parse(text).map(Classes::show), Ok(shown.to_owned()), "{text}");
        }
        assert!(Classes::parse("KEq").is_err() && Classes::parse("?").is_err());
        let classes = ["Ex", "KEA", "h", "hV"].map(|text| Classes::parse(text).expect("known"));
        assert!(classes[0].has('x') && !classes[0].has('e'));
        assert_eq!(classes.map(Classes::has_fields), [false, false, false, true]);
    }
}
