//! The lines that change a knob: at once, and whenever the device comes.

use std::path::Path;

use crate::machine::{Device, Kind};

/// The file that our rules for udev belong in; no rival of ours.
pub(super) const UDEV_FILE: &str = "/etc/udev/rules.d/99-forebay.rules";

/// Sets a knob at once.
pub(super) fn now(path: &str, value: impl std::fmt::Display) -> String {
    format!("echo {value} > {path}")
}

/// What a line sets at once: the value and the file; none for any other line.
pub(super) fn set_now(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("echo ")?.split_once(" > ")
}

/// Sets attributes of a disk whenever it comes or changes, in this order; a rule that is there is
/// not added again. None for loop devices, whose name is another file's the next time.
pub(super) fn udev(device: &Device, attributes: &[(&str, String)]) -> Option<String> {
    if device.kind == Kind::Loop {
        return None;
    }
    // A stick's name is that of whichever came first.
    let which = if device.removable && device.kind == Kind::Scsi {
        "SUBSYSTEMS==\"usb\", ENV{DEVTYPE}==\"disk\"".to_owned()
    } else {
        format!("KERNEL==\"{}\"", device.name)
    };
    let mut rule = format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", {which}");
    for (attribute, value) in attributes {
        rule += &format!(", ATTR{{{attribute}}}=\"{value}\"");
    }
    Some(format!("grep -qsxF '{rule}' {UDEV_FILE} || echo '{rule}' >> {UDEV_FILE}"))
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+,".contains(c);
    if path.chars().all(plain) {
        path.into_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// A window for a device or mount, in KiB: at once and for good.
pub(super) fn window(device: &Device, kib: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(path) = device.queue_path() {
        lines.push(now(&format!("{path}/read_ahead_kb"), kib));
        lines.extend(udev(device, &[("queue/read_ahead_kb", kib.to_string())]));
    } else if let Some(path) = device.bdi_path() {
        lines.push(now(&format!("{path}/read_ahead_kb"), kib));
    }
    if !lines.is_empty() {
        // A file takes its window when it is opened.
        lines.push(format!(
            "then restart the program: open files keep their window; forebay tune --scope {} \
             reaches most of them without a restart",
            device.name
        ));
    }
    lines
}
