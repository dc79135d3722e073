#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = penstock_fuzzing::handshake(input);
});
