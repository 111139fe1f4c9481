//! Fields of the file formats, little-endian. The caller gives offsets that are in bounds.

/// Bytes of a name in a header, zero padded.
pub(crate) const NAME_BYTES: usize = 16;

/// The four bytes at `at` as a number.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

/// The eight bytes at `at` as a number.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// As much of a name as there is room for.
pub(crate) fn padded(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// The name before its padding.
pub(crate) fn unpadded(name: [u8; NAME_BYTES]) -> String {
    String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// A section of the page of file formats, by the start of its title.
#[cfg(test)]
pub(crate) fn documented_section(title: &str) -> &'static str {
    let page = include_str!("../../../docs/reference/formats.md");
    page.split("\n## ").find(|section| section.starts_with(title)).expect("a section")
}

/// The offsets in the byte maps of such a section, line by line: a line gives where the fields of
/// one row start, and where the row ends.
#[cfg(test)]
pub(crate) fn documented_offsets(section: &str) -> Vec<Vec<&str>> {
    let lines = section.lines().filter_map(|line| line.strip_prefix("byte "));
    lines.map(|line| line.split_whitespace().collect()).collect()
}
