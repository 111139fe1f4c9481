//! Settings of Redis without effect here: their values are checked, kept and shown, so that files
//! and tools written for Redis work.

use super::Effect;
use super::error::ValueError;
use super::kinds::Form;
use super::setting::Setting;
use super::values::{number, parse_size, switch};

/// One of them: `inert!(name, default, what it is checked by)`.
macro_rules! inert {
    ($name:literal, $default:literal, $check:expr) => {
        inert!(Word, $name, $default, $check)
    };
    ($form:ident, $name:literal, $default:literal, $check:expr) => {
        Setting::new(
            $name,
            || Form::$form,
            |config| config.inert.get($name).map_or($default, String::as_str).to_owned(),
            |config, value| {
                let value = $check(value)?;
                config.inert.insert($name, value);
                Ok(())
            },
        )
    };
}

/// A setting that Redis has and that cannot be other than it is here.
macro_rules! fixed {
    ($name:literal, $value:literal) => {
        fixed!(Word, $name, $value)
    };
    ($form:ident, $name:literal, $value:literal) => {
        fixed!($form, $name, $value, ValueError::Fixed { value: $value })
    };
    ($form:ident, $name:literal, $value:literal, $refusal:expr) => {
        Setting::new(
            $name,
            || Form::$form,
            |_| $value.to_owned(),
            |_, value| {
                let is_same = value.eq_ignore_ascii_case($value);
                if is_same { Ok(()) } else { Err($refusal) }
            },
        )
    };
}

fn yes_or_no(value: &str) -> Result<String, ValueError> {
    switch(value).map(|_| value.to_ascii_lowercase())
}

fn between<const LEAST: i64, const MOST: i64>(value: &str) -> Result<String, ValueError> {
    number(value, LEAST, MOST).map(|number| number.to_string())
}

fn any(value: &str) -> Result<String, ValueError> {
    Ok(value.to_owned())
}

fn memory(value: &str) -> Result<String, ValueError> {
    parse_size(value).map(|bytes| bytes.to_string())
}

fn facility(value: &str) -> Result<String, ValueError> {
    let names = ["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6"];
    one_of(value, &[&names[..], &["local7"]].concat())
}

fn one_of(value: &str, names: &[&str]) -> Result<String, ValueError> {
    let found = names.iter().find(|name| name.eq_ignore_ascii_case(value));
    found.map(|name| (*name).to_owned()).ok_or_else(|| ValueError::none_of(names))
}

fn sanitize(value: &str) -> Result<String, ValueError> {
    one_of(value, &["no", "yes", "clients"])
}

fn diskless_load(value: &str) -> Result<String, ValueError> {
    one_of(value, &["disabled", "on-empty-db", "swapdb"])
}

/// Locales that compare byte by byte, as everything here does.
fn bytewise(value: &str) -> Result<String, ValueError> {
    let names = ["", "C", "POSIX", "C.UTF-8", "C.utf8"];
    if names.contains(&value) { any(value) } else { Err(ValueError::Locale) }
}

const INT_MAX: i64 = i32::MAX as i64;

/// See [`all`](super::all).
pub(super) static INERT: &[Setting] = &[
    // Values are always freed in the background.
    inert!("lazyfree-lazy-eviction", "no", yes_or_no),
    inert!("lazyfree-lazy-expire", "no", yes_or_no),
    inert!("lazyfree-lazy-server-del", "no", yes_or_no),
    inert!("lazyfree-lazy-user-del", "no", yes_or_no),
    inert!("lazyfree-lazy-user-flush", "no", yes_or_no),
    inert!("activerehashing", "yes", yes_or_no),
    inert!("active-defrag-max-scan-fields", "1000", between::<1, { i64::MAX }>),
    inert!("active-expire-effort", "1", between::<1, 10>),
    inert!("always-show-logo", "no", yes_or_no).at_start(),
    inert!("aof-rewrite-incremental-fsync", "yes", yes_or_no),
    inert!("aof-timestamp-enabled", "no", yes_or_no),
    inert!(Text, "appendfilename", "appendonly.aof", any).at_start(),
    inert!("crash-log-enabled", "yes", yes_or_no),
    inert!("crash-memcheck-enabled", "yes", yes_or_no),
    inert!("array-slice-size", "4096", between::<256, 65_536>),
    inert!("array-sparse-kmax", "10", between::<0, 256>),
    inert!("array-sparse-kmin", "5", between::<0, 256>),
    inert!("dynamic-hz", "yes", yes_or_no),
    inert!("hash-max-template-entries", "0", between::<0, { i64::MAX }>),
    inert!("hash-min-template-entries", "0", between::<0, { i64::MAX }>),
    inert!("hash-rdb-load-max-template-entries", "0", between::<0, { i64::MAX }>),
    inert!("hash-rdb-load-min-template-entries", "0", between::<0, { i64::MAX }>),
    inert!("hash-rdb-load-template-disassembly-threshold", "0", between::<0, { i64::MAX }>),
    inert!(Text, "ignore-warnings", "", any),
    inert!("io-threads-do-reads", "no", yes_or_no).at_start(),
    inert!("jemalloc-bg-thread", "yes", yes_or_no),
    inert!("lookahead", "16", between::<1, INT_MAX>),
    inert!("list-compress-depth", "0", between::<0, INT_MAX>),
    inert!("list-max-listpack-size", "-2", between::<{ -INT_MAX - 1 }, INT_MAX>)
        .older(&["list-max-ziplist-size"]),
    inert!(Text, "locale-collate", "", bytewise),
    inert!("max-new-connections-per-cycle", "10", between::<1, 1000>),
    inert!("max-new-tls-connections-per-cycle", "1", between::<1, 1000>),
    inert!("maxmemory-eviction-tenacity", "10", between::<0, 100>),
    inert!(Text, "proc-title-template", "{title} {listen-addr} {server-mode}", any),
    inert!("rdb-del-sync-files", "no", yes_or_no),
    inert!("rdb-save-incremental-fsync", "yes", yes_or_no),
    inert!("repl-diskless-load", "disabled", diskless_load),
    inert!(Bytes, "replica-full-sync-buffer-limit", "0", memory),
    inert!("replica-lazy-flush", "no", yes_or_no).older(&["slave-lazy-flush"]),
    inert!("sanitize-dump-payload", "no", sanitize),
    inert!("set-max-listpack-entries", "128", between::<0, { i64::MAX }>),
    inert!("set-max-listpack-value", "64", between::<0, { i64::MAX }>),
    inert!("set-proc-title", "yes", yes_or_no).at_start(),
    inert!(Bytes, "stream-node-max-bytes", "4096", memory),
    inert!("syslog-facility", "local0", facility).at_start(),
    inert!(Text, "syslog-ident", "redis", any).at_start(),
    inert!("tls-session-cache-size", "20480", between::<0, INT_MAX>).effects(&[Effect::Tls]),
    inert!("tls-session-cache-timeout", "300", between::<0, INT_MAX>).effects(&[Effect::Tls]),
];

/// Settings that Redis has and that cannot be other than they are here.
pub(super) static FIXED: &[Setting] = &[
    fixed!("aof-load-corrupt-tail-max-size", "0"),
    fixed!("aof-load-truncated", "yes"),
    fixed!("key-memory-histograms", "no"),
    fixed!("aof-use-rdb-preamble", "yes"),
    fixed!("no-appendfsync-on-rewrite", "no"),
    fixed!("databases", "16").at_start(),
    fixed!("rdbchecksum", "yes").at_start(),
    fixed!("hide-user-data-from-log", "no"),
    fixed!("hll-sparse-max-bytes", "3000"),
    fixed!("cluster-enabled", "no").at_start(),
    fixed!("repl-disable-tcp-nodelay", "no"),
    fixed!(Word, "syslog-enabled", "no", ValueError::NoSyslog),
    fixed!("tls-session-caching", "yes").effects(&[Effect::Tls]),
    fixed!("tls-prefer-server-ciphers", "no").effects(&[Effect::Tls]),
    fixed!("tls-auth-clients-user", "off").effects(&[Effect::Tls]),
    fixed!(Text, "tls-expected-peer-name", "").effects(&[Effect::Tls]),
    fixed!("tls-cluster", "no").effects(&[Effect::Tls]),
    fixed!(Text, "tls-ciphers", "").effects(&[Effect::Tls]),
    fixed!(Text, "tls-ciphersuites", "").effects(&[Effect::Tls]),
    fixed!(Text, "tls-key-file-pass", "").effects(&[Effect::Tls]),
    fixed!(Text, "tls-client-key-file-pass", "").effects(&[Effect::Tls]),
    fixed!(Text, "tls-dh-params-file", "").effects(&[Effect::Tls]),
];
