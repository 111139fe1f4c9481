//! stub
use stillframe::Algorithm;

use super::Table;

/// Adds the commands of this module.
pub(crate) fn register<A: Algorithm>(_table: &mut Table<A>) {}
