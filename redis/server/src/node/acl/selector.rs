//! A selector: a set of commands, of keys and of channels that are allowed together.

use std::collections::{BTreeMap, HashMap};

use super::catalog::Catalog;
use stillframe_commands::categories;
use stillframe_commands::facts::{READ, WRITE, later};
use stillframe_commands::text::glob;

/// Why a request is refused; a later reason says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The command.
    Command,
    /// The key at this position among the request's keys.
    Key(usize),
    /// The channel at this position among the request's channels.
    Channel(usize),
}

/// The command, keys and channels of a request.
pub(crate) struct Touched<'a> {
    /// The command's index in the table.
    pub(crate) command: usize,
    /// Whether everybody may call it.
    pub(crate) open: bool,
    /// Its first argument behind the command's name.
    pub(crate) first: Option<&'a [u8]>,
    /// Its keys, each with the access to it.
    pub(crate) keys: Vec<(&'a [u8], u8)>,
    /// Its channels.
    pub(crate) channels: Vec<&'a [u8]>,
    /// The channels are patterns.
    pub(crate) patterns: bool,
}

/// Patterns in the given order, each once, with the allowed access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Patterns {
    list: Vec<(Vec<u8>, u8)>,
    /// The position of each in the list.
    positions: HashMap<Vec<u8>, usize>,
}

impl Patterns {
    /// Adds a pattern, or access to an existing one.
    fn add(&mut self, pattern: &[u8], access: u8) {
        match self.positions.get(pattern) {
            Some(&position) => self.list[position].1 |= access,
            None => {
                self.positions.insert(pattern.to_vec(), self.list.len());
                self.list.push((pattern.to_vec(), access));
            }
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn contains(&self, pattern: &[u8]) -> bool {
        self.positions.contains_key(pattern)
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], u8)> {
        self.list.iter().map(|(pattern, access)| (pattern.as_slice(), *access))
    }
}

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// One bit a command of the table.
    commands: Vec<bool>,
    /// Whether commands of later versions are allowed.
    future: bool,
    /// Commands allowed with these first arguments only.
    with_first: BTreeMap<usize, Patterns>,
    all_keys: bool,
    keys: Patterns,
    all_channels: bool,
    channels: Patterns,
}

pub(super) const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";

impl Selector {
    /// Allows no command and no key; channels as `acl-pubsub-default` says.
    pub(super) fn nothing(catalog: &Catalog) -> Self {
        let commands = vec![false; catalog.len()];
        Self { commands, all_channels: catalog.all_channels, ..Self::default() }
    }

    /// Whether everything is allowed.
    pub(super) fn is_everything(&self) -> bool {
        self.future && self.all_keys && self.all_channels && self.commands.iter().all(|&is| is)
    }

    pub(super) fn allows(&self, command: usize) -> bool {
        self.commands.get(command).copied().unwrap_or(false)
    }

    pub(super) fn allows_future(&self) -> bool {
        self.future
    }

    /// The only first arguments with which a command is allowed.
    pub(super) fn first_arguments(&self, command: usize) -> impl Iterator<Item = &[u8]> {
        self.with_first.get(&command).into_iter().flat_map(Patterns::iter).map(|(first, _)| first)
    }

    /// Applies one rule such as `+get` or `~key:*`.
    pub(super) fn apply(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), &'static str> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.set_all(true),
            b"nocommands" | b"-@all" => self.set_all(false),
            _ => return self.apply_named(rule, catalog),
        }
        Ok(())
    }

    fn apply_named(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), &'static str> {
        match rule {
            [b'~', pattern @ ..] => self.add_keys(pattern, READ | WRITE),
            [b'%', rest @ ..] => {
                // Without a pattern, the rule means the empty key, as in Redis.
                let tilde = rest.iter().position(|&byte| byte == b'~').unwrap_or(rest.len());
                let mut access = 0;
                for letter in &rest[..tilde] {
                    access |= match letter.to_ascii_uppercase() {
                        b'R' if access & READ == 0 => READ,
                        b'W' if access & WRITE == 0 => WRITE,
                        _ => return Err(SYNTAX),
                    };
                }
                if access == 0 {
                    return Err(SYNTAX);
                }
                self.add_keys(rest.get(tilde + 1..).unwrap_or_default(), access)
            }
            [b'&', pattern @ ..] => {
                if self.all_channels {
                    return Err(AFTER_ALL_CHANNELS);
                }
                if pattern.iter().any(|&byte| byte.is_ascii_whitespace() || byte == 0) {
                    return Err(SYNTAX);
                }
                self.channels.add(pattern, 0);
                Ok(())
            }
            // It holds nothing here.
            [b'+' | b'-', name @ ..] if later::is_named(name) => Ok(()),
            [sign @ (b'+' | b'-'), b'@', category @ ..] => {
                let bit = categories::bit(category).ok_or(UNKNOWN)?;
                self.set_category(bit, *sign == b'+', catalog);
                Ok(())
            }
            [b'+', name @ ..] => self.allow(name, catalog),
            [b'-', name @ ..] => {
                let command = catalog.find(name).ok_or(UNKNOWN)?;
                self.set(command, false, catalog);
                Ok(())
            }
            _ => Err(SYNTAX),
        }
    }

    fn add_keys(&mut self, pattern: &[u8], access: u8) -> Result<(), &'static str> {
        if self.all_keys {
            return Err(AFTER_ALL_KEYS);
        }
        if pattern.iter().any(|&byte| byte.is_ascii_whitespace() || byte == 0) {
            return Err(SYNTAX);
        }
        self.keys.add(pattern, access);
        Ok(())
    }

    /// `+name`, `+container|name`, or `+name|first-argument`.
    fn allow(&mut self, name: &[u8], catalog: &Catalog) -> Result<(), &'static str> {
        if let Some(command) = catalog.find(name) {
            self.set(command, true, catalog);
            return Ok(());
        }
        let bar = name.iter().position(|&byte| byte == b'|').ok_or(UNKNOWN)?;
        let command = catalog.find(&name[..bar]).ok_or(UNKNOWN)?;
        let first = &name[bar + 1..];
        if first.contains(&b'|') {
            // A first argument may follow only an existing sub-command.
            let has_subcommands = catalog.find(&[&name[..bar], b"|help"].concat()).is_some();
            return Err(if has_subcommands {
                "Allowing first-arg of a subcommand is not supported"
            } else {
                UNKNOWN
            });
        }
        if first.is_empty() {
            return Err(SYNTAX);
        }
        if catalog.get(command).is_some_and(|known| !known.subcommands.is_empty()) {
            return Err(UNKNOWN);
        }
        self.with_first.entry(command).or_default().add(&first.to_ascii_lowercase(), 0);
        Ok(())
    }

    fn set_all(&mut self, allowed: bool) {
        self.future = allowed;
        self.commands.fill(allowed);
        self.with_first.clear();
    }

    pub(super) fn set(&mut self, command: usize, allowed: bool, catalog: &Catalog) {
        let subcommands = catalog.get(command).map_or(&[][..], |known| &known.subcommands);
        for &index in std::iter::once(&command).chain(subcommands) {
            if let Some(bit) = self.commands.get_mut(index) {
                *bit = allowed;
            }
            self.with_first.remove(&index);
        }
    }

    pub(super) fn set_category(&mut self, bit: u32, allowed: bool, catalog: &Catalog) {
        let members = catalog.iter().filter(|(_, known)| known.categories & bit != 0);
        for (index, _) in members {
            self.commands[index] = allowed;
            self.with_first.remove(&index);
        }
    }

    /// Whether a request may run.
    pub(crate) fn check(&self, touched: &Touched<'_>) -> Result<(), Denied> {
        if !touched.open && !self.allows(touched.command) {
            let first = touched.first.unwrap_or_default().to_ascii_lowercase();
            let firsts = self.with_first.get(&touched.command);
            if !firsts.is_some_and(|allowed| allowed.contains(&first)) {
                return Err(Denied::Command);
            }
        }
        let denied = touched.keys.iter().position(|(key, access)| !self.allows_key(key, *access));
        if let Some(position) = denied {
            return Err(Denied::Key(position));
        }
        let allowed = |channel: &&[u8]| self.allows_channel(channel, touched.patterns);
        match touched.channels.iter().position(|channel| !allowed(channel)) {
            Some(position) => Err(Denied::Channel(position)),
            None => Ok(()),
        }
    }

    fn allows_key(&self, key: &[u8], access: u8) -> bool {
        let mut own = self.keys.iter();
        self.all_keys || own.any(|(own, may)| may & access == access && glob::matches(own, key))
    }

    /// Whether every key may be read.
    pub(crate) fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|(own, may)| own == b"*" && may & READ != 0)
    }

    /// Whether a channel, or all channels of a pattern, may be used.
    pub(crate) fn allows_channel(&self, channel: &[u8], pattern: bool) -> bool {
        let fits = |own: &[u8]| !pattern && glob::matches(own, channel);
        self.all_channels
            || self.channels.contains(channel)
            || self.channels.iter().any(|(own, _)| fits(own))
    }

    /// The commands as rules.
    pub(crate) fn show_commands(&self, catalog: &Catalog) -> String {
        rules_of_commands(self, catalog)
    }

    /// The keys as rules.
    pub(crate) fn show_keys(&self) -> Vec<u8> {
        let patterns = self.keys.iter().map(|(own, access)| {
            let start: &[u8] = match access {
                READ => b"%R~",
                WRITE => b"%W~",
                _ => b"~",
            };
            [start, own].concat()
        });
        if self.all_keys { b"~*".to_vec() } else { patterns.collect::<Vec<_>>().join(&b' ') }
    }

    /// The channels as rules.
    pub(crate) fn show_channels(&self) -> Vec<u8> {
        let patterns = self.channels.iter().map(|(own, _)| [b"&", own].concat());
        if self.all_channels { b"&*".to_vec() } else { patterns.collect::<Vec<_>>().join(&b' ') }
    }

    /// The whole selector on a line of ACL LIST.
    pub(super) fn show(&self, catalog: &Catalog) -> Vec<u8> {
        let mut parts = vec![self.show_keys()];
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(self.show_channels());
        parts.push(self.show_commands(catalog).into_bytes());
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}

const AFTER_ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not \
    valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns";
const AFTER_ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) \
    is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of \
    channels";

/// The rules for a selector's commands, as ACL LIST shows them: first categories, as long as one
/// has more in common with the set than not, then single commands.
fn rules_of_commands(wanted: &Selector, catalog: &Catalog) -> String {
    let adds = !wanted.allows_future();
    let mut shown = Selector::nothing(catalog);
    let start: &[u8] = if adds { b"-@all" } else { b"+@all" };
    let mut words = vec![String::from_utf8_lossy(start).into_owned()];
    // Both rules are known.
    let _ = shown.apply(start, catalog);
    // Commands that the rules so far (`shown`) do not allow or forbid as wanted.
    let mut rest = wanted.clone();
    let mut used = 0;
    while let Some(bit) = best_category(&rest, adds, used, catalog) {
        used |= bit;
        shown.set_category(bit, adds, catalog);
        rest.set_category(bit, !adds, catalog);
        let sign = if adds { '+' } else { '-' };
        words.extend(categories::names(bit).map(|name| format!("{sign}@{name}")));
    }
    for (index, known) in catalog.iter() {
        if wanted.allows(index) != shown.allows(index) {
            let allowed = wanted.allows(index);
            shown.set(index, allowed, catalog);
            words.push(format!("{}{}", if allowed { '+' } else { '-' }, known.name));
        }
        for first in wanted.first_arguments(index) {
            words.push(format!("+{}|{}", known.name, String::from_utf8_lossy(first)));
        }
    }
    words.join(" ")
}

fn best_category(rest: &Selector, adds: bool, used: u32, catalog: &Catalog) -> Option<u32> {
    let mut best = None;
    let (mut least, mut most) = (usize::MAX, 0);
    for bit in (0..categories::NAMES.len()).map(|index| 1 << index).filter(|bit| used & bit == 0) {
        let members = catalog.iter().filter(|(_, known)| known.categories & bit != 0);
        let (same, differs): (Vec<_>, Vec<_>) =
            members.partition(|(index, _)| rest.allows(*index) == adds);
        let (same, differs) = (same.len(), differs.len());
        if same > differs && (differs < least || differs == least && same > most) {
            (best, least, most) = (Some(bit), differs, same);
        }
    }
    best
}
