//! Must fail: a fuzzer that does not find the bug planted here proves nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stillframe_fuzz::canary(data, cfg!(fuzzing)));
