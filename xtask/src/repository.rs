//! The repository's own text files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders, by name, that hold nothing of ours.
const FOREIGN: [&str; 4] = ["target", ".git", "stillframe-data", "__pycache__"];
/// Kinds of files that are read, by the end of their names; `.ci` holds scripts without one.
const KINDS: [&str; 6] = ["rs", "toml", "md", "sh", "py", "txt"];

/// The root of the workspace this program was built from.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}

/// Every text file under `root`: its name there, and its text, sorted.
///
/// # Errors
/// A folder or file that cannot be read.
pub(crate) fn texts(root: &Path) -> io::Result<Vec<(String, String)>> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        Ok((name, text))
    };
    files(root)?.into_iter().map(read).collect()
}

fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    paths.sort();
    Ok(paths)
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !FOREIGN.contains(&name) {
                collect(&path, paths)?;
            }
        } else if KINDS.contains(&kind) || folder.file_name() == Some(".ci".as_ref()) {
            paths.push(path);
        }
    }
    Ok(())
}
