//! Any bytes as a recording of a mount: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_core::serving::Recording;

/// Reads the bytes as a recording, if they are a text.
///
/// # Panics
/// If an error names no line of the text, a recording is not read as it is written, or memory grows
/// beyond the bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parsed = None;
    let used = measure(|| parsed = Some(Recording::parse(text)));
    let most = (64 << 10) + 16 * text.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, text.len());
    match parsed.expect("it was read") {
        Ok(recording) => {
            let mut written = Recording::header(recording.image);
            recording.reads.iter().for_each(|read| written += &format!("{read}\n"));
            assert_eq!(Recording::parse(&written), Ok(recording));
        }
        Err(error) => {
            let lines = text.lines().count().max(1);
            // The second line may be the one that is missing.
            assert!((1..=lines.max(2)).contains(&error.line), "{error} of {lines} lines");
        }
    }
}
