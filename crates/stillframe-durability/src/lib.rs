//! Checkpoints and recovery for state held in stillframe memory.

#![forbid(unsafe_code)]
