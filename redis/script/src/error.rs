//! Errors of scripts, with the texts of Redis.

use thiserror::Error;

/// Why a script is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The source is not Lua.
    #[error("Error compiling script (new function): {0}")]
    Syntax(String),
    /// The first line names no engine or an unknown one.
    #[error("Unexpected engine in script shebang: {0}")]
    Engine(String),
    /// The first line does not end.
    #[error("Invalid script shebang")]
    Shebang,
    /// A quote in the first line does not end.
    #[error("Invalid engine in script shebang")]
    Quotes,
    /// The first line has an unknown option.
    #[error("Unknown lua shebang option: {0}")]
    Option(String),
    /// The first line has an unknown flag.
    #[error("Unexpected flag in script shebang: {0}")]
    Flag(String),
}

/// Why a library is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// It does not begin with `#!`.
    #[error("Missing library metadata")]
    Missing,
    /// The first line does not end.
    #[error("Invalid library metadata")]
    Line,
    /// The first line has something that is not known.
    #[error("Invalid metadata value given: {0}")]
    Option(String),
    /// The first line has two names.
    #[error("Invalid metadata value, name argument was given multiple times")]
    Names,
    /// The first line has no name.
    #[error("Library name was not given")]
    Nameless,
    /// The name has other characters than it may.
    #[error(
        "Library names can only contain letters, numbers, or underscores(_) and must be at least \
         one character long"
    )]
    Name,
    /// The first line names another engine than Lua.
    #[error("Engine '{0}' not found")]
    Engine(String),
    /// There is a library of this name.
    #[error("Library '{0}' already exists")]
    Exists(String),
    /// The source is not Lua.
    #[error("Error compiling function: {0}")]
    Syntax(String),
    /// The source raised an error.
    #[error("Error registering functions: {0}")]
    Failed(String),
    /// It has no functions.
    #[error("No functions registered")]
    Empty,
    /// Another library has a function of this name.
    #[error("Function {0} already exists")]
    FunctionExists(String),
}

/// Why a script ended early: the text of the error reply, its code first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// The text, such as `ERR user_script:1: x script: 98.., on @user_script:1.`
    pub text: Vec<u8>,
    /// The error is that of a request of the script, which has been counted.
    pub counted: bool,
}
