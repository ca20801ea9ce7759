//! Any bytes as a prefetch profile: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_image::profile::Profile;

/// Reads the bytes as a profile, if they are a text.
///
/// # Panics
/// If an error names no line of the text, a profile is not read as it is written, or memory grows
/// beyond the bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parsed = None;
    let used = measure(|| parsed = Some(Profile::parse(text)));
    let most = (64 << 10) + 64 * text.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, text.len());
    match parsed.expect("it was read") {
        Ok(profile) => assert_eq!(Profile::parse(&profile.text()), Ok(profile)),
        Err((line, what)) => {
            // The second line may be the one that is missing.
            let lines = text.lines().count().max(2);
            assert!((1..=lines).contains(&line), "line {line} of {lines}: {what}");
            assert!(what.len() < 400 && !what.contains('\n'), "{what:?}");
        }
    }
}
