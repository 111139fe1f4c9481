//! Keyspace notifications: what happens to keys, published on two channels a change.
//!
//! `__keyspace@<db>__:<key>` carries the event, `__keyevent@<db>__:<event>` the key. Which
//! classes of events are told is a setting; while it is empty a change costs one branch.

use stillframe::Algorithm;
use stillframe_keyspace::Keyspace;

use crate::pubsub::Kind;
use crate::state::ServerState;

/// Letters of `notify-keyspace-events`, in the order in which CONFIG GET shows them.
const LETTERS: &[u8] = b"g$lshzxetdnKEm";
/// Classes that `A` stands for.
const ALL: &[u8] = b"g$lshzxetd";

/// Classes of events, and the channels that they are told on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Classes(u16);

impl Classes {
    /// Reads `notify-keyspace-events`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let letters = text.bytes().flat_map(|letter| match letter {
            b'A' => ALL,
            _ => LETTERS
                .iter()
                .position(|&known| known == letter)
                .map_or(&b"?"[..], |at| &LETTERS[at..=at]),
        });
        letters.map(|&letter| bit(letter)).try_fold(Self(0), |classes, bit| match bit {
            0 => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
            bit => Ok(Self(classes.0 | bit)),
        })
    }

    /// As Redis shows it: `n` disappears beside `A`.
    pub(crate) fn show(self) -> String {
        let all: u16 = ALL.iter().map(|&letter| bit(letter)).sum();
        let (start, hidden) = if self.0 & all == all { ("A", all | bit(b'n')) } else { ("", 0) };
        let rest = LETTERS.iter().filter(|&&letter| self.0 & !hidden & bit(letter) != 0);
        start.chars().chain(rest.map(|&letter| char::from(letter))).collect()
    }

    /// Whether nothing is told.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether events of a class are told.
    pub(crate) fn has(self, class: char) -> bool {
        u8::try_from(class).is_ok_and(|letter| self.0 & bit(letter) != 0)
    }
}

/// 0 if there is no such letter.
fn bit(letter: u8) -> u16 {
    LETTERS.iter().position(|&known| known == letter).map_or(0, |at| 1 << at)
}

impl ServerState {
    /// Tells that something happened to a key. `class` is a letter of `notify-keyspace-events`.
    #[inline]
    pub(crate) fn notify(&mut self, class: char, event: &str, db: usize, key: &[u8]) {
        if !self.config.notify.is_empty() {
            self.notify_now(class, event, db, key);
        }
    }

    #[cold]
    fn notify_now(&mut self, class: char, event: &str, db: usize, key: &[u8]) {
        let classes = self.config.notify;
        if !classes.has(class) || self.pubsub.is_empty() {
            return;
        }
        if classes.has('K') {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(Kind::Channel, &channel, event.as_bytes());
        }
        if classes.has('E') {
            let channel = format!("__keyevent@{db}__:{event}");
            self.publish(Kind::Channel, channel.as_bytes(), key);
        }
    }
}

impl ServerState {
    /// Whether anyone wants to know which keys expire.
    pub(crate) fn wants_expired(&self) -> bool {
        self.effects.wanted() || !self.config.notify.is_empty() || self.tracking.clients > 0
    }

    /// Tells the log, the replicas and caches that a key is gone that nobody deleted.
    pub(crate) fn gone(&mut self, db: usize, key: &[u8]) {
        if self.effects.wanted() {
            self.effects.add(db, &[b"DEL", key]);
        }
        self.invalidate(key, 0);
    }

    /// Tells of the keys whose time has come since this was last called; `f` with each database.
    #[inline]
    pub(crate) fn settle_expired<A: Algorithm>(
        &mut self,
        keyspace: &mut Keyspace<A>,
        mut f: impl FnMut(&mut Self, usize),
    ) {
        for (db, key) in keyspace.take_expired() {
            self.gone(db, &key);
            f(self, db);
            self.notify('x', "expired", db, &key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
