//! The device of a file: the kernel's description, and its measured behaviour.
//!
//! Virtual disks are often flagged as rotational, whatever they are. The flag is therefore valid
//! only until latencies contradict it: an arm needs milliseconds to reach a distant sector, and a
//! device that nearly always needs less than one has no arm.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

use forebay_core::dispatch::{Medium, MediumKind};
use rustix::fs::{AtFlags, FileType, StatxFlags, fstatfs, statx};

/// State of a file's device.
#[derive(Debug)]
pub(super) struct Device {
    kind: MediumKind,
    /// Where the last access ended.
    place: u64,
    /// Waits for places that no arm reaches at once, and how many of them were short.
    far: u32,
    quick: u32,
}

/// What accesses past the page cache must be multiples of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    /// The address in memory.
    pub(super) memory: u64,
    /// The offset and the length.
    pub(super) offset: u64,
}

impl Device {
    /// The device as the kernel describes it for the open file.
    pub(super) fn of(file: impl AsFd) -> Self {
        let kind = if is_remote(&file) {
            MediumKind::Remote
        } else if is_flagged_rotating(&file) {
            MediumKind::Rotating
        } else {
            MediumKind::Solid
        };
        Self { kind, place: 0, far: 0, quick: 0 }
    }

    /// The medium that the rule sees.
    pub(super) fn medium(&self) -> Medium {
        Medium { kind: self.kind, programmed: false }
    }

    /// A caller waited for bytes that were not in memory.
    pub(super) fn learn(&mut self, offset: u64, len: usize, took: Duration) {
        let is_far = self.place.abs_diff(offset) >= FAR;
        self.place = offset.saturating_add(len as u64);
        if self.kind != MediumKind::Rotating || !is_far {
            return;
        }
        self.far += 1;
        self.quick += u32::from(took < NO_ARM);
        if self.far == WINDOW {
            if self.quick >= NEARLY_ALL {
                self.kind = MediumKind::Solid;
            }
            (self.far, self.quick) = (0, 0);
        }
    }
}

impl Alignment {
    /// The alignment that the file requires. If the kernel does not report it (before Linux 6.1),
    /// 512 for offsets, which nearly all accept, and a page for memory.
    pub(super) fn of(file: impl AsFd) -> Self {
        let assumed = Self { memory: 512, offset: 512 };
        let Ok(found) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
            return assumed;
        };
        let (memory, offset) = (found.stx_dio_mem_align, found.stx_dio_offset_align);
        if found.stx_mask & StatxFlags::DIOALIGN.bits() == 0 || memory == 0 || offset == 0 {
            return assumed;
        }
        Self { memory: memory.into(), offset: offset.into() }
    }
}

fn is_remote(file: impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|found| REMOTE.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

fn is_flagged_rotating(file: impl AsFd) -> bool {
    let Ok(found) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS) else {
        return false;
    };
    let itself = FileType::from_raw_mode(found.stx_mode.into()) == FileType::BlockDevice;
    let (major, minor) = if itself {
        (found.stx_rdev_major, found.stx_rdev_minor)
    } else {
        (found.stx_dev_major, found.stx_dev_minor)
    };
    // A partition has no queue directory, but lies in the directory of its disk.
    ["queue", "../queue"].iter().any(|queue| {
        let path = format!("/sys/dev/block/{major}:{minor}/{queue}/rotational");
        fs::read_to_string(path).is_ok_and(|flag| flag.trim() == "1")
    })
}

/// Magic numbers of file systems behind a network or a program: NFS, SMB, SMB 2, CIFS, Ceph, AFS,
/// 9P, FUSE, Coda, Lustre, GFS 2, OCFS 2 (Linux include/uapi/linux/magic.h).
const REMOTE: [u64; 12] = [
    0x6969,
    0x517b,
    0xfe53_4d42,
    0xff53_4d42,
    0x00c3_6400,
    0x5346_414f,
    0x0102_1997,
    0x6573_5546,
    0x7375_7245,
    0x0bd0_0bd0,
    0x0116_1970,
    0x7461_636f,
];

/// Beyond it a disk's arm has to move; nearer bytes may be in the disk's own memory.
const FAR: u64 = 1 << 20;

/// The fastest disks turn in 4 ms and move their arm in more than this.
const NO_ARM: Duration = Duration::from_millis(1);

const WINDOW: u32 = 32;

/// Of [`WINDOW`]; an arm is seldom where it should be.
const NEARLY_ALL: u32 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    fn flagged() -> Device {
        Device { kind: MediumKind::Rotating, place: 0, far: 0, quick: 0 }
    }

    fn shown(device: &mut Device, stride: u64, micros: u64, count: u64) -> MediumKind {
        for number in 1..=count {
            device.learn(number * stride, 4096, Duration::from_micros(micros));
        }
        device.medium().kind
    }

    #[test]
    fn a_disk_that_is_flagged_as_rotating_and_has_no_arm_is_solid() {
        let far = 2 * FAR;
        assert_eq!(shown(&mut flagged(), far, 80, u64::from(WINDOW) - 1), MediumKind::Rotating);
        assert_eq!(shown(&mut flagged(), far, 80, u64::from(WINDOW)), MediumKind::Solid);
    }

    #[test]
    fn an_arm_is_slow_and_near_places_say_nothing() {
        assert_eq!(shown(&mut flagged(), 2 * FAR, 6_000, 1_000), MediumKind::Rotating);
        assert_eq!(shown(&mut flagged(), 4096, 80, 1_000), MediumKind::Rotating);
    }

    #[test]
    fn alignments_are_powers_of_two() {
        let alignment = Alignment::of(tempfile::tempfile().unwrap());
        assert!(alignment.memory.is_power_of_two() && alignment.offset.is_power_of_two());
    }
}
