//! Settings and their declarations.

use super::Config;

/// One setting.
pub(crate) struct Parameter {
    /// Its name in redis.conf.
    pub(crate) name: &'static str,
    /// When it may change.
    pub(crate) change: Change,
    /// How it is written in a file.
    pub(super) form: Form,
    /// The value as CONFIG GET shows it.
    pub(crate) get: fn(&Config) -> String,
    /// Sets the value; nothing changes if it is refused.
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

/// When a setting may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// At any time.
    Always,
    /// At start.
    Start,
    /// At start; Redis calls it protected because it says where files are written.
    Protected,
}

/// How a value is written in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One word as it is.
    Word,
    /// Text between quotes.
    Text,
    /// A number of bytes.
    Bytes,
    /// Several words.
    Words,
}

pub(super) type Get = fn(&Config) -> String;
pub(super) type Set = fn(&mut Config, &str) -> Result<(), String>;

pub(super) const fn always(name: &'static str, get: Get, set: Set) -> Parameter {
    Parameter { name, change: Change::Always, form: Form::Word, get, set }
}

pub(super) const fn at_start(name: &'static str, get: Get, set: Set) -> Parameter {
    Parameter { name, change: Change::Start, form: Form::Word, get, set }
}

pub(super) const fn several_words(parameter: Parameter) -> Parameter {
    Parameter { form: Form::Words, ..parameter }
}

pub(super) const fn text(parameter: Parameter) -> Parameter {
    Parameter { form: Form::Text, ..parameter }
}

pub(super) const fn size(parameter: Parameter) -> Parameter {
    Parameter { form: Form::Bytes, ..parameter }
}

/// A setting that Redis has and that cannot be other than it is here.
macro_rules! fixed {
    ($change:ident, $name:literal, $value:literal) => {
        $change(
            $name,
            |_| $value.to_owned(),
            |_, value| {
                if value.eq_ignore_ascii_case($value) {
                    Ok(())
                } else {
                    Err(concat!("this server only has '", $value, "'").to_owned())
                }
            },
        )
    };
}
pub(super) use fixed;

/// Stores a parsed value in a field.
macro_rules! store {
    ($($field:ident).+, $parse:expr) => {
        |config: &mut Config, value: &str| {
            config.$($field).+ = $parse(value)?;
            Ok(())
        }
    };
}

pub(super) use store;
