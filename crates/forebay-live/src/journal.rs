//! The journal: what we have changed, so that the next start can undo it.
//!
//! ```text
//!   forebay-journal version=1 boot=...       after a reboot the rest is void: so are the knobs
//!   intent knob=... before=... asked=...     durable before the knob is written
//!   done   knob=... before=... last=...      what was read back
//!   closed knob=...                          it stands where it stood
//! ```
//!
//! Records are added at the end. When nothing is changed any more, or the file has grown to
//! [`JOURNAL_MAX`], it is replaced by one that says the same in as many lines as there are open
//! changes. Half a record at the end, left by a kill or a full disk, counts as never written: its
//! knob was not written either. A damaged line elsewhere costs at most the change that it alone
//! knew of.
//!
//! *Where it lies.* An fsync on a congested disk waits behind the very writeback that is to be
//! tamed, for seconds, while nothing is being steered. Knobs do not outlive a reboot, and neither
//! need the journal: `/run` is memory, where an fsync costs nothing. Elsewhere (`--state`) it is as
//! safe, and slow when the disk is.

use std::collections::BTreeMap;
use std::io;

use crate::knob::{Identity, Knob, OpenFile};

use record::HEAD;

pub use disk::{Disk, Folder, FolderError};
pub(crate) use history::now;
pub use history::{History, Past};
pub use lock::{Holder, LOCK_FILE, Lock, LockError};
pub use record::{Entry, FileEntry, Head, Record};

mod disk;
mod history;
mod lock;
mod record;

/// Where the journal lies by default.
pub const STATE_FOLDER: &str = "/run/forebay";

/// The journal in its folder.
pub const JOURNAL_FILE: &str = "journal";

/// The folder of changes that `forebay advise --fix` made, which no steering takes back.
pub const FIXES_FOLDER: &str = "/run/forebay/fixes";

/// A journal that is being written.
pub struct Journal {
    disk: Box<dyn Disk + Send>,
    boot: String,
    state: State,
    /// Bytes of the file.
    length: usize,
    /// Why nothing can be added, if nothing can.
    stuck: Option<io::Error>,
}

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Knobs that do not stand where we found them.
    pub entries: BTreeMap<Knob, Entry>,
    /// Descriptions that have a window of their own.
    pub files: BTreeMap<OpenFile, FileEntry>,
    /// Knobs that another program has written.
    pub released: BTreeMap<Knob, Identity>,
}

/// What is in the bytes of a journal.
#[derive(Debug, Default)]
pub struct Found {
    /// The first line, if it is whole.
    pub head: Option<Head>,
    /// What the whole lines say.
    pub state: State,
    /// Damaged lines, counted from one.
    pub damaged: Vec<usize>,
    /// Whether half a record stands at the end.
    pub is_torn: bool,
    /// All bytes.
    pub length: usize,
}

/// A note about the journal for its opener.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Note {
    /// The machine has been started since.
    #[error(
        "the journal is of an earlier start of this machine: its {open} changes ended with it, and \
         are not replayed"
    )]
    OtherBoot {
        /// Changes that were open.
        open: usize,
    },
    /// Lines are damaged.
    #[error(
        "the journal is damaged in line {}; whole lines are still undone, a change that only a \
         damaged line knew of cannot be; the file is kept as {kept}",
        numbers(lines)
    )]
    Damaged {
        /// Which, counted from one.
        lines: Vec<usize>,
        /// Where the damaged file is.
        kept: String,
    },
    /// It cannot be written.
    #[error("the journal cannot be written: {why}")]
    Stuck {
        /// Why.
        why: String,
    },
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read.
    #[error("cannot read the journal: {0}")]
    Unread(io::Error),
    /// A later Forebay wrote it.
    #[error("the journal has format {found}, and this forebay knows {VERSION}")]
    Version {
        /// Its format.
        found: u64,
    },
}

impl Note {
    /// Lines that cannot be read, and may stand for changes that are unknown.
    pub fn damaged(&self) -> usize {
        match self {
            Self::Damaged { lines, .. } => lines.len(),
            Self::OtherBoot { .. } | Self::Stuck { .. } => 0,
        }
    }
}

impl Journal {
    /// Reads what there is and repairs what is broken. Nothing is written to a whole journal.
    pub fn open(disk: Box<dyn Disk + Send>, boot: &str) -> Result<(Self, Vec<Note>), JournalError> {
        let found = Found::read(disk.as_ref())?;
        let (boot, state, length) = (boot.to_owned(), found.state, found.length);
        let mut journal = Self { disk, boot, state, length, stuck: None };
        let mut notes = Vec::new();
        let is_other_boot = found.head.is_some_and(|head| head.boot != journal.boot);
        // What was changed before this boot has ended with it, whatever the lines said.
        if !found.damaged.is_empty() && !is_other_boot {
            let kept = journal.disk.set_aside().unwrap_or_else(|error| format!("nothing: {error}"));
            notes.push(Note::Damaged { lines: found.damaged.clone(), kept });
        }
        if is_other_boot {
            let open = journal.state.open();
            journal.state = State::default();
            notes.extend((open > 0).then_some(Note::OtherBoot { open }));
        }
        let is_broken = is_other_boot || found.is_torn || !found.damaged.is_empty();
        if is_broken && let Err(error) = journal.compact() {
            notes.push(Note::Stuck { why: error.to_string() });
            journal.stuck = Some(error);
        }
        Ok((journal, notes))
    }

    /// Adds a record, and returns when it is durable. On an error it counts as never said.
    pub fn promise(&mut self, record: Record) -> io::Result<()> {
        self.promise_all(vec![record])
    }

    /// Adds records, and returns when all are durable. On an error all count as never said.
    pub fn promise_all(&mut self, records: Vec<Record>) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        records.iter().try_for_each(|record| self.add(record))?;
        if let Err(error) = self.disk.sync() {
            // After a failed fsync the next one says that all is well. A file of its own does not.
            self.stuck = self.compact().err();
            return Err(error);
        }
        records.into_iter().for_each(|record| self.state.apply(record));
        Ok(())
    }

    /// Adds a record of something that is so already. If it cannot be added, a later reader knows
    /// less, and finds out the rest by looking at the knobs.
    pub fn tell(&mut self, record: Record) {
        if let Err(error) = self.add(&record) {
            self.stuck.get_or_insert(error);
        }
        self.state.apply(record);
    }

    /// Makes sure that promises can be kept.
    pub fn prove(&mut self) -> io::Result<()> {
        self.compact()
    }

    /// Shrinks the file to what is still of use.
    pub fn settle(&mut self) {
        let is_empty = self.state == State::default();
        if is_empty && self.disk.clear().is_ok() {
            self.length = 0;
        } else if !is_empty {
            // A long journal says the same.
            let _ = self.compact();
        }
    }

    /// What it says.
    pub fn state(&self) -> &State {
        &self.state
    }

    fn add(&mut self, record: &Record) -> io::Result<()> {
        if self.stuck.is_some() {
            self.compact()?;
        }
        let line = record.line();
        if self.length + line.len() > JOURNAL_MAX {
            self.compact()?;
            if self.length + line.len() > JOURNAL_MAX {
                return Err(io::Error::other("the journal is full of open changes"));
            }
        }
        let text = if self.length == 0 { self.head().line() + &line } else { line };
        self.disk.append(text.as_bytes())?;
        self.length += text.len();
        Ok(())
    }

    fn compact(&mut self) -> io::Result<()> {
        let mut text = self.head().line();
        for record in self.state.records() {
            text.push_str(&record.line());
        }
        self.disk.replace(text.as_bytes())?;
        self.length = text.len();
        self.stuck = None;
        Ok(())
    }

    fn head(&self) -> Record {
        Record::Head(Head { version: VERSION, boot: self.boot.clone() })
    }
}

impl Found {
    /// Reads a journal of the version that is known, and repairs nothing.
    pub fn read(disk: &dyn Disk) -> Result<Self, JournalError> {
        let found = Self::of(&disk.load().map_err(JournalError::Unread)?);
        match &found.head {
            Some(head) if head.version != VERSION => {
                Err(JournalError::Version { found: head.version })
            }
            Some(_) | None => Ok(found),
        }
    }

    /// Reads any bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut found = Self { length: bytes.len(), ..Self::default() };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        found.is_torn = whole < bytes.len();
        // The first bytes are those of a head, however few of them were written.
        if found.is_torn && whole == 0 && !begins_a_head(bytes) {
            found.damaged.push(1);
        }
        let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
        for (index, line) in lines.enumerate() {
            let record =
                std::str::from_utf8(line).ok().and_then(|line| Record::parse(line.trim_end()));
            match record {
                Some(Record::Head(head)) => found.head = Some(head),
                Some(record) => found.state.apply(record),
                None => found.damaged.push(index + 1),
            }
        }
        found
    }
}

impl State {
    /// Changes that can be reverted.
    pub fn open(&self) -> usize {
        self.entries.len() + self.files.len()
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Head(_) => {}
            Record::Intent(entry) | Record::Done(entry) => {
                self.entries.insert(entry.knob, entry);
            }
            Record::Closed(knob) => {
                self.entries.remove(&knob);
            }
            Record::Released(knob, identity) => {
                self.entries.remove(&knob);
                self.released.insert(knob, identity);
            }
            Record::Forgotten => self.released.clear(),
            Record::File(entry) => {
                self.files.insert(entry.file, entry);
            }
            Record::FileClosed(file) => {
                self.files.remove(&file);
            }
        }
    }

    /// The fewest records that say it.
    fn records(&self) -> Vec<Record> {
        let entry = |entry: &Entry| match entry.asked {
            Some(_) => Record::Intent(entry.clone()),
            None => Record::Done(entry.clone()),
        };
        let released = |(knob, whose): (&Knob, &Identity)| Record::Released(*knob, whose.clone());
        // What is released closes its entry, so it comes first.
        let mut records: Vec<Record> = self.released.iter().map(released).collect();
        records.extend(self.entries.values().map(entry));
        records.extend(self.files.values().cloned().map(Record::File));
        records
    }
}

/// Whether bytes are the begin of a line that a head could be.
fn begins_a_head(bytes: &[u8]) -> bool {
    const SUM: usize = 8;
    let (sum, rest) = bytes.split_at(bytes.len().min(SUM));
    let name = format!(" {HEAD} ");
    let length = rest.len().min(name.len());
    sum.iter().all(u8::is_ascii_hexdigit) && rest[..length] == name.as_bytes()[..length]
}

fn numbers(lines: &[usize]) -> String {
    let shown: Vec<String> = lines.iter().take(5).map(ToString::to_string).collect();
    let more = if lines.len() > shown.len() { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The largest file, in bytes: some thousand open changes.
pub const JOURNAL_MAX: usize = 1 << 20;

/// The version of the format.
const VERSION: u64 = 1;

#[cfg(test)]
mod tests;
