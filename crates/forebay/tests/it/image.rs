//! `forebay image`: an image that is the same everywhere, looked at from all sides.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use forebay_image::cramfs::write::{Attributes, Content, Settings, Tree, write};

use crate::support::{Scene, printed, stderr, stdout};

#[test]
fn an_image_is_looked_into() {
    let mut scene = scene();
    scene
        .forebay("image info image")
        .forebay("image info image --json")
        .forebay("image ls image")
        .forebay("image ls image usr/bin")
        .forebay("image ls image bin")
        .forebay("image ls -l image")
        .forebay("image ls -l image /bin")
        .forebay("image ls -R image")
        .forebay("image ls -lR image usr")
        .forebay("image ls --json image dev")
        .forebay("image stat image usr/share/text /bin dev/null / usr/share/zeros")
        .forebay("image stat image --json bin/tool")
        .forebay("image cat image bin/tool usr/link-to-tool");
    scene.matches("image.txt");
}

#[test]
fn what_is_no_image_or_not_in_it_is_refused() {
    let mut scene = scene().file("empty", "").file("garbage", "This is no image of any format.\n");
    fs::create_dir(scene.path("folder")).unwrap();
    scene.forebay("image");
    scene
        .refused("image info")
        .refused("image info missing")
        .refused("image info folder")
        .refused("image info /dev/null")
        .refused("image info empty")
        .refused("image info garbage")
        .refused("image info image --offset 1")
        .refused("image info image --offset 1G")
        .refused("image info image --offset 12k")
        .refused("image info image --offset 1X")
        .refused("image info image --offset -1")
        .refused("image compare image image --other-offset -1")
        .refused("image ls image nowhere")
        .refused("image ls image bin/tool/x")
        .refused("image stat image")
        .refused("image cat image")
        .refused("image cat image usr")
        .refused("image cat image dev/null")
        .refused("image verify image --threads 0")
        .refused("image extract image out nowhere bin/nothing")
        .refused("image extract image no/where")
        .refused("image extract image image")
        .refused("image extract image folder/..")
        .refused("image compare image missing")
        .refused("image compare image garbage")
        .refused("image make missing new")
        .refused("image make folder image")
        .refused("image make folder folder --force")
        .refused("image make folder no/where")
        .refused("image make folder new --name a-name-that-is-too-long")
        .refused("image make folder new --level 13")
        .refused("image make folder new --format squashfs");
    scene.matches("image_refused.txt");
    assert!(!scene.path("out").exists() && !scene.path("new").exists());
}

#[test]
fn one_bad_path_of_several_does_not_hide_the_others() {
    let mut scene = scene();
    scene
        .forebay("image cat image nowhere bin/tool usr")
        .forebay("image stat image nowhere dev/null");
    scene.matches("image_several.txt");
}

#[test]
fn damage_is_the_answer_no() {
    let mut bytes = image();
    // Inside the packed text; the whole is also covered by the checksum.
    let place = bytes.len() / 2;
    bytes[place] ^= 0x10;
    let mut scene = scene().file("damaged", bytes).file("short", &image()[..5_000]);
    scene
        .forebay("image info short")
        .forebay("image verify short")
        .forebay("image verify short --json")
        .forebay("image verify image")
        .forebay("image verify image --json --threads 1")
        .forebay("image verify damaged")
        .forebay("image verify damaged --json")
        .forebay("image compare image damaged")
        .forebay("image extract damaged out --no-owner usr bin")
        .forebay("image extract damaged out2 --no-owner usr bin --json");
    // A name with a slash in it.
    let mut unnamed = image();
    let names = b"su\0\0";
    let name = unnamed.windows(4).position(|name| name == names).unwrap();
    unnamed[name] = b'/';
    fs::write(scene.path("unnamed"), unnamed).unwrap();
    scene
        .forebay("image ls unnamed usr/bin")
        .forebay("image ls -R unnamed")
        .forebay("image ls unnamed missing")
        .forebay("image stat unnamed usr/bin");
    scene.matches("image_damaged.txt");
    // A reader that closes the pipe early does not change the answer.
    for (line, code) in [
        ("image verify damaged", 1),
        ("image compare image damaged", 1),
        ("image extract damaged out3 --no-owner", 1),
        ("image verify image", 0),
    ] {
        let mut child = scene.command(line).stderr(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{line}");
    }
    // The worst decides, and which one came last does not.
    for (paths, code) in [("text", 1), ("text ../missing", 2), ("missing text", 2)] {
        let paths: String = paths.split(' ').map(|path| format!(" usr/share/{path}")).collect();
        let said = scene.command(&format!("image cat damaged{paths}")).output().unwrap();
        assert_eq!(said.status.code(), Some(code), "{paths}");
    }
    assert!(!scene.path("out/usr/share/text").exists());
    let left = fs::read_dir(scene.path("out/usr/share")).unwrap().map(|e| e.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with(".forebay")));
}

#[test]
fn a_strict_check_finds_what_nothing_leads_to() {
    let mut behind = image();
    let end = behind.len();
    behind.extend(b"hidden");
    let mut scene = scene().file("behind", behind);
    scene
        .forebay("image verify image --strict")
        .forebay("image verify behind")
        .forebay("image verify behind --strict")
        .forebay("image verify behind --strict --json");
    scene.matches("image_strict.txt");
    let output = scene.command("image verify behind --strict").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(&format!("bytes {end}..{} are behind", end + 6)));
}

#[test]
fn a_start_is_shown_and_sorted_by_its_profile() {
    let profile = "forebay-profile 1\nimage 1 0\nname /none\nfile /usr/share/text\nread 0 0 5\n\
                   file /usr/bin/tool\nread 1 0 5\nfile /gone\nread 2 0 1\n";
    let other = "forebay-profile 1\nimage 2 0\nfile /gone\nread 0 0 1\n";
    let mut scene = scene().file("start", profile).file("text", "notes").file("other", other);
    fs::write(scene.path("unread"), "forebay-profile 1\nimage 1 0\nname /none\n").unwrap();
    let tree = scene.path("tree/usr");
    for (seed, name) in (1..).zip(["bin/tool", "lib/other", "share/text"]) {
        fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        fs::write(tree.join(name), noise(seed)).unwrap();
    }
    scene
        .forebay("image layout image --profile start")
        .forebay("image layout image --profile start --json")
        .forebay("image layout image --profile start --sort mksquashfs")
        .forebay("image layout image --profile start --sort paths")
        .refused("image layout image --profile nowhere")
        .refused("image layout image --profile other")
        .refused("image layout image --profile text")
        .refused("image layout image --profile unread")
        .refused("image make tree sorted --lossy --profile text");
    scene.matches("image_layout.txt");
    for line in ["image make tree plain --lossy", "image make tree sorted --lossy --profile start"]
    {
        assert_eq!(scene.command(line).output().unwrap().status.code(), Some(0));
    }
    let jumps = |image: &str| {
        let line = format!("image layout {image} --profile start --json");
        // One file of the profile is reported as missing.
        let output = scene.command(&line).output().unwrap();
        let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
        [&json["present"], &json["sorted"]].map(|layout| layout["jumps"].as_u64().unwrap())
    };
    // By name the tool comes before the text that is read first.
    assert_eq!((jumps("plain"), jumps("sorted")), ([1, 0], [0, 0]));
}

/// Bytes that do not pack.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..20_000).map(|_| next()).collect()
}

#[test]
fn what_is_extracted_is_what_is_in_the_image() {
    let mut scene = scene();
    scene
        .forebay("image extract image out --no-owner usr bin")
        .refused("image extract image out --no-owner usr bin")
        .forebay("image extract image out --no-owner usr bin --force")
        .forebay("image extract image tool --no-owner --json usr/bin/tool")
        .forebay("image extract image part --no-owner nowhere bin/tool/x usr/bin/tool")
        .forebay("image extract image --no-owner");
    assert!(scene.path("image-root/usr/bin/tool").exists(), "named after the image");
    scene.matches("image_extracted.txt");
    let tool = fs::symlink_metadata(scene.path("tool/usr/bin/tool")).unwrap();
    assert_eq!(tool.permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::read(scene.path("out/usr/bin/tool")).unwrap(), b"#!/bin/sh\necho tool\n");
    assert_eq!(fs::read(scene.path("out/usr/share/text")).unwrap(), text());
    let zeros = fs::metadata(scene.path("out/usr/share/zeros")).unwrap();
    assert_eq!((zeros.len(), zeros.blocks()), (100_000, 0));
    assert!(scene.path("out/bin").is_symlink());
    assert_eq!(fs::read(scene.path("part/usr/bin/tool")).unwrap(), b"#!/bin/sh\necho tool\n");
}

#[test]
fn images_inside_a_larger_file_are_found_and_taken_out() {
    let image = image();
    let blob = [&[0xa5; 1_000][..], &image, b"hsqs and no squashfs", &image[..9_000]].concat();
    let mut scene = scene().file("blob", &blob);
    scene
        .forebay("image scan blob")
        .forebay("image scan blob --extract out --json")
        .refused("image scan blob --extract out")
        .refused("image scan blob --extract small --max-bytes 4k")
        .forebay("image info out/0x3e8.cramfs")
        .forebay("image scan /dev/null")
        .refused("image scan missing");
    let empty = scene.path("nothing");
    fs::write(&empty, "no image").unwrap();
    scene.forebay("image scan nothing --extract empty").forebay("image scan nothing --json");
    assert!(!scene.path("empty").exists());
    // Beginnings of gzip and of stored blocks, one inside the other.
    let nested = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\0\xff\xff\0\0".repeat(20);
    fs::write(scene.path("nested"), [&nested[..], &image].concat()).unwrap();
    // Two members of a gzip file, which is one file for those that unpack it.
    let mut split = Command::new("sh");
    split.args(["-c", "head -c 5000 out/*e8* | gzip -n; tail -c +5001 out/*e8* | gzip -n"]);
    let members = split.current_dir(scene.path(".")).output().unwrap().stdout;
    fs::write(scene.path("members.gz"), members).unwrap();
    scene.forebay("image scan nested").forebay("image scan members.gz --extract taken");
    // The mode of its root is that of a file.
    let mut rootless = image.clone();
    rootless[65] ^= 0xc0;
    fs::write(scene.path("rootless"), rootless).unwrap();
    scene.forebay("image scan rootless");
    scene.matches("image_scanned.txt");
    assert_eq!(fs::read(scene.path("out/0x3e8.cramfs")).unwrap(), image);
    assert_eq!(fs::read(scene.path("taken/0x0.cramfs")).unwrap(), image);
}

/// The tables at the end lay in a last part of a sector, which a block device does not have.
#[test]
fn an_image_that_is_taken_out_ends_with_a_page() {
    let squashfs = include_bytes!("../../../forebay-image/tests/fixtures/squashfs-gzip.img");
    let used = u64::from_le_bytes(squashfs[40..48].try_into().unwrap());
    let scene = scene().file("blob", [b"blob", &squashfs[..used as usize]].concat());
    printed(scene.command("image scan blob --extract out"));
    let taken = fs::read(scene.path("out/0x4.squashfs")).unwrap();
    assert_eq!(taken.len() as u64, used.next_multiple_of(4_096));
    assert_eq!(taken[..used as usize], squashfs[..used as usize]);
    assert!(!used.is_multiple_of(512) && taken[used as usize..].iter().all(|byte| *byte == 0));
}

#[test]
fn paths_are_chosen_by_patterns_and_files_by_what_they_may_do() {
    let mut tree = Tree::new(Attributes { permissions: 0o755, ..Attributes::default() });
    let with = |permissions| Attributes { permissions, uid: 0, gid: 0 };
    let bin = tree.add(tree.root(), b"bin", with(0o755), Content::Directory).unwrap();
    let etc = tree.add(tree.root(), b"etc", with(0o755), Content::Directory).unwrap();
    let deep = tree.add(etc, b"deep", with(0o1777), Content::Directory).unwrap();
    tree.add(bin, b"group", with(0o2755), Content::Directory).unwrap();
    for (above, name, permissions) in [
        (bin, &b"su"[..], 0o4755),
        (bin, b"write", 0o2755),
        (bin, b"sh", 0o755),
        (etc, b"a.conf", 0o644),
        (etc, b"shared", 0o666),
        (deep, b"b.conf", 0o600),
    ] {
        tree.add(above, name, with(permissions), Content::Bytes(name.repeat(100))).unwrap();
    }
    tree.add(bin, b"null", with(0o666), Content::CharDevice(1, 3)).unwrap();
    let image = write(&tree, &Settings::default(), &mut |_| {}).unwrap().image;
    let mut scene = Scene::new().file("image", image);
    scene
        .forebay("image ls image --find setuid")
        .forebay("image ls image --find setgid --find world-writable --find device")
        .forebay("image ls image etc --find setuid")
        .forebay("image ls image --find capability --json")
        .forebay("image ls image --find setuid --json")
        .forebay("image ls image --include *.conf")
        .forebay("image ls image -R --exclude deep --exclude /bin/s*")
        .refused("image ls image --include [a")
        .refused("image ls image --include /")
        .forebay("image ls image --include ./etc/deep")
        .forebay("image ls image --include *.txt")
        .forebay("image ls image bin -R --include *.txt")
        .forebay("image ls image bin/su --find setuid")
        .forebay("image ls image bin/sh --find setuid")
        .forebay("image ls image bin/sh --exclude sh")
        .forebay("image ls image bin/sh --exclude su")
        .forebay("image extract image none --exclude *")
        .forebay("image ls image --json --include *.conf --exclude etc")
        .forebay("image extract image none --include *.txt")
        .forebay("image tar image --include *.txt")
        .refused("image extract image none nowhere --include *.txt")
        .forebay("image extract image conf --no-owner --include *.conf --exclude deep")
        .forebay("image extract image safe --no-owner --safe bin")
        .refused("image extract image small --max-bytes 1k")
        .forebay("image extract image large --max-bytes 2k --no-owner etc");
    scene.matches("image_chosen.txt");
    assert!(scene.path("conf/etc/a.conf").exists() && !scene.path("conf/etc/deep").exists());
    for absent in ["conf/bin", "small", "none"] {
        assert!(!scene.path(absent).exists(), "{absent}");
    }
    let su = fs::metadata(scene.path("safe/bin/su")).unwrap();
    assert_eq!(su.permissions().mode() & 0o7777, 0o755);
    let group = fs::metadata(scene.path("safe/bin/group")).unwrap();
    assert_eq!(group.permissions().mode() & 0o7777, 0o755);
}

#[test]
fn an_archive_holds_what_the_image_holds() {
    let scene = scene();
    let archive = |line: &str| scene.command(line).output().unwrap();
    let listed = |archive: &[u8], options: &str| {
        fs::write(scene.path("archive"), archive).unwrap();
        let mut tar = Command::new("tar");
        let output = tar.args([options, "--numeric-owner", "-f"]).arg(scene.path("archive"));
        let output = output.current_dir(scene.path(".")).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).to_owned()
    };
    let whole = archive("image tar image");
    assert_eq!((whole.status.code(), stderr(&whole)), (Some(0), ""));
    let names = listed(&whole.stdout, "-t");
    let first: Vec<&str> = names.lines().take(3).collect();
    assert_eq!(first[0], "./", "{names}");
    let all: Vec<&str> = names.lines().collect();
    for (place, folder) in all.iter().enumerate().filter(|(_, name)| name.ends_with('/')) {
        let is_below = |name: &&&str| name.starts_with(folder);
        let next = all[place..].iter().take_while(is_below).count();
        assert_eq!(next, all.iter().filter(is_below).count(), "{folder} and what is below it");
    }
    for line in printed(scene.command("image ls -R image --json")).lines() {
        if let Some(path) = line.trim().strip_prefix("\"path\": \"/") {
            let path = path.trim_end_matches("\",");
            assert!(names.lines().any(|name| name.trim_end_matches('/') == path), "{path}");
        }
    }
    let part = archive("image tar image usr --include text");
    assert_eq!(listed(&part.stdout, "-t"), "./\nusr/\nusr/share/\nusr/share/text\n");
    fs::create_dir(scene.path("out")).unwrap();
    listed(&part.stdout, "-x");
    assert_eq!(fs::read(scene.path("usr/share/text")).unwrap(), text());
    let missing = archive("image tar image nowhere");
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(2), 0));
    // Damaged files are left out, and the archive is complete.
    let mut bytes = image();
    let place = bytes.len() / 2;
    bytes[place] ^= 0x10;
    fs::write(scene.path("damaged"), bytes).unwrap();
    let damaged = archive("image tar damaged");
    assert_eq!(damaged.status.code(), Some(1));
    let said = stderr(&damaged);
    assert!(said.starts_with("error: /usr/share/text: block at byte "), "{said}");
    assert!(said.ends_with("hint: `forebay image verify IMAGE` lists all damage\n"), "{said}");
    assert!(!listed(&damaged.stdout, "-t").contains("usr/share/text"));
}

#[test]
fn a_time_that_the_format_cannot_keep_is_said() {
    let scene = Scene::new();
    let tree = scene.path("tree");
    fs::create_dir(&tree).unwrap();
    let file = fs::File::create(tree.join("old")).unwrap();
    file.set_modified(UNIX_EPOCH - Duration::from_secs(5)).unwrap();
    let mut mksquashfs = Command::new("mksquashfs");
    let made = mksquashfs.args([&tree, &scene.path("image")]).output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("skip: a time before 1970: needs mksquashfs; apt-get install squashfs-tools");
        return;
    }
    let output = scene.command("image compare image tree").output().unwrap();
    assert!(stdout(&output).starts_with("/old: time: "), "{}", stdout(&output));
    let note = "note: times before 1970 or after 2106, which squashfs cannot keep: 1\n";
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), note));
}

#[test]
fn a_terminal_gets_no_name_that_it_would_obey() {
    let mut tree = Tree::new(attributes(0o755));
    let root = tree.root();
    tree.add(root, b"a\x1b[31m", attributes(0o644), Content::Link(b"\x07".to_vec())).unwrap();
    let image = write(&tree, &Settings::default(), &mut |_| {}).unwrap().image;
    let scene = Scene::new().file("image", image);
    let mut script = Command::new("script");
    let line = format!("{} image ls -l image", env!("CARGO_BIN_EXE_forebay"));
    script.args(["-qec", &line, "/dev/null"]).current_dir(scene.path("."));
    let Ok(output) = script.stdin(Stdio::null()).output() else {
        eprintln!("skip: a terminal: needs script; apt-get install bsdutils");
        return;
    };
    let said = stdout(&output);
    assert!(said.ends_with(" - a\\x1b[31m -> \\x07\r\n"), "{said:?}");
}

#[test]
fn differences_are_the_answer_no() {
    if !is_root() {
        eprintln!("skip: owners and devices need root");
        return;
    }
    let mut scene = scene();
    scene.forebay("image extract image out").forebay("image compare image out");
    fs::write(scene.path("out/usr/bin/tool"), "#!/bin/sh\necho fool\n").unwrap();
    fs::write(scene.path("out/usr/share/more"), "x").unwrap();
    fs::remove_file(scene.path("out/bin")).unwrap();
    symlink("usr/sbin", scene.path("out/bin")).unwrap();
    fs::remove_file(scene.path("out/usr/share/zeros")).unwrap();
    fs::set_permissions(scene.path("out/usr"), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(scene.path("out/usr/share/text"), Some(7), Some(8)).unwrap();
    scene.forebay("image compare image out").forebay("image compare image out --json");
    scene.matches("image_compared.txt");
}

#[test]
fn an_image_may_lie_inside_a_larger_file() {
    let mut larger = vec![7; 3 << 10];
    larger.extend(image());
    let scene = scene().file("larger", larger);
    for line in ["ls -lR", "info", "verify"] {
        let inside = printed(scene.command(&format!("image {line} larger --offset 3k")));
        assert_eq!(inside, printed(scene.command(&format!("image {line} image"))));
    }
    let compared = "image compare larger --offset 3k larger --other-offset 3072";
    assert!(printed(scene.command(compared)).contains("differences   0\n"));
    assert!(
        printed(scene.command("image compare image larger --other-offset 3k")).contains(" 0\n")
    );
}

#[test]
fn the_same_tree_makes_the_same_image() {
    let mut scene = Scene::new();
    let tree = scene.path("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/text"), text()).unwrap();
    fs::write(tree.join("same"), text()).unwrap();
    symlink("a", tree.join("link")).unwrap();
    scene
        .forebay("image make tree one --threads 1 --lossy")
        .forebay("image make tree two --threads 4 --lossy --json")
        .forebay(
            "image make tree odd --pad --holes --stored --big-endian --edition 7 --lossy \
                  --name odd --level 1",
        )
        .refused("image make tree two --lossy")
        .forebay("image make tree two --force --lossy");
    let without_root = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("owner") && !line.contains("group"));
        lines.map(|line| format!("{line}\n")).collect()
    };
    scene.matches_after("image_made.txt", without_root);
    assert_eq!(fs::read(scene.path("one")).unwrap(), fs::read(scene.path("two")).unwrap());
    assert_eq!(fs::read_dir(scene.path(".")).unwrap().count(), 4);
    for image in ["one", "odd"] {
        let output = scene.command(&format!("image compare {image} tree")).output().unwrap();
        let said = stdout(&output);
        // A group beyond 255 is cut.
        assert!(said.lines().all(|line| !line.starts_with('/') || line.contains(": owner: ")));
        printed(scene.command(&format!("image verify {image}")));
    }
    let info = printed(scene.command("image info odd"));
    assert!(info.contains("big-endian") && info.contains("odd"), "{info}");
}

#[test]
fn names_are_bytes() {
    let mut tree = Tree::new(attributes(0o755));
    let root = tree.root();
    let content = Content::Bytes(b"odd".to_vec());
    tree.add(root, b"new\nline\xff", attributes(0o644), content).unwrap();
    let image = write(&tree, &Settings::default(), &mut |_| {}).unwrap().image;
    let scene = Scene::new().file("image", image);
    let listed = scene.command("image ls image").output().unwrap();
    assert_eq!(listed.stdout, b"new\nline\xff\n");
    let json = printed(scene.command("image ls image --json"));
    assert!(json.contains("\"path\": \"/new\\nline\u{fffd}\""), "{json}");
    assert!(json.contains("\"path_hex\": \"2f6e65770a6c696e65ff\""), "{json}");
    let mut cat = scene.command("image cat image");
    cat.arg(std::ffi::OsStr::new("nowhere\u{1b}[31m"));
    let output = cat.output().unwrap();
    assert!(!stderr(&output).contains('\u{1b}'));
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error_and_a_full_disk_is() {
    let scene = scene();
    let lines = [
        "info image",
        "ls -lR image",
        "ls image --json",
        "stat image bin",
        "cat image usr/share/text",
        "verify image",
        "compare image image",
    ];
    for line in lines {
        let line = format!("image {line}");
        let mut child = scene.command(&line).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{line}");
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = scene.command(&line).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = stderr(&output);
        let why = ": No space left on device (os error 28)\nhint: make room, ";
        assert!(said.starts_with("error: cannot write the ") && said.contains(why), "{said}");
    }
}

/// The disk is a small tmpfs in a private mount namespace, which ends with the shell.
#[test]
fn a_target_without_room_is_one_clear_error() {
    let mut tree = Tree::new(attributes(0o755));
    let root = tree.root();
    for number in 0..50u8 {
        let content = Content::Bytes(vec![number + 1; 100_000]);
        tree.add(root, format!("file-{number}").as_bytes(), attributes(0o644), content).unwrap();
    }
    let image = write(&tree, &Settings::default(), &mut |_| {}).unwrap().image;
    let scene = Scene::new().file("image", image);
    fs::create_dir(scene.path("disk")).unwrap();
    let script = "mount -t tmpfs -o size=1m none disk || exit 77
        \"$0\" image extract image disk/out; code=$?
        ls -A disk/out | grep -c '^\\.forebay'; exit $code";
    let mut shell = Command::new("unshare");
    shell.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_forebay")]);
    let output = shell.current_dir(scene.path(".")).output();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) && is_root() => output,
        Ok(_) | Err(_) => {
            eprintln!(
                "skip: a full disk needs root, unshare and tmpfs; apt-get install util-linux"
            );
            return;
        }
    };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: 'disk/out' has no room for /file-"), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
    assert!(said.contains("\nhint: make room, "), "{said}");
    assert_eq!(stdout(&output), "0\n");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A folder with an image.
fn scene() -> Scene {
    Scene::new().file("image", image())
}

/// The same bytes on every machine.
fn image() -> Vec<u8> {
    let mut tree = Tree::new(attributes(0o755));
    let root = tree.root();
    let mut add = |directory, name: &str, permissions, content| {
        tree.add(directory, name.as_bytes(), attributes(permissions), content).unwrap()
    };
    let usr = add(root, "usr", 0o755, Content::Directory);
    let bin = add(usr, "bin", 0o755, Content::Directory);
    let share = add(usr, "share", 0o1777, Content::Directory);
    let dev = add(root, "dev", 0o700, Content::Directory);
    add(root, "bin", 0o777, Content::Link(b"usr/bin".to_vec()));
    add(usr, "link-to-tool", 0o777, Content::Link(b"/bin/tool".to_vec()));
    add(bin, "tool", 0o755, Content::Bytes(b"#!/bin/sh\necho tool\n".to_vec()));
    add(bin, "su", 0o4755, Content::Bytes(Vec::new()));
    add(share, "text", 0o644, Content::Bytes(text()));
    add(share, "zeros", 0o644, Content::Bytes(vec![0; 100_000]));
    add(dev, "null", 0o666, Content::CharDevice(1, 3));
    add(dev, "disk", 0o660, Content::BlockDevice(8, 1));
    add(dev, "pipe", 0o600, Content::Fifo);
    let settings = Settings { holes: true, name: b"test".to_vec(), ..Settings::default() };
    write(&tree, &settings, &mut |_| {}).unwrap().image
}

fn attributes(permissions: u16) -> Attributes {
    Attributes { permissions, uid: 0, gid: 0 }
}

fn text() -> Vec<u8> {
    let line = |line: u32| format!("line {}\n", line.wrapping_mul(2_654_435_761));
    (0..2_000).map(line).collect::<String>().into_bytes()
}
