//! The numbers of the format.

/// The version written, and the newest read: that of Redis 7.0.
pub const VERSION: u32 = 10;

/// Versions before this one end without a checksum.
pub(crate) const FIRST_VERSION_WITH_CHECKSUM: u32 = 5;

pub(crate) const MAGIC: &[u8; 5] = b"REDIS";

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
pub(crate) const TYPE_MODULE_PRERELEASE: u8 = 6;
pub(crate) const TYPE_MODULE: u8 = 7;

pub(crate) const LENGTH_32: u8 = 0x80;
pub(crate) const LENGTH_64: u8 = 0x81;

pub(crate) const STRING_INT8: u8 = 0xC0;
pub(crate) const STRING_INT16: u8 = 0xC1;
pub(crate) const STRING_INT32: u8 = 0xC2;
pub(crate) const STRING_LZF: u8 = 0xC3;

/// Words for a value type that Redis 7.0 and older may write, other than a string or a module's.
pub(crate) fn type_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
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
        _ => return None,
    })
}

/// The name inside the 64-bit number of a module's type: nine characters of six bits, and a
/// version of ten bits below them.
pub(crate) fn module_name(id: u64) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).map(|at| char::from(ALPHABET[(id >> (58 - at * 6) & 63) as usize])).collect()
}
