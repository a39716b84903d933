#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::targets::h2_frames::h2_frames(data));
