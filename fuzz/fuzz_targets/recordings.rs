//! Any bytes, read as a prefetch profile and as a recording of a mount.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/forebay-image/tests/it/any_profile.rs"]
mod any_profile;

#[path = "../../crates/forebay-sim/tests/it/any_bytes/recording.rs"]
mod recording;

fuzz_target!(|bytes: &[u8]| {
    any_profile::survives(bytes);
    recording::survives(bytes);
});
