//! One request of a trace, whatever its format, and the names of files and devices.

use std::collections::HashMap;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was issued, in nanoseconds since the first request of the trace.
    pub time: u64,
    /// How long it took, in nanoseconds, if the trace has it.
    pub took: Option<u64>,
    /// The process, thread or client that issued it.
    pub stream: u32,
    /// The file or device, as a number of [`Names`].
    pub object: u32,
    /// The operation.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Data are read.
    Read,
    /// Data are written.
    Write,
    /// `fsync`.
    Sync,
    /// `fdatasync`.
    DataSync,
    /// A device's write cache is flushed.
    Flush,
    /// A range is discarded.
    Discard,
    /// A file is opened.
    Open,
    /// A file is closed.
    Close,
    /// A file is cut to `offset` bytes.
    Truncate,
}

/// How a request was issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

/// Where in the I/O path requests were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// System calls: above the page cache.
    File,
    /// Block devices: below the page cache.
    Block,
    /// Objects of a cache, which have sizes and no addresses.
    Object,
}

/// Files and devices by number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<String>,
    numbers: HashMap<Vec<u8>, u32>,
    /// The name that was looked up last, as the trace spells it.
    last: Option<(Vec<u8>, u32)>,
}

/// The most files and devices of one trace.
pub const OBJECTS_MAX: usize = 1 << 20;

impl Record {
    /// With a time that begins at `origin`; what is older has zero.
    pub(crate) const fn since(self, origin: u64) -> Self {
        Self { time: self.time.saturating_sub(origin), ..self }
    }
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::DataSync,
        Self::Flush,
        Self::Discard,
        Self::Open,
        Self::Close,
        Self::Truncate,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::DataSync => "datasync",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Open => "open",
            Self::Close => "close",
            Self::Truncate => "truncate",
        }
    }

    /// Whether it moves data, and so has a length.
    pub const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Discard)
    }
}

impl Flags {
    /// No flag.
    pub(crate) const WITHOUT: Self = Self(0);
    /// The page cache is bypassed (`O_DIRECT`).
    pub const DIRECT: Self = Self(1);
    /// The write is durable when it ends (`O_DSYNC`, `REQ_SYNC` with FUA).
    pub const DURABLE: Self = Self(2);
    /// No caller waits for it (`REQ_RAHEAD`).
    pub const READAHEAD: Self = Self(4);
    /// File system metadata (`REQ_META`).
    pub const META: Self = Self(8);
    /// The cache is flushed before it (`REQ_PREFLUSH`).
    pub const PREFLUSH: Self = Self(16);
    /// A caller waits for it (`REQ_SYNC`).
    pub const SYNC: Self = Self(32);

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the flags of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Layer {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Block => "block",
            Self::Object => "object",
        }
    }
}

impl Names {
    /// The number of a name; a new name gets the next number. Nothing if there is no number left.
    pub fn intern(&mut self, name: &[u8]) -> Option<u32> {
        if let Some((last, number)) = &self.last
            && last == name
        {
            return Some(*number);
        }
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None if self.names.len() == OBJECTS_MAX => return None,
            None => {
                let number = self.names.len() as u32;
                self.names.push(String::from_utf8_lossy(name).into_owned());
                self.numbers.insert(name.to_vec(), number);
                number
            }
        };
        match &mut self.last {
            Some((last, last_number)) => {
                last.clear();
                last.extend_from_slice(name);
                *last_number = number;
            }
            None => self.last = Some((name.to_vec(), number)),
        }
        Some(number)
    }

    /// The name of a number.
    ///
    /// # Panics
    /// If no name has this number.
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All names, by number.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
