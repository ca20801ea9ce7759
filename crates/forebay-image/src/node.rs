//! The nodes of a tree: what they are, their attributes, and their names in directories.

use std::fmt;

/// A node of an image; stable as long as the image does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl Kind {
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::BlockDevice => "block device",
            Self::CharDevice => "character device",
            Self::Fifo => "pipe",
            Self::Socket => "socket",
        }
    }

    /// What a mode's upper four bits say, as they are on all of Unix.
    pub(crate) const fn of_mode(mode: u16) -> Option<Self> {
        match mode >> 12 {
            0o01 => Some(Self::Fifo),
            0o02 => Some(Self::CharDevice),
            0o04 => Some(Self::Directory),
            0o06 => Some(Self::BlockDevice),
            0o10 => Some(Self::File),
            0o12 => Some(Self::Symlink),
            0o14 => Some(Self::Socket),
            _ => None,
        }
    }

    /// These bits of a mode.
    pub(crate) const fn mode(self) -> u16 {
        let bits = match self {
            Self::Fifo => 0o01,
            Self::CharDevice => 0o02,
            Self::Directory => 0o04,
            Self::BlockDevice => 0o06,
            Self::File => 0o10,
            Self::Symlink => 0o12,
            Self::Socket => 0o14,
        };
        bits << 12
    }
}

/// A moment since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds beyond them.
    pub nanos: u32,
}

impl fmt::Display for Time {
    /// `2024-02-29 12:34:56`, in UTC, without the nanoseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The calendar repeats every 400 years. They begin in March, so that the odd day is last.
        const DAYS_400: i64 = 146_097;
        /// From the first of March of the year 0 to 1970.
        const DAYS_TO_1970: i64 = 719_468;
        let days = self.seconds.div_euclid(86_400) + DAYS_TO_1970;
        let second = self.seconds.rem_euclid(86_400);
        let (cycle, day) = (days.div_euclid(DAYS_400), days.rem_euclid(DAYS_400));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = cycle * 400 + year + next;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name in this image.
    pub id: NodeId,
    /// The number that `stat` shows.
    pub ino: u64,
    /// Its type.
    pub kind: Kind,
    /// Permissions with set-user-id, set-group-id and sticky: the low 12 bits of a mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Bytes of content, or of a link's target, or of a directory as the format counts it.
    pub size: u64,
    /// Space that Linux shows for it, in units of 512 bytes: less than its size has if it has holes
    /// or, in erofs, if it is compressed.
    pub blocks: u64,
    /// The number of names it has.
    pub links: u32,
    /// When it was changed last; none if the format keeps no time.
    pub modified: Option<Time>,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// A name in a directory. `.` and `..` are in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, without a slash and without a zero byte; never empty.
    pub name: Vec<u8>,
    /// Its node.
    pub node: NodeId,
    /// The inode number of that.
    pub ino: u64,
    /// What that is.
    pub kind: Kind,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xattr {
    /// The name with its namespace: `user.origin`.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_types_are_known_and_nine_are_not() {
        let known = (0..16).filter_map(|bits: u16| Some((bits << 12, Kind::of_mode(bits << 12)?)));
        let known: Vec<_> = known.collect();
        assert_eq!(known.len(), 7);
        for (mode, kind) in known {
            assert_eq!(kind.mode(), mode);
        }
    }

    #[test]
    fn times_are_those_of_date() {
        let at = |seconds| Time { seconds, nanos: 5 }.to_string();
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        assert_eq!(at(1 << 31), "2038-01-19 03:14:08");
        assert!(at(i64::MAX).ends_with(" 15:30:07"));
        assert!(at(i64::MIN).starts_with('-'));
    }
}
