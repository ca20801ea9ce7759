//! Pages that are pushed to the kernel are the right ones, and the right bytes.

use std::fs::{self, File};
use std::thread;

use forebay_host::mount::Options;

use crate::mount_support::{Guard, Scene, plausible, skip};

#[test]
fn a_reader_of_a_folder_file_by_file_finds_the_next_one_there() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let folder = scene.source().join("many");
    fs::create_dir(&folder).unwrap();
    let names: Vec<String> = (0..30).map(|number| format!("many/file-{number:02}")).collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(scene.source().join(name), plausible(number as u64, 3000 * (1 + number % 5)))
            .unwrap();
    }
    scene.pack();
    let mount = scene.mount(&Options::default());
    // Like programs that walk trees: all names first, with their attributes.
    for entry in fs::read_dir(mount.path("many")).unwrap() {
        entry.unwrap().metadata().unwrap();
    }
    let same = |name: &str| {
        let bytes = fs::read(mount.path(name)).unwrap();
        assert!(bytes == fs::read(scene.source().join(name)).unwrap(), "{name}");
    };
    names[..6].iter().for_each(|name| same(name));
    assert!(reads(&mount) >= 6, "they could not be foreseen");
    until(|| mount.counter("pushes") > 0);
    let before = reads(&mount);
    same(&names[6]);
    assert_eq!(reads(&mount), before, "it was there");
    names[7..].iter().for_each(|name| same(name));
}

#[test]
fn a_program_that_is_mapped_finds_there_what_its_loader_touches_and_one_that_is_read_does_not() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let program = program();
    fs::write(scene.source().join("program"), &program).unwrap();
    scene.pack();
    let mount = scene.mount(&Options::default());
    assert!(fs::read(mount.path("program")).unwrap() == program);
    assert_eq!(mount.counter("pages_pushed"), 0, "a copy of it has no loader");
    drop(mount);

    let mount = scene.mount(&Options::default());
    let file = File::open(mount.path("program")).unwrap();
    #[expect(unsafe_code, reason = "a mapping is what is tested")]
    // SAFETY: No process can write to the file: its file system is read-only.
    let mapping = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    // The loader reads a program's header before it maps the program.
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut [0; 64], 0).unwrap();
    assert_eq!(mapping[60 * PAGE + 7], program[60 * PAGE + 7]);
    // Symbols, without the header's page, and data.
    until(|| mount.counter("pages_pushed") >= 19 + 10);
    let before = reads(&mount);
    for page in (4..20).chain(150..160) {
        assert!(mapping[page * PAGE..][..PAGE] == program[page * PAGE..][..PAGE], "page {page}");
    }
    assert_eq!(reads(&mount), before, "they were there");
    assert!(mapping[..] == program[..]);
}

/// Bytes that look like a program: symbols on 20 pages, code, data on the pages from 150 to 160.
fn program() -> Vec<u8> {
    let mut bytes = plausible(5, 180 * PAGE);
    bytes[..64].fill(0);
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (bytes[20], bytes[32], bytes[52], bytes[54], bytes[56]) = (1, 64, 64, 56, 3);
    let segments = [(0, 20, 4_u32), (20, 120, 5), (150, 10, 6)];
    for (place, (start, pages, flags)) in segments.into_iter().enumerate() {
        let header = &mut bytes[64 + 56 * place..][..56];
        header.fill(0);
        header[..4].copy_from_slice(&1_u32.to_le_bytes());
        header[4..8].copy_from_slice(&flags.to_le_bytes());
        header[8..16].copy_from_slice(&((start * PAGE) as u64).to_le_bytes());
        header[32..40].copy_from_slice(&((pages * PAGE) as u64).to_le_bytes());
    }
    bytes
}

/// READ requests that were answered.
fn reads(mount: &Guard) -> u64 {
    mount.counter("demands") + mount.counter("wide_reads")
}

/// Waits for what another thread is about to do; the mount's guard ends the mount if it does not.
fn until(is_done: impl Fn() -> bool) {
    while !is_done() {
        thread::yield_now();
    }
}

const PAGE: usize = 4096;
