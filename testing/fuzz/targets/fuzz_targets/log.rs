//! Fuzzes the readers of the log; the body is in `stillframe-fuzz`, where tests run it, too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stillframe_fuzz::log(data));
