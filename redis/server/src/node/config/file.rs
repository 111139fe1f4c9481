//! The configuration file: redis.conf's syntax, one directive a line.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::Config;
use super::error::{ConfigError, FileError};
use super::words::words;
use stillframe_commands::text::glob;

/// Files within files: more than this includes itself.
const INCLUDES_MAX: usize = 16;

impl Config {
    /// Applies a file of directives.
    ///
    /// # Errors
    /// [`FileError`] names the line; directives before it have been applied.
    pub fn load_file(&mut self, path: &Path) -> Result<(), FileError> {
        let read = |error| FileError::Read { path: path.to_owned(), error };
        self.config_file = Some(std::fs::canonicalize(path).map_err(read)?);
        self.apply_file(path, 0)
    }

    /// Applies directives of standard input, called `name` in errors.
    ///
    /// # Errors
    /// As for [`load_file`](Self::load_file).
    pub fn load(&mut self, name: &str, mut input: impl Read) -> Result<(), FileError> {
        let path = Path::new(name);
        let mut text = Vec::new();
        let read = input.read_to_end(&mut text);
        read.map_err(|error| FileError::Read { path: path.to_owned(), error })?;
        self.apply_text(path, &text, 0)
    }

    /// Applies one directive, given as words: its name first.
    ///
    /// # Errors
    /// The directive or its value is wrong.
    pub fn apply(&mut self, words: &[Vec<u8>]) -> Result<(), ConfigError> {
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        if !name.eq_ignore_ascii_case(b"include") {
            return self.set(&String::from_utf8_lossy(name), values);
        }
        let mut files = self.included(values)?.into_iter();
        Ok(files.try_for_each(|file| self.apply_file(&file, 1)).map_err(Box::new)?)
    }

    fn apply_file(&mut self, path: &Path, depth: usize) -> Result<(), FileError> {
        let read = |error| FileError::Read { path: path.to_owned(), error };
        let text = std::fs::read(path).map_err(read)?;
        self.apply_text(path, &text, depth)
    }

    /// Applies the text of a file that is included by `depth` others.
    pub(super) fn apply_text(
        &mut self,
        path: &Path,
        text: &[u8],
        depth: usize,
    ) -> Result<(), FileError> {
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let wrong = |error| FileError::Line { path: path.to_owned(), line: index + 1, error };
            if line.trim_ascii_start().starts_with(b"#") {
                continue;
            }
            let words = words(line).map_err(|error| wrong(error.into()))?;
            let Some((name, values)) = words.split_first() else { continue };
            if name.eq_ignore_ascii_case(b"include") {
                let files = self.included(values).map_err(wrong)?;
                if depth == INCLUDES_MAX {
                    return Err(wrong(ConfigError::IncludesItself));
                }
                files.iter().try_for_each(|file| self.apply_file(file, depth + 1))?;
            } else {
                self.set(&String::from_utf8_lossy(name), values).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// The files that `include` names.
    fn included(&self, values: &[Vec<u8>]) -> Result<Vec<PathBuf>, ConfigError> {
        let [pattern] = values else { return Err(ConfigError::Include) };
        let pattern = std::str::from_utf8(pattern).map_err(|_| ConfigError::NotText)?;
        // In Redis `dir` changes the start of relative paths at once.
        let pattern = self.data_directory().map_or(pattern.into(), |dir| dir.join(pattern));
        matching(&pattern.display().to_string())
    }
}

/// The files that `include` names: one, or with a pattern as the last part of the path as many as
/// match, in alphabetical order.
fn matching(path: &str) -> Result<Vec<PathBuf>, ConfigError> {
    let (folder, pattern) = path.rsplit_once('/').unwrap_or((".", path));
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![path.into()]);
    }
    let folder = if folder.is_empty() { "/" } else { folder };
    let failed = |error| ConfigError::Folder { folder: folder.to_owned(), error };
    let mut files = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        // Nothing matches, which is no error.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if glob::matches(pattern.as_bytes(), entry.file_name().as_encoded_bytes()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(folder: &Path, text: &str) -> Result<Config, String> {
        let file = folder.join("main.conf");
        std::fs::write(&file, text).expect("a temporary file");
        let mut config = Config::default();
        config.load_file(&file).map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_setting_of_several_words_may_have_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = load(folder.path(), "save \nlatency-tracking-info-percentiles\n");
        let config = config.expect("redis-server reads it, too");
        assert_eq!((config.save.len(), config.latency_percentiles.len()), (0, 0));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        for (text, end) in [
            ("port 7000\n\n# fine\nnonsense 1\n", "line 4: there is no setting 'nonsense'"),
            ("port 7000 1\n", "line 1: 'port \"7000\" \"1\"': wrong number of arguments"),
            ("requirepass \"open\n", "line 1: a quote is not closed"),
            ("\ninclude main.conf extra\n", "line 2: 'include' takes one file"),
        ] {
            let error = load(folder.path(), text).expect_err("a wrong file");
            assert!(error.ends_with(end), "{error}");
        }
    }

    #[test]
    fn files_are_included_where_they_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        for (name, text) in [("a.inc", "port 1\nhz 20\n"), ("b.inc", "hz 30\n"), ("c", "hz 40")] {
            std::fs::write(folder.path().join(name), text).expect("a temporary file");
        }
        let config = load(folder.path(), &format!("hz 50\nport 2\ninclude {path}/*.inc\n"));
        let config = config.expect("good files");
        assert_eq!((config.port, config.hz), (1, 30));
        let config =
            load(folder.path(), &format!("include {path}/c\nport 2\nhz 60")).expect("good");
        assert_eq!((config.port, config.hz), (2, 60));
        load(folder.path(), "include /nonexistent/none-*\n").expect("as in Redis");
        // Relative paths start from the data directory, once it is named.
        let config = load(folder.path(), &format!("dir {path}\ninclude c\n")).expect("good");
        assert_eq!(config.hz, 40);
        let endless = load(folder.path(), &format!("include {path}/main.conf"));
        assert!(endless.expect_err("an end").contains("include each other"));
        let missing = load(folder.path(), &format!("include {path}/none"));
        assert!(missing.expect_err("an end").contains("/none"));
    }
}
