//! Properties of a command, or-ed.

/// Changes the data set: refused while saving fails.
pub const WRITE: u32 = 1;
/// Reads keys and changes none.
pub const READONLY: u32 = 1 << 1;
/// May take memory.
pub const DENYOOM: u32 = 1 << 2;
/// Administration.
pub const ADMIN: u32 = 1 << 3;
/// Not for scripts.
pub const NOSCRIPT: u32 = 1 << 4;
/// Allowed while the data set is being loaded.
pub const LOADING: u32 = 1 << 5;
/// Allowed on stale data.
pub const STALE: u32 = 1 << 6;
/// Constant or logarithmic time.
pub const FAST: u32 = 1 << 7;
/// Needs no authentication.
pub const NO_AUTH: u32 = 1 << 8;
/// Never inside a transaction.
pub const NO_MULTI: u32 = 1 << 9;
/// Runs at once inside a transaction instead of being queued.
pub const NOT_QUEUED: u32 = 1 << 10;
/// Not while a replica loads a new data set beside the old one.
pub const NO_ASYNC_LOADING: u32 = 1 << 11;
/// Publishes, subscribes, or lists subscribers.
pub const PUBSUB: u32 = 1 << 17;
/// May reach replicas though it changes nothing; COMMAND hides this flag.
pub const MAY_REPLICATE: u32 = 1 << 18;
/// May make the client wait.
pub const BLOCKING: u32 = 1 << 13;
/// Allowed while a script runs too long.
pub const ALLOW_BUSY: u32 = 1 << 14;
/// Not for the slow log, as its parts are.
pub const SKIP_SLOWLOG: u32 = 1 << 15;
/// Not all keys are at fixed positions; follows from `Keys`.
pub const MOVABLE_KEYS: u32 = 1 << 16;
/// Redis has it, this server has not.
pub const ABSENT: u32 = 1 << 19;
/// Runs a script, which may write.
pub const SCRIPT: u32 = 1 << 20;
/// Shows itself to those who monitor.
pub const SKIP_MONITOR: u32 = 1 << 21;
/// May name no key at all, though it may name some.
pub const NO_MANDATORY_KEYS: u32 = 1 << 22;

/// Runs in a script, as since Redis 7.2, though COMMAND tells `noscript` as Redis 7.0 does.
pub const RUNS_IN_SCRIPT: u32 = 1 << 12;

/// What COMMAND calls the flags that it shows, in its order.
pub const NAMES: [(u32, &str); 18] = [
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NOSCRIPT, "noscript"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (BLOCKING, "blocking"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (MOVABLE_KEYS, "movablekeys"),
    (ALLOW_BUSY, "allow_busy"),
];

/// What the list calls flags that COMMAND does not show.
pub const HIDDEN: [(u32, &str); 5] = [
    (NOT_QUEUED, "not_queued"),
    (MAY_REPLICATE, "may_replicate"),
    (ABSENT, "absent"),
    (SCRIPT, "script"),
    (RUNS_IN_SCRIPT, "runs_in_script"),
];

/// The flag of a name.
pub(super) fn bit(name: &str) -> Option<u32> {
    NAMES.iter().chain(&HIDDEN).find(|(_, known)| *known == name).map(|(flag, _)| *flag)
}
