//! A record: one line of text with its checksum.
//!
//! ```text
//!   5d0e1f22 done knob=7:0/read_ahead_kb node=6990 ... before=2560 ours=16 at=1763778000 why=...
//!   |        |    `-- fields, without blanks: what could confuse is %xx
//!   |        `------- what happened
//!   `---------------- CRC-32 of the rest of the line, without its end
//! ```
//!
//! `intent` and `done` both carry all there is to know of a change, so the loss of one of the two
//! loses nothing.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::str::FromStr;

use crate::knob::{Identity, Knob, OpenFile, Value};
use crate::number::FileKey;

/// The process that wrote the journal, and its boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The version of the format.
    pub version: u64,
    /// `/proc/sys/kernel/random/boot_id`: knobs do not outlive it.
    pub boot: String,
}

/// A knob that does not stand where we found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which.
    pub knob: Knob,
    /// Whose.
    pub identity: Identity,
    /// What it stood at before the first change.
    pub before: Value,
    /// What we read back after the last change; `before` until the first one is through.
    pub last: Value,
    /// What is being written, while it is not known how that went.
    pub asked: Option<Value>,
    /// How often the last value was written again after the kernel had reset it.
    pub reasserted: u64,
    /// When the last change was made, in seconds since 1970.
    pub at: u64,
    /// Why, in a sentence's words.
    pub why: String,
}

/// A description of another process that has a window of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Which.
    pub file: OpenFile,
    /// Its device.
    pub bdi: Knob,
    /// What the device was.
    pub identity: Identity,
    /// The window that it had, in KiB.
    pub before_kb: u64,
    /// The window that it was given, in KiB.
    pub kb: u64,
    /// When, in seconds since 1970.
    pub at: u64,
    /// Why, in a sentence's words.
    pub why: String,
    /// The file by its path and device, and the process by its command; empty if unknown.
    pub name: String,
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The first line.
    Head(Head),
    /// A knob is about to be written.
    Intent(Entry),
    /// It has been written and read back.
    Done(Entry),
    /// It is ours no longer: it is back, or its device is gone.
    Closed(Knob),
    /// Another program has written it: it is left alone from now on.
    Released(Knob, Identity),
    /// What was released may be steered again.
    Forgotten,
    /// A description is about to get a window.
    File(FileEntry),
    /// A description has its old window again, or is gone.
    FileClosed(OpenFile),
}

impl Record {
    /// The line, with its end.
    pub fn line(&self) -> String {
        let text = match self {
            Self::Head(head) => {
                Fields::of(HEAD).with("version", head.version).with("boot", &head.boot)
            }
            Self::Intent(entry) => Fields::of("intent").entry(entry),
            Self::Done(entry) => Fields::of("done").entry(entry),
            Self::Closed(knob) => Fields::of("closed").with("knob", knob),
            Self::Released(knob, whose) => {
                Fields::of("released").with("knob", knob).identity(whose)
            }
            Self::Forgotten => Fields::of("forgotten"),
            Self::File(entry) => Fields::of("file").file_entry(entry),
            Self::FileClosed(file) => Fields::of("file-closed").file(file),
        };
        let sum = crc32fast::hash(text.0.as_bytes());
        format!("{sum:08x} {}\n", text.0)
    }

    /// The record of a line without its end; none if the line is damaged.
    pub fn parse(line: &str) -> Option<Self> {
        let (sum, text) = line.split_once(' ')?;
        let sum = u32::from_str_radix(sum, 16).ok()?;
        if sum != crc32fast::hash(text.as_bytes()) && !cfg!(fuzzing) {
            return None;
        }
        let (name, fields) = text.split_once(' ').unwrap_or((text, ""));
        let fields = Parsed::of(fields)?;
        Some(match name {
            HEAD => {
                Self::Head(Head { version: fields.get("version")?, boot: fields.text("boot")? })
            }
            "intent" => Self::Intent(fields.entry()?),
            "done" => Self::Done(fields.entry()?),
            "closed" => Self::Closed(fields.get("knob")?),
            "released" => Self::Released(fields.get("knob")?, fields.identity()?),
            "forgotten" => Self::Forgotten,
            "file" => Self::File(fields.file_entry()?),
            "file-closed" => Self::FileClosed(fields.file()?),
            _ => return None,
        })
    }
}

impl Entry {
    /// Whether `found` is there by our doing.
    pub fn is_ours(&self, found: Value) -> bool {
        let half_way = self.knob.is_half_way(found, self.before);
        let asked = self.asked.is_some_and(|asked| self.knob.is_made_of(found, asked));
        found == self.last || asked || half_way
    }
}

/// A line that grows.
struct Fields(String);

impl Fields {
    fn of(name: &str) -> Self {
        Self(name.to_owned())
    }

    fn with(mut self, key: &str, value: impl Display) -> Self {
        let value = value.to_string();
        let _ = write!(self.0, " {key}=");
        for byte in value.bytes() {
            if byte.is_ascii_graphic() && byte != b'%' {
                self.0.push(char::from(byte));
            } else {
                let _ = write!(self.0, "%{byte:02x}");
            }
        }
        self
    }

    fn with_some(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    fn identity(self, identity: &Identity) -> Self {
        self.with_some("dev", identity.number)
            .with_some("node", identity.node)
            .with_some("diskseq", identity.diskseq)
            .with_some("size", identity.size)
            .with_some("name", identity.name.as_ref())
    }

    fn entry(self, entry: &Entry) -> Self {
        self.with("knob", entry.knob)
            .identity(&entry.identity)
            .with("before", entry.before)
            .with("last", entry.last)
            .with_some("asked", entry.asked)
            .with("reasserted", entry.reasserted)
            .with("at", entry.at)
            .with("why", &entry.why)
    }

    fn file(self, file: &OpenFile) -> Self {
        self.with("pid", file.pid)
            .with("started", file.started)
            .with("fd", file.fd)
            .with("file-dev", file.file.dev)
            .with("ino", file.file.ino)
    }

    fn file_entry(self, entry: &FileEntry) -> Self {
        self.file(&entry.file)
            .with("knob", entry.bdi)
            .identity(&entry.identity)
            .with("before", entry.before_kb)
            .with("kb", entry.kb)
            .with("at", entry.at)
            .with("why", &entry.why)
            .with("called", &entry.name)
    }
}

/// The fields of a line.
struct Parsed<'a>(BTreeMap<&'a str, String>);

impl<'a> Parsed<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let mut fields = BTreeMap::new();
        for field in text.split(' ').filter(|field| !field.is_empty()) {
            let (key, value) = field.split_once('=')?;
            fields.insert(key, unescaped(value)?);
        }
        Some(Self(fields))
    }

    fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).cloned()
    }

    fn get<T: FromStr>(&self, key: &str) -> Option<T> {
        self.0.get(key)?.parse().ok()
    }

    /// Outer none: there, and no value of its type.
    #[expect(clippy::option_option, reason = "absent and damaged are two things")]
    fn get_some<T: FromStr>(&self, key: &str) -> Option<Option<T>> {
        match self.0.get(key) {
            Some(text) => text.parse().ok().map(Some),
            None => Some(None),
        }
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity {
            number: self.get_some("dev")?,
            node: self.get_some("node")?,
            diskseq: self.get_some("diskseq")?,
            size: self.get_some("size")?,
            name: self.text("name"),
        })
    }

    fn entry(&self) -> Option<Entry> {
        Some(Entry {
            knob: self.get("knob")?,
            identity: self.identity()?,
            before: self.get("before")?,
            last: self.get("last")?,
            asked: self.get_some("asked")?,
            reasserted: self.get("reasserted")?,
            at: self.get("at")?,
            why: self.text("why")?,
        })
    }

    fn file(&self) -> Option<OpenFile> {
        let file = FileKey { dev: self.get("file-dev")?, ino: self.get("ino")? };
        let (pid, started) = (self.get("pid")?, self.get("started")?);
        Some(OpenFile { pid, started, fd: self.get("fd")?, file })
    }

    fn file_entry(&self) -> Option<FileEntry> {
        Some(FileEntry {
            file: self.file()?,
            bdi: self.get("knob")?,
            identity: self.identity()?,
            before_kb: self.get("before")?,
            kb: self.get("kb")?,
            at: self.get("at")?,
            why: self.text("why")?,
            name: self.text("called").unwrap_or_default(),
        })
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The name of the record that a journal begins with.
pub(super) const HEAD: &str = "forebay-journal";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::DevNumber;

    fn entry() -> Entry {
        let number = DevNumber { major: 0, minor: 45 };
        let name = Some("server:/a b%c\n\u{e9}".to_owned());
        Entry {
            knob: Knob::ReadAheadKb(number),
            identity: Identity {
                number: Some(number),
                node: Some(u64::MAX),
                name,
                ..Identity::default()
            },
            before: Value::Number(128),
            last: Value::Number(128),
            asked: Some(Value::Number(4096)),
            reasserted: 1,
            at: 1_763_778_000,
            why: "reads of 1 MiB = 8 windows".to_owned(),
        }
    }

    fn records() -> Vec<Record> {
        let entry = entry();
        let file = OpenFile {
            pid: 7,
            started: 99,
            fd: 3,
            file: FileKey { dev: DevNumber { major: 8, minor: 1 }, ino: 12 },
        };
        let (bdi, identity) = (entry.knob, entry.identity.clone());
        let (why, name) = (String::new(), "/a b on sda (x 7)".to_owned());
        let (before_kb, kb, at) = (8192, 16, 1);
        vec![
            Record::Head(Head { version: 1, boot: "e127-6973".to_owned() }),
            Record::Intent(entry.clone()),
            Record::Done(Entry { asked: None, before: Value::Bytes(5), ..entry }),
            Record::Closed(Knob::DirtyLimit),
            Record::Released(bdi, identity.clone()),
            Record::Forgotten,
            Record::File(FileEntry { file, bdi, identity, before_kb, kb, at, why, name }),
            Record::FileClosed(file),
        ]
    }

    #[test]
    fn records_read_back_from_one_line_each() {
        for record in records() {
            let line = record.line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(Record::parse(line.trim_end()), Some(record));
        }
    }

    #[test]
    fn no_prefix_and_no_changed_byte_passes_for_a_record() {
        for record in records() {
            let line = record.line();
            let line = line.trim_end();
            for end in 0..line.len() {
                assert_eq!(Record::parse(&line[..end]), None, "{line} up to {end}");
            }
            for at in 0..line.len() {
                let mut bytes = line.as_bytes().to_vec();
                bytes[at] ^= 1;
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    assert_eq!(Record::parse(text), None, "{text}");
                }
            }
        }
    }

    #[test]
    fn what_was_asked_is_ours_until_it_is_known_what_came_of_it() {
        let entry = entry();
        assert!(entry.is_ours(Value::Number(128)));
        assert!(entry.is_ours(Value::Number(4092)), "rounded to a page");
        assert!(!entry.is_ours(Value::Number(2560)));
        let done = Entry { last: Value::Number(4092), asked: None, ..entry };
        assert!(done.is_ours(Value::Number(4092)));
        assert!(!done.is_ours(Value::Number(4096)));
    }
}
