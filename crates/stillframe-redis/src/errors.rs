//! Error texts of data commands, word for word as Redis 7.0 has them: clients match on them.

/// Arguments that make no sense together.
pub const SYNTAX: &str = "ERR syntax error";
pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
/// An argument that ought to be an integer.
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(crate) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(crate) const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
pub(crate) const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(crate) const DECREMENT_OVERFLOW: &str = "ERR decrement would overflow";
pub(crate) const OFFSET_RANGE: &str = "ERR offset is out of range";
/// A string above `proto-max-bulk-len`.
pub const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
pub(crate) const BIT_OFFSET: &str = "ERR bit offset is not an integer or out of range";
/// A key that has to be there.
pub const NO_SUCH_KEY: &str = "ERR no such key";
pub(crate) const SAME_OBJECT: &str = "ERR source and destination objects are the same";
pub(crate) const INDEX_RANGE: &str = "ERR index out of range";
pub(crate) const MUST_BE_POSITIVE: &str = "ERR value is out of range, must be positive";
pub(crate) const OUT_OF_RANGE: &str = "ERR value is out of range";
pub(crate) const DB_RANGE: &str = "ERR DB index is out of range";
pub(crate) const INVALID_CURSOR: &str = "ERR invalid cursor";

/// The error of a wrong number of arguments; sub-commands are named `container|name`.
#[must_use]
pub fn wrong_arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

/// An expiry that cannot be a time, in the command `name`.
pub(crate) fn invalid_expire_time(name: &str) -> String {
    format!("ERR invalid expire time in '{name}' command")
}
