//! Any bytes, read as a policy file of `tune` and as a machine file.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-sim/tests/it/any_bytes/machine.rs"]
mod machine;

#[path = "../../crates/forebay-live/tests/it/any_bytes/policy_file.rs"]
mod policy_file;

fuzz_target!(|bytes: &[u8]| {
    machine::survives(bytes);
    policy_file::survives(bytes);
});
