//! Which file a process means by a descriptor, and where in it the next call is.
//!
//! ```text
//!   process --> table (shared with CLONE_FILES, else copied) --descriptor--> description
//!                                              dup, fork -------------------^  one position
//! ```

use std::collections::HashMap;

use crate::error::Fault;
use crate::formats::intern;
use crate::formats::strace::call::{decorated, descriptor};
use crate::record::{Flags, Names, Op};

/// An open file description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Description {
    pub(super) object: u32,
    pub(super) flags: Flags,
    /// Writes go to the end (`O_APPEND`).
    append: bool,
    kind: Kind,
    /// The next byte, if it is known.
    position: Option<u64>,
}

/// Kinds of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file.
    File,
    /// A pipe, a socket, a terminal.
    Other,
}

/// Whether a path names what the kernel makes up and no disk has: terminals, `/dev/null`, `/proc`.
pub(super) fn is_of_the_kernel(path: &[u8]) -> bool {
    const FOLDERS: [&[u8]; 4] = [b"/proc/", b"/sys/", b"/dev/pts/", b"/dev/tty"];
    const DEVICES: [&[u8]; 5] =
        [b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom"];
    FOLDERS.iter().any(|folder| path.starts_with(folder)) || DEVICES.contains(&path)
}

#[derive(Default)]
pub(super) struct Files {
    /// The table of each process.
    tables: HashMap<u32, usize>,
    descriptors: Vec<HashMap<u64, Entry>>,
    /// Tables of processes that have ended.
    free: Vec<usize>,
    descriptions: Vec<Description>,
    /// How far each file was read or written: where appended bytes go.
    ends: HashMap<u32, u64>,
}

#[derive(Clone, Copy)]
struct Entry {
    description: usize,
    cloexec: bool,
}

/// The most processes, and descriptions that were ever opened.
const PROCESSES_MAX: usize = 1 << 16;
const DESCRIPTIONS_MAX: usize = 1 << 22;
/// The most descriptors of all processes together that a copy may make.
const DESCRIPTORS_MAX: usize = 1 << 16;

impl Description {
    /// Something without positions.
    pub(super) const OTHER: Self =
        Self { object: 0, flags: Flags::WITHOUT, append: false, kind: Kind::Other, position: None };

    /// A file from its beginning.
    pub(super) fn opened(object: u32, flags: Flags, append: bool) -> Self {
        Self { object, flags, append, kind: Kind::File, position: Some(0) }
    }
}

/// A description that a call works on.
pub(super) struct Opened<'a> {
    description: &'a mut Description,
    end: &'a mut u64,
}

impl Opened<'_> {
    pub(super) fn kind(&self) -> Kind {
        self.description.kind
    }

    pub(super) fn description(&self) -> &Description {
        self.description
    }

    /// Where a call that reads or writes `len` bytes begins; the next one begins behind it.
    pub(super) fn advance(&mut self, op: Op, len: u64) -> Result<u64, Fault> {
        let appends = self.description.append && op == Op::Write;
        let known = if appends { Some(*self.end) } else { self.description.position };
        let Some(begin) = known else {
            let expected = "a descriptor that was opened, or had an lseek, in the trace";
            return Err(Fault::new("position", expected, b"an older one"));
        };
        let end = begin.saturating_add(len);
        self.description.position = Some(end);
        *self.end = end.max(*self.end);
        Ok(begin)
    }

    /// The next call begins there.
    pub(super) fn seek(&mut self, position: u64) {
        self.description.position = Some(position);
    }
}

impl Files {
    fn table(&mut self, pid: u32) -> Result<usize, Fault> {
        if let Some(table) = self.tables.get(&pid) {
            return Ok(*table);
        }
        if self.tables.len() >= PROCESSES_MAX {
            return Err(Fault::number("pid", "at most 65536 processes at once", pid.into()));
        }
        let table = self.free.pop().unwrap_or_else(|| {
            self.descriptors.push(HashMap::new());
            self.descriptors.len() - 1
        });
        self.tables.insert(pid, table);
        Ok(table)
    }

    fn describe(&mut self, description: Description) -> Result<usize, Fault> {
        if self.descriptions.len() >= DESCRIPTIONS_MAX {
            return Err(Fault::new("descriptor", "at most 4194304 opened files", b"more"));
        }
        self.descriptions.push(description);
        Ok(self.descriptions.len() - 1)
    }

    /// A process has opened something.
    pub(super) fn open(
        &mut self,
        pid: u32,
        number: u64,
        description: Description,
        cloexec: bool,
    ) -> Result<(), Fault> {
        let description = self.describe(description)?;
        let table = self.table(pid)?;
        self.descriptors[table].insert(number, Entry { description, cloexec });
        Ok(())
    }

    /// A process has closed a descriptor; the file, if it was one.
    pub(super) fn close(&mut self, pid: u32, argument: &[u8]) -> Option<Description> {
        let table = *self.tables.get(&pid)?;
        let entry = self.descriptors[table].remove(&descriptor(argument)?)?;
        let description = self.descriptions[entry.description];
        (description.kind == Kind::File).then_some(description)
    }

    /// A file has become empty.
    pub(super) fn cut(&mut self, object: u32) {
        self.ends.insert(object, 0);
    }

    /// What an argument such as `3` or `3</data/f2>` means. A descriptor that was open before the
    /// trace began is a file only if `-y` names a path.
    pub(super) fn lookup(
        &mut self,
        pid: u32,
        argument: &[u8],
        names: &mut Names,
    ) -> Result<Option<Opened<'_>>, Fault> {
        let Some(number) = descriptor(argument) else {
            return Err(Fault::new("descriptor", "the number of a descriptor", argument));
        };
        let table = self.table(pid)?;
        let known = self.descriptors[table].get(&number).map(|entry| entry.description);
        let description = match known {
            Some(description) => description,
            None => {
                let digits = argument.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let path = decorated(&argument[digits..]).map(|(path, _)| path);
                let is_file = |path: &&[u8]| path.starts_with(b"/") && !is_of_the_kernel(path);
                let description = match path.filter(is_file) {
                    Some(path) => {
                        let object = intern(names, path)?;
                        let opened = Description::opened(object, Flags::default(), false);
                        Description { position: None, ..opened }
                    }
                    None if path.is_some() || number <= 2 => Description::OTHER,
                    None => {
                        let expected = "a descriptor that was opened in the trace";
                        return Err(Fault::number("descriptor", expected, number));
                    }
                };
                let description = self.describe(description)?;
                let entry = Entry { description, cloexec: false };
                self.descriptors[table].insert(number, entry);
                description
            }
        };
        let description = &mut self.descriptions[description];
        let end = self.ends.entry(description.object).or_default();
        Ok(Some(Opened { description, end }))
    }

    /// A descriptor has got a second number.
    pub(super) fn duplicate(
        &mut self,
        pid: u32,
        argument: &[u8],
        number: u64,
        cloexec: bool,
    ) -> Result<(), Fault> {
        let table = self.table(pid)?;
        let old = descriptor(argument).and_then(|old| self.descriptors[table].get(&old).copied());
        match old {
            Some(Entry { description, .. }) => {
                self.descriptors[table].insert(number, Entry { description, cloexec });
                Ok(())
            }
            None => self.open(pid, number, Description::OTHER, cloexec),
        }
    }

    /// A process has begun another one.
    pub(super) fn fork(&mut self, pid: u32, child: u32, shares: bool) -> Result<(), Fault> {
        let table = self.table(pid)?;
        if shares {
            if self.tables.len() >= PROCESSES_MAX {
                return Err(Fault::number("pid", "at most 65536 processes at once", child.into()));
            }
            self.tables.insert(child, table);
            return Ok(());
        }
        let copy = self.descriptors[table].clone();
        let open: usize = self.tables.values().map(|table| self.descriptors[*table].len()).sum();
        if open + copy.len() > DESCRIPTORS_MAX {
            return Err(Fault::number("pid", "at most 65536 open descriptors", child.into()));
        }
        self.tables.remove(&child);
        let table = self.table(child)?;
        self.descriptors[table] = copy;
        Ok(())
    }

    /// A process runs another program.
    pub(super) fn exec(&mut self, pid: u32) {
        if let Some(table) = self.tables.get(&pid) {
            self.descriptors[*table].retain(|_, entry| !entry.cloexec);
        }
    }

    /// A process has ended.
    pub(super) fn exit(&mut self, pid: u32) {
        let Some(table) = self.tables.remove(&pid) else { return };
        if !self.tables.values().any(|other| *other == table) {
            self.descriptors[table] = HashMap::new();
            self.free.push(table);
        }
    }
}
