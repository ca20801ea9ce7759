//! The engine by hand: a world that answers when the test says so.

use std::vec::Vec;

use super::*;
use crate::io::Copy;
use crate::readahead::{MapAdvice, Mapping, Spec};
use crate::units::RequestId;

/// An engine and all that came out of it and has not been looked at.
struct Hands {
    engine: Engine,
    submits: Vec<Request>,
    copies: Vec<Copy>,
    wakes: Vec<CallId>,
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
        let (submits, copies, wakes, replies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        (Self { engine, submits, copies, wakes, replies }, handle)
    }

    fn input(&mut self, input: Input) {
        self.engine.handle(Instant::ZERO, input);
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Submit(request) => self.submits.push(request),
                Output::Copy(copy) => self.copies.push(copy),
                Output::Wake(call) => self.wakes.push(call),
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
        self.input(Input::Done(request.id, result));
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
fn an_error_reaches_exactly_those_who_wait_for_the_page() {
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
fn a_failed_page_that_nobody_asked_for_harms_nobody() {
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
    hands.input(Input::Done(RequestId(0), Ok(())));
}
