//! The configuration file: redis.conf's syntax, one directive a line.

use std::path::{Path, PathBuf};

use super::Config;

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// A line is wrong.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong, in a sentence.
        problem: String,
    },
}

impl Config {
    /// Applies a file of directives.
    ///
    /// # Errors
    /// [`FileError`] names the line; directives before it have been applied.
    pub fn load_file(&mut self, path: &Path) -> Result<(), FileError> {
        let read = |error| FileError::Read { path: path.to_owned(), error };
        let text = std::fs::read_to_string(path).map_err(read)?;
        for (index, line) in text.lines().enumerate() {
            let wrong =
                |problem| FileError::Line { path: path.to_owned(), line: index + 1, problem };
            let words = words(line).map_err(wrong)?;
            let Some((name, values)) = words.split_first() else { continue };
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            self.set(name, &values).map_err(wrong)?;
        }
        self.config_file = Some(std::fs::canonicalize(path).map_err(read)?);
        Ok(())
    }
}

/// The words of a line: blanks separate, quotes hold together, `#` starts a comment line.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    if rest.starts_with('#') {
        return Ok(words);
    }
    while let Some(first) = rest.chars().next() {
        let (word, after) = if matches!(first, '"' | '\'') {
            let inside = &rest[1..];
            let end = inside.find(first).ok_or("a quote is not closed")?;
            (&inside[..end], &inside[end + 1..])
        } else {
            rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()))
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err("a closing quote must be followed by a blank".to_owned());
        }
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_as_in_redis_conf() {
        assert_eq!(words("  # a comment"), Ok(vec![]));
        assert_eq!(words("save \"\""), Ok(vec!["save".into(), String::new()]));
        let limits = words("client-output-buffer-limit normal 0 0 0").map(|words| words.len());
        assert_eq!(limits, Ok(5));
        assert_eq!(words("requirepass 'a b'"), Ok(vec!["requirepass".into(), "a b".into()]));
        assert!(words("requirepass \"open").is_err());
        assert!(words("requirepass \"a\"b").is_err());
    }

    #[test]
    fn a_wrong_line_is_named() {
        let dir = std::env::temp_dir().join(format!("stillframe-config-{}", std::process::id()));
        std::fs::write(&dir, "port 7000\n\n# fine\nnonsense 1\n").expect("a temporary file");
        let mut config = Config::default();
        let error = config.load_file(&dir).expect_err("a directive that does not exist");
        std::fs::remove_file(&dir).expect("our own file");
        assert!(error.to_string().ends_with("line 4: there is no setting 'nonsense'"), "{error}");
        assert_eq!(config.port, 7000);
    }
}
