//! Any bytes, read as texts and pages of the kernel's trace buffer.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-live/tests/it/any_bytes/trace_pages.rs"]
mod trace_pages;

fuzz_target!(|bytes: &[u8]| trace_pages::survives(bytes));
