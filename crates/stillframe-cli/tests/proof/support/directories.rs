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
            false => drop(fs::copy(entry.path(), target).expect("a file")),
        }
    }
}

/// Gives each the name of the other.
pub(crate) fn swap(one: &Path, two: &Path) {
    let aside = one.with_extension("aside");
    for (from, to) in [(one, aside.as_path()), (two, one), (aside.as_path(), two)] {
        fs::rename(from, to).expect("it was there");
    }
}
