//! Parsers under the corpus of their fuzz target.

use std::fs;
use std::path::Path;

mod jobs;
mod machine;
mod recording;

/// Runs the committed inputs of a target, each also cut at 64 places.
fn replay(target: &str, survives: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is committed") {
        let input = fs::read(entry.expect("it is listed").path()).expect("it can be read");
        survives(&input);
        (0..64).for_each(|part| survives(&input[..input.len() * part / 64]));
        inputs += 1;
    }
    assert!(inputs > 0, "nothing in {}", folder.display());
}

#[test]
fn job_files_are_read_from_any_bytes() {
    replay("jobs", jobs::survives);
}

#[test]
fn machine_files_are_read_from_any_bytes() {
    replay("settings", machine::survives);
}

#[test]
fn recordings_of_a_mount_are_read_from_any_bytes() {
    replay("recordings", recording::survives);
}
