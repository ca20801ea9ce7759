//! The queue by hand.

use std::sync::{Arc, Mutex};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::dispatch::Class;
use crate::elevator::{DispatchList, Kick, Queued};
use crate::units::{FileId, PageIndex};
use crate::{dispatch, elevator};

fn bio(first: PageIndex, pages: u64) -> Bio {
    Bio {
        kind: RequestKind::Read,
        frame: None,
        file: FileId(0),
        first,
        sector: first * 8,
        sectors: pages * 8,
        task: None,
        ahead: false,
    }
}

fn ready(queues: &mut BlockQueues) -> Vec<(PageIndex, u64)> {
    core::iter::from_fn(|| queues.pop_ready())
        .map(|request| (request.first, request.pages))
        .collect()
}

#[test]
fn three_requests_wait_and_the_fourth_lets_all_go() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig::default());
    for first in [100, 200, 300] {
        queues.submit_bio(Instant(5), device, bio(first, 1));
    }
    assert_eq!(ready(&mut queues), []);
    assert_eq!(queues.timeout(), Some(Instant(3_000_005)));
    queues.submit_bio(Instant(9), device, bio(301, 1));
    assert_eq!(ready(&mut queues), [], "a merge opens no request");
    queues.submit_bio(Instant(9), device, bio(400, 1));
    assert_eq!(ready(&mut queues), [(100, 1), (200, 1), (300, 2), (400, 1)]);
    assert_eq!(queues.timeout(), None);
}

#[test]
fn the_delay_lets_requests_go() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig::default());
    queues.submit_bio(Instant(0), device, bio(7, 1));
    queues.unplug_due(Instant(2_999_999));
    assert_eq!(ready(&mut queues), []);
    queues.unplug_due(Instant(3_000_000));
    assert_eq!(ready(&mut queues), [(7, 1)]);
}

#[test]
fn a_large_bio_becomes_requests_of_the_limit() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig { plug: None, ..QueueConfig::default() });
    queues.submit_bio(Instant(0), device, bio(0, 70));
    assert_eq!(ready(&mut queues), [(0, 32), (32, 32), (64, 6)]);
    assert_eq!(queues.pages(RequestKind::is_read), 70);
}

#[test]
fn what_continues_the_last_plugged_request_joins_it_without_a_place() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig { write_requests_max: 1, ..QueueConfig::default() });
    let write = |first| Bio { kind: RequestKind::Write, ..bio(first, 1) };
    assert!(!queues.joins(device, &write(7)), "nothing is plugged");
    queues.submit_bio(Instant(0), device, write(7));
    assert!(!queues.takes_write(device));
    assert!(queues.joins(device, &write(8)) && !queues.joins(device, &write(9)));
    assert!(!queues.joins(device, &bio(8, 1)), "a read is no write");
    for first in 8..39 {
        assert!(queues.joins(device, &write(first)));
        queues.submit_bio(Instant(0), device, write(first));
    }
    assert!(!queues.joins(device, &write(39)), "32 pages are a whole request");
    queues.unplug(Instant(0), device);
    assert_eq!(ready(&mut queues), [(7, 32)]);
}

#[test]
fn congestion_begins_and_ends_at_different_lengths() {
    let mut queues = BlockQueues::default();
    let config =
        QueueConfig { plug: None, congestion_on: 3, congestion_off: 2, ..QueueConfig::default() };
    let device = queues.add(config);
    for first in [0, 10, 20] {
        queues.submit_bio(Instant(0), device, bio(first, 1));
    }
    assert!(queues.congested(device));
    queues.end_request(Instant(0), RequestId(0), None);
    assert!(queues.congested(device), "two are not fewer than two");
    queues.end_request(Instant(0), RequestId(1), None);
    assert!(!queues.congested(device));
}

#[test]
fn parts_of_a_bio_lie_where_its_pages_lie() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig { plug: None, ..QueueConfig::default() });
    queues.submit_bio(Instant(0), device, bio(0, 70));
    let parts = core::iter::from_fn(|| queues.pop_ready());
    assert_eq!(parts.map(|part| part.sector).collect::<Vec<_>>(), [0, 256, 512]);
}

#[test]
fn a_merge_stops_at_the_limit_and_at_another_file() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig::default());
    queues.submit_bio(Instant(0), device, bio(0, 30));
    queues.submit_bio(Instant(0), device, bio(30, 5));
    queues.submit_bio(Instant(7), device, Bio { file: FileId(1), ..bio(35, 1) });
    assert_eq!(queues.timeout(), Some(Instant(3_000_000)), "so long after the first");
    queues.unplug_all(Instant(0));
    assert_eq!(ready(&mut queues), [(0, 32), (32, 3), (35, 1)]);
}

#[test]
fn writes_have_places_and_join_no_reads() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig { write_requests_max: 2, ..QueueConfig::default() });
    let write = |first, pages| Bio { kind: RequestKind::Write, ..bio(first, pages) };
    queues.submit_bio(Instant(0), device, bio(0, 4));
    queues.submit_bio(Instant(0), device, write(4, 4));
    queues.submit_bio(Instant(0), device, write(8, 4));
    assert!(queues.takes_write(device), "the second write has joined the first");
    assert_eq!(queues.write_pages(device), 8);
    queues.submit_bio(Instant(0), device, write(99, 1));
    assert!(!queues.takes_write(device));
    queues.unplug_all(Instant(0));
    assert_eq!(ready(&mut queues), [(0, 4), (4, 8), (99, 1)]);
    queues.end_request(Instant(9), RequestId(1), None);
    assert!(queues.takes_write(device));
    assert_eq!(queues.write_pages(device), 1);
}

#[test]
fn a_device_is_busy_while_it_has_any_request() {
    let mut queues = BlockQueues::default();
    let device = queues.add(QueueConfig { plug: None, ..QueueConfig::default() });
    queues.submit_bio(Instant(10), device, bio(0, 2));
    let write = Bio { kind: RequestKind::Write, ..bio(50, 1) };
    queues.submit_bio(Instant(30), device, write);
    queues.end_request(Instant(40), RequestId(0), None);
    assert_eq!(queues.counters(Instant(45), device).busy, Duration(35));
    queues.end_request(Instant(50), RequestId(1), None);
    let counters = queues.counters(Instant(99), device);
    assert_eq!(counters.busy, Duration(40));
    let read = Traffic { requests: 1, sectors: 16, time: Duration(30) };
    let write = Traffic { requests: 1, sectors: 8, time: Duration(20) };
    assert_eq!((counters.reads, counters.writes), (read, write));
}

/// The queue of a device with an elevator and a rule of dispatch.
fn ruled(elevator: &str, dispatch: &str, config: QueueConfig) -> (BlockQueues, DeviceId) {
    let mut queues = BlockQueues::default();
    let device = queues.add(config);
    let elevator = elevator::Spec::parse(elevator).unwrap().build();
    queues.set_rules(device, elevator, dispatch::Spec::parse(dispatch).unwrap().build());
    (queues, device)
}

#[test]
fn the_driver_takes_as_many_as_the_device_holds_and_one_more_for_each_that_ends() {
    let config = QueueConfig { plug: None, depth: 2, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "deferred", config);
    for first in [10, 20, 30, 40] {
        queues.submit_bio(Instant(0), device, bio(first, 1));
    }
    assert_eq!(ready(&mut queues), [(10, 1), (20, 1)]);
    queues.unplug(Instant(1), device);
    assert_eq!(ready(&mut queues), [], "the device is full");
    queues.end_request(Instant(2), RequestId(0), None);
    assert_eq!(ready(&mut queues), [(30, 1)]);
    assert!(!queues.is_idle());
}

#[test]
fn a_bio_joins_any_request_at_its_end_and_the_latest_at_its_front() {
    let (mut queues, device) = ruled("noop", "deferred", QueueConfig::default());
    queues.submit_bio(Instant(0), device, bio(100, 4));
    queues.submit_bio(Instant(0), device, bio(200, 4));
    queues.submit_bio(Instant(0), device, bio(104, 4));
    queues.submit_bio(Instant(0), device, bio(96, 4));
    queues.submit_bio(Instant(0), device, bio(196, 4));
    assert!(!queues.joins(device, &bio(196, 4)), "a request other than the latest has no front");
    queues.unplug(Instant(0), device);
    assert_eq!(ready(&mut queues), [(96, 12), (200, 4), (196, 4)]);
    assert_eq!(queues.counters(Instant(0), device).merged, 2);
}

#[test]
fn a_front_merge_keeps_to_the_request_limit() {
    let (mut queues, device) = ruled("noop", "deferred", QueueConfig::default());
    queues.submit_bio(Instant(0), device, bio(100, 30));
    assert!(queues.joins(device, &bio(98, 2)) && !queues.joins(device, &bio(97, 3)));
}

#[test]
fn what_the_driver_has_taken_takes_no_bio_in() {
    let config = QueueConfig { plug: None, depth: 1, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "deferred", config);
    queues.submit_bio(Instant(0), device, bio(10, 1));
    queues.submit_bio(Instant(0), device, bio(20, 1));
    assert!(!queues.joins(device, &bio(11, 1)) && queues.joins(device, &bio(21, 1)));
}

#[test]
fn an_inline_request_meets_no_plug_no_merge_and_no_elevator() {
    let (mut queues, device) = ruled("noop", "inline", QueueConfig::default());
    queues.submit_bio(Instant(0), device, bio(10, 1));
    queues.submit_bio(Instant(0), device, bio(11, 40));
    assert_eq!(queues.timeout(), None, "no timer");
    let given: Vec<_> = core::iter::from_fn(|| queues.pop_ready()).collect();
    let parts: Vec<_> = given.iter().map(|request| (request.first, request.pages)).collect();
    assert_eq!(parts, [(10, 1), (11, 32), (43, 8)], "split at the request limit alone");
    assert!(given.iter().all(|request| request.handling == Handling::INLINE));
    let counters = queues.counters(Instant(0), device);
    assert_eq!((counters.inline, counters.merged), (3, 0));
}

#[test]
fn requests_that_wait_go_before_one_that_is_carried_out_inline() {
    let (mut queues, device) = ruled("noop", "deferred", QueueConfig::default());
    queues.submit_bio(Instant(0), device, bio(10, 1));
    queues.submit_bio(Instant(0), device, bio(90, 1));
    queues.queues[0].dispatch = dispatch::Spec::parse("inline").unwrap().build();
    queues.submit_bio(Instant(0), device, bio(50, 1));
    assert_eq!(ready(&mut queues), [(10, 1), (90, 1), (50, 1)]);
}

#[test]
fn behind_requests_that_the_device_cannot_take_nothing_is_carried_out_inline() {
    let config = QueueConfig { plug: None, depth: 1, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "deferred", config);
    queues.submit_bio(Instant(0), device, bio(10, 1));
    queues.submit_bio(Instant(0), device, bio(90, 1));
    queues.queues[0].dispatch = dispatch::Spec::parse("inline").unwrap().build();
    queues.submit_bio(Instant(0), device, bio(50, 1));
    assert_eq!(ready(&mut queues), [(10, 1)]);
    queues.end_request(Instant(5), RequestId(0), None);
    queues.end_request(Instant(9), RequestId(1), None);
    let later: Vec<_> = core::iter::from_fn(|| queues.pop_ready()).collect();
    let order: Vec<_> = later.iter().map(|request| (request.first, request.handling)).collect();
    assert_eq!(order, [(90, Handling::Deferred), (50, Handling::Deferred)]);
}

#[test]
fn a_flush_is_never_held_back() {
    let config = QueueConfig { depth: 1, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "inline", config);
    let flush = Bio { kind: RequestKind::Flush, ..bio(0, 0) };
    queues.submit_alone(Instant(0), device, flush);
    queues.submit_alone(Instant(0), device, flush);
    assert_eq!(ready(&mut queues), [(0, 0), (0, 0)]);
}

#[test]
fn the_caller_that_fills_the_places_of_reads_goes_on_for_a_while_and_others_wait() {
    let config = QueueConfig { plug: None, read_requests_max: 4, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "deferred", config);
    let by = |task, first| Bio { task: Some(CallId(task)), ..bio(first, 1) };
    for first in [10, 20, 30] {
        queues.submit_bio(Instant(0), device, by(1, first));
    }
    assert!(queues.takes_read(Instant(0), device, CallId(2)));
    queues.submit_bio(Instant(0), device, by(1, 40));
    assert!(!queues.takes_reads(Instant(0), device));
    assert!(!queues.takes_read(Instant(0), device, CallId(2)));
    assert!(queues.takes_read(Instant(20_000_000), device, CallId(1)));
    assert!(!queues.takes_read(Instant(20_000_001), device, CallId(1)), "for 20 ms");
    queues.submit_bio(Instant(0), device, by(1, 50));
    queues.submit_bio(Instant(0), device, by(1, 60));
    assert!(!queues.takes_read(Instant(0), device, CallId(1)), "half as many again");
    for id in 0..3 {
        queues.end_request(Instant(1), RequestId(id), None);
    }
    assert!(queues.takes_read(Instant(1), device, CallId(2)));
}

#[test]
fn a_batch_ends_after_32_requests() {
    let config = QueueConfig { plug: None, read_requests_max: 100, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "deferred", config);
    for first in 0..132 {
        assert!(queues.takes_read(Instant(0), device, CallId(1)), "{first}");
        let bio = Bio { task: Some(CallId(1)), ..bio(first * 10, 1) };
        queues.submit_bio(Instant(0), device, bio);
    }
    assert!(!queues.takes_read(Instant(0), device, CallId(1)));
}

#[test]
fn a_caller_that_moves_its_data_moves_those_of_all_that_wait() {
    let medium = Medium { programmed: true, ..Medium::default() };
    let config = QueueConfig { plug: None, depth: 1, medium, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "deferred", config);
    for first in [10, 90, 30] {
        queues.submit_bio(Instant(0), device, bio(first, 1));
    }
    assert_eq!(ready(&mut queues), [(10, 1)]);
    queues.queues[0].dispatch = dispatch::Spec::parse("inline").unwrap().build();
    queues.submit_bio(Instant(0), device, bio(50, 1));
    let given: Vec<_> = core::iter::from_fn(|| queues.pop_ready()).collect();
    let order: Vec<_> = given.iter().map(|request| (request.first, request.handling)).collect();
    assert_eq!(order, [90, 30, 50].map(|first| (first, Handling::INLINE)));
}

#[test]
fn the_plugs_delay_begins_with_the_first_request_and_not_again_with_later_ones() {
    let plug = Some(Plug { requests: 4, delay: Duration(100) });
    let config = QueueConfig { plug, depth: 1, ..QueueConfig::default() };
    let (mut queues, device) = ruled("noop", "deferred", config);
    for first in [10, 20, 30, 40] {
        queues.submit_bio(Instant(0), device, bio(first, 1));
    }
    assert_eq!(ready(&mut queues), [(10, 1)], "the device takes one");
    queues.end_request(Instant(40), RequestId(0), None);
    assert_eq!(ready(&mut queues), [(20, 1)]);
    queues.submit_bio(Instant(50), device, bio(50, 1));
    assert_eq!(queues.timeout(), None, "the two that wait are plugged no more, nor is a third");
    queues.end_request(Instant(60), RequestId(1), None);
    assert_eq!(ready(&mut queues), [(30, 1)]);
    queues.unplug(Instant(60), device);
    for id in [2, 3, 0] {
        queues.end_request(Instant(60), RequestId(id), None);
    }
    assert_eq!(ready(&mut queues), [(40, 1), (50, 1)]);
    queues.submit_bio(Instant(70), device, bio(60, 1));
    assert_eq!(queues.timeout(), Some(Instant(170)), "an empty queue is plugged again");
}

/// The calls that an elevator received, besides requests.
#[derive(Debug, Default)]
struct Heard {
    /// The waiting task and the asking one, each time that a bio might join.
    merges: Vec<(Option<CallId>, Option<CallId>)>,
    completed: Vec<RequestId>,
}

/// First come, first served; the rest as a test wants it.
#[derive(Debug)]
struct Telling {
    inner: Box<dyn Elevator>,
    heard: Arc<Mutex<Heard>>,
    /// The timeout it reports, and its answer to completions.
    timeout: Option<Instant>,
    kick: Kick,
}

impl Elevator for Telling {
    fn insert(&mut self, now: Instant, request: &Queued) -> Kick {
        self.inner.insert(now, request)
    }

    fn dispatch(&mut self, now: Instant, list: &mut DispatchList) {
        self.inner.dispatch(now, list);
    }

    fn completed(&mut self, _: Instant, request: &Queued) -> Kick {
        self.heard.lock().unwrap().completed.push(request.id);
        self.kick
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        self.inner.grown(before, after);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        self.inner.joined(before, kept, gone);
    }

    fn may_merge(&self, waiting: &Queued, bio: &Queued) -> bool {
        self.heard.lock().unwrap().merges.push((waiting.task, bio.task));
        true
    }

    fn timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    fn waits_at_most(&self, others: u64, service: Duration) -> Duration {
        self.inner.waits_at_most(others, service)
    }
}

impl Telling {
    fn new(timeout: Option<Instant>, kick: Kick) -> Self {
        let inner = elevator::Spec::parse("noop").unwrap().build();
        Self { inner, heard: Arc::default(), timeout, kick }
    }
}

/// The queue of a device with such an elevator.
fn told(telling: Telling, config: QueueConfig) -> (BlockQueues, DeviceId) {
    let mut queues = BlockQueues::default();
    let device = queues.add(config);
    let deferred = dispatch::Spec::parse("deferred").unwrap().build();
    queues.set_rules(device, Box::new(telling), deferred);
    (queues, device)
}

#[test]
fn an_elevator_that_idles_is_asked_again_only_when_the_device_has_room() {
    let config = QueueConfig { plug: None, depth: 1, ..QueueConfig::default() };
    let (mut queues, device) = told(Telling::new(Some(Instant(7)), Kick::Later), config);
    assert_eq!(queues.timeout(), Some(Instant(7)));
    queues.submit_bio(Instant(0), device, bio(10, 1));
    assert_eq!(queues.timeout(), None, "the device is full");
    queues.end_request(Instant(1), RequestId(0), None);
    assert_eq!(queues.timeout(), Some(Instant(7)));
}

#[test]
fn a_completion_lets_requests_of_a_plugged_queue_go_if_the_elevator_says_so() {
    for (kick, given) in [(Kick::Later, vec![]), (Kick::Now, vec![(90, 1)])] {
        let (mut queues, device) = told(Telling::new(None, kick), QueueConfig::default());
        queues.submit_bio(Instant(0), device, bio(10, 1));
        queues.unplug(Instant(0), device);
        assert_eq!(ready(&mut queues), [(10, 1)]);
        queues.submit_bio(Instant(1), device, bio(90, 1));
        queues.end_request(Instant(2), RequestId(0), None);
        assert_eq!(ready(&mut queues), given);
    }
}

#[test]
fn an_elevator_hears_of_the_end_of_what_it_has_queued_alone() {
    let telling = Telling::new(None, Kick::Later);
    let heard = Arc::clone(&telling.heard);
    let (mut queues, device) = told(telling, QueueConfig { plug: None, ..QueueConfig::default() });
    queues.submit_bio(Instant(0), device, bio(10, 1));
    let flush = Bio { kind: RequestKind::Flush, ..bio(0, 0) };
    let flush = queues.submit_alone(Instant(0), device, flush);
    queues.queues[0].dispatch = dispatch::Spec::parse("inline").unwrap().build();
    queues.submit_bio(Instant(0), device, bio(50, 1));
    let inline = RequestId(2);
    for id in [flush, inline, RequestId(0)] {
        queues.end_request(Instant(1), id, None);
    }
    assert_eq!(heard.lock().unwrap().completed, [RequestId(0)]);
}

#[test]
fn the_elevator_gets_the_task_of_a_bio_that_might_join() {
    let telling = Telling::new(None, Kick::Later);
    let heard = Arc::clone(&telling.heard);
    let (mut queues, device) = told(telling, QueueConfig::default());
    let by = |task, first| Bio { task, ..bio(first, 4) };
    let (one, other) = (Some(CallId(1)), Some(CallId(2)));
    queues.submit_bio(Instant(0), device, by(one, 100));
    assert!(queues.joins(device, &by(other, 104)) && queues.joins(device, &by(None, 96)));
    assert_eq!(heard.lock().unwrap().merges, [(one, other), (one, None)]);
    let (mut queues, device) = ruled("cfq", "deferred", QueueConfig::default());
    queues.submit_bio(Instant(0), device, by(one, 100));
    assert!(queues.joins(device, &by(one, 104)) && !queues.joins(device, &by(other, 104)));
}

fn write(first: PageIndex, pages: u64) -> Bio {
    Bio { kind: RequestKind::Write, ..bio(first, pages) }
}

#[test]
fn two_requests_that_a_bio_connects_are_one() {
    let config =
        QueueConfig { plug: None, depth: 1, write_requests_max: 3, ..QueueConfig::default() };
    for upper_first in [false, true] {
        let (mut queues, device) = ruled("deadline", "deferred", config);
        // One that the device works on, so that the others wait.
        queues.submit_bio(Instant(0), device, write(900, 1));
        let ends = if upper_first { [108, 100] } else { [100, 108] };
        for first in ends {
            queues.submit_bio(Instant(0), device, write(first, 4));
        }
        assert!(!queues.takes_write(device));
        queues.submit_bio(Instant(0), device, write(104, 4));
        assert!(queues.takes_write(device), "a place is free again");
        assert_eq!((queues.data_writes(device), queues.write_pages(device)), (2, 13));
        queues.end_request(Instant(1), RequestId(0), None);
        assert_eq!(ready(&mut queues), [(900, 1), (100, 12)]);
        let left = if upper_first { 2 } else { 1 };
        queues.end_request(Instant(2), RequestId(left), None);
        assert_eq!((queues.data_writes(device), queues.write_pages(device)), (0, 0));
        assert!(queues.is_idle());
    }
}

#[test]
fn two_reads_that_become_one_end_congestion() {
    let config = QueueConfig { congestion_on: 2, congestion_off: 2, ..QueueConfig::default() };
    let (mut queues, device) = ruled("deadline", "deferred", config);
    queues.submit_bio(Instant(0), device, bio(100, 4));
    queues.submit_bio(Instant(0), device, bio(108, 4));
    assert!(queues.congested(device));
    queues.submit_bio(Instant(0), device, bio(104, 4));
    assert!(!queues.congested(device));
    queues.unplug(Instant(0), device);
    assert_eq!(ready(&mut queues), [(100, 12)]);
}

/// A rule of dispatch that defers all and notes what classes it learns of.
#[derive(Debug, Default)]
struct Learning(Arc<Mutex<Vec<Class>>>);

impl Dispatch for Learning {
    fn choose(&mut self, _: Instant, _: &Class, _: Medium, _: Processor) -> Handling {
        Handling::Deferred
    }

    fn learn(&mut self, _: Instant, class: &Class, _: Handling, _: Duration) {
        self.0.lock().unwrap().push(*class);
    }
}

/// Whether a request is ahead of its use that is made of these bios, first page and whether each is
/// ahead.
fn is_ahead<const N: usize>(bios: [(PageIndex, bool); N]) -> bool {
    let (mut queues, device) = ruled("deadline", "deferred", QueueConfig::default());
    let learned = Arc::default();
    queues.queues[0].dispatch = Box::new(Learning(Arc::clone(&learned)));
    for (first, ahead) in bios {
        queues.submit_bio(Instant(0), device, Bio { ahead, ..bio(first, 4) });
    }
    queues.unplug(Instant(0), device);
    let given: Vec<_> = core::iter::from_fn(|| queues.pop_ready()).collect();
    assert_eq!(given.len(), 1, "{given:?}");
    queues.end_request(Instant(1), given[0].id, None);
    let learned = learned.lock().unwrap();
    assert_eq!(learned.len(), 1);
    learned[0].ahead
}

#[test]
fn a_request_is_ahead_of_its_use_only_if_no_call_waits_for_any_part_of_it() {
    assert!(is_ahead([(100, true), (104, true)]) && is_ahead([(104, true), (100, true)]));
    assert!(!is_ahead([(100, true), (104, false)]), "at its end");
    assert!(!is_ahead([(104, true), (100, false)]), "at its front");
    assert!(!is_ahead([(100, true), (108, false), (104, true)]), "the one that it takes in");
    assert!(!is_ahead([(108, true), (100, false), (104, true)]), "the one that takes it in");
    assert!(is_ahead([(100, true), (108, true), (104, true)]));
}

#[test]
fn a_request_that_grew_at_its_front_begins_at_the_new_page_s_frame() {
    let (mut queues, device) = ruled("noop", "deferred", QueueConfig::default());
    let at = |first, frame| Bio { frame: Some(FrameId(frame)), ..bio(first, 1) };
    queues.submit_bio(Instant(0), device, at(10, 3));
    queues.submit_bio(Instant(0), device, at(9, 7));
    queues.submit_bio(Instant(0), device, at(11, 5));
    queues.unplug(Instant(0), device);
    assert_eq!(ready(&mut queues), [(9, 3)]);
    assert_eq!(queues.end_request(Instant(1), RequestId(0), None).frame, Some(FrameId(7)));
}

#[test]
fn the_pages_of_a_write_count_once_if_a_part_of_them_joins_a_request() {
    let (mut queues, device) = ruled("noop", "deferred", QueueConfig::default());
    queues.submit_bio(Instant(0), device, write(0, 30));
    queues.submit_bio(Instant(0), device, write(30, 5));
    assert_eq!(queues.write_pages(device), 35);
    queues.unplug(Instant(0), device);
    assert_eq!(ready(&mut queues), [(0, 32), (32, 3)]);
    for (id, left) in [(0, 3), (1, 0)] {
        queues.end_request(Instant(1), RequestId(id), None);
        assert_eq!(queues.write_pages(device), left);
    }
}
