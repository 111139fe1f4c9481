//! Directives of a configuration file that are no settings: CONFIG does not know them.

use super::error::ConfigError;
use super::{Config, named};

/// Directives that are no settings.
const DIRECTIVES: [&str; 3] = ["include", "rename-command", "user"];

/// Settings that Redis once had, ignored as Redis ignores them.
const GONE: [&str; 3] =
    ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

impl Config {
    /// Applies a directive that is no setting.
    pub(super) fn set_other<V: AsRef<[u8]>>(
        &mut self,
        name: &str,
        values: &[V],
    ) -> Result<(), ConfigError> {
        let values: Vec<&[u8]> = values.iter().map(AsRef::as_ref).collect();
        match (name.to_ascii_lowercase().as_str(), &values[..]) {
            ("user", [_, ..]) => {
                self.users.push(values.into_iter().map(<[u8]>::to_vec).collect());
                Ok(())
            }
            ("rename-command", [from, to]) => self.rename([from.to_vec(), to.to_vec()]),
            ("user" | "rename-command" | "include", _) => {
                Err(ConfigError::Words { name: name.to_owned() })
            }
            ("sentinel", _) => Err(ConfigError::Sentinel),
            ("loadmodule", _) => Err(ConfigError::Module),
            (gone, [_]) if GONE.contains(&gone) => Ok(()),
            (setting, _) if setting.contains('.') => {
                Err(ConfigError::OfModule { name: name.to_owned() })
            }
            _ => Err(unknown(name)),
        }
    }

    /// Renames or removes a command.
    fn rename(&mut self, rename: [Vec<u8>; 2]) -> Result<(), ConfigError> {
        self.renames.push(rename);
        let checked = self.check_names.map_or(Ok(()), |check| check(&self.renames));
        Ok(checked.inspect_err(|_| _ = self.renames.pop())?)
    }
}

/// The error for an unknown name.
fn unknown(name: &str) -> ConfigError {
    let known = named().map(|(name, _)| name).chain(DIRECTIVES);
    let lower = name.to_ascii_lowercase();
    let near = known.map(|known| (distance(&lower, known), known)).min();
    let near = near.filter(|(far, _)| *far <= (name.len() / 4).max(1));
    ConfigError::Unknown { name: name.to_owned(), near: near.map(|(_, near)| near.to_owned()) }
}

/// How many letters to insert, delete or change to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_a_setting_is_told() {
        let refused =
            |name: &str| Config::default().set(name, &["1"]).expect_err("no setting").to_string();
        assert!(refused("maxmemoy").ends_with("did you mean 'maxmemory'?"));
        assert!(refused("Apendonly").ends_with("did you mean 'appendonly'?"));
        assert!(refused("rename-comand").ends_with("did you mean 'rename-command'?"));
        assert!(refused("slave-prioriti").ends_with("did you mean 'slave-priority'?"));
        assert_eq!(refused("nonsense"), "there is no setting 'nonsense'");
        assert!(refused("sentinel").contains("no Sentinel"));
        assert!(refused("loadmodule").contains("no modules"));
        assert!(refused("search.threads").contains("no modules"));
        assert!(Config::default().set("lua-replicate-commands", &["yes"]).is_ok());
    }

    #[test]
    fn only_commands_that_are_there_get_other_names() {
        let mut config = Config::default();
        config.on_rename(crate::check_names);
        let mut rename = |from: &str, to: &str| {
            config.set("rename-command", &[from, to]).map_err(|error| error.to_string())
        };
        assert_eq!(rename("CONFIG", ""), Ok(()));
        assert_eq!(rename("eval", ""), Ok(()), "a command that only Redis has");
        assert_eq!(rename("get", "Fetch"), Ok(()));
        assert_eq!(rename("fetch", "take"), Ok(()));
        assert_eq!(rename("set", "GET"), Ok(()), "the name is free now");
        for (from, to, problem) in [
            ("config", "x", "there is no command 'config'"),
            ("fetch", "x", "there is no command 'fetch'"),
            ("del", "take", "there is a command 'take' already"),
            ("config|set", "", "there is no command 'config|set'"),
        ] {
            assert!(rename(from, to).expect_err("refused").contains(problem), "{from} {to}");
        }
        assert_eq!(config.renames.len(), 5);
    }
}
