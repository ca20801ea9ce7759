//! Numbers of the protocol, all of them big-endian and unsigned.

/// `NBDMAGIC`, the first word of the greeting.
pub(crate) const GREETING: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: the second word of the greeting, and the start of each option.
pub(crate) const OPTION: u64 = 0x4948_4156_454f_5054;
/// The start of each reply to an option.
pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// The start of a request of 28 bytes.
pub(crate) const REQUEST: u32 = 0x2560_9513;
/// The start of a request of 32 bytes.
pub(crate) const EXTENDED_REQUEST: u32 = 0x21e4_1c71;
/// The start of a simple reply.
pub(crate) const SIMPLE_REPLY: u32 = 0x6744_6698;
/// The start of a chunk of a structured reply.
pub(crate) const CHUNK: u32 = 0x668e_33ef;
/// The start of a chunk with an extended header.
pub(crate) const EXTENDED_CHUNK: u32 = 0x6e8a_278c;

/// The number of `base:allocation`, the only metadata context.
pub(crate) const ALLOCATION_ID: u32 = 1;

/// Bytes of data in one request at most.
pub const PAYLOAD_MAX: u32 = 32 << 20;
/// Bytes of a name and of a description at most.
pub const NAME_MAX: usize = 4096;
/// Bytes of one option's data at most.
pub(crate) const OPTION_MAX: u32 = 64 << 10;
/// Options in one handshake at most: so many, and more for each export. Clients that list exports
/// ask about each of them: libnbd with two options, and none needs more than four.
pub(crate) const OPTIONS_MAX: u32 = 128;
pub(crate) const EXPORT_OPTIONS_MAX: u32 = 4;
/// Queries in one option about metadata contexts at most.
pub(crate) const QUERIES_MAX: u32 = 64;

/// Error numbers that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// EPERM: the export is read-only.
    Permission = 1,
    /// EIO.
    Io = 5,
    /// EINVAL: the request makes no sense here.
    Invalid = 22,
    /// ENOSPC: the store is full, or the request lies beyond the end.
    NoSpace = 28,
    /// ENOTSUP: zeroing would not be faster than writing.
    NotSupported = 95,
    /// ESHUTDOWN: the server is about to end.
    Shutdown = 108,
}

impl Errno {
    /// As it is sent.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Reads numbers from the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes, if there are as many.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes behind their length in 32 bits.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.bytes(usize::try_from(count).ok()?)
    }
}
