#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trireme_fuzz::selectors::check(data));
