//! Error texts of data commands, word for word as Redis 7.0 has them: clients match on them.

pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
pub(super) const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(super) const DECREMENT_OVERFLOW: &str = "ERR decrement would overflow";
pub(super) const OFFSET_RANGE: &str = "ERR offset is out of range";
pub(super) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
pub(super) const BIT_OFFSET: &str = "ERR bit offset is not an integer or out of range";
pub(super) const NO_SUCH_KEY: &str = "ERR no such key";
pub(super) const SAME_OBJECT: &str = "ERR source and destination objects are the same";
pub(super) const INDEX_RANGE: &str = "ERR index out of range";
pub(super) const MUST_BE_POSITIVE: &str = "ERR value is out of range, must be positive";
pub(super) const OUT_OF_RANGE: &str = "ERR value is out of range";
pub(super) const DB_RANGE: &str = "ERR DB index is out of range";
pub(super) const INVALID_CURSOR: &str = "ERR invalid cursor";

/// An expiry that cannot be a time, in the command `name`.
pub(super) fn invalid_expire_time(name: &str) -> String {
    format!("ERR invalid expire time in '{name}' command")
}
