//! Any bytes as a policy file of `tune`: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_core::control;
use forebay_live::policy_file::{PolicyFile, PolicyFileError};

/// Reads the bytes as a policy file, if they are a text.
///
/// # Panics
/// If an error names no line of the text, or a policy breaks its bounds, or memory grows beyond the
/// bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parsed = None;
    let used = measure(|| parsed = Some(PolicyFile::parse(text, "file.toml")));
    let most = (64 << 10) + 256 * text.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, text.len());
    match parsed.expect("it was read") {
        Ok(policy) => {
            assert!(policy.bounds.floor <= policy.bounds.cap, "{policy:?}");
            let controller = control::Spec::parse(&policy.controller);
            assert!(controller.is_ok(), "the daemon takes it: {policy:?}");
            let over = PolicyFile::parse_over(policy.clone(), "", "file.toml");
            assert_eq!(over, Ok(policy), "an empty file changes nothing");
        }
        Err(
            PolicyFileError::Syntax { place, .. }
            | PolicyFileError::UnknownKey { place, .. }
            | PolicyFileError::BadValue { place, .. },
        ) => {
            let line = place.strip_prefix("file.toml:").and_then(|line| line.parse().ok());
            let lines = 1 + text.matches('\n').count();
            assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{place} of {lines}");
        }
    }
}
