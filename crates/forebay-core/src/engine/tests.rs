//! The engine by hand: a world that answers when the test says so.

use std::vec::Vec;

use super::*;
use crate::io::{Copy, Decode, Gather, Request, RequestKind};
use crate::readahead::{Access, AddressSpace, Fault, Found, MapAdvice, Mapping, Spec};
use crate::time::Duration;
use crate::units::RequestId;

mod direct;
mod packed;
mod writes;

/// An engine and all that came out of it and has not been looked at.
struct Hands {
    engine: Engine,
    now: Instant,
    submits: Vec<Request>,
    copies: Vec<Copy>,
    gathers: Vec<Gather>,
    decodes: Vec<Decode>,
    wakes: Vec<CallId>,
    pauses: Vec<(CallId, Duration)>,
    replies: Vec<(CallId, Result<u64, IoError>)>,
}

impl Hands {
    /// One file of 1000 pages and a half, opened once.
    fn new(frames: u32, policy: &str) -> (Self, HandleId) {
        let mut engine = Engine::new(Config { frames, calls_max: 4 });
        let queue = QueueConfig { plug: None, ..QueueConfig::default() };
        let device = engine.add_device(queue);
        let file = engine.add_file(device, 1000 * PAGE_SIZE + 2048, 0);
        let handle = engine.open(file, Spec::parse(policy).unwrap().build());
        (Self::of(engine), handle)
    }

    fn of(engine: Engine) -> Self {
        let (submits, copies, wakes) = (Vec::new(), Vec::new(), Vec::new());
        let (pauses, replies, now) = (Vec::new(), Vec::new(), Instant::ZERO);
        let (gathers, decodes) = (Vec::new(), Vec::new());
        Self { engine, now, submits, copies, gathers, decodes, wakes, pauses, replies }
    }

    fn input(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Submit(request) => self.submits.push(request),
                Output::Copy(copy) => self.copies.push(copy),
                Output::Gather(gather) => self.gathers.push(gather),
                Output::Decode(decode) => self.decodes.push(decode),
                Output::Wake(call) => self.wakes.push(call),
                Output::Pause(call, length) => self.pauses.push((call, length)),
                Output::Reply(call, result) => self.replies.push((call, result)),
            }
        }
        self.engine.check();
    }

    fn read(&mut self, call: u32, handle: HandleId, page: u64, pages: u64) {
        let (offset, len) = (page * PAGE_SIZE, pages * PAGE_SIZE);
        self.input(Input::Call(CallId(call), Op::Read { handle, offset, len }));
    }

    fn finish(&mut self, result: Result<(), IoError>) {
        let request = self.submits.remove(0);
        self.input(Input::Done(request.id, result, None));
    }

    fn resume_all(&mut self) {
        for call in core::mem::take(&mut self.wakes) {
            self.input(Input::Resume(call));
        }
    }
}

#[test]
fn a_cold_read_submits_waits_copies_and_replies() {
    let (mut hands, handle) = Hands::new(64, "fixed:max=4");
    hands.read(0, handle, 10, 2);
    let [request] = hands.submits[..] else { panic!("one request") };
    assert_eq!((request.first, request.pages, request.sector), (10, 4, 80));
    assert_eq!(hands.replies, []);
    hands.finish(Ok(()));
    assert_eq!(hands.wakes, [CallId(0)]);
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Ok(8192))]);
    let copied: u64 = hands.copies.iter().map(|copy| copy.len).sum();
    assert_eq!(copied, 8192);
}

#[test]
fn a_cached_read_is_one_copy_and_a_reply() {
    let (mut hands, handle) = Hands::new(64, "fixed:max=4");
    hands.read(0, handle, 10, 4);
    hands.finish(Ok(()));
    hands.resume_all();
    hands.copies.clear();
    hands.read(0, handle, 10, 4);
    let [copy] = hands.copies[..] else { panic!("consecutive frames are one copy") };
    assert_eq!((copy.offset, copy.len, copy.buffer_offset), (10 * PAGE_SIZE, 4 * PAGE_SIZE, 0));
    assert_eq!(hands.submits.len(), 0);
    assert_eq!(hands.replies.len(), 2);
}

#[test]
fn a_read_ends_with_the_file() {
    let (mut hands, handle) = Hands::new(64, "off");
    hands.read(0, handle, 1000, 5);
    hands.finish(Ok(()));
    hands.resume_all();
    hands.read(0, handle, 1001, 1);
    hands.read(0, handle, u64::MAX / PAGE_SIZE, 1);
    assert_eq!(hands.replies, [2048, 0, 0].map(|bytes| (CallId(0), Ok(bytes))));
}

#[test]
fn an_error_reaches_exactly_the_waiters_of_the_page() {
    let (mut hands, handle) = Hands::new(64, "fixed:max=2");
    hands.read(0, handle, 10, 1);
    hands.read(1, handle, 11, 1);
    hands.finish(Err(IoError::Device));
    assert_eq!(hands.wakes, [CallId(0), CallId(1)]);
    hands.resume_all();
    let alone: Vec<_> = hands.submits.iter().map(|one| (one.first, one.pages)).collect();
    assert_eq!(alone, [(10, 1), (11, 1)], "each page is asked for once more, alone");
    hands.finish(Err(IoError::Device));
    hands.finish(Ok(()));
    hands.resume_all();
    let replies = [(CallId(0), Err(IoError::Device)), (CallId(1), Ok(PAGE_SIZE))];
    assert_eq!(hands.replies, replies);
}

#[test]
fn a_failed_page_that_was_read_ahead_harms_no_call() {
    let (mut hands, handle) = Hands::new(64, "fixed:max=40");
    hands.read(0, handle, 0, 1);
    assert_eq!(hands.submits.len(), 2, "the limit splits 40 pages");
    hands.finish(Ok(()));
    hands.resume_all();
    hands.finish(Err(IoError::Device));
    assert_eq!(hands.replies, [(CallId(0), Ok(PAGE_SIZE))]);
    hands.read(0, handle, 35, 1);
    assert_eq!(hands.submits[0].first, 35, "the page is asked for afresh");
}

#[test]
fn an_error_behind_good_pages_is_a_short_read() {
    let (mut hands, handle) = Hands::new(64, "off");
    hands.read(0, handle, 5, 2);
    hands.finish(Ok(()));
    hands.resume_all();
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Ok(PAGE_SIZE))]);
}

#[test]
fn two_frames_are_enough_for_four_readers() {
    let (mut hands, handle) = Hands::new(2, "fixed:max=32");
    for call in 0..4 {
        hands.read(call, handle, u64::from(call) * 100, 20);
    }
    let mut rounds = 0;
    while hands.replies.len() < 4 {
        rounds += 1;
        assert!(rounds < 1000, "no progress");
        while !hands.submits.is_empty() {
            hands.finish(Ok(()));
        }
        hands.resume_all();
    }
    assert!(hands.replies.iter().all(|(_, result)| *result == Ok(20 * PAGE_SIZE)));
}

#[test]
fn a_fault_waits_once_and_is_minor_afterwards() {
    let (mut hands, handle) = Hands::new(64, "fixed:max=4");
    let fault = |page| {
        let mapping = Mapping { advice: MapAdvice::Normal, ..Mapping::WHOLE };
        Input::Call(CallId(3), Op::Fault { handle, page, write: false, mapping })
    };
    hands.input(fault(7));
    hands.finish(Ok(()));
    hands.resume_all();
    hands.input(fault(8));
    hands.input(fault(1001));
    let stats = hands.engine.stats();
    assert_eq!((stats.faults_major, stats.faults_minor), (1, 1));
    assert_eq!(hands.replies[2], (CallId(3), Err(IoError::BeyondEnd)));
}

#[test]
fn advice_drops_whole_pages_and_fetches_ahead() {
    let (mut hands, handle) = Hands::new(64, "off");
    let advise =
        |advice, offset, len| Input::Call(CallId(0), Op::Advise { handle, advice, offset, len });
    hands.input(advise(Advice::WillNeed, 0, 10 * PAGE_SIZE));
    hands.finish(Ok(()));
    let file = hands.engine.file_of(handle);
    let resident =
        |hands: &Hands| (0..10).filter(|page| hands.engine.is_resident(file, *page)).count();
    assert_eq!(resident(&hands), 10);
    hands.input(advise(Advice::DontNeed, 4097, 8192));
    assert_eq!(resident(&hands), 9, "only page 2 lies wholly inside");
    hands.input(advise(Advice::DontNeed, 0, 0));
    assert_eq!(resident(&hands), 0);
}

#[test]
#[should_panic(expected = "a request is done once")]
fn a_request_cannot_be_done_twice() {
    let (mut hands, handle) = Hands::new(64, "off");
    hands.read(0, handle, 0, 1);
    hands.finish(Ok(()));
    hands.input(Input::Done(RequestId(0), Ok(()), None));
}

#[test]
fn a_page_stays_until_its_sleeper_has_resumed() {
    let (mut hands, handle) = Hands::new(1, "off");
    hands.read(0, handle, 10, 1);
    hands.finish(Ok(()));
    hands.read(1, handle, 20, 1);
    assert!(hands.engine.is_resident(FileId(0), 10));
    assert_eq!(hands.submits, []);
}

/// A file behind a plug of 4 requests, as file 1, besides the plain one.
fn plugged(frames: u32) -> (Hands, HandleId, HandleId) {
    let (mut hands, plain) = Hands::new(frames, "off");
    let device = hands.engine.add_device(QueueConfig::default());
    let file = hands.engine.add_file(device, 1000 * PAGE_SIZE, 0);
    let plugged = hands.engine.open(file, Spec::parse("off").unwrap().build());
    (hands, plain, plugged)
}

#[test]
fn a_wait_for_a_page_ends_the_plug() {
    let (mut hands, _, plugged) = plugged(8);
    hands.read(0, plugged, 10, 1);
    assert_eq!(hands.submits.len(), 1);
}

#[test]
fn a_wait_for_memory_ends_every_plug() {
    let (mut hands, plain, plugged) = plugged(2);
    // At most half of the available pages are read ahead: one of two frames waits in the plug.
    let (advice, len) = (Advice::WillNeed, 8 * PAGE_SIZE);
    hands.input(Input::Call(CallId(1), Op::Advise { handle: plugged, advice, offset: 0, len }));
    assert_eq!((hands.engine.resident_pages(FileId(1)), hands.submits.len()), (1, 0));
    hands.read(0, plain, 1, 1);
    hands.read(2, plain, 5, 1);
    assert!(hands.submits.iter().any(|one| one.file == FileId(1)));
}

#[test]
fn the_first_to_wait_for_memory_is_woken_first() {
    let (mut hands, handle) = Hands::new(1, "off");
    (0..4).for_each(|call| hands.read(call, handle, u64::from(call) * 10, 1));
    hands.finish(Ok(()));
    assert_eq!(hands.wakes, [0, 1, 2, 3].map(CallId));
}

#[test]
fn advice_is_answered_before_anything_is_read() {
    let (mut hands, handle) = Hands::new(64, "off");
    let (offset, len) = (0, 10 * PAGE_SIZE);
    for advice in [Advice::WillNeed, Advice::DontNeed, Advice::WillNeed] {
        hands.input(Input::Call(CallId(0), Op::Advise { handle, advice, offset, len }));
        assert_eq!(hands.replies.pop(), Some((CallId(0), Ok(0))), "{advice:?}");
    }
    assert_eq!(hands.submits.len(), 1, "what is being read stays");
}

#[test]
fn advice_to_the_end_drops_the_partial_last_page() {
    let (mut hands, handle) = Hands::new(64, "off");
    hands.read(0, handle, 1000, 1);
    hands.finish(Ok(()));
    hands.resume_all();
    let (advice, offset, len) = (Advice::DontNeed, 0, 0);
    hands.input(Input::Call(CallId(0), Op::Advise { handle, advice, offset, len }));
    assert_eq!(hands.engine.resident_pages(FileId(0)), 0);
}

/// A policy that adds as many pages as it can when it sees a present page, and records its calls.
#[derive(Debug, Default)]
struct Probe {
    sees_hits: bool,
    heard: alloc::sync::Arc<core::sync::atomic::AtomicU64>,
}

impl Readahead for Probe {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        if access.found == crate::readahead::Found::Present {
            for page in 100..104 {
                pages.add(page, 0, false);
            }
        }
    }

    fn on_fault(&mut self, _: &Fault, _: &mut dyn AddressSpace) {}

    fn on_pattern(&mut self, _: crate::readahead::Pattern) {
        self.sees_hits = true;
    }

    fn on_read_end(&mut self, position: u64) {
        self.heard.store(position, core::sync::atomic::Ordering::Relaxed);
    }

    fn on_error(&mut self) {
        self.heard.store(77, core::sync::atomic::Ordering::Relaxed);
    }

    fn sees_hits(&self) -> bool {
        self.sees_hits
    }
}

#[test]
fn a_policy_hears_where_a_read_ended_and_of_errors() {
    let (mut hands, _) = Hands::new(8, "off");
    let probe = Probe::default();
    let heard = alloc::sync::Arc::clone(&probe.heard);
    let heard = || heard.load(core::sync::atomic::Ordering::Relaxed);
    let handle = hands.engine.open(FileId(0), Box::new(probe));
    hands.read(0, handle, 3, 1);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(heard(), 4 * PAGE_SIZE);
    let mapping = Mapping::WHOLE;
    hands.input(Input::Call(CallId(0), Op::Fault { handle, page: 9, write: false, mapping }));
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    assert_eq!(heard(), 77);
}

#[test]
fn a_shown_page_stays_and_advice_may_make_a_policy_see_hits() {
    let (mut hands, _) = Hands::new(4, "off");
    let handle = hands.engine.open(FileId(0), Box::new(Probe::default()));
    hands.read(0, handle, 3, 1);
    hands.finish(Ok(()));
    hands.resume_all();
    let advice = Advice::Pattern(crate::readahead::Pattern::Normal);
    hands.input(Input::Call(CallId(0), Op::Advise { handle, advice, offset: 0, len: 0 }));
    hands.read(0, handle, 3, 1);
    assert!(hands.engine.is_resident(FileId(0), 3), "it is kept while the policy makes room");
    assert!(hands.engine.is_resident(FileId(0), 102), "the policy saw the hit");
}

#[test]
fn requests_of_a_call_come_before_its_reply() {
    let (mut hands, _) = Hands::new(4, "off");
    let handle =
        hands.engine.open(FileId(0), Box::new(Probe { sees_hits: true, ..Probe::default() }));
    hands.read(0, handle, 3, 1);
    hands.finish(Ok(()));
    hands.resume_all();
    let op = Op::Read { handle, offset: 3 * PAGE_SIZE, len: PAGE_SIZE };
    hands.engine.handle(Instant::ZERO, Input::Call(CallId(0), op));
    let outputs: Vec<Output> = core::iter::from_fn(|| hands.engine.poll_output()).collect();
    assert!(matches!(outputs[..], [Output::Copy(_), Output::Submit(_), Output::Reply(..)]));
}

#[test]
fn a_good_page_swept_into_anothers_window_is_no_error() {
    let (mut hands, handle) = Hands::new(64, "fixed:max=4");
    hands.read(0, handle, 10, 1);
    hands.finish(Err(IoError::Device));
    // Before call 0 resumes, call 1 reads page 8; its window holds pages 8 to 11, and 8 is bad.
    hands.read(1, handle, 8, 1);
    hands.resume_all();
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    while let Some(request) = hands.submits.first() {
        let bad = (request.first..request.first + request.pages).contains(&8);
        hands.finish(if bad { Err(IoError::Device) } else { Ok(()) });
        hands.resume_all();
    }
    assert!(hands.replies.contains(&(CallId(0), Ok(PAGE_SIZE))), "{:?}", hands.replies);
}

#[derive(Debug)]
struct Greedy;
impl Readahead for Greedy {
    fn on_read(&mut self, _: &Access, _: &mut dyn AddressSpace) {}
    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        if fault.found != Found::Absent {
            for page in 100..104 {
                pages.add(page, 0, false);
            }
        }
    }
}

#[test]
fn a_fault_keeps_its_page_while_the_policy_makes_room() {
    let (mut hands, _) = Hands::new(4, "off");
    let handle = hands.engine.open(FileId(0), Box::new(Greedy));
    let fault = Input::Call(
        CallId(0),
        Op::Fault { handle, page: 7, write: false, mapping: Mapping::WHOLE },
    );
    hands.input(fault);
    hands.finish(Ok(()));
    hands.resume_all();
    hands.input(fault);
    assert_eq!(hands.engine.stats().hits, 1);
    assert_eq!(hands.replies.len(), 2, "a hit is a minor fault");
}

#[test]
fn a_page_that_could_not_be_read_is_no_waste() {
    let (mut hands, handle) = Hands::new(64, "off");
    hands.read(0, handle, 5, 1);
    hands.finish(Err(IoError::Device));
    hands.resume_all();
    assert_eq!(hands.engine.stats().pages_wasted(), 0);
}

#[test]
fn a_reader_waits_for_a_place_and_its_policy_sees_the_page_afterwards() {
    let mut engine = Engine::new(Config { frames: 64, calls_max: 4 });
    let queue = QueueConfig { plug: None, read_requests_max: 1, ..QueueConfig::default() };
    let device = engine.add_device(queue);
    let file = engine.add_file(device, 1000 * PAGE_SIZE, 0);
    let handle = engine.open(file, Spec::parse("fixed:max=4").unwrap().build());
    let mut hands = Hands::of(engine);
    hands.read(0, handle, 10, 1);
    hands.read(1, handle, 500, 1);
    assert_eq!(hands.submits.len(), 1, "the second has no place");
    hands.read(2, handle, 11, 1);
    assert_eq!(hands.submits.len(), 1, "a page that is on its way needs no place");
    hands.finish(Ok(()));
    hands.resume_all();
    let [request] = hands.submits[..] else { panic!("one request") };
    assert_eq!((request.first, request.pages), (500, 4), "with its window");
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies.len(), 3);
}
