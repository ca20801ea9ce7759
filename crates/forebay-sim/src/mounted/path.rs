//! What is done about requests to the path of the core: their outputs, the contents of frames.
//!
//! The same steps as those of the real mount (`forebay-host/src/image_path/driver.rs`), in the same
//! order, with symbols instead of bytes.

use forebay_core::io::{self, Decode, IoError};
use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::{CopyOut, Part, PartSource, PathOutput, Use};
use forebay_core::time::Duration;
use forebay_core::units::{FrameId, PAGE_SIZE};

use super::request::{Copied, Done, Ended, Job, Round, Slot, Symbol, Then};
use super::server::MountSim;

impl MountSim<'_> {
    /// Begins a request with a free number.
    pub(super) fn start(
        &mut self,
        number: u32,
        parts: &[Part],
        (then, kind): (Then, Use),
    ) -> Round {
        let raw = Part::raw_of_all(parts);
        self.slots[number as usize] = Slot { copied: Vec::new(), raw, then, waited: false };
        self.path.request(self.now, number, parts, kind);
        let mut round = Round::default();
        self.take_outputs(&mut round);
        round
    }

    /// Continues with the results of jobs.
    pub(super) fn finish(&mut self, done: Vec<Done>) -> Round {
        let mut round = Round::default();
        for Done { job, result, waited } in done {
            match job {
                Job::Read(request, begun) => {
                    self.fill_raw(&request, result);
                    let took = if waited { self.now.since(begun) } else { Duration::ZERO };
                    if result.is_ok() && waited {
                        let start = request.first * PAGE_SIZE;
                        let raw = RawBytes { start, end: start + request.pages * PAGE_SIZE };
                        self.rules.device_read(raw, took);
                    }
                    self.path.read_done(self.now, request.id, result, took);
                }
                Job::Decode { decode, block, upto, filled } => {
                    for (page, frame) in filled {
                        let symbol = Symbol::Decoded(block, page);
                        let symbol = if result.is_ok() { symbol } else { Symbol::Nothing };
                        self.frames[frame.index()] = symbol;
                    }
                    if result.is_ok() {
                        let pages = upto.div_ceil(PAGE_SIZE);
                        self.counts.pages_decoded += pages;
                        for page in 0..pages {
                            self.decoded.entry((block, page)).or_default();
                        }
                    }
                    self.path.decoded(self.now, &decode, result.map(|()| upto));
                }
            }
            self.take_outputs(&mut round);
        }
        round
    }

    /// Takes a request that a thread waits for, if it has ended.
    pub(super) fn take_over(&mut self, number: u32) -> Option<(Vec<Copied>, Result<(), IoError>)> {
        let slot = &mut self.slots[number as usize];
        let Then::Wait(_, over) = &mut slot.then else { return None };
        let result = over.take()?;
        slot.then = Then::Drop;
        let copied = std::mem::take(&mut slot.copied);
        self.set_free(number);
        Some((copied, result))
    }

    /// Nothing waits for a request any more.
    pub(super) fn abandon(&mut self, number: u32) {
        self.slots[number as usize].then = Then::Drop;
    }

    /// Asserts that the copied bytes are those that the image has there.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn assert_holds(&self, file: u64, offset: u64, len: u64, copied: &[Copied]) {
        let parts = self.image.parts(file, offset, len).expect("it was located before");
        let mut copied = copied.to_vec();
        copied.sort_by_key(|copy| copy.at);
        let mut copies = copied.iter();
        for part in &parts {
            let mut at = part.at;
            while at < part.at + part.len {
                let copy = copies.next().expect("every byte of an answer is filled");
                let place = copy.at - part.at;
                let (symbol, start) = match part.source {
                    PartSource::Stored(first) | PartSource::Ahead(first) => {
                        (Symbol::Raw((first + place) / PAGE_SIZE), first + place)
                    }
                    PartSource::Packed(block, inside) => {
                        let place = u64::from(inside) + place;
                        (Symbol::Decoded(block, place / PAGE_SIZE), place)
                    }
                };
                let expected = (at, symbol, start % PAGE_SIZE);
                assert_eq!((copy.at, copy.symbol, copy.start), expected, "contents of an answer");
                at += copy.len;
            }
        }
        assert!(copies.next().is_none(), "nothing else is filled");
    }

    fn take_outputs(&mut self, round: &mut Round) {
        while let Some(output) = self.path.poll_output() {
            match output {
                PathOutput::Copy(copy) => self.copy(&copy),
                PathOutput::Read(request) => self.read_or_give_out(request, round),
                PathOutput::Decode(decode) => {
                    let job = self.decode_job(decode);
                    round.jobs.push(job);
                }
                PathOutput::End(number, result) => self.end(number, result, round),
            }
        }
    }

    fn copy(&mut self, copy: &CopyOut) {
        let (mut at, mut start, mut frame) = (copy.at, copy.start, copy.frame.index());
        let end = copy.at + copy.len;
        self.cost += self.prices.copy(1, copy.len);
        while at < end {
            let len = (PAGE_SIZE - start).min(end - at);
            let symbol = self.frames[frame];
            let copied = Copied { at, len, symbol, start };
            self.slots[copy.request as usize].copied.push(copied);
            (at, start, frame) = (at + len, 0, frame + 1);
        }
    }

    /// Reads pages at once if they are in the page cache of the image file.
    fn read_or_give_out(&mut self, request: io::Request, round: &mut Round) {
        self.cost += self.prices.syscall;
        let pages = Pages::new(request.first, request.first + request.pages);
        if self.file.has(pages) {
            self.cost += self.prices.copy(request.pages, request.pages * PAGE_SIZE);
            self.fill_raw(&request, Ok(()));
            self.path.read_done(self.now, request.id, Ok(()), Duration::ZERO);
            return;
        }
        if let Some(number) = self.path.asker(&request) {
            self.slots[number as usize].waited = true;
        }
        round.jobs.push(Job::Read(request, self.now));
    }

    fn fill_raw(&mut self, request: &io::Request, result: Result<(), IoError>) {
        let frames: Vec<FrameId> = self.path.frames_of(request).collect();
        for (page, frame) in (request.first..).zip(frames) {
            let symbol = if result.is_ok() { Symbol::Raw(page) } else { Symbol::Nothing };
            self.frames[frame.index()] = symbol;
        }
    }

    /// The raw bytes are taken along now, as their pages may leave memory.
    fn decode_job(&mut self, decode: Decode) -> Job {
        let path = &self.path;
        let (block, upto) = path.block_of(&decode);
        let frames: Vec<FrameId> = path.raw_frames_of(&decode).collect();
        let filled: Vec<(u64, FrameId)> = path.filled_by(&decode).collect();
        let pages = block.raw.pages();
        assert_eq!(frames.len() as u64, pages.len(), "all raw pages of a block are in memory");
        for (page, frame) in (pages.start..).zip(frames) {
            assert_eq!(self.frames[frame.index()], Symbol::Raw(page), "raw bytes of a block");
        }
        for (_, frame) in &filled {
            self.frames[frame.index()] = Symbol::Nothing;
        }
        self.cost += self.prices.copy(pages.len(), block.raw.len());
        Job::Decode { decode, block, upto, filled }
    }

    fn end(&mut self, number: u32, result: Result<(), (usize, IoError)>, round: &mut Round) {
        let result = result.map_err(|(_, error)| error);
        let slot = &mut self.slots[number as usize];
        match std::mem::replace(&mut slot.then, Then::Drop) {
            Then::Wait(thread, _) => {
                slot.then = Then::Wait(thread, Some(result));
                self.threads.wake(thread, self.now);
                return;
            }
            Then::Hand(read) => {
                let copied = std::mem::take(&mut slot.copied);
                let (raw, waited) = (slot.raw, slot.waited);
                round.ended.push(Ended { read, copied, result, raw, waited });
            }
            Then::Drop => slot.copied = Vec::new(),
        }
        self.set_free(number);
    }

    fn set_free(&mut self, number: u32) {
        self.free.push(number);
        // A push may wait for a number.
        let pusher = self.pusher();
        self.threads.wake(pusher, self.now);
    }
}
