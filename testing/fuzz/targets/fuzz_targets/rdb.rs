//! Fuzzes the decoder and the scanner of RDB files; the body is in `stillframe-fuzz`, where tests
//! run it, too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stillframe_fuzz::rdb(data));
