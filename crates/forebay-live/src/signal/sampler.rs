//! Takes samples: files stay open, bytes go to one buffer, a steady state allocates nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use forebay_core::time::Instant;

use super::{
    DiskCounts, Malformed, Sample, Text, VmCounts, bdi, diskstats, meminfo, pressure, vmstat,
};
use crate::number::DevNumber;
use crate::tree::{TEXT_MAX, Tree, Unread};

/// The open files of a machine's counters.
#[derive(Debug)]
pub struct Sampler {
    tree: Tree,
    vmstat: Counter,
    meminfo: Counter,
    /// None once it turned out that the machine has none.
    pressure: Option<Counter>,
    diskstats: Option<Counter>,
    bdis: Vec<(DevNumber, Counter)>,
    /// Names of `/proc/diskstats` that were looked up, sorted, and whether each is a whole device.
    names: Vec<(String, bool)>,
    buffer: Vec<u8>,
    gaps: Vec<String>,
}

/// Why there is no sample.
#[derive(Debug, thiserror::Error)]
pub enum Unsampled {
    /// A file that every Linux has cannot be read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// It can, and is not what the kernel writes.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// An open file of counters.
#[derive(Debug)]
struct Counter {
    path: String,
    file: File,
}

impl Sampler {
    /// Opens the files of levels, memory and devices alone, which is all that steering looks at.
    pub fn of_levels(tree: &Tree) -> Result<Self, Unread> {
        let mut sampler = Self {
            tree: tree.clone(),
            vmstat: Counter::open(tree, vmstat::FILE)?,
            meminfo: Counter::open(tree, meminfo::FILE)?,
            pressure: None,
            diskstats: None,
            bdis: Vec::new(),
            names: Vec::new(),
            buffer: vec![0; BUFFER],
            gaps: Vec::new(),
        };
        match Counter::open(tree, diskstats::FILE) {
            Ok(counter) => sampler.diskstats = Some(counter),
            Err(error) => sampler.gap(format!("{error}: nothing is known of what devices do")),
        }
        Ok(sampler)
    }

    /// Opens the files. `/proc/vmstat` and `/proc/meminfo` must be there; what else is not, is a
    /// gap.
    pub fn new(tree: &Tree) -> Result<Self, Unread> {
        let mut sampler = Self::of_levels(tree)?;
        match Counter::open(tree, pressure::IO) {
            Ok(counter) => sampler.pressure = Some(counter),
            Err(error) if error.is_absent() => sampler.gap(NO_PRESSURE.to_owned()),
            Err(error) => sampler.gap(error.to_string()),
        }
        sampler.refresh();
        Ok(sampler)
    }

    /// Names of devices may be others' by now.
    pub fn forget_names(&mut self) {
        self.names.clear();
    }

    /// Looks for backing devices that came since; to be called when something was mounted.
    pub fn refresh(&mut self) {
        self.forget_names();
        self.bdis.clear();
        let names = match self.tree.names(bdi::FOLDER) {
            Ok(names) => names,
            Err(error) => {
                let denied = error.source.kind() == io::ErrorKind::PermissionDenied;
                self.gap(if denied { DENIED_DEBUGFS } else { NO_DEBUGFS }.to_owned());
                return;
            }
        };
        for name in names {
            // Names such as `btrfs-1` have no number by which anything else would know them.
            let number = name.strip_suffix("-fuseblk").unwrap_or(&name).parse();
            let path = format!("{}/{name}/stats", bdi::FOLDER);
            let (Ok(number), Ok(counter)) = (number, Counter::open(&self.tree, &path)) else {
                continue;
            };
            self.bdis.push((number, counter));
        }
    }

    /// Takes a sample; `into` is best the one that was taken before, for its memory.
    ///
    /// After an error `into` holds a mixture and must not be used.
    pub fn take(&mut self, at: Instant, into: &mut Sample) -> Result<(), Unsampled> {
        self.take_levels(at, into)?;
        self.take_rest(into)?;
        into.io_pressure = self.take_pressure();
        self.take_bdis(into);
        Ok(())
    }

    /// Takes `/proc/vmstat` alone, which also tells whether block devices were asked anything. The
    /// rest of `into` stays as it is.
    pub fn take_levels(&mut self, at: Instant, into: &mut Sample) -> Result<(), Unsampled> {
        into.at = at;
        into.vm = self.take_vm()?;
        Ok(())
    }

    /// Takes memory and disks. The rest of `into` stays as it is.
    pub fn take_rest(&mut self, into: &mut Sample) -> Result<(), Unsampled> {
        let memory = meminfo::parse(self.meminfo.read(&mut self.buffer)?)?;
        (into.cached, into.available) = (memory.cached, memory.available);
        self.take_disks(&mut into.disks);
        Ok(())
    }

    /// All that is wanted mostly stands in the first piece.
    fn take_vm(&mut self) -> Result<VmCounts, Unsampled> {
        if let Ok(found) = vmstat::parse(self.vmstat.read_begin(&mut self.buffer)?) {
            return Ok(found);
        }
        Ok(vmstat::parse(self.vmstat.read(&mut self.buffer)?)?)
    }

    /// What cannot be seen here, in sentences for the user; each is said once.
    pub fn gaps(&self) -> &[String] {
        &self.gaps
    }

    fn take_pressure(&mut self) -> Option<super::Pressure> {
        let counter = self.pressure.as_ref()?;
        let found = counter.read(&mut self.buffer).map_err(|error| match error {
            // Built in, but not switched on when the machine started.
            Unsampled::Unread(unread) if is_off(&unread.source) => PRESSURE_OFF.to_owned(),
            Unsampled::Unread(_) | Unsampled::Malformed(_) => error.to_string(),
        });
        match found.and_then(|text| pressure::parse(text).map_err(|error| error.to_string())) {
            Ok(found) => Some(found),
            Err(said) => {
                self.pressure = None;
                self.gap(said);
                None
            }
        }
    }

    fn take_disks(&mut self, into: &mut Vec<DiskCounts>) {
        let Some(counter) = &self.diskstats else { return into.clear() };
        let text = match counter.read(&mut self.buffer) {
            Ok(text) => text,
            Err(error) => {
                into.clear();
                let said = error.to_string();
                return self.gap(said);
            }
        };
        let mut kept = 0;
        let mut wrong = None;
        for line in diskstats::parse(text) {
            match line {
                Ok(line) if is_whole(&self.tree, &mut self.names, line.name) => {
                    keep(into, kept, &line);
                    kept += 1;
                }
                Ok(_) => {}
                Err(error) => wrong = Some(error),
            }
        }
        into.truncate(kept);
        if let Some(error) = wrong {
            self.gap(error.to_string());
        }
    }

    fn take_bdis(&mut self, into: &mut Sample) {
        into.bdis.clear();
        let buffer = &mut self.buffer;
        let mut wrong = None;
        // A device that is gone takes its file with it.
        self.bdis.retain(|(number, counter)| {
            let found = counter
                .read(buffer)
                .and_then(|text| bdi::parse(*number, text).map_err(Unsampled::Malformed));
            match found {
                Ok(counts) => into.bdis.push(counts),
                Err(Unsampled::Malformed(error)) => wrong = Some(error),
                Err(Unsampled::Unread(_)) => return false,
            }
            true
        });
        if let Some(error) = wrong {
            self.gap(error.to_string());
        }
    }

    fn gap(&mut self, said: String) {
        if self.gaps.len() < GAPS_MAX && !self.gaps.contains(&said) {
            self.gaps.push(said);
        }
    }
}

impl Counter {
    fn open(tree: &Tree, path: &str) -> Result<Self, Unread> {
        Ok(Self { path: path.to_owned(), file: tree.opened(path)? })
    }

    /// The whole file from its begin. The kernel gives it in pieces of a page, and a piece ends
    /// early only where the next line has no room or there is none.
    fn read<'a>(&'a self, buffer: &'a mut Vec<u8>) -> Result<Text<'a>, Unsampled> {
        let mut length = 0;
        loop {
            if length == buffer.len() {
                if buffer.len() as u64 >= TEXT_MAX {
                    return Err(self.unread(io::ErrorKind::FileTooLarge.into()));
                }
                buffer.resize(2 * length, 0);
            }
            let more = self.piece(&mut buffer[length..], length)?;
            length += more;
            if more < PIECE - LINE_MAX && length < buffer.len() {
                break;
            }
        }
        Ok(Text::of_bytes(&self.path, &buffer[..length])?)
    }

    /// The first piece of the file, as far as its lines are whole.
    fn read_begin<'a>(&'a self, buffer: &'a mut [u8]) -> Result<Text<'a>, Unsampled> {
        let length = self.piece(buffer, 0)?;
        let whole = buffer[..length].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Ok(Text::of_bytes(&self.path, &buffer[..whole])?)
    }

    fn piece(&self, buffer: &mut [u8], from: usize) -> Result<usize, Unsampled> {
        loop {
            match self.file.read_at(buffer, from as u64) {
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unread(error)),
            }
        }
    }

    fn unread(&self, source: io::Error) -> Unsampled {
        Unread { path: self.path.clone().into(), source }.into()
    }
}

/// Whether a name is that of a whole device. Partitions are folders of their devices.
fn is_whole(tree: &Tree, names: &mut Vec<(String, bool)>, name: &str) -> bool {
    match names.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
        Ok(place) => names[place].1,
        Err(place) => {
            // Slashes of a device's name are exclamation marks in its folder's.
            let folder = format!("/sys/block/{}", name.replace('/', "!"));
            let whole = tree.place(&folder).exists();
            if names.len() == NAMES_MAX {
                names.clear();
                names.push((name.to_owned(), whole));
            } else {
                names.insert(place, (name.to_owned(), whole));
            }
            whole
        }
    }
}

/// Puts a line at its place, into the memory of what was there.
fn keep(into: &mut Vec<DiskCounts>, place: usize, line: &diskstats::Line<'_>) {
    if place == into.len() {
        into.push(DiskCounts::default());
    }
    let disk = &mut into[place];
    if disk.name != line.name {
        disk.name.clear();
        disk.name.push_str(line.name);
    }
    disk.number = line.number;
    disk.reads = line.reads;
    disk.writes = line.writes;
    disk.in_flight = line.in_flight;
    disk.busy_ms = line.busy_ms;
    disk.queue_ms = line.queue_ms;
}

fn is_off(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Enough for `/proc/vmstat` and for a hundred devices.
const BUFFER: usize = 16 << 10;

/// What the kernel gives at once of a file that it writes line by line: the smallest page.
const PIECE: usize = 4_096;

/// More than the longest line, which is a device's with seventeen numbers.
const LINE_MAX: usize = 512;

/// More devices than a machine has at once; names of devices that went away are forgotten with it.
const NAMES_MAX: usize = 4096;

/// A machine whose files are all broken says no more than that.
const GAPS_MAX: usize = 32;

const NO_PRESSURE: &str = "no /proc/pressure: how long tasks stand still for storage is not known \
                           (the kernel was built without CONFIG_PSI)";
const PRESSURE_OFF: &str = "/proc/pressure is switched off: how long tasks stand still for storage \
                            is not known (boot with psi=1)";
const NO_DEBUGFS: &str = "no /sys/kernel/debug/bdi: unwritten data is not known by device (mount \
                          debugfs, and be root)";
const DENIED_DEBUGFS: &str = "/sys/kernel/debug may not be read: unwritten data is not known by \
                              device (root may)";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, path: &str, text: impl AsRef<[u8]>) {
        let place = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    const VMSTAT: &str = "nr_dirty 355\nnr_writeback 2\nnr_dirtied 7\nnr_written 5\n\
        nr_dirty_threshold 1214472\nnr_dirty_background_threshold 606494\npgmajfault 9\n";
    const MEMINFO: &str = "MemTotal: 100 kB\nMemAvailable: 50 kB\nCached: 20 kB\n";
    const DISKS: &str = " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 sda1 1 2 3 4 5 6 7 8 9 10 11\n\
         104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11 0 0 0 0 0 0\n";

    fn machine() -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, vmstat::FILE, VMSTAT);
        put(root, meminfo::FILE, MEMINFO);
        put(root, diskstats::FILE, DISKS);
        put(root, "/sys/block/sda/dev", "8:0\n");
        put(root, "/sys/block/cciss!c0d0/dev", "104:0\n");
        let tree = Tree::recorded(root).unwrap();
        (folder, tree)
    }

    #[test]
    fn whole_devices_are_kept_and_partitions_are_not() {
        let (_folder, tree) = machine();
        let mut sample = Sample::default();
        Sampler::new(&tree).unwrap().take(Instant(5), &mut sample).unwrap();
        let names: Vec<_> = sample.disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["sda", "cciss/c0d0"]);
        assert_eq!((sample.at, sample.available, sample.vm.dirty), (Instant(5), 50 << 10, 355));
    }

    #[test]
    fn what_a_machine_does_not_have_is_said_once() {
        let (_folder, tree) = machine();
        let mut sampler = Sampler::new(&tree).unwrap();
        let mut sample = Sample::default();
        for round in 0..3 {
            sampler.take(Instant(round), &mut sample).unwrap();
            sampler.refresh();
        }
        assert_eq!(sampler.gaps(), [NO_PRESSURE, NO_DEBUGFS]);
        assert_eq!((sample.io_pressure, sample.bdis.len()), (None, 0));
    }

    #[test]
    fn a_file_that_grows_is_read_whole() {
        let (folder, tree) = machine();
        let mut sampler = Sampler::new(&tree).unwrap();
        let many: String =
            (0..2_000).map(|n| format!("259 {n} nvme{n}n1 1 2 3 4 5 6 7 8 9 10 11\n")).collect();
        put(folder.path(), diskstats::FILE, DISKS.to_owned() + &many);
        let mut sample = Sample::default();
        sampler.take(Instant(1), &mut sample).unwrap();
        assert_eq!(sampler.names.len(), 3 + 2_000);
        assert_eq!(sample.disks.len(), 2);
    }

    #[test]
    fn counters_beyond_the_first_piece_and_of_a_line_that_is_cut_are_found() {
        let (folder, tree) = machine();
        for before in [0, 3_000, 4_000, BUFFER - 30, BUFFER - 3, BUFFER, 3 * BUFFER] {
            let filler: String = "nr_other 1234567\n".repeat(before.div_ceil(17));
            put(folder.path(), vmstat::FILE, filler[..before / 17 * 17].to_owned() + VMSTAT);
            let mut sample = Sample::default();
            Sampler::of_levels(&tree).unwrap().take_levels(Instant(1), &mut sample).unwrap();
            assert_eq!((sample.vm.dirty, sample.vm.major_faults), (355, 9), "{before}");
            assert_eq!(sample.vm.dirty_background_threshold, 606_494, "{before}");
        }
    }

    #[test]
    fn devices_and_backing_devices_come_and_go() {
        let (folder, tree) = machine();
        let stats = "BdiWriteback: 1 kB\nBdiReclaimable: 2 kB\nBdiDirtyThresh: 3 kB\n\
                     BdiDirtied: 4 kB\nBdiWritten: 5 kB\nBdiWriteBandwidth: 6 kBps\n";
        for name in ["8:0", "0:45-fuseblk", "btrfs-1"] {
            put(folder.path(), &format!("{}/{name}/stats", bdi::FOLDER), stats);
        }
        let mut sampler = Sampler::new(&tree).unwrap();
        let mut sample = Sample::default();
        sampler.take(Instant(1), &mut sample).unwrap();
        let numbers: Vec<_> = sample.bdis.iter().map(|bdi| bdi.number.to_string()).collect();
        assert_eq!(numbers, ["0:45", "8:0"]);

        put(folder.path(), &format!("{}/8:0/stats", bdi::FOLDER), "garbage");
        put(folder.path(), diskstats::FILE, DISKS.lines().last().unwrap());
        sampler.take(Instant(2), &mut sample).unwrap();
        assert_eq!((sample.bdis.len(), sample.disks.len()), (1, 1));
        assert_eq!(sample.disks[0].name, "cciss/c0d0");
        assert!(sampler.gaps().iter().any(|gap| gap.contains("8:0/stats has no BdiWriteback")));
    }

    #[test]
    fn a_machine_without_limits_to_read_is_an_error_that_names_the_file() {
        let (folder, tree) = machine();
        put(folder.path(), vmstat::FILE, b"nr_dirty \xff\n");
        let mut sampler = Sampler::new(&tree).unwrap();
        let error = sampler.take(Instant(1), &mut Sample::default()).unwrap_err();
        assert_eq!(error.to_string(), "/proc/vmstat, line 1: bytes that are no text");
        fs::remove_file(folder.path().join("proc/vmstat")).unwrap();
        assert!(Sampler::new(&tree).unwrap_err().is_absent());
    }
}
