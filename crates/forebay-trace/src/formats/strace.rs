//! File calls as strace prints them.
//!
//! ```text
//!   strace -f -ttt -T -y -o FILE ...
//!
//!   30164 1795232544.379847 write(3</data/f2>, "\0\0"..., 4096 <unfinished ...>
//!   30165 1795232544.379861 <... openat resumed>) = 4</data/f1> <0.000038>
//!   30164 1795232544.379902 <... write resumed>) = 4096 <0.000042>
//!   30164 1795232544.380045 pread64(3</data/f2>, "\0"..., 100, 4000) = 96 <0.000010>
//!   30165 1795232544.381912 +++ exited with 0 +++
//! ```
//!
//! Pids, times (`-t`, `-tt`, `-ttt`, `-r`), durations (`-T`) and paths (`-y`) may each be absent. A
//! request has the bytes that the call returned. Positions of descriptors are followed from the
//! call that opened them; a descriptor that was open before the trace began has none until an
//! `lseek`.

use std::collections::HashMap;

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, intern};
use crate::record::{Flags, Names, Op, Record};
use crate::text::{decimal, seconds};

use call::Call;
use files::{Description, Files, Kind, is_of_the_kernel};

mod call;
mod files;

#[derive(Default)]
pub(crate) struct Strace {
    files: Files,
    /// The beginnings of calls that have not returned, by process, with their times.
    pending: HashMap<u32, (u64, Vec<u8>)>,
    /// The sum of relative times (`-r`).
    relative: u64,
    mapped_bytes: u64,
    rings: u64,
    /// The time of day of the line before, over as many days as the trace has.
    of_day: Option<u64>,
    /// The write of a call that also read.
    second: Option<Record>,
}

/// Where a call reads or writes.
#[derive(Clone, Copy)]
enum Place {
    /// At an offset that it names.
    At(u64),
    /// Where the descriptor is, which moves.
    Next,
}

impl From<Option<u64>> for Place {
    fn from(offset: Option<u64>) -> Self {
        offset.map_or(Self::Next, Self::At)
    }
}

/// The most calls that may not have returned.
const PENDING_MAX: usize = 1 << 16;

/// Below this, a time in nanoseconds is relative to the line before (`-r`), or of a day (`-t`).
const DAY: u64 = 86_400_000_000_000;

impl LineParser for Strace {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        let mut rest = line.trim_ascii();
        if rest.is_empty() {
            return Ok(None);
        }
        let pid = pid(&mut rest)?;
        let time = self.time(&mut rest)?;
        if let Some(event) = rest.strip_prefix(b"+++ ") {
            if event.starts_with(b"exited") || event.starts_with(b"killed") {
                self.files.exit(pid);
                self.pending.remove(&pid);
            }
            return Ok(None);
        }
        if rest.starts_with(b"---") || rest.starts_with(b"strace: ") {
            return Ok(None);
        }
        if let Some(begun) = rest.strip_suffix(b"<unfinished ...>") {
            if self.pending.len() >= PENDING_MAX {
                return Err(Fault::new("call", "at most 65536 calls that have not returned", rest));
            }
            self.pending.insert(pid, (time, begun.trim_ascii_end().to_vec()));
            return Ok(None);
        }
        if let Some(resumed) = rest.strip_prefix(b"<... ") {
            let Some(at) = memchr::memmem::find(resumed, b" resumed>") else {
                return Err(Fault::new("call", "'resumed>' behind the name of a call", rest));
            };
            let Some((begun, mut text)) = self.pending.remove(&pid) else {
                return Err(Fault::new("call", "a call that was begun before", rest));
            };
            text.extend_from_slice(&resumed[at + b" resumed>".len()..]);
            return self.call((pid, begun), &text, names);
        }
        self.call((pid, time), rest, names)
    }

    fn second(&mut self) -> Option<Record> {
        self.second.take()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.mapped_bytes > 0 {
            warnings.push(format!(
                "{} bytes of files were mapped; accesses through mappings are not in the trace",
                self.mapped_bytes
            ));
        }
        if self.rings > 0 {
            warnings.push("io_uring was used; its requests are not in the trace".to_owned());
        }
        warnings
    }
}

impl Strace {
    /// Takes the time off the front of a line, if there is one.
    fn time(&mut self, rest: &mut &[u8]) -> Result<u64, Fault> {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let is_time = word.first().is_some_and(u8::is_ascii_digit)
            && word.iter().all(|byte| byte.is_ascii_digit() || b".:".contains(byte));
        if !is_time {
            return Ok(self.relative);
        }
        *rest = behind.trim_ascii_start();
        let mut parts = word.splitn(3, |byte| *byte == b':');
        let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        if let (Some(minutes), Some(last)) = (second, third) {
            let of_day = decimal(first).zip(decimal(minutes)).filter(|(h, m)| *h < 25 && *m < 60);
            let (hours, minutes) = of_day.ok_or_else(|| Fault::new("time", "HH:MM:SS", word))?;
            let second = seconds("time", last)?;
            let time = (hours * 3_600 + minutes * 60) * 1_000_000_000 + second % DAY;
            return Ok(self.on_its_day(time));
        }
        let time = seconds("time", word)?;
        if time >= DAY {
            return Ok(time);
        }
        self.relative = self.relative.saturating_add(time);
        Ok(self.relative)
    }

    /// A time of day, on the day that brings it nearest to the line before.
    fn on_its_day(&mut self, time: u64) -> u64 {
        let last = self.of_day.unwrap_or(time);
        let same_day = last / DAY * DAY + time;
        let time = if same_day + DAY / 2 < last {
            same_day + DAY
        } else if same_day > last + DAY / 2 {
            same_day.saturating_sub(DAY)
        } else {
            same_day
        };
        self.of_day = Some(time);
        time
    }

    fn call(&mut self, (pid, time): (u32, u64), text: &[u8], names: &mut Names) -> Parsed {
        let Some(call) = Call::split(text)? else { return Ok(None) };
        let Some(result) = call.result.filter(|result| *result >= 0) else { return Ok(None) };
        let result = result as u64;
        let who = (pid, time);
        let moved = |op| (op, result);
        let (what, position) = match call.name {
            b"read" | b"readv" => (moved(Op::Read), Place::Next),
            b"write" | b"writev" => (moved(Op::Write), Place::Next),
            b"pread64" | b"pread" | b"preadv" => (moved(Op::Read), Place::At(call.number(3)?)),
            b"pwrite64" | b"pwrite" | b"pwritev" => (moved(Op::Write), Place::At(call.number(3)?)),
            b"preadv2" => (moved(Op::Read), call.position(3)?.into()),
            b"pwritev2" => (moved(Op::Write), call.position(3)?.into()),
            b"fsync" => ((Op::Sync, 0), Place::At(0)),
            b"fdatasync" => ((Op::DataSync, 0), Place::At(0)),
            b"ftruncate" | b"ftruncate64" => ((Op::Truncate, 0), Place::At(call.number(1)?)),
            b"sendfile" | b"sendfile64" => {
                let (from, to) = ((1, call.pointed(2)?), (0, None));
                return self.copy(&call, who, result, [from, to], names);
            }
            b"copy_file_range" | b"splice" => {
                let (from, to) = ((0, call.pointed(1)?), (2, call.pointed(3)?));
                return self.copy(&call, who, result, [from, to], names);
            }
            _ => return self.other(&call, who, result, names),
        };
        self.request(&call, who, what, (0, position), names)
    }

    /// A call that reads one descriptor and writes another: their arguments, each with the place
    /// that it names.
    fn copy(
        &mut self,
        call: &Call<'_>,
        who: (u32, u64),
        len: u64,
        [from, to]: [(usize, Option<u64>); 2],
        names: &mut Names,
    ) -> Parsed {
        let read = self.request(call, who, (Op::Read, len), (from.0, from.1.into()), names)?;
        let write = self.request(call, who, (Op::Write, len), (to.0, to.1.into()), names)?;
        if read.is_none() {
            return Ok(write);
        }
        self.second = write;
        Ok(read)
    }

    /// A request to the file of a descriptor; nothing of a pipe or a socket.
    fn request(
        &mut self,
        call: &Call<'_>,
        (pid, time): (u32, u64),
        (op, len): (Op, u64),
        (argument, place): (usize, Place),
        names: &mut Names,
    ) -> Parsed {
        let argument = call.argument(argument)?;
        let Some(mut file) = self.files.lookup(pid, argument, names)? else { return Ok(None) };
        let Kind::File = file.kind() else { return Ok(None) };
        let offset = match place {
            Place::At(offset) => offset,
            Place::Next => file.advance(op, len)?,
        };
        let Description { object, flags, .. } = *file.description();
        let durable = call.flag(b"RWF_DSYNC") || call.flag(b"RWF_SYNC");
        let flags = if durable { flags.with(Flags::DURABLE) } else { flags };
        let took = call.took;
        Ok(Some(Record { time, took, stream: pid, object, op, flags, offset, len }))
    }

    fn open(
        &mut self,
        call: &Call<'_>,
        (pid, time): (u32, u64),
        result: u64,
        names: &mut Names,
    ) -> Parsed {
        let path = call.argument(usize::from(call.name.starts_with(b"openat")))?;
        let flags = [
            (&b"O_DIRECT"[..], Flags::DIRECT),
            (b"O_SYNC", Flags::DURABLE),
            (b"O_DSYNC", Flags::DURABLE),
        ];
        let set = flags.iter().filter(|(name, _)| call.flag(name));
        let set = set.fold(Flags::default(), |all, (_, flag)| all.with(*flag));
        let (append, cloexec) = (call.flag(b"O_APPEND"), call.flag(b"O_CLOEXEC"));
        // With -y, the result names the file as the kernel does.
        let shown = call.decoration.unwrap_or_else(|| path.trim_quotes());
        if is_of_the_kernel(shown) {
            self.files.open(pid, result, Description::OTHER, cloexec)?;
            return Ok(None);
        }
        let object = intern(names, shown)?;
        let opened = Description::opened(object, set, append);
        self.files.open(pid, result, opened, cloexec)?;
        if call.flag(b"O_TRUNC") || call.name == b"creat" {
            self.files.cut(object);
        }
        let (op, flags, offset, len, took) = (Op::Open, set, 0, 0, call.took);
        Ok(Some(Record { time, took, stream: pid, object, op, flags, offset, len }))
    }

    /// A call that moves no data of a file.
    fn other(
        &mut self,
        call: &Call<'_>,
        (pid, time): (u32, u64),
        result: u64,
        names: &mut Names,
    ) -> Parsed {
        match call.name {
            b"open" | b"openat" | b"openat2" | b"creat" => {
                return self.open(call, (pid, time), result, names);
            }
            b"close" => {
                let Some(file) = self.files.close(pid, call.argument(0)?) else { return Ok(None) };
                let (op, flags, took) = (Op::Close, Flags::default(), call.took);
                let object = file.object;
                let record =
                    Record { time, took, stream: pid, object, op, flags, offset: 0, len: 0 };
                return Ok(Some(record));
            }
            b"lseek" | b"_llseek" => {
                if let Some(mut file) = self.files.lookup(pid, call.argument(0)?, names)? {
                    file.seek(result);
                }
            }
            b"dup" | b"dup2" | b"dup3" => {
                let cloexec = call.flag(b"O_CLOEXEC");
                self.files.duplicate(pid, call.argument(0)?, result, cloexec)?;
            }
            b"fcntl" | b"fcntl64" if call.flag(b"F_DUPFD") || call.flag(b"F_DUPFD_CLOEXEC") => {
                let cloexec = call.flag(b"F_DUPFD_CLOEXEC");
                self.files.duplicate(pid, call.argument(0)?, result, cloexec)?;
            }
            b"clone" | b"clone3" | b"fork" | b"vfork" => {
                let child = u32::try_from(result).unwrap_or(0);
                self.files.fork(pid, child, call.flag(b"CLONE_FILES"))?;
            }
            b"execve" | b"execveat" => self.files.exec(pid),
            b"mmap" | b"mmap2" if !call.flag(b"MAP_ANONYMOUS") => {
                self.mapped_bytes = self.mapped_bytes.saturating_add(call.number(1)?);
            }
            b"io_uring_enter" => self.rings += 1,
            // Pairs of descriptors are in an argument.
            b"pipe" | b"pipe2" | b"socketpair" => {
                for descriptor in call.pair() {
                    self.files.open(pid, descriptor, Description::OTHER, false)?;
                }
            }
            b"socket" | b"accept" | b"accept4" | b"epoll_create" | b"epoll_create1"
            | b"eventfd" | b"eventfd2" | b"timerfd_create" | b"signalfd" | b"signalfd4"
            | b"inotify_init" | b"inotify_init1" | b"memfd_create" | b"io_uring_setup"
            | b"userfaultfd" | b"perf_event_open" | b"pidfd_open" => {
                self.files.open(pid, result, Description::OTHER, false)?;
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Takes the pid off the front of a line: `30164 `, or `[pid 30164] ` without `-o`.
fn pid(rest: &mut &[u8]) -> Result<u32, Fault> {
    let (digits, behind) = match rest.strip_prefix(b"[pid ") {
        Some(inside) => {
            let Some(end) = memchr::memchr(b']', inside) else {
                return Err(Fault::new("pid", "a number in [pid ...]", rest));
            };
            (inside[..end].trim_ascii(), &inside[end + 1..])
        }
        None => {
            let end = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            // Digits with a point or a colon behind them are a time.
            if end == 0 || !rest.get(end).is_some_and(u8::is_ascii_whitespace) {
                return Ok(0);
            }
            rest.split_at(end)
        }
    };
    *rest = behind.trim_ascii_start();
    crate::text::short("pid", digits)
}

/// What stands between quotes.
trait TrimQuotes {
    fn trim_quotes(&self) -> &[u8];
}

impl TrimQuotes for [u8] {
    fn trim_quotes(&self) -> &[u8] {
        self.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(self)
    }
}
