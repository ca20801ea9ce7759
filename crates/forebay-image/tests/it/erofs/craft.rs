//! Images made by hand, with what no writer makes.

/// An image of blocks of 4 KiB: a superblock in the first, inodes in the second, and then content.
pub(crate) struct Craft {
    pub(crate) bytes: Vec<u8>,
}

/// The layouts of inodes.
pub(crate) const PLAIN: u16 = 0;
pub(crate) const COMPRESSED_FULL: u16 = 1;
pub(crate) const INLINE: u16 = 2;
pub(crate) const COMPRESSED: u16 = 3;
pub(crate) const CHUNKS: u16 = 4;

/// Where a field of the superblock is.
pub(crate) const BLOCK_BITS: usize = 12;
pub(crate) const ROOT: usize = 14;
pub(crate) const INCOMPATIBLE: usize = 80;
pub(crate) const EXTRA_DEVICES: usize = 86;
pub(crate) const DIRECTORY_BITS: usize = 90;
pub(crate) const PACKED: usize = 96;
pub(crate) const METABOX: usize = 128;

/// The inode of the root.
pub(crate) const ROOT_NID: u64 = 128;
/// The kinds of nodes, as modes.
pub(crate) const DIRECTORY: u16 = 0o40_755;
pub(crate) const FILE: u16 = 0o100_644;

impl Craft {
    /// An image with an empty root, and `blocks` blocks in all.
    pub(crate) fn new(blocks: usize) -> Self {
        let mut craft = Self { bytes: vec![0; blocks << 12] };
        craft.superblock(0, &0xe0f5_e1e2_u32.to_le_bytes());
        craft.superblock(BLOCK_BITS, &[12]);
        craft.superblock(ROOT, &128_u16.to_le_bytes());
        craft.superblock(16, &2_u64.to_le_bytes());
        craft.superblock(36, &u32::try_from(blocks).unwrap().to_le_bytes());
        craft.inode(ROOT_NID, DIRECTORY, PLAIN, 4096, 2);
        craft.directory(2, &[(ROOT_NID, 2, "."), (ROOT_NID, 2, "..")]);
        craft
    }

    pub(crate) fn superblock(&mut self, at: usize, field: &[u8]) {
        self.put(1024 + at, field);
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A large inode, of 64 bytes.
    pub(crate) fn inode(&mut self, nid: u64, mode: u16, layout: u16, size: u64, address: u32) {
        let at = usize::try_from(nid).unwrap() * 32;
        self.put(at, &(1 | layout << 1).to_le_bytes());
        self.put(at + 4, &mode.to_le_bytes());
        self.put(at + 8, &size.to_le_bytes());
        self.put(at + 16, &address.to_le_bytes());
        self.put(at + 44, &1_u32.to_le_bytes());
    }

    /// A block of a directory.
    pub(crate) fn directory(&mut self, block: usize, entries: &[(u64, u8, &str)]) {
        let mut name = entries.len() * 12;
        for (number, (nid, kind, text)) in entries.iter().enumerate() {
            let at = (block << 12) + number * 12;
            self.put(at, &nid.to_le_bytes());
            self.put(at + 8, &u16::try_from(name).unwrap().to_le_bytes());
            self.put(at + 10, &[*kind]);
            self.put((block << 12) + name, text.as_bytes());
            name += text.len();
        }
    }

    /// The root with one file, whose inode is 130 and has room for 3 KiB behind it.
    pub(crate) fn file(&mut self, layout: u16, size: u64, address: u32, body: &[u8]) {
        let entries = [(ROOT_NID, 2, "."), (ROOT_NID, 2, ".."), (130, 1, "file")];
        self.directory(2, &entries);
        self.inode(130, FILE, layout, size, address);
        self.put(130 * 32 + 64, body);
    }
}
