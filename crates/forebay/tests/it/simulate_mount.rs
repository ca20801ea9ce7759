//! `forebay simulate --mount`: two recordings of a real mount, replayed without one.
//!
//! Both were made with `forebay mount --policy off --window ours --record FILE` of an image of
//! `forebay image make`. *Random reader*: 512 reads of 4 KiB of four files of 12 MiB, at random
//! offsets. *Program start*: a shell with twelve short programs, all of them `/bin/busybox` of
//! Debian 12. Its image is too large to be kept here, so a file with the same segments and length
//! and other bytes replaces it.

use std::fs;

use forebay_image::cramfs::write::{Settings, Tree, write};
use forebay_image::profile::Fingerprint;
use serde_json::Value;

use crate::support::{Scene, assert_refused, stderr, stdout};

/// A recording and the image that it is replayed on.
fn scene(files: &[(String, Vec<u8>)], recording: &str) -> Scene {
    let scene = Scene::new();
    for (path, bytes) in files {
        let file = scene.path("tree").join(path);
        let folder = file.parent().expect("it lies in a folder");
        fs::create_dir_all(folder).expect("a folder can be made");
        fs::write(&file, bytes).expect("a file can be written");
    }
    let tree = Tree::scan(&scene.path("tree")).expect("the tree can be read");
    let image = write(&tree, &Settings::default(), &mut |_| {}).expect("the tree fits").image;
    fs::write(scene.path("image"), &image).expect("the image can be written");
    let source: std::sync::Arc<dyn forebay_image::Source> = std::sync::Arc::new(image);
    let opened = forebay_image::open(&source, forebay_image::Options::default());
    let of = Fingerprint::of(&*opened.expect("it is an image")).expect("it is in memory");
    let (len, hash) = (of.bytes, of.hash);
    // The requests of the recording, of the image that was made here.
    let requests: Vec<&str> = recording.lines().skip(2).collect();
    let text = format!("forebay-reads 1\nimage {len} {hash:016x}\n{}\n", requests.join("\n"));
    scene.file("recording", text)
}

fn random_reader() -> Scene {
    let files = (0..4).map(|number| (format!("data{number}"), noise(number + 1, 12 << 20)));
    let files: Vec<(String, Vec<u8>)> = files.collect();
    scene(&files, include_str!("recordings/random_reader.txt"))
}

fn program_start() -> Scene {
    const SEGMENTS: &[(u64, u64, u32)] =
        &[(0, 0x6e0, 4), (0x1000, 0x18_3989, 5), (0x18_5000, 0x5_5017, 4), (0x1d_a708, 0x9008, 6)];
    let mut bytes = noise(1, 1_982_256);
    // Half of each KiB is zeros, so that it packs as a program does.
    bytes.chunks_mut(512).skip(1).step_by(2).for_each(|half| half.fill(0));
    let header = program(SEGMENTS);
    bytes[..header.len()].copy_from_slice(&header);
    let files = [("bin/busybox".to_owned(), bytes)];
    scene(&files, include_str!("recordings/program_start.txt"))
}

/// Bytes that no codec makes smaller.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let (mut random, mut bytes) = (seed, Vec::with_capacity(len));
    for _ in 0..len / 8 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(STEP);
        bytes.extend((random ^ random >> 29).to_le_bytes());
    }
    bytes.resize(len, 0);
    bytes
}

const STEP: u64 = 1_442_695_040_888_963_407;

/// The headers of a program of 64 bits: offset, bytes in the file and flags of its segments.
fn program(segments: &[(u64, u64, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (bytes[20], bytes[32], bytes[52], bytes[54]) = (1, 64, 64, 56);
    bytes[56] = u8::try_from(segments.len()).expect("few segments");
    for (offset, len, flags) in segments {
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(len.to_le_bytes());
        bytes.extend([0; 16]);
    }
    bytes
}

/// The rows of a replay under `off` and the default rule, which is twice the same.
fn replayed(scene: &Scene, more: &str) -> [Value; 2] {
    let line = format!(
        "simulate --mount recording --image image --format json --policy off \
         --policy selective-then-idle {more}"
    );
    let run = || {
        let output = scene.command(&line).output().expect("the program runs");
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{line}");
        stdout(&output).to_owned()
    };
    let text = run();
    assert_eq!(text, run(), "two runs differ");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("it is JSON");
    rows.try_into().expect("a row for each policy")
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"))
}

#[test]
fn the_default_brings_in_hardly_more_for_a_random_reader_than_off() {
    let scene = random_reader();
    for machine in ["vm-2026", "ssd-2014", "hdd-2026"] {
        let [off, default] = replayed(&scene, &format!("--machine {machine}"));
        assert_eq!(number(&off, "recorded"), 512.0);
        assert_eq!(number(&off, "errors") + number(&default, "errors"), 0.0);
        let [least, found] = [&off, &default].map(|row| number(row, "image_bytes"));
        assert!(found <= 1.1 * least, "{machine}: {found} bytes of the image, off {least}");
    }
}

#[test]
fn the_default_starts_a_program_with_fewer_requests_and_sooner_than_off() {
    let scene = program_start();
    for machine in ["vm-2026", "ssd-2014", "hdd-2026"] {
        let [off, default] = replayed(&scene, &format!("--machine {machine}"));
        for key in ["reads", "total_ms", "image_requests"] {
            let [most, found] = [&off, &default].map(|row| number(row, key));
            assert!(found < most, "{machine}: {key} {found}, off {most}");
        }
    }
}

#[test]
fn an_image_inside_a_larger_file_is_replayed_the_same() {
    let scene = program_start();
    let alone = replayed(&scene, "");
    let image = fs::read(scene.path("image")).expect("it was written");
    let larger = [&vec![7; 5 << 10][..], &image].concat();
    fs::write(scene.path("image"), larger).expect("it can be written");
    assert_eq!(replayed(&scene, "--image-offset 5k"), alone);
}

#[test]
fn what_is_no_recording_of_the_image_is_refused_by_its_line() {
    let scene = program_start();
    let good = fs::read_to_string(scene.path("recording")).expect("it was written");
    let header: String = good.lines().take(2).map(|line| format!("{line}\n")).collect();
    for (text, words) in [
        ("forebay-reads 2\n".to_owned(), "line 1: "),
        ("forebay-reads 1\nimage 5 0\n".to_owned(), "a recording of another image"),
        (format!("{header}read 1 2 3\n"), "line 3: "),
        (format!("{header}\nread 1 2 3 4 0 4096\n"), "line 4: node 4 is no regular file"),
        (format!("{header}read 1 2 3 92 1982255 4096\n"), "line 3: it reaches beyond the end"),
    ] {
        fs::write(scene.path("recording"), &text).expect("it can be written");
        let line = "simulate --mount recording --image image";
        let output = scene.command(line).output().expect("the program runs");
        assert_refused(line, &output);
        assert!(stderr(&output).contains(words), "{text}: {}", stderr(&output));
    }
}

#[test]
fn a_recording_without_its_end_is_replayed_with_a_note() {
    let scene = program_start();
    let good = fs::read_to_string(scene.path("recording")).expect("it was written");
    let cut: String = good.lines().take(9).map(|line| format!("{line}\n")).collect();
    fs::write(scene.path("recording"), cut).expect("it can be written");
    let line = "simulate --mount recording --image image --json";
    let output = scene.command(line).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("note: recording has no end"), "{}", stderr(&output));
    let rows: Value = serde_json::from_str(stdout(&output)).expect("it is JSON");
    assert_eq!(number(&rows[0], "recorded"), 7.0);
}

#[test]
fn a_recording_that_is_given_as_jobs_is_told_apart() {
    let scene = program_start();
    let line = "simulate recording";
    let output = scene.command(line).output().expect("the program runs");
    assert_refused(line, &output);
    assert!(stderr(&output).contains("a recording of a mount"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--mount RECORDING"), "{}", stderr(&output));
}
