//! Writing a trace: six of the formats.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use crate::formats::SECTOR;
use crate::formats::msr::{EPOCH_TICKS, TICK};
use crate::formats::vscsi::VERSION_1;
use crate::record::{Names, Op, Record};

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFormat {
    /// fio's log, version 2: times in milliseconds.
    FioIologV2,
    /// fio's log, version 3: times in microseconds.
    FioIologV3,
    /// MSR Cambridge, CSV.
    Msr,
    /// Alibaba cloud disks, CSV.
    Alibaba,
    /// CloudPhysics virtual disks, version 1, binary: one disk.
    Vscsi,
    /// Text traces of MQSim.
    Mqsim,
}

/// Why a request cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The bytes could not be written.
    #[error("cannot write the trace")]
    Io(#[from] io::Error),
    /// The format has no way to say it.
    #[error("request {number}: {format} {why}")]
    Inexpressible {
        /// The request, counted from one.
        number: u64,
        /// The format.
        format: WriteFormat,
        /// What it cannot represent.
        why: String,
    },
}

/// Writes a trace.
pub struct Writer<W> {
    out: W,
    format: WriteFormat,
    /// Nanoseconds from 1970 to the first request.
    origin: u64,
    requests: u64,
    left_out: u64,
    /// Files of fio's log that are open.
    open: Vec<bool>,
    /// What the format calls each file or device that it has been given.
    spellings: Vec<Option<String>>,
    /// See `spellings`: whose each one is.
    spelled: HashMap<String, u32>,
    /// The one disk of a format that has one.
    disk: Option<u32>,
    /// The last `wait` of version 2, in milliseconds.
    waited: u64,
    /// The time of the last request.
    now: u64,
    line: Vec<u8>,
}

impl WriteFormat {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::FioIologV2, Self::FioIologV3, Self::Msr, Self::Alibaba, Self::Vscsi, Self::Mqsim];

    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FioIologV2 => "fio-iolog-v2",
            Self::FioIologV3 => "fio-iolog-v3",
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
            Self::Vscsi => "vscsi",
            Self::Mqsim => "mqsim",
        }
    }

    const fn is_iolog(self) -> bool {
        matches!(self, Self::FioIologV2 | Self::FioIologV3)
    }
}

impl fmt::Display for WriteFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<W: Write> Writer<W> {
    /// Begins a trace whose first request lies `origin` nanoseconds behind 1970.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(mut out: W, format: WriteFormat, origin: u64) -> Result<Self, WriteError> {
        match format {
            WriteFormat::FioIologV2 => out.write_all(b"fio version 2 iolog\n")?,
            WriteFormat::FioIologV3 => out.write_all(b"fio version 3 iolog\n")?,
            WriteFormat::Msr | WriteFormat::Alibaba | WriteFormat::Vscsi | WriteFormat::Mqsim => {}
        }
        Ok(Self {
            out,
            format,
            origin,
            requests: 0,
            left_out: 0,
            open: Vec::new(),
            spellings: Vec::new(),
            spelled: HashMap::new(),
            disk: None,
            waited: 0,
            now: 0,
            line: Vec::new(),
        })
    }

    /// Writes a request. One that moves no data is left out and counted if the format has no word
    /// for it.
    ///
    /// # Errors
    /// The bytes cannot be written, or the format cannot say what the request is.
    pub fn write(&mut self, record: &Record, names: &Names) -> Result<(), WriteError> {
        self.requests += 1;
        let is_sync = matches!(record.op, Op::Sync | Op::DataSync);
        let has_word = match self.format {
            WriteFormat::FioIologV2 | WriteFormat::FioIologV3 => {
                record.op.moves_data() || is_sync || record.op == Op::Flush
            }
            WriteFormat::Msr | WriteFormat::Alibaba | WriteFormat::Vscsi | WriteFormat::Mqsim => {
                matches!(record.op, Op::Read | Op::Write)
            }
        };
        if !has_word {
            self.left_out += 1;
            return Ok(());
        }
        self.line.clear();
        self.now = record.time;
        match self.format {
            WriteFormat::FioIologV2 | WriteFormat::FioIologV3 => {
                self.iolog(record, names.name(record.object))?;
            }
            WriteFormat::Msr => self.msr(record, names)?,
            WriteFormat::Alibaba => self.alibaba(record, names)?,
            WriteFormat::Vscsi => self.vscsi(record)?,
            WriteFormat::Mqsim => self.mqsim(record, names)?,
        }
        self.out.write_all(&self.line)?;
        Ok(())
    }

    /// Ends the trace; returns how many requests were left out.
    ///
    /// # Errors
    /// The bytes cannot be written.
    pub fn finish(mut self, names: &Names) -> Result<u64, WriteError> {
        if self.format.is_iolog() {
            for (number, _) in self.open.iter().enumerate().filter(|(_, open)| **open) {
                let name = names.name(number as u32);
                if self.format == WriteFormat::FioIologV3 {
                    write!(self.out, "{} ", self.now / 1_000)?;
                }
                writeln!(self.out, "{name} close")?;
            }
        }
        self.out.flush()?;
        Ok(self.left_out)
    }

    /// The files and devices that the format calls something else, with what it calls them.
    pub fn renamed<'a>(
        &'a self,
        names: &'a Names,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        let spelled = self.spellings.iter().enumerate();
        let spelled = spelled.filter_map(|(number, spelling)| Some((number, spelling.as_ref()?)));
        let named =
            spelled.map(|(number, spelling)| (names.name(number as u32), spelling.as_str()));
        named.filter(|(name, spelling)| {
            // MSR's is read with an underscore.
            let is_msr = self.format == WriteFormat::Msr;
            name != spelling && !(is_msr && name.rsplit_once('_') == spelling.rsplit_once(','))
        })
    }

    fn refuse<T>(&self, why: impl Into<String>) -> Result<T, WriteError> {
        let (number, format, why) = (self.requests, self.format, why.into());
        Err(WriteError::Inexpressible { number, format, why })
    }

    fn iolog(&mut self, record: &Record, name: &str) -> Result<(), WriteError> {
        const NAME_MAX: usize = 255;
        if name.is_empty() || name.contains(char::is_whitespace) || name.len() > NAME_MAX {
            return self.refuse(format!(
                "takes file names of 1 to {NAME_MAX} bytes without blanks, not '{name}'"
            ));
        }
        let action = match record.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            Op::DataSync => "datasync",
            Op::Sync | Op::Flush | Op::Open | Op::Close | Op::Truncate => "sync",
        };
        let has_stamp = self.format == WriteFormat::FioIologV3;
        let stamp = if has_stamp { format!("{} ", record.time / 1_000) } else { String::new() };
        let number = record.object as usize;
        if self.open.len() <= number {
            self.open.resize(number + 1, false);
        }
        if !std::mem::replace(&mut self.open[number], true) {
            write!(self.line, "{stamp}{name} add\n{stamp}{name} open\n")?;
        }
        let millis = record.time / 1_000_000;
        if self.format == WriteFormat::FioIologV2 && millis > self.waited {
            self.waited = millis;
            writeln!(self.line, "{name} wait {millis} 0")?;
        }
        let Record { offset, len, .. } = *record;
        writeln!(self.line, "{stamp}{name} {action} {offset} {len}")?;
        Ok(())
    }

    fn msr(&mut self, record: &Record, names: &Names) -> Result<(), WriteError> {
        let Record { time, offset, len, op, took, .. } = *record;
        let ticks = self.origin.saturating_add(time) / TICK + EPOCH_TICKS;
        let kind = if op == Op::Read { "Read" } else { "Write" };
        let took = took.unwrap_or(0) / TICK;
        write!(self.line, "{ticks},")?;
        self.spell(record, names)?;
        writeln!(self.line, ",{kind},{offset},{len},{took}")?;
        Ok(())
    }

    fn alibaba(&mut self, record: &Record, names: &Names) -> Result<(), WriteError> {
        self.spell(record, names)?;
        let Record { time, offset, len, op, .. } = *record;
        let letter = if op == Op::Read { 'R' } else { 'W' };
        let micros = self.origin.saturating_add(time) / 1_000;
        writeln!(self.line, ",{letter},{offset},{len},{micros}")?;
        Ok(())
    }

    fn mqsim(&mut self, record: &Record, names: &Names) -> Result<(), WriteError> {
        let (sector, sectors) = (self.sectors(record.offset)?, self.sectors(record.len)?);
        let kind = u8::from(record.op == Op::Read);
        write!(self.line, "{} ", record.time)?;
        self.spell(record, names)?;
        writeln!(self.line, " {sector} {sectors} {kind}")?;
        Ok(())
    }

    fn vscsi(&mut self, record: &Record) -> Result<(), WriteError> {
        if *self.disk.get_or_insert(record.object) != record.object {
            return self.refuse("has one disk; choose one of the volumes with --only");
        }
        let Ok(len) = u32::try_from(record.len) else {
            return self.refuse(format!("has 32 bits for a length, not {} bytes", record.len));
        };
        let sector = self.sectors(record.offset)?;
        let micros = self.origin.saturating_add(record.time) / 1_000;
        let command: u16 = if record.op == Op::Read { 0x28 } else { 0x2a };
        let serial = self.requests as u32 | 1 << 31;
        for word in [serial, len, 0] {
            self.line.extend_from_slice(&word.to_le_bytes());
        }
        self.line.extend_from_slice(&command.to_le_bytes());
        self.line.extend_from_slice(&VERSION_1.to_le_bytes());
        self.line.extend_from_slice(&sector.to_le_bytes());
        self.line.extend_from_slice(&micros.to_le_bytes());
        Ok(())
    }

    /// Adds to the line what the format calls the file or device of a request, and no other one.
    fn spell(&mut self, record: &Record, names: &Names) -> Result<(), WriteError> {
        let number = record.object as usize;
        if self.spellings.len() <= number {
            self.spellings.resize(number + 1, None);
        }
        if self.spellings[number].is_none() {
            self.spellings[number] = Some(self.new_spelling(record.object, names)?);
        }
        if let Some(spelling) = &self.spellings[number] {
            self.line.extend_from_slice(spelling.as_bytes());
        }
        Ok(())
    }

    fn new_spelling(&mut self, object: u32, names: &Names) -> Result<String, WriteError> {
        let name = names.name(object);
        let spelling = if self.format == WriteFormat::Msr {
            host_and_disk(name)
        } else if name.parse::<u32>().is_ok() {
            name.to_owned()
        } else {
            let mut free = (object..).map(|number| number.to_string());
            free.find(|number| !self.spelled.contains_key(number)).unwrap_or_default()
        };
        match self.spelled.insert(spelling.clone(), object) {
            Some(other) => {
                let other = names.name(other);
                self.refuse(format!("calls both '{other}' and '{name}' '{spelling}'"))
            }
            None => Ok(spelling),
        }
    }

    fn sectors(&self, bytes: u64) -> Result<u64, WriteError> {
        if bytes.is_multiple_of(SECTOR) {
            Ok(bytes / SECTOR)
        } else {
            self.refuse(format!("counts sectors of {SECTOR} bytes, and {bytes} is no multiple"))
        }
    }
}

/// What MSR's format calls a disk: `src1_2` is disk 2 of the host src1.
fn host_and_disk(name: &str) -> String {
    let is_number = |disk: &str| !disk.is_empty() && disk.bytes().all(|b| b.is_ascii_digit());
    let split = name.rsplit_once('_').filter(|(host, disk)| !host.is_empty() && is_number(disk));
    let (host, disk) = split.unwrap_or((name, "0"));
    // A name with commas, such as the number of a device, has them replaced.
    format!("{},{disk}", host.replace(',', ":"))
}
