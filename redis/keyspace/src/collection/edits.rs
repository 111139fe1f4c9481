//! Collections as their writers see them.

use super::draft::Draft;
use super::packed::{Element, NEVER, Shape, score_head};
use super::views::{Hash, List, Set, Sorted};

/// A list under edit.
pub struct ListEdit<'a>(pub(crate) Draft<'a>);
/// A hash under edit.
pub struct HashEdit<'a>(pub(crate) Draft<'a>);
/// A set under edit.
pub struct SetEdit<'a>(pub(crate) Draft<'a>);
/// A sorted set under edit.
pub struct SortedEdit<'a>(pub(crate) Draft<'a>);

impl ListEdit<'_> {
    /// The list as it is now.
    #[must_use]
    pub fn view(&self) -> List<'_> {
        List(self.0.view())
    }

    /// Its elements.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "as of a list")]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Puts an element before the first.
    pub fn push_front(&mut self, value: &[u8]) {
        self.0.insert_at(0, Element::single(value));
    }

    /// Puts an element behind the last.
    pub fn push_back(&mut self, value: &[u8]) {
        self.0.insert_at(self.len(), Element::single(value));
    }

    /// Removes the first element.
    pub fn pop_front(&mut self) -> Option<Vec<u8>> {
        let value = self.view().get(0)?.to_vec();
        self.0.remove_range(0, 1);
        Some(value)
    }

    /// Removes the last element.
    pub fn pop_back(&mut self) -> Option<Vec<u8>> {
        let last = self.len().checked_sub(1)?;
        let value = self.view().get(last)?.to_vec();
        self.0.remove_range(last, 1);
        Some(value)
    }

    /// Replaces the element at a position; false if there is none.
    pub fn set(&mut self, at: usize, value: &[u8]) -> bool {
        let exists = at < self.len();
        if exists {
            self.0.replace_at(at, Element::single(value));
        }
        exists
    }

    /// Puts an element before the one at a position, which may be the end; false beyond it.
    pub fn insert(&mut self, at: usize, value: &[u8]) -> bool {
        let exists = at <= self.len();
        if exists {
            self.0.insert_at(at, Element::single(value));
        }
        exists
    }

    /// Removes at most `count` elements from position `start` on.
    pub fn remove_range(&mut self, start: usize, count: usize) {
        self.0.remove_range(start, count);
    }
}

impl HashEdit<'_> {
    /// The hash as it is now.
    #[must_use]
    pub fn view(&self) -> Hash<'_> {
        Hash::whole(self.0.view())
    }

    /// Sets a field, which stays; true if it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.0.put(Element::new(field, value))
    }

    /// Sets a field, which keeps its deadline unless that has come; true if it is new.
    pub fn set_keeping(&mut self, field: &[u8], value: &[u8], now: i64) -> bool {
        self.set_until(field, value, self.view().as_of(now).deadline(field))
    }

    /// Sets a field that expires at an instant, or stays; true if it is new.
    pub fn set_until(&mut self, field: &[u8], value: &[u8], deadline: Option<i64>) -> bool {
        self.0.put(Element { deadline: deadline.unwrap_or(NEVER), ..Element::new(field, value) })
    }

    /// Sets or clears a field's deadline; false if there is no such field.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<i64>) -> bool {
        let Some(value) = self.view().get(field).map(<[u8]>::to_vec) else { return false };
        self.set_until(field, &value, deadline);
        true
    }

    /// Removes at most `budget` of the fields whose deadline has come; returns them.
    pub fn remove_due(&mut self, now: i64, budget: usize) -> Vec<Box<[u8]>> {
        let mut removed = Vec::new();
        while removed.len() < budget
            && let Some(due) = self.0.view().due(now)
        {
            let field: Box<[u8]> = due.key.into();
            self.0.remove(&field);
            removed.push(field);
        }
        removed
    }

    /// Removes a field; false if it was not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.0.remove(field)
    }
}

impl SetEdit<'_> {
    /// The set as it is now.
    #[must_use]
    pub fn view(&self) -> Set<'_> {
        Set(self.0.view())
    }

    /// Adds a member; false if it was there.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        self.0.put(Element::single(member))
    }

    /// Removes a member; false if it was not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.0.remove(member)
    }
}

impl SortedEdit<'_> {
    /// The sorted set as it is now.
    #[must_use]
    pub fn view(&self) -> Sorted<'_> {
        Sorted(self.0.view())
    }

    /// Sets a member's score, which is not NaN (and -0 is kept as 0); returns the old one.
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan(), "the caller refuses NaN");
        let element = Element::ranked(member, score_head(score));
        let old = match self.0.body() {
            Ok(chunk) => {
                let (span, found) = chunk.find_key(Shape::Ranked, member);
                let old = found.map(Element::score);
                if found == Some(element) {
                    return old;
                }
                if old.is_some() {
                    chunk.remove(span, 1);
                }
                chunk.insert_ranked(element);
                old
            }
            Err(trunk) => trunk.set_score(element),
        };
        self.0.changed = true;
        self.0.grown(element);
        old
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let old = match self.0.body() {
            Ok(chunk) => {
                let (span, found) = chunk.find_key(Shape::Ranked, member);
                let old = found.map(Element::score);
                if old.is_some() {
                    chunk.remove(span, 1);
                }
                old
            }
            Err(trunk) => trunk.remove_member(member),
        };
        self.0.changed |= old.is_some();
        old
    }

    /// Removes at most `count` members from rank `start` on.
    pub fn remove_range(&mut self, start: usize, count: usize) {
        self.0.remove_range(start, count);
    }
}
