//! Tests of commands, run by [`crate::harness`]: what a client would see, what is logged, and who
//! is told, without a server.
//!
//! - `transcripts/`: requests with the replies that redis-server gave.
//! - `notifications/`: requests with the events that redis-server told.
//! - A file by the name of a file of commands compares these with naive models, by seed.

mod transcripts;
