//! What the thread that pushes and the one that has raw bytes read do.
//!
//! The same steps as those of the real mount (`forebay-host/src/mount/push.rs`), in the same order.

use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::work::{FETCH_QUEUE_MAX, PUSH_PAGES_MAX, PUSH_POLL};
use forebay_core::serving::{FilePages, Use};
use forebay_core::units::{PAGE_SIZE, PageIndex};

use super::act::{Act, Fetch, Flow, Pace};
use super::image::raw_ranges;
use super::kernel::Stored;
use super::raw::SentRequest;
use super::request::Then;
use super::server::MountSim;
use super::threads::Event;

impl MountSim<'_> {
    /// There may be something to be pushed.
    pub(super) fn ring(&mut self) {
        self.bell = true;
        let pusher = self.pusher();
        if !self.threads.is_asleep(pusher) {
            self.threads.wake(pusher, self.now);
            return;
        }
        // For a while it looks, which is quicker than to be woken.
        let looks = self.pusher_idle.is_some_and(|since| self.now.since(since) < PUSH_POLL);
        if looks {
            self.threads.wake(pusher, self.now);
        } else {
            self.wake_far(pusher);
        }
    }

    /// Reads raw bytes of pages; if too many reads wait, this one is dropped.
    pub(super) fn fetch_pages(&mut self, file: u64, pages: Pages) {
        if !pages.is_empty() {
            self.queue_fetch(Fetch::Pages(file, pages));
        }
    }

    pub(super) fn queue_fetch(&mut self, fetch: Fetch) {
        if self.fetches.len() < FETCH_QUEUE_MAX {
            self.fetches.push_back(fetch);
            let fetcher = self.fetcher();
            self.wake_far(fetcher);
        }
    }

    /// Begins to read a range of the image.
    pub(super) fn will_need(&mut self, range: RawBytes) {
        self.cost += self.prices.syscall;
        let sent = self.file.send_for(self.now, range);
        self.submitted(&sent);
    }

    /// Requests were submitted.
    pub(super) fn submitted(&mut self, sent: &[SentRequest]) {
        for SentRequest { number, done } in sent {
            self.cost += self.prices.request_submit;
            self.threads.at(*done + self.prices.interrupt, Event::DeviceDone(*number));
        }
    }

    /// The thread that fetches takes the next range, or waits for one.
    pub(super) fn fetch(&mut self, thread: usize) -> Flow {
        if self.is_stopped {
            self.fetches.clear();
            return Flow::Exit;
        }
        let Some(fetch) = self.fetches.pop_front() else { return self.again(thread, Act::Fetch) };
        match fetch {
            Fetch::Pages(file, pages) => {
                for range in raw_ranges(self.image, file, pages) {
                    self.will_need(range);
                }
            }
            Fetch::Image(range) => self.will_need(range),
        }
        self.then(thread, [Act::Fetch]);
        Flow::On
    }

    /// The thread that pushes takes the next pages, or waits for some.
    pub(super) fn next_push(&mut self, thread: usize) -> Flow {
        if self.is_stopped {
            return Flow::Exit;
        }
        if let Some(push) = self.rules.next_push() {
            self.pusher_idle = None;
            self.then(thread, [Act::Push(push), Act::NextPush]);
            return Flow::On;
        }
        if std::mem::take(&mut self.bell) {
            self.then(thread, [Act::NextPush]);
            return Flow::On;
        }
        self.pusher_idle = Some(self.now);
        self.again(thread, Act::NextPush)
    }

    /// Has the first pages read that the kernel does not have.
    pub(super) fn push(&mut self, thread: usize, rest: FilePages) -> Flow {
        let Some(size) = self.rules.file_bytes(rest.file).filter(|_| !self.is_stopped) else {
            return Flow::On;
        };
        let (run, _) = self.rules.absent(&rest, PUSH_PAGES_MAX);
        if run.pages.is_empty() {
            return Flow::On;
        }
        let offset = run.pages.start * PAGE_SIZE;
        let len = (run.pages.end * PAGE_SIZE).min(size) - offset;
        let behind = Pages::new(run.pages.end, rest.pages.end);
        let behind = FilePages { file: rest.file, pages: behind };
        // A READ of the page is answered with the error.
        let Some(parts) = self.image.parts(run.file, offset, len) else {
            self.then(thread, [Act::Push(behind)]);
            return Flow::On;
        };
        let Some(number) = self.free.pop() else {
            return self.again(thread, Act::Push(rest));
        };
        let round = self.start(number, &parts, (Then::Wait(thread, None), Use::Last));
        let read = Act::PushRead { number, run };
        self.then(thread, [Act::GoOn(round, Pace::Alone), read, Act::Push(behind)]);
        Flow::On
    }

    /// Waits for read data, and gives it to the kernel.
    pub(super) fn push_read(&mut self, thread: usize, number: u32, run: FilePages) -> Flow {
        let Some((copied, result)) = self.take_over(number) else {
            return self.again(thread, Act::PushRead { number, run });
        };
        if result.is_err() || !self.rules.begin_push(self.now, &run) {
            return Flow::On;
        }
        let size = self.rules.file_bytes(run.file).unwrap_or(0);
        let offset = run.pages.start * PAGE_SIZE;
        let len = (run.pages.end * PAGE_SIZE).min(size) - offset;
        self.assert_holds(run.file, offset, len, &copied);
        self.cost += self.prices.syscall + self.prices.copy(0, len);
        self.cost += self.prices.page_alloc.times(run.pages.len());
        self.then(thread, [Act::Store { run, at: run.pages.start, crossed: false }]);
        Flow::On
    }

    /// The kernel takes a push, as soon as no READ holds one of its pages.
    pub(super) fn store(
        &mut self,
        thread: usize,
        run: FilePages,
        at: PageIndex,
        crossed: bool,
    ) -> Flow {
        match self.kernel.store(self.image, thread, &run, at) {
            Stored::Waits(at) => {
                self.counts.pushes_crossed += u64::from(!crossed);
                return self.again(thread, Act::Store { run, at, crossed: true });
            }
            Stored::Whole => {
                self.counts.pushes += 1;
                self.counts.pages_pushed += run.pages.len();
                self.then(thread, [Act::EndPush { run, is_over: false }]);
            }
            Stored::Over => self.then(thread, [Act::EndPush { run, is_over: true }]),
        }
        Flow::On
    }

    pub(super) fn end_push(&mut self, run: &FilePages, is_over: bool) {
        self.rules.end_push(run);
        assert!(!is_over || self.is_stopped, "a push ends early with the mount alone");
    }
}
