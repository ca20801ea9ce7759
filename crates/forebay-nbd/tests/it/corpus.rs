//! The corpus of the fuzz target, replayed, and random changes of it.

use std::fs;
use std::path::Path;

use crate::talk::survives;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/nbd");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("the corpus can be read").path())
        .collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("the corpus can be read")).collect()
}

#[test]
fn the_corpus_is_survived() {
    let inputs = corpus();
    assert!(inputs.len() >= 30, "the corpus is committed");
    inputs.iter().for_each(|input| survives(input));
}

#[test]
fn random_changes_of_the_corpus_and_random_bytes_are_survived() {
    let inputs = corpus();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    for round in 0..20_000 {
        let mut bytes = inputs[below(inputs.len())].clone();
        if round % 10 == 0 {
            bytes = (0..below(300)).map(|_| below(256) as u8).collect();
        }
        for _ in 0..=below(4) {
            let at = below(bytes.len() + 1);
            match below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, below(256) as u8),
                2 if at < bytes.len() => bytes[at] = below(256) as u8,
                // A part comes again.
                _ => {
                    let part = bytes[at..bytes.len().min(at + 1 + below(60))].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        survives(&bytes);
    }
}
