//! What the lab asks of the machine: cores for its threads, and the memory of processes.

pub(crate) mod cores;
pub(crate) mod memory;
