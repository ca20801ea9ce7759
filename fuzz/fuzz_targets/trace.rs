//! Any bytes, read as a trace of any format, written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-trace/tests/it/any_trace.rs"]
mod any_trace;

fuzz_target!(|bytes: &[u8]| any_trace::survives(bytes));
