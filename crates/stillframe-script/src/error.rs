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
    /// The first line has an unknown option.
    #[error("Unknown lua shebang option: {0}")]
    Option(String),
    /// The first line has an unknown flag.
    #[error("Unexpected flag in script shebang: {0}")]
    Flag(String),
}

/// Why a script ended early: the text of the error reply, its code first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// The text, such as `ERR user_script:1: x script: 98.., on @user_script:1.`
    pub text: Vec<u8>,
    /// The error is that of a request of the script, which has been counted.
    pub counted: bool,
}
