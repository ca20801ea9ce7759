//! A store that is full.

use super::*;

#[test]
fn a_full_store_stops_writers_and_loses_nothing() {
    for seed in 1..=30 {
        let mut random = Random(seed);
        let mut rig = Rig::new(64, Policies::default());
        (0..100).for_each(|_| rig.step(&mut random));
        rig.finish(&mut random);
        rig.device.is_full = true;
        rig.results.clear();
        assert!(rig.begin(0, DiskOp::Write { offset: 0, len: PAGE_SIZE, durable: false }));
        rig.answer_until(&mut random, 1);
        assert_eq!(rig.results, [Ok(())], "seed {seed}: the store has not answered");
        rig.results.clear();
        assert!(rig.begin(1, DiskOp::Flush));
        rig.answer_until(&mut random, 1);
        assert_eq!(rig.results, [Err(IoError::NoSpace)], "seed {seed}: a flush");
        assert!(rig.begin(2, DiskOp::Write { offset: 0, len: CELL, durable: false }));
        assert_eq!(rig.results[1], Err(IoError::NoSpace), "seed {seed}: a writer");
        // The number of a write that was refused stands for nothing.
        rig.allowed[0].pop();
        assert!(rig.begin(2, DiskOp::Read { offset: 0, len: PAGE_SIZE }));
        rig.answer_until(&mut random, 3);
        assert_eq!(rig.results[2], Ok(()), "seed {seed}: readers go on");

        rig.device.is_full = false;
        rig.results.clear();
        assert!(rig.begin(1, DiskOp::Flush));
        rig.finish(&mut random);
        assert_eq!(rig.results, [Ok(())], "seed {seed}");
        assert!(rig.device.durable == rig.values(), "seed {seed}: nothing acknowledged is lost");
        assert!(rig.begin(2, DiskOp::Write { offset: 0, len: CELL, durable: true }));
        rig.finish(&mut random);
        assert_eq!(rig.results[1], Ok(()), "seed {seed}: writers go on");
    }
}

#[test]
fn writes_that_wait_when_the_store_fills_are_refused_and_lose_nothing() {
    // A write waited for memory, for a pause or, durable, for its pages; the store filled, and it
    // got no error before there was room again.
    for seed in 1..=40 {
        let mut random = Random(seed);
        let policies = if seed % 2 == 0 { tight() } else { Policies::default() };
        let mut rig = Rig::new(MEMORIES[seed as usize % 3], policies);
        (0..60).for_each(|_| rig.step(&mut random));
        rig.finish(&mut random);
        rig.device.is_full = true;
        rig.results.clear();
        let (first, len) = (random.below(4) * PAGE_SIZE, 24 * PAGE_SIZE);
        let durable = seed % 3 == 0;
        assert!(rig.begin(0, DiskOp::Write { offset: first, len, durable }));
        let (offset, len) = (first + len, CELL * 9);
        assert!(rig.begin(1, DiskOp::Zero { offset, len, hole: seed % 5 == 0, durable: true }));
        // Neither time nor the device makes room.
        for _ in 0..200 {
            rig.answer(&mut random);
            rig.wait();
        }
        let ended = rig.requests.iter().all(Option::is_none);
        assert!(ended, "seed {seed}: both have ended: {:?}", rig.results);
        let memory = u64::from(MEMORIES[seed as usize % 3]);
        if durable || memory < 20 {
            assert!(rig.results.contains(&Err(IoError::NoSpace)), "seed {seed}");
        }
        rig.device.is_full = false;
        rig.results.clear();
        rig.begin(1, DiskOp::Flush);
        rig.finish(&mut random);
        assert_eq!(rig.results, [Ok(())], "seed {seed}");
        rig.assert_survives(&mut random);
    }
}

#[test]
fn reads_go_on_while_all_that_can_be_dirty_waits_for_a_full_store() {
    // Dirty pages of a full store filled all of memory, and a read that needed a page waited for as
    // long as the store was full. Some policies did not let it have the clean ones either.
    for policy in crate::reclaim::POLICIES {
        for frames in [4, 8, 20] {
            let mut rig = Rig::with_reclaim(frames, policy.name);
            let mut random = Random(7);
            rig.device.is_full = true;
            // The store has not answered yet, so no write is refused.
            for page in 0..u64::from(frames) {
                let (offset, len) = (page * PAGE_SIZE, PAGE_SIZE);
                assert!(rig.begin(0, DiskOp::Write { offset, len, durable: false }));
            }
            assert!(rig.begin(1, DiskOp::Read { offset: 39 * PAGE_SIZE, len: CELL }));
            for _ in 0..400 {
                rig.answer(&mut random);
            }
            let is_answered = rig.requests.iter().flatten().all(|one| one.client != 1);
            assert!(is_answered, "{} with {frames} pages", policy.name);
        }
    }
}

#[test]
fn a_page_that_waits_for_a_full_store_does_not_keep_the_rest_of_its_folio() {
    let mut rig = Rig::with_readahead(16, Policies::default(), "linux-6.18:folios=1");
    let mut random = Random(7);
    for page in 0..16 {
        rig.begin(0, DiskOp::Read { offset: page * PAGE_SIZE, len: PAGE_SIZE });
        rig.finish(&mut random);
    }
    assert!(rig.path.engine.folios_added() < rig.path.stats().pages_read, "folios of many pages");
    rig.device.is_full = true;
    for page in (0..40).step_by(2) {
        if rig.path.engine.is_resident(FileId(0), page) {
            let (offset, len) = (page * PAGE_SIZE, CELL);
            assert!(rig.begin(0, DiskOp::Write { offset, len, durable: false }));
        }
    }
    for page in (0..40).rev() {
        rig.begin(1, DiskOp::Read { offset: page * PAGE_SIZE, len: CELL });
        for _ in 0..400 {
            rig.answer(&mut random);
        }
        let is_answered = rig.requests.iter().flatten().all(|one| one.client != 1);
        assert!(is_answered, "page {page}");
    }
}

#[test]
fn a_full_store_leaves_memory_and_pace_to_the_others() {
    // Dirty pages of one export's full store took the memory of the others, and throttles and flush
    // rules waited for them to be written.
    for throttle in crate::throttle::POLICIES {
        let policies = Policies::build(
            &crate::flush::Spec::parse("bdflush-2.2.19").unwrap(),
            &crate::control::Spec::parse("drain").unwrap(),
            &crate::throttle::Spec::parse(throttle.name).unwrap(),
        );
        let config = DiskConfig {
            frames: 8,
            requests_max: 4,
            exports_max: 2,
            readahead: readahead::Spec::parse("off").unwrap(),
            reclaim: reclaim::Spec::parse("linux-2.2").unwrap(),
        };
        let mut path = DiskPath::new(&config, policies);
        let clients = [0, 1].map(|_| {
            let export = path.add_export(40 * PAGE_SIZE);
            path.open(export)
        });
        let mut asked = Vec::new();
        let mut now = Instant::ZERO;
        let mut ended = [0, 0];
        let mut next = [0, 0];
        let mut is_waiting = [false, false];
        for step in 0..2_000 {
            let export = step % 2;
            if !is_waiting[export] && next[export] < 30 {
                let (offset, len) = (next[export] * PAGE_SIZE, PAGE_SIZE);
                (is_waiting[export], next[export]) = (true, next[export] + 1);
                let op = DiskOp::Write { offset, len, durable: false };
                path.request(now, export as u32, clients[export], op);
            }
            while let Some(output) = path.poll_output() {
                match output {
                    DiskOutput::Submit(request) => asked.push(request),
                    DiskOutput::End(number, _) => {
                        (ended[number as usize], is_waiting[number as usize]) =
                            (ended[number as usize] + 1, false);
                    }
                    DiskOutput::Zero(_) | DiskOutput::Copy(_) => {}
                }
            }
            now += Duration::from_millis(50);
            if !asked.is_empty() {
                let request = asked.remove(0);
                let is_full = path.place_of(&request).0 == 0 && request.kind.is_data_write();
                let result = if is_full { Err(IoError::NoSpace) } else { Ok(()) };
                path.done(now, &request, result, Duration::from_micros(50));
            } else if path.poll_timeout().is_some_and(|at| at <= now) {
                path.timeout(now);
            }
            path.check();
        }
        assert_eq!(ended[1], 30, "{}: writers of the other export go on", throttle.name);
    }
}
