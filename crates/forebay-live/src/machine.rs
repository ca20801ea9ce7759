//! What there is: the kernel, memory, devices, mounts and the knobs as they stand.
//!
//! It is read when a program starts and when something was attached or mounted, not at every
//! sample. A file that cannot be read or understood is a gap that is told; the rest is read all the
//! same.

use std::path::PathBuf;

use crate::number::DevNumber;
use crate::tree::Tree;

mod attribute;
mod devices;
mod kind;
pub mod mounts;
pub mod record;

/// A machine at one moment.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: String,
    /// All of memory in bytes.
    pub memory: u64,
    /// Bytes of a page; a recorded machine is taken to have pages of 4096 bytes.
    pub page_size: u64,
    /// The limit of dirty memory in force, in bytes; none if it cannot be read.
    pub dirty_threshold: Option<u64>,
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
    /// The kernel's name (`vda`); for a backing device without a disk the name of its bdi, which is
    /// its number (`0:45`) or has a number of its own kind (`btrfs-1`).
    pub name: String,
    /// What kind of thing it is.
    pub kind: Kind,
    /// What it says of itself (`Samsung SSD 980`), or nothing.
    pub model: String,
    /// Bytes a second that its bus carries at most, where the bus tells: USB.
    pub bus_rate: Option<u64>,
    /// Grows with every attach: tells this device from another of the same name.
    pub diskseq: Option<u64>,
    /// Bytes; 0 if nothing is in it or it is not known.
    pub size: u64,
    /// Whether it says of itself that it can be pulled out, or hangs on USB or a card reader.
    pub removable: bool,
    /// Whole devices below it, for stacked devices and for btrfs (`loop` gives none).
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
    /// Reads what a tree shows.
    pub fn read(tree: &Tree) -> Self {
        let mut from = attribute::Attributes::new(tree);
        let kernel = from.word("/proc/sys/kernel/osrelease");
        let page_size = if tree.is_machine() { rustix::param::page_size() as u64 } else { 4096 };
        let mounts = mounts::read(&mut from);
        let (memory, dirty_threshold) = (from.memory(), from.dirty_threshold(page_size));
        Self {
            kernel: kernel.unwrap_or_default(),
            memory,
            page_size,
            dirty_threshold,
            vm: Vm::read(&mut from),
            devices: devices::read(&mut from, &mounts),
            mounts,
            gaps: from.gaps(),
        }
    }

    /// The device whose bdi serves files of a file system with this number.
    pub fn device_of(&self, dev: DevNumber) -> Option<&Device> {
        // FUSE on a block device has that device's number and a bdi of its own.
        let own = |device: &&Device| device.number == dev && device.queue.is_none();
        let whole = |device: &&Device| device.number == dev;
        let devices = || self.devices.iter();
        let found = devices().find(own).or_else(|| devices().find(whole));
        found.or_else(|| devices().find(|device| device.partitions.contains(&dev)))
    }

    /// Mounts whose files this device's bdi serves.
    pub fn mounts_on<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = &'a Mount> {
        let is = |mount: &&Mount| self.device_of(mount.dev).is_some_and(|it| it.is(device));
        self.mounts.iter().filter(is)
    }

    /// Reads the readahead windows of the devices anew: a file for each.
    pub fn refresh_windows(&mut self, tree: &Tree) {
        for device in &mut self.devices {
            let Some(path) = device.bdi_path() else { continue };
            let text = tree.text(&format!("{path}/read_ahead_kb")).unwrap_or_default();
            if let (Some(bdi), Ok(kib)) = (&mut device.bdi, text.trim().parse()) {
                bdi.read_ahead_kb = kib;
            }
        }
    }

    /// Whether something that is mounted lies on this device, directly or through others.
    pub fn is_used(&self, device: &Device) -> bool {
        // Each device is looked at once, so that a broken record with a circle ends too.
        let mut above = vec![device];
        let mut next = 0;
        while let Some(&device) = above.get(next) {
            if self.mounts_on(device).next().is_some() {
                return true;
            }
            for it in self.devices.iter().filter(|it| it.below.contains(&device.name)) {
                if !above.iter().any(|known| known.is(it)) {
                    above.push(it);
                }
            }
            next += 1;
        }
        false
    }

    /// Major and minor number of the kernel; zeros if it does not say.
    pub fn version(&self) -> (u32, u32) {
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit());
        let mut part = || parts.next().and_then(|part| part.parse().ok()).unwrap_or_default();
        (part(), part())
    }
}

impl Vm {
    fn read(from: &mut attribute::Attributes<'_>) -> Self {
        let mut knob = |name| from.number(&format!("/proc/sys/vm/{name}"), name).unwrap_or(0);
        Self {
            dirty_ratio: knob("dirty_ratio"),
            dirty_bytes: knob("dirty_bytes"),
            dirty_background_ratio: knob("dirty_background_ratio"),
            dirty_background_bytes: knob("dirty_background_bytes"),
            dirty_expire_centisecs: knob("dirty_expire_centisecs"),
            dirty_writeback_centisecs: knob("dirty_writeback_centisecs"),
        }
    }
}

impl Device {
    /// Whether it is the same device.
    pub fn is(&self, other: &Self) -> bool {
        self.number == other.number && self.name == other.name
    }

    /// The folder of its queue's attributes, if it has a queue.
    pub fn queue_path(&self) -> Option<String> {
        self.queue.is_some().then(|| format!("/sys/block/{}/queue", self.name))
    }

    /// The folder of its bdi's attributes, if it has a bdi.
    pub fn bdi_path(&self) -> Option<String> {
        self.bdi.as_ref()?;
        Some(match self.queue {
            Some(_) => format!("/sys/class/bdi/{}", self.number),
            None => format!("/sys/class/bdi/{}", self.name),
        })
    }

    /// Its largest readahead window in KiB, which its bdi and its queue both show.
    pub fn read_ahead_kb(&self) -> Option<u64> {
        let queue = || self.queue.as_ref().map(|queue| queue.read_ahead_kb);
        self.bdi.as_ref().map(|bdi| bdi.read_ahead_kb).or_else(queue)
    }
}

impl Mount {
    /// Whether an option stands among its options.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|it| it == option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, number: &str, below: &[&str]) -> Device {
        Device {
            name: name.to_owned(),
            number: number.parse().unwrap(),
            below: below.iter().map(|&name| name.to_owned()).collect(),
            queue: Some(Queue::default()),
            bdi: Some(Bdi::default()),
            ..Device::default()
        }
    }

    fn mounted(devices: Vec<Device>, on: &str) -> Machine {
        let mount = Mount { dev: on.parse().unwrap(), ..Mount::default() };
        Machine { devices, mounts: vec![mount], ..Machine::default() }
    }

    #[test]
    fn a_disk_below_a_mounted_stack_is_used() {
        let devices = vec![
            device("sda", "8:0", &[]),
            device("sdb", "8:16", &[]),
            device("md0", "9:0", &["sda"]),
            device("dm-0", "253:0", &["md0"]),
        ];
        let machine = mounted(devices, "253:0");
        let used = |at: usize| machine.is_used(&machine.devices[at]);
        assert_eq!([used(0), used(1), used(2), used(3)], [true, false, true, true]);
    }

    #[test]
    fn a_record_that_goes_in_a_circle_ends() {
        let devices = vec![device("dm-0", "253:0", &["dm-1"]), device("dm-1", "253:1", &["dm-0"])];
        let machine = mounted(devices, "8:0");
        assert!(!machine.is_used(&machine.devices[0]));
    }

    #[test]
    fn a_file_system_s_own_bdi_goes_before_its_disk_s() {
        let disk = device("sdb", "8:16", &[]);
        let fuse = Device { queue: None, name: "8:16-fuseblk".to_owned(), ..disk.clone() };
        assert_eq!(fuse.bdi_path().as_deref(), Some("/sys/class/bdi/8:16-fuseblk"));
        assert_eq!(disk.bdi_path().as_deref(), Some("/sys/class/bdi/8:16"));
        let machine = mounted(vec![disk, fuse], "8:16");
        assert_eq!(machine.device_of("8:16".parse().unwrap()).unwrap().name, "8:16-fuseblk");
    }

    #[test]
    fn a_kernel_s_version_is_its_first_two_numbers() {
        let of = |kernel: &str| Machine { kernel: kernel.to_owned(), ..Machine::default() };
        assert_eq!(of("6.18.44-fc-v669").version(), (6, 18));
        assert_eq!(of("6.12-rc3").version(), (6, 12));
        assert_eq!(of("").version(), (0, 0));
    }
}
