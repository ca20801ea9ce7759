//! Any bytes, opened as erofs and read.
#![no_main]

use forebay_image::{Options, erofs};
use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "the tests also damage images one bit at a time")]
#[path = "../../crates/forebay-image/tests/it/abuse.rs"]
mod abuse;

fuzz_target!(|bytes: &[u8]| {
    for lenient in [false, true] {
        let open: abuse::Open<'_> = &|source| erofs::open(source, Options { lenient });
        let _either = abuse::survives(bytes.to_vec(), "fuzzed bytes", open);
    }
});
