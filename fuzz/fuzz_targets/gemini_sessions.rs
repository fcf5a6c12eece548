#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    convoke_fuzz_targets::gemini_sessions(bytes);
});
