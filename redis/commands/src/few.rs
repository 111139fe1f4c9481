//! A set that mostly has one member: the clients that watch a key, listen to a channel, read a
//! name.
//!
//! The members lie in order in one vector. So a single member takes as little room as possible, and
//! a binary search finds one of thousands: a client that joins or leaves does not walk past the
//! others.

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Few<T>(Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> Few<T> {
    /// Adds a member; false if it was there.
    pub fn insert(&mut self, member: T) -> bool {
        let found = self.0.binary_search(&member);
        if let Err(at) = found {
            self.0.insert(at, member);
        }
        found.is_err()
    }

    /// Takes a member out; false if it was not there.
    pub fn remove(&mut self, member: &T) -> bool {
        let found = self.0.binary_search(member);
        if let Ok(at) = found {
            self.0.remove(at);
        }
        found.is_ok()
    }

    /// All members, in order.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_there_once() {
        let mut few = Few::default();
        assert!(few.insert(5) && few.insert(3) && !few.insert(5));
        assert_eq!(few.as_slice(), [3, 5]);
        assert!(few.remove(&5) && !few.remove(&5));
        assert_eq!((few.len(), few.is_empty()), (1, false));
    }
}
