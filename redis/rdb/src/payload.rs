//! Payloads: single values, as DUMP gives them and RESTORE takes them.

use thiserror::Error;

use crate::crc64::Crc64;
use crate::format::{Dialect, OP_FUNCTION, VALKEY_VERSION, VERSION_READ_MAX};
use crate::source::Source;

/// Why bytes are no payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Too short for a value.
    #[error("a payload of {bytes} bytes is cut: version and checksum alone take 10")]
    Short {
        /// Its length.
        bytes: usize,
    },
    /// Made by a newer server.
    #[error(
        "a payload of version {found} cannot be read: versions 1 to {VERSION_READ_MAX} and \
         {VALKEY_VERSION} can"
    )]
    Version {
        /// The version it claims.
        found: u16,
    },
    /// The checksum is wrong.
    #[error("the payload is damaged: its bytes have checksum {computed:016x}, not {written:016x}")]
    Checksum {
        /// That of the bytes.
        computed: u64,
        /// That at their end.
        written: u64,
    },
}

/// The sources of the libraries in a payload of `FUNCTION DUMP`; `None` after those that could be
/// read if what follows is no library.
///
/// # Errors
/// Version or checksum are wrong.
pub fn libraries(payload: &[u8]) -> Result<Vec<Option<Vec<u8>>>, PayloadError> {
    let Checked { value, .. } = verified(payload)?;
    let (mut source, mut libraries) = (Source::new(value), Vec::new());
    source.set_file_bytes(value.len() as u64);
    while source.offset() < value.len() as u64 {
        let mut text = Vec::new();
        let is_library = source.op().is_ok_and(|op| op == OP_FUNCTION);
        if !is_library || source.text(&mut text).is_err() {
            libraries.push(None);
            break;
        }
        libraries.push(Some(text));
    }
    Ok(libraries)
}

/// Makes a payload of a type and a value as they stand in a file of that version: what
/// [`Decoder::value_place`](crate::Decoder::value_place) tells.
pub fn finish_payload(value: &mut Vec<u8>, version: u32) {
    let version = u16::try_from(version).unwrap_or(u16::MAX);
    value.extend_from_slice(&version.to_le_bytes());
    let mut crc = Crc64::new();
    crc.update(value);
    value.extend_from_slice(&crc.value().to_le_bytes());
}

/// The version that a payload states; `None`: it is too short for one.
#[must_use]
pub fn payload_number(payload: &[u8]) -> Option<u16> {
    let (rest, _) = payload.split_last_chunk::<{ size_of::<u64>() }>()?;
    rest.last_chunk().map(|version| u16::from_le_bytes(*version))
}

/// Whether a payload has a checksum: log and replication stream of Redis 8.10 have payloads with a
/// zero in its place.
#[must_use]
pub fn has_checksum(payload: &[u8]) -> bool {
    payload.last_chunk().is_some_and(|checksum| u64::from_le_bytes(*checksum) != 0)
}

/// A payload without its end.
pub(crate) struct Checked<'a> {
    /// Type and value.
    pub(crate) value: &'a [u8],
    pub(crate) version: u32,
    /// The checksum that it states.
    written: u64,
}

impl Checked<'_> {
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect::of_payload(self.version)
    }
}

/// `payload`, whose version and checksum are right, or whose checksum is 0, as in a file: Redis
/// takes it from 8.6 on.
pub(crate) fn verified(payload: &[u8]) -> Result<Checked<'_>, PayloadError> {
    let checked = versioned(payload)?;
    let written = checked.written;
    if written == 0 {
        return Ok(checked);
    }
    let mut crc = Crc64::new();
    crc.update(&payload[..payload.len() - size_of_val(&written)]);
    let computed = crc.value();
    if computed != written {
        return Err(PayloadError::Checksum { computed, written });
    }
    Ok(checked)
}

/// `payload`, whose version is right.
pub(crate) fn versioned(payload: &[u8]) -> Result<Checked<'_>, PayloadError> {
    let short = PayloadError::Short { bytes: payload.len() };
    let (rest, checksum) = payload.split_last_chunk().ok_or(short)?;
    let (value, version) = rest.split_last_chunk().ok_or(short)?;
    let found = u16::from_le_bytes(*version);
    let version = u32::from(found);
    if version > VERSION_READ_MAX && version != VALKEY_VERSION {
        return Err(PayloadError::Version { found });
    }
    Ok(Checked { value, version, written: u64::from_le_bytes(*checksum) })
}
