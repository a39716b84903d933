#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::targets::h2_head::h2_head(data));
