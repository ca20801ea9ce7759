//! Any bytes, read as texts of `/proc` and `/sys`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-live/tests/it/any_bytes/kernel_texts.rs"]
mod kernel_texts;

fuzz_target!(|bytes: &[u8]| kernel_texts::survives(bytes));
