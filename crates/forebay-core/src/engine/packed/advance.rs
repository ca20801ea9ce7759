//! The steps of a job, up to the one that must wait.

use super::super::Engine;
use super::super::wait::Wait;
use super::Offer;
use super::job::{Job, Step};
use super::raw::{Ensured, Stay};
use crate::io::IoError;
use crate::packed::buffers::Buffers;
use crate::packed::{Block, Coding, Pages, RawBytes};
use crate::units::{CallId, DecodeId, PageIndex};

/// The next step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// At once.
    On,
    /// When its call resumes.
    Wait,
    /// Not at all.
    Over,
}

impl Engine {
    /// Continues the job of a call. Returns whether it is finished; otherwise the call is parked.
    pub(in super::super) fn advance_job(&mut self, call: CallId) -> bool {
        while let Some(mut job) = self.calls[call.index()].job {
            let turn = match job.step {
                Step::Pointers => self.fetch_pointers(call, &mut job),
                Step::Raw => self.fetch_raw(call, &mut job),
                Step::Next => self.next_block(call, &mut job),
                Step::BlockPointers => self.block_pointers(call, &mut job),
                Step::BlockRaw => self.block_raw(call, &mut job),
                Step::Decoding => Turn::Wait,
            };
            self.calls[call.index()].job = (turn != Turn::Over).then_some(job);
            if turn == Turn::Wait {
                return false;
            }
        }
        true
    }

    /// The decode of a call has ended: its job continues after the block.
    pub(super) fn end_job_decode(
        &mut self,
        call: CallId,
        pages: Pages,
        result: Result<(), IoError>,
    ) {
        let mut job = self.calls[call.index()].job.expect("a call decodes for its job");
        assert!(job.step == Step::Decoding, "a decode ends once");
        let needed = job.wanted.is_some_and(|page| pages.contains(page));
        self.end_block(call, &mut job, pages.end);
        self.calls[call.index()].job = Some(job);
        if let Err(error) = result
            && needed
        {
            self.calls[call.index()].error = Some(error);
            self.calls[call.index()].job = None;
        }
        self.calls[call.index()].wait = Wait::Running;
        self.advance(call, true);
    }

    fn fetch_pointers(&mut self, call: CallId, job: &mut Job) -> Turn {
        if job.plan.fetch.is_empty() {
            return Turn::Over;
        }
        let pointers = self.packed.files[job.place].map.pointers(job.plan.fetch);
        match self.ensure(call, job, pointers.pages(), Stay::Passing) {
            Ensured::Wait => return Turn::Wait,
            Ensured::Ready => job.step = Step::Raw,
            // Block by block, what can be had is had.
            Ensured::NoMemory | Ensured::Failed(_) => job.step = Step::Next,
        }
        (job.alone, job.seen) = (false, 0);
        Turn::On
    }

    /// Sends for all raw bytes in as few pieces as they lie in, and offers what may be decoded
    /// later.
    fn fetch_raw(&mut self, call: CallId, job: &mut Job) -> Turn {
        let Job { file, place, plan, .. } = *job;
        let mut run = RawBytes::default();
        let mut page = plan.fetch.start;
        while page < plan.fetch.end {
            let block = self.packed.files[place].map.block(page);
            let from = page;
            page = block.pages.end.max(page + 1);
            let wanted = Pages::new(from, page.min(plan.fetch.end));
            let absent = (wanted.start..wanted.end).any(|p| self.cache.lookup(file, p).is_none());
            if block.raw.is_empty() || !absent {
                continue;
            }
            let gap = block.raw.start.checked_sub(run.end);
            if !run.is_empty() && gap.is_some_and(|gap| gap <= GAP_BYTES) {
                run.end = block.raw.end;
                continue;
            }
            self.send_for(call, place, run, plan.now.is_empty());
            run = block.raw;
        }
        self.send_for(call, place, run, plan.now.is_empty());
        if !plan.later.is_empty() {
            self.offer(Offer { file, pages: plan.later });
        }
        job.step = Step::Next;
        Turn::On
    }

    fn next_block(&mut self, call: CallId, job: &mut Job) -> Turn {
        if job.at >= job.plan.now.end {
            // While it waited for them, another call may have decoded the rest.
            self.give_buffers_back(call, job.place);
            return Turn::Over;
        }
        // A page that is cached, or being decoded for another call, is not decoded again.
        if self.cache.lookup(job.file, job.at).is_some() {
            job.at += 1;
            return Turn::On;
        }
        if self.goes_through_buffers(job) && !self.take_buffers(call, job.place) {
            return Turn::Wait;
        }
        (job.alone, job.error, job.reads, job.seen) = (false, None, 0, 0);
        job.step = Step::BlockPointers;
        Turn::On
    }

    fn block_pointers(&mut self, call: CallId, job: &mut Job) -> Turn {
        let page = Pages::new(job.at, job.at + 1);
        let map = &self.packed.files[job.place].map;
        let (block, pointers) = (map.block(job.at), map.pointers(page));
        let ensured = if pointers.is_empty() {
            Ensured::Ready
        } else if self.goes_through_buffers(job) && Buffers::take(pointers) {
            self.gather(call, job, pointers)
        } else {
            self.ensure(call, job, pointers.pages(), Stay::Passing)
        };
        match ensured {
            Ensured::Ready => {
                job.step = Step::BlockRaw;
                (job.alone, job.seen) = (false, 0);
                Turn::On
            }
            other @ (Ensured::Wait | Ensured::NoMemory | Ensured::Failed(_)) => {
                self.not_ready(call, job, &block, other)
            }
        }
    }

    fn block_raw(&mut self, call: CallId, job: &mut Job) -> Turn {
        let block = self.packed.files[job.place].map.block(job.at);
        assert!(block.pages.contains(job.at), "a block has the page that it was asked for");
        let through = self.goes_through_buffers(job) && Buffers::take(block.raw);
        let ensured = if block.coding == Coding::Hole {
            Ensured::Ready
        } else if through {
            self.gather(call, job, block.raw)
        } else if block.raw.pages().len() >= u64::from(self.cache.capacity()) {
            Ensured::Failed(IoError::NoMemory)
        } else {
            self.ensure(call, job, block.raw.pages(), Stay::Together)
        };
        if ensured != Ensured::Ready {
            return self.not_ready(call, job, &block, ensured);
        }
        // Another call may have been faster.
        if self.cache.lookup(job.file, job.at).is_some() {
            self.end_block(call, job, job.at + 1);
            return Turn::On;
        }
        let buffer = if through && block.coding != Coding::Hole {
            self.buffer_of(job.place, block.raw)
        } else {
            None
        };
        if buffer.is_none() && block.coding != Coding::Hole {
            self.hold_all(job, block.raw);
        }
        let upto = block.pages.end.min(job.plan.now.end);
        let pages = Pages::new(block.pages.start, upto.max(job.at + 1));
        let id = DecodeId(call.0);
        if self.begin_decode((id, Some(call)), job.file, job.at, pages, buffer) {
            job.held = 0;
            job.step = Step::Decoding;
            self.calls[call.index()].wait = Wait::Decode;
            return Turn::Wait;
        }
        if self.packed.holder != Some(call) {
            self.let_go(job, block.raw);
        }
        self.not_ready(call, job, &block, Ensured::NoMemory)
    }

    /// What a block needs is not there.
    fn not_ready(&mut self, call: CallId, job: &mut Job, block: &Block, why: Ensured) -> Turn {
        match why {
            Ensured::Ready => Turn::On,
            Ensured::Wait => Turn::Wait,
            Ensured::NoMemory if job.needs(block) => {
                job.reads += 1;
                self.wait_for_memory(call);
                Turn::Wait
            }
            Ensured::NoMemory => {
                self.end_block(call, job, job.at);
                Turn::Over
            }
            Ensured::Failed(error) if job.needs(block) => {
                self.end_block(call, job, job.at);
                self.calls[call.index()].error = Some(error);
                Turn::Over
            }
            Ensured::Failed(_) => {
                self.end_block(call, job, block.pages.end);
                Turn::On
            }
        }
    }

    /// A job releases everything that it holds for a block and continues at a page.
    fn end_block(&mut self, call: CallId, job: &mut Job, at: PageIndex) {
        if job.held > 0 {
            let raw = self.packed.files[job.place].map.block(job.at).raw;
            self.let_go(job, raw);
            self.wake_memory_waiters();
        }
        if self.packed.holder == Some(call) {
            self.packed.holder = self.packed.holder_waiters.pop_front();
            if let Some(next) = self.packed.holder {
                self.wake(next, None);
            }
        }
        self.give_buffers_back(call, job.place);
        self.end_turn(call);
        job.asked = None;
        job.at = at;
        job.step = Step::Next;
    }

    fn goes_through_buffers(&self, job: &Job) -> bool {
        !job.plan.bulk && self.packed.files[job.place].map.two_buffers()
    }
}

/// Bytes of the image that are not needed and read nevertheless, since another request would cost
/// more: on flash, a request costs as much as some pages.
const GAP_BYTES: u64 = 32 << 10;
