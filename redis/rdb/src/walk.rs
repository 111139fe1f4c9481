//! Steps over values that are no collections.
//!
//! ```text
//! string                a string
//! module                id, then (op, operand) until op 0
//! metadata of modules   length, then (class 4 B, (op, operand) until op 0)
//! ```

use std::io::Read;

use crate::DecodeError;
use crate::format::*;
use crate::source::{Source, damaged};

/// The types that keys are counted by.
pub const VALUE_TYPES: [&str; 8] =
    ["string", "list", "set", "sorted set", "hash", "stream", "module", "array"];

/// The index in [`VALUE_TYPES`] of type `kind`, which stands at `at`.
pub(crate) fn number_of_type(kind: u8, dialect: Dialect, at: u64) -> Result<usize, DecodeError> {
    if type_name(kind, dialect).is_none() && !matches!(kind, TYPE_STRING | 6 | TYPE_MODULE) {
        return Err(unknown_type(kind, at));
    }
    Ok(match kind {
        TYPE_STRING => 0,
        1 | 10 | 14 | 18 => 1,
        2 | 11 | TYPE_SET_LISTPACK => 2,
        3 | 5 | 12 | 17 => 3,
        4 | 9 | 13 | 16 | 22..=25 | 29..=32 => 4,
        TYPE_MODULE => 6,
        TYPE_ARRAY => 7,
        TYPE_MODULE_PRERELEASE => {
            let what = "a value of a module of a pre-release of Redis 4".to_owned();
            return Err(DecodeError::UnsupportedSection { offset: at, what });
        }
        _ => 5,
    })
}

/// The byte at `at` is not the type of any value.
pub(crate) fn unknown_type(kind: u8, at: u64) -> DecodeError {
    damaged(at, format!("byte 0x{kind:02x} is no type of value that this server knows"))
}

/// Steps over a value of type `kind`, known to [`number_of_type`], that is no collection.
pub(crate) fn value<R: Read>(source: &mut Source<R>, kind: u8) -> Result<(), DecodeError> {
    match kind {
        TYPE_MODULE => module_value(source),
        _ => source.skip_string(),
    }
}

/// What a module wrote: its type's id, then operands that say themselves what they are.
pub(crate) fn module_value<R: Read>(source: &mut Source<R>) -> Result<(), DecodeError> {
    source.length("the type of a module")?;
    operands(source)
}

/// What modules keep beside a key.
pub(crate) fn metadata<R: Read>(source: &mut Source<R>) -> Result<(), DecodeError> {
    for _ in 0..source.length("the number of metadata of modules")? {
        source.array::<4>("the class of metadata of a module")?;
        operands(source)?;
    }
    Ok(())
}

fn operands<R: Read>(source: &mut Source<R>) -> Result<(), DecodeError> {
    loop {
        let at = source.offset();
        match source.length("the kind of a module's operand")? {
            0 => return Ok(()),
            1 | 2 => drop(source.length("an integer of a module")?),
            3 => drop(source.array::<4>("a float of a module")?),
            4 => drop(source.array::<8>("a double of a module")?),
            5 => source.skip_string()?,
            other => return Err(damaged(at, format!("{other} is no kind of a module's operand"))),
        }
    }
}
