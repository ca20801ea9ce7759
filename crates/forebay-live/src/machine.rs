//! What there is: the kernel, memory, devices, mounts and the knobs as they stand.
//!
//! It is read when a program starts and when something was attached or mounted, not at every
//! sample.

use std::path::PathBuf;

use crate::number::DevNumber;

/// A machine at one moment.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: String,
    /// All of memory in bytes.
    pub memory: u64,
    /// Global knobs of writeback.
    pub vm: Vm,
    /// Block devices that have a queue, and backing devices without one (FUSE, NFS).
    pub devices: Vec<Device>,
    /// What is mounted where.
    pub mounts: Vec<Mount>,
    /// What could not be read, in sentences for the user.
    pub gaps: Vec<String>,
}

/// `/proc/sys/vm/dirty_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vm {
    /// Percent of available memory above which writers pause; 0 if `dirty_bytes` counts.
    pub dirty_ratio: u64,
    /// Bytes, or 0.
    pub dirty_bytes: u64,
    /// Percent above which flusher threads write; 0 if `dirty_background_bytes` counts.
    pub dirty_background_ratio: u64,
    /// Bytes, or 0.
    pub dirty_background_bytes: u64,
    /// Age at which a dirty inode is written, in hundredths of a second.
    pub dirty_expire_centisecs: u64,
    /// The period of the flusher's passes in hundredths of a second; 0 for none.
    pub dirty_writeback_centisecs: u64,
}

/// A backing device.
#[derive(Clone, Debug, Default)]
pub struct Device {
    /// Its number, by which its bdi is named.
    pub number: DevNumber,
    /// The kernel's name (`vda`); for a backing device without a disk its number.
    pub name: String,
    /// What kind of thing it is.
    pub kind: Kind,
    /// Grows with every attach: tells this device from another of the same name.
    pub diskseq: Option<u64>,
    /// Bytes; 0 if nothing is in it or it is not known.
    pub size: u64,
    /// Whether it says of itself that it can be pulled out, or hangs on USB or a card reader.
    pub removable: bool,
    /// What is below it, for stacked devices (`dm`, `md`, `loop` gives none).
    pub below: Vec<String>,
    /// Partitions, as device numbers: file systems on them are this device's.
    pub partitions: Vec<DevNumber>,
    /// Attributes of its queue.
    pub queue: Option<Queue>,
    /// Attributes of its bdi.
    pub bdi: Option<Bdi>,
}

/// Kinds of backing devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Virtual disks of a hypervisor: virtio, Xen.
    Virtual,
    /// NVMe.
    Nvme,
    /// SCSI, SATA, USB.
    #[default]
    Scsi,
    /// SD cards and eMMC.
    Mmc,
    /// A file as a device.
    Loop,
    /// Memory as a device: zram, brd.
    Memory,
    /// Stacked: device mapper, md.
    Stacked,
    /// NFS, CIFS, Ceph and others on a network.
    Network,
    /// A file system in user space.
    Fuse,
    /// Anything else without a disk (overlay, btrfs's own number, memory file systems).
    Other,
}

/// `/sys/block/D/queue/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Largest readahead window in KiB.
    pub read_ahead_kb: u64,
    /// Whether the driver calls it rotational.
    pub rotational: bool,
    /// The elevator in use.
    pub scheduler: String,
    /// The elevators that there are.
    pub schedulers: Vec<String>,
    /// Depth of the queue, in requests.
    pub nr_requests: u64,
    /// Largest request, in KiB.
    pub max_sectors_kb: u64,
    /// Largest request that the hardware takes, in KiB.
    pub max_hw_sectors_kb: u64,
    /// What the device likes best, in bytes; 0 if it does not say.
    pub optimal_io_size: u64,
    /// Target read latency of writeback throttling in us; none without support, 0 if it is off.
    pub wbt_lat_usec: Option<u64>,
    /// Whether the device's requests are counted.
    pub iostats: bool,
    /// `write back` or `write through`.
    pub write_cache: String,
}

/// `/sys/class/bdi/MAJ:MIN/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bdi {
    /// Largest readahead window in KiB.
    pub read_ahead_kb: u64,
    /// Its greatest share of the global dirty limit, in percent.
    pub max_ratio: u64,
    /// The same in parts per million; none before Linux 6.2.
    pub max_ratio_fine: Option<u64>,
    /// Its own share, in percent.
    pub min_ratio: u64,
    /// Whether its share binds below the global limits too; none before Linux 6.2.
    pub strict_limit: Option<bool>,
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The file system's device number.
    pub dev: DevNumber,
    /// Where.
    pub point: PathBuf,
    /// `ext4`, `nfs4`, `fuse.sshfs`.
    pub kind: String,
    /// What is mounted: a device node, a server's path.
    pub source: String,
    /// Options of the mount and of the file system, as they are shown.
    pub options: String,
}

impl Machine {
    /// The device whose bdi serves files of a file system with this number.
    pub fn device_of(&self, dev: DevNumber) -> Option<&Device> {
        let of = |device: &&Device| device.number == dev || device.partitions.contains(&dev);
        self.devices.iter().find(of)
    }
}
