//! Parsers under the corpus of their fuzz target, and under random changes of it.

use std::fs;
use std::path::Path;

mod journal;
mod kernel_texts;
mod policy_file;
mod trace_pages;

/// The committed inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "nothing in {}", folder.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Runs the inputs of a target, then each of them with a few bytes changed, cut or doubled.
fn replay(target: &str, survives: fn(&[u8])) {
    let inputs = corpus(target);
    inputs.iter().for_each(|input| survives(input));
    // Numbers of a linear congruence (Knuth's MMIX), so that every run sees the same.
    let mut state = 1_u64;
    let mut below = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        usize::try_from(state >> 33).unwrap() % most.max(1)
    };
    for round in 0..CHANGES {
        let mut input = inputs[round % inputs.len()].clone();
        for _ in 0..=below(4) {
            let at = below(input.len());
            match below(3) {
                0 => input.truncate(at),
                1 => input.extend_from_within(at..),
                _ => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << below(8)),
            }
        }
        survives(&input);
    }
}

/// Changed inputs of a target.
const CHANGES: usize = 400;

#[test]
fn the_journal_is_read_from_any_bytes() {
    replay("journal", journal::survives);
}

#[test]
fn texts_of_the_kernel_are_read_from_any_bytes() {
    replay("kernel_texts", kernel_texts::survives);
}

#[test]
fn policy_files_are_read_from_any_bytes() {
    replay("settings", policy_file::survives);
}

#[test]
fn pages_of_the_trace_buffer_are_read_from_any_bytes() {
    replay("trace_pages", trace_pages::survives);
}
