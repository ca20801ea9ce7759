//! Numbers by which the kernel names devices and files.

use std::fmt;
use std::str::FromStr;

/// A device number: of a block device, or of a file system without one (major 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNumber {
    /// The driver's part.
    pub major: u32,
    /// The device's part.
    pub minor: u32,
}

impl DevNumber {
    /// From `st_dev` or `st_rdev`, as stat(2) gives them.
    pub fn from_stat(number: u64) -> Self {
        Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }

    /// From the number inside the kernel, as trace events carry it: 12 bits of major above 20 bits
    /// of minor number.
    pub const fn from_kernel(number: u32) -> Self {
        Self { major: number >> 20, minor: number & 0xf_ffff }
    }

    /// The number inside the kernel, as filters of trace events want it.
    pub const fn to_kernel(self) -> u32 {
        (self.major << 20) | (self.minor & 0xf_ffff)
    }

    /// From `MAJOR:MINOR`. Allocates nothing, unlike `from_str`, whose error holds the text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        (major < 1 << 12 && minor < 1 << 20).then_some(Self { major, minor })
    }

    /// Whether no block device stands behind it: network, FUSE, overlay and memory file systems.
    pub const fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DevNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.major, self.minor)
    }
}

/// Not `MAJOR:MINOR`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a device number MAJOR:MINOR")]
pub struct NotANumber(pub String);

impl FromStr for DevNumber {
    type Err = NotANumber;

    fn from_str(text: &str) -> Result<Self, NotANumber> {
        Self::parse(text).ok_or_else(|| NotANumber(text.to_owned()))
    }
}

/// A file, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// The device of its file system.
    pub dev: DevNumber,
    /// Its inode number.
    pub ino: u64,
}

impl fmt::Display for FileKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "inode {} of {}", self.ino, self.dev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_reads_as_it_is_written() {
        let disk: DevNumber = "254:0\n".parse().unwrap();
        assert_eq!(disk, DevNumber { major: 254, minor: 0 });
        assert_eq!(disk.to_string(), "254:0");
        assert_eq!(DevNumber::from_kernel(disk.to_kernel()), disk);
        assert!("0:45".parse::<DevNumber>().unwrap().is_anonymous());
    }

    #[test]
    fn what_is_no_number_is_refused_by_name() {
        for text in ["", "8", "8:", ":1", "8:x", "4096:0", "8:1048576", "-1:0"] {
            assert_eq!(text.parse::<DevNumber>(), Err(NotANumber(text.to_owned())), "{text}");
        }
    }
}
