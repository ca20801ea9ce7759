//! `/proc/self/mountinfo`: what is mounted where.
//!
//! Source:     the kernel's documentation, filesystems/proc.rst
//! Behaviour:  a line for each mount: two ids, the device number, the root, the mount point,
//!             options, any number of tags, a dash, the file system's type, its source, its
//!             options. Blanks, tabs, line feeds and backslashes of names are octal (`\040`).
//! Differs:    ids, roots and tags are not kept.
//! Not for:    mounts of other namespaces.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::Mount;
use super::attribute::Attributes;
use crate::signal::{Malformed, Text};

/// Its path.
pub const FILE: &str = "/proc/self/mountinfo";

/// The mounts, one after another; a bad line does not hide the rest.
pub fn parse(text: Text<'_>) -> impl Iterator<Item = Result<Mount, Malformed>> {
    text.lines().filter(|(_, line)| !line.is_empty()).map(move |(at, line)| mount(text, at, line))
}

fn mount(text: Text<'_>, at: usize, line: &str) -> Result<Mount, Malformed> {
    let mut words = line.split(' ');
    let number = words.nth(2).unwrap_or_default();
    let wrong = || text.wrong(at, "the device number", number, "MAJOR:MINOR");
    let dev = number.parse().map_err(|_| wrong())?;
    let point = words.nth(1).filter(|point| !point.is_empty());
    let point = point.ok_or_else(|| text.wrong(at, "the mount point", "", "a path"))?;
    let options = words.next().unwrap_or_default();
    if !words.any(|word| word == "-") {
        return Err(text.wrong(at, "the line", line, "one with a dash before the type"));
    }
    let kind = words.next().filter(|kind| !kind.is_empty());
    let kind = kind.ok_or_else(|| text.wrong(at, "the type", "", "a file system's name"))?;
    let source = words.next().unwrap_or_default();
    let of_type = words.next().unwrap_or_default();
    Ok(Mount {
        dev,
        point: OsString::from_vec(unescaped(point)).into(),
        kind: kind.to_owned(),
        source: String::from_utf8_lossy(&unescaped(source)).into_owned(),
        options: format!("{options},{of_type}"),
    })
}

/// A name with its octal escapes resolved; what only looks like one stays.
fn unescaped(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    while let Some((&first, rest)) = bytes.split_first() {
        match rest {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if first == b'\\' => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                bytes = after;
            }
            _ => {
                out.push(first);
                bytes = rest;
            }
        }
    }
    out
}

/// What a tree shows to be mounted.
pub(super) fn read(from: &mut Attributes<'_>) -> Vec<Mount> {
    let Some(text) = from.text(FILE) else { return Vec::new() };
    parse(Text::new(FILE, &text)).filter_map(|mount| from.kept(mount)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(line: &str) -> Result<Mount, Malformed> {
        parse(Text::new(FILE, line)).next().unwrap()
    }

    #[test]
    fn a_mount_has_its_parts_whatever_its_tags() {
        let wanted = Mount {
            dev: "254:0".parse().unwrap(),
            point: "/".into(),
            kind: "ext4".to_owned(),
            source: "/dev/vda".to_owned(),
            options: "rw,relatime,rw,discard".to_owned(),
        };
        for tags in ["", "shared:1 ", "shared:7 master:2 propagate_from:1 "] {
            let line = format!("27 1 254:0 / / rw,relatime {tags}- ext4 /dev/vda rw,discard");
            assert_eq!(only(&line).as_ref(), Ok(&wanted), "{line}");
        }
        assert!(wanted.has("discard") && !wanted.has("disc"));
    }

    #[test]
    fn escapes_of_names_are_resolved() {
        let line = r"36 35 0:45 / /mnt/a\040b\134c\1 rw - nfs4 server:/x\011y rw";
        let mount = only(line).unwrap();
        assert_eq!(mount.point.to_str(), Some("/mnt/a b\\c\\1"));
        assert_eq!(mount.source, "server:/x\ty");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |line: &str| only(line).unwrap_err().to_string();
        assert_eq!(
            said("27 1 254 / / rw - ext4 x rw"),
            "/proc/self/mountinfo, line 1: the device number is '254', not MAJOR:MINOR"
        );
        assert!(said("27 1 254:0 / / rw ext4 x rw").contains("a dash before the type"));
        let whole = "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw";
        for end in 1..whole.len() {
            let _ = only(&whole[..end]);
        }
    }
}
