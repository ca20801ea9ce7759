//! The rows of the table: a program, its device, the settings by hand, and the measured figure.

use anyhow::Result;

use super::rig::Rig;
use super::way::{Tuned, Way};
use super::{databases, files, mapped, writes};

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name.
    pub(super) name: &'static str,
    /// Its load.
    pub(super) what: &'static str,
    /// Where.
    pub(super) device: Device,
    /// The size of the device.
    pub(super) bytes: u64,
    /// The device's read-ahead in KiB by default; the kernel's own if none.
    pub(super) read_ahead: Option<u64>,
    /// Settings by hand.
    pub(super) fixed: &'static [Way],
    /// How `forebay tune` is started.
    pub(super) tuned: Tuned,
    /// What the figure is in.
    pub(super) unit: &'static str,
    /// Whether more of it is better.
    pub(super) better: Better,
    /// Programs and their Debian packages.
    pub(super) needs: &'static [(&'static str, &'static str)],
    /// Makes the files while the device is fast.
    pub(super) prepare: fn(&mut Rig<'_>) -> Result<()>,
    /// One round; the figure.
    pub(super) work: fn(&Rig<'_>, u64) -> Result<f64>,
}

/// A slow device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// 3000 requests and 125 MiB a second.
    Volume,
    /// 300 MB/s, 2 ms.
    Link,
    /// Writes of 20 MB/s.
    Stick,
}

/// Which figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    /// The larger one.
    More,
    /// The smaller one.
    Less,
}

impl Row {
    /// The ways that take part.
    pub(super) fn ways(&self) -> Vec<Way> {
        [Way::Default, Way::Tune].into_iter().chain(self.fixed.iter().copied()).collect()
    }

    /// One round under a way; the figure.
    pub(super) fn round(&self, rig: &mut Rig<'_>, way: Way, seed: u64) -> Result<f64> {
        rig.begin(way, self.tuned)?;
        let figure = (self.work)(rig, seed);
        let reset = rig.order("reset");
        let figure = figure?;
        reset?;
        Ok(figure)
    }
}

impl Device {
    /// What the rig calls it.
    pub(super) const fn speed(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Link => "link",
            Self::Stick => "stick",
        }
    }
}

/// A volume of a cloud whose window was set for streams.
const FAULTS: Row = Row {
    name: "",
    what: "",
    device: Device::Volume,
    bytes: 5 << 30,
    read_ahead: Some(8_192),
    fixed: &[Way::ReadAhead(16), Way::ReadAhead(32)],
    tuned: Tuned::Named,
    unit: "",
    better: Better::More,
    needs: &[("python3", "python3")],
    prepare: |_| Ok(()),
    work: |_, _| Ok(0.0),
};

/// A file server whose window is the kernel's own.
const STREAMS: Row = Row {
    device: Device::Link,
    bytes: 3 << 30,
    read_ahead: Some(128),
    fixed: &[Way::ReadAhead(4_096)],
    unit: "s",
    better: Better::Less,
    ..FAULTS
};

/// A stick that others write to.
const WRITES: Row = Row {
    device: Device::Stick,
    bytes: 2 << 30,
    read_ahead: None,
    fixed: &[Way::Cap(32)],
    unit: "s",
    better: Better::Less,
    ..FAULTS
};

/// All rows, in the order of the table.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "lmdb",
        what: "LMDB, gets of random keys for 12 s, 4 GB",
        unit: "gets",
        needs: databases::LMDB,
        prepare: databases::make_lmdb,
        work: databases::lmdb,
        ..FAULTS
    },
    Row {
        name: "sqlite mapped",
        what: "SQLite, mapped, lookups of random rows for 8 s, 2 GB",
        unit: "lookups",
        prepare: databases::make_sqlite,
        work: databases::sqlite_mapped,
        ..FAULTS
    },
    Row {
        name: "sqlite ranges",
        what: "SQLite, pread, ranges of 200 rows and 4 lookups each for 8 s, 4 GB",
        unit: "rows",
        fixed: &[Way::ReadAhead(32), Way::ReadAhead(128), Way::ReadAhead(512)],
        prepare: databases::make_large_sqlite,
        work: databases::sqlite_ranges,
        ..FAULTS
    },
    Row {
        name: "postgres",
        what: "pgbench -S for 12 s beside a scan by cat, base window of the kernel",
        unit: "tps",
        read_ahead: Some(128),
        fixed: &[Way::ReadAhead(1_024), Way::ReadAhead(8_192)],
        needs: databases::POSTGRES,
        prepare: databases::make_postgres,
        work: databases::postgres,
        ..FAULTS
    },
    Row {
        name: "200 files",
        what: "200 mapped files of 40 MB, random touches for 12 s",
        bytes: 9 << 30,
        unit: "touches",
        prepare: mapped::make_many,
        work: mapped::many,
        ..FAULTS
    },
    Row {
        name: "scan, random: random",
        what: "one mapping: a scan for 3 s, then random touches for 5 s: touches",
        bytes: 3 << 30,
        unit: "touches",
        prepare: mapped::make_one,
        work: mapped::phases_random,
        ..FAULTS
    },
    Row {
        name: "scan, random: scan",
        what: "the same: MB of the scan",
        bytes: 3 << 30,
        unit: "MB",
        prepare: mapped::make_one,
        work: mapped::phases_scan,
        ..FAULTS
    },
    Row {
        name: "4 workers",
        what: "4 forked workers of one description, random touches for 10 s",
        bytes: 3 << 30,
        unit: "touches",
        prepare: mapped::make_one,
        work: mapped::forked,
        ..FAULTS
    },
    Row {
        name: "16 openers",
        what: "16 workers that open the file themselves, random touches for 10 s",
        bytes: 3 << 30,
        unit: "touches",
        prepare: mapped::make_one,
        work: mapped::opened,
        ..FAULTS
    },
    Row {
        name: "fio randread:8",
        what: "fio randread:8, pread of 64 KiB for 10 s, 2 GB",
        bytes: 3 << 30,
        fixed: &[Way::ReadAhead(128), Way::ReadAhead(512)],
        unit: "MB/s",
        needs: files::FIO,
        prepare: mapped::make_one,
        work: files::fio_runs,
        ..FAULTS
    },
    Row {
        name: "rocksdb",
        what: "db_bench readrandom, pread, 4 threads for 10 s, 1 GB",
        fixed: &[Way::ReadAhead(16), Way::ReadAhead(128)],
        unit: "ops/s",
        needs: databases::ROCKSDB,
        prepare: databases::make_rocksdb,
        work: databases::rocksdb_random,
        ..FAULTS
    },
    Row {
        name: "rocksdb seeks",
        what: "db_bench seekrandom of 50 entries, pread, 4 threads for 10 s, 1 GB",
        fixed: &[Way::ReadAhead(16), Way::ReadAhead(128)],
        unit: "ops/s",
        needs: databases::ROCKSDB,
        prepare: databases::make_rocksdb,
        work: databases::rocksdb_seek,
        ..FAULTS
    },
    Row {
        name: "tar",
        what: "tar of 40 files of 20 MB to nowhere",
        needs: &[("tar", "tar")],
        prepare: files::make_folder,
        work: files::tar,
        ..STREAMS
    },
    Row {
        name: "cp",
        what: "cp of 800 MB to memory",
        needs: &[("cp", "coreutils")],
        prepare: files::make_stream,
        work: files::cp,
        ..STREAMS
    },
    Row {
        name: "sha256sum",
        what: "sha256sum of 800 MB",
        needs: &[("sha256sum", "coreutils")],
        prepare: files::make_stream,
        work: files::sha256sum,
        ..STREAMS
    },
    Row {
        name: "25 streams",
        what: "25 files of 20 MB, a cat for each one",
        prepare: files::make_folder,
        work: files::short_streams,
        ..STREAMS
    },
    Row {
        name: "ripgrep",
        what: "rg over 40 files of 20 MB",
        needs: &[("rg", "ripgrep")],
        prepare: files::make_folder,
        work: files::ripgrep,
        ..STREAMS
    },
    Row {
        name: "copy, commit",
        what: "cp of 400 MB beside a commit in SQLite each 100 ms: the longest",
        prepare: writes::make_source,
        work: writes::copy_commit,
        ..WRITES
    },
    Row {
        name: "copy, commit, unnamed",
        what: "the same, device not named",
        tuned: Tuned::Unnamed,
        prepare: writes::make_source,
        work: writes::copy_commit,
        ..WRITES
    },
    Row {
        name: "temporary files",
        what: "6 files of 60 MB, written and removed",
        prepare: writes::make_source,
        work: writes::temporary,
        fixed: &[],
        ..WRITES
    },
    Row {
        name: "temporary, commit",
        what: "the same beside a commit in SQLite each 100 ms",
        prepare: writes::make_source,
        work: writes::temporary_commit,
        fixed: &[],
        ..WRITES
    },
    Row {
        name: "hot file",
        what: "fio randrw on a file of 64 MB that is in memory, for 8 s: reads",
        unit: "MB/s",
        better: Better::More,
        needs: files::FIO,
        prepare: writes::make_source,
        work: writes::hot,
        fixed: &[],
        ..WRITES
    },
    Row {
        name: "hot file, commit",
        what: "the same beside a commit in SQLite each 100 ms",
        unit: "MB/s",
        better: Better::More,
        needs: files::FIO,
        prepare: writes::make_source,
        work: writes::hot_commit,
        fixed: &[],
        ..WRITES
    },
];
