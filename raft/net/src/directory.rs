//! The names of groups, directories and starts: numbers by chance, which no other has.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::ring;

/// Starts that a handshake names. A node that was not met for more of them is believed.
pub(crate) const STARTS_MAX: usize = 16;

/// Why there is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// A text is none.
    #[error("'{text}' is no id of 32 hexadecimal digits")]
    Malformed {
        /// The text.
        text: String,
    },
    /// None can be drawn.
    #[error("the machine gives no random bytes")]
    NoRandomBytes,
}

/// 128 bits that no other has: of a group, or of a directory. As text, hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; 16]);

impl Id {
    /// An id by chance.
    ///
    /// # Errors
    /// The machine gives no random bytes.
    pub fn draw() -> Result<Self, IdError> {
        Ok(Self(random()?))
    }

    #[cfg(test)]
    pub(crate) const fn from_array(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id of these bytes; zeros are none.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Malformed { text: text.to_owned() };
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        number.and_then(|number| Self::from_bytes(number.to_be_bytes())).ok_or_else(wrong)
    }
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    static DRAWN: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// From now on this thread draws ids by a seed, and not by chance.
#[cfg(any(test, feature = "testing"))]
pub fn draw_ids_by(seed: u64) {
    DRAWN.set(Some(seed));
}

fn random<const N: usize>() -> Result<[u8; N], IdError> {
    let mut bytes = [0; N];
    #[cfg(any(test, feature = "testing"))]
    if let Some(mut drawn) = DRAWN.get() {
        for byte in &mut bytes {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (drawn >> 33) as u8;
        }
        DRAWN.set(Some(drawn));
        return Ok(bytes);
    }
    let filled = ring::default_provider().secure_random.fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| IdError::NoRandomBytes)
}

/// A directory, and the starts of nodes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starts {
    /// The directory.
    pub directory: Id,
    /// How often a node was started there.
    pub count: u64,
    /// What was drawn at the last of these starts, the newest last.
    pub drawn: Vec<u64>,
}

impl Starts {
    /// Those of a new directory: none yet.
    ///
    /// # Errors
    /// The machine gives no random bytes.
    pub fn new() -> Result<Self, IdError> {
        Ok(Self { directory: Id::draw()?, count: 0, drawn: Vec::new() })
    }

    /// With one more, which must be on the disk before anybody is told of it.
    ///
    /// # Errors
    /// The machine gives no random bytes.
    pub fn and_one_more(mut self) -> Result<Self, IdError> {
        self.count = self.count.saturating_add(1);
        self.drawn.push(u64::from_le_bytes(random()?));
        let old = self.drawn.len().saturating_sub(STARTS_MAX);
        self.drawn.drain(..old);
        Ok(self)
    }

    pub(crate) fn last(&self) -> Option<Met> {
        let drawn = *self.drawn.last()?;
        Some(Met { directory: self.directory, count: self.count, drawn })
    }

    /// Whether the start that was met is one of these, as far as they go back.
    pub(crate) fn include(&self, met: &Met) -> bool {
        let Some(since) = self.count.checked_sub(met.count) else { return false };
        let last = self.drawn.iter().rev();
        usize::try_from(since)
            .ok()
            .and_then(|since| last.clone().nth(since))
            .map_or_else(|| since >= self.drawn.len() as u64, |&drawn| drawn == met.drawn)
    }
}

/// The last start of another node that this one has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// The node's directory.
    pub directory: Id,
    /// The number of the start.
    pub count: u64,
    /// What was drawn then.
    pub drawn: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_go_back_as_far_as_they_are_told() {
        let mut starts = Starts::new().expect("random bytes");
        let first = starts.clone().and_one_more().expect("random bytes");
        for _ in 0..40 {
            starts = starts.and_one_more().expect("random bytes");
        }
        assert_eq!((starts.count, starts.drawn.len()), (40, STARTS_MAX));
        assert!(starts.include(&first.last().expect("there is one")), "too old to tell");
        let met = |count, drawn| Met { directory: starts.directory, count, drawn };
        assert!(starts.include(&met(40, starts.drawn[STARTS_MAX - 1])));
        assert!(starts.include(&met(25, starts.drawn[0])));
        assert!(!starts.include(&met(25, starts.drawn[1])));
        assert!(!starts.include(&met(41, 0)));
        let id = Id::draw().expect("random bytes");
        assert_eq!(id.to_string().parse::<Id>().expect("its own text"), id);
        for wrong in ["", "0", "zz", &"0".repeat(32), &"+".repeat(32), &"a".repeat(33)] {
            wrong.parse::<Id>().expect_err(wrong);
        }
    }
}
