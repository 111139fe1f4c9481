//! The token that proves a point of consistency.

use std::marker::PhantomData;

/// Proof that the writer stands at a point of consistency: an instant at which the state is valid
/// by the application's own rules (the end of a tick, between two commands, after a commit).
///
/// Only the application knows its rules, so only it can say so: [`Point::declare`] is the one way
/// to make a token, and [`begin`](crate::Algorithm::begin) consumes it. The token is neither `Send`
/// nor `Clone`, so it cannot be kept by another thread or used for two images.
#[derive(Debug)]
pub struct Point {
    not_send: PhantomData<*const ()>,
}

impl Point {
    /// States that every action begun by this thread on the state has ended.
    #[must_use]
    pub fn declare() -> Self {
        Self { not_send: PhantomData }
    }
}
