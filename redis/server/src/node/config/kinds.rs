//! Kinds of values: how text is read and checked, and how a value is shown.

use std::fmt::Display;

use super::error::ValueError;
use super::values::{number, parse_size, switch, yes_no};

/// How a value is written in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One word as it is.
    Word,
    /// Text between quotes.
    Text,
    /// A number of bytes.
    Bytes,
    /// Several words.
    Words,
}

/// A kind of value.
pub(crate) trait Kind<T> {
    /// How it is written in a file.
    fn form(&self) -> Form {
        Form::Word
    }

    /// Reads a value; `before` is the one in force.
    ///
    /// # Errors
    /// Why the setting does not take it.
    fn read(&self, text: &str, before: &T) -> Result<T, ValueError>;

    /// The value as CONFIG GET shows it.
    fn show(&self, value: &T) -> String;
}

/// A whole number within bounds.
pub(super) struct Whole<T>(T, T);

pub(super) fn whole<T>(least: T, most: T) -> Whole<T> {
    Whole(least, most)
}

impl<T: TryFrom<i64> + PartialOrd + Display + Copy> Kind<T> for Whole<T> {
    fn read(&self, text: &str, _: &T) -> Result<T, ValueError> {
        number(text, self.0, self.1)
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// A number of bytes within bounds.
pub(super) struct Bytes<T>(T, T);

pub(super) fn bytes<T>(least: T, most: T) -> Bytes<T> {
    Bytes(least, most)
}

impl<T: TryFrom<u64> + PartialOrd + Display + Copy> Kind<T> for Bytes<T> {
    fn form(&self) -> Form {
        Form::Bytes
    }

    fn read(&self, text: &str, _: &T) -> Result<T, ValueError> {
        let bytes = T::try_from(parse_size(text)?).ok();
        let within = bytes.filter(|bytes| (self.0..=self.1).contains(bytes));
        within.ok_or_else(|| ValueError::out_of_bounds(self.0, self.1))
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// `yes` or `no`.
pub(super) struct YesNo;

pub(super) fn yes_or_no() -> YesNo {
    YesNo
}

impl Kind<bool> for YesNo {
    fn read(&self, text: &str, _: &bool) -> Result<bool, ValueError> {
        switch(text)
    }

    fn show(&self, value: &bool) -> String {
        yes_no(*value)
    }
}

/// Any text.
pub(super) struct Text;

pub(super) fn text() -> Text {
    Text
}

impl Kind<String> for Text {
    fn form(&self) -> Form {
        Form::Text
    }

    fn read(&self, text: &str, _: &String) -> Result<String, ValueError> {
        Ok(text.to_owned())
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }
}

/// One of a few words, in any case; of two for one value the first is shown.
pub(super) struct OneOf<T, const N: usize>([(&'static str, T); N]);

pub(super) fn one_of<T, const N: usize>(words: [(&'static str, T); N]) -> OneOf<T, N> {
    OneOf(words)
}

impl<T: Copy + PartialEq, const N: usize> Kind<T> for OneOf<T, N> {
    fn read(&self, text: &str, _: &T) -> Result<T, ValueError> {
        let found = self.0.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found
            .map(|&(_, value)| value)
            .ok_or_else(|| ValueError::none_of(&self.0.each_ref().map(|(word, _)| *word)))
    }

    fn show(&self, value: &T) -> String {
        self.0.iter().find(|(_, it)| it == value).map_or("", |(word, _)| word).to_owned()
    }
}

/// A kind with two functions of its own.
pub(super) struct By<T> {
    form: Form,
    read: fn(&str) -> Result<T, ValueError>,
    show: fn(&T) -> String,
}

/// A word.
pub(super) fn word<T>(read: fn(&str) -> Result<T, ValueError>, show: fn(&T) -> String) -> By<T> {
    By { form: Form::Word, read, show }
}

/// Several words.
pub(super) fn words<T>(read: fn(&str) -> Result<T, ValueError>, show: fn(&T) -> String) -> By<T> {
    By { form: Form::Words, read, show }
}

/// Quoted text.
pub(super) fn quoted<T>(read: fn(&str) -> Result<T, ValueError>, show: fn(&T) -> String) -> By<T> {
    By { form: Form::Text, read, show }
}

/// A number of bytes.
pub(super) fn bytes_by<T>(
    read: fn(&str) -> Result<T, ValueError>,
    show: fn(&T) -> String,
) -> By<T> {
    By { form: Form::Bytes, read, show }
}

impl<T> Kind<T> for By<T> {
    fn form(&self) -> Form {
        self.form
    }

    fn read(&self, text: &str, _: &T) -> Result<T, ValueError> {
        (self.read)(text)
    }

    fn show(&self, value: &T) -> String {
        (self.show)(value)
    }
}
