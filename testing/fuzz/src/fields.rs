//! Fields of files, read and written, and checksums made right.

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Starts `bytes` with the magic and makes the checksum of a header of 64 bytes right.
pub(crate) fn seal_header(bytes: &mut [u8], magic: &[u8; 8]) {
    if let Some(header) = bytes.first_chunk_mut::<64>() {
        header[..8].copy_from_slice(magic);
        let checksum = crc_fast::crc32_iscsi(&header[..60]);
        header[60..].copy_from_slice(&checksum.to_le_bytes());
    }
}
