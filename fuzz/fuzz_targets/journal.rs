//! Any bytes, read and repaired as the journal of `tune`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-live/tests/it/any_bytes/journal.rs"]
mod journal;

fuzz_target!(|bytes: &[u8]| journal::survives(bytes));
