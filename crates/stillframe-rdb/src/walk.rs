//! Steps over values that are no collections.
//!
//! ```text
//! string                a string
//! stream                length, (16 B id, listpack) length, last id
//!                       [second form: first id, greatest deleted id, entries added]
//!                       length, groups: name, last id [entries read], pending entries, consumers
//! module                id, then (op, operand) until op 0
//! ```

use std::io::Read;

use crate::DecodeError;
use crate::format::{TYPE_MODULE, TYPE_MODULE_PRERELEASE, TYPE_STRING};
use crate::source::{Source, damaged};

/// The types that keys are counted by.
pub const VALUE_TYPES: [&str; 7] =
    ["string", "list", "set", "sorted set", "hash", "stream", "module"];

/// The index in [`VALUE_TYPES`] of type `kind`, which stands at `at`.
pub(crate) fn number_of_type(kind: u8, at: u64) -> Result<usize, DecodeError> {
    Ok(match kind {
        TYPE_STRING => 0,
        1 | 10 | 14 | 18 => 1,
        2 | 11 => 2,
        3 | 5 | 12 | 17 => 3,
        4 | 9 | 13 | 16 => 4,
        15 | 19 => 5,
        TYPE_MODULE => 6,
        TYPE_MODULE_PRERELEASE => {
            let what = "a value of a module of a pre-release of Redis 4".to_owned();
            return Err(DecodeError::UnsupportedSection { offset: at, what });
        }
        _ => {
            let text = format!("byte 0x{kind:02x} is no type of value that Redis 7.0 writes");
            return Err(damaged(at, text));
        }
    })
}

/// Steps over a value of type `kind`, known to [`number_of_type`], that is no collection.
pub(crate) fn value<R: Read>(source: &mut Source<R>, kind: u8) -> Result<(), DecodeError> {
    match kind {
        15 => stream(source, false),
        19 => stream(source, true),
        TYPE_MODULE => module_value(source),
        _ => source.skip_string(),
    }
}

fn stream<R: Read>(source: &mut Source<R>, second_form: bool) -> Result<(), DecodeError> {
    for _ in 0..source.length("the number of nodes")? {
        source.skip_string()?; // the first id
        source.skip_string()?; // a listpack
    }
    // Length and last id; then first id, greatest deleted id and entries added.
    for _ in 0..if second_form { 8 } else { 3 } {
        source.length("a number of a stream")?;
    }
    for _ in 0..source.length("the number of groups")? {
        source.skip_string()?;
        for _ in 0..if second_form { 3 } else { 2 } {
            source.length("a number of a group")?;
        }
        for _ in 0..source.length("the number of pending entries")? {
            source.array::<16>("an id")?;
            source.array::<8>("a time")?;
            source.length("a number of deliveries")?;
        }
        for _ in 0..source.length("the number of consumers")? {
            source.skip_string()?;
            source.array::<8>("a time")?;
            for _ in 0..source.length("the number of pending entries")? {
                source.array::<16>("an id")?;
            }
        }
    }
    Ok(())
}

/// What a module wrote: its type's id, then operands that say themselves what they are.
pub(crate) fn module_value<R: Read>(source: &mut Source<R>) -> Result<(), DecodeError> {
    source.length("the type of a module")?;
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
