//! Texts in arguments.

pub mod glob;

/// The bytes before the first NUL, which is what Redis prints of an argument.
#[must_use]
pub fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
