//! Writes, syncs and cuts by hand.

use super::*;
use crate::flush::{self, Demand, DirtyPages, Flush, Sent};
use crate::throttle::{self, DirtyView, Throttle};
use crate::writeback::{Amount, Knobs};
use crate::{control, units::DeviceId};

const PAGES: u64 = 100;

impl Hands {
    /// One growing file of 100 pages on a device with a given number of places for writes.
    fn writing(frames: u32, places: u32, rule: &str) -> (Self, HandleId) {
        let mut engine = Engine::new(Config { frames, calls_max: 8 });
        let queue =
            QueueConfig { plug: None, write_requests_max: places, ..QueueConfig::default() };
        let device = engine.add_device(queue);
        let file = engine.add_growing_file(device, PAGES * PAGE_SIZE, 2 * PAGES * PAGE_SIZE, 0);
        let spec = |text| flush::Spec::parse(text).unwrap();
        let fixed = control::Spec::parse("fixed").unwrap();
        let off = throttle::Spec::parse("off").unwrap();
        engine.set_policies(Policies::build(&spec(rule), &fixed, &off));
        let handle = engine.open(file, Spec::parse("off").unwrap().build());
        (Self::of(engine), handle)
    }

    fn write(&mut self, call: u32, handle: HandleId, offset: u64, len: u64) {
        let op = Op::Write { handle, offset, len, durable: false };
        self.input(Input::Call(CallId(call), op));
    }

    fn durable_write(&mut self, call: u32, handle: HandleId, offset: u64, len: u64) {
        let op = Op::Write { handle, offset, len, durable: true };
        self.input(Input::Call(CallId(call), op));
    }

    fn sync(&mut self, call: u32, handle: HandleId) {
        self.input(Input::Call(CallId(call), Op::Sync { handle }));
    }

    /// Lets everything happen until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            while !self.submits.is_empty() {
                self.finish(Ok(()));
            }
            self.resume_all();
            if self.submits.is_empty() && self.wakes.is_empty() {
                return;
            }
        }
        panic!("no end in sight");
    }

    fn kinds(&self) -> Vec<(RequestKind, u64, u64)> {
        self.submits.iter().map(|one| (one.kind, one.first, one.pages)).collect()
    }
}

const QUIET: &str = "linux-6:interval=0,background=99,limit=100";

#[test]
fn a_write_of_whole_pages_reads_nothing_and_leaves_them_dirty() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 8192, 8192);
    assert_eq!(hands.replies, [(CallId(0), Ok(8192))]);
    assert_eq!(hands.submits, []);
    let [copy] = hands.copies[..] else { panic!("consecutive frames are one copy") };
    assert!(copy.to_frames && copy.offset == 8192 && copy.len == 8192);
    assert_eq!((hands.engine.levels().dirty, hands.engine.levels().dirtied), (2, 2));
    hands.write(0, handle, 8192, 4096);
    assert_eq!(hands.engine.levels().dirtied, 2, "a dirty page cannot become dirty");
}

#[test]
fn a_part_of_a_page_is_written_after_the_page_was_read() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 4000, 200);
    assert_eq!(hands.kinds(), [(RequestKind::Read, 0, 1)]);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Read, 1, 1)]);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Ok(200))]);
    let lens: Vec<u64> = hands.copies.iter().map(|copy| copy.len).collect();
    assert_eq!(lens, [96, 104]);
}

#[test]
fn a_page_that_cannot_be_read_shortens_the_write() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 0, 5000);
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Ok(4096))]);
    hands.write(0, handle, 100, 100);
    assert_eq!(hands.replies[1], (CallId(0), Ok(100)), "the page is there");
    hands.write(0, handle, 5000, 100);
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    assert_eq!(hands.replies[2], (CallId(0), Err(IoError::Device)));
}

#[test]
fn a_file_grows_to_its_room_and_has_no_holes() {
    let (mut hands, handle) = Hands::writing(256, 8, QUIET);
    let end = PAGES * PAGE_SIZE;
    hands.write(0, handle, end + 1, 1);
    hands.write(1, handle, end, 100);
    hands.write(2, handle, end + 100, 100);
    hands.write(3, handle, 2 * end - 10, 100);
    hands.write(4, handle, end + 200, end);
    hands.write(5, handle, 2 * end, 1);
    let results: Vec<_> = hands.replies.iter().map(|(_, result)| *result).collect();
    let expected = [
        Err(IoError::BeyondEnd),
        Ok(100),
        Ok(100),
        Err(IoError::BeyondEnd),
        Ok(end - 200),
        Err(IoError::NoSpace),
    ];
    assert_eq!(results, expected);
    assert_eq!(hands.submits, [], "what lies behind the end need not be read");
    assert_eq!(hands.engine.file_bytes(FileId(0)), 2 * end);
}

#[test]
fn a_sync_writes_waits_flushes_and_replies() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 0, 3 * PAGE_SIZE);
    hands.write(0, handle, 50 * PAGE_SIZE, PAGE_SIZE);
    hands.sync(1, handle);
    assert_eq!(hands.kinds(), [(RequestKind::Write, 0, 3), (RequestKind::Write, 50, 1)]);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Write, 50, 1)], "the second is still under way");
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Flush, 0, 0)]);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies.last(), Some(&(CallId(1), Ok(0))));
    assert_eq!(hands.engine.levels().unsafe_pages(), 0);
}

#[test]
fn a_sync_of_a_clean_file_still_flushes() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.sync(0, handle);
    assert_eq!(hands.kinds(), [(RequestKind::Flush, 0, 0)]);
}

#[test]
fn a_page_dirtied_on_its_way_is_written_again_by_a_sync() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(2, handle);
    assert_eq!(hands.submits.len(), 1, "a page is on its way once at a time");
    hands.finish(Ok(()));
    hands.resume_all();
    let kinds = [(RequestKind::Write, 0, 1), (RequestKind::Flush, 0, 0)];
    assert_eq!(hands.kinds(), kinds, "the second sync sends it again; the first has its page");
    hands.settle();
    let ended: Vec<_> = hands.replies[2..].to_vec();
    assert_eq!(ended, [(CallId(1), Ok(0)), (CallId(2), Ok(0))]);
}

#[test]
fn a_sync_ends_beside_a_writer_that_never_stops() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 0, 4 * PAGE_SIZE);
    hands.sync(1, handle);
    for _ in 0..10 {
        hands.write(0, handle, 0, 4 * PAGE_SIZE);
        hands.finish(Ok(()));
        hands.resume_all();
        if hands.replies.last() == Some(&(CallId(1), Ok(0))) {
            return;
        }
    }
    panic!("the sync follows the writer");
}

#[test]
fn a_durable_write_needs_no_flush_unless_others_sent_its_pages() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.durable_write(0, handle, 4096, 8192);
    assert_eq!(hands.kinds(), [(RequestKind::DurableWrite, 1, 2)]);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Ok(8192))]);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.durable_write(2, handle, 0, PAGE_SIZE);
    hands.settle();
    assert_eq!(hands.engine.stats().flushes, 1, "the sync's alone: the write sent its page again");
}

#[test]
fn an_error_is_told_once_to_each_description() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    let off = || Spec::parse("off").unwrap().build();
    let other = hands.engine.open(FileId(0), off());
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    hands.settle();
    hands.sync(2, other);
    hands.settle();
    hands.sync(3, handle);
    hands.settle();
    hands.sync(4, other);
    hands.settle();
    let late = hands.engine.open(FileId(0), off());
    hands.sync(5, late);
    hands.settle();
    let results: Vec<_> = hands.replies[1..].iter().map(|(_, result)| *result).collect();
    let error = Err(IoError::Device);
    assert_eq!(results, [error, error, Ok(0), Ok(0), Ok(0)]);
}

#[test]
fn a_failed_flush_is_told_to_its_caller() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.sync(0, handle);
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    hands.sync(0, handle);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Err(IoError::Device)), (CallId(0), Ok(0))]);
}

#[test]
fn a_sync_waits_for_a_place_at_the_device() {
    let (mut hands, handle) = Hands::writing(64, 1, QUIET);
    for page in [1, 3, 5] {
        hands.write(0, handle, page * PAGE_SIZE, PAGE_SIZE);
    }
    hands.sync(1, handle);
    for page in [1, 3, 5] {
        assert_eq!(hands.kinds(), [(RequestKind::Write, page, 1)]);
        hands.finish(Ok(()));
        hands.resume_all();
    }
    assert_eq!(hands.kinds(), [(RequestKind::Flush, 0, 0)]);
}

#[test]
fn metadata_are_written_before_the_flush() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.engine.set_inode(FileId(0), 4_000);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!((hands.submits[0].kind, hands.submits[0].sector), (RequestKind::Inode, 4_000));
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Flush, 0, 0)]);
    hands.settle();
    hands.sync(1, handle);
    assert_eq!(hands.kinds(), [(RequestKind::Flush, 0, 0)], "nothing has changed");
}

/// A file grew by a write into a page that was dirty already, after its metadata had been sent.
/// They were not marked as changed, because only a page that became dirty marked them. A sync left
/// the old size on the device.
#[test]
fn a_write_into_a_dirty_page_changes_the_metadata_too() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.engine.set_inode(FileId(0), 4_000);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.finish(Ok(()));
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Inode, 0, 1)]);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.settle();
    hands.sync(1, handle);
    assert_eq!(hands.kinds(), [(RequestKind::Write, 0, 1)]);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Inode, 0, 1)], "changed since it was sent");
}

/// A durable write found no changed metadata, because a sync had sent them, and ended at once. They
/// were in the device's cache, so a loss of power could take the file's new size along.
#[test]
fn a_durable_write_flushes_metadata_that_others_sent() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.engine.set_inode(FileId(0), 4_000);
    hands.durable_write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Inode, 0, 1)]);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies, [], "nothing is safe before a flush");
    hands.settle();
    assert_eq!((hands.replies.len(), hands.engine.stats().flushes), (2, 2));
}

/// Metadata held a device's only place while dirty pages filled the memory and a call waited for
/// it. The end of their write lets the flush rule send pages, but the invariants did not know, and
/// failed as if no memory would become free.
#[test]
fn memory_waits_for_metadata_that_hold_the_only_place() {
    let (mut hands, handle) = Hands::writing(2, 1, QUIET);
    hands.engine.set_inode(FileId(0), 4_000);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.kinds(), [(RequestKind::Inode, 0, 1)]);
    hands.write(0, handle, 0, 2 * PAGE_SIZE);
    hands.read(2, handle, 50, 1);
    hands.engine.check();
    hands.settle();
    assert_eq!(hands.replies.len(), 4);
}

#[test]
fn full_of_dirty_pages_memory_is_written_out_instead_of_waited_for() {
    let (mut hands, handle) = Hands::writing(4, 1, "linux-6:interval=0,background=100,limit=100");
    hands.write(0, handle, 0, 40 * PAGE_SIZE);
    hands.read(1, handle, 70, 3);
    hands.settle();
    assert_eq!(hands.replies.len(), 2);
    assert!(hands.replies.contains(&(CallId(0), Ok(40 * PAGE_SIZE))));
    assert!(hands.replies.contains(&(CallId(1), Ok(3 * PAGE_SIZE))));
}

#[test]
fn memory_goes_round_among_its_waiters() {
    let (mut hands, handle) = Hands::writing(2, 1, "linux-6:interval=0,background=100,limit=100");
    for call in 0..3 {
        hands.write(call, handle, u64::from(call) * 30 * PAGE_SIZE, 10 * PAGE_SIZE);
    }
    hands.settle();
    let mut writers: Vec<u32> = hands.copies.iter().map(|copy| copy.call.0).collect();
    writers.dedup();
    assert_eq!(writers[..9], [0, 1, 2, 0, 1, 2, 0, 1, 2], "each some pages before the next");
}

#[test]
fn a_cut_drops_dirty_pages_without_writing_them() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 0, 6 * PAGE_SIZE);
    hands.input(Input::Call(CallId(1), Op::Truncate { handle }));
    assert_eq!(hands.replies.last(), Some(&(CallId(1), Ok(0))));
    assert_eq!(hands.submits, []);
    assert_eq!((hands.engine.file_bytes(FileId(0)), hands.engine.levels().dirty), (0, 0));
    hands.read(2, handle, 0, 4);
    assert_eq!(hands.replies.last(), Some(&(CallId(2), Ok(0))));
}

#[test]
fn a_cut_waits_for_pages_that_are_on_their_way() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    hands.write(0, handle, 0, 2 * PAGE_SIZE);
    hands.sync(1, handle);
    hands.read(2, handle, 30, 1);
    hands.input(Input::Call(CallId(3), Op::Truncate { handle }));
    assert_eq!(hands.replies.len(), 1, "only the write has ended");
    hands.settle();
    assert_eq!(hands.replies.len(), 4);
    let read = hands.replies.iter().find(|(call, _)| *call == CallId(2));
    assert_eq!(read, Some(&(CallId(2), Ok(0))), "its page was cut off");
}

/// Pauses once after every page, and is called again afterwards.
#[derive(Debug)]
struct Twice {
    asked: u32,
}

impl Throttle for Twice {
    fn on_dirtied(&mut self, _task: CallId, view: &DirtyView) -> Option<Duration> {
        assert_eq!(view.again, !self.asked.is_multiple_of(3), "asked anew after each page");
        self.asked += 1;
        (!self.asked.is_multiple_of(3)).then_some(Duration::from_millis(10))
    }
}

#[test]
fn a_pause_ends_with_the_same_question() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    let throttle = std::boxed::Box::new(Twice { asked: 0 });
    hands.engine.set_policies(Policies { throttle, ..Policies::default() });
    hands.write(0, handle, 0, 2 * PAGE_SIZE);
    for _ in 0..4 {
        assert_eq!(hands.pauses, [(CallId(0), Duration::from_millis(10))]);
        assert_eq!(hands.replies, []);
        hands.pauses.clear();
        hands.input(Input::Resume(CallId(0)));
    }
    assert_eq!(hands.replies, [(CallId(0), Ok(2 * PAGE_SIZE))]);
    assert_eq!(hands.copies.len(), 2);
}

/// Holds every writer until its page has been sent.
#[derive(Debug)]
struct Pass;

impl Flush for Pass {
    fn knobs(&self) -> Knobs {
        let amount = Amount::percent(10);
        Knobs {
            background: amount,
            limit: amount,
            batch: None,
            in_flight: None,
            interval: Duration::ZERO,
            expire: Duration::ZERO,
            expire_new: None,
        }
    }

    fn on_dirtied(&mut self, _file: FileId, _pages: &dyn DirtyPages) -> Demand {
        Demand::RunAndWait
    }

    fn run(&mut self, pages: &mut dyn DirtyPages) {
        while pages.write_oldest() == Sent::Page {}
        pages.end_pass();
    }

    fn timeout(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn a_writer_that_waits_for_a_pass_is_woken_by_its_end() {
    let (mut hands, handle) = Hands::writing(64, 8, QUIET);
    let flush = std::boxed::Box::new(Pass);
    hands.engine.set_policies(Policies { flush, ..Policies::default() });
    hands.write(0, handle, 0, 2 * PAGE_SIZE);
    assert_eq!(hands.wakes, [CallId(0)]);
    assert_eq!(hands.kinds(), [(RequestKind::Write, 0, 1)]);
    hands.resume_all();
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Ok(2 * PAGE_SIZE))]);
}

#[test]
fn old_pages_are_written_when_their_time_has_come() {
    let (mut hands, handle) = Hands::writing(64, 8, "linux-6:interval=500,expire=3000");
    hands.write(0, handle, 0, PAGE_SIZE);
    let mut looks = 0;
    while let Some(at) = hands.engine.poll_timeout() {
        (hands.now, looks) = (at, looks + 1);
        hands.input(Input::Timeout);
        if !hands.submits.is_empty() {
            break;
        }
    }
    assert_eq!((hands.now, looks), (Instant::ZERO + Duration::from_secs(30), 6));
    assert_eq!(hands.kinds(), [(RequestKind::Write, 0, 1)]);
    hands.settle();
    assert_eq!(hands.engine.device_levels(DeviceId(0)).written, 1);
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

#[test]
fn metadata_that_change_on_a_slow_way_are_written_again() {
    let (mut hands, handle) = Hands::writing(64, 8, "linux-6:interval=0,background=0,commit=1");
    hands.engine.set_inode(FileId(0), 1 << 20);
    let data_done = |hands: &mut Hands| {
        while let Some(place) = hands.submits.iter().position(|one| one.kind.is_data_write()) {
            let id = hands.submits.remove(place).id;
            hands.input(Input::Done(id, Ok(()), None));
        }
    };
    let pass = |hands: &mut Hands, until: u64| {
        while hands.now < at(until) {
            hands.now += Duration::from_millis(100);
            hands.input(Input::Timeout);
        }
    };
    hands.write(0, handle, 0, PAGE_SIZE);
    data_done(&mut hands);
    pass(&mut hands, 1_000);
    assert_eq!(hands.kinds(), [(RequestKind::Inode, 0, 1)]);
    pass(&mut hands, 1_100);
    hands.write(0, handle, 0, PAGE_SIZE);
    data_done(&mut hands);
    pass(&mut hands, 4_000);
    hands.finish(Ok(()));
    pass(&mut hands, 10_000);
    assert_eq!(hands.kinds(), [(RequestKind::Inode, 0, 1)], "changed at 1.1 s");
}

#[test]
fn metadata_of_the_first_moment_wait_for_their_age() {
    let (mut hands, handle) = Hands::writing(64, 8, "bdflush-2.2.19:interval=15");
    hands.engine.set_inode(FileId(0), 1 << 20);
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.now = at(150);
    hands.input(Input::Timeout);
    assert_eq!(hands.kinds(), [], "age_super is 5 s");
}

#[test]
fn memory_that_a_cut_frees_is_used_while_it_waits() {
    let (mut hands, handle) = Hands::writing(4, 1, QUIET);
    let other = hands.engine.add_file(DeviceId(0), PAGES * PAGE_SIZE, 1 << 20);
    let reader = hands.engine.open(other, Spec::parse("off").unwrap().build());
    hands.write(0, handle, 0, PAGE_SIZE);
    hands.sync(1, handle);
    hands.write(0, handle, PAGE_SIZE, 3 * PAGE_SIZE);
    hands.read(2, reader, 5, 1);
    assert!(hands.wakes.is_empty());
    hands.input(Input::Call(CallId(3), Op::Truncate { handle }));
    assert_eq!(hands.engine.resident_pages(FileId(0)), 1, "three of four frames are free");
    assert!(hands.wakes.contains(&CallId(2)), "the reader hears of them");
}
