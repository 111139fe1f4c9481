//! Commands of Redis that this server does not have yet. COMMAND does not list them; whoever sends
//! one is told so in plain words, rather than that it is unknown.

/// Groups of commands, and what they work on.
const GROUPS: [(&str, &[&str]); 2] = [
    (
        "streams",
        &[
            "XACK",
            "XADD",
            "XAUTOCLAIM",
            "XCLAIM",
            "XDEL",
            "XGROUP",
            "XINFO",
            "XLEN",
            "XPENDING",
            "XRANGE",
            "XREAD",
            "XREADGROUP",
            "XREVRANGE",
            "XSETID",
            "XTRIM",
        ],
    ),
    (
        "scripts",
        &["EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO", "FUNCTION", "SCRIPT"],
    ),
];

/// The error for a command that is not here yet; `None` for names that Redis does not know either.
pub(super) fn error(name: &[u8]) -> Option<String> {
    GROUPS.iter().find_map(|(group, names)| {
        let name = names.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(format!("ERR {name}: {group} are not supported by this server yet"))
    })
}
