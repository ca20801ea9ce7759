//! Requests that bypass the page cache.

use super::*;
use crate::block::Plug;
use crate::io::{NO_FILE, RequestKind};
use crate::units::DeviceId;

fn direct(hands: &mut Hands, call: u32, (sector, sectors): (u64, u64), kind: RequestKind) {
    let op = Op::Direct { device: DeviceId(0), sector, sectors, kind, is_sync: false };
    hands.input(Input::Call(CallId(call), op));
}

fn with_plug() -> Hands {
    let mut engine = Engine::new(Config { frames: 4, calls_max: 4 });
    let plug = Some(Plug { requests: 8, delay: Duration::from_millis(3) });
    engine.add_device(QueueConfig { plug, ..QueueConfig::default() });
    Hands::of(engine)
}

#[test]
fn a_read_goes_to_the_device_as_it_is_and_leaves_no_page() {
    let (mut hands, _) = Hands::new(64, "fixed:max=4");
    direct(&mut hands, 0, (17, 3), RequestKind::Read);
    let [request] = hands.submits[..] else { panic!("one request") };
    assert_eq!((request.file, request.sector, request.sectors), (NO_FILE, 17, 3));
    assert_eq!(hands.engine.frames_of(&request).count(), 0);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Ok(3 * 512))]);
    assert_eq!((hands.engine.pages_in_memory(), hands.copies.len()), (0, 0));
}

#[test]
fn a_large_one_ends_with_its_last_request() {
    let (mut hands, _) = Hands::new(64, "off");
    direct(&mut hands, 0, (0, 32 * 8 * 2 + 1), RequestKind::Write);
    let sectors: Vec<u64> = hands.submits.iter().map(|request| request.sectors).collect();
    assert_eq!(sectors, [256, 256, 1]);
    hands.finish(Ok(()));
    hands.finish(Err(IoError::Device));
    assert_eq!(hands.wakes, []);
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies, [(CallId(0), Err(IoError::Device))], "one part failed");
}

#[test]
fn adjacent_writes_share_a_request_and_both_end_with_it() {
    let mut hands = with_plug();
    direct(&mut hands, 0, (100, 1), RequestKind::Write);
    direct(&mut hands, 1, (101, 2), RequestKind::Write);
    direct(&mut hands, 2, (200, 8), RequestKind::Write);
    assert_eq!(hands.submits.len(), 0, "writes are held back by the plug");
    direct(&mut hands, 3, (0, 0), RequestKind::Flush);
    assert_eq!(hands.submits.len(), 1, "a flush passes by");
    hands.now = Instant(3_000_000);
    hands.input(Input::Timeout);
    let sent = hands.submits.iter().skip(1).map(|request| (request.sector, request.sectors));
    assert_eq!(sent.collect::<Vec<_>>(), [(100, 3), (200, 8)]);
    hands.finish(Ok(()));
    hands.finish(Ok(()));
    assert_eq!(hands.wakes, [CallId(3), CallId(0), CallId(1)]);
    hands.finish(Ok(()));
    hands.resume_all();
    let bytes: Vec<_> = hands.replies.iter().map(|(_, result)| *result).collect();
    assert_eq!(bytes, [Ok(0), Ok(512), Ok(1024), Ok(4096)]);
}

#[test]
fn a_write_that_a_task_waits_for_pulls_the_plug() {
    let mut hands = with_plug();
    let kind = RequestKind::Write;
    let op = Op::Direct { device: DeviceId(0), sector: 8, sectors: 8, kind, is_sync: true };
    hands.input(Input::Call(CallId(0), op));
    assert_eq!((hands.submits.len(), hands.engine.stats().direct_writes), (1, 1));
}

#[test]
fn a_read_pulls_the_plug() {
    let mut hands = with_plug();
    direct(&mut hands, 0, (100, 8), RequestKind::Write);
    direct(&mut hands, 1, (900, 8), RequestKind::Read);
    assert_eq!(hands.submits.len(), 2);
}

#[test]
fn a_discard_is_neither_split_nor_merged_and_is_no_traffic_of_writes() {
    let mut hands = with_plug();
    direct(&mut hands, 0, (100, 8), RequestKind::Write);
    direct(&mut hands, 1, (108, 1 << 20), RequestKind::Discard);
    let kinds = hands.submits.iter().map(|request| (request.kind, request.sectors));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [(RequestKind::Write, 8), (RequestKind::Discard, 1 << 20)],
        "it ends the plug"
    );
    hands.finish(Ok(()));
    hands.finish(Ok(()));
    hands.resume_all();
    assert_eq!(hands.replies[1], (CallId(1), Ok(512 << 20)));
    let stats = hands.engine.stats();
    assert_eq!((stats.requests, stats.request_sectors), (2, 8));
}
