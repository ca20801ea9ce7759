//! Remedies as they are printed: a shell runs them, and the knobs stand at what was promised.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::Command;

use forebay_live::advise::{Finding, Seen, advise};
use forebay_live::machine::{Kind, Machine, Mount};
use forebay_live::tree::Tree;

use crate::disk::Disk;

#[test]
fn every_remedy_for_a_device_gives_what_it_promises() {
    let Some(disk) = Disk::new("every_remedy_for_a_device_gives_what_it_promises", 64) else {
        return;
    };
    let bdi = format!("/sys/class/bdi/{}", disk.number());
    let queue = format!("/sys/dev/block/{}/queue", disk.number());
    disk.keep(&format!("{queue}/iostats"));
    for (knob, value) in [("strict_limit", 0), ("max_ratio_fine", 1_000_000)] {
        disk.set(knob, value);
    }
    fs::write(format!("{queue}/iostats"), "0").unwrap();
    disk.set("read_ahead_kb", 8_192);
    let findings = found(&disk);
    let ids: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
    for id in ["read-ahead-too-large", "removable-without-strict-limit", "requests-not-counted"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    // The window is last: it is what the other one resets.
    let is_window = |finding: &&Finding| finding.id == "read-ahead-too-large";
    let (last, first): (Vec<_>, Vec<_>) = findings.iter().partition(is_window);
    for finding in first.into_iter().chain(last) {
        let at_once = finding.remedy.iter().filter_map(|line| promise(line));
        let at_once: Vec<(&str, &str, &str)> = at_once.collect();
        assert!(!at_once.is_empty(), "{}: {:?}", finding.id, finding.remedy);
        for (line, ..) in &at_once {
            shell(line);
        }
        for (line, value, path) in at_once {
            assert_eq!(stands(path), value, "{line}");
        }
    }
    assert_eq!(stands(&format!("{bdi}/strict_limit")), "1");
    let bytes: u64 = stands(&format!("{bdi}/max_bytes")).parse().unwrap();
    assert!((30 << 20..=34 << 20).contains(&bytes), "32 MiB of a limit that moves: {bytes}");
    let left: Vec<&str> = found(&disk).iter().map(|finding| finding.id).collect();
    assert!(left.iter().all(|id| !ids.contains(id)), "{left:?} of {ids:?}");
}

#[test]
fn rules_for_udev_give_what_they_promise_when_the_device_changes() {
    let test = "rules_for_udev_give_what_they_promise_when_the_device_changes";
    let Some(disk) = Disk::new(test, 64) else { return };
    let has = |program: &str| Command::new("which").arg(program).output().unwrap().status.success();
    if !Path::new("/etc/udev/rules.d").is_dir() || !has("udevadm") || !has("unshare") {
        eprintln!("skip: {test}: needs udevadm, unshare and /etc/udev/rules.d");
        return;
    }
    disk.set("strict_limit", 0);
    disk.set("max_ratio_fine", 1_000_000);
    disk.set("read_ahead_kb", 8_192);
    let findings = found(&disk);
    let rules = findings.iter().flat_map(|finding| &finding.remedy);
    let rules: Vec<&String> = rules.filter(|line| line.contains("rules.d")).collect();
    assert!(rules.len() >= 2, "{findings:?}");
    let name = name_of(&disk);
    // The rules are seen by the shell alone, and only its call of udev reads them. They are tried
    // for a loop device, not for whatever hangs on a bus.
    let mut script = "mount -t tmpfs none /etc/udev/rules.d".to_owned();
    for rule in rules.iter().chain(&rules) {
        let which = "SUBSYSTEMS==\"usb\", ENV{DEVTYPE}==\"disk\"";
        let rule = rule.replace(which, &format!("KERNEL==\"{name}\""));
        script += &format!(" && {{ {rule}; }}");
    }
    script += &format!(" && test $(wc -l < /etc/udev/rules.d/99-forebay.rules) = {}", rules.len());
    script += &format!(" && udevadm test --action=change /sys/class/block/{name} >&2");
    let shell = ["--mount", "--propagation", "private", "sh", "-c", &script];
    let done = Command::new("unshare").args(shell).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{script}\n{said}");
    let bdi = format!("/sys/class/bdi/{}", disk.number());
    assert_eq!(stands(&format!("{bdi}/read_ahead_kb")), "128", "{script}\n{said}");
    assert_eq!(stands(&format!("{bdi}/strict_limit")), "1", "{script}\n{said}");
    let bytes: u64 = stands(&format!("{bdi}/max_bytes")).parse().unwrap();
    assert!((30 << 20..=34 << 20).contains(&bytes), "{bytes}");
}

/// What is found of the disk, as if it could be pulled out.
fn found(disk: &Disk) -> Vec<Finding> {
    let mut machine = Machine::read(&Tree::machine());
    let number = disk.number();
    let device = machine.devices.iter_mut().find(|device| device.number == number).unwrap();
    device.removable = true;
    // Loop devices get no rules.
    device.kind = Kind::Scsi;
    let name = device.name.clone();
    // Its mount has no place in the tree of files.
    let (point, kind) = ("/nowhere".into(), "ext4".to_owned());
    machine.mounts.push(Mount { dev: number, point, kind, ..Mount::default() });
    let all = advise(&Seen { machine, ..Seen::default() });
    // Any write to the throttling of writeback stays for as long as the device's number does.
    let mut all: Vec<Finding> = all.into_iter().filter(|it| it.id != THROTTLING).collect();
    all.retain(|finding| finding.subject.to_string() == name);
    all
}

const THROTTLING: &str = "writeback-throttling-mismatch";

fn name_of(disk: &Disk) -> String {
    let link = fs::read_link(format!("/sys/dev/block/{}", disk.number())).unwrap();
    link.file_name().unwrap().to_string_lossy().into_owned()
}

/// The line, the value and the file of a remedy that acts at once on a knob.
fn promise(line: &str) -> Option<(&str, &str, &str)> {
    let (value, path) = line.strip_prefix("echo ")?.split_once(" > ")?;
    let path = path.split(' ').next()?;
    path.starts_with("/sys/").then_some((line, value, path))
}

fn shell(line: &str) {
    let done = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

fn stands(path: &str) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}
