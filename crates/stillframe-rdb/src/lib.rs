//! Sans-io codec of the Redis RDB file format.

#![forbid(unsafe_code)]
