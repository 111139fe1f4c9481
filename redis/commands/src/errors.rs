//! Why commands are refused: [`Refusal`], and the texts that several commands share, word for word
//! as Redis 7.0 has them, since clients match on them.

use std::borrow::Cow;
use std::fmt;

use stillframe_keyspace::{EditError, MemoryError};

/// Why a command is not done: the text of its error reply, which begins with the error's code.
///
/// A handler that refuses returns one, and its caller writes the reply, in place of whatever the
/// handler has written. A text that is known when the server is built costs no allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal(Cow<'static, [u8]>);

// Every handler returns one of these: three words, written only by a command that fails.
const _: () = assert!(size_of::<Result<(), Refusal>>() == 3 * size_of::<usize>());

impl Refusal {
    /// A refusal whose text is always the same.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// The text, as it was made: it may hold what a client has sent.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Refusal {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// As the error reply shows it: on one line.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0).replace(['\r', '\n'], " "))
    }
}

impl std::error::Error for Refusal {}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Self::new(text)
    }
}

impl From<Cow<'static, str>> for Refusal {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<Vec<u8>> for Refusal {
    fn from(text: Vec<u8>) -> Self {
        Self(text.into())
    }
}

impl From<MemoryError> for Refusal {
    #[cold]
    fn from(error: MemoryError) -> Self {
        format!("OOM {error}").into()
    }
}

impl From<EditError> for Refusal {
    #[cold]
    fn from(error: EditError) -> Self {
        match error {
            EditError::WrongType => WRONG_TYPE,
            EditError::Memory(error) => error.into(),
            error => format!("ERR {error}").into(),
        }
    }
}

/// A key holds another type than the command is for. A type of its own, as it takes no room in the
/// outcome of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongType;

impl From<WrongType> for Refusal {
    fn from(WrongType: WrongType) -> Self {
        WRONG_TYPE
    }
}

/// Arguments that make no sense together.
pub const SYNTAX: Refusal = Refusal::new("ERR syntax error");
pub(crate) const WRONG_TYPE: Refusal =
    Refusal::new("WRONGTYPE Operation against a key holding the wrong kind of value");
/// An argument that ought to be an integer.
pub const NOT_AN_INTEGER: Refusal = Refusal::new("ERR value is not an integer or out of range");
pub(crate) const NOT_A_FLOAT: Refusal = Refusal::new("ERR value is not a valid float");
pub(crate) const NOT_FINITE: Refusal = Refusal::new("ERR increment would produce NaN or Infinity");
pub(crate) const OVERFLOW: Refusal = Refusal::new("ERR increment or decrement would overflow");
pub(crate) const DECREMENT_OVERFLOW: Refusal = Refusal::new("ERR decrement would overflow");
pub(crate) const OFFSET_RANGE: Refusal = Refusal::new("ERR offset is out of range");
/// A string above `proto-max-bulk-len`.
pub const TOO_LONG: Refusal =
    Refusal::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
pub(crate) const BIT_OFFSET: Refusal =
    Refusal::new("ERR bit offset is not an integer or out of range");
/// A key that has to be there.
pub const NO_SUCH_KEY: Refusal = Refusal::new("ERR no such key");
pub(crate) const SAME_OBJECT: Refusal =
    Refusal::new("ERR source and destination objects are the same");
pub(crate) const INDEX_RANGE: Refusal = Refusal::new("ERR index out of range");
pub(crate) const MUST_BE_POSITIVE: Refusal =
    Refusal::new("ERR value is out of range, must be positive");
pub(crate) const OUT_OF_RANGE: Refusal = Refusal::new("ERR value is out of range");
pub(crate) const DB_RANGE: Refusal = Refusal::new("ERR DB index is out of range");
pub(crate) const INVALID_CURSOR: Refusal = Refusal::new("ERR invalid cursor");

/// The error of a wrong number of arguments; sub-commands are named `container|name`.
#[must_use]
#[cold]
pub fn wrong_arity(name: &str) -> Refusal {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// An expiry that cannot be a time, in the command `name`.
#[cold]
pub(crate) fn invalid_expire_time(name: &str) -> Refusal {
    format!("ERR invalid expire time in '{name}' command").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_shown_on_one_line_and_keeps_what_was_sent() {
        let refusal = Refusal::from(b"ERR a\r\nb \xff".to_vec());
        assert_eq!(refusal.to_string(), "ERR a  b \u{fffd}");
        assert_eq!(refusal.text(), b"ERR a\r\nb \xff");
        assert_eq!(Refusal::from(EditError::WrongType), WRONG_TYPE);
        assert_eq!(Refusal::from(WrongType), WRONG_TYPE);
    }
}
