//! Which device a number means: names and numbers are used again.
//!
//! ```text
//!   node     inode of the bdi's folder in sysfs: the kernel's object that holds the knobs
//!   diskseq  grows with each medium: a loop device that is bound to another file has the
//!            same bdi with the same knobs, and another diskseq
//! ```
//!
//! A knob belongs to the kernel's object. So an entry is another device's if the object is another
//! one, and still holds if only the medium was changed: the object has kept what was written.

use crate::number::DevNumber;

/// What a device was when one of its knobs was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its number; none for the machine's own knobs.
    pub number: Option<DevNumber>,
    /// The inode of its folder of knobs.
    pub node: Option<u64>,
    /// Which medium; none before Linux 5.15 and without a disk.
    pub diskseq: Option<u64>,
    /// Size of the medium in sectors of 512 bytes.
    pub size: Option<u64>,
    /// The disk's name, or for a backing device without a disk what is mounted.
    pub name: Option<String>,
}

impl Identity {
    /// Whether the knobs of the two are the same knobs.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.number != other.number {
            return false;
        }
        match (self.node, other.node) {
            (Some(one), Some(another)) => one == another,
            _ => self.is_same_medium(other),
        }
    }

    /// Whether the same disk is in it, or the same thing mounted.
    pub fn is_same_medium(&self, other: &Self) -> bool {
        match (self.diskseq, other.diskseq) {
            // A disk that grew is still that disk.
            (Some(one), Some(another)) => one == another,
            _ => self.size == other.size && self.name == other.name,
        }
    }

    /// `loop0 (7:0)`, `server:/home (0:45)`, `this machine`.
    pub fn show(&self) -> String {
        match (&self.name, self.number) {
            (Some(name), Some(number)) => format!("{name} ({number})"),
            (None, Some(number)) => format!("device {number}"),
            (_, None) => "this machine".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(node: Option<u64>, diskseq: Option<u64>, size: u64) -> Identity {
        let number = Some(DevNumber { major: 7, minor: 0 });
        Identity { number, node, diskseq, size: Some(size), name: Some("loop0".to_owned()) }
    }

    #[test]
    fn another_object_under_the_same_number_is_another_device() {
        assert!(!disk(Some(1), Some(5), 8).is_same(&disk(Some(2), Some(5), 8)));
    }

    // A loop device that is bound anew keeps strict_limit and its share on Linux 6.18.
    #[test]
    fn another_medium_in_the_same_object_has_the_same_knobs() {
        let (one, other) = (disk(Some(1), Some(5), 8), disk(Some(1), Some(6), 9));
        assert!(one.is_same(&other));
        assert!(!one.is_same_medium(&other));
    }

    #[test]
    fn without_the_object_the_medium_decides_and_may_have_grown() {
        assert!(disk(None, Some(5), 8).is_same(&disk(Some(1), Some(5), 9)));
        assert!(!disk(None, Some(5), 8).is_same(&disk(None, Some(6), 8)));
        assert!(!disk(None, None, 8).is_same(&disk(None, Some(6), 9)));
    }
}
