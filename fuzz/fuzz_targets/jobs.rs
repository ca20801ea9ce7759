//! Any bytes, read as a job file of fio whose jobs begin.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-sim/tests/it/any_bytes/jobs.rs"]
mod jobs;

fuzz_target!(|bytes: &[u8]| jobs::survives(bytes));
