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
use crate::format::{LineParser, Parsed};
use crate::formats::intern;
use crate::record::{Flags, Names, Op, Record};
use crate::text::{decimal, seconds};

use call::Call;
use files::{Description, Files, Kind};

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
}

/// The most calls that may not have returned.
const PENDING_MAX: usize = 1 << 16;

/// Below this, a time in seconds is relative to the line before (`-r`), or of a day (`-t`).
const SECONDS_OF_A_DAY: u64 = 86_400;

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
            return Ok((hours * 3_600 + minutes * 60) * 1_000_000_000 + second % 86_400_000_000_000);
        }
        let time = seconds("time", word)?;
        if time >= SECONDS_OF_A_DAY * 1_000_000_000 {
            return Ok(time);
        }
        self.relative = self.relative.saturating_add(time);
        Ok(self.relative)
    }

    fn call(&mut self, (pid, time): (u32, u64), text: &[u8], names: &mut Names) -> Parsed {
        let Some(call) = Call::split(text)? else { return Ok(None) };
        let Some(result) = call.result.filter(|result| *result >= 0) else { return Ok(None) };
        let result = result as u64;
        let moved = |op| Some((op, result));
        let (what, position) = match call.name {
            b"read" | b"readv" | b"sendfile" | b"sendfile64" => (moved(Op::Read), None),
            b"write" | b"writev" => (moved(Op::Write), None),
            b"pread64" | b"pread" | b"preadv" | b"preadv2" => {
                (moved(Op::Read), Some(call.number(3)?))
            }
            b"pwrite64" | b"pwrite" | b"pwritev" | b"pwritev2" => {
                (moved(Op::Write), Some(call.number(3)?))
            }
            b"fsync" => (Some((Op::Sync, 0)), Some(0)),
            b"fdatasync" => (Some((Op::DataSync, 0)), Some(0)),
            b"ftruncate" | b"ftruncate64" => (Some((Op::Truncate, 0)), Some(call.number(1)?)),
            b"copy_file_range" => (moved(Op::Read), None),
            _ => (None, None),
        };
        let Some((op, len)) = what else {
            return self.other(&call, (pid, time), result, names);
        };
        // The source of these is their second or first argument.
        let source = usize::from(call.name.starts_with(b"sendfile"));
        let argument = call.argument(source)?;
        let Some(mut file) = self.files.lookup(pid, argument, names)? else { return Ok(None) };
        let offset = match position {
            Some(position) => position,
            None => {
                if file.kind() == Kind::Other {
                    return Ok(None);
                }
                file.advance(len)?
            }
        };
        let Description { object, flags, .. } = *file.description();
        let Kind::File = file.kind() else { return Ok(None) };
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
