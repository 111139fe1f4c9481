//! Numbers in arguments, read and printed as Redis does.

pub mod doubles;
pub(crate) mod extended;
pub mod integers;
mod natural;
