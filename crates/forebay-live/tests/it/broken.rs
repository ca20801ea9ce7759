//! Recorded machines with every kind of damage: advice, never a panic.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::time::Instant;
use forebay_live::advise::{Finding, Gatherer, RULES, Seen, advise};
use forebay_live::tree::Tree;

/// What is put in place of a file's text, by its bytes.
const DAMAGE: [&[u8]; 5] = [
    b"",
    b"18446744073709551615\n",
    b"-1",
    b"\xff\xfe\x00binary\xc3\x28",
    b"some avg10=x total=\n: : : -\n[\n((((",
];

fn machines() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut machines: Vec<PathBuf> = entries.collect();
    machines.sort();
    assert!(machines.len() >= 6);
    machines
}

fn judged(root: &Path) -> (Seen, Vec<Finding>) {
    let mut gatherer = Gatherer::new(&Tree::recorded(root).unwrap());
    // A watched machine's rules are other ones; the samples stand still.
    if root.to_string_lossy().contains("watched") {
        for second in 1..4 {
            let _ = gatherer.tick(Instant(second * 1_000_000_000));
        }
    }
    let seen = gatherer.finish(Instant(4_000_000_000));
    let findings = advise(&seen);
    for finding in &findings {
        assert!(RULES.iter().any(|rule| rule.id == finding.id), "{}", finding.id);
        assert!(!finding.summary.is_empty() && !finding.evidence.is_empty(), "{finding:?}");
        assert!(finding.gain.as_ref().is_none_or(|gain| !gain.basis.is_empty()), "{finding:?}");
        assert!(finding.remedy.iter().all(|line| !line.contains('\n')), "{finding:?}");
    }
    (seen, findings)
}

/// A copy with its links, to be damaged.
fn copy(from: &Path, to: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, place) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), place).unwrap();
        } else if kind.is_dir() {
            files.extend(copy(&entry.path(), &place));
        } else {
            fs::copy(entry.path(), &place).unwrap();
            files.push(place);
        }
    }
    files
}

#[test]
fn a_damaged_file_is_a_gap_and_the_rest_is_judged_all_the_same() {
    for machine in machines() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["still", "watched"] {
            let root = scratch.path().join(name);
            for file in copy(&machine, &root) {
                let whole = fs::read(&file).unwrap();
                for damage in DAMAGE {
                    fs::write(&file, damage).unwrap();
                    judged(&root);
                }
                fs::write(&file, &whole[..whole.len() / 2]).unwrap();
                judged(&root);
                fs::remove_file(&file).unwrap();
                judged(&root);
                fs::write(&file, whole).unwrap();
            }
        }
    }
}

#[test]
fn every_number_at_once_may_be_unbelievable() {
    for machine in machines() {
        for number in ["0", "1", "18446744073709551615"] {
            let scratch = tempfile::tempdir().unwrap();
            for file in copy(&machine, scratch.path()) {
                let text = String::from_utf8(fs::read(&file).unwrap()).unwrap();
                // Device numbers stay, or nothing is found to be judged.
                if file.ends_with("dev") || file.ends_with("mountinfo") || file.ends_with("maps") {
                    continue;
                }
                let words = text.split(' ').map(|word| {
                    let end = word.trim_end().len();
                    let (word, rest) = word.split_at(end);
                    let replaced = word.parse::<u64>().is_ok();
                    format!("{}{rest}", if replaced { number } else { word })
                });
                fs::write(&file, words.collect::<Vec<_>>().join(" ")).unwrap();
            }
            judged(scratch.path());
        }
    }
}

#[test]
fn a_device_that_vanishes_leaves_the_others() {
    let machine = machines().into_iter().find(|path| path.ends_with("debian-12-hdd-ssd")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    copy(&machine, scratch.path());
    let devices = |root: &Path| judged(root).0.machine.devices;
    let before = devices(scratch.path());
    // Its link is still there, and its folder is not.
    let folder = fs::canonicalize(scratch.path().join("sys/block/sda")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    let after = devices(scratch.path());
    assert_eq!((before.len(), after.len()), (3, 3));
    let left = after.iter().find(|device| device.number.to_string() == "8:0").unwrap();
    assert!(left.queue.is_none() && left.bdi.is_some());
    assert!(after.iter().any(|device| device.name == "sdb" && device.queue.is_some()));
}
