//! Redis-protocol server on a stillframe keyspace.

#![forbid(unsafe_code)]
