//! The ACL categories of commands.

use super::flags;

/// Every category, in Redis's order.
pub const NAMES: [&str; 22] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "array",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The categories of a command: those that the list names, and those that follow from its flags.
pub(super) fn complete(named: u32, command_flags: u32) -> u32 {
    let has = |flag| command_flags & flag != 0;
    // As in Redis, scripts that only read are not in @read.
    let is_script = names(named).any(|name| name == "scripting");
    let implied = [
        ("read", has(flags::READONLY) && !is_script),
        ("write", has(flags::WRITE)),
        ("pubsub", has(flags::PUBSUB)),
        ("admin", has(flags::ADMIN)),
        ("dangerous", has(flags::ADMIN)),
        ("fast", has(flags::FAST)),
        ("slow", !has(flags::FAST)),
        ("blocking", has(flags::BLOCKING)),
    ];
    let implied = implied.iter().filter(|(_, is)| *is);
    implied.fold(named, |bits, (name, _)| bits | bit(name.as_bytes()).unwrap_or(0))
}

/// The bit of a category, in any case.
pub fn bit(category: &[u8]) -> Option<u32> {
    let named = |name: &&str| name.as_bytes().eq_ignore_ascii_case(category);
    NAMES.iter().position(named).map(|index| 1 << index)
}

/// The names of categories given as bits.
pub fn names(bits: u32) -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().enumerate().filter(move |(index, _)| bits & (1 << index) != 0).map(|(_, n)| n)
}
