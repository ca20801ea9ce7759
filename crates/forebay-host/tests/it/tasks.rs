//! Tasks: steps other than reads, and the end of a run.

use std::cell::RefCell;
use std::sync::Arc;

use forebay_core::block::{Plug, QueueConfig};
use forebay_core::io::{Advice, IoError, Op};
use forebay_core::readahead::Mapping;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, FileId, PAGE_SIZE};
use forebay_core::workload::Step;
use forebay_host::files::FileMap;
use forebay_host::run::{Setup, run};

use crate::support::*;

#[test]
fn a_run_without_tasks_ends_at_once() {
    for_every_setup(1, |setup| {
        let outcome = run(setup, FileMap::new(), |_| vec![], |_, _| {}).unwrap();
        assert_eq!((outcome.calls, outcome.bytes, outcome.elapsed), (0, 0, Duration::ZERO));
    });
}

#[test]
fn a_sleeping_task_blocks_no_other() {
    for dispatch in DISPATCHES {
        let order = RefCell::new(Vec::new());
        let others_done = RefCell::new(0);
        run(
            &setup("off", 4, dispatch),
            FileMap::one_each([mem(&contents(1, 20_000))]),
            |opener| {
                let handle = opener.open(FileId(0));
                let others_done = &others_done;
                // Sleeps over and over, until the other task's last call is through.
                let sleeper = Each(move |now: Instant| match *others_done.borrow() {
                    5 => Step::Exit,
                    _ => Step::Sleep(now + Duration(1)),
                });
                let reader = script((0..5).map(|page| read(handle, page * PAGE_SIZE, 1)));
                vec![Box::new(sleeper), reader]
            },
            |finished, _| {
                order.borrow_mut().push(finished.task);
                *others_done.borrow_mut() += 1;
            },
        )
        .unwrap();
        assert_eq!(*order.borrow(), [CallId(1); 5]);
    }
}

#[test]
fn a_step_is_taken_when_the_one_before_is_over() {
    let pause = Duration::from_micros(1);
    let sleep: fn(Instant, Duration) -> Step = |now, length| Step::Sleep(now + length);
    let compute: fn(Instant, Duration) -> Step = |_, length| Step::Compute(length);
    for step in [sleep, compute] {
        for dispatch in DISPATCHES {
            let (mut steps, mut not_before) = (0, Instant::ZERO);
            let task = Each(|now: Instant| {
                assert!(now >= not_before);
                (steps, not_before) = (steps + 1, now + pause);
                if steps < 4 { step(now, pause) } else { Step::Exit }
            });
            let tasks = vec![Box::new(task) as _];
            run(&setup("off", 1, dispatch), FileMap::new(), |_| tasks, |_, _| {}).unwrap();
            assert_eq!(steps, 4);
        }
    }
}

#[test]
fn requests_in_flight_are_waited_for_when_the_last_task_has_exited() {
    // The task has exited before the longer delay ends.
    let plug = |micros| Some(Plug { requests: 4, delay: Duration::from_micros(micros) });
    for plug in [None, plug(1), plug(20_000)] {
        for dispatch in DISPATCHES {
            let queue = QueueConfig { plug, ..QueueConfig::default() };
            let setup = Setup { queue, ..setup("off", 64, dispatch) };
            let outcome = run(
                &setup,
                FileMap::one_each([mem(&contents(2, 40_000))]),
                |opener| {
                    let (handle, advice) = (opener.open(FileId(0)), Advice::WillNeed);
                    let op = Op::Advise { handle, advice, offset: 0, len: 0 };
                    vec![script([Step::Call(op)])]
                },
                |_, _| {},
            )
            .unwrap();
            assert_eq!((outcome.calls, outcome.stats.requests), (1, 1), "{plug:?} {dispatch:?}");
            assert!(outcome.device_busy > Duration::ZERO);
        }
    }
}

#[test]
fn faults_and_advice_are_told_without_bytes() {
    for_every_setup(8, |setup| {
        let mut results = Vec::new();
        let outcome = run(
            setup,
            FileMap::one_each([mem(&contents(3, 9_000))]),
            |opener| {
                let handle = opener.open(FileId(0));
                let fault =
                    |page| Op::Fault { handle, page, write: false, mapping: Mapping::WHOLE };
                let advice = Advice::DontNeed;
                let advise = Op::Advise { handle, advice, offset: 0, len: 0 };
                vec![script([fault(2), fault(3), advise].map(Step::Call))]
            },
            |finished, bytes| {
                assert_eq!(bytes, b"");
                results.push(finished.result);
            },
        )
        .unwrap();
        assert_eq!(results, [Ok(0), Err(IoError::BeyondEnd), Ok(0)]);
        assert_eq!((outcome.errors, outcome.first_error.is_none()), (1, true));
    });
}

#[test]
fn a_finished_call_carries_its_question_and_its_times() {
    for dispatch in DISPATCHES {
        let mut last = Instant::ZERO;
        let files = FileMap::one_each([mem(&contents(4, 9_000))]);
        let outcome = run(
            &setup("off", 4, dispatch),
            files,
            |opener| {
                let handle = opener.open(FileId(0));
                vec![script([read(handle, 1, u64::MAX), read(handle, 9_000, 3)])]
            },
            |finished, _| {
                let Op::Read { len, .. } = finished.op else { panic!("only reads are issued") };
                assert!(len == u64::MAX || len == 3, "as it was asked");
                assert!(last <= finished.issued && finished.issued <= finished.done);
                last = finished.done;
            },
        );
        assert!(last <= Instant::ZERO + outcome.unwrap().elapsed);
    }
}

#[test]
fn tasks_with_handles_of_their_own_share_the_pages_of_a_file() {
    let bytes = contents(5, 20 * 4096);
    let outcome = run(
        &setup("off", 64, INLINE),
        FileMap::one_each([mem(&bytes)]),
        |opener| {
            let mut task = |_| {
                let handle = opener.open(FileId(0));
                script([read(handle, 0, 20 * PAGE_SIZE)])
            };
            (0..3).map(&mut task).collect()
        },
        |_, delivered| assert!(delivered == bytes),
    )
    .unwrap();
    assert_eq!((outcome.stats.pages_read, outcome.bytes), (20, 60 * PAGE_SIZE));
}

#[test]
fn files_on_one_backend_lie_behind_each_other() {
    let bytes = contents(6, 4096 + 100);
    let files = FileMap::shared(mem(&bytes), [7, 100]).unwrap();
    let mut delivered = Vec::new();
    run(
        &setup("off", 4, INLINE),
        files,
        |opener| {
            assert_eq!((opener.files(), opener.bytes(FileId(1))), (2, 100));
            let handles = [FileId(0), FileId(1)].map(|file| opener.open(file));
            vec![script(handles.map(|handle| read(handle, 0, 4096)))]
        },
        |_, bytes| delivered.push(bytes.to_vec()),
    )
    .unwrap();
    assert_eq!(delivered, [&bytes[..7], &bytes[4096..]]);
    assert!(FileMap::shared(Arc::clone(&mem(&bytes)), [4097, 1]).is_err());
}
