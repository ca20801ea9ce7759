//! The resumable read, and the page fault, which is a read of one page without a copy.

use super::Engine;
use super::cursor::{Cursor, FaultCall, ReadCall, Task};
use super::packed::Ask;
use crate::cache::Hit;
use crate::io::{Copy, IoError, Output};
use crate::readahead::{Access, AddressSpace, Fault, Found, Readahead};
use crate::units::{CallId, FileId, FrameId, HandleId, PAGE_SIZE, PageIndex};

impl Engine {
    /// A read arrives: cached pages are copied, and the rest continues as a call.
    pub(super) fn begin_read(&mut self, call: CallId, mut read: ReadCall) {
        let mut run = None;
        if self.copy_present(call, &mut read, &mut run) {
            self.push_copy(run);
            self.end_read_call(call, &read, Ok(()));
        } else {
            self.calls[call.index()] = Cursor::new(Task::Read(read));
            self.fetch_for_read(call, read, run, false);
        }
    }

    pub(super) fn advance_read(&mut self, call: CallId, read: ReadCall, resumed: bool) {
        if let Some(error) = self.take_read_error(call, read.handle) {
            self.end_read_call(call, &read, Err(error));
            return;
        }
        self.fetch_for_read(call, read, None, resumed);
    }

    /// Copies pages as long as they are up to date and no policy has to see them. Returns whether
    /// all are.
    #[inline]
    fn copy_present(&mut self, call: CallId, read: &mut ReadCall, run: &mut Option<Copy>) -> bool {
        let opened = self.opened(read.handle);
        let (file, sees_hits) = (opened.file, opened.sees_hits);
        if sees_hits || self.is_packed(file) {
            return false;
        }
        while read.position < read.end {
            let page = read.position / PAGE_SIZE;
            let guess = run.map(|run| run.last_frame().next());
            let Some(frame) = self.cache.touch_ready(file, page, guess) else { return false };
            self.stats.accesses += 1;
            self.stats.hits += 1;
            self.copy_page((call, file), read, run, frame);
        }
        true
    }

    /// Goes on with a read page by page, whatever their state.
    fn fetch_for_read(
        &mut self,
        call: CallId,
        mut read: ReadCall,
        mut run: Option<Copy>,
        resumed: bool,
    ) {
        let opened = self.opened(read.handle);
        let (file, sees_hits) = (opened.file, opened.sees_hits);
        let device = self.files[file.index()].device;
        let packed = self.is_packed(file);
        self.unchanged &= !packed;
        // The file may have been truncated in the meantime.
        read.end = read.end.min(self.files[file.index()].bytes).max(read.position);
        let mut seen = resumed;
        while read.position < read.end {
            let page = read.position / PAGE_SIZE;
            let guess = run.map(|run| run.last_frame().next());
            let mut hit = self.cache.lookup_at(file, page, guess);
            if hit.is_none() && !packed && !self.block.takes_read(self.now, device, call) {
                self.calls[call.index()].task = Task::Read(read);
                self.push_copy(run);
                self.wait_for_read_place(call, device, seen);
                return;
            }
            let again = core::mem::replace(&mut seen, false);
            if !again {
                hit = self.meet((call, &read), file, page, hit, sees_hits);
            }
            if packed && (self.owes_window() || hit.is_none()) {
                // The pages met so far are copied before they can be evicted.
                self.push_copy(run.take());
                self.calls[call.index()].task = Task::Read(read);
                if self.bring_for_read(call, &read, file, again) {
                    seen = true;
                    if let Some(error) = self.take_read_error(call, read.handle) {
                        self.end_read_call(call, &read, Err(error));
                        return;
                    }
                    continue;
                }
                return;
            }
            let hit = hit.or_else(|| self.read_alone(call, file, page));
            if hit.is_some() {
                self.end_turn(call);
            }
            let Some(frame) = self.ready_frame(hit) else {
                self.calls[call.index()].task = Task::Read(read);
                self.push_copy(run);
                self.wait(call, file, hit);
                return;
            };
            if packed {
                self.count_use(frame);
            }
            self.copy_page((call, file), &mut read, &mut run, frame);
            if self.copy_present(call, &mut read, &mut run) {
                break;
            }
        }
        self.push_copy(run);
        self.end_read_call(call, &read, Ok(()));
    }

    /// Copies the current page of a read, together with the ones before it if they lie in
    /// consecutive frames.
    #[inline]
    fn copy_page(
        &mut self,
        (call, file): (CallId, FileId),
        read: &mut ReadCall,
        run: &mut Option<Copy>,
        frame: FrameId,
    ) {
        let offset = read.position % PAGE_SIZE;
        let len = (PAGE_SIZE - offset).min(read.end - read.position);
        match run {
            Some(run) if run.last_frame().0 + 1 == frame.0 => run.len += len,
            other => {
                let (offset, buffer_offset) = (read.position, read.position - read.start);
                let to_frames = false;
                let next = Copy { call, to_frames, file, offset, frame, buffer_offset, len };
                let before = other.replace(next);
                self.push_copy(before);
            }
        }
        read.position += len;
    }

    /// Makes the current page of a read of a packed file present, and the window of readahead.
    fn bring_for_read(&mut self, call: CallId, read: &ReadCall, file: FileId, again: bool) -> bool {
        let (handle, page) = (read.handle, read.position / PAGE_SIZE);
        let end = read.end.div_ceil(PAGE_SIZE);
        self.bring(call, &Ask { handle, file, page, end, copied: true, again })
    }

    pub(super) fn push_copy(&mut self, run: Option<Copy>) {
        if let Some(run) = run {
            self.outputs.push(Output::Copy(run));
        }
    }

    /// Shows a page of a read to the policy, as it was found and, if a marker was found, once more;
    /// returns the page as it is afterwards.
    fn meet(
        &mut self,
        (call, read): (CallId, &ReadCall),
        file: FileId,
        page: PageIndex,
        found: Option<Hit>,
        sees_hits: bool,
    ) -> Option<Hit> {
        self.count_access(found);
        let mut hit = found;
        match self.found(file, page, hit) {
            Found::Present if !sees_hits => return hit,
            Found::Absent | Found::Present => {
                self.show((call, read), file, page, hit);
                hit = self.cache.lookup(file, page);
            }
            Found::Marked => {}
        }
        if self.found(file, page, hit) == Found::Marked {
            self.show((call, read), file, page, hit);
        }
        hit
    }

    fn show(
        &mut self,
        (call, read): (CallId, &ReadCall),
        file: FileId,
        page: PageIndex,
        hit: Option<Hit>,
    ) {
        let access = Access {
            page,
            remaining: read.asked_end.div_ceil(PAGE_SIZE) - page,
            first: page == read.start / PAGE_SIZE,
            found: self.found(file, page, hit),
        };
        self.lend_space(read.handle, (call, page), hit, |readahead, space| {
            readahead.on_read(&access, space);
        });
    }

    /// As [`with_space`](Self::with_space); a present page stays while the policy frees memory for
    /// others.
    fn lend_space(
        &mut self,
        handle: HandleId,
        (call, page): (CallId, PageIndex),
        hit: Option<Hit>,
        act: impl FnOnce(&mut dyn Readahead, &mut dyn AddressSpace),
    ) {
        if let Some(hit) = hit {
            self.cache.pin(hit.frame);
        }
        self.with_space(handle, (call, hit.is_none().then_some(page)), act);
        if let Some(hit) = hit {
            self.cache.unpin(hit.frame);
        }
    }

    fn count_access(&mut self, hit: Option<Hit>) {
        self.stats.accesses += 1;
        self.stats.hits += u64::from(hit.is_some_and(|hit| !hit.reading));
    }

    pub(super) fn advance_fault(&mut self, call: CallId, fault: FaultCall, resumed: bool) {
        let FaultCall { handle, page, .. } = fault;
        if let Some(error) = self.take_read_error(call, handle) {
            self.end_call(call, Err(error));
            return;
        }
        let file = self.opened(handle).file;
        if page >= self.files[file.index()].pages() {
            self.end_call(call, Err(IoError::BeyondEnd));
            return;
        }
        if self.is_packed(file) {
            self.advance_packed_fault(call, fault, file, resumed);
            return;
        }
        let mut hit = self.cache.lookup(file, page);
        let device = self.files[file.index()].device;
        if hit.is_none() && !self.block.takes_read(self.now, device, call) {
            self.wait_for_read_place(call, device, resumed);
            return;
        }
        if !resumed {
            self.show_fault(call, &fault, file, hit);
            hit = self.cache.lookup(file, page);
        }
        let hit = hit.or_else(|| self.read_alone(call, file, page));
        if self.ready_frame(hit).is_none() {
            self.wait(call, file, hit);
            return;
        }
        // A call that resumes has waited.
        self.end_fault(call, resumed);
    }

    /// A fault on a page that is not decoded is a major one, whether or not it needs a device.
    fn advance_packed_fault(
        &mut self,
        call: CallId,
        fault: FaultCall,
        file: FileId,
        resumed: bool,
    ) {
        let FaultCall { handle, page, .. } = fault;
        let (mut major, mut again) = (resumed, resumed);
        loop {
            let hit = self.cache.lookup(file, page);
            if !again {
                major |= hit.is_none_or(|hit| hit.reading);
                self.show_fault(call, &fault, file, hit);
            }
            if !self.owes_window()
                && let Some(hit) = hit
            {
                let Some(frame) = self.ready_frame(Some(hit)) else {
                    self.wait(call, file, Some(hit));
                    return;
                };
                self.count_use(frame);
                self.end_fault(call, major);
                return;
            }
            let ask = Ask { handle, file, page, end: page + 1, copied: false, again };
            if !self.bring(call, &ask) {
                return;
            }
            if let Some(error) = self.take_read_error(call, handle) {
                self.end_call(call, Err(error));
                return;
            }
            again = true;
        }
    }

    fn show_fault(&mut self, call: CallId, fault: &FaultCall, file: FileId, hit: Option<Hit>) {
        let FaultCall { handle, page, write, mapping } = *fault;
        self.count_access(hit);
        let fault = Fault { page, write, mapping, found: self.found(file, page, hit) };
        self.lend_space(handle, (call, page), hit, |readahead, space| {
            readahead.on_fault(&fault, space);
        });
    }

    fn end_fault(&mut self, call: CallId, major: bool) {
        if major {
            self.stats.faults_major += 1;
        } else {
            self.stats.faults_minor += 1;
        }
        self.end_call(call, Ok(0));
    }

    fn found(&self, file: FileId, page: PageIndex, hit: Option<Hit>) -> Found {
        match hit {
            None => match self.deferred_marker(file, page) {
                None => Found::Absent,
                Some(true) => Found::Marked,
                Some(false) => Found::Present,
            },
            Some(hit) if self.cache.is_marked(hit.frame) => Found::Marked,
            Some(_) => Found::Present,
        }
    }

    /// The frame of a page that is up to date.
    pub(super) fn ready_frame(&mut self, hit: Option<Hit>) -> Option<FrameId> {
        let hit = hit.filter(|hit| !hit.reading)?;
        self.cache.touch(hit.frame);
        Some(hit.frame)
    }

    fn take_read_error(&mut self, call: CallId, handle: HandleId) -> Option<IoError> {
        let error = self.take_error(call)?;
        self.opened_mut(handle).readahead.on_error();
        Some(error)
    }

    /// Ends a read: bytes transferred before an error make a short read, as in read(2).
    fn end_read_call(&mut self, call: CallId, read: &ReadCall, result: Result<(), IoError>) {
        let transferred = read.position - read.start;
        // A read that could give nothing leaves the file position of the last one.
        if read.end > read.start {
            self.opened_mut(read.handle).readahead.on_read_end(read.position);
        }
        let result = match result {
            Err(error) if transferred == 0 => Err(error),
            Ok(()) | Err(_) => Ok(transferred),
        };
        self.end_call(call, result);
    }
}

impl Copy {
    /// The frame of the last byte.
    pub(super) fn last_frame(&self) -> FrameId {
        FrameId(self.frame.0 + self.pages() as u32 - 1)
    }
}
