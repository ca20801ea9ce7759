//! Packed files by hand.

use std::boxed::Box;
use std::vec::Vec;

use super::*;
use crate::packed::{self, Block, BlockMap, Coding, RawBytes};

/// Blocks of some pages each, of 1000 raw bytes a page, behind their pointer words from the image's
/// first page on. The third block is a hole, the fifth is stored.
#[derive(Clone, Copy, Debug)]
struct Map {
    block_pages: u64,
    pages: u64,
    buffered: bool,
}

const BLOCKS_AT: u64 = 10 * PAGE_SIZE;

impl BlockMap for Map {
    fn bytes(&self) -> u64 {
        self.pages * PAGE_SIZE - 100
    }

    fn block(&self, page: u64) -> Block {
        let (number, len) = (page / self.block_pages, 1000 * self.block_pages);
        let first = number * self.block_pages;
        let pages = Pages::new(first, first + self.block_pages);
        let start = BLOCKS_AT + number * len;
        match number {
            2 => Block { pages, raw: RawBytes { start, end: start }, coding: Coding::Hole },
            4 => Block { pages, raw: RawBytes { start, end: start + len }, coding: Coding::Stored },
            _ => Block { pages, raw: RawBytes { start, end: start + len }, coding: Coding::Packed },
        }
    }

    fn pointers(&self, pages: Pages) -> RawBytes {
        let word = |page| 4 * (page / self.block_pages);
        RawBytes { start: word(pages.start), end: word(pages.end - 1) + 4 }
    }

    fn two_buffers(&self) -> bool {
        self.buffered
    }
}

const SMALL: Map = Map { block_pages: 1, pages: 600, buffered: true };
const LARGE: Map = Map { block_pages: 8, pages: 600, buffered: false };

/// A map that says raw bytes of a hole too.
#[derive(Debug)]
struct FullHoles(Map);

impl BlockMap for FullHoles {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn block(&self, page: u64) -> Block {
        let mut block = self.0.block(page);
        if block.coding == Coding::Hole {
            block.raw.end += 1000 * self.0.block_pages;
        }
        block
    }

    fn pointers(&self, pages: Pages) -> RawBytes {
        self.0.pointers(pages)
    }

    fn two_buffers(&self) -> bool {
        self.0.two_buffers()
    }
}

const IMAGE_PAGES: u64 = 200;

/// First pages, and counts or ends.
type Runs = Vec<(u64, u64)>;

/// A packed file and its image, each opened once.
struct Packed {
    hands: Hands,
    file: FileId,
    image: FileId,
    handle: HandleId,
    of_image: HandleId,
}

impl Packed {
    fn new(frames: u32, map: impl BlockMap + 'static, fill: &str) -> Self {
        Self::with(frames, map, fill, "linux-2.6.21")
    }

    fn with(frames: u32, map: impl BlockMap + 'static, fill: &str, readahead: &str) -> Self {
        let mut engine = Engine::new(Config { frames, calls_max: 4 });
        let queue = QueueConfig { plug: None, ..QueueConfig::default() };
        let device = engine.add_device(queue);
        let image = engine.add_file(device, IMAGE_PAGES * PAGE_SIZE, 0);
        let file = engine.add_packed_file(image, Box::new(map));
        let readahead = || Spec::parse(readahead).unwrap().build();
        let fill = packed::Spec::parse(fill).unwrap().build();
        let handle = engine.open_packed(file, readahead(), fill);
        let of_image = engine.open(image, Spec::parse("off").unwrap().build());
        Self { hands: Hands::of(engine), file, image, handle, of_image }
    }

    /// One of small blocks with memory for all, whose page 100 was faulted in.
    fn faulted(fill: &str) -> Self {
        let mut packed = Self::new(300, SMALL, fill);
        packed.fault(0, 100);
        packed.settle();
        packed
    }

    /// One whose raw bytes for page 100 are here, so that it is being decoded.
    fn decoding(fill: &str) -> Self {
        let mut packed = Self::new(300, SMALL, fill);
        packed.fault(0, 100);
        // Pointer words, then blocks.
        for _ in 0..2 {
            packed.hands.finish(Ok(()));
            packed.hands.resume_all();
        }
        packed
    }

    fn fault(&mut self, call: u32, page: u64) {
        let (handle, mapping) = (self.handle, Mapping::WHOLE);
        let op = Op::Fault { handle, page, write: false, mapping };
        self.hands.input(Input::Call(CallId(call), op));
    }

    fn decoded(&mut self, result: Result<(), IoError>) -> Decode {
        let decode = self.hands.decodes.remove(0);
        self.hands.input(Input::Decoded(decode.id, result));
        decode
    }

    /// Everything goes well until nothing is left to do; returns the requests and decodes on the
    /// way as runs of pages.
    fn settle(&mut self) -> (Runs, Runs) {
        let (mut requests, mut decodes) = (Vec::new(), Vec::new());
        loop {
            if let Some(request) = self.hands.submits.first() {
                assert_eq!(request.file, self.image, "a device knows the image alone");
                requests.push((request.first, request.pages));
                self.hands.finish(Ok(()));
            } else if !self.hands.decodes.is_empty() {
                let decode = self.decoded(Ok(()));
                decodes.push((decode.pages.start, decode.pages.end));
            } else if self.hands.wakes.is_empty() {
                return (requests, decodes);
            }
            self.hands.resume_all();
        }
    }

    fn ready(&self, pages: core::ops::Range<u64>) -> Vec<u64> {
        pages.filter(|page| self.hands.engine.is_resident(self.file, *page)).collect()
    }

    fn deferred(&self, pages: core::ops::Range<u64>) -> Vec<u64> {
        pages.filter(|page| self.hands.engine.is_deferred(self.file, *page)).collect()
    }

    fn forget_raw(&mut self) {
        let handle = self.of_image;
        let op = Op::Advise { handle, advice: Advice::DontNeed, offset: 0, len: 0 };
        self.hands.input(Input::Call(CallId(3), op));
        self.hands.replies.pop();
        assert_eq!(self.hands.engine.resident_pages(self.image), 0);
    }
}

#[test]
fn a_window_is_read_at_once_and_the_wanted_page_alone_is_decoded() {
    let mut packed = Packed::new(300, SMALL, "selective");
    packed.fault(0, 100);
    let (requests, decodes) = packed.settle();
    // Pages 84 to 115 lie in bytes 84 000 to 116 000 behind page 10 of the image.
    assert_eq!(requests, [(0, 1), (30, 9)]);
    assert_eq!(decodes, [(100, 101)]);
    assert_eq!(packed.ready(0..600), [100]);
    assert_eq!(packed.deferred(0..600), (84..116).filter(|page| *page != 100).collect::<Vec<_>>());
    assert_eq!(packed.hands.replies, [(CallId(0), Ok(0))]);
    let stats = packed.hands.engine.stats();
    assert_eq!((stats.faults_major, stats.pages_decoded, stats.requests), (1, 1, 2));
}

#[test]
fn a_deferred_fault_is_major_without_a_device_and_starts_no_window() {
    let mut packed = Packed::faulted("selective");
    packed.fault(0, 115);
    assert_eq!(packed.settle(), (Vec::new(), Vec::from([(115, 116)])));
    packed.fault(0, 115);
    assert_eq!(packed.settle(), (Vec::new(), Vec::new()));
    let stats = packed.hands.engine.stats();
    assert_eq!((stats.faults_major, stats.faults_minor, stats.demands_deferred), (2, 1, 1));
    assert_eq!((stats.pages_unpacked, stats.pages_unpacked_useless()), (2, 0));
}

#[test]
fn lost_raw_bytes_are_read_for_their_block_alone() {
    let mut packed = Packed::faulted("selective");
    packed.forget_raw();
    packed.fault(0, 101);
    // Byte 101 000 behind page 10, after its pointer word.
    assert_eq!(packed.settle(), (Vec::from([(0, 1), (34, 1)]), Vec::from([(101, 102)])));
}

#[test]
fn the_kernel_reads_pages_one_by_one_and_decodes_the_whole_window() {
    let mut packed = Packed::new(300, SMALL, "eager");
    packed.fault(0, 100);
    let (requests, decodes) = packed.settle();
    assert_eq!(decodes, (84..116).map(|page| (page, page + 1)).collect::<Vec<_>>());
    // Four pages for the pointer words, then four at a time from the page of each block that the
    // buffers do not have.
    let pages: Vec<u64> = requests.iter().map(|request| request.0).collect();
    assert_eq!(pages, [0, 1, 2, 3, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
    assert!(requests.iter().all(|request| request.1 == 1), "one page a request");
    assert_eq!(packed.hands.engine.stats().faults_major, 1);
    packed.fault(0, 101);
    assert_eq!(packed.settle(), (Vec::new(), Vec::new()));
    assert_eq!(packed.hands.engine.stats().faults_minor, 1);
    assert_eq!(packed.hands.engine.stats().pages_unpacked_useless(), 30);
}

#[test]
fn without_readahead_each_page_is_a_major_fault_of_its_own() {
    let mut packed = Packed::new(300, SMALL, "off");
    for page in [100, 101, 300] {
        packed.fault(0, page);
        assert_eq!(packed.settle().1, [(page, page + 1)]);
    }
    assert_eq!(packed.deferred(0..600), [0; 0]);
    assert_eq!(packed.hands.engine.stats().faults_major, 3);
}

#[test]
fn a_call_waits_for_a_page_that_is_being_decoded() {
    let mut packed = Packed::decoding("selective");
    packed.fault(1, 100);
    assert_eq!(packed.hands.decodes.len(), 1);
    packed.decoded(Ok(()));
    packed.hands.resume_all();
    let calls: Vec<_> = packed.hands.replies.iter().map(|(call, _)| call.0).collect();
    assert_eq!(calls, [0, 1]);
    assert_eq!(packed.hands.engine.stats().pages_decoded, 1);
}

#[test]
fn a_block_that_cannot_be_decoded_fails_its_callers() {
    let mut packed = Packed::decoding("selective");
    packed.fault(1, 100);
    for _ in 0..2 {
        packed.decoded(Err(IoError::Corrupt));
        packed.hands.resume_all();
    }
    let errors = [(CallId(0), Err(IoError::Corrupt)), (CallId(1), Err(IoError::Corrupt))];
    assert_eq!(packed.hands.replies, errors);
    packed.fault(0, 101);
    packed.settle();
    assert_eq!(packed.hands.replies[2], (CallId(0), Ok(0)), "its neighbour is well");
}

#[test]
fn a_raw_page_that_cannot_be_read_fails_the_pages_that_need_it() {
    for fill in ["eager", "selective", "selective-then-idle", "off"] {
        let mut packed = Packed::new(300, SMALL, fill);
        // Page 35 of the image has the end of page 102 and the beginning of page 106 of the file.
        let bad = |request: &Request| (request.first..request.first + request.pages).contains(&35);
        for page in [90, 103, 100, 110] {
            packed.fault(0, page);
            loop {
                if let Some(request) = packed.hands.submits.first() {
                    let result = if bad(request) { Err(IoError::Device) } else { Ok(()) };
                    packed.hands.finish(result);
                } else if !packed.hands.decodes.is_empty() {
                    packed.decoded(Ok(()));
                } else if packed.hands.wakes.is_empty() {
                    break;
                }
                packed.hands.resume_all();
            }
            let result = packed.hands.replies.pop().unwrap().1;
            let wanted = if page == 103 { Err(IoError::Device) } else { Ok(0) };
            assert_eq!(result, wanted, "{fill}, page {page}");
        }
    }
}

#[test]
fn holes_and_stored_blocks_need_no_decoder() {
    let mut packed = Packed::new(300, SMALL, "selective");
    for (page, coding) in [(2, Coding::Hole), (4, Coding::Stored)] {
        packed.fault(0, page);
        while packed.hands.decodes.is_empty() {
            packed.hands.finish(Ok(()));
            packed.hands.resume_all();
        }
        assert_eq!(packed.decoded(Ok(())).coding, coding);
    }
    assert_eq!(packed.hands.engine.stats().pages_decoded, 0);
    assert_eq!(packed.hands.replies.len(), 2);
}

#[test]
fn a_large_block_is_decoded_up_to_the_page_and_gives_by_catch() {
    let mut packed = Packed::new(300, LARGE, "selective");
    packed.fault(0, 101);
    let (requests, decodes) = packed.settle();
    assert_eq!(decodes, [(96, 102)]);
    assert_eq!(packed.ready(0..600), [96, 97, 98, 99, 100, 101]);
    // Of the window's pages 85 to 116 the blocks 10 to 14 of 8000 bytes behind page 10.
    assert_eq!(requests, [(0, 1), (29, 11)]);
    packed.fault(0, 103);
    assert_eq!(packed.settle(), (Vec::new(), Vec::from([(96, 104)])), "from the front again");
    assert_eq!(packed.ready(96..105), (96..104).collect::<Vec<_>>());
    let stats = packed.hands.engine.stats();
    assert_eq!((stats.pages_decoded, stats.pages_unpacked), (14, 8));
    assert_eq!(stats.pages_unpacked_useless(), 6);
}

#[test]
fn a_read_is_decoded_whole_before_it_is_copied() {
    let mut packed = Packed::with(300, LARGE, "selective", "linux-6.18");
    packed.hands.read(0, packed.handle, 97, 10);
    let (_, decodes) = packed.settle();
    assert_eq!(decodes, [(96, 104), (104, 107)]);
    let copied: u64 = packed.hands.copies.iter().map(|copy| copy.len).sum();
    assert_eq!(copied, 10 * PAGE_SIZE);
    assert_eq!(packed.hands.replies, [(CallId(0), Ok(10 * PAGE_SIZE))]);
}

#[test]
fn a_stream_of_reads_gets_every_byte() {
    for fill in ["eager", "off", "selective", "selective-then-idle"] {
        for map in [SMALL, LARGE] {
            for readahead in ["linux-2.6.21", "linux-6.18", "off", "linux-2.6.7"] {
                let mut packed = Packed::with(64, map, fill, readahead);
                for step in 0..120 {
                    packed.hands.read(0, packed.handle, 5 * step, 5);
                    packed.settle();
                }
                let bytes: u64 =
                    packed.hands.replies.iter().map(|(_, result)| result.unwrap()).sum();
                assert_eq!(bytes, map.bytes(), "{fill} {readahead}");
            }
        }
    }
}

#[test]
fn an_idle_processor_decodes_what_is_likely_to_come() {
    let mut packed = Packed::new(300, SMALL, "selective-then-idle:first=3");
    packed.fault(0, 100);
    assert!(!packed.hands.engine.has_idle_work(), "its raw bytes are not here");
    packed.settle();
    for page in 101..104 {
        assert!(packed.hands.engine.has_idle_work());
        packed.hands.input(Input::Idle);
        assert_eq!(packed.hands.decodes[0].call, None);
        let decode = packed.decoded(Ok(()));
        assert_eq!(decode.pages, Pages::new(page, page + 1));
    }
    assert!(!packed.hands.engine.has_idle_work());
    packed.hands.input(Input::Idle);
    assert!(packed.hands.decodes.is_empty());
    packed.fault(0, 102);
    let stats = packed.hands.engine.stats();
    assert_eq!((stats.faults_major, stats.faults_minor), (1, 1));
    assert_eq!((stats.pages_unpacked_idle, stats.pages_unpacked_useless()), (3, 2));
}

#[test]
fn a_demand_waits_for_the_idle_processor_that_decodes_its_page() {
    let mut packed = Packed::faulted("selective-then-idle");
    packed.hands.input(Input::Idle);
    packed.fault(0, 101);
    assert_eq!(packed.hands.decodes.len(), 1);
    assert_eq!(packed.hands.replies.len(), 1);
    packed.decoded(Ok(()));
    packed.hands.resume_all();
    assert_eq!(packed.hands.replies.len(), 2);
    assert_eq!(packed.hands.engine.stats().faults_major, 2, "it had to wait");
}

#[test]
fn an_idle_processor_holds_no_page_of_the_image_for_a_hole() {
    let mut packed = Packed::new(300, FullHoles(SMALL), "selective-then-idle:first=3");
    packed.fault(0, 1);
    packed.settle();
    packed.hands.input(Input::Idle);
    assert_eq!(packed.hands.decodes[0].coding, Coding::Hole);
    packed.decoded(Ok(()));
    // Pages that are still held would stay.
    packed.forget_raw();
}

#[test]
fn what_lost_its_raw_bytes_is_offered_no_longer() {
    let mut packed = Packed::faulted("selective-then-idle");
    packed.forget_raw();
    assert!(!packed.hands.engine.has_idle_work());
}

#[test]
fn two_calls_go_through_the_buffers_one_after_the_other() {
    let mut packed = Packed::new(300, SMALL, "off");
    packed.fault(0, 100);
    packed.fault(1, 400);
    assert_eq!(packed.hands.submits.len(), 1, "the second one waits for the buffers");
    packed.settle();
    assert_eq!(packed.hands.replies, [(CallId(0), Ok(0)), (CallId(1), Ok(0))]);
    let gathered: Vec<u64> = packed.hands.gathers.iter().map(|gather| gather.page).collect();
    assert_eq!(gathered, [0, 1, 2, 3, 34, 35, 36, 37, 107, 108, 109, 110]);
}

#[test]
fn two_frames_are_enough_for_the_buffers_and_one_more_than_its_raw_pages_for_a_block() {
    for (frames, fill) in [(2, "eager"), (2, "off"), (3, "selective"), (3, "selective-then-idle")] {
        let mut packed = Packed::new(frames, SMALL, fill);
        for page in [100, 101, 400, 399, 2, 4] {
            packed.fault(0, page);
            packed.settle();
            assert_eq!(packed.hands.replies.pop().unwrap().1, Ok(0), "{fill}");
        }
    }
    let mut packed = Packed::new(2, SMALL, "selective");
    // It lies in two pages of the image.
    packed.fault(0, 102);
    packed.settle();
    assert_eq!(packed.hands.replies[0].1, Err(IoError::NoMemory));
}

#[test]
fn packed_files_and_images_cannot_be_changed() {
    let mut packed = Packed::new(30, SMALL, "eager");
    for handle in [packed.handle, packed.of_image] {
        let write = Op::Write { handle, offset: 0, len: 10, durable: false };
        for op in [write, Op::Truncate { handle }] {
            packed.hands.input(Input::Call(CallId(0), op));
            assert_eq!(packed.hands.replies.pop().unwrap().1, Err(IoError::ReadOnly));
        }
        packed.hands.input(Input::Call(CallId(0), Op::Sync { handle }));
        assert_eq!(packed.hands.replies.pop().unwrap().1, Ok(0));
    }
    packed.fault(0, 600);
    assert_eq!(packed.hands.replies.pop().unwrap().1, Err(IoError::BeyondEnd));
}

#[test]
fn advice_brings_raw_bytes_and_takes_the_flag_away() {
    let mut packed = Packed::new(300, SMALL, "selective");
    let handle = packed.handle;
    let (offset, len) = (50 * PAGE_SIZE, 30 * PAGE_SIZE);
    let op = Op::Advise { handle, advice: Advice::WillNeed, offset, len };
    packed.hands.input(Input::Call(CallId(0), op));
    let (requests, decodes) = packed.settle();
    assert_eq!((requests.len(), decodes.len()), (2, 0));
    assert_eq!(packed.deferred(0..600), (50..80).collect::<Vec<_>>());
    assert_eq!(packed.hands.replies.len(), 1);
    let op = Op::Advise { handle, advice: Advice::DontNeed, offset, len };
    packed.hands.input(Input::Call(CallId(0), op));
    assert_eq!(packed.deferred(0..600), [0; 0]);
}
