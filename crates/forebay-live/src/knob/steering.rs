//! The one place that writes knobs.
//!
//! ```text
//!   set -- fit? on request? free? due? --- ours? --- intent, fsync -- write -- read -- done
//!                                       |            |         |                        |
//!   refused, and nothing was touched <--+            |         |                        |
//!   another program's value: released <--------------'         |                        |
//!   no room for the record: refused, and nothing was touched <-'                        |
//!   the kernel made something else of it: put back, and refused <-----------------------'
//! ```
//!
//! Source:     Forebay. What the kernel resets a window to is in `block/blk-settings.c`.
//! Behaviour:  a change is on record before it is made. A knob that another program writes is
//!             released for good; one that the kernel has reset, as its queue's limits changed, is
//!             set again, once.
//! Differs:    nothing.
//! Not for:    two at once: the journal's lock keeps the second one out.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use forebay_core::time::{Duration, Instant};

use crate::journal::{
    Entry, FileEntry, Folder, FolderError, History, Journal, JournalError, Lock, LockError, Note,
    Record, State, now,
};
use crate::number::DevNumber;
use crate::tree::Tree;
use crate::undo::{self, back, undo_file, undo_knob};

use super::access::{stands_with, write_knob};
use super::brief::{BriefError, Moment, Way, brief, put_back};
use super::turn::{NoTurn, Turn};
use super::turns::Turns;
use super::{Event, FileGone, Held, Identity, Kernel, Knob, Of, OpenFile, Value};

mod permit;

/// Steers knobs, and puts them back when it is dropped.
pub struct Steering {
    kernel: Box<dyn Kernel + Send>,
    journal: Journal,
    terms: Terms,
    /// When each knob was last changed.
    changed: BTreeMap<Knob, Instant>,
    /// What each window that we set depended on then, had the kernel reset it.
    limits: BTreeMap<Knob, Limits>,
    history: Option<History>,
    turns: Turns,
    /// Whether changes stay when it is dropped.
    is_lasting: bool,
    /// Kept until everything is back.
    _lock: Option<Lock>,
}

/// What may be done, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The time between two changes of one knob.
    pub period: Duration,
    /// Whether knobs that are written only on request were requested: those of the whole machine.
    pub machine: bool,
    /// The same for writeback throttling of the block layer.
    pub wbt: bool,
}

/// Limits of a queue that the kernel makes its device's window of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// The size of requests that the device likes best, in bytes; 0 if it does not say.
    best: u64,
    is_rotational: bool,
    /// The largest request, in KiB.
    request_kb: u64,
}

/// A change that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which knob.
    pub knob: Knob,
    /// What it should stand at.
    pub to: Value,
    /// Why, so that it goes on from "because": `random faults use 4 of 8192 KiB`.
    pub why: String,
}

/// A change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What the knob stood at.
    pub before: Value,
    /// What was asked for.
    pub asked: Value,
    /// What it stands at.
    pub read_back: Value,
}

/// A window that a device has for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    /// The backing device.
    pub bdi: DevNumber,
    /// The window, in KiB.
    pub kb: u64,
    /// Why, so that it goes on from "because".
    pub why: String,
    /// The file and its process as people know them; empty if unknown.
    pub name: String,
}

/// A description that is to have another window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOf {
    /// Which.
    pub file: OpenFile,
    /// The window that it has, in KiB: seen in an event, or its device's when it was opened.
    pub before_kb: u64,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// We never write such a value.
    #[error("{knob}: {why}")]
    Unfit {
        /// Which knob.
        knob: Knob,
        /// What is wrong with the value.
        why: String,
    },
    /// It is written only if the user asked for it by name.
    #[error("{0} is written only on request")]
    NotAsked(Knob),
    /// The kernel has a finer knob for the same.
    #[error("{0}: the kernel has max_ratio_fine, which goes back exactly")]
    Coarse(Knob),
    /// Another program has written it before.
    #[error("{0} was written by another program, and is left alone since")]
    Released(Knob),
    /// Another program has written it just now.
    #[error("{0}")]
    Foreign(Box<Event>),
    /// It was changed a moment ago.
    #[error("{0} was changed less than a period ago")]
    TooSoon(Knob),
    /// Another process borrows windows at present, so that this one's value is unknown.
    #[error("{knob}: {source}")]
    NoTurn {
        /// Which knob.
        knob: Knob,
        /// Why.
        source: NoTurn,
    },
    /// It could not be put on record.
    #[error("{knob}: the journal cannot be written, so nothing was changed: {source}")]
    Journal {
        /// Which knob.
        knob: Knob,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused, or the device is gone.
    #[error("{path}: {source}")]
    Kernel {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel made something else of it, and the old value was restored.
    #[error("{knob}: wrote {}, and the kernel reports {}", knob.show(*asked), knob.show(*found))]
    Other {
        /// Which knob.
        knob: Knob,
        /// What was asked for.
        asked: Value,
        /// What came of it.
        found: Value,
    },
}

/// Why there is no steering.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder of the journal.
    #[error("no folder for the journal: {0}")]
    Folder(#[from] FolderError),
    /// Another process steers.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The boot has no name, so it could not be said which boot the journal is of.
    #[error("cannot read {BOOT_ID}: {0}")]
    Boot(io::Error),
    /// The journal that is there.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No journal can be written.
    #[error("the journal cannot be written, and nothing is steered without one: {0}")]
    NoJournal(io::Error),
}

/// What was found when steering began.
#[derive(Debug, Default)]
pub struct Began {
    /// About the journal.
    pub notes: Vec<Note>,
    /// What a steering that was killed had left, and what became of it.
    pub undone: Vec<Event>,
}

impl Steering {
    /// Takes the lock, undoes what a steering before has left, and makes sure of the journal.
    pub fn start(tree: &Tree, state: &Path, terms: Terms) -> Result<(Self, Began), StartError> {
        Self::open(tree, state, terms, false)
    }

    /// The same for changes that stay, those of the journal among them, until they are undone.
    pub fn lasting(tree: &Tree, state: &Path, terms: Terms) -> Result<(Self, Began), StartError> {
        Self::open(tree, state, terms, true)
    }

    fn open(
        tree: &Tree,
        state: &Path,
        terms: Terms,
        is_lasting: bool,
    ) -> Result<(Self, Began), StartError> {
        let folder = Folder::made(state)?;
        let lock = Lock::take(&folder)?;
        let history = History::of(&folder);
        let boot = boot(tree)?;
        let (mut journal, notes) = Journal::open(Box::new(folder), &boot)?;
        let kernel = Box::new(tree.clone());
        let undone =
            if is_lasting { Vec::new() } else { undo::undo(kernel.as_ref(), &mut journal, LEFT) };
        undone.iter().for_each(|event| history.add(event));
        let mut steering = Self::with(kernel, journal, terms)?;
        steering.is_lasting = is_lasting;
        steering.history = Some(history);
        steering._lock = Some(lock);
        Ok((steering, Began { notes, undone }))
    }

    /// Steers whatever kernel, with whatever journal; what the journal says is undone before.
    pub fn on(
        kernel: Box<dyn Kernel + Send>,
        mut journal: Journal,
        terms: Terms,
    ) -> Result<(Self, Vec<Event>), StartError> {
        let undone = undo::undo(kernel.as_ref(), &mut journal, LEFT);
        Ok((Self::with(kernel, journal, terms)?, undone))
    }

    fn with(
        kernel: Box<dyn Kernel + Send>,
        mut journal: Journal,
        terms: Terms,
    ) -> Result<Self, StartError> {
        journal.prove().map_err(StartError::NoJournal)?;
        Ok(Self {
            kernel,
            journal,
            terms,
            changed: BTreeMap::new(),
            limits: BTreeMap::new(),
            history: None,
            turns: Turns::default(),
            is_lasting: false,
            _lock: None,
        })
    }

    /// Writes a knob: the only way to do so.
    pub fn set(&mut self, change: &Change, now: Instant) -> Result<Applied, Refused> {
        let knob = change.knob;
        self.permit(knob, change.to, now)?;
        let to = knob.kept(change.to);
        let _turn = self.turn(knob)?;
        if let Some(event @ Event::Foreign { .. }) = self.judge(knob) {
            return Err(Refused::Foreign(Box::new(event)));
        }
        let identity = Identity::of(knob, self.kernel.as_ref()).map_err(at(knob, to))?;
        self.permit_for(knob, &identity)?;
        let from = knob.read(self.kernel.as_ref()).map_err(at(knob, to))?;
        self.permit_share(knob, to)?;
        self.permit_limit(knob, to)?;
        let base = self.base(knob, &identity, from, &change.why);
        if from == to {
            return Ok(Applied { before: from, asked: change.to, read_back: from });
        }
        self.changed.insert(knob, now);
        if let Some(limits) = self.limits(knob) {
            self.limits.insert(knob, limits);
        }
        let found = self.write(base, to)?;
        let of = Of { knob, identity };
        let (asked, why) = (change.to, change.why.clone());
        self.note(&Event::Set { of, from, asked, to: found, why });
        Ok(Applied { before: from, asked, read_back: found })
    }

    /// Puts a knob back; none if it is not changed.
    pub fn restore(&mut self, knob: Knob, why: &str) -> Option<Event> {
        let (kernel, turns) = (self.kernel.as_ref(), &mut self.turns);
        let event = undo_knob(kernel, &mut self.journal, turns, knob, why)?;
        self.note(&event);
        Some(event)
    }

    /// Has a device's window stand at another value while `tell` runs, which may have descriptions
    /// latch it. The files are on record before.
    pub fn with_window<T>(
        &mut self,
        window: &Brief,
        files: &[WindowOf],
        tell: impl FnOnce(&dyn Kernel) -> T,
    ) -> Result<T, Refused> {
        let bdi = Knob::ReadAheadKb(window.bdi);
        let asked = Value::Number(window.kb);
        // What was there before us goes back, whatever we think of it.
        let is_back = self.is_back(window, files);
        if let Some(why) = bdi.unfit(asked).filter(|_| !is_back) {
            return Err(Refused::Unfit { knob: bdi, why });
        }
        let to = if is_back { asked } else { bdi.kept(asked) };
        let identity = Identity::of(bdi, self.kernel.as_ref()).map_err(at(bdi, to))?;
        let turn = self.turn(bdi)?;
        if let Some(event) = self.judge(bdi) {
            return Err(Refused::Foreign(Box::new(event)));
        }
        let known = self.journal.state().files.clone();
        let record = |of: &WindowOf| {
            let before_kb = known.get(&of.file).map_or(of.before_kb, |entry| entry.before_kb);
            let (file, identity, why) = (of.file, identity.clone(), window.why.clone());
            Record::File(FileEntry {
                file,
                bdi,
                identity,
                before_kb,
                kb: window.kb,
                at: now(),
                why,
                name: window.name.clone(),
            })
        };
        let way = if is_back { Way::Back } else { Way::There };
        // For the way back the entries say all that is needed.
        let records = if is_back { Vec::new() } else { files.iter().map(record).collect() };
        let promised = self.journal.promise_all(records);
        promised.map_err(|source| Refused::Journal { knob: bdi, source })?;
        let (kernel, why) = (self.kernel.as_ref(), &window.why);
        let moment = Moment { bdi, to, why, way };
        brief(kernel, &mut self.journal, &turn, &moment, tell).map_err(|error| {
            // Nothing was told, so each file has what it had.
            for of in files.iter().filter(|_| !is_back) {
                self.journal.tell(match known.get(&of.file) {
                    Some(entry) => Record::File(entry.clone()),
                    None => Record::FileClosed(of.file),
                });
            }
            match error {
                BriefError::Knob { path, source } => Refused::Kernel { path, source },
                BriefError::Journal(source) => Refused::Journal { knob: bdi, source },
            }
        })
    }

    /// Gives descriptions of other processes a window of their own, and says how it went for each.
    pub fn set_windows(
        &mut self,
        window: &Brief,
        files: &[WindowOf],
    ) -> Result<Vec<Result<(), FileGone>>, Refused> {
        let known = self.journal.state().files.clone();
        let hold = |of: &WindowOf| self.kernel.hold(&of.file);
        let held: Vec<Result<Held, FileGone>> = files.iter().map(hold).collect();
        let reached: Vec<WindowOf> =
            files.iter().zip(&held).filter_map(|(of, held)| held.is_ok().then_some(*of)).collect();
        let all = |kernel: &dyn Kernel| -> Vec<Result<(), FileGone>> {
            held.iter().flatten().map(|held| kernel.latch(held)).collect()
        };
        let latched =
            if reached.is_empty() { Vec::new() } else { self.with_window(window, &reached, all)? };
        let mut latched = latched.into_iter();
        // The copies are closed here, with the device's own window in place.
        let of_each = held.into_iter().filter_map(|held| match held {
            Ok(_) => latched.next(),
            Err(error) => Some(Err(error)),
        });
        let told: Vec<Result<(), FileGone>> = of_each.collect();
        for (of, told) in files.iter().zip(&told) {
            self.told(window, of, told, known.get(&of.file));
        }
        Ok(told)
    }

    /// Puts on record how it went for one; `known` was its entry before.
    fn told(
        &mut self,
        window: &Brief,
        of: &WindowOf,
        told: &Result<(), FileGone>,
        known: Option<&FileEntry>,
    ) {
        let file = of.file;
        match (told, known) {
            (Ok(()), _) => {
                let entry = self.journal.state().files.get(&file);
                if entry.is_some_and(|entry| entry.before_kb == window.kb) {
                    self.journal.tell(Record::FileClosed(file));
                }
                let (why, name) = (window.why.clone(), window.name.clone());
                let from_kb = known.map_or(of.before_kb, |entry| entry.kb);
                let to_kb = window.kb;
                self.note(&Event::FileSet { file, from_kb, to_kb, why, name });
            }
            (Err(error), Some(entry)) if !error.is_gone() => {
                self.journal.tell(Record::File(entry.clone()));
            }
            (Err(_), _) if self.journal.state().files.contains_key(&file) => {
                self.journal.tell(Record::FileClosed(file));
            }
            (Err(_), _) => {}
        }
    }

    /// Has a description take its old window; none if it has it.
    pub fn restore_file(&mut self, file: &OpenFile) -> Option<Event> {
        let (kernel, turns) = (self.kernel.as_ref(), &mut self.turns);
        let event = undo_file(kernel, &mut self.journal, turns, file)?;
        self.note(&event);
        Some(event)
    }

    /// Forgets files that were closed, and processes that have ended. Costs two reads a file.
    pub fn forget_files(&mut self, is_gone: impl Fn(&OpenFile) -> bool) {
        let files = self.journal.state().files.iter().filter(|(file, _)| is_gone(file));
        let files: Vec<(OpenFile, String)> =
            files.map(|(file, entry)| (*file, entry.name.clone())).collect();
        for (file, name) in files {
            self.journal.tell(Record::FileClosed(file));
            self.note(&Event::FileGone { file, name });
        }
    }

    /// Compares each knob that is changed with what was left there, and acts on what differs.
    pub fn watch_foreign(&mut self) -> Vec<Event> {
        let knobs: Vec<Knob> = self.journal.state().entries.keys().copied().collect();
        knobs.into_iter().filter_map(|knob| self.look(knob)).collect()
    }

    /// A device's window while no process borrows it, in KiB; none if that cannot be
    /// said at present.
    pub fn window(&mut self, bdi: DevNumber) -> Option<u64> {
        let knob = Knob::ReadAheadKb(bdi);
        let _turn = self.turn(knob).ok()?;
        knob.read(self.kernel.as_ref()).ok()?.number()
    }

    /// Puts everything back.
    pub fn finish(&mut self, why: &str) -> Vec<Event> {
        let events = undo::undo(self.kernel.as_ref(), &mut self.journal, why);
        events.iter().for_each(|event| self.note(event));
        events
    }

    /// What is changed at present.
    pub fn state(&self) -> &State {
        self.journal.state()
    }

    /// The kernel that is steered, to look at.
    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// Whether a window is what each of these had before, as the journal has it.
    fn is_back(&self, window: &Brief, files: &[WindowOf]) -> bool {
        let known = &self.journal.state().files;
        let had = |of: &WindowOf| known.get(&of.file).map(|entry| entry.before_kb);
        !files.is_empty() && files.iter().all(|of| had(of) == Some(window.kb))
    }

    /// The entry that a change goes on from.
    fn base(&self, knob: Knob, identity: &Identity, from: Value, why: &str) -> Entry {
        let fresh = Entry {
            knob,
            identity: identity.clone(),
            before: from,
            last: from,
            asked: None,
            reasserted: 0,
            at: now(),
            why: why.to_owned(),
        };
        match self.journal.state().entries.get(&knob) {
            Some(entry) => Entry { before: entry.before, reasserted: entry.reasserted, ..fresh },
            None => fresh,
        }
    }

    /// Intent, write, read back. `base` says what stands there.
    fn write(&mut self, base: Entry, to: Value) -> Result<Value, Refused> {
        let (knob, from) = (base.knob, base.last);
        let intent = Entry { asked: Some(to), ..base.clone() };
        let promised = self.journal.promise(Record::Intent(intent));
        promised.map_err(|source| Refused::Journal { knob, source })?;
        let written = write_knob(self.kernel.as_ref(), knob, to);
        let found = match knob.read(self.kernel.as_ref()) {
            Ok(found) => found,
            // It stays open in the journal, for the undo that can read it again.
            Err(source) => return Err(at(knob, to)(written.err().unwrap_or(source))),
        };
        if written.is_ok() && knob.is_made_of(found, to) {
            self.close(Entry { last: found, asked: None, ..base });
            return Ok(found);
        }
        if found != from && write_knob(self.kernel.as_ref(), knob, from).is_err() {
            self.journal.tell(Record::Done(Entry { last: found, asked: None, ..base }));
        } else {
            self.close(Entry { last: from, asked: None, ..base });
        }
        Err(match written {
            Err(source) => at(knob, to)(source),
            Ok(()) => Refused::Other { knob, asked: to, found },
        })
    }

    /// Puts what stands there on record.
    fn close(&mut self, entry: Entry) {
        let is_back = entry.last == entry.before;
        self.journal.tell(if is_back { Record::Closed(entry.knob) } else { Record::Done(entry) });
    }

    /// The right to judge a knob and to write it.
    fn turn(&mut self, knob: Knob) -> Result<Turn, Refused> {
        if !knob.is_borrowed() {
            return Ok(Turn::alone());
        }
        self.turns.next(self.kernel.as_ref()).map_err(|source| Refused::NoTurn { knob, source })
    }

    /// Judges a knob in a turn of its own; what cannot be judged at present is left for later.
    fn look(&mut self, knob: Knob) -> Option<Event> {
        let _turn = self.turn(knob).ok()?;
        self.judge(knob)
    }

    /// Compares a knob with what was left there; none if that is what stands there.
    fn judge(&mut self, knob: Knob) -> Option<Event> {
        let entry = self.journal.state().entries.get(&knob)?.clone();
        let of = Of { knob, identity: entry.identity.clone() };
        let event = match stands_with(self.kernel.as_ref(), &entry) {
            Ok(Some((present, found))) if entry.is_ours(found) => {
                if let Some(asked) = entry.asked {
                    put_back(self.kernel.as_ref(), &mut self.journal, entry, asked);
                    return None;
                }
                if present.is_same_medium(&entry.identity) {
                    return None;
                }
                let why = "another medium is in the device";
                back(self.kernel.as_ref(), &mut self.journal, knob, why)?
            }
            Ok(Some((_, found)))
                if self.is_reset(knob, found) && entry.reasserted < REASSERT_MAX =>
            {
                let to = entry.last;
                let reasserted = entry.reasserted + 1;
                match self.write(Entry { last: found, reasserted, ..entry }, to) {
                    Ok(to) => Event::Reasserted { of, found, to },
                    Err(refused) => Event::Failed { of, to, error: refused.to_string() },
                }
            }
            Ok(Some((_, found))) => {
                self.journal.tell(Record::Released(knob, entry.identity));
                Event::Foreign { of, last: entry.last, found }
            }
            Ok(None) => {
                self.journal.tell(Record::Closed(knob));
                Event::Gone { of }
            }
            // It may be readable again; nothing is known, so nothing is done.
            Err(_) => return None,
        };
        self.note(&event);
        Some(event)
    }

    /// Whether the kernel by itself has a window stand at this after its queue's limits changed:
    /// twice the size that the device likes best, and 128 KiB at least; since Linux 6.17, for
    /// rotational devices that do not say, twice the largest request.
    ///
    /// Another program may write that very value. So it is the kernel's only if the limits are
    /// others than when we wrote.
    fn is_reset(&self, knob: Knob, found: Value) -> bool {
        let (Some(then), Some(limits)) = (self.limits.get(&knob), self.limits(knob)) else {
            return false;
        };
        let Limits { best, is_rotational, request_kb } = limits;
        let largest = if best == 0 && is_rotational { 2 * request_kb } else { 0 };
        let usual = (2 * best / 1024).max(128);
        let is_usual = [usual, usual.max(largest)].map(Value::Number).contains(&found);
        is_usual && *then != limits
    }

    /// What the kernel makes a window of; none for other knobs.
    fn limits(&self, knob: Knob) -> Option<Limits> {
        let Knob::ReadAheadKb(device) = knob else { return None };
        let queue = |name| {
            self.kernel.number(&format!("/sys/dev/block/{device}/queue/{name}")).unwrap_or(0)
        };
        Some(Limits {
            best: queue("optimal_io_size"),
            is_rotational: queue("rotational") == 1,
            request_kb: queue("max_sectors_kb"),
        })
    }

    /// Puts on the log what a change has brought; `about` is what it changed, as the log names it.
    pub fn record_outcome(&self, about: &str, sentence: &str) {
        if let Some(history) = &self.history {
            history.add_outcome(about, sentence);
        }
    }

    fn note(&self, event: &Event) {
        if let Some(history) = &self.history {
            history.add(event);
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        if self.journal.state().open() > 0 && !self.is_lasting {
            self.finish("forebay ends");
        }
        self.journal.settle();
    }
}

impl Default for Terms {
    /// Devices only, and each knob at most once in 3 s.
    fn default() -> Self {
        Self { period: Duration::from_secs(3), machine: false, wbt: false }
    }
}

/// Which boot this is.
pub fn boot(kernel: &dyn Kernel) -> Result<String, StartError> {
    let text = kernel.text(BOOT_ID).map_err(StartError::Boot)?;
    Ok(text.trim().to_owned())
}

fn at(knob: Knob, to: Value) -> impl FnOnce(io::Error) -> Refused {
    move |source| Refused::Kernel { path: knob.path(to), source }
}

/// How often a value is set again that the kernel has reset.
const REASSERT_MAX: u64 = 1;

/// Why what is found in a journal goes back.
const LEFT: &str = "a forebay before did not";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
