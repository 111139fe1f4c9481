//! What the examples that measure share.

use std::time::Duration;

use stillframe_keyspace::{IntText, Value};

/// Processor time of this thread.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The key of a number, 16 bytes.
pub(crate) fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut text = IntText::default();
    let text = Value::Int(number as i64).to_bytes(&mut text);
    key[16 - text.len()..].copy_from_slice(text);
    key
}
