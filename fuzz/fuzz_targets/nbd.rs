//! Any bytes, received by both sides of the NBD protocol.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-nbd/tests/it/talk.rs"]
mod talk;

fuzz_target!(|bytes: &[u8]| talk::survives(bytes));
