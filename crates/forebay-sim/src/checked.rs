//! A world that believes nothing: it wraps another one and watches what passes.
//!
//! Contents are symbols: each byte of a page is the name of the write that it comes from. A copy
//! from the wrong frame, from a page still being read, or of the wrong bytes is therefore detected
//! at once, without moving a byte. Three models run beside the engine and are compared with it:
//!
//! | file | model |
//! | --- | --- |
//! | `contents` | flat files: the newest version of each byte, and which must not be lost |
//! | `disk` | what each device holds: safe, in its cache, on its way |
//! | `errors` | which descriptions have still to be told of a failed write |
//! | `packed` | which raw bytes a block needs, and what the buffers of an image hold |
//!
//! Now and then a power failure is simulated without an effect on the run: the surviving data of
//! the devices is compared with the promises of completed calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use forebay_core::dispatch::Processor;
use forebay_core::drive::World;
use forebay_core::engine::Engine;
use forebay_core::io::{Copy, Input, IoError, Op, Output, Request, RequestKind};
use forebay_core::time::Instant;
use forebay_core::units::{
    CallId, DeviceId, FileId, FrameId, HandleId, PAGE_SECTORS, PAGE_SIZE, RequestId,
};

use crate::rng::Rng;
use contents::{Contents, Promise};
use disk::{Covered, Disk, Ended, INODE};
use errors::Owed;
use packed::Packed;
use runs::Runs;

mod contents;
mod disk;
mod errors;
mod packed;
mod runs;

pub use packed::PackedFile;

/// The wrapper; it panics with the broken promise in words.
#[derive(Debug)]
pub struct Checked<W> {
    inner: W,
    watched: Watched,
    contents: Contents,
    disks: Vec<Disk>,
    owed: Owed,
    packed: Packed,
    requests: BTreeMap<RequestId, Moving>,
    calls: BTreeMap<CallId, Asked>,
    /// Pages that a device could not read at least once, when they were requested singly.
    failed: BTreeSet<(FileId, u64)>,
    /// Calls whose next input is a resume.
    woken: Vec<CallId>,
    /// The call that the last input was about.
    current: Option<CallId>,
    rng: Rng,
    trace: String,
    counts: Counts,
}

/// The outputs that are checked.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Page memory in pages.
    pub frames: u32,
    /// Every file by its number.
    pub files: Vec<Placed>,
    /// Those among them that are packed.
    pub packed: Vec<PackedFile>,
    /// Every open description and its file.
    pub handles: Vec<(HandleId, FileId)>,
    /// How many of a million inputs are followed by a failure of power, in thought.
    pub cut_ppm: u64,
    /// Names the moments of these failures and what survives them.
    pub seed: u64,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Its device.
    pub device: DeviceId,
    /// Its first sector.
    pub sector: u64,
    /// Its bytes at first.
    pub bytes: u64,
    /// The bytes that it may grow to.
    pub room: u64,
    /// The sector of its metadata, if it has any.
    pub inode: Option<u64>,
}

/// Counts of checked events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inputs.
    pub inputs: u64,
    /// Failures of power, in thought.
    pub cuts: u64,
    /// Pages that were not the newest after one.
    pub lost: u64,
    /// Syncs and durable writes that ended well.
    pub syncs: u64,
    /// Syncs and durable writes that told of an error.
    pub told: u64,
}

/// A request at its device.
#[derive(Debug)]
struct Moving {
    request: Request,
    frames: Vec<FrameId>,
    covered: Covered,
    /// The call that waits for the flush.
    flusher: Option<CallId>,
}

#[derive(Debug)]
struct Asked {
    op: Op,
    handle: HandleId,
    file: FileId,
    /// Bytes copied so far, from the start on.
    moved: u64,
    /// The file's bytes, and how often it had been cut, when the call came.
    size: u64,
    cuts: u64,
    promise: Promise,
    /// How often the description had told of errors when the call came.
    told: u64,
    flush_failed: bool,
}

/// More inputs than any scenario has that comes to its end.
const INPUTS_MAX: u64 = 2_000_000;

impl<W: World> Checked<W> {
    /// Watches `inner`.
    pub fn new(inner: W, watched: Watched) -> Self {
        let devices = watched.files.iter().map(|file| file.device.index() + 1).max();
        let mut owed = Owed::default();
        watched.handles.iter().for_each(|(handle, file)| owed.open(*handle, *file));
        Self {
            inner,
            contents: Contents::new(watched.files.iter().map(|file| file.bytes)),
            disks: std::iter::repeat_with(Disk::default).take(devices.unwrap_or(0)).collect(),
            owed,
            packed: Packed::new(watched.packed.clone(), watched.frames),
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            failed: BTreeSet::new(),
            woken: Vec::new(),
            current: None,
            rng: Rng::new(watched.seed).fork("cuts", 0),
            trace: String::new(),
            counts: Counts::default(),
            watched,
        }
    }

    /// The world inside, the counts, and every input and output with its time, one a line.
    ///
    /// # Panics
    /// If a call has had no reply, or a request is still at its device.
    pub fn into_parts(mut self) -> (W, Counts, String) {
        assert!(self.calls.is_empty(), "every call has had its reply");
        assert!(self.requests.is_empty(), "every request has been done");
        assert!(self.packed.is_quiet(), "every decode has ended");
        self.cut_power();
        (self.inner, self.counts, self.trace)
    }

    fn see_input(&mut self, input: &Input) {
        self.counts.inputs += 1;
        assert!(self.counts.inputs < INPUTS_MAX, "a scenario comes to its end");
        self.current = None;
        match *input {
            Input::Call(call, op) => self.see_call(call, op),
            Input::Resume(call) => {
                let place = self.woken.iter().position(|woken| *woken == call);
                self.woken.remove(place.expect("only a woken call resumes"));
                self.current = Some(call);
                self.see_advance(call);
            }
            Input::Done(id, result, _) => self.see_done(id, result),
            Input::Decoded(id, result) => {
                self.current = self.packed.caller(id);
                self.packed.see_decoded(id, result, &mut self.contents);
            }
            Input::Timeout | Input::Idle => {}
        }
    }

    fn see_call(&mut self, call: CallId, op: Op) {
        let handle = match op {
            Op::Read { handle, .. }
            | Op::Write { handle, .. }
            | Op::Sync { handle }
            | Op::Truncate { handle }
            | Op::Discard { handle, .. }
            | Op::Fault { handle, .. }
            | Op::Advise { handle, .. } => handle,
            Op::Direct { .. } => unreachable!("{NO_DIRECT}"),
        };
        let opened = self.watched.handles.iter().find(|(known, _)| *known == handle);
        let file = opened.expect("a call names an open file").1;
        let promise = match op {
            Op::Sync { .. } if self.watched.files[file.index()].inode.is_none() => {
                self.contents.promise_all(file).without_metadata()
            }
            Op::Sync { .. } => self.contents.promise_all(file),
            Op::Read { .. }
            | Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Discard { .. }
            | Op::Fault { .. }
            | Op::Direct { .. }
            | Op::Advise { .. } => self.contents.promise_none(file),
        };
        let model = self.contents.file(file);
        let (size, cuts) = (model.size, model.cuts);
        let (told, flush_failed) = (self.owed.told(handle), false);
        let asked = Asked { op, handle, file, moved: 0, size, cuts, promise, told, flush_failed };
        let before = self.calls.insert(call, asked);
        assert!(before.is_none(), "an id names one call at a time");
        self.current = Some(call);
        self.see_advance(call);
    }

    /// A call moves on; a cut file is empty each time that its call does.
    fn see_advance(&mut self, call: CallId) {
        let asked = self.calls.get(&call).expect("only a call in flight moves on");
        if matches!(asked.op, Op::Truncate { .. }) && !self.packed.is_fixed(asked.file) {
            self.contents.cut(asked.file);
        }
    }

    fn see_done(&mut self, id: RequestId, result: Result<(), IoError>) {
        let moving = self.requests.remove(&id).expect("a request is done once");
        let Moving { request, frames, covered, flusher } = moving;
        let pages = request.first..;
        match request.kind {
            RequestKind::Read => {
                for (page, frame) in pages.zip(frames) {
                    let place = (request.file, page);
                    let brought = self.disks[request.device.index()].read(place);
                    self.contents.end_read(frame, place, result.is_ok().then_some(brought));
                    if result.is_err() && request.pages == 1 {
                        self.failed.insert(place);
                    }
                }
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                for (page, _) in pages.zip(frames) {
                    self.end_write(&request, page, result.is_ok());
                }
            }
            RequestKind::Inode => self.end_write(&request, INODE, result.is_ok()),
            RequestKind::Discard => unreachable!("{NO_DIRECT}"),
            RequestKind::Flush if result.is_ok() => {
                self.disks[request.device.index()].end_flush(covered);
            }
            RequestKind::Flush => {
                let flusher = flusher.expect("a flush is sent by a call");
                let asked = self.calls.get_mut(&flusher).expect("a call waits for its flush");
                asked.flush_failed = true;
            }
        }
        if result.is_err() && !matches!(request.kind, RequestKind::Read | RequestKind::Flush) {
            self.owed.fail(request.file);
        }
    }

    fn end_write(&mut self, request: &Request, page: u64, is_ok: bool) {
        // A failed request may have been executed in part.
        let durable = request.kind == RequestKind::DurableWrite;
        let ended = match (is_ok, durable) {
            (true, true) => Ended::Durable,
            (true, false) => Ended::Cached,
            (false, _) if self.rng.chance(300_000) => Ended::Cached,
            (false, _) => Ended::Nothing,
        };
        let place = (request.file, page);
        let runs = self.disks[request.device.index()].end(place, ended);
        if is_ok {
            self.contents.succeed(place, &runs);
        } else {
            self.contents.fail(place, &runs);
        }
    }

    fn see_output(&mut self, engine: &Engine, output: &Output) {
        match output {
            Output::Submit(request) => self.see_submit(engine, request),
            Output::Copy(copy) => self.see_copy(copy),
            Output::Gather(gather) => {
                assert_eq!(self.current, Some(gather.call), "a call gathers while it moves on");
                self.packed.see_gather(gather, &self.contents);
            }
            Output::Decode(decode) => {
                assert!(decode.call.is_none() || decode.call == self.current, "on its own time");
                self.packed.see_decode(engine, decode, &mut self.contents);
            }
            Output::Pause(call, _) | Output::Wake(call) => {
                assert!(!self.woken.contains(call), "a call is woken once before it resumes");
                self.woken.push(*call);
            }
            Output::Reply(call, result) => {
                let asked = self.calls.remove(call).expect("a call has one reply");
                self.see_reply(&asked, *result);
            }
        }
    }

    fn see_reply(&mut self, asked: &Asked, result: Result<u64, IoError>) {
        let model = self.contents.file(asked.file);
        let cut = model.cuts != asked.cuts;
        let size = model.size;
        if self.packed.is_fixed(asked.file)
            && matches!(asked.op, Op::Write { .. } | Op::Truncate { .. })
        {
            let refused = (result, asked.moved) == (Err(IoError::ReadOnly), 0);
            assert!(refused, "images and what is packed in them cannot be changed");
            return;
        }
        match asked.op {
            Op::Read { offset, len, .. } => {
                let most = len.min(asked.size.saturating_sub(offset));
                assert_eq!(result.unwrap_or(0), asked.moved, "the reply counts the bytes");
                assert!(asked.moved <= most, "no bytes beyond the request or the file");
                let page = (offset + asked.moved) / PAGE_SIZE;
                let all = asked.moved == most && result.is_ok();
                let failed = self.fails((asked.file, page), result.err());
                assert!(all || failed || (cut && result.is_ok()), "only what fails or is cut ends");
            }
            Op::Fault { page, .. } => match result {
                Ok(_) => {}
                Err(IoError::BeyondEnd) => {
                    assert!(page >= size.div_ceil(PAGE_SIZE), "beyond what is the end");
                }
                Err(error) => {
                    assert!(
                        self.fails((asked.file, page), Some(error)),
                        "a page failed: {error:?}"
                    );
                }
            },
            Op::Write { offset, len, durable, .. } => {
                self.see_written(asked, (offset, len, durable), cut, result);
            }
            Op::Sync { .. } => self.see_synced(asked, result, 0),
            Op::Truncate { .. } => {
                assert_eq!(result, Ok(0), "a cut does not fail");
                let file = asked.file;
                let cuts =
                    |other: &Asked| other.file == file && matches!(other.op, Op::Truncate { .. });
                if !self.calls.values().any(cuts) {
                    self.contents.end_cut(file);
                }
            }
            Op::Discard { .. } => unreachable!("no checked task discards pages"),
            Op::Direct { .. } => unreachable!("{NO_DIRECT}"),
            Op::Advise { .. } => assert_eq!(result, Ok(0), "advice does not fail"),
        }
    }

    /// Whether there is a reason for a page not to come.
    fn fails(&self, place: (FileId, u64), error: Option<IoError>) -> bool {
        self.failed.contains(&place) || self.packed.fails(place, error, &self.failed)
    }

    fn see_written(
        &mut self,
        asked: &Asked,
        (offset, len, durable): (u64, u64, bool),
        cut: bool,
        result: Result<u64, IoError>,
    ) {
        let room = self.watched.files[asked.file.index()].room;
        let most = len.min(room.saturating_sub(offset));
        assert!(asked.moved <= most, "no bytes beyond the request or the room");
        let page = (offset + asked.moved) / PAGE_SIZE;
        let failed = self.failed.contains(&(asked.file, page));
        if asked.moved < most {
            let beyond = offset > asked.size;
            assert!(beyond || cut || failed, "only what fails or is cut is not written");
        }
        if asked.moved > 0 && durable {
            self.see_synced(asked, result, asked.moved);
            return;
        }
        match result {
            Ok(bytes) => {
                assert_eq!(bytes, asked.moved, "the reply counts the bytes");
                assert!(bytes > 0 || len == 0, "a write that wrote nothing says why");
            }
            Err(error) => {
                assert_eq!(asked.moved, 0, "what was written counts");
                let known = match error {
                    IoError::Device => failed,
                    IoError::NoSpace => most == 0,
                    IoError::BeyondEnd => cut || offset > asked.size,
                    IoError::Truncated
                    | IoError::Corrupt
                    | IoError::NoMemory
                    | IoError::ReadOnly => false,
                };
                assert!(known, "an error has a reason");
            }
        }
    }

    /// A sync or a durable write has ended: it reports failures, and everything it acknowledged
    /// must survive.
    fn see_synced(&mut self, asked: &Asked, result: Result<u64, IoError>, bytes: u64) {
        let told = self.owed.told(asked.handle) > asked.told;
        let owed = self.owed.tell(asked.handle);
        match result {
            Ok(reply) => {
                assert!(!owed, "a failed write is told to every description");
                assert!(!asked.flush_failed, "a failed flush is reported to its caller");
                assert_eq!(reply, bytes, "the reply counts the bytes");
                self.counts.syncs += 1;
                // The error was reported to another task with this description instead of this
                // call.
                if told {
                    return;
                }
                let disk = &self.disks[self.watched.files[asked.file.index()].device.index()];
                self.contents.keep(asked.file, &asked.promise, |place| disk.durable(place));
            }
            Err(error) => {
                assert_eq!(error, IoError::Device, "only a device fails");
                assert!(owed || asked.flush_failed, "an error that is told has happened");
                self.counts.told += 1;
            }
        }
    }

    fn see_submit(&mut self, engine: &Engine, request: &Request) {
        let Request { file, first, device, kind, .. } = *request;
        let placed = self.watched.files[file.index()];
        let packed = self.watched.packed.iter().any(|one| one.file == file);
        assert!(!packed, "a device knows no packed file");
        assert_eq!(device, placed.device, "a request goes to the device of its file");
        let frames: Vec<FrameId> = engine.frames_of(request).collect();
        let disk = &mut self.disks[device.index()];
        match kind {
            RequestKind::Read | RequestKind::Write | RequestKind::DurableWrite => {
                let model = self.contents.file(file);
                let pages = model.size.max(model.extent).div_ceil(PAGE_SIZE);
                assert!(request.pages > 0, "a request moves something");
                assert!(first + request.pages <= pages, "no request passes the end of the file");
                let sector = placed.sector + first * PAGE_SECTORS;
                assert_eq!(request.sector, sector, "a page lies at its place");
                for (page, frame) in (first..).zip(&frames) {
                    if kind.is_read() {
                        self.contents.begin_read(*frame, (file, page));
                    } else {
                        disk.submit((file, page), self.contents.taken(*frame, (file, page)));
                    }
                }
            }
            RequestKind::Inode => {
                assert_eq!(Some(request.sector), placed.inode, "metadata lie at their place");
                let version = self.contents.file(file).newest;
                disk.submit((file, INODE), std::rc::Rc::new(Runs::of(version)));
            }
            RequestKind::Flush => assert_eq!(request.pages, 0, "a flush has no pages"),
            RequestKind::Discard => unreachable!("{NO_DIRECT}"),
        }
        let flusher = self.current.filter(|_| kind == RequestKind::Flush);
        let moving = Moving { request: *request, frames, covered: disk.begin_flush(), flusher };
        let twice = self.requests.insert(request.id, moving);
        assert!(twice.is_none(), "an id names one request at a time");
    }

    fn see_copy(&mut self, copy: &Copy) {
        assert_eq!(self.current, Some(copy.call), "bytes move while their call moves on");
        let asked = self.calls.get_mut(&copy.call).expect("a copy belongs to a call in flight");
        let (to_frames, offset) = match asked.op {
            Op::Read { offset, .. } => (false, offset),
            Op::Write { offset, .. } => (true, offset),
            Op::Sync { .. }
            | Op::Truncate { .. }
            | Op::Discard { .. }
            | Op::Fault { .. }
            | Op::Direct { .. }
            | Op::Advise { .. } => {
                panic!("only reads and writes move bytes")
            }
        };
        assert_eq!(copy.to_frames, to_frames, "bytes move the way that was asked");
        assert_eq!(asked.file, copy.file, "a copy is of the file that was asked");
        assert_eq!(copy.buffer_offset, asked.moved, "bytes come in order and without holes");
        assert_eq!(copy.offset, offset + asked.moved, "bytes belong where they were asked");
        asked.moved += copy.len;
        if to_frames {
            let grows = copy.offset + copy.len > self.contents.file(copy.file).size;
            let version = self.contents.copy_in(copy);
            let has_inode = self.watched.files[copy.file.index()].inode.is_some();
            asked.promise.add(copy, version, grows && has_inode);
        } else {
            self.contents.copy_out(copy);
        }
    }

    /// What if the power failed at this moment?
    fn cut_power(&mut self) {
        self.counts.cuts += 1;
        for disk in &self.disks {
            for (place, runs) in disk.cut(&mut self.rng) {
                self.counts.lost += u64::from(!self.contents.see_survivor(place, &runs));
            }
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
        let unsafe_pages = engine.levels().unsafe_pages();
        assert!(unsafe_pages <= u64::from(self.watched.frames), "dirty pages are in memory");
        for number in 0..self.watched.files.len() as u32 {
            let file = FileId(number);
            assert_eq!(engine.file_bytes(file), self.contents.file(file).size, "a file's end");
        }
        if self.rng.chance(self.watched.cut_ppm) {
            self.cut_power();
        }
        self.inner.settled(engine);
    }

    fn processor(&mut self) -> Processor {
        self.inner.processor()
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        let input = self.inner.next(deadline)?;
        let now = self.inner.now();
        self.write(now, "in", &input);
        self.see_input(&input);
        Some(input)
    }
}

/// Files are watched, and a request past the page cache has none.
const NO_DIRECT: &str = "no task of the simulator bypasses the page cache";
