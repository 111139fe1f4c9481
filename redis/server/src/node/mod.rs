//! This one process: its settings, users, clock, figures and signals. It knows no sockets.

pub(crate) mod acl;
pub(crate) mod archive;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod machine;
pub(crate) mod meter;
pub(crate) mod process;
