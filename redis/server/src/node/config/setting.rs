//! Settings: an entry of a list says everything about one but its use.
//!
//! An entry of [`settings!`] declares the field, its default, the name in redis.conf, the kind of
//! value with its bounds (see [`kinds`](super::kinds)), and what else there is to say. A field that
//! counts something ends in its unit (`timeout_seconds`).

use super::Config;
use super::error::ValueError;
use super::kinds::Form;

/// One setting.
pub(crate) struct Setting {
    /// Its name in redis.conf.
    pub(crate) name: &'static str,
    /// Names that it had in older versions.
    pub(super) older: &'static [&'static str],
    /// When it may change.
    pub(crate) change: Change,
    /// For tests: a pattern of CONFIG GET does not find it.
    pub(crate) is_hidden: bool,
    /// What CONFIG SET does beside storing the value.
    pub(crate) effects: &'static [Effect],
    /// How `serve --help` shows it: what stands behind the flag, and what it means, with the
    /// defaults of settings between braces.
    help: Option<[&'static str; 2]>,
    /// How it is written in a file.
    pub(super) form: fn() -> Form,
    /// Without a line in the file it is empty.
    pub(super) is_empty_unless_said: bool,
    /// Its lines in a file where they are not one, each with whether it must be there.
    pub(super) lines: Option<Lines>,
    /// What a further line of a file does, where it does not replace the value.
    pub(super) add: Option<Set>,
    /// The value as CONFIG GET shows it.
    pub(crate) get: Get,
    /// Sets the value; nothing changes if it is refused.
    pub(crate) set: Set,
}

type Lines = fn(&Config, &Config) -> Vec<(String, bool)>;
type Get = fn(&Config) -> String;
type Set = fn(&mut Config, &str) -> Result<(), ValueError>;

/// When a setting may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// At any time.
    Always,
    /// At start.
    Start,
    /// At start, and Redis does not have it: what it is may be said again, as tools do that set all
    /// that CONFIG GET shows of what Redis lets them set.
    OwnStart,
    /// At start; Redis calls it protected because it says where files are written.
    Protected,
}

/// What CONFIG SET does beside storing a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Makes room for as many clients.
    Clients,
    /// Sets the system's score of the process.
    OomScore,
    /// Saves go to another directory, or have another name there.
    Directory,
    /// TLS is set up anew.
    Tls,
    /// A log begins.
    Log,
    /// Images under way are written at another rate.
    Bandwidth,
    /// Listens elsewhere.
    Listen,
    /// Logs more, or less.
    LogLevel,
    /// The archive obeys.
    Archive,
    /// The default user has another password.
    Password,
}

impl Setting {
    pub(super) const fn new(name: &'static str, form: fn() -> Form, get: Get, set: Set) -> Self {
        Self {
            name,
            older: &[],
            change: Change::Always,
            is_hidden: false,
            effects: &[],
            help: None,
            form,
            is_empty_unless_said: false,
            lines: None,
            add: None,
            get,
            set,
        }
    }

    pub(super) const fn older(self, older: &'static [&'static str]) -> Self {
        Self { older, ..self }
    }

    pub(super) const fn at_start(self) -> Self {
        Self { change: Change::Start, ..self }
    }

    pub(super) const fn own_at_start(self) -> Self {
        Self { change: Change::OwnStart, ..self }
    }

    pub(super) const fn protected(self) -> Self {
        Self { change: Change::Protected, ..self }
    }

    pub(super) const fn hidden(self) -> Self {
        Self { is_hidden: true, ..self }
    }

    pub(super) const fn effects(self, effects: &'static [Effect]) -> Self {
        Self { effects, ..self }
    }

    pub(super) const fn help(self, usage: &'static str, meaning: &'static str) -> Self {
        Self { help: Some([usage, meaning]), ..self }
    }

    pub(super) const fn empty_unless_said(self) -> Self {
        Self { is_empty_unless_said: true, ..self }
    }

    pub(super) const fn lines(self, lines: Lines) -> Self {
        Self { lines: Some(lines), ..self }
    }

    pub(super) const fn add(self, add: Set) -> Self {
        Self { add: Some(add), ..self }
    }

    /// Its lines in `serve --help`.
    pub(super) fn shown_help(&self, defaults: &Config) -> String {
        let Some([usage, meaning]) = self.help else { return String::new() };
        let mut flag = format!("  --{} {usage}", self.name);
        let mut text = String::new();
        for line in meaning.lines() {
            let mut line = line.to_owned();
            while let Some((before, rest)) = line.split_once('{') {
                let (name, behind) = rest.split_once('}').unwrap_or((rest, ""));
                let shown = match super::find(name) {
                    Some(setting) => (setting.get)(defaults),
                    None if name == "algorithms" => super::choices::algorithm_names(),
                    None => String::new(),
                };
                line = format!("{before}{shown}{behind}");
            }
            text += &format!("{flag:38} {line}\n");
            flag.clear();
        }
        text
    }
}

/// A group of settings: a struct with its defaults, and the list of its entries.
///
/// ```text
/// field: Type = default, "name": kind(bounds) .what_else_there_is_to_say();
/// ```
macro_rules! settings {
    (
        $(#[$about:meta])*
        $vis:vis struct $group:ident, entries $list:ident of $config:ident $path:tt;
        $(
            $(#[$doc:meta])*
            $field:ident: $type:ty = $default:expr,
            $name:literal: $kind:ident $bounds:tt $(. $more:ident $with:tt)*;
        )*
        $(
            + beside: $( $(#[$own_doc:meta])* $own:ident: $own_type:ty = $own_default:expr; )*
        )?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        $vis struct $group {
            $( $(#[$doc])* pub(crate) $field: $type, )*
            $( $( $(#[$own_doc])* pub(crate) $own: $own_type, )* )?
        }

        impl Default for $group {
            fn default() -> Self {
                Self { $( $field: $default, )* $( $( $own: $own_default, )* )? }
            }
        }

        pub(super) static $list: &[$crate::node::config::setting::Setting] = &[ $(
            $crate::node::config::setting::entry!(
                $name, $type, $config, $path $field, $kind $bounds
            ) $(. $more $with)*,
        )* ];
    };
}
pub(super) use settings;

/// An entry that a field of that type keeps.
macro_rules! entry {
    ($name:literal, $type:ty, $config:ident, [$($path:tt)*] $field:ident, $kind:expr) => {
        $crate::node::config::setting::entry!(
            $name, $type, $config, $config $($path)* . $field, $kind
        )
    };
    ($name:literal, $type:ty, $config:ident, $place:expr, $kind:expr) => {
        $crate::node::config::setting::Setting::new(
            $name,
            || $crate::node::config::kinds::Kind::<$type>::form(&$kind),
            |$config| $crate::node::config::kinds::Kind::<$type>::show(&$kind, &$place),
            |$config, value| {
                $place = $crate::node::config::kinds::Kind::<$type>::read(&$kind, value, &$place)?;
                Ok(())
            },
        )
    };
}
pub(super) use entry;
