#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    penstock_fuzzing::onion_service(input);
});
