//! A mounted image is its source tree: for readers, mappings, programs, and under damage.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::thread;

use forebay_core::packed::{POLICIES, Spec};
use forebay_host::mount::{Ended, Options, Window};
use forebay_image::Time;
use rustix::mount::{UnmountFlags, unmount};

use crate::mount_support::{Scene, has, listing, plausible, skip};
use crate::support::Rng;

fn with(policy: &str, window: Window) -> Options {
    Options {
        policy: Spec::parse(policy).expect("a rule of the table"),
        window,
        ..Options::default()
    }
}

#[test]
fn every_rule_and_window_shows_the_source_tree() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let truth = listing(&scene.source());
    for policy in POLICIES {
        for window in [Window::Rule, Window::Ours, Window::Kernel] {
            let mount = scene.mount(&with(policy.name, window));
            assert!(listing(&mount.root) == truth, "{} {window:?}", policy.name);
            assert_eq!(mount.counter("errors"), 0);
            assert_eq!(mount.end(), Ended::Stopped);
        }
    }
}

/// A fragment's length is kept nowhere: asking for all of it was answered by an error.
#[test]
fn files_that_share_a_fragment_are_whole_in_any_order() {
    if skip() || !has("mksquashfs", "squashfs-tools") {
        return;
    }
    let scene = Scene::new();
    for file in 0..40 {
        let name = format!("deep/tail {file}");
        fs::write(scene.source().join(name), plausible(file, 77 * file as usize)).unwrap();
    }
    let made = Command::new("mksquashfs")
        .arg(scene.source())
        .arg(scene.image())
        .args(["-quiet", "-no-progress", "-noappend"])
        .status();
    assert!(made.unwrap().success());
    let truth = listing(&scene.source());
    for policy in POLICIES {
        let mount = scene.mount(&with(policy.name, Window::Rule));
        assert!(listing(&mount.root) == truth, "{}", policy.name);
        assert_eq!(mount.counter("errors"), 0);
    }
}

#[test]
fn reads_at_odd_places_are_the_bytes_there_past_the_page_cache_too() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let truth = fs::read(scene.source().join("deep/er/large")).unwrap();
    for direct in [false, true] {
        let mount = scene.mount(&Options { direct, cache: 1 << 20, ..Options::default() });
        let file = File::open(mount.path("deep/er/large")).unwrap();
        let mut rng = Rng(3);
        for _ in 0..500 {
            let at = rng.below(truth.len() as u64);
            let mut bytes = vec![0; rng.below(70_000) as usize];
            let read = file.read_at(&mut bytes, at).unwrap();
            let end = truth.len().min(at as usize + bytes.len());
            assert!(bytes[..read] == truth[at as usize..end], "{at} {read}");
        }
        assert_eq!(file.read_at(&mut [0; 10], truth.len() as u64 + 5).unwrap(), 0);
    }
}

#[test]
fn a_mapping_shows_the_bytes_of_the_file() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let truth = fs::read(scene.source().join("deep/er/large")).unwrap();
    let mount = scene.mount(&Options::default());
    let file = File::open(mount.path("deep/er/large")).unwrap();
    #[expect(unsafe_code, reason = "a mapping is what is tested")]
    // SAFETY: No process can write to the file: its file system is read-only.
    let mapping = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    let mut rng = Rng(5);
    for _ in 0..400 {
        let at = rng.below(truth.len() as u64) as usize;
        assert_eq!(mapping[at], truth[at], "{at}");
    }
    assert!(mapping[..] == truth[..]);
}

#[test]
fn nothing_can_be_changed() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let mount = scene.mount(&Options::default());
    let file = mount.path("of-1");
    let refused = [
        fs::write(mount.path("new"), b"x").unwrap_err(),
        fs::write(&file, b"x").unwrap_err(),
        fs::remove_file(&file).unwrap_err(),
        fs::rename(&file, mount.path("of-2")).unwrap_err(),
        fs::create_dir(mount.path("folder")).unwrap_err(),
        fs::set_permissions(&file, fs::Permissions::from_mode(0o777)).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
    }
}

#[test]
fn a_fixed_time_is_every_files_time() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let time = Some(Time { seconds: 1_700_000_000, nanos: 0 });
    let mount = scene.mount(&Options { time, ..Options::default() });
    for name in ["of-1", "deep", "link"] {
        let seen = fs::symlink_metadata(mount.path(name)).unwrap();
        assert_eq!(seen.mtime(), 1_700_000_000, "{name}");
    }
}

#[test]
fn an_image_that_is_cut_short_loses_what_was_cut_and_nothing_else() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let whole = scene.pack();
    fs::write(scene.image(), &whole[..whole.len() * 2 / 3]).unwrap();
    let strict = Options { strict: true, ..Options::default() };
    assert!(scene.try_mount(&strict).is_err());

    let mount = scene.mount(&Options::default());
    assert!(mount.said()[0].contains("truncated"), "{:?}", mount.said());
    let truth = fs::read(scene.source().join("deep/er/large")).unwrap();
    let (mut good, mut bad) = (0, 0);
    for name in ["deep/er/large", "deep/random", "of-100000", "holes", "of-4096"] {
        let file = File::open(mount.path(name)).unwrap();
        let truth = fs::read(scene.source().join(name)).unwrap();
        for at in (0..truth.len()).step_by(4096) {
            let mut page = [0; 4096];
            match file.read_at(&mut page, at as u64) {
                Ok(read) => {
                    assert!(page[..read] == truth[at..at + read], "{name} {at}");
                    good += 1;
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(5), "{name} {at}");
                    bad += 1;
                }
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad of {}", truth.len());
    let is_named = |said: &[String]| said.iter().any(|line| line.contains("/deep/er/large"));
    let said = mount.said_at_last(is_named);
    let lines = said.iter().filter(|line| line.contains("at byte")).count();
    assert!(lines >= 1 && lines < bad, "{said:?}");
}

#[test]
fn a_damaged_block_costs_its_own_page_and_strict_refuses_it() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    fs::remove_dir_all(scene.source()).unwrap();
    fs::create_dir(scene.source()).unwrap();
    let truth = plausible(1, 400_000);
    fs::write(scene.source().join("file"), &truth).unwrap();
    let mut image = scene.pack();
    let middle = image.len() / 2;
    image[middle] ^= 0xff;
    fs::write(scene.image(), &image).unwrap();
    let strict = Options { strict: true, ..Options::default() };
    assert!(scene.try_mount(&strict).is_err());
    let mount = scene.mount(&Options::default());
    let file = File::open(mount.path("file")).unwrap();
    let read = |page: usize| file.read_at(&mut [0; 4096], page as u64 * 4096).is_ok();
    let bad = (0..truth.len().div_ceil(4096)).filter(|page| !read(*page)).count();
    assert_eq!(bad, 1);
    let said = mount.said_at_last(|said| !said.is_empty());
    assert!(said.len() == 1 && said[0].starts_with("/file: "), "{said:?}");
}

#[test]
fn many_readers_see_the_truth_while_pages_are_pushed() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let name = "deep/er/large";
    let truth = fs::read(scene.source().join(name)).unwrap();
    let ours = with("selective-then-idle", Window::Ours);
    let mount = scene.mount(&Options { threads: 4, cache: 1 << 20, ..ours });
    for round in 0..3 {
        thread::scope(|scope| {
            for reader in 0..4 {
                let (truth, path) = (&truth, mount.path(name));
                scope.spawn(move || {
                    let file = File::open(path).unwrap();
                    let mut rng = Rng(round * 10 + reader);
                    for _ in 0..60 {
                        let start = rng.below(truth.len() as u64) as usize;
                        // A run of pages, so that there is something to push.
                        for at in (start..truth.len()).step_by(4096).take(20) {
                            let mut page = [0; 4096];
                            let read = file.read_at(&mut page, at as u64).unwrap();
                            assert!(page[..read] == truth[at..at + read], "{at}");
                        }
                    }
                });
            }
        });
        drop_pages(&mount.path(name));
    }
    assert!(mount.counter("pages_pushed") > 0);
    assert_eq!(mount.counter("errors"), 0);
}

#[test]
fn thousands_of_pushes_meet_readers_without_a_hang() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    fs::write(scene.source().join("huge"), plausible(11, 12 << 20)).unwrap();
    scene.pack();
    let ours = with("selective-then-idle", Window::Ours);
    let mount = scene.mount(&Options { threads: 1, ..ours });
    let path = mount.path("huge");
    while mount.counter("pages_pushed") < 8_000 {
        let mut file = File::open(&path).unwrap();
        std::io::copy(&mut file, &mut std::io::sink()).unwrap();
        drop_pages(&path);
    }
    assert_eq!(mount.end(), Ended::Stopped);
}

#[test]
fn refused_windows_reach_no_program_as_errors() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let mount = scene.mount(&with("selective", Window::Rule));
    let truth = fs::read(scene.source().join("deep/er/large")).unwrap();
    assert!(fs::read(mount.path("deep/er/large")).unwrap() == truth);
    assert!(mount.counter("refusals") > 0);
    // Every page was decoded for its own demand, and none was wasted.
    assert_eq!(mount.counter("pages_decoded"), truth.len() as u64 / 4096);
}

#[test]
fn what_is_read_is_answered_by_windows_and_what_is_mapped_by_pages() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let bytes = plausible(2, 1 << 20);
    fs::write(scene.source().join("data"), &bytes).unwrap();
    let program = [b"\x7fELF", &bytes[4..]].concat();
    fs::write(scene.source().join("program"), &program).unwrap();
    scene.pack();
    let mount = scene.mount(&Options::default());
    assert!(fs::read(mount.path("data")).unwrap() == bytes);
    assert_eq!((mount.counter("refusals"), mount.counter("demands")), (0, 0));
    let file = File::open(mount.path("program")).unwrap();
    #[expect(unsafe_code, reason = "a mapping is what is tested")]
    // SAFETY: No process can write to the file: its file system is read-only.
    let mapping = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    // The loader reads a program's header before it maps the program.
    file.read_exact_at(&mut [0; 64], 0).unwrap();
    let before = mount.counter("pages_decoded");
    for page in [100, 0, 200, 50, 150] {
        assert_eq!(mapping[page * 4096 + 7], program[page * 4096 + 7]);
    }
    assert!(mount.counter("refusals") >= 4, "windows around faults");
    let decoded = mount.counter("pages_decoded") - before;
    assert!(decoded <= 5 + 2 * 5, "{decoded} pages for five faults");
}

#[test]
fn a_small_cache_stays_within_its_budget() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let mount = scene.mount(&Options { cache: 256 << 10, direct: true, ..Options::default() });
    listing(&mount.root);
    let held = mount.counter("cache_bytes");
    assert!(held <= 256 << 10, "{held}");
}

#[test]
fn a_cache_that_holds_no_block_of_the_image_is_refused() {
    if skip() || !has("mkfs.erofs", "erofs-utils") {
        return;
    }
    let scene = Scene::new();
    let words: String = (0..900_000_u64).map(|number| format!("{:x} ", number * number)).collect();
    fs::write(scene.source().join("words"), &words).unwrap();
    let mut make = Command::new("mkfs.erofs");
    make.args(["--quiet", "-zlz4hc", "-C1048576"]).args([scene.image(), scene.source()]);
    assert!(make.status().unwrap().success());
    let options = |cache| Options { cache, ..Options::default() };
    let refused = scene.try_mount(&options(1 << 20)).map(|_| ()).unwrap_err().to_string();
    let said = "a cache of 1048576 bytes is too small for this image, which needs 2097152 bytes";
    assert_eq!(refused, said);
    let mount = scene.mount(&options(2 << 20));
    assert!(fs::read(mount.path("words")).unwrap() == words.as_bytes());
}

#[test]
fn the_counters_are_read_by_an_ioctl_of_the_mounted_folder_alone() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let mount = scene.mount(&Options::default());
    fs::read(mount.path("of-8192")).unwrap();
    assert!(mount.counter("pages_answered") >= 2 && mount.counter("resident_bytes") > 0);
    let elsewhere = forebay_host::mount::of_mount(scene.folder.path()).unwrap_err();
    assert_eq!(elsewhere.raw_os_error(), Some(rustix::io::Errno::NOTTY.raw_os_error()));
}

#[test]
fn a_profile_brings_in_what_was_recorded() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let profile = scene.folder.path().join("profile");
    let options = Options { profile: Some(profile.clone()), ..Options::default() };
    let touch = |mount: &crate::mount_support::Guard| {
        let file = File::open(mount.path("deep/er/large")).unwrap();
        for page in [600, 3, 4, 5, 77] {
            file.read_exact_at(&mut [0; 4096], page * 4096).unwrap();
        }
    };
    let first = scene.mount(&options);
    touch(&first);
    assert_eq!(first.counter("pages_pushed"), 0, "nothing comes beforehand while it is recorded");
    first.end();
    let text = fs::read_to_string(&profile).unwrap();
    assert!(
        text.contains("file /deep/er/large\nread 0 600 1\nread 0 3 3\nread 0 77 1\n"),
        "{text}"
    );

    let second = scene.mount(&options);
    while second.counter("pages_pushed") < 5 {
        thread::yield_now();
    }
    touch(&second);
    assert_eq!(second.counter("demands"), 0);
    // The kernel drops the file: its next READ brings back all of it.
    let file = File::open(second.path("deep/er/large")).unwrap();
    while second.counter("pages_lost") == 0 {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        file.read_exact_at(&mut [0; 4096], 600 * 4096).unwrap();
    }
    let demands = second.counter("demands");
    while second.counter("pages_replayed") < 10 {
        second.path("deep").metadata().unwrap();
        fs::read(second.path("of-1")).unwrap();
        thread::yield_now();
    }
    let again = second.counter("demands");
    touch(&second);
    assert_eq!(second.counter("demands"), again, "{demands} before the replay");
    second.end();
    assert_eq!(fs::read_to_string(&profile).unwrap(), text, "it is not written again");

    // Another image: one line, and no use of it.
    fs::write(scene.source().join("of-1"), b"?").unwrap();
    scene.pack();
    let third = scene.mount(&options);
    assert!(third.said()[0].contains("of another image"), "{:?}", third.said());
    assert_eq!(third.counter("pages_replayed"), 0);
    third.end();

    // A damaged one: the same, and the error as plain text.
    fs::write(&profile, b"forebay-profile 1\nimage 1 1\nread \xff\x1b[31m 0 1\n").unwrap();
    let fourth = scene.mount(&options);
    let said = fourth.said();
    assert!(said[0].contains("line 3") && said[0].contains("not used"), "{said:?}");
    assert!(said[0].bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{said:?}");
    assert!(fs::read(fourth.path("of-1")).unwrap() == b"?");
    fourth.end();
    assert!(fs::read(&profile).unwrap().contains(&0xff), "it is not written over");

    let nowhere = scene.folder.path().join("nowhere/profile");
    let error = scene.try_mount(&Options { profile: Some(nowhere), ..options }).err().unwrap();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

/// The connection's crate takes a device that is gone for one that is mounted: a mount whose
/// connection was cut off stayed behind, dead, and one that was made on its folder went with it.
#[test]
fn a_connection_that_is_cut_off_leaves_no_mount_and_takes_no_other_one_away() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let mount = scene.mount(&Options::default());
    let device = fs::metadata(&mount.root).unwrap().dev();
    let connection = format!("/sys/fs/fuse/connections/{}/abort", rustix::fs::minor(device));
    if fs::write(&connection, "1").is_err() {
        eprintln!("skip: a connection that is cut off: needs {connection}");
        return;
    }
    assert_eq!(mount.ended(), Ended::Unmounted);
    assert_ne!(fs::metadata(scene.mount_point()).unwrap().dev(), device, "it is taken away");

    let below = scene.mount(&Options::default());
    let above = scene.mount(&Options::default());
    assert_eq!(below.end(), Ended::Stopped, "it is not the one that is seen");
    assert!(fs::read(above.path("of-1")).is_ok());
    assert_eq!(above.end(), Ended::Stopped);
    unmount(scene.mount_point(), UnmountFlags::DETACH).unwrap();
}

#[test]
fn programs_run_from_an_image_of_a_root_tree() {
    if skip() || !has("busybox", "busybox-static") {
        return;
    }
    let scene = Scene::new();
    let bin = scene.source().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let busybox = std::env::split_paths(&path).map(|folder| folder.join("busybox"));
    fs::copy(busybox.into_iter().find(|path| path.is_file()).unwrap(), bin.join("busybox"))
        .unwrap();
    std::os::unix::fs::symlink("busybox", bin.join("sh")).unwrap();
    scene.pack();
    let mount = scene.mount(&Options::default());
    let script = "busybox sha256sum /deep/er/large; busybox echo done";
    let chroot = Command::new("chroot").arg(&mount.root).args(["/bin/sh", "-c", script]).output();
    let output = chroot.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.ends_with("done\n") && output.status.success(), "{output:?}");
    let truth = Command::new(bin.join("busybox"))
        .args(["sha256sum", "deep/er/large"])
        .current_dir(scene.source())
        .output()
        .unwrap();
    assert_eq!(text.split(' ').next(), String::from_utf8_lossy(&truth.stdout).split(' ').next());
}

#[test]
fn an_overlay_on_top_takes_changes() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.pack();
    let mount = scene.mount(&Options::default());
    let at = |name: &str| scene.folder.path().join(name);
    for name in ["upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        mount.root.display(),
        at("upper").display(),
        at("work").display()
    );
    let merged = at("merged");
    let mut command = Command::new("mount");
    command.args(["-t", "overlay", "overlay", "-o", &layers]).arg(&merged).stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        eprintln!("skip: an overlay on a mounted image: the kernel does not mount one here");
        return;
    }
    let truth = fs::read(scene.source().join("deep/er/large")).unwrap();
    let same = fs::read(merged.join("deep/er/large")).is_ok_and(|bytes| bytes == truth);
    let changed = fs::write(merged.join("of-1"), b"changed")
        .and_then(|()| fs::read(merged.join("of-1")))
        .is_ok_and(|bytes| bytes == b"changed");
    let _ = unmount(&merged, UnmountFlags::DETACH);
    assert!(same && changed);
    assert_eq!(fs::read(mount.path("of-1")).unwrap().len(), 1);
}

/// Has the kernel drop the pages of a file.
fn drop_pages(path: &std::path::Path) {
    let file = File::open(path).expect("it is there");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice is taken");
}
