//! A world that believes nothing: it wraps another one and watches what passes.
//!
//! Page contents are symbols: what a frame holds is the name of the page that was read into it. So
//! a copy from the wrong frame, from a page still being read, or of the wrong bytes is seen at
//! once, without a byte being moved. The file is the model: byte `n` of file `f` is the symbol
//! `(f, n)`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use forebay_core::drive::World;
use forebay_core::engine::Engine;
use forebay_core::io::{Copy, Input, IoError, Op, Output, Request};
use forebay_core::time::Instant;
use forebay_core::units::{CallId, FileId, FrameId, PAGE_SIZE, RequestId};

/// The wrapper; it panics with the broken promise in words.
#[derive(Debug)]
pub struct Checked<W> {
    inner: W,
    /// What each frame holds.
    contents: BTreeMap<FrameId, Content>,
    requests: BTreeMap<RequestId, (Request, Vec<FrameId>)>,
    calls: BTreeMap<CallId, Asked>,
    /// Pages that a device could not read at least once, when they were asked for alone.
    failed: BTreeSet<(FileId, u64)>,
    /// Calls whose next input is a resume.
    woken: Vec<CallId>,
    trace: String,
    inputs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    file: FileId,
    page: u64,
    up_to_date: bool,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    op: Op,
    /// Bytes received so far, from the start on.
    received: u64,
}

impl<W: World> Checked<W> {
    /// Watches `inner`.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            contents: BTreeMap::new(),
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            failed: BTreeSet::new(),
            woken: Vec::new(),
            trace: String::new(),
            inputs: 0,
        }
    }

    /// The world inside and every input and output with its time, one a line.
    ///
    /// # Panics
    /// If a call has had no reply, or a request is still at its device.
    pub fn into_parts(self) -> (W, String) {
        assert!(self.calls.is_empty(), "every call has had its reply");
        assert!(self.requests.is_empty(), "every request has been done");
        (self.inner, self.trace)
    }

    /// How many inputs passed.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    fn see_input(&mut self, input: &Input) {
        self.inputs += 1;
        match *input {
            Input::Call(call, op) => {
                let before = self.calls.insert(call, Asked { op, received: 0 });
                assert!(before.is_none(), "an id names one call at a time");
            }
            Input::Resume(call) => {
                let place = self.woken.iter().position(|woken| *woken == call);
                self.woken.remove(place.expect("only a woken call resumes"));
            }
            Input::Done(id, result) => {
                let done = self.requests.remove(&id);
                let (request, frames) = done.expect("a request is done once");
                for (page, frame) in (request.first..).zip(frames) {
                    let content = Content { file: request.file, page, up_to_date: result.is_ok() };
                    self.contents.insert(frame, content);
                    if result.is_err() && request.pages == 1 {
                        self.failed.insert((request.file, page));
                    }
                }
            }
            Input::Timeout => {}
        }
    }

    fn see_output(&mut self, engine: &Engine, output: &Output) {
        match output {
            Output::Submit(request) => self.see_submit(engine, request),
            Output::Copy(copy) => self.see_copy(engine, copy),
            Output::Pause(call, _) | Output::Wake(call) => {
                assert!(!self.woken.contains(call), "a call is woken once before it resumes");
                self.woken.push(*call);
            }
            Output::Reply(call, result) => {
                let asked = self.calls.remove(call).expect("a call has one reply");
                self.see_reply(engine, asked, *result);
            }
        }
    }

    fn see_reply(&self, engine: &Engine, asked: Asked, result: Result<u64, IoError>) {
        let (handle, page, all) = match asked.op {
            Op::Read { handle, offset, len } => {
                let size = engine.file_bytes(engine.file_of(handle));
                let most = len.min(size.saturating_sub(offset));
                let received = result.unwrap_or(0);
                assert_eq!(received, asked.received, "the reply counts the bytes that came");
                assert!(received <= most, "no bytes beyond the request or the file");
                (handle, (offset + received) / PAGE_SIZE, received == most && result.is_ok())
            }
            Op::Fault { handle, page, .. } => {
                (handle, page, matches!(result, Ok(_) | Err(IoError::BeyondEnd)))
            }
            Op::Advise { .. } | Op::Write { .. } | Op::Sync { .. } | Op::Truncate { .. } => return,
        };
        let failed = self.failed.contains(&(engine.file_of(handle), page));
        assert!(all || failed, "only a page that could not be read makes a call fail");
    }

    fn see_submit(&mut self, engine: &Engine, request: &Request) {
        let pages = engine.file_bytes(request.file).div_ceil(PAGE_SIZE);
        assert!(request.pages > 0, "a request moves something");
        assert!(request.first + request.pages <= pages, "no request passes the end of the file");
        let frames: Vec<FrameId> = engine.frames_of(request).collect();
        for (page, frame) in (request.first..).zip(&frames) {
            let content = Content { file: request.file, page, up_to_date: false };
            self.contents.insert(*frame, content);
        }
        let twice = self.requests.insert(request.id, (*request, frames));
        assert!(twice.is_none(), "an id names one request at a time");
    }

    fn see_copy(&mut self, engine: &Engine, copy: &Copy) {
        let asked = self.calls.get_mut(&copy.call).expect("a copy belongs to a call in flight");
        let Op::Read { handle, offset, .. } = asked.op else { panic!("only reads receive bytes") };
        assert_eq!(engine.file_of(handle), copy.file, "a copy is from the file that was asked");
        assert_eq!(copy.buffer_offset, asked.received, "bytes come in order and without holes");
        assert_eq!(copy.offset, offset + asked.received, "bytes come from where they belong");
        asked.received += copy.len;
        let first = copy.offset / PAGE_SIZE;
        for step in 0..copy.pages() {
            let frame = FrameId(copy.frame.0 + step as u32);
            let wanted = Content { file: copy.file, page: first + step, up_to_date: true };
            assert_eq!(self.contents.get(&frame), Some(&wanted), "a frame holds what is copied");
        }
    }

    fn write(&mut self, now: Instant, what: &str, event: &dyn std::fmt::Debug) {
        writeln!(self.trace, "{} {what} {event:?}", now.0).expect("a string takes any text");
    }
}

impl<W: World> World for Checked<W> {
    fn now(&mut self) -> Instant {
        self.inner.now()
    }

    fn carry_out(&mut self, engine: &Engine, output: Output) {
        let now = self.inner.now();
        self.write(now, "out", &output);
        self.see_output(engine, &output);
        self.inner.carry_out(engine, output);
    }

    fn settled(&mut self, engine: &Engine) {
        engine.check();
        self.inner.settled(engine);
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        let input = self.inner.next(deadline)?;
        let now = self.inner.now();
        self.write(now, "in", &input);
        self.see_input(&input);
        Some(input)
    }
}
