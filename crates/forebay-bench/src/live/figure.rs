//! What is measured, and the columns of the table.

/// The measured figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    /// Pages touched in a second.
    Touches,
    /// MB read in a second.
    Stream,
    /// Milliseconds that all but a hundredth of the reads took at most.
    ReadP99,
    /// Milliseconds of the light writer's longest write.
    LightMax,
    /// Milliseconds of the bystander's longest fsync.
    FsyncMax,
    /// Seconds until the data of a copy is durable, after it has been written.
    Rest,
    /// The maximum of MB dirty or under writeback.
    Peak,
    /// Seconds from the first write until all is durable.
    Total,
    /// Nanoseconds of a cached read of a page.
    Cached,
    /// Processor time of it, in nanoseconds.
    CachedCpu,
    /// Microseconds of a read past the page cache.
    Direct,
    /// Knobs of the device that had another value at the end of the work than before.
    Steered,
    /// Knobs of the device that have another value after the tuner's end than before its start.
    Left,
    /// The tuner's processor time, in percent.
    TunerCpu,
    /// The tuner's memory, in MiB.
    TunerMemory,
}

impl Figure {
    /// All of them, in the order of the table: key, heading, decimals.
    pub(super) const COLUMNS: [(Self, &'static str, &'static str, usize); 15] = [
        (Self::Touches, "touches_per_s", "touches/s", 0),
        (Self::Stream, "stream_mb_per_s", "MB/s", 1),
        (Self::ReadP99, "read_p99_ms", "read p99 ms", 1),
        (Self::LightMax, "light_max_ms", "light max ms", 1),
        (Self::FsyncMax, "fsync_max_ms", "fsync max ms", 0),
        (Self::Rest, "unwritten_s", "unwritten s", 2),
        (Self::Peak, "peak_mb", "peak MB", 0),
        (Self::Total, "total_s", "total s", 2),
        (Self::Cached, "cached_ns", "cached ns", 0),
        (Self::CachedCpu, "cached_cpu_ns", "cached cpu ns", 0),
        (Self::Direct, "direct_us", "direct us", 1),
        (Self::Steered, "knobs_steered", "steered", 0),
        (Self::Left, "knobs_left", "left", 0),
        (Self::TunerCpu, "tuner_cpu_percent", "tuner cpu %", 2),
        (Self::TunerMemory, "tuner_mib", "tuner MiB", 1),
    ];
}
