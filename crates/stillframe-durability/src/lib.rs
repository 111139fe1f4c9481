//! Checkpoints and recovery for state held in stillframe memory.

#![forbid(unsafe_code)]

mod checkpoint;

pub use checkpoint::damage::Damage;
