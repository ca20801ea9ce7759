//! What a job chooses by a word: directions and order, the engine, advice.

/// Directions and order of a job's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Sequential reads and writes.
    ReadWrite,
    /// Random reads and writes.
    RandReadWrite,
}

impl Mode {
    /// Whether offsets are drawn.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandReadWrite)
    }

    /// Whether there are reads.
    pub const fn reads(self) -> bool {
        !matches!(self, Self::Write | Self::RandWrite)
    }

    /// Whether there are writes.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }
}

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `lseek` and `read` or `write`.
    Sync,
    /// `pread` or `pwrite`.
    Psync,
    /// `readv` or `writev`.
    Vsync,
    /// `preadv` or `pwritev`.
    Pvsync,
    /// `preadv2` or `pwritev2`.
    Pvsync2,
    /// Linux native asynchronous requests.
    Libaio,
    /// Linux `io_uring`.
    IoUring,
    /// Copies from and to a mapping.
    Mmap,
}

impl Engine {
    /// The engines by the names that fio gives them.
    pub(super) const WORDS: &'static [(&'static str, Self)] = &[
        ("sync", Self::Sync),
        ("psync", Self::Psync),
        ("vsync", Self::Vsync),
        ("pvsync", Self::Pvsync),
        ("pvsync2", Self::Pvsync2),
        ("libaio", Self::Libaio),
        ("io_uring", Self::IoUring),
        ("mmap", Self::Mmap),
    ];

    /// Whether fio counts a request when it is queued rather than when it is complete.
    pub(super) const fn queues(self) -> bool {
        matches!(self, Self::Vsync | Self::Libaio | Self::IoUring)
    }
}

/// What a job tells the kernel about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    Normal,
    /// Expect random requests: no readahead.
    Random,
    /// Expect sequential requests: twice the readahead.
    Sequential,
}
