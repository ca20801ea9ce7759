//! Any bytes as a text of `/proc` or `/sys`: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_live::machine::mounts;
use forebay_live::number::DevNumber;
use forebay_live::process;
use forebay_live::signal::{Malformed, Text, bdi, diskstats, meminfo, pressure, vmstat};

/// Takes the first byte as which file it is, and the rest as its contents.
///
/// # Panics
/// If an error names no line of the text or says more than a part of it, one line hides another, or
/// memory grows beyond the bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let text = match Text::of_bytes("file", rest) {
        Ok(text) => text,
        Err(error) => return clear(&error, rest),
    };
    let used = measure(|| read(choice, text));
    let most = (64 << 10) + 256 * rest.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, rest.len());
}

fn read(choice: u8, text: Text<'_>) {
    let number = DevNumber { major: 8, minor: 0 };
    let bytes = text.text.as_bytes();
    let lines = || text.text.lines().filter(|line| !line.is_empty()).count();
    let mut said: Vec<Malformed> = Vec::new();
    match choice % 10 {
        0 => {
            let found: Vec<_> = diskstats::parse(text).collect();
            assert_eq!(found.len(), lines(), "a line is hidden");
            said.extend(found.into_iter().filter_map(Result::err));
        }
        1 => {
            let found: Vec<_> = mounts::parse(text).collect();
            assert_eq!(found.len(), lines(), "a line is hidden");
            said.extend(found.into_iter().filter_map(Result::err));
        }
        2 => said.extend(meminfo::parse(text).err()),
        3 => said.extend(vmstat::parse(text).err()),
        4 => said.extend(bdi::parse(number, text).err()),
        5 => said.extend(pressure::parse(text).err()),
        6 => said.extend(process::parse_stat(text).err()),
        7 => said.extend(process::parse_io(text).err()),
        8 => {
            let mapped = process::parse_maps(text.text).count();
            assert!(mapped <= lines(), "{mapped} mappings");
        }
        _ => said.extend(text.only_number("number").err()),
    }
    said.iter().for_each(|error| clear(error, bytes));
}

/// An error is one line that names the file, a line of it, and a part of what stands there.
fn clear(error: &Malformed, bytes: &[u8]) {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    match error {
        Malformed::Field { line, .. } | Malformed::Bytes { line, .. } => {
            assert!((1..=lines).contains(line), "line {line} of {lines}");
        }
        Malformed::Missing { field, .. } => assert!(!field.is_empty()),
    }
    let said = error.to_string();
    assert!(said.starts_with("file") && said.len() < 400, "{said:?}");
    assert!(!said.contains(char::is_control), "{said:?}");
}
