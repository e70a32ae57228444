#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trireme_fuzz::kinds::check(data));
