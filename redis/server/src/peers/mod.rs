//! Other servers: what this one knows of its replicas, its primary and its group. What changes the
//! data or several parts of the server with them is in `state` and `turn`.

pub(crate) mod group;
pub(crate) mod replication;
