//! Sans-io codec of the Redis serialization protocol, RESP2 and RESP3.

#![forbid(unsafe_code)]
