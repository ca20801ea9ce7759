//! The magic numbers of images and of what wraps them, and what nearly every false one shows.

use aho_corasick::{AhoCorasick, Input, MatchKind, Span, packed};

use crate::codec::Crc32;
use crate::cramfs;

/// What a magic number announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Magic {
    Squashfs,
    Cramfs,
    Erofs,
    UImage,
    Gzip,
    Xz,
}

/// The magic numbers: the bytes, and their meaning.
pub(super) const MAGICS: [(&[u8], Magic); 7] = [
    (b"hsqs", Magic::Squashfs),
    (b"\x45\x3d\xcd\x28", Magic::Cramfs),
    (b"\x28\xcd\x3d\x45", Magic::Cramfs),
    (b"\xe2\xe1\xf5\xe0", Magic::Erofs),
    (b"\x27\x05\x19\x56", Magic::UImage),
    // The method, which is always deflate, belongs to it.
    (b"\x1f\x8b\x08", Magic::Gzip),
    (b"\xfd7zXZ\0", Magic::Xz),
];
/// Bytes from a magic number on that show nearly every false one; no magic number is longer.
pub(super) const HEADER: usize = 76;

impl Magic {
    /// The format that it begins.
    pub(super) const fn format(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Cramfs => "cramfs",
            Self::Erofs => "erofs",
            Self::UImage => "uImage",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
        }
    }

    /// Bytes of an image before its magic number, as many as there may be; none if it is none of an
    /// image.
    pub(super) const fn bytes_before(self) -> &'static [u64] {
        match self {
            Self::Squashfs => &[0],
            // Maybe behind 512 bytes for boot code, from which places are counted.
            Self::Cramfs => &[512, 0],
            Self::Erofs => &[1024],
            Self::UImage | Self::Gzip | Self::Xz => &[],
        }
    }

    /// Whether a header may begin with these bytes, as far as they are there. Nothing else is read
    /// and nothing is opened for one that may not.
    pub(super) fn is_plausible(self, bytes: &[u8]) -> bool {
        let Some(header) = bytes.get(..HEADER) else { return true };
        match self {
            // Version 4.0.
            Self::Squashfs => header[28..32] == [4, 0, 0, 0],
            // The logarithm of the block size.
            Self::Erofs => (9..=16).contains(&header[12]),
            // The compression: U-Boot knows seven.
            Self::UImage => header[31] < 16,
            Self::Gzip => is_gzip(header),
            // The flags of the stream, of which one byte chooses a checksum, and their CRC.
            Self::Xz => {
                let mut crc = Crc32::default();
                crc.update(&header[6..8]);
                header[6] == 0 && header[8..12] == crc.value().to_le_bytes()
            }
            Self::Cramfs => cramfs::is_superblock(header),
        }
    }
}

/// Whether it is a header of gzip: its reserved flags, how hard it was compressed, the system that
/// it was compressed on, and, if nothing stands between, the kind of the first block.
const fn is_gzip(header: &[u8]) -> bool {
    let (flags, effort, system) = (header[3], header[8], header[9]);
    let is_header = flags & 0xe0 == 0 && matches!(effort, 0 | 2 | 4);
    let is_block = flags & 0x1e != 0 || header[10] >> 1 & 3 != 3;
    is_header && matches!(system, 0..=13 | 255) && is_block
}

/// Finds magic numbers: several GB a second by vector instructions where the processor has them.
pub(super) enum Magics {
    Vectors(packed::Searcher),
    Automaton(AhoCorasick),
}

impl Magics {
    pub(super) fn new() -> Self {
        let patterns = MAGICS.map(|(bytes, _)| bytes);
        packed::Searcher::new(patterns).map_or_else(Self::automaton, Self::Vectors)
    }

    pub(super) fn automaton() -> Self {
        let patterns = MAGICS.map(|(bytes, _)| bytes);
        let builder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(patterns);
        Self::Automaton(builder.expect("a few short patterns"))
    }

    /// Those that begin in the first bytes of a buffer. They may overlap.
    pub(super) fn find<'a>(
        &'a self,
        buffer: &'a [u8],
        first: usize,
    ) -> impl Iterator<Item = (usize, Magic)> + 'a {
        let mut from = 0;
        std::iter::from_fn(move || {
            let rest = Span::from(from.min(buffer.len())..buffer.len());
            let found = match self {
                Self::Vectors(searcher) => searcher.find_in(buffer, rest),
                Self::Automaton(automaton) => automaton.find(Input::new(buffer).span(rest)),
            }?;
            from = found.start() + 1;
            (found.start() < first).then(|| (found.start(), MAGICS[found.pattern().as_usize()].1))
        })
    }
}
