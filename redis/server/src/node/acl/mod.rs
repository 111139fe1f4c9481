//! Users and their rights, as in Redis 7.0.
//!
//! - A user keeps its number for ever; a deleted one leaves a gap, so that no connection turns into
//!   another user's.
//! - A change applies to a copy of the user: a refused rule changes nothing.
//! - The user `default` always exists. Without a password, it lets in new connections.

mod catalog;
mod error;
mod log;
mod passwords;
mod redacted;
mod selector;
mod user;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use catalog::Catalog;
use error::{Duplicate, LineError, LineFault};
pub(crate) use error::{RuleError, UsersError};
pub(crate) use log::Entry;
use log::Log;
pub(crate) use redacted::redacted;
pub(crate) use selector::{Denied, Touched};
pub(crate) use user::User;

use crate::node::config::Config;
use crate::node::config::words::word;

/// The number of the user `default`.
pub(crate) const DEFAULT: usize = 0;

/// All users.
pub(crate) struct Users {
    /// The commands that rules name.
    catalog: Catalog,
    /// The refusals.
    log: Log,
    users: Vec<Option<User>>,
    names: BTreeMap<Vec<u8>, usize>,
}

impl Users {
    /// The users of a configuration.
    ///
    /// # Errors
    /// One sentence: which user, which rule, what is wrong with it.
    pub(crate) fn new(mut catalog: Catalog, config: &Config) -> Result<Self, UsersError> {
        catalog.all_channels = config.acl_all_channels;
        let mut all =
            Self { catalog, log: Log::default(), users: Vec::new(), names: BTreeMap::new() };
        let default = all.open_default();
        all.put(default);
        all.require_password(config.requirepass.as_bytes());
        let mut names = BTreeSet::new();
        for line in &config.users {
            if !names.insert(line.first()) {
                return Err(duplicate(line.first().map_or(&[][..], Vec::as_slice)).into());
            }
            all.define(line)?;
        }
        if !config.aclfile.is_empty() {
            if !config.users.is_empty() {
                return Err(UsersError::TwoPlaces);
            }
            let path = || config.aclfile.clone();
            let text = std::fs::read(&config.aclfile)
                .map_err(|source| UsersError::Unreadable { path: path(), source })?;
            all.load(&text).map_err(|source| UsersError::File { path: path(), source })?;
        }
        Ok(all)
    }

    /// The user `default` as it is before anything is configured.
    fn open_default(&self) -> User {
        let mut user = User::new(b"default", &self.catalog);
        for rule in ["on", "nopass", "~*", "&*", "+@all"] {
            let applied = user.apply(rule.as_bytes(), &self.catalog);
            debug_assert!(applied.is_ok(), "{rule}");
        }
        user
    }

    /// The commands that rules name.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether users made from now on may use all channels (`acl-pubsub-default`).
    pub(crate) fn give_all_channels(&mut self, all: bool) {
        self.catalog.all_channels = all;
    }

    /// Notes a refusal, and keeps at most `len_max`.
    pub(crate) fn refused(&mut self, refusal: Entry, len_max: usize) {
        self.log.add(refusal, len_max);
    }

    /// The refusals, the newest first.
    pub(crate) fn refusals(&self) -> &VecDeque<Entry> {
        &self.log.entries
    }

    /// How many requests were refused for a reason since the start.
    pub(crate) fn refused_for(&self, reason: &str) -> u64 {
        self.log.counts.get(reason).copied().unwrap_or(0)
    }

    /// Forgets the refusals.
    pub(crate) fn forget_refusals(&mut self) {
        self.log.entries.clear();
    }

    /// Sets the password of the user `default`, or removes it if empty.
    pub(crate) fn require_password(&mut self, password: &[u8]) {
        let Some(mut user) = self.get(DEFAULT).cloned() else { return };
        let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() };
        for rule in [&b"resetpass"[..], &rule] {
            let applied = user.apply(rule, &self.catalog);
            debug_assert!(applied.is_ok());
        }
        self.put(user);
    }

    /// Creates or replaces a user from the words of a configuration line behind `user`.
    fn define(&mut self, line: &[Vec<u8>]) -> Result<(), UsersError> {
        let (name, rules) = line.split_first().ok_or(UsersError::Nameless)?;
        let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        let mut user = User::new(name, &self.catalog);
        let name = || String::from_utf8_lossy(name).into_owned();
        let changed = self.change(&mut user, &rules);
        changed.map_err(|source| UsersError::Rule { name: name(), source })?;
        self.put(user);
        Ok(())
    }

    /// Replaces all users by those of an ACL file. Returns the users that are gone or changed.
    ///
    /// # Errors
    /// One sentence that names the line; nothing has changed.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<Vec<usize>, LineError> {
        let mut found: BTreeMap<Vec<u8>, User> = BTreeMap::new();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let wrong = |source: LineFault| LineError { number: index + 1, source };
            // Quotes and backslashes are ordinary characters here.
            let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let words: Vec<&[u8]> = words.collect();
            let [keyword, name, rules @ ..] = words.as_slice() else {
                if words.first().is_none_or(|first| first.starts_with(b"#")) {
                    continue;
                }
                return Err(wrong(LineFault::Short));
            };
            if keyword.starts_with(b"#") {
                continue;
            }
            if *keyword != b"user" {
                return Err(wrong(LineFault::Keyword));
            }
            let mut user = User::new(name, &self.catalog);
            self.change(&mut user, rules).map_err(|error| wrong(error.into()))?;
            if found.insert(name.to_vec(), user).is_some() {
                return Err(wrong(duplicate(name).into()));
            }
        }
        found.entry(b"default".to_vec()).or_insert_with(|| self.open_default());
        let users = self.users.iter().enumerate();
        let touched = users
            .filter_map(|(number, user)| {
                let user = user.as_ref()?;
                (found.get(&user.name) != Some(user)).then_some(number)
            })
            .collect();
        let gone: Vec<Vec<u8>> =
            self.names.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        gone.iter().for_each(|name| _ = self.remove(name));
        found.into_values().for_each(|user| self.put(user));
        Ok(touched)
    }

    /// Applies rules to a user that is not yet stored.
    ///
    /// # Errors
    /// [`RuleError`]: which rule, and what is wrong.
    pub(crate) fn change(&self, user: &mut User, rules: &[&[u8]]) -> Result<(), RuleError> {
        for rule in joined(rules)? {
            if let Err(problem) = user.apply(&rule, &self.catalog) {
                return Err(RuleError::Wrong { rule, problem });
            }
        }
        Ok(())
    }

    /// A copy of the user of that name for changes, or a new one.
    pub(crate) fn edit(&self, name: &[u8]) -> User {
        let known = self.find(name).and_then(|number| self.get(number));
        known.cloned().unwrap_or_else(|| User::new(name, &self.catalog))
    }

    /// Replaces the user of the same name, or adds it. Returns its number.
    pub(crate) fn put(&mut self, user: User) {
        let number = *self.names.entry(user.name.clone()).or_insert(self.users.len());
        if number == self.users.len() {
            self.users.push(None);
        }
        self.users[number] = Some(user);
    }

    /// Removes a user. Returns its number.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.names.remove(name)?;
        self.users[number] = None;
        Some(number)
    }

    /// The number of the user of that name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The user of that number, unless it was deleted.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&User> {
        self.users.get(number)?.as_ref()
    }

    /// The name of the user of that number.
    pub(crate) fn name(&self, number: usize) -> &[u8] {
        self.get(number).map_or(b"(deleted)", |user| &user.name)
    }

    /// All users by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &User> {
        self.names.values().filter_map(|&number| self.get(number))
    }

    /// Whether connections need no password.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.get(DEFAULT).is_some_and(|user| user.nopass && user.enabled)
    }

    /// The number of the user with this name and password.
    pub(crate) fn log_in(&self, name: &[u8], password: &[u8]) -> Option<usize> {
        let found = self.find(name).and_then(|number| Some((number, self.get(number)?)));
        let Some((number, user)) = found else {
            user::compare([], password); // the time must not reveal that the user does not exist
            return None;
        };
        let right = user.accepts(password); // a user who is off takes the same time
        (right && user.enabled).then_some(number)
    }

    /// All users as lines of an ACL file.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Vec<u8>> {
        self.iter().map(|user| [b"user ", &user.name[..], b" ", &user.show(&self.catalog)].concat())
    }

    /// All users as lines of a configuration file, where quotes hold words together.
    pub(crate) fn directives(&self) -> Vec<String> {
        let quoted = |line: Vec<u8>| {
            line.split(|&byte| byte == b' ').map(word).collect::<Vec<_>>().join(" ")
        };
        self.lines().map(quoted).collect()
    }
}

fn duplicate(name: &[u8]) -> Duplicate {
    Duplicate { name: String::from_utf8_lossy(name).into_owned() }
}

/// The given rules; a selector, from `(` to `)`, counts as one.
fn joined(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, RuleError> {
    let mut joined: Vec<Vec<u8>> = Vec::new();
    let mut rest = rules.iter();
    while let Some(rule) = rest.next() {
        let mut whole = rule.to_vec();
        if rule.starts_with(b"(") {
            while !whole.ends_with(b")") {
                let Some(next) = rest.next() else {
                    let start = String::from_utf8_lossy(rule).into_owned();
                    return Err(RuleError::Unmatched { start });
                };
                whole.push(b' ');
                whole.extend_from_slice(next);
            }
        }
        joined.push(whole);
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(lines: &[&str]) -> Result<Users, UsersError> {
        let words = |line: &&str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let users = lines.iter().map(words).collect();
        let table = crate::commands::table();
        Users::new(Catalog::new(&table), &Config { users, ..Config::default() })
    }

    /// Wherever the setting stands in the file.
    #[test]
    fn users_of_a_configuration_start_with_the_channels_that_it_says() {
        let text = "user early on nopass +@all\nacl-pubsub-default allchannels\n";
        let mut config = Config::default();
        config.load("a file", text.as_bytes()).expect("lines that mean something");
        let users = Users::new(Catalog::new(&crate::commands::table()), &config).expect("users");
        let early = users.iter().find(|user| *user.name == *b"early").expect("the user");
        let rules = early.show(&users.catalog);
        assert_eq!(String::from_utf8_lossy(&rules), "on nopass &* +@all");
    }

    #[test]
    fn a_user_is_defined_once() {
        for lines in [["foo", "foo on"], ["default on", "default off"]] {
            let problem = users(&lines).err().expect("refused").to_string();
            assert!(problem.starts_with("Duplicate user '"), "{problem}");
        }
        let mut users = users(&["foo on", "bar"]).expect("users");
        let problem =
            users.load(b"user a on\nuser b on\nuser a off\n").expect_err("refused").to_string();
        assert!(problem.contains("Duplicate user 'a' found"), "{problem}");
        assert!(users.find(b"foo").is_some() && users.find(b"a").is_none());
    }

    /// No rule is named where rules do not fit together.
    #[test]
    fn a_selector_without_end_is_reported_by_its_start() {
        let mut known = users(&["foo on"]).expect("users");
        let problem = known.load(b"user a on\nuser b on (+get\n").expect_err("refused");
        let unmatched = "Unmatched parenthesis in acl selector starting at '(+get'.";
        assert_eq!(problem.to_string(), format!("line 2: {unmatched}"));
        let problem = users(&["a on (+get"]).err().expect("refused");
        assert_eq!(problem.to_string(), format!("user a: {unmatched}"));
        let problem = users(&["a on +nonsense"]).err().expect("refused").to_string();
        assert!(problem.starts_with("user a: '+nonsense': "), "{problem}");
    }
}
