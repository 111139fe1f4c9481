//! The registry's second half: limits of small collections, and settings of operations.

use super::Config;
use super::choices::bytes;
use super::parameter::{Parameter, always, at_start, size, store, text};
use super::values::{Allowed, number};

/// A limit of small collections.
macro_rules! limit {
    ($name:literal, $field:ident, $parse:expr) => {
        always(
            $name,
            |c| c.limits.$field.to_string(),
            |c, value| {
                c.limits.$field = $parse(value)?;
                Ok(())
            },
        )
    };
}

fn count(value: &str) -> Result<usize, String> {
    number(value, 0, i64::MAX as usize)
}

fn length(value: &str) -> Result<usize, String> {
    bytes(value, 0)
}

/// The values of `acl-pubsub-default`: no channel, or all.
const CHANNELS: [&str; 2] = ["resetchannels", "allchannels"];

fn channels(value: &str) -> Result<bool, String> {
    let found = CHANNELS.iter().position(|name| name.eq_ignore_ascii_case(value));
    let problem = "argument(s) must be one of the following: allchannels, resetchannels";
    found.map(|place| place == 1).ok_or_else(|| problem.to_owned())
}

/// See [`all`](super::parameters::all).
pub(super) static OPERATIONS: &[Parameter] = &[
    text(at_start(
        "aclfile",
        |c| c.aclfile.clone(),
        store!(aclfile, |v: &str| Ok::<_, String>(v.to_owned())),
    )),
    always(
        "acllog-max-len",
        |c| c.acllog_len_max.to_string(),
        store!(acllog_len_max, |v| number(v, 0, i64::MAX as usize)),
    ),
    always(
        "acl-pubsub-default",
        |c| CHANNELS[usize::from(c.acl_all_channels)].to_owned(),
        store!(acl_all_channels, channels),
    ),
    at_start(
        "enable-debug-command",
        |c| c.debug_command.show(),
        store!(debug_command, Allowed::parse),
    ),
    always(
        "key-load-delay",
        |c| c.key_load_delay_us.to_string(),
        store!(key_load_delay_us, |v| number(v, i32::MIN, i32::MAX)),
    ),
    at_start(
        "enable-module-command",
        |c| c.module_command.show(),
        store!(module_command, Allowed::parse),
    ),
    at_start(
        "enable-protected-configs",
        |c| c.protected_configs.show(),
        store!(protected_configs, Allowed::parse),
    ),
    limit!("hash-max-listpack-entries", hash_entries, count),
    size(limit!("hash-max-listpack-value", hash_value_bytes, length)),
    always(
        "rdb-key-save-delay",
        |c| c.key_save_delay_us.to_string(),
        store!(key_save_delay_us, |v| number(v, i32::MIN, i32::MAX)),
    ),
    limit!("set-max-intset-entries", set_integers, count),
    limit!("zset-max-listpack-entries", sorted_entries, count),
    size(limit!("zset-max-listpack-value", sorted_value_bytes, length)),
];
