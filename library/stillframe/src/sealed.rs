//! A mark that other crates cannot give.

/// What an algorithm's form is chosen by: one from elsewhere could lie, and what algorithms do is
/// trusted (see [`Algorithm`](crate::Algorithm)).
pub trait Sealed {}
