//! What becomes of data directories: emptied, copied, swapped. Their servers are down meanwhile.

use std::fs;
use std::path::Path;

/// Removes all that is in a directory.
pub(crate) fn empty(directory: &Path) {
    fs::remove_dir_all(directory).expect("it was there");
    fs::create_dir_all(directory).expect("a directory");
}

/// Makes `to` a copy of `from`, whatever it was.
pub(crate) fn copy(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).expect("it was there");
    }
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("its type").is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                fs::copy(entry.path(), target).expect("a file");
            }
        }
    }
}

/// Removes the newest record of this kind (the first byte of its payload) and all behind it from
/// the log in the directory `log`, as a disk does that lied about a sync.
/// `docs/reference/formats.md` has the bytes.
pub(crate) fn lose_last_record(log: &Path, kind: u8) {
    let names = fs::read_dir(log).expect("a log").map(|entry| entry.expect("an entry").path());
    let is_segment = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"))
    };
    let mut segments: Vec<_> = names.filter(is_segment).collect();
    segments.sort();
    let newest = segments.last().expect("a segment");
    let mut bytes = fs::read(newest).expect("a segment");
    let number = |at: usize| {
        let four = bytes[at..].first_chunk().expect("within the file");
        u32::from_le_bytes(*four)
    };
    let (mut at, mut found) = (64, None);
    while at + 28 <= bytes.len() {
        let (length, unsynced) = (number(at + 4) as usize, number(at + 16));
        if unsynced != u32::MAX && bytes.get(at + 28) == Some(&kind) {
            found = Some(at);
        }
        at += 28 + length;
    }
    bytes.truncate(found.expect("a record of this kind"));
    fs::write(newest, bytes).expect("a segment");
}

/// Gives each the name of the other.
pub(crate) fn swap(one: &Path, two: &Path) {
    let aside = one.with_extension("aside");
    for (from, to) in [(one, aside.as_path()), (two, one), (aside.as_path(), two)] {
        fs::rename(from, to).expect("it was there");
    }
}
