//! The numbers of the format, and numbers as text.

use std::fmt;
use std::io::Write;

/// A version to write. A reader of one reads those above it in this list, too, but for Redis and
/// Valkey 9, which do not read each other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// 10, that of Redis 7.0.
    #[default]
    Redis10,
    /// 11, that of Redis 7.2 and Valkey 8: streams tell when consumers were active.
    Redis11,
    /// 12, that of Redis 7.4 and 8: fields of hashes may expire.
    Redis12,
    /// 13, that of Redis 8.6: streams tell what producers have sent.
    Redis13,
    /// 14, that of Redis 8.8: arrays; entries of streams may be pending for nobody.
    Redis14,
    /// 80, that of Valkey 9: fields of hashes may expire.
    Valkey80,
}

impl Version {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Redis10 => 10,
            Self::Redis11 => 11,
            Self::Redis12 => 12,
            Self::Redis13 => 13,
            Self::Redis14 => 14,
            Self::Valkey80 => VALKEY_VERSION as u16,
        }
    }

    /// The first release of Redis that reads it; of Valkey for that of Valkey alone.
    #[must_use]
    pub fn first_redis(self) -> &'static str {
        match self {
            Self::Redis10 => "7.0",
            Self::Redis11 => "7.2",
            Self::Redis12 => "7.4",
            Self::Redis13 => "8.6",
            Self::Redis14 => "8.8",
            Self::Valkey80 => "9",
        }
    }

    /// Whether it has a form for hashes with fields that expire.
    #[must_use]
    pub fn holds_expiring_fields(self) -> bool {
        !matches!(self, Self::Redis10 | Self::Redis11)
    }

    /// Whether it has a form for streams with entries that are pending for nobody.
    #[must_use]
    pub fn holds_released_entries(self) -> bool {
        self == Self::Redis14
    }

    /// Whether it has a form for arrays.
    #[must_use]
    pub fn holds_arrays(self) -> bool {
        self == Self::Redis14
    }

    /// The start of a file.
    pub(crate) fn header(self) -> &'static [u8; HEADER_BYTES] {
        match self {
            Self::Redis10 => b"REDIS0010",
            Self::Redis11 => b"REDIS0011",
            Self::Redis12 => b"REDIS0012",
            Self::Redis13 => b"REDIS0013",
            Self::Redis14 => b"REDIS0014",
            Self::Valkey80 => b"VALKEY080",
        }
    }
}

/// The newest version read, of files that begin with "REDIS": that of Redis 8.10, which has hashes
/// with templates beside what 14 has.
pub(crate) const VERSION_READ_MAX: u32 = 15;
/// The version of Valkey 9, whose files begin with "VALKEY".
pub(crate) const VALKEY_VERSION: u32 = 80;

/// Versions before this one end without a checksum.
pub(crate) const FIRST_VERSION_WITH_CHECKSUM: u32 = 5;

pub(crate) const MAGIC: &[u8; 5] = b"REDIS";
pub(crate) const VALKEY_MAGIC: &[u8; 6] = b"VALKEY";
/// Bytes of the magic and the version.
pub const HEADER_BYTES: usize = 9;

/// Whose types and opcodes they are: some bytes mean one thing to Redis, another to Valkey 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Redis, and Valkey up to 8.
    Redis,
    /// Valkey from 9 on.
    Valkey,
}

impl Dialect {
    /// That of a payload of this version.
    pub(crate) fn of_payload(version: u32) -> Self {
        if version == VALKEY_VERSION { Self::Valkey } else { Self::Redis }
    }

    /// What stands before the version in words.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Redis => "RDB",
            Self::Valkey => "VALKEY",
        }
    }
}

/// Of Redis 8.10: the names of fields that hashes share.
pub(crate) const OP_HASH_TEMPLATE: u8 = 0xF2;
/// Of Valkey 9 and of clusters alone: what is imported into a slot.
pub(crate) const OP_SLOT_IMPORT: u8 = 0xF3;
/// The same byte of Redis 8.6: what modules keep beside the key that follows.
pub(crate) const OP_KEY_META: u8 = 0xF3;
/// Of Redis 8, Valkey 8 and clusters alone: how many keys a slot has.
pub(crate) const OP_SLOT_INFO: u8 = 0xF4;

pub(crate) const OP_FUNCTION: u8 = 0xF5;
pub(crate) const OP_FUNCTION_PRERELEASE: u8 = 0xF6;
pub(crate) const OP_MODULE_AUX: u8 = 0xF7;
pub(crate) const OP_IDLE: u8 = 0xF8;
pub(crate) const OP_FREQ: u8 = 0xF9;
pub(crate) const OP_AUX: u8 = 0xFA;
pub(crate) const OP_RESIZE_DB: u8 = 0xFB;
pub(crate) const OP_EXPIRE_MS: u8 = 0xFC;
pub(crate) const OP_EXPIRE_S: u8 = 0xFD;
pub(crate) const OP_SELECT_DB: u8 = 0xFE;
pub(crate) const OP_EOF: u8 = 0xFF;

pub(crate) const TYPE_STRING: u8 = 0;
pub(crate) const TYPE_LIST: u8 = 1;
pub(crate) const TYPE_SET: u8 = 2;
pub(crate) const TYPE_SORTED_TEXT: u8 = 3;
pub(crate) const TYPE_HASH: u8 = 4;
pub(crate) const TYPE_SORTED: u8 = 5;
pub(crate) const TYPE_MODULE_PRERELEASE: u8 = 6;
pub(crate) const TYPE_MODULE: u8 = 7;
pub(crate) const TYPE_HASH_ZIPMAP: u8 = 9;
pub(crate) const TYPE_LIST_ZIPLIST: u8 = 10;
pub(crate) const TYPE_SET_INTSET: u8 = 11;
pub(crate) const TYPE_SORTED_ZIPLIST: u8 = 12;
pub(crate) const TYPE_HASH_ZIPLIST: u8 = 13;
pub(crate) const TYPE_LIST_ZIPLISTS: u8 = 14;
pub(crate) const TYPE_HASH_LISTPACK: u8 = 16;
pub(crate) const TYPE_SORTED_LISTPACK: u8 = 17;
pub(crate) const TYPE_LIST_NODES: u8 = 18;
pub(crate) const TYPE_STREAM_FIRST: u8 = 15;
pub(crate) const TYPE_STREAM: u8 = 19;
/// Of Redis 7.2.
pub(crate) const TYPE_SET_LISTPACK: u8 = 20;
/// Of Redis 7.2.
pub(crate) const TYPE_STREAM_THIRD: u8 = 21;
/// Of Valkey 9: an expiry behind each value.
pub(crate) const TYPE_HASH_VALKEY: u8 = 22;
/// Of candidates of Redis 7.4: as those of its release, without the first expiry.
pub(crate) const TYPE_HASH_EXPIRES_EARLY: u8 = 22;
pub(crate) const TYPE_HASH_LISTPACK_EXPIRES_EARLY: u8 = 23;
/// Of Redis 7.4: an expiry before each field, or in the listpack behind each value.
pub(crate) const TYPE_HASH_EXPIRES: u8 = 24;
pub(crate) const TYPE_HASH_LISTPACK_EXPIRES: u8 = 25;
/// Of Redis 8.6: with the ids of messages of producers.
pub(crate) const TYPE_STREAM_FOURTH: u8 = 26;
/// Of Redis 8.8: with pending entries that no consumer has.
pub(crate) const TYPE_STREAM_FIFTH: u8 = 27;
/// Of Redis 8.8.
pub(crate) const TYPE_ARRAY: u8 = 28;
/// Of Redis 8.10: hashes whose names of fields stand in a template, in the value or (`REF`) in the
/// file; their values stand in a listpack or are strings.
pub(crate) const TYPE_HASH_TEMPLATE_PACKED: u8 = 29;
pub(crate) const TYPE_HASH_TEMPLATE_PACKED_REF: u8 = 30;
pub(crate) const TYPE_HASH_TEMPLATE_PLAIN: u8 = 31;
pub(crate) const TYPE_HASH_TEMPLATE_PLAIN_REF: u8 = 32;

/// The expiry that a field of Valkey 9 has if it never expires.
pub(crate) const NO_FIELD_EXPIRY: i64 = -1;
/// The last moment at which a field of Redis may expire.
pub(crate) const FIELD_EXPIRY_MAX: u64 = (1 << 48) - 1;

/// The expiry that means none.
pub(crate) const NO_EXPIRY: i64 = -1;

/// The kinds of nodes of a list: one element, or a listpack of them.
pub(crate) const NODE_PLAIN: u64 = 1;
pub(crate) const NODE_PACKED: u64 = 2;

pub(crate) const LENGTH_32: u8 = 0x80;
pub(crate) const LENGTH_64: u8 = 0x81;

pub(crate) const STRING_INT8: u8 = 0xC0;
pub(crate) const STRING_INT16: u8 = 0xC1;
pub(crate) const STRING_INT32: u8 = 0xC2;
pub(crate) const STRING_LZF: u8 = 0xC3;

/// Words for a value type, other than a string or a module's.
pub(crate) fn type_name(kind: u8, dialect: Dialect) -> Option<&'static str> {
    Some(match kind {
        TYPE_HASH_VALKEY if dialect == Dialect::Valkey => "a hash (with expiries)",
        22.. if dialect == Dialect::Valkey => return None,
        1 => "a list (linked list)",
        2 => "a set (hash table)",
        3 => "a sorted set (text scores)",
        4 => "a hash (hash table)",
        5 => "a sorted set (skip list)",
        9 => "a hash (zipmap)",
        10 => "a list (ziplist)",
        11 => "a set (intset)",
        12 => "a sorted set (ziplist)",
        13 => "a hash (ziplist)",
        14 => "a list (quicklist of ziplists)",
        15 => "a stream (listpacks)",
        16 => "a hash (listpack)",
        17 => "a sorted set (listpack)",
        18 => "a list (quicklist)",
        19 => "a stream (listpacks, second form)",
        20 => "a set (listpack)",
        21 => "a stream (listpacks, third form)",
        22 | 24 => "a hash (hash table with expiries)",
        23 | 25 => "a hash (listpack with expiries)",
        26 => "a stream (listpacks, fourth form)",
        27 => "a stream (listpacks, fifth form)",
        TYPE_ARRAY => "an array",
        29 | 30 => "a hash (listpack with a template)",
        31 | 32 => "a hash (strings with a template)",
        _ => return None,
    })
}

/// The version in the first bytes of a file; `None` if they are not those of an RDB file, whatever
/// its version.
#[must_use]
pub fn file_version(head: &[u8]) -> Option<u32> {
    let digits = head.get(..HEADER_BYTES)?;
    let digits = digits.strip_prefix(MAGIC).or_else(|| digits.strip_prefix(VALKEY_MAGIC))?;
    let digit = |number: u32, byte: &u8| Some(number * 10 + char::from(*byte).to_digit(10)?);
    digits.iter().try_fold(0, digit)
}

/// The name inside the 64-bit number of a module's type: nine characters of six bits, and a
/// version of ten bits below them.
pub(crate) fn module_name(id: u64) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).map(|at| char::from(ALPHABET[(id >> (58 - at * 6) & 63) as usize])).collect()
}

/// The integer whose canonical decimal form is `text`.
pub(crate) fn canonical_int(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.len() <= 19,
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Room for the text of a number.
pub(crate) type NumberText = [u8; 32];

/// The text of `number` in `room`, which holds that of every integer and score.
pub(crate) fn number_text<'a>(room: &'a mut NumberText, number: fmt::Arguments<'_>) -> &'a [u8] {
    let mut rest = &mut room[..];
    rest.write_fmt(number).expect("32 bytes hold every i64, and every f64 in its shortest form");
    let length = 32 - rest.len();
    &room[..length]
}

/// The text of a score as Redis packs it, and as a scan of the set then shows it: whole numbers in
/// full, others as C's `%.17g`.
pub(crate) fn score_text(room: &mut NumberText, score: f64) -> &[u8] {
    const WHOLE_BELOW: f64 = (1_u64 << 62) as f64;
    if score.abs() < WHOLE_BELOW && score.fract() == 0.0 || !score.is_finite() {
        return number_text(room, format_args!("{score}"));
    }
    let mut scientific = [0; 32];
    let scientific = number_text(&mut scientific, format_args!("{score:.16e}"));
    let text = std::str::from_utf8(scientific).expect("digits are ASCII");
    let (mantissa, exponent) = text.split_once('e').expect("this form has an exponent");
    let exponent: i32 = exponent.parse().expect("it is a number");
    if let -4..17 = exponent {
        let decimals = (16 - exponent) as usize;
        return without_zeros(number_text(room, format_args!("{score:.decimals$}")));
    }
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    let (sign, exponent) = (if exponent < 0 { '-' } else { '+' }, exponent.abs());
    number_text(room, format_args!("{mantissa}e{sign}{exponent:02}"))
}

/// A number with a point, without the zeros at its end.
fn without_zeros(text: &[u8]) -> &[u8] {
    let last = text.iter().rposition(|&byte| byte != b'0').unwrap_or(0);
    let end = if text[last] == b'.' { last } else { last + 1 };
    if text.contains(&b'.') { &text[..end] } else { text }
}

/// Bytes in an error's text: escaped, cut if long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 100;
    match bytes.get(..SHOWN_BYTES_MAX) {
        Some(start) if bytes.len() > SHOWN_BYTES_MAX => format!("{}...", start.escape_ascii()),
        _ => bytes.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_scores_are_written_in_full() {
        let cases: [(f64, &str); 7] = [
            (0.0, "0"),
            (-3.0, "-3"),
            (2_260_767_705_541_162.0, "2260767705541162"),
            (1e17, "100000000000000000"),
            (1e19, "1e+19"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (score, text) in cases {
            assert_eq!(score_text(&mut [0; 32], score), text.as_bytes(), "{score:e}");
        }
    }

    proptest! {
        #[test]
        fn other_scores_are_written_as_in_replies(bits: u64, near in -1e20_f64..1e20) {
            for score in [f64::from_bits(bits), near, near / 1e24, near / 1e17] {
                if score.fract() != 0.0 && score.is_finite() {
                    let (mut room, mut reply) = ([0; 32], Vec::new());
                    stillframe_resp::format_double(score, &mut reply);
                    prop_assert_eq!(score_text(&mut room, score), &reply[..]);
                }
            }
        }
    }
}
