//! Dump files: how an image becomes one, and how one is loaded.
//!
//! - The dump file is always a whole image: a new one takes its place by `rename` once it is on the
//!   disk, and a save that fails leaves the old one and removes its own temporary file.
//! - An image for replicas is the same bytes into sockets: [`with_header`], [`RdbSink`] and
//!   [`Handback`] serve both.

mod directory;
mod file;
mod handback;
mod load;
mod saves;
mod sharing;
mod sink;
mod stream_point;

use std::time::Duration;

use stillframe::SinkError;
use stillframe_keyspace::{DATABASES, Keyspace};
use stillframe_rdb::{Encoder, Origin, Value, Version};

use crate::clock::unix_millis;
use crate::settings::RdbVersion;

pub use crate::error::{EntryError, LoadError, SaveError, Unheld};
pub use directory::{DataDirectory, create, enter, existing};
pub use file::{DumpFile, given_up, stage};
pub use handback::{Handback, Taker};
pub use load::{Load, Loaded, Next, Reader, Skipped, load, load_file};
pub(crate) use saves::Saved;
pub use saves::{Purpose, Save, Saves};
use sharing::BRANCHES_FIELD;
pub use sink::{Counters, Destination, Drag, Label, RdbSink};
pub use stream_point::{StreamField, StreamPoint};

/// Microseconds, rounded up: nothing takes no time.
pub fn whole_micros(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1000)
}

/// The version of an image that begins now, as `rdb-version` is `wanted`.
///
/// What is known of producers takes version 13 by itself; under a fixed lower one it is left out.
///
/// # Errors
/// [`SaveError::Version`]: the wanted version does not hold the data.
pub fn image_version(keyspace: &Keyspace, wanted: RdbVersion) -> Result<Version, SaveError> {
    let (hashes, released) = (keyspace.timed_hashes(), keyspace.streams_with_released());
    let arrays = keyspace.arrays();
    let refuse = |version: Version, what, count| {
        Err(SaveError::Version { version: version.number(), what, count })
    };
    match wanted {
        RdbVersion::Auto if released > 0 || arrays > 0 => Ok(Version::Redis14),
        RdbVersion::Auto if keyspace.streams_with_idmp() > 0 => Ok(Version::Redis13),
        RdbVersion::Auto if hashes > 0 => Ok(Version::Redis12),
        RdbVersion::Auto => Ok(Version::Redis10),
        RdbVersion::Fixed(version) if hashes > 0 && !version.holds_expiring_fields() => {
            refuse(version, Unheld::Fields, hashes)
        }
        RdbVersion::Fixed(version) if released > 0 && !version.holds_released_entries() => {
            refuse(version, Unheld::Released, released)
        }
        RdbVersion::Fixed(version) if arrays > 0 && !version.holds_arrays() => {
            refuse(version, Unheld::Arrays, arrays)
        }
        RdbVersion::Fixed(version) => Ok(version),
    }
}

/// Writes the part before the first entry, with `fields`.
///
/// # Errors
/// The output takes no bytes.
pub fn with_header<O: Destination>(
    mut encoder: Encoder<O>,
    keyspace: &Keyspace,
    fields: impl IntoIterator<Item = (&'static [u8], String)>,
) -> Result<Encoder<O>, SinkError> {
    let used_memory_bytes = keyspace.stats().entry_bytes as u64;
    let created_s = unix_millis() / 1000;
    encoder.begin(&Origin { created_s, used_memory_bytes, aof_base: false })?;
    for (name, value) in fields {
        encoder.aux(name, Value::Bytes(value.as_bytes()))?;
    }
    if let Some(sharing) = keyspace.sharing() {
        encoder.aux(BRANCHES_FIELD, Value::Bytes(sharing::write(&sharing).as_bytes()))?;
    }
    for source in keyspace.libraries().sources() {
        encoder.library(source)?;
    }
    for db in (0..DATABASES).filter(|&db| !keyspace.is_empty(db)) {
        encoder.resize_db(db as u64, keyspace.len(db) as u64, keyspace.expires(db) as u64)?;
    }
    Ok(encoder)
}
