//! The check `tokens` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trireme_fuzz::within_a_second(trireme_fuzz::tokens::check, data));
