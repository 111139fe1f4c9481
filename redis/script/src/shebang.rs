//! The first line of a script: `#!lua flags=no-writes,allow-stale`.

use crate::error::{LibraryError, LoadError};

/// The flags of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Whether it has a shebang: Redis refuses more to scripts with one.
    pub declared: bool,
    /// `no-writes`: the script writes nothing, and may run where writes are refused.
    pub no_writes: bool,
    /// `allow-oom`: the script may run while memory is used up.
    pub allow_oom: bool,
    /// `allow-stale`: the script may run at a replica that has lost its primary.
    pub allow_stale: bool,
    /// `no-cluster`: the script does not run in a cluster.
    pub no_cluster: bool,
    /// `allow-cross-slot-keys`: the script may name keys of several slots.
    pub allow_cross_slot_keys: bool,
}

/// Reads the first line, if it is a shebang: the flags, and where the rest begins.
pub(crate) fn read(source: &[u8]) -> Result<(Flags, usize), LoadError> {
    if !source.starts_with(b"#!") {
        return Ok((Flags::default(), 0));
    }
    let end = source.iter().position(|&byte| byte == b'\n').ok_or(LoadError::Shebang)?;
    let mut parts = words(&source[..end]).ok_or(LoadError::Quotes)?;
    let engine = parts.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(LoadError::Engine(engine));
    }
    let mut flags = Flags { declared: true, ..Flags::default() };
    for part in parts {
        let Some(names) = part.strip_prefix("flags=") else {
            return Err(LoadError::Option(part));
        };
        names.split(',').filter(|name| !name.is_empty()).try_for_each(|name| flags.set(name))?;
    }
    // The line end stays, so that lines are counted from the shebang on.
    Ok((flags, end))
}

/// The words of the first line; `None` if a quote does not end.
fn words(line: &[u8]) -> Option<impl Iterator<Item = String>> {
    let words = stillframe_resp::split_line(line)?;
    Some(words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()))
}

/// What a script says of itself; `None` if its first line cannot be read.
pub fn flags_of(source: &[u8]) -> Option<Flags> {
    read(source).ok().map(|(flags, _)| flags)
}

/// Reads the first line of a library: its name, and where the rest begins.
///
/// # Errors
/// The line says no name, or too much.
pub fn read_library(source: &[u8]) -> Result<(String, usize), LibraryError> {
    if !source.starts_with(b"#!") {
        return Err(LibraryError::Missing);
    }
    let end = source.iter().position(|&byte| byte == b'\n').ok_or(LibraryError::Line)?;
    let mut parts = words(&source[..end]).ok_or(LibraryError::Line)?;
    let engine = parts.next().unwrap_or_default();
    let engine = engine.strip_prefix("#!").unwrap_or_default();
    let mut name = None;
    for part in parts {
        match part.split_at_checked(5) {
            Some((start, _)) if start.eq_ignore_ascii_case("name=") && name.is_some() => {
                return Err(LibraryError::Names);
            }
            Some((start, rest)) if start.eq_ignore_ascii_case("name=") => {
                name = Some(rest.to_owned());
            }
            _ => return Err(LibraryError::Option(part)),
        }
    }
    let name = name.ok_or(LibraryError::Nameless)?;
    if !is_name(name.as_bytes()) {
        return Err(LibraryError::Name);
    }
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(LibraryError::Engine(engine.to_owned()));
    }
    Ok((name, end))
}

/// Whether it may be the name of a library or of a function.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Flags {
    /// The names of those that are set, in the order of Redis.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.no_writes, "no-writes"),
            (self.allow_oom, "allow-oom"),
            (self.allow_stale, "allow-stale"),
            (self.no_cluster, "no-cluster"),
            (self.allow_cross_slot_keys, "allow-cross-slot-keys"),
        ];
        all.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect()
    }

    /// Sets a flag by the name that Redis gives it.
    pub(crate) fn set(&mut self, name: &str) -> Result<(), LoadError> {
        match name {
            "no-writes" => self.no_writes = true,
            "allow-oom" => self.allow_oom = true,
            "allow-stale" => self.allow_stale = true,
            "no-cluster" => self.no_cluster = true,
            "allow-cross-slot-keys" => self.allow_cross_slot_keys = true,
            _ => return Err(LoadError::Flag(name.to_owned())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let (flags, rest) = read(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert!(flags.declared && flags.no_writes && flags.allow_oom && !flags.allow_stale);
        assert_eq!(rest, 31);
        assert_eq!(read(b"return 1"), Ok((Flags::default(), 0)));
    }

    #[test]
    fn a_malformed_first_line_is_refused_with_the_text_of_redis() {
        let refused = |source: &str| read(source.as_bytes()).unwrap_err().to_string();
        assert_eq!(refused("#!lua"), "Invalid script shebang");
        assert_eq!(refused("#!py\n"), "Unexpected engine in script shebang: #!py");
        assert_eq!(refused("#!lua flags=x\n"), "Unexpected flag in script shebang: x");
        assert_eq!(refused("#!lua a=b\n"), "Unknown lua shebang option: a=b");
        assert_eq!(refused("#!lua \"flags=\n"), "Invalid engine in script shebang");
    }

    #[test]
    fn words_of_the_first_line_may_have_quotes() {
        let (flags, _) = read(b"#!lua 'flags=no-writes,allow-oom'\nreturn 1").unwrap();
        assert!(flags.no_writes && flags.allow_oom);
        let named = |source: &str| read_library(source.as_bytes()).map(|(name, _)| name);
        assert_eq!(named("#!lua name=\"foo\"\n"), Ok("foo".to_owned()));
        assert_eq!(named("#!lua \t'name=foo' \n"), Ok("foo".to_owned()));
        assert_eq!(named("#!lua name=\"foo\n"), Err(LibraryError::Line));
        assert_eq!(named("#! name=foo\n"), Err(LibraryError::Engine(String::new())));
    }
}
