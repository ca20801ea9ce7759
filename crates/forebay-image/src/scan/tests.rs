//! Images in larger files, in wrappers, cut short, and what only looks like one.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::magic::MAGICS;
use super::*;
use crate::codec::{pack_gzip, pack_xz};
use crate::cramfs::write::{Attributes, Content, Settings, Tree, write};

const SQUASHFS: &[u8] = include_bytes!("../../tests/fixtures/squashfs-gzip.img");
const EROFS: &[u8] = include_bytes!("../../tests/fixtures/erofs-lz4.img");

fn cramfs_of(big_endian: bool, pad: bool) -> Vec<u8> {
    let owned = Attributes { permissions: 0o755, ..Attributes::default() };
    let mut tree = Tree::new(owned);
    tree.add(tree.root(), b"file", owned, Content::Bytes(b"content".to_vec())).unwrap();
    let boot = pad.then(|| Box::new([0; 512]));
    write(&tree, &Settings { big_endian, boot, ..Settings::default() }, &mut |_| {}).unwrap().image
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| byte()).collect()
}

fn scanned(bytes: &[u8]) -> Vec<Hit> {
    let file: Arc<dyn Source> = Arc::new(bytes.to_vec());
    scan(&file, &mut |_| {}).unwrap().hits
}

fn bytes_of(image: &[u8]) -> u64 {
    scanned(image)[0].summary.bytes
}

/// Offset, format and bytes.
fn places(hits: &[Hit]) -> Vec<(u64, &'static str, u64)> {
    hits.iter().map(|hit| (hit.offset, hit.summary.format, hit.summary.bytes)).collect()
}

#[test]
fn images_are_found_at_any_offset_and_in_any_order() {
    let images: [(Vec<u8>, &str); 5] = [
        (SQUASHFS.to_vec(), "squashfs"),
        (cramfs_of(false, false), "cramfs"),
        (EROFS.to_vec(), "erofs"),
        (cramfs_of(true, false), "cramfs"),
        (cramfs_of(false, true), "cramfs"),
    ];
    let (mut blob, mut wanted) = (Vec::new(), Vec::new());
    // The gaps include the edges of a chunk.
    for (gap, (image, format)) in [0, 7, CHUNK - 5_000, CHUNK - 2, 3].into_iter().zip(&images) {
        blob.extend(noise(gap));
        let file: Arc<dyn Source> = Arc::new(image.clone());
        let bytes = crate::open(&file, Options::default()).unwrap().summary().bytes;
        wanted.push((blob.len() as u64, *format, bytes));
        blob.extend(image);
    }
    blob.extend(noise(100));
    let hits = scanned(&blob);
    assert_eq!(places(&hits), wanted);
    assert!(hits.iter().all(|hit| !hit.truncated && hit.wrapper.is_none()));
    let orders = hits.iter().filter(|hit| hit.byte_order() == "big-endian").count();
    assert_eq!(orders, 1);
    let file: Arc<dyn Source> = Arc::new(blob);
    for (hit, (image, _)) in hits.iter().zip(&images) {
        let source = hit.source(&file).unwrap();
        let mut bytes = vec![0; in_memory(source.len())];
        source.fill(&mut bytes, 0).unwrap();
        assert_eq!(bytes, image[..bytes.len()]);
    }
}

#[test]
fn the_magic_is_found_across_every_edge() {
    for before in CHUNK - 8..CHUNK + 2 {
        let blob = [&vec![0; before][..], SQUASHFS].concat();
        assert_eq!(scanned(&blob).len(), 1, "{before}");
    }
}

#[test]
fn what_only_begins_like_an_image_is_passed_over() {
    let mut blob = Vec::new();
    for (bytes, _) in MAGICS {
        blob.extend(bytes);
        blob.extend(noise(2_000));
        blob.extend(bytes);
        blob.extend([0; 2_000]);
    }
    // A superblock whose tables are elsewhere, and one without the end of its magic.
    blob.extend(&SQUASHFS[..96]);
    blob.extend(noise(SQUASHFS.len()));
    blob.extend(b"hsq");
    assert_eq!(places(&scanned(&blob)), []);
    assert_eq!(places(&scanned(b"")), []);
    assert_eq!(places(&scanned(b"hsqs")), []);
    assert_eq!(places(&scanned(b"\x1f\x8b\x08")), []);
}

/// Data with a hole in front, which counts the reads and their bytes.
struct Sparse {
    hole: u64,
    data: Vec<u8>,
    reads: AtomicUsize,
    bytes: AtomicUsize,
}

impl Sparse {
    const fn new(hole: u64, data: Vec<u8>) -> Self {
        Self { hole, data, reads: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }
}

impl Source for Sparse {
    fn len(&self) -> u64 {
        self.hole + self.data.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buffer.len(), Ordering::Relaxed);
        let at = offset.checked_sub(self.hole).ok_or(io::ErrorKind::Unsupported)?;
        self.data.read_exact_at(buffer, at)
    }

    fn data_at(&self, offset: u64) -> u64 {
        offset.max(self.hole)
    }
}

/// A sparse file of a terabyte was read as a whole.
#[test]
fn a_hole_is_not_read() {
    let data = SQUASHFS.to_vec();
    let file: Arc<dyn Source> = Arc::new(Sparse::new(1 << 40, data));
    let mut last = 0;
    let hits = scan(&file, &mut |searched| last = searched).unwrap().hits;
    assert_eq!((hits.len(), hits[0].offset, last), (1, 1 << 40, file.len()));
}

/// Each false magic number was opened, and 16 MB of them took seconds.
#[test]
fn dense_false_magic_numbers_cost_no_reads() {
    for (magic, _) in MAGICS.iter().filter(|(_, magic)| *magic != Magic::Cramfs) {
        // A header that the end of the file cuts off is opened, so zeros end it.
        let data = [magic.repeat(CHUNK / 2), vec![0; 4_096]].concat();
        let file = Arc::new(Sparse::new(0, data));
        let source: Arc<dyn Source> = file.clone();
        assert_eq!(places(&scan(&source, &mut |_| {}).unwrap().hits), []);
        let reads = file.reads.load(Ordering::Relaxed);
        // Those before the zeros, which look like a valid field, are opened; all others are not.
        assert!(reads < 200, "{reads}");
    }
}

/// Each of 100,000 superblocks of 8 MB led to a checksum of 4 MB.
#[test]
fn checksums_are_taken_of_no_more_bytes_than_the_file_has() {
    let mut superblock = [0; 76];
    superblock[..4].copy_from_slice(b"\x45\x3d\xcd\x28");
    superblock[4..8].copy_from_slice(&500_000_u32.to_le_bytes());
    superblock[8..12].copy_from_slice(&3_u32.to_le_bytes());
    superblock[16..32].copy_from_slice(b"Compressed ROMFS");
    // One block, one file.
    (superblock[40], superblock[44]) = (1, 1);
    superblock[64..66].copy_from_slice(&0o40_755_u16.to_le_bytes());
    let file = Arc::new(Sparse::new(0, superblock.repeat(10_000)));
    let source: Arc<dyn Source> = file.clone();
    let found = scan(&source, &mut |_| {}).unwrap();
    let truncated = found.hits.iter().filter(|hit| hit.truncated).count();
    assert_eq!((truncated, found.suspects.len()), (TRUNCATED_MAX, SUSPECTS_MAX));
    assert!(found.suspects[0].why.contains("cut off"), "{:?}", found.suspects[0]);
    let whole: Arc<dyn Source> = Arc::new(SQUASHFS.to_vec());
    assert!(found.hits.iter().all(|hit| hit.len_in(100 + hit.offset) == 100));
    assert_eq!(scan(&whole, &mut |_| {}).unwrap().hits[0].len_in(1 << 40), bytes_of(SQUASHFS));
    let read = file.bytes.load(Ordering::Relaxed);
    // The search itself, one checksum, and a few superblocks for each of them.
    assert!(read < 10_000 * 76 * 12, "{read}");
}

#[test]
fn an_image_inside_another_and_one_that_overlaps_a_false_magic_are_found() {
    let owned = Attributes { permissions: 0o755, ..Attributes::default() };
    let mut tree = Tree::new(owned);
    tree.add(tree.root(), b"inner", owned, Content::Bytes(SQUASHFS.to_vec())).unwrap();
    let settings = Settings { stored: true, ..Settings::default() };
    let outer = write(&tree, &settings, &mut |_| {}).unwrap().image;
    let found = scanned(&outer);
    assert_eq!(found[0].summary.format, "cramfs");
    // The last bytes of the magic number of one byte order begin that of the other.
    let overlapping = [b"\x45\x3d\xcd", &cramfs_of(true, false)[..]].concat();
    let hits = scanned(&overlapping);
    assert_eq!((hits.len(), hits[0].offset), (1, 3));
}

#[test]
fn a_wrapper_is_unpacked_and_named() {
    for (packed, format) in [(pack_gzip(SQUASHFS), "gzip"), (pack_xz(SQUASHFS), "xz")] {
        let mut header = [0; 64];
        header[..4].copy_from_slice(b"\x27\x05\x19\x56");
        header[12..16].copy_from_slice(&u32::try_from(packed.len()).unwrap().to_be_bytes());
        header[32..38].copy_from_slice(b"rootfs");
        let mut crc = Crc32::default();
        crc.update(&header);
        header[4..8].copy_from_slice(&crc.value().to_be_bytes());
        let blob = [&noise(1_000)[..], &header, &packed, &noise(1_000)].concat();
        let hits = scanned(&blob);
        assert_eq!(hits.len(), 1);
        assert_eq!((hits[0].offset, hits[0].summary.format), (1_064, "squashfs"));
        let bytes = packed.len() as u64;
        assert_eq!(hits[0].wrapper, Some(Wrapper { format, bytes, inside: 0, damage: None }));
        let uimage = UImage { offset: 1_000, bytes: 64 + bytes, name: b"rootfs".to_vec() };
        assert_eq!(hits[0].uimage, Some(uimage));
        let file: Arc<dyn Source> = Arc::new(blob.clone());
        let source = hits[0].source(&file).unwrap();
        assert_eq!(source.len(), bytes_of(SQUASHFS));
        let mut bytes = vec![0; in_memory(source.len())];
        source.fill(&mut bytes, 0).unwrap();
        assert_eq!(bytes, SQUASHFS[..bytes.len()]);
        // A header whose checksum is wrong says nothing.
        let mut blob = blob;
        blob[1_040] ^= 1;
        assert_eq!(scanned(&blob)[0].uimage, None);
    }
    // One that holds anything else is passed over.
    assert_eq!(places(&scanned(&pack_gzip(&noise(10_000)))), []);
}

/// `pigz -i`, `bgzip` and `cat` write several members.
#[test]
fn an_image_in_several_parts_of_a_stream_is_whole() {
    for format in ["gzip", "xz"] {
        let pack = if format == "xz" { pack_xz } else { pack_gzip };
        for part in [1_000, 1_500, 3_000] {
            let parts: Vec<_> = SQUASHFS.chunks(part).map(pack).collect();
            let padding: &[u8] = if format == "xz" { &[0; 8] } else { &[] };
            let packed = parts.join(padding);
            // The next stream belongs to no image.
            let blob = [&noise(99)[..], &packed, &pack(&noise(500)), &noise(99)].concat();
            let hits = scanned(&blob);
            assert_eq!((hits.len(), hits[0].offset, hits[0].truncated), (1, 99, false));
            let wrapper = hits[0].wrapper.as_ref().unwrap();
            assert_eq!((wrapper.format, wrapper.damage.as_ref()), (format, None));
            let end = parts.iter().map(Vec::len).sum::<usize>() + padding.len() * (parts.len() - 1);
            assert!(wrapper.bytes <= end as u64, "{} {end}", wrapper.bytes);
            let file: Arc<dyn Source> = Arc::new(blob);
            let source = hits[0].source(&file).unwrap();
            let mut bytes = vec![0; in_memory(source.len())];
            source.fill(&mut bytes, 0).unwrap();
            assert_eq!(bytes, SQUASHFS[..bytes.len()]);
        }
        // What follows is no part: noise, a part behind odd padding, nothing.
        let first = pack(&SQUASHFS[..3_000]);
        let second = pack(&SQUASHFS[3_000..]);
        for behind in [noise(5_000), [&[0; 6], &second[..]].concat(), Vec::new(), vec![0; 9_000]] {
            let hits = scanned(&[&first[..], &behind].concat());
            assert_eq!((hits.len(), hits[0].truncated), (1, true), "{format}");
            assert_eq!(hits[0].wrapper.as_ref().unwrap().bytes, first.len() as u64);
        }
    }
}

/// Data that does not become smaller is stored, and the image seems to lie there once more.
#[test]
fn what_a_stream_stores_is_no_image_of_its_own() {
    let len = u16::try_from(SQUASHFS.len()).unwrap();
    let mut crc = Crc32::default();
    crc.update(SQUASHFS);
    let header = [b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", &len.to_le_bytes()[..]].concat();
    let size = u32::from(len).to_le_bytes();
    let stored = [&header, &(!len).to_le_bytes()[..], SQUASHFS, &crc.value().to_le_bytes(), &size];
    // The same image behind the stream is another one.
    let before = 700;
    let blob = [&noise(before)[..], &stored.concat(), SQUASHFS].concat();
    let (begin, len) = (before as u64, stored.concat().len() as u64);
    let (end, bytes) = (begin + len, SQUASHFS.len() as u64);
    let expected = vec![(begin, "squashfs", bytes), (end, "squashfs", bytes)];
    let hits = scanned(&blob);
    assert_eq!(places(&hits), expected);
    assert_eq!(hits[0].wrapper.as_ref().unwrap().bytes, len);
}

/// In two stored blocks the image is broken by the header between them. What is broken in another
/// format, or outside the stream, is so.
#[test]
fn what_a_stream_stores_in_pieces_is_no_damaged_image() {
    let block = |is_last: u8, bytes: &[u8]| {
        let len = u16::try_from(bytes.len()).unwrap();
        [&[is_last], &len.to_le_bytes()[..], &(!len).to_le_bytes(), bytes].concat()
    };
    let mut damaged = cramfs_of(false, false);
    damaged[64..66].fill(0xff);
    let content = [SQUASHFS, &damaged].concat();
    // The root of the image lies behind the first block.
    let (first, rest) = content.split_at(200);
    let mut crc = Crc32::default();
    crc.update(&content);
    let size = u32::try_from(content.len()).unwrap().to_le_bytes();
    let stored = [
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
        &block(0, first)[..],
        &block(1, rest),
        &crc.value().to_le_bytes(),
        &size,
    ];
    let stored = stored.concat();
    let mut outside = SQUASHFS.to_vec();
    outside[72..80].fill(0xff);
    let file: Arc<dyn Source> = Arc::new([&stored[..], &outside].concat());
    let found = scan(&file, &mut |_| {}).unwrap();
    assert_eq!(places(&found.hits), [(0, "squashfs", bytes_of(SQUASHFS))]);
    let suspects: Vec<_> = found.suspects.iter().map(|it| (it.offset, it.format)).collect();
    let cramfs = 10 + 5 + 5 + SQUASHFS.len() as u64;
    assert_eq!(suspects, [(cramfs, "cramfs"), (stored.len() as u64, "squashfs")]);
}

/// A file that cannot be read, or that has become shorter.
struct Failing(Vec<u8>, io::ErrorKind);

impl Source for Failing {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        // The search itself reads more at once.
        if buffer.len() < HEADER * 2 && buffer.len() > 4 {
            return Err(self.1.into());
        }
        self.0.read_exact_at(buffer, offset)
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_no_damage() {
    for (kind, is_error) in [(io::ErrorKind::Other, true), (io::ErrorKind::UnexpectedEof, false)] {
        let file: Arc<dyn Source> = Arc::new(Failing(SQUASHFS.to_vec(), kind));
        let found = scan(&file, &mut |_| {});
        assert_eq!(found.is_err(), is_error, "{kind}: {found:?}");
        assert!(found.is_err() || found.unwrap().hits.is_empty());
    }
}

/// A part behind the first is damaged, or ends the file.
#[test]
fn damage_to_a_later_part_of_a_stream_is_said() {
    let mut packed: Vec<Vec<u8>> = SQUASHFS.chunks(2_000).map(pack_gzip).collect();
    let end = packed[1].len();
    packed[1][end - 6] ^= 1;
    let hits = scanned(&packed.concat());
    assert!(hits[0].wrapper.as_ref().unwrap().damage.is_some());
    let hits = scanned(&[&packed[0][..], &packed[1][..50]].concat());
    assert_eq!((hits.len(), hits[0].truncated), (1, true));
}

#[test]
fn a_header_of_gzip_and_xz_is_told_from_its_magic_number() {
    let with = |packed: &[u8], at: usize, byte: u8| {
        let mut header = packed[..HEADER].to_vec();
        header[at] = byte;
        header
    };
    let gzip = pack_gzip(SQUASHFS);
    let (is_gzip, is_xz) = (
        |bytes: &[u8]| Magic::Gzip.is_plausible(bytes),
        |bytes: &[u8]| Magic::Xz.is_plausible(bytes),
    );
    for (at, good, bad) in [(3, 0x1f, 0x20), (8, 4, 3), (8, 2, 6), (9, 13, 14), (9, 255, 254)] {
        assert!(is_gzip(&with(&gzip, at, good)), "{at} {good}");
        assert!(!is_gzip(&with(&gzip, at, bad)), "{at} {bad}");
    }
    // The third kind of block does not exist. Behind a name it stands elsewhere.
    assert!(!is_gzip(&with(&gzip, 10, 6)));
    assert!(is_gzip(&with(&with(&gzip, 10, 6), 3, 8)));
    let uimage = |kind| with(&[0; HEADER], 31, kind);
    assert!(Magic::UImage.is_plausible(&uimage(15)) && !Magic::UImage.is_plausible(&uimage(16)));
    let xz = pack_xz(SQUASHFS);
    assert!(is_xz(&with(&xz, 12, 9)));
    assert!([6, 7, 8, 11].iter().all(|at| !is_xz(&with(&xz, *at, xz[*at] ^ 1))));
}

/// Each of 4 million headers of 64 MB was unpacked over the next 64 KiB.
#[test]
fn streams_inside_many_others_are_counted_and_not_unpacked() {
    // The header of gzip and of a stored block of 65,535 bytes, again and again.
    let header = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\0\xff\xff\0\0";
    let scan = |count: usize| {
        let file = [&header.repeat(count), &pack_gzip(SQUASHFS)[..]].concat();
        let source: Arc<dyn Source> = Arc::new(file);
        scan(&source, &mut |_| {}).unwrap()
    };
    let inside = scan(NESTED_MAX - 1);
    assert_eq!((inside.skipped, inside.hits.last().unwrap().offset), (0, 15 * 15));
    let found = scan(NESTED_MAX);
    assert_eq!(found.skipped, 1);
    // Streams that end where one begins do not hold it: a last stored block, and a checksum.
    let end = 1_000;
    let mut ended: Vec<u8> = (1..=NESTED_MAX)
        .flat_map(|number| {
            let len = u16::try_from(end - 15 * number).unwrap();
            [&header[..10], &[1], &len.to_le_bytes(), &(!len).to_le_bytes()].concat()
        })
        .collect();
    ended.resize(end + 8, 0);
    ended.extend(pack_gzip(SQUASHFS));
    let file: Arc<dyn Source> = Arc::new(ended);
    let found = super::scan(&file, &mut |_| {}).unwrap();
    assert_eq!((found.skipped, found.hits.last().unwrap().offset), (0, end as u64 + 8));
    // They begin again where the first ones end.
    let skipped = scan(100_000).skipped;
    assert!((90_000..99_900).contains(&skipped), "{skipped}");
}

/// Members that lie side by side are no streams inside others.
#[test]
fn an_image_behind_many_members_is_found() {
    // Each begins like an image that does not end.
    let mut superblock = SQUASHFS[..96].to_vec();
    superblock[40..48].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let members = pack_gzip(&superblock).repeat(3 * NESTED_MAX);
    let file: Arc<dyn Source> = Arc::new([&members[..], &pack_gzip(SQUASHFS)].concat());
    let found = scan(&file, &mut |_| {}).unwrap();
    let last = found.hits.last().unwrap();
    assert_eq!((found.skipped, last.offset, last.truncated), (0, members.len() as u64, false));
    // Each further member costs, though it may unpack to nothing.
    let mut search = Search::new(&file);
    let before = search.to_unpack;
    search.look(0, Magic::Gzip).unwrap();
    assert!(before - search.to_unpack > 3 * NESTED_MAX as u64 * (64 << 10));
}

#[test]
fn a_damaged_stream_is_said_to_be() {
    let damage = |packed: &[u8]| {
        let hits = scanned(packed);
        assert_eq!(hits.len(), 1);
        hits[0].wrapper.as_ref().unwrap().damage.clone()
    };
    let is_damaged = |packed: &[u8]| damage(packed).is_some();
    for packed in [pack_gzip(SQUASHFS), pack_xz(SQUASHFS)] {
        assert!(!is_damaged(&packed));
        // What only cuts off the image is no damage to the stream.
        assert!(!is_damaged(&packed[..packed.len() / 2]));
        for cut in 1..=8 {
            assert_eq!(damage(&packed[..packed.len() - cut]).as_deref(), Some(CUT), "{cut}");
        }
    }
    let mut checksum = pack_gzip(SQUASHFS);
    let end = checksum.len();
    checksum[end - 6] ^= 1;
    assert!(is_damaged(&checksum));
    let mut block = pack_xz(&[SQUASHFS, &noise(300_000)].concat());
    let behind = block.len() * 3 / 4;
    block[behind] ^= 1;
    assert!(is_damaged(&block));
}

fn suspects(bytes: &[u8]) -> Vec<Suspect> {
    let file: Arc<dyn Source> = Arc::new(bytes.to_vec());
    let found = scan(&file, &mut |_| {}).unwrap();
    assert_eq!(places(&found.hits), []);
    found.suspects
}

#[test]
fn what_begins_like_an_image_and_is_damaged_is_said() {
    let orders = [false, true].map(|big_endian| cramfs_of(big_endian, false));
    for (image, format, damaged) in [
        // The place of the root, that of the names, the mode of the root, any byte of a superblock.
        (SQUASHFS, "squashfs", 32..40),
        (SQUASHFS, "squashfs", 72..80),
        (&orders[0], "cramfs", 64..66),
        (&orders[1], "cramfs", 64..66),
        (EROFS, "erofs", 1024 + 40..1024 + 41),
    ] {
        let mut blob = [&noise(99)[..], image, &noise(99)].concat();
        let damaged = 99 + damaged.start..99 + damaged.end;
        blob[damaged].iter_mut().for_each(|byte| *byte ^= 0xff);
        let found = suspects(&blob);
        let [suspect] = &found[..] else { panic!("{format}: {found:?}") };
        assert_eq!((suspect.offset, suspect.format, suspect.wrapper), (99, format, None));
        assert!(!suspect.why.is_empty());
    }
    // Noise and lone magic numbers are none, and neither is a superblock that the file ends in.
    let magics = MAGICS.map(|(bytes, _)| [bytes, &noise(500)].concat()).concat();
    assert_eq!(suspects(&magics), []);
    assert_eq!(suspects(&SQUASHFS[..95]), []);
    // What only a stream has is said of the stream, and once.
    let mut image = SQUASHFS.to_vec();
    image[72..80].fill(0xff);
    let mut packed = pack_gzip(&image);
    let end = packed.len();
    let whys = [end, end - 6].map(|damaged| {
        packed.get_mut(damaged).into_iter().for_each(|byte| *byte ^= 1);
        let found = suspects(&[&noise(9)[..], &packed].concat());
        let [suspect] = &found[..] else { panic!("{found:?}") };
        assert_eq!((suspect.offset, suspect.format), (9, "squashfs"));
        assert_eq!(suspect.wrapper, Some("gzip"));
        suspect.why.clone()
    });
    assert_ne!(whys[0], whys[1], "damage to the stream is why");
    // The same bytes in a stored block.
    let count = suspects(&image.repeat(SUSPECTS_MAX + 1)).len();
    assert_eq!(count, SUSPECTS_MAX);
}

/// A file of 1 MB took half a minute, and one of a GB would have taken hours.
#[test]
fn no_more_is_unpacked_than_a_file_of_such_a_length_may_unpack_to() {
    let packed = pack_gzip(SQUASHFS);
    let file: Arc<dyn Source> = Arc::new(packed.repeat(3));
    let mut search = Search::new(&file);
    assert_eq!(search.to_unpack, UNPACKED_MIN + UNPACKED_PER_BYTE * file.len());
    search.to_unpack = SQUASHFS.len() as u64 + 50;
    for place in 0..3 {
        search.look(place * packed.len() as u64, Magic::Gzip).unwrap();
    }
    assert_eq!(search.to_unpack, 0);
    let found = search.finish();
    let cut: Vec<bool> = found.hits.iter().map(|hit| hit.truncated).collect();
    // Of the second one, the beginning was unpacked, which is less than a superblock needs.
    assert_eq!((cut, found.skipped), (vec![false], 1));
}

#[test]
fn damage_to_a_file_does_not_move_a_padded_image() {
    let (padded, plain) = (cramfs_of(false, true), cramfs_of(false, false));
    for (mut image, before) in [(padded, 512), (plain, 0)] {
        // The last byte of the file's only block.
        let content = image.iter().rposition(|byte| *byte != 0).unwrap();
        image[content] ^= 1;
        for behind in [0, 20_000] {
            let blob = [&[0; 1_000][..], &image, &vec![0; behind][..]].concat();
            let hits = scanned(&blob);
            assert_eq!((hits.len(), hits[0].offset), (1, 1_000), "{before} {behind}");
            assert!(!hits[0].truncated);
        }
    }
}

/// Both places list the same: nothing.
#[test]
fn an_empty_image_begins_where_its_checksum_says() {
    let owned = Attributes { permissions: 0o755, ..Attributes::default() };
    for (boot, before) in [(None, 0), (Some(Box::new([0; 512])), 512)] {
        let settings = Settings { boot, ..Settings::default() };
        let image = write(&Tree::new(owned), &settings, &mut |_| {}).unwrap().image;
        let hits = scanned(&[&vec![0; 1_000][..], &image].concat());
        assert_eq!((hits.len(), hits[0].offset), (1, 1_000), "{before}");
    }
}

/// In an image that the end of the file cuts off, what is wrong may be that.
#[test]
fn a_root_that_cannot_be_listed_is_damage_unless_the_image_is_cut_off() {
    let mut image = cramfs_of(false, false);
    // The only entry of the root, and its name.
    image[76..88].fill(0xff);
    assert_eq!(suspects(&image).len(), 1);
    image[4..8].copy_from_slice(&0x4_0000_u32.to_le_bytes());
    let hits = scanned(&image);
    assert_eq!((hits.len(), hits[0].truncated), (1, true));
}

#[test]
fn of_two_damaged_images_in_a_stream_the_first_is_said() {
    let (mut first, mut second) = (SQUASHFS.to_vec(), cramfs_of(false, false));
    first[72..80].fill(0xff);
    second[64..66].fill(0xff);
    let found = suspects(&pack_gzip(&[first, second].concat()));
    assert_eq!(found.iter().map(|it| it.format).collect::<Vec<_>>(), ["squashfs"]);
}

#[test]
fn a_header_that_the_end_of_the_file_cuts_off_is_passed_over() {
    for len in [4, 32, 63, 64] {
        let mut header = b"\x27\x05\x19\x56".to_vec();
        header.resize(len, 0);
        assert_eq!(places(&scanned(&[&noise(100)[..], &header].concat())), []);
    }
}

#[test]
fn an_image_that_is_cut_off_is_said_to_be() {
    for (image, format) in [(SQUASHFS, "squashfs"), (&cramfs_of(false, false), "cramfs")] {
        let hits = scanned(&image[..image.len() - 1_000]);
        let found: Vec<_> = hits.iter().map(|hit| (hit.summary.format, hit.truncated)).collect();
        assert_eq!(found, [(format, true)]);
        // What the superblock says is known all the same.
        let (cut, whole) = (&hits[0].summary, &scanned(image)[0].summary);
        assert_eq!((cut.bytes, cut.block_size), (whole.bytes, whole.block_size));
        assert_eq!((&cut.codecs, cut.nodes), (&whole.codecs, whole.nodes));
    }
    // Behind something else, and by less than that is long.
    let behind = [&noise(5_000)[..], &SQUASHFS[..bytes_of(SQUASHFS) as usize - 1]].concat();
    let hits = scanned(&behind);
    assert_eq!((hits.len(), hits[0].offset, hits[0].truncated), (1, 5_000, true));
    // Its superblock is whole, what the checksum is of is not.
    let bytes = scanned(EROFS)[0].summary.bytes;
    for len in [1024 + 128, 4_095] {
        let hits = scanned(&EROFS[..len]);
        assert_eq!((places(&hits), hits[0].truncated), (vec![(0, "erofs", bytes)], true));
    }
    assert_eq!(places(&scanned(&EROFS[..1024 + 127])), []);
    // The superblock is whole, and the root lies behind the end.
    let mut image = EROFS.to_vec();
    let root = (bytes / 32 - 1) as u16;
    image[1024 + 14..][..2].copy_from_slice(&root.to_le_bytes());
    // Without a checksum.
    image[1024 + 8] &= !1;
    let hits = scanned(&image[..4_096]);
    assert_eq!((hits.len(), hits[0].truncated), (1, true));
    assert_eq!(hits[0].summary.block_size, scanned(EROFS)[0].summary.block_size);
    let packed = pack_gzip(SQUASHFS);
    let hits = scanned(&packed[..packed.len() / 2]);
    assert_eq!((hits.len(), hits[0].truncated), (1, true));
}

#[test]
fn both_searches_find_the_same_magic_numbers() {
    let searches = [Magics::new(), Magics::automaton()];
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..2000 {
        let mut buffer: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
        for _ in 0..random.usize(..6) {
            let (magic, _) = MAGICS[random.usize(..MAGICS.len())];
            let at = random.usize(..=buffer.len());
            // The end may be cut off, and another one may overwrite a part.
            let len = magic.len().min(buffer.len() - at);
            buffer[at..at + len].copy_from_slice(&magic[..len]);
        }
        let first = random.usize(..=buffer.len());
        let [vectors, automaton] =
            searches.each_ref().map(|search| search.find(&buffer, first).collect::<Vec<_>>());
        let all = (0..first).filter_map(|at| {
            let begins = |(magic, _): &&(&[u8], Magic)| buffer[at..].starts_with(magic);
            MAGICS.iter().find(begins).map(|(_, magic)| (at, *magic))
        });
        assert_eq!(automaton, all.collect::<Vec<_>>(), "round {round}");
        assert_eq!(vectors, automaton, "round {round}");
    }
}
